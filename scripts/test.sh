#!/usr/bin/env bash
# Every test: those of the workspace, schedules of races, and pjdfstest on a mount.
#
#   scripts/test.sh
#
# As root on a machine with /dev/fuse everything runs. Otherwise tests that mount say that they are
# left out; with ESKER_CI=1 they fail.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
"$here/scripts/setup.sh" test
cd "$here"

say() { printf '\n== %s\n' "$*"; }

say "tests of the workspace"
# Coming from stable-fs with the rest: by itself it would build other features of what both need. So would the tests
# that mount, if they built the command for themselves: they take the one that is built before they run.
together=(--workspace --locked --features esker-embedded/import)
esker=$(scripts/target.sh)/debug/esker
ESKER_BIN=$esker cargo test "${together[@]}" --no-fail-fast

say "schedules"
cargo test --locked -p esker --features shuttle --test schedules

say "pjdfstest on a mount in memory"
if [ "$(id -u)" != 0 ] || [ ! -e /dev/fuse ]; then
    echo "LEFT OUT: pjdfstest needs root and /dev/fuse"
    [ -z "${ESKER_CI:-}" ]
    exit
fi
cargo build --quiet "${together[@]}" --bin esker
dir=$(mktemp -d "${TMPDIR:-/tmp}/esker-test-XXXXXX")
image=$dir.esker
volume=$dir.vol
leave() {
    if mountpoint -q "$dir"; then "$esker" umount "$dir" >/dev/null || "$esker" umount -l "$dir"; fi
}
cleanup() {
    leave
    rmdir "$dir"
    rm -f "$image" "$volume"
}
trap cleanup EXIT
"$esker" mount mem: "$dir" -o allow_other,mode=755
scripts/suites/pjdfstest.sh "$dir"
leave

say "pjdfstest above an image"
"$esker" pack docs -o "$image" --level 1
"$esker" mount "$image" "$dir" --overlay -o allow_other,relatime,mode=755,uid=0,gid=0
scripts/suites/pjdfstest.sh "$dir"
leave

say "pjdfstest on a volume"
"$esker" mkfs "$volume" --size 512M
"$esker" mount "$volume" "$dir" -o allow_other,relatime
chmod 755 "$dir"
scripts/suites/pjdfstest.sh "$dir"
leave
"$esker" check "$volume"
