#!/usr/bin/env bash
# Writes and reads one large file on a volume beside ext4 and a server that does nothing, each on a loop device of its
# own over memory: as fast as that is, or held to a rate by the kernel.
#
#   sudo scripts/bench-limited.sh ESKER [RATE [ROUNDS]]
#
# ESKER is the command, RATE the bytes that a device may move in a second (0: all it can; default 200000000). Bytes come
# from /usr/lib, as a file in memory; `dd bs=1M conv=fsync` writes them, and reads them after the caches were dropped. Prints
# MiB/s of writing and reading for each target once a round, and of how many bytes each device was charged.
#
#   ESKER_TARGETS some of ext4, null, none and zstd
#   ESKER_BYTES   how many MiB (default 512)
#   ESKER_LAB     where images go (default /dev/shm)
set -euo pipefail

die() { printf 'bench-limited: %s\n' "$*" >&2; exit 2; }
[ $# -ge 1 ] || die "usage: $0 ESKER [RATE [ROUNDS]]"
[ "$(id -u)" = 0 ] || die "only root can hold devices to a rate"
esker=$(realpath -- "$1") rate=${2:-200000000} rounds=${3:-3}
count=${ESKER_BYTES:-512}
lab=$(mktemp -d "${ESKER_LAB:-/dev/shm}/limited.XXXXXX")
limits=/sys/fs/cgroup/blkio
[ "$rate" = 0 ] || [ -w "$limits/blkio.throttle.write_bps_device" ] || die "this kernel has no $limits to hold devices with"

loops=() server=
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    umount -l "$lab/mnt" 2>/dev/null || true
    for loop in "${loops[@]}"; do
        hold "$loop" 0
        losetup -d "$loop" 2>/dev/null || true
    done
    rm -rf --one-file-system "$lab"
}
trap cleanup EXIT

hold() { # DEVICE RATE
    local number
    number=$(lsblk -dno MAJ:MIN "$1" | tr -d ' ')
    for way in read write; do
        echo "$number $2" >"$limits/blkio.throttle.${way}_bps_device" 2>/dev/null || true
    done
}

device() { # NAME: a loop device of its own, in `made`
    truncate -s $((count * 4))M "$lab/$1.img"
    made=$(losetup -f --show "$lab/$1.img")
    loops+=("$made")
}

mounted() {
    for _ in $(seq 200); do
        ! mountpoint -q "$lab/mnt" || return 0
        sleep 0.05
    done
    die "no mount"
}

up() { # TARGET
    case $1 in
        ext4) mount "$ext4" "$lab/mnt" ;;
        null) "$esker" null-server "$lab/mnt" & server=$!; mounted ;;
        *) "$esker" mount -f "${volumes[$1]}" "$lab/mnt" & server=$!; mounted ;;
    esac
}

down() {
    case $server in
        '') umount "$lab/mnt" ;;
        *) "$esker" umount "$lab/mnt" >/dev/null 2>&1 || umount "$lab/mnt"; wait "$server" || true; server= ;;
    esac
}

timed() { # WHAT DD-ARGUMENTS...
    local from to
    from=$(date +%s%N)
    dd bs=1M status=none "${@:2}"
    to=$(date +%s%N)
    printf '%-22s %5d MiB/s\n' "$1" $((count * 1000000000 / (to - from)))
}

mkdir "$lab/mnt"
tar -C /usr/lib -cf - . 2>/dev/null | head -c "${count}M" >"$lab/source" || true
device ext4
ext4=$made
mkfs.ext4 -qF "$ext4"
declare -A volumes
for codec in none zstd; do
    device "$codec"
    volumes[$codec]=$made
    "$esker" mkfs "$made" --force --compress "$codec" >/dev/null
done
for loop in "${loops[@]}"; do hold "$loop" "$rate"; done
echo 1 >"$limits/blkio.reset_stats" 2>/dev/null || true

for round in $(seq "$rounds"); do
    # A virtual machine's host may give it memory only when it is touched first: that is nobody's time.
    head -c $((count * 8))M /dev/zero >"$lab/touched"
    rm "$lab/touched"
    for target in ${ESKER_TARGETS:-ext4 null none zstd}; do
        up "$target"
        timed "$round $target write" if="$lab/source" of="$lab/mnt/file" conv=fsync
        down
        up "$target"
        echo 3 >/proc/sys/vm/drop_caches
        # A server that does nothing forgets its files.
        [ "$target" = null ] || timed "$round $target read" if="$lab/mnt/file" of=/dev/null
        rm -f "$lab/mnt/file"
        down
    done
done
if [ "$rate" != 0 ]; then
    for loop in "${loops[@]}"; do
        number=$(lsblk -dno MAJ:MIN "$loop" | tr -d ' ')
        awk -v it="$number" -v name="$loop" '$1 == it && ($2 == "Read" || $2 == "Write") {
            printf "%s %s %d MiB charged\n", name, $2, $3 / 1048576 }' "$limits/blkio.throttle.io_service_bytes"
    done
fi
