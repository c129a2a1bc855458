#!/usr/bin/env bash
# Runs what proves a mount right in every mode that a mount can be in: transport x writeback x threads.
#
#   sudo scripts/suites/modes.sh [MODE...]
#
# MODE is mount options such as transport=ring,no_writeback,threads=1; all eight where none is given,
# half an hour. In each: the tests of the workshop that mount (scripts against the model and tmpfs,
# fsx, wars, full and killed mounts), then pjdfstest. FUSE over io_uring is switched on for the run
# where the kernel has it; where it does not, the modes of the ring are left out, and it is said.
#
# Prints a line for each; exit status: 0 when nothing failed.
# shellcheck disable=SC2317 # functions are called by traps and by name
set -euo pipefail

here=$(cd "$(dirname "$0")/../.." && pwd)
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
cd "$here"
[ "$(id -u)" = 0 ] || { echo "modes: must run as root: tests mount" >&2; exit 2; }

scripts/setup.sh test
cargo build --quiet --release --locked -p esker-cli
cargo test --quiet --release --locked -p esker-proof --no-run
target=$(scripts/target.sh)
esker=$target/release/esker
export ESKER_BIN=$esker ESKER_CI=1
work=$(mktemp -d "${TMPDIR:-/tmp}/esker-modes-XXXXXX")
# Other users go through it, too.
chmod 755 "$work"
mkdir "$work/mount"

uring=/sys/module/fuse/parameters/enable_uring
before=$(cat "$uring" 2>/dev/null || true)
transports=(device)
if [ -n "$before" ] && echo Y >"$uring"; then
    transports+=(ring)
else
    echo "modes: this kernel has no FUSE over io_uring: only the device"
fi

cleanup() {
    if mountpoint -q "$work/mount"; then
        "$esker" umount "$work/mount" >/dev/null || "$esker" umount -l "$work/mount"
    fi
    rm -rf --one-file-system "$work"
    if [ -n "$before" ]; then echo "$before" >"$uring"; fi
}
trap cleanup EXIT

modes=("$@")
if [ $# = 0 ]; then
    for transport in "${transports[@]}"; do
        for writeback in writeback no_writeback; do
            for threads in 1 4; do
                modes+=("transport=$transport,$writeback,threads=$threads")
            done
        done
    done
fi

workshop() {
    ESKER_OPTIONS=$1 cargo test --quiet --release --locked -p esker-proof \
        --test exams -- bad_days:: blocks:: fsx:: kernel:: model::
}

posix() {
    "$esker" mount mem: "$work/mount" -o "allow_other,mode=755,$1" || return
    local status=0
    scripts/suites/pjdfstest.sh "$work/mount" || status=$?
    "$esker" umount "$work/mount" >/dev/null && return "$status"
}

failed=0
for mode in "${modes[@]}"; do
    for what in workshop posix; do
        # Not as a condition of its own: that would take errexit away within.
        status=0
        begin=$SECONDS
        ("$what" "$mode") >"$work/log" 2>&1 || status=$?
        counts=$(grep -hoE '[0-9]+ passed; 0 failed|[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped' "$work/log" |
            sed 's/; 0 failed//' | paste -sd'+' | sed 's/+/ + /g' || true)
        if [ "$status" = 0 ]; then
            echo "ok    $mode: $what: $counts ($((SECONDS - begin)) s)"
        else
            failed=1
            echo "FAIL  $mode: $what ($((SECONDS - begin)) s)"
            tail -n 60 "$work/log"
        fi
    done
done
exit "$failed"
