#!/usr/bin/env bash
# Packs whole trees into images and compares what comes out again, name by name and byte by byte.
#
#   sudo scripts/suites/images.sh ESKER DIR [NAME...]
#
# ESKER is the program, DIR a directory with room. NAME is one of
#
#   linux    the kernel's source (Debian's linux-source)
#   debian   a Debian root: set-id programs, capabilities, devices, ACLs
#   names    names of any bytes, of every length, links to nowhere, times before 1970 and after 2200
#   sparse   holes of every kind
#   empty    a directory with nothing in it
#   tiny     a million files of a few bytes
#   huge     one sparse file of 20 GB
#   memory   5 GB packed with --memory 1G, and how much memory that took
#
# all of them where none is given. Each tree is packed at each level, and every image is checked in full and
# compared with the first. The first is also mounted and compared with the tree (rsync -aHAXn --delete --checksum),
# extracted, written as a tar archive and unpacked by tar, and packed again at another level, with other
# blocks, and with its metadata only. One thread and many must make the same bytes. That of level 6 is mounted with a
# cache of 64 MiB, read whole by four readers, and may take 128 MiB of memory for that.
#
#   ESKER_SOURCES   cache of downloaded packages (default target/sources of this repository)
#   ESKER_LEVELS    the levels (default "0 1 2 3 4 5 6 7 8 9")
#   ESKER_FIRST     the level that is mounted, extracted and unpacked too, and of `memory` (default 3)
#   ESKER_KEEP      "yes" leaves trees that were made in DIR
#
# Ends with a table: tree, files, bytes, and for each level seconds and size. Exit status 0 only when all went well.
set -euo pipefail

die() { printf 'images: %s\n' "$*" >&2; exit 2; }
[ $# -ge 2 ] || die "usage: $0 ESKER DIR [NAME...]"
[ "$(id -u)" = 0 ] || die "only root can make and compare owners and devices"
esker=$(realpath "$1")
dir=$(cd "$2" && pwd -P)
shift 2
everything=(linux debian names sparse empty tiny huge memory)
[ $# -gt 0 ] || set -- "${everything[@]}"
here=$(cd "$(dirname "$0")/../.." && pwd)
sources=${ESKER_SOURCES:-$here/target/sources}
read -ra levels <<<"${ESKER_LEVELS:-0 1 2 3 4 5 6 7 8 9}"
first=${ESKER_FIRST:-3}
mkdir -p "$sources"
for program in rsync:rsync setfattr:attr setfacl:acl setcap:libcap2-bin debootstrap:debootstrap; do
    command -v "${program%%:*}" >/dev/null || apt-get -qq install -y "${program#*:}" >/dev/null
done

work=$(mktemp -d "$dir/images-XXXXXX")
cleanup() {
    if mountpoint -q "$work/mount"; then umount -l "$work/mount"; fi
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
mkdir "$work/mount"
rows=()
say() { printf 'images: %s\n' "$*" >&2; }
seconds() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(seconds)" 'BEGIN { printf "%.1f", b - a }'; }
mib() { awk -v b="$1" 'BEGIN { printf "%.1f MiB", b / 1048576 }'; }

# compare BEFORE AFTER [OPTION...]: whether two trees are the same.
compare() {
    local before=$1 after=$2 found
    shift 2
    found=$(rsync -aHAXn --delete --checksum --modify-window=-1 --itemize-changes "$@" \
        "$before/" "$after/" | head -n 20)
    [ -z "$found" ] || { printf '%s\n' "$found" >&2; die "$after differs from $before"; }
}

# made NAME: where the tree of this name is; makes it.
made() {
    local tree=$dir/trees/$1
    if [ ! -e "$tree.made" ]; then
        say "making $tree"
        rm -rf --one-file-system "$tree"
        mkdir -p "$tree"
        "make_$1" "$tree" >&2
        touch "$tree.made"
    fi
    printf '%s' "$tree"
}

make_linux() {
    local package
    package=$(apt-cache search --names-only '^linux-source-[0-9.]*$' | awk '{ print $1 }' | sort -V | head -n 1)
    compgen -G "$sources/${package}_*.deb" >/dev/null || (cd "$sources" && apt-get -q download "$package")
    dpkg-deb -x "$(compgen -G "$sources/${package}_*.deb" | head -n 1)" "$work/deb"
    tar -C "$1" --strip-components=1 -xf "$work"/deb/usr/src/linux-source-*.tar.xz
    rm -rf "$work/deb"
}

make_debian() {
    debootstrap --variant=minbase --include=iputils-ping,perl,python3 bookworm "$1" >/dev/null
    mkdir -p "$1/own"
    cp "$1/bin/true" "$1/own/capable"
    setcap cap_net_raw+ep "$1/own/capable"
    mknod "$1/own/disk" b 2748 1048338
    mknod "$1/own/zero" c 1 5
    mkfifo "$1/own/pipe"
    echo acl >"$1/own/acl"
    setfacl -m u:4242:rw,g:17:r,m:rw "$1/own/acl"
    setfacl -d -m u:4242:rx "$1/own"
    setfattr -n user.long -v "$(head -c 3000 /dev/zero | tr '\0' x)" "$1/own/acl"
    setfattr -n trusted.hidden -v 1 "$1/own/acl"
}

make_names() {
    python3 - "$1" <<'END'
import os, sys
top = os.fsencode(sys.argv[1])
for byte in range(1, 256):
    if byte != 0x2f:
        os.mkdir(top + b"/d" + bytes([byte]))
        open(top + b"/d" + bytes([byte]) + b"/\xff" + bytes([byte]) * 3, "w").write("x" * byte)
for length in range(1, 256):
    open(top + b"/" + b"n" * length, "w").write(str(length))
deep = top
for level in range(12):
    deep += b"/" + bytes([0x61 + level]) * 255
    os.mkdir(deep)
open(deep + b"/end", "w").write("deep")
for number, target in enumerate([b"/", b"..", b"../../../../etc/passwd", b"no\nwhere", b"\xfe" * 4000, b"self"]):
    os.symlink(target, top + b"/link%d" % number)
os.symlink(b"self", top + b"/self")
os.link(top + b"/n", deep + b"/again")
for number, time in enumerate([-1, -2**40, 0, 2**31, 2**33, 10**10]):
    path = top + b"/time%d" % number
    open(path, "w").close()
    try:
        os.utime(path, ns=(time * 10**9 + 123456789, time * 10**9 + 987654321))
    except OSError:
        pass
for mode in range(0, 0o10000, 0o111):
    path = top + b"/mode%o" % mode
    open(path, "w").write("m")
    os.chmod(path, mode)
    os.chown(path, mode * 7919, mode * 104729)
    os.chmod(path, mode)
END
}

make_sparse() {
    truncate -s 3G "$1/only"
    truncate -s 1 "$1/one"
    : >"$1/none"
    python3 - "$1" <<'END'
import os, sys
top = sys.argv[1]
with open(top + "/comb", "wb") as file:
    for place in range(3000):
        file.seek(place * 65536 + place % 4096)
        file.write(b"tooth %d" % place)
    file.truncate(1 << 30)
with open(top + "/ends", "wb") as file:
    file.seek((1 << 33) - 1)
    file.write(b"e")
with open(top + "/zeros", "wb") as file:
    file.write(bytes(20 << 20))
END
}

make_empty() { :; }

make_tiny() {
    python3 - "$1" <<'END'
import os, sys
for number in range(1_000_000):
    if number % 1000 == 0:
        folder = "%s/%03d" % (sys.argv[1], number // 1000)
        os.mkdir(folder)
    with open("%s/%d" % (folder, number), "w") as file:
        file.write("file %d\n" % (number % 300_000))
END
}

make_huge() {
    python3 - "$1" <<'END'
import os, sys
with open(sys.argv[1] + "/huge", "wb") as file:
    for place in range(0, 20_000_000_000, 97_000_003):
        file.seek(place)
        file.write(os.urandom(5000))
    file.truncate(20_000_000_000)
END
}

make_memory() {
    python3 - "$1" <<'END'
import os, random, sys
random.seed(5)
words = [os.urandom(random.randint(3, 30)) for _ in range(5000)]
for number in range(50):
    with open("%s/%d" % (sys.argv[1], number), "wb") as file:
        left = 100 << 20
        while left > 0:
            piece = b"".join(random.choices(words, k=60000))[:left]
            file.write(piece)
            left -= len(piece)
END
}

# packed IMAGE TREE OPTION...: packs, in so many seconds.
packed() {
    local image=$1 tree=$2 begin
    shift 2
    begin=$(seconds)
    "$esker" pack "$tree" -o "$image" --force --quiet --json "$@" >"$work/said" || die "pack $* failed"
    since "$begin"
}

# everyway NAME TREE IMAGE: mounts, extracts, unpacks and packs again what was packed.
everyway() {
    local tree=$2 image=$3
    say "$1: mounted"
    "$esker" mount "$image" "$work/mount" >/dev/null
    compare "$tree" "$work/mount"
    umount "$work/mount"
    say "$1: extracted"
    "$esker" extract "$image" -o "$work/out" --preserve >/dev/null
    touch -r "$tree" "$work/out"
    chmod --reference="$tree" "$work/out"
    chown --reference="$tree" "$work/out"
    compare "$tree" "$work/out"
    rm -rf --one-file-system "$work/out"
    say "$1: tar"
    mkdir "$work/out"
    "$esker" extract "$image" --tar - |
        tar --warning=no-timestamp --xattrs --xattrs-include='*' --numeric-owner -C "$work/out" -xpSf -
    compare "$tree" "$work/out"
    rm -rf --one-file-system "$work/out"
    say "$1: again"
    "$esker" repack "$image" -o "$work/again" --quiet -l 1 --block-size 300K --order kind >/dev/null
    "$esker" check --full "$work/again" >/dev/null
    "$esker" diff "$image" "$work/again"
    "$esker" repack "$image" -o "$work/again" --force --quiet --metadata-only --meta-codec xz >/dev/null
    "$esker" check --full "$work/again" >/dev/null
    "$esker" diff "$image" "$work/again"
    rm "$work/again"
}

# sparing NAME IMAGE: reads everything of a mount that keeps 64 MiB, four files at a time; it must stay below 128 MiB.
sparing() {
    local daemon most
    "$esker" mount "$2" "$work/mount" -o cache=64M --foreground >/dev/null &
    daemon=$!
    until mountpoint -q "$work/mount"; do kill -0 "$daemon" || die "$1: no mount"; sleep 0.1; done
    find "$work/mount" -type f -size -1048576k -print0 | xargs -0 -r -n 100 -P 4 cat >/dev/null
    most=$(awk '/^VmHWM/ { print $2 }' "/proc/$daemon/status")
    umount "$work/mount"
    wait "$daemon" || die "$1: the mount failed"
    say "$1: mounted with a cache of 64 MiB: VmHWM $((most / 1024)) MiB"
    [ "$most" -le $((128 * 1024)) ] || die "$1: a mount with a cache of 64 MiB took $most KiB"
}

whole() { # NAME
    local name=$1 tree level took size row
    tree=$(made "$name")
    say "$name: packed at level $first"
    packed "$work/first" "$tree" -l "$first" >/dev/null
    row=$(python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); print("%d | %.1f MiB" % (
        s["files"] + s["directories"] + s["symlinks"] + s["specials"], s["bytes"] / 2**20))' "$work/said")
    everyway "$name" "$tree" "$work/first"
    packed "$work/other" "$tree" -l "$first" --threads 1 --memory 512M >/dev/null
    cmp "$work/first" "$work/other" || die "$name: other bytes with one thread"
    for level in "${levels[@]}"; do
        took=$(packed "$work/other" "$tree" -l "$level")
        size=$(stat -c %s "$work/other")
        "$esker" check --full "$work/other" >/dev/null
        "$esker" diff "$work/first" "$work/other" || die "$name: level $level differs"
        say "$name: level $level: $took s, $(mib "$size")"
        [ "$level" != 6 ] || sparing "$name" "$work/other"
        row+=" | $level: $(mib "$size"), $took s"
    done
    rm -f "$work/first" "$work/other"
    rows+=("$name | $row")
}

memory() {
    local tree peak most=0
    tree=$(made memory)
    "$esker" pack "$tree" -o "$work/x" --memory 1G --quiet -l "$first" >/dev/null &
    while kill -0 $! 2>/dev/null; do
        peak=$(awk '/^VmHWM/ { print $2 }' "/proc/$!/status" 2>/dev/null || true)
        [ -z "$peak" ] || most=$peak
        sleep 0.2
    done
    wait $! || die "packing with --memory 1G failed"
    say "memory: VmHWM $((most / 1024)) MiB"
    [ "$most" -le $((1100 * 1000)) ] || die "--memory 1G took $most KiB"
    rows+=("memory | 5 GB with --memory 1G at level $first: at most $((most / 1024)) MiB")
    rm -f "$work/x"
}

for name in "$@"; do
    case $name in
        memory) memory ;;
        *) [ "$(type -t "make_$name")" = function ] || die "there is no tree $name"; whole "$name" ;;
    esac
    [ "${ESKER_KEEP:-}" = yes ] || rm -rf --one-file-system "$dir/trees/$name" "$dir/trees/$name.made"
done
printf '%s\n' "${rows[@]}"
