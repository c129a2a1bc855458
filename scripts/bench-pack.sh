#!/usr/bin/env bash
# Measures packing, and reading what was packed, beside the peers that are installed.
#
#   sudo scripts/bench-pack.sh ESKER DIR SET [WHAT...]
#
# ESKER is the program, DIR/SET a tree that `scripts/bench-pack-data.sh` made. WHAT is one of
#
#   esker:LEVEL       an image of ours, with further options of `esker pack` behind, as in esker:6,--block-size,2M
#   squashfs          mksquashfs with zstd in blocks of 1 MiB, mounted by the kernel
#   erofs             mkfs.erofs with lzma in clusters of 1 MiB, mounted by the kernel
#   zstd:LEVEL        tar and zstd with a window of 2 GiB, two threads; nothing to mount
#
# all of them with our default level where none is given; what is not installed is left out. Prints a table: stored
# bytes, CPU seconds (user + system) and most memory of making it; then of a mount whose caches are empty:
# seconds and CPU seconds of the server of `find` with attributes, milliseconds of random reads of 4 KiB spread over all
# bytes of the tree (median, 99th percentile, most; again with a cache of 64 MiB), the server's CPU seconds of them, CPU
# seconds (client, server) and wall seconds of reading everything once, and the server's most memory.
#
#   ESKER_READS       how many random reads (default 400)
#   ESKER_SQUASHFS    the level of squashfs (default 15)
#   ESKER_IMAGES      keeps images here and uses those that are there (default: made anew, removed)
set -euo pipefail

die() { printf 'bench-pack: %s\n' "$*" >&2; exit 2; }
[ $# -ge 3 ] || die "usage: $0 ESKER DIR SET [WHAT...]"
[ "$(id -u)" = 0 ] || die "only root can mount and empty caches"
esker=$(realpath "$1") dir=$(realpath "$2") set=$3
shift 3
[ $# -gt 0 ] || set -- esker:6 squashfs erofs zstd:19
tree=$dir/$set
[ -d "$tree" ] || die "there is no $tree"
work=$(mktemp -d)
images=${ESKER_IMAGES:-$work}
trap 'umount "$work/mnt" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
mkdir -p "$work/mnt"
reads=${ESKER_READS:-400}

cat >"$work/reads.py" <<'PYTHON'
import bisect, os, random, sys, time
root, count = sys.argv[1], int(sys.argv[2])
random.seed(7)
starts, files, total = [], [], 0
for folder, folders, names in os.walk(root):
    folders.sort()
    for name in sorted(names):
        path = os.path.join(folder, name)
        size = os.lstat(path).st_size
        if size and not os.path.islink(path):
            starts.append(total)
            files.append(path)
            total += size
took = []
for _ in range(count):
    place = random.randrange(total)
    at = bisect.bisect(starts, place) - 1
    begin = time.perf_counter()
    file = os.open(files[at], os.O_RDONLY)
    os.pread(file, 4096, (place - starts[at]) // 4096 * 4096)
    os.close(file)
    took.append((time.perf_counter() - begin) * 1e3)
took.sort()
print('%.2f / %.1f / %.1f' % (took[count // 2], took[count * 99 // 100], took[-1]))
PYTHON

ticks=$(getconf CLK_TCK)
server=
spent() { # CPU seconds of the server so far
    [ -n "$server" ] || { echo 0; return; }
    awk -v t="$ticks" '{ sub(/.*\) /, ""); printf "%.2f", ($12 + $13) / t }' "/proc/$server/stat"
}
less() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a - b }'; }
empty() { sync; echo 3 >/proc/sys/vm/drop_caches; }

mounted() { # KIND IMAGE [CACHE]
    server=
    empty
    case $1 in
    esker)
        "$esker" mount -o "cache=${3:-512M}" "$2" "$work/mnt" >/dev/null
        server=$(pgrep -nf "mount -o cache=${3:-512M} $2 $work/mnt") ;;
    *) mount -t "$1" -o loop,ro "$2" "$work/mnt" ;;
    esac
}
unmounted() {
    if [ -n "$server" ]; then "$esker" umount "$work/mnt" >/dev/null; else umount "$work/mnt"; fi
}

measure() { # KIND IMAGE: the columns of reading
    local before small=- wall client
    if [ "$1" = esker ]; then
        mounted "$1" "$2" 64M
        small=$(python3 "$work/reads.py" "$work/mnt" "$reads")
        unmounted
    fi
    mounted "$1" "$2"
    before=$(spent)
    wall=$({ TIMEFORMAT=%R; time find "$work/mnt" -printf '%s\n' >/dev/null; } 2>&1)
    printf ' %s, %s |' "$wall" "$(less "$(spent)" "$before")"
    before=$(spent)
    printf ' %s |' "$(python3 "$work/reads.py" "$work/mnt" "$reads")"
    printf ' %s | %s |' "$small" "$(less "$(spent)" "$before")"
    unmounted
    mounted "$1" "$2"
    before=$(spent)
    client=$({ TIMEFORMAT='%R %U %S'; time tar -C "$work/mnt" -cf - . | cat >/dev/null; } 2>&1)
    printf ' %s |' "$(awk -v s="$(less "$(spent)" "$before")" '{ printf "%.2f, %.2f, %.1f", $2 + $3, s, $1 }' <<<"$client")"
    [ -z "$server" ] || printf ' %s |' "$(awk '/VmHWM/ { printf "%d MB", $2 / 1024 }' "/proc/$server/status")"
    [ -n "$server" ] || printf ' - |'
    unmounted
}

made() { # IMAGE COMMAND...: the columns of making it
    local image=$1
    shift
    if [ ! -s "$image" ]; then
        /usr/bin/time -o "$image.time" -f '%U %S %M' "$@" >/dev/null 2>"$work/log" || { cat "$work/log" >&2; return 1; }
    fi
    printf ' %.2f MB |' "$(stat -c %s "$image" | awk '{ print $1 / 1e6 }')"
    awk '{ printf " %.1f | %d MB |", $1 + $2, $3 / 1024 }' "$image.time"
}

echo "| $set | stored | CPU s | memory | find: s, server's CPU s | random 4K ms: median / p99 / most | with 64 MiB | server's CPU s | all: client's, server's CPU s, wall s | server's memory |"
echo "|---|---|---|---|---|---|---|---|---|---|"
for what in "$@"; do
    kind=${what%%:*} level=${what#*:}
    image=$images/$set.${what//[:,]/_}
    case $kind in
    esker)
        IFS=, read -ra more <<<"$level"
        printf '| esker -l %s |' "${level//,/ }"
        made "$image" "$esker" pack "$tree" -o "$image" -q --force -l "${more[@]}" && measure esker "$image" ;;
    squashfs)
        command -v mksquashfs >/dev/null || continue
        printf '| squashfs |'
        made "$image" mksquashfs "$tree" "$image" -comp zstd -Xcompression-level "${ESKER_SQUASHFS:-15}" -b 1M -no-progress -noappend &&
            measure squashfs "$image" ;;
    erofs)
        command -v mkfs.erofs >/dev/null || continue
        printf '| erofs |'
        made "$image" mkfs.erofs -zlzma,9 -C1048576 "$image" "$tree" && measure erofs "$image" ;;
    zstd)
        printf '| tar, zstd -%s |' "$level"
        made "$image" sh -c "tar -C '$tree' --sort=name -c . | zstd -$level --long=31 -T2 -q -f -o '$image'" &&
            printf ' | | | | | |' ;;
    *) die "what is $what?" ;;
    esac
    echo
done
