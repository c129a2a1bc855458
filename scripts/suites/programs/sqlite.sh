#!/usr/bin/env bash
# SQLite: build, then its fuzz cases and its "quicktest" (some 100,000 tests, journals and WAL).
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"

need gcc make libc6-dev tcl tcl-dev libreadline-dev zlib1g-dev
reachable
unpack sqlite3 sqlite
given sqlite
cd sqlite
step build
plainly ./configure --quiet CFLAGS="-O1"
plainly make -j2
plainly make -j2 testfixture fuzzcheck sessionfuzz
step fuzz
plainly make fuzztest
step quicktest
plainly make quicktest >"$LOGS/sqlite-tests" 2>&1 ||
    { tail -n 60 "$LOGS/sqlite-tests"; die "quicktest"; }
note "sqlite $version: fuzztest ok; quicktest:" \
    "$(grep -E '^[0-9]+ errors out of [0-9]+ tests' "$LOGS/sqlite-tests")"
