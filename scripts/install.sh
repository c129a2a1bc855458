#!/usr/bin/env bash
# Builds the command esker and installs it, through sudo where the directory belongs to root.
#
#   scripts/install.sh [PREFIX]     to PREFIX/bin, by default /usr/local/bin
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
bin=$(realpath -m -- "${1:-/usr/local}/bin")
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
command -v cargo >/dev/null || {
    echo "esker: Rust is not installed: https://rustup.rs says how, then try again" >&2
    exit 1
}

cd "$here"
cargo build --quiet --release --locked -p esker-cli
target=$(scripts/target.sh)

# The nearest directory above that is there decides who may write.
present=$bin
while [ ! -e "$present" ]; do present=$(dirname "$present"); done
as_root=()
if [ ! -w "$present" ]; then as_root=(sudo); fi
"${as_root[@]}" install -D -m 755 "$target/release/esker" "$bin/esker"
# The names under which mount(8), fsck(8) and mkfs(8) look for it.
for name in mount fsck mkfs; do "${as_root[@]}" ln -sf esker "$bin/$name.esker"; done
echo "installed $bin/esker"
case :$PATH: in
*:"$bin":*) ;;
*) echo "$bin is not in the PATH: add it, or call $bin/esker" ;;
esac
