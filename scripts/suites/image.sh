#!/usr/bin/env bash
# Works on images: builds a program with its headers on a mounted image and its objects above another,
# and runs CPython's own tests from one, and those that write beside themselves above it.
#
#   sudo scripts/suites/image.sh [TEST...]
#
# TEST is one of CPython's test files, as in test_os; without any, those that read modules, files and
# archives, and then those that write beside themselves. Sources are Debian's source packages; what is missing to build them is installed by apt.
#
#   ESKER_PYTHON    an installed CPython with its tests, instead of one that is built first
#   ESKER_BIN       the program (default: built in release mode)
#   ESKER_SOURCES   cache of downloaded sources (default target/sources of this repository)
#   ESKER_WORK      where images, objects and logs go (default: a temporary directory, which goes)
#
# Exit status 0 only when all went well. The image of CPython is checked in the end: nothing changed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
if [ -z "${ESKER_BIN:-}" ]; then
    (cd "$repository" && cargo build --quiet --release --locked -p esker-cli)
    ESKER_BIN=$("$repository/scripts/target.sh")/release/esker
fi
esker=$ESKER_BIN
tests=(test_filecmp test_fileinput test_fnmatch test_genericpath test_glob test_io test_json
    test_linecache test_mmap test_modulefinder test_pathlib test_pkgutil test_posixpath
    test_py_compile test_shutil test_stat test_tarfile test_tokenize test_unicodedata test_zipapp
    test_zipfile test_zipimport)
# These unlink, or make, modules in the library that they are part of.
writers=(test_compileall test_import test_importlib test_runpy)
if [ $# != 0 ]; then
    tests=("$@")
    writers=()
fi

work=${ESKER_WORK:-}
[ -n "$work" ] || work=$(mktemp -d "${TMPDIR:-/tmp}/esker-image-XXXXXX")
mkdir -p "$work"
work=$(cd "$work" && pwd -P)
mkdir -p "$work/headers" "$work/source" "$work/python"
cleanup() {
    local dir
    for dir in "$work"/headers "$work"/source "$work"/python; do
        if mountpoint -q "$dir"; then "$esker" umount "$dir" >/dev/null || umount -l "$dir"; fi
    done
    [ -n "${ESKER_WORK:-}" ] || rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# programs.sh gives its programs these; common.sh fetches and unpacks.
export BUILD=$work/build SCRATCH=$work/scratch NOTES=$work/notes LOGS=$work
export SOURCES=${ESKER_SOURCES:-$repository/target/sources}
mkdir -p "$BUILD" "$SCRATCH" "$SOURCES"
SOURCES=$(cd "$SOURCES" && pwd)
# shellcheck source-path=SCRIPTDIR source=programs/common.sh
. "$here/programs/common.sh"

step "the headers of this machine, an image"
need gcc libc6-dev make
compiler=$(gcc -print-file-name=include)
"$esker" pack /usr/include -o "$work/headers.esker" --level 3 >/dev/null
"$esker" mount "$work/headers.esker" "$work/headers"

step "Lua's source, an image that objects are written above"
cd "$BUILD"
unpack lua5.4 lua
lua_version=$version
"$esker" pack lua -o "$work/source.esker" --level 3 >/dev/null
"$esker" mount "$work/source.esker" "$work/source" --overlay
build_lua() { # DIR HEADERS
    make -s -C "$1/src" -j2 CC="gcc -std=gnu99 -nostdinc -isystem $compiler \
        -isystem $2 -isystem $2/$(gcc -print-multiarch)" linux >"$LOGS/lua-build" 2>&1 ||
        { tail -n 30 "$LOGS/lua-build"; die "Lua does not build in $1"; }
}
build_lua "$work/source" "$work/headers"
build_lua "$BUILD/lua" /usr/include
for object in "$BUILD"/lua/src/*.o; do
    cmp "$object" "$work/source/src/${object##*/}" || die "another object: $object"
done
"$work/source/src/lua" -e 'assert(load("return 6 * 7")() == 42)'
"$esker" pack "$work/source" -o "$work/built.esker" --level 3 >/dev/null
"$esker" cat "$work/built.esker:/src/lua" | cmp - "$work/source/src/lua"
step "Lua $lua_version: the same objects as without an image, and they stay when they are packed"

python=${ESKER_PYTHON:-}
if [ -z "$python" ]; then
    step "CPython"
    need g++ pkg-config zlib1g-dev libbz2-dev liblzma-dev libffi-dev libssl-dev libsqlite3-dev \
        libreadline-dev libncurses-dev libexpat1-dev uuid-dev libgdbm-dev tzdata
    cd "$BUILD"
    unpack python3.11 cpython
    python=$BUILD/root
    (cd cpython && ./configure --quiet --prefix="$python" CFLAGS="-O1" && make -j2 -s &&
        make -s install) >"$LOGS/python-build" 2>&1 ||
        { tail -n 30 "$LOGS/python-build"; die "CPython does not build"; }
fi
"$esker" pack "$python" -o "$work/python.esker" --level 3 >/dev/null
name=$("$esker" info --json "$work/python.esker" | sed -n 's/.*"name":"\([0-9a-f]*\)".*/\1/p')
mkdir -p "$work/tmp"
chmod 1777 "$work/tmp"

own_tests() { # LOG TEST...
    local log=$LOGS/$1 program
    shift
    program=$(compgen -G "$work/python/bin/python3.[0-9]" ||
        compgen -G "$work/python/bin/python3.[0-9][0-9]")
    (cd "$work/tmp" && "$program" -m test -j2 --tempdir "$work/tmp" "$@") >"$log" 2>&1 ||
        { tail -n 60 "$log"; die "CPython's tests"; }
    grep -E '^(All )?[0-9]+ tests? OK' "$log" || true
}

step "CPython's own tests, from the image"
"$esker" mount "$work/python.esker" "$work/python" -o cache=64M,allow_other
own_tests python-tests "${tests[@]}"
"$esker" umount "$work/python" >/dev/null
if [ ${#writers[@]} != 0 ]; then
    step "those that write beside themselves, above the image"
    "$esker" mount "$work/python.esker" "$work/python" --overlay -o cache=64M,allow_other
    own_tests python-writers "${writers[@]}"
    "$esker" umount "$work/python" >/dev/null
fi
"$esker" check --full "$work/python.esker"
[ "$name" = "$("$esker" info --json "$work/python.esker" |
    sed -n 's/.*"name":"\([0-9a-f]*\)".*/\1/p')" ] || die "the image of CPython changed"
step "all well"
