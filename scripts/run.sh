#!/usr/bin/env bash
# The first minute: builds Esker, mounts a file system in memory on a fresh directory, unpacks a
# source tree into it, looks whether all of it is there, and tells what that cost; then packs the tree
# into an image, mounts that, and looks again. The mount in memory is left for use.
#
#   scripts/run.sh [TREE]     TREE is what to unpack, by default Esker's own source
#
# With ESKER_BIN set, that command is taken instead of building one.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
"$here/scripts/setup.sh"

cd "$here"
esker=${ESKER_BIN:-}
if [ -z "$esker" ]; then
    echo "Building (the first time takes a few minutes) ..."
    cargo build --quiet --release --locked -p esker-cli
    esker=$(scripts/target.sh)/release/esker
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/esker-XXXXXX")
scratch=$(mktemp -d)
mounted=
fail() {
    echo "esker: the first minute went wrong, see above" >&2
    if [ -n "$mounted" ]; then "$esker" umount -l "$dir" >&2; fi
    rmdir "$dir" 2>/dev/null || true
}
tidy() {
    if mountpoint -q "$scratch/image"; then "$esker" umount -l "$scratch/image" >/dev/null; fi
    rm -rf --one-file-system "$scratch"
}
trap tidy EXIT
trap fail ERR

# What to unpack: the tree as git has it, or as it lies there; owned by whoever unpacks it, so that
# the comparison holds for every user.
pack() {
    local owner
    owner=(--owner="+$(id -u)" --group="+$(id -g)")
    if [ $# -gt 0 ]; then
        tar "${owner[@]}" -C "$1" -cf "$scratch/tree.tar" .
    elif git rev-parse --verify --quiet HEAD >/dev/null 2>&1; then
        mkdir "$scratch/tree"
        git archive HEAD | tar -C "$scratch/tree" -xf -
        tar "${owner[@]}" -C "$scratch/tree" -cf "$scratch/tree.tar" .
    else
        tar "${owner[@]}" --exclude=./target --exclude=./.git -cf "$scratch/tree.tar" .
    fi
}
pack "$@"

seconds() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(seconds)" 'BEGIN { printf "%.2f", b - a }'; }
human() { numfmt --to=iec-i --suffix=B --format=%.1f "$1"; }
resident() { awk '/^VmRSS:/ { print $2 * 1024 }' "/proc/$1/status"; }

report=$("$esker" mount mem: "$dir" --json)
mounted=yes
pid=${report##*\"pid\":}
pid=${pid%%[!0-9]*}
empty=$(resident "$pid")

begin=$(seconds)
mkdir "$dir/source"
tar -C "$dir/source" -xpf "$scratch/tree.tar"
sync -f "$dir"
unpacked=$(since "$begin")

begin=$(seconds)
tar -C "$dir/source" --compare -f "$scratch/tree.tar"
compared=$(since "$begin")

files=$(find "$dir/source" -type f | wc -l)
directories=$(find "$dir/source" -type d | wc -l)
stored=$(find "$dir/source" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%.0f", sum }')
used=$(($(df --output=used -B1 "$dir" | tail -n 1)))
filled=$(resident "$pid")

image=$scratch/tree.esker
begin=$(seconds)
"$esker" pack "$dir/source" -o "$image" --quiet >/dev/null
packed=$(since "$begin")
mkdir "$scratch/image"
"$esker" mount "$image" "$scratch/image" >/dev/null
begin=$(seconds)
tar -C "$scratch/image" --compare -f "$scratch/tree.tar"
compared_image=$(since "$begin")
"$esker" umount "$scratch/image" >/dev/null
size=$(stat -c %s "$image")

cat <<END

A file system in memory is mounted on $dir

  unpacked      $files files in $directories directories, $(human "$stored"), in $unpacked s
  compared      every byte and attribute with the archive, in $compared s: the same
  file system   $(human "$used") in use, its own bookkeeping included
  memory        the daemon holds $(human "$filled") ($(human "$empty") when it was empty)
  an image      the same tree packed into one file of $(human "$size") in $packed s, mounted, and
                compared with the archive in $compared_image s: the same

Look around:    ls -l $dir/source
Pack it:        $esker pack $dir/source -o tree.esker
Unmount it:     $esker umount $dir
END
