#!/usr/bin/env bash
# Makes a million small files on a volume, writes and reads a large one, and says how much memory the server had at
# most (VmHWM) while the kernel holds all that it was shown.
#
#   sudo scripts/suites/memory.sh ESKER DIR [FILES [OPTIONS]]
#
# ESKER is the command, DIR a directory for the volume (1 GB) and its mount point, OPTIONS are of the mount.
#
# Exit status: 0 when it was no more than cache= and dirty= allow together: by default 256 and 128 MiB.
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: $0 ESKER DIR [FILES [OPTIONS]]" >&2; exit 2; }
esker=$(realpath -- "$1")
lab=$(realpath -- "$2")
files=${3:-1000000}
options=${4:-cache=256M,dirty=128M}
volume=$lab/memory.vol
mnt=$lab/memory.mnt
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/volume.sh"

cleanup() {
    take_down
    rm -rf "$volume" "$mnt"
}
trap cleanup EXIT

option() { # NAME: its value in MiB
    local word
    word=$(tr , '\n' <<<"$options" | sed -n "s/^$1=\([0-9]*\)M$/\1/p")
    echo "${word:?give $1= in MiB}"
}

resident() {
    awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$server/status"
}

allowed=$(($(option cache) + $(option dirty)))
mkdir -p "$mnt"
"$esker" mkfs "$volume" --force --size 100G >/dev/null
bring_up "$options"
python3 - "$mnt" "$files" <<'END'
import os, sys
top, files, makers, folder = sys.argv[1], int(sys.argv[2]), 4, 1000
children = []
for maker in range(makers):
    if child := os.fork():
        children.append(child)
        continue
    for first in range(maker * folder, files, makers * folder):
        path = f"{top}/d{first}"
        os.mkdir(path)
        for number in range(first, min(first + folder, files)):
            with open(f"{path}/f{number}", "wb") as file:
                file.write(b"x" * 100)
    os._exit(0)
assert all(os.waitpid(child, 0)[1] == 0 for child in children), "a file could not be made"
END
made=$(resident)
find "$mnt" -type f -size +0 | wc -l | grep -qx "$files"
found=$(resident)
dd if=/dev/urandom of="$mnt/large" bs=1M count=512 conv=fsync status=none
echo 3 >/proc/sys/vm/drop_caches
cat "$mnt/large" >/dev/null
most=$(resident)
echo "$files files, $options: $made MiB when they were made, $found when all were looked at," \
    "$most when 512 MiB were written and read; $allowed are allowed"
"$esker" umount "$mnt" >/dev/null
wait "$server"
server=
"$esker" check "$volume"
[ "$most" -le "$allowed" ]
