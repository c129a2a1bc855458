#!/usr/bin/env bash
# Git: build, then those of its own tests that live on the file system: index, refs, packs,
# worktrees, clone, gc, clean, case and symlinks.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"

tests=(t0001 t0021 t0050 t0060 t1006 t1050 t1400 t1450 t1509 t2000 t2030 t2400 t3200 t3600 t3903
    t4000 t5300 t5304 t5310 t5510 t5601 t6500 t7001 t7063 t7300 t7508 t7700)

need gcc make libc6-dev libcurl4-openssl-dev libexpat1-dev libssl-dev zlib1g-dev perl
reachable
unpack git git
given git
cd git
step build
plainly make -j2 NO_GETTEXT=1 NO_TCLTK=1 CFLAGS="-O1"
step test
chosen=()
for test in "${tests[@]}"; do chosen+=("$(cd t && echo "$test"-*.sh)"); done
plainly make -C t NO_GETTEXT=1 NO_TCLTK=1 DEFAULT_TEST_TARGET=prove GIT_PROVE_OPTS="-j2" \
    T="${chosen[*]}" >"$LOGS/git-tests" 2>&1 || { tail -n 60 "$LOGS/git-tests"; die "git's tests"; }
grep -q '^Result: PASS' "$LOGS/git-tests" || die "git's tests"
note "git $version: $(sed -n 's/^Files=\([0-9]*\), Tests=\([0-9]*\),.*/\2 tests of \1 files/p' \
    "$LOGS/git-tests") ok"
