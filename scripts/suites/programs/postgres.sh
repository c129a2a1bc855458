#!/usr/bin/env bash
# PostgreSQL: build and `make check` (a new cluster and the parallel regression tests), then a
# cluster under load that is killed and must recover.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"

need gcc make libc6-dev bison flex perl libreadline-dev zlib1g-dev
reachable
unpack postgresql-15 postgres
given postgres
cd postgres
step build
plainly ./configure --quiet --prefix="$BUILD/root" CFLAGS="-O1"
plainly make -j2 -s
step check
plainly make check >"$LOGS/postgres-check" 2>&1 || {
    tail -n 60 "$LOGS/postgres-check"
    cp src/test/regress/regression.* "$LOGS/" || true
    die "make check"
}
passed=$(sed -n 's/.*All \([0-9]*\) tests passed.*/\1/p' "$LOGS/postgres-check")
[ -n "$passed" ] || die "make check"

step "load and crash"
make -s install >/dev/null
make -s -C contrib/pgbench install >/dev/null 2>&1 || make -s -C src/bin/pgbench install >/dev/null
mkdir "$BUILD/cluster" "$SCRATCH/socket"
given "$BUILD/cluster" "$SCRATCH/socket"
bin=$BUILD/root/bin
export PGDATA=$BUILD/cluster PGHOST=$SCRATCH/socket PGUSER=nobody PGDATABASE=postgres
[ "$(id -u)" = 0 ] || PGUSER=$(id -un)
server() {
    plainly "$bin/pg_ctl" -w -t 120 -l "$PGDATA/server.log" \
        -o "-c listen_addresses='' -k '$PGHOST' -c checkpoint_timeout=30" "$@" >/dev/null
}
plainly "$bin/initdb" --data-checksums --auth=trust -N >/dev/null
server start
trap 'server stop -m immediate || true' EXIT
plainly "$bin/pgbench" -q -i -s 5 >/dev/null 2>&1
for round in 1 2 3; do
    plainly "$bin/pgbench" -n -c 4 -j 2 -T 15 >"$SCRATCH/bench" 2>&1 &
    client=$!
    sleep 8
    server stop -m immediate
    wait "$client" || true
    server start
    sums=$(plainly "$bin/psql" -Atc "SELECT (SELECT sum(abalance) FROM pgbench_accounts)
        = (SELECT sum(delta) FROM pgbench_history) AND (SELECT sum(bbalance) FROM
        pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)")
    [ "$sums" = t ] || die "after crash $round the balances do not agree with the history"
done
moves=$(plainly "$bin/psql" -Atc "SELECT count(*) FROM pgbench_history")
server stop -m fast
trap - EXIT
plainly "$bin/pg_checksums" --check >"$LOGS/postgres-checksums"
note "postgres $version: make check, all $passed tests passed; 3 crashes under load recovered," \
    "$moves transactions, checksums ok"
