#!/usr/bin/env bash
# Makes the data sets that packing is measured on, from public registries, by exact names and versions.
#
#   scripts/bench-pack-data.sh DIR [NAME...]
#
# NAME is one of
#
#   versions   12 wheels of numpy from PyPI, each unpacked in a directory of its own: 718.7 MB
#   source     parts of Debian's linux-source-6.1 6.1.192-2: 187.5 MB
#   mixed      parts of /usr of a Debian 12 with programs, documentation, pictures and sounds: about 530 MB (as root)
#   media      prose and media: books, dictionaries, pictures and sounds of Debian 12 packages: 427.9 MB
#   samples    about 60 MB of each of the first three, for quick trials
#
# all of them where none is given. Each appears as DIR/NAME (the samples as DIR/NAME-sample), whole or not at all; what
# is there stays. Modification times are those of the archives. Ends with a table: set, files, bytes, and a hash of
# all paths and contents, so that two machines can see whether they measured the same.
#
#   ESKER_SOURCES   cache of downloads (default DIR/downloads)
set -euo pipefail

die() { printf 'bench-pack-data: %s\n' "$*" >&2; exit 2; }
[ $# -ge 1 ] || die "usage: $0 DIR [NAME...]"
mkdir -p "$1"
dir=$(cd "$1" && pwd -P)
shift
[ $# -gt 0 ] || set -- versions source mixed media samples
sources=${ESKER_SOURCES:-$dir/downloads}
mkdir -p "$sources"
work=$(mktemp -d "$dir/.making-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

numpy=(1.26.0 1.26.1 1.26.2 1.26.3 1.26.4 2.2.0 2.2.1 2.2.2 2.2.3 2.2.4 2.2.5 2.2.6)
linux=6.1.192-2
linux_parts=(fs include net kernel mm lib crypto security block ipc init Documentation)
packages=(gcc g++ python3 python3-dev git perl-doc vim ffmpeg fonts-dejavu fonts-noto-core gnome-backgrounds
    asterisk-core-sounds-en-wav frozen-bubble-data alsa-utils debian-reference-en python3-doc postgresql-15
    openjdk-17-jre-headless)
mixed_parts=(bin lib/python3.11)
for part in doc locale fonts backgrounds asterisk games perl man sounds info zoneinfo i18n; do
    mixed_parts+=("share/$part")
done

# Books in many languages, a dictionary and sayings; photographs, speech, samples of instruments, and the pictures, models
# and music of a game.
media=(debian-handbook=11.20220922 installation-guide-amd64=20230508+deb12u1 bible-kjv-text=4.38
    dict-gcide=0.48.5+nmu2 fortunes-de=0.35-1 gnome-backgrounds=43.1-1 mate-backgrounds=1.26.0-1
    asterisk-core-sounds-en-wav=1.6.1-1 sonic-pi-samples=3.2.2~repack-8 extremetuxracer-data=0.8.2-1)

# Python's zipfile keeps neither modes nor times; unzip may be missing: so it is told to.
unwheel() {
    python3 - "$1" "$2" <<'PYTHON'
import os, sys, time, zipfile
archive, target = sys.argv[1:]
for entry in zipfile.ZipFile(archive).infolist():
    path = zipfile.ZipFile.extract(zipfile.ZipFile(archive), entry, target)
    when = time.mktime(entry.date_time + (0, 0, -1))
    if not entry.is_dir():
        os.chmod(path, (entry.external_attr >> 16) & 0o777 or 0o644)
        os.utime(path, (when, when))
PYTHON
}

make_versions() {
    local version wheel
    for version in "${numpy[@]}"; do
        wheel=numpy-$version-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
        [ -e "$sources/$wheel" ] || python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.11 \
            --implementation cp --platform manylinux2014_x86_64 -d "$sources" "numpy==$version"
        mkdir -p "$1/numpy-$version"
        TZ=UTC unwheel "$sources/$wheel" "$1/numpy-$version"
    done
}

make_source() {
    local deb=linux-source-6.1_${linux}_all.deb root=linux-source-6.1
    [ -e "$sources/$deb" ] || (cd "$sources" && apt-get -qq download "linux-source-6.1=$linux")
    mkdir -p "$work/deb"
    dpkg-deb --fsys-tarfile "$sources/$deb" | tar -xf - -C "$work/deb" "./usr/src/$root.tar.xz"
    mkdir -p "$1"
    tar -xf "$work/deb/usr/src/$root.tar.xz" -C "$1" --strip-components=1 "${linux_parts[@]/#/$root/}"
    rm -rf "$work/deb"
}

make_mixed() {
    [ "$(id -u)" = 0 ] || die "only root can make mixed"
    local strap=debootstrap part include root=$work/root
    command -v debootstrap >/dev/null || {
        (cd "$work" && apt-get -qq download debootstrap 2>/dev/null && dpkg-deb -x debootstrap_*.deb strap)
        export DEBOOTSTRAP_DIR=$work/strap/usr/share/debootstrap
        strap=$work/strap/usr/sbin/debootstrap
    }
    mkdir -p "$sources/debs"
    include=$(IFS=,; echo "${packages[*]}")
    "$strap" --variant=minbase --cache-dir="$sources/debs" --include="$include" bookworm "$root" >"$work/log" 2>&1 ||
        { tail -20 "$work/log" >&2; die "debootstrap failed"; }
    mkdir -p "$1"
    for part in "${mixed_parts[@]}"; do
        [ ! -e "$root/usr/$part" ] || (cd "$root/usr" && cp -a --parents "$part" "$1")
    done
}

make_media() {
    local package deb
    for package in "${media[@]}"; do
        deb=$sources/${package%%=*}_${package#*=}_all.deb
        [ -e "$deb" ] || (cd "$sources" && apt-get -qq download "$package")
        mkdir -p "$work/deb" "$1"
        dpkg-deb -x "$deb" "$work/deb"
        # A package's directories stand side by side: what lies in the same place in two of them stays apart.
        mv "$work/deb/usr" "$1/${package%%=*}"
        rm -rf "$work/deb"
    done
}

# sample FROM TO EVERY: each EVERYth directory that holds files, and all that is in it but further directories.
sample() {
    (cd "$1" && find . -type f -printf '%h\n' | LC_ALL=C sort -u | awk -v n="$3" 'NR % n == 0' |
        while read -r path; do find "$path" -maxdepth 1 \( -type f -o -type l \); done |
        tar -cf - --no-recursion -T -) | { mkdir -p "$2" && tar -xf - -C "$2"; }
}

make_samples() {
    [ -d "$dir/versions" ] && [ -d "$dir/source" ] && [ -d "$dir/mixed" ] || die "samples are of the other three"
    mkdir -p "$work/versions" "$work/source" "$work/mixed"
    local version
    for version in "${numpy[@]}"; do
        (cd "$dir/versions" && tar -cf - "numpy-$version/numpy/random" "numpy-$version/numpy/lib" \
            "numpy-$version/numpy/linalg" "numpy-$version/numpy/fft") | tar -xf - -C "$work/versions"
    done
    sample "$dir/source" "$work/source" 3
    sample "$dir/mixed" "$work/mixed" 8
    local name
    for name in versions source mixed; do
        rm -rf "$dir/$name-sample"
        mv "$work/$name" "$dir/$name-sample"
    done
}

row() {
    local hash
    hash=$(cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)
    find "$1" -type f -printf '%s\n' |
        awk -v s="$(basename "$1")" -v h="$hash" '{ n++; b += $1 } END { printf "%-16s %6d files %11d bytes  %s\n", s, n, b, h }'
}

for name in "$@"; do
    case $name in
    versions | source | mixed | media)
        [ -d "$dir/$name" ] || { "make_$name" "$work/$name" && mv "$work/$name" "$dir/$name"; }
        row "$dir/$name" ;;
    samples)
        [ -d "$dir/mixed-sample" ] || make_samples
        for sampled in versions source mixed; do row "$dir/$sampled-sample"; done ;;
    *) die "what is $name?" ;;
    esac
done
