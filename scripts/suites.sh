#!/usr/bin/env bash
# Builds real programs on a mount in memory and runs their own tests there; see
# scripts/suites/programs.sh.
#
#   sudo scripts/suites.sh [NAME...]
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
"$here/scripts/setup.sh" test
cd "$here"
cargo build --quiet --release --locked -p esker-cli
target=$(scripts/target.sh)
esker=$target/release/esker
dir=$(mktemp -d "${TMPDIR:-/tmp}/esker-suites-XXXXXX")
cleanup() {
    if mountpoint -q "$dir"; then "$esker" umount "$dir" >/dev/null || "$esker" umount -l "$dir"; fi
    rmdir "$dir"
}
trap cleanup EXIT
"$esker" mount mem: "$dir" -o allow_other,mode=755
scripts/suites/programs.sh "$dir" "$@"
