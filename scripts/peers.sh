#!/usr/bin/env bash
# Mounts other file systems in memory that go through FUSE, runs a command, and unmounts them.
#
#   sudo scripts/peers.sh COMMAND [ARGUMENT...]
#
# The command runs beside the mount points, and {} in it stands for `--on ./DIR` of each. They come from Go's module proxy (package
# golang-go builds them) and are kept in target/peers: go-fuse's memfs, which has its data in files
# of /dev/shm, and jacobsa/fuse's.
set -euo pipefail

[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
command -v go >/dev/null || { echo "esker: no peers without Go: apt-get install golang-go" >&2; exit 1; }
mkdir -p target/peers
bin=$(cd target/peers && pwd)
install() { # PROGRAM PACKAGE
    [ -x "$bin/$1" ] || GOBIN=$bin GOFLAGS=-modcacherw go install "$2"
}
install memfs github.com/hanwen/go-fuse/v2/example/memfs@v2.12.1
install mount_memfs github.com/jacobsa/fuse/samples/mount_memfs@v0.0.0-20260630194014-a124548f6da7

scratch=$(mktemp -d)
backing=$(mktemp -d /dev/shm/peers-XXXXXX)
pids=()
cleanup() {
    local dir
    for dir in "$scratch"/*; do
        if mountpoint -q "$dir"; then umount "$dir" || umount -l "$dir"; fi
    done
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf --one-file-system "$scratch" "$backing"
}
trap cleanup EXIT

serve() { # NAME COMMAND...: the command serves a mount at scratch/NAME
    local dir=$scratch/$1
    shift
    "$@" >"$scratch/log" 2>&1 &
    pids+=($!)
    for _ in $(seq 100); do
        if mountpoint -q "$dir"; then return; fi
        sleep 0.1
    done
    echo "esker: this peer does not mount: $*" >&2
    exit 1
}
mkdir "$scratch/go-fuse" "$scratch/jacobsa"
serve go-fuse "$bin/memfs" "$scratch/go-fuse" "$backing/"
serve jacobsa "$bin/mount_memfs" --mount_point "$scratch/jacobsa"

words=()
for word in "$@"; do
    if [ "$word" = "{}" ]; then
        words+=(--on ./go-fuse --on ./jacobsa)
    else
        words+=("$word")
    fi
done
cd "$scratch"
status=0
"${words[@]}" || status=$?
cd /
exit "$status"
