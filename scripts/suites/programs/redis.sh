#!/usr/bin/env bash
# Redis: build, then those of its own tests that load, save, rewrite and recover files, and
# three of its data types. (The whole of them takes most of an hour and tests the network.)
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"

tests=(unit/type/string unit/type/hash unit/type/incr unit/other unit/aofrw unit/dump
    integration/rdb integration/aof integration/aof-multi-part
    integration/shutdown integration/logging integration/convert-ziplist-hash-on-load)

need gcc make libc6-dev pkg-config tcl procps
unpack redis redis
cd redis
step build
make -j2 MALLOC=libc V=1
step test
chosen=()
for test in "${tests[@]}"; do chosen+=(--single "$test"); done
./runtest --clients 2 "${chosen[@]}" | tee "$LOGS/redis-tests"
grep -q 'All tests passed without errors' "$LOGS/redis-tests" || die "redis's tests"
note "redis $version: $(grep -c 'ok[^]]*\]: ' "$LOGS/redis-tests") tests of ${#tests[@]} files ok"
