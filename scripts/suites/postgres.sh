#!/usr/bin/env bash
# Kills the server of a volume, and with it Postgres, under pgbench, again and again, and looks whether Postgres
# recovers by itself and has everything that it said was committed.
#
#   sudo scripts/suites/postgres.sh ESKER DIR [ROUNDS]
#
# ESKER is the command, DIR a directory for the volume and its mount point; by default there are 20 rounds. Postgres runs
# as the user postgres, and is looked for in /usr/lib/postgresql. Each round works for one to two seconds, kills the server
# of the volume and then Postgres with SIGKILL, checks the volume, mounts it again and starts Postgres. Then the sums of
# pgbench's four tables must be the same, every index must hold what its table does (amcheck, where it is installed), and
# every row that a client was told is committed must be there.
#
# Exit status: 0 when nothing was lost.
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: $0 ESKER DIR [ROUNDS]" >&2; exit 2; }
esker=$(realpath -- "$1")
lab=$(realpath -- "$2")
rounds=${3:-20}
volume=$lab/postgres.vol
mnt=$lab/postgres.mnt
safe=$lab/postgres.safe
sockets=$lab/postgres.run
data=$mnt/data
programs=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -1)
[ -n "$programs" ] || { echo "postgres: no Postgres in /usr/lib/postgresql" >&2; exit 2; }
options=commit=1,allow_other,default_permissions
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/volume.sh"

as() { # COMMAND...: as the user postgres
    (cd / && exec setpriv --reuid postgres --regid postgres --init-groups -- "$@")
}

sql() {
    as psql -h "$sockets" -qAtX -v ON_ERROR_STOP=1 -d postgres "$@"
}

kill_postgres() {
    local main
    main=$(head -1 "$safe/pid" 2>/dev/null || true)
    [ -n "$main" ] || return 0
    # Its processes end when the first of them is gone.
    kill -9 "$main" 2>/dev/null || true
    for _ in $(seq 100); do
        if ! pgrep -P "$main" >/dev/null && ! kill -0 "$main" 2>/dev/null; then break; fi
        sleep 0.05
    done
    rm -f "$safe/pid"
}

cleanup() {
    kill_postgres
    take_down
    rm -rf "$volume" "$mnt" "$safe" "$sockets"
}
trap cleanup EXIT

start() {
    # Nobody of before lives: what is left of its lock is stale.
    rm -f "$data/postmaster.pid" "$sockets"/.s.*
    as "$programs/pg_ctl" -D "$data" -w -t 60 -l "$safe/log" \
        -o "-k $sockets -c listen_addresses= -c shared_buffers=32MB" start >/dev/null
    head -1 "$data/postmaster.pid" >"$safe/pid"
}

# Rows 1, 2, 3, ... each its own transaction; the last that is known to be committed goes to a file elsewhere.
rows() {
    local number
    number=$(sql -c 'SELECT coalesce(max(n), 0) FROM told')
    while true; do
        number=$((number + 1))
        sql -c "INSERT INTO told VALUES ($number)" || return 0
        echo "$number" >"$safe/told"
    done
}

sound() {
    local sums told
    sums=$(sql -c 'SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),
        (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)' | tr '|' '\n')
    [ "$(sort -u <<<"$sums" | wc -l)" = 1 ] || { echo "postgres: sums differ: $sums" >&2; exit 1; }
    if [ -e "$safe/amcheck" ]; then as "$programs/pg_amcheck" -h "$sockets" --heapallindexed -d postgres; fi
    told=$(cat "$safe/told" 2>/dev/null || echo 0)
    [ "$(sql -c 'SELECT count(*) FROM told')" -ge "$told" ] || { echo "postgres: rows are lost, $told were told" >&2; exit 1; }
}

mkdir -p "$mnt" "$safe" "$sockets"
chmod 755 "$lab"
chown postgres "$safe" "$sockets"
"$esker" mkfs "$volume" --force --size 4G
bring_up "$options"
mkdir "$data"
chown postgres "$data"
chmod 700 "$data"
as "$programs/initdb" -D "$data" -A trust --no-instructions >/dev/null
start
as pgbench -h "$sockets" -q -i -s 2 postgres 2>/dev/null
sql -c 'CREATE TABLE told (n bigint PRIMARY KEY)'
if sql -c 'CREATE EXTENSION amcheck' 2>/dev/null; then touch "$safe/amcheck"; fi
"$esker" sync "$mnt"
for round in $(seq "$rounds"); do
    as pgbench -h "$sockets" -c 4 -T 60 postgres >/dev/null 2>&1 &
    bench=$!
    rows 2>/dev/null &
    client=$!
    sleep "1.$((RANDOM % 10))"
    kill -9 "$server"
    kill_postgres
    wait "$server" "$bench" "$client" 2>/dev/null || true
    umount -l "$mnt"
    "$esker" check "$volume"
    bring_up "$options"
    start
    sound
    echo "round $round of $rounds: $(sql -c 'SELECT count(*) FROM pgbench_history') transactions, nothing is lost"
done
