#!/usr/bin/env bash
# SQLite's own speed test, compiled to WebAssembly, under `esker run`: over memory and a volume, with every journal, it
# computes what it computes without any files, and leaves a database that SQLite finds nothing wrong with.
#
#   scripts/suites/wasi-sqlite.sh ESKER [SIZE]
#
# ESKER is the command, SIZE the test's own measure (default 10). Needs Debian with root, or what it installs.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

esker=$(realpath "$1") size=${2:-10}
root=$(cd "$(dirname "$0")/../.." && pwd)
# SQLite itself, as its crate carries it: one file.
crate=$(cd "$root" && cargo metadata --format-version 1 --locked |
    grep -o '"manifest_path":"[^"]*libsqlite3-sys-[^"]*"' | cut -d'"' -f4)
crate=${crate%/Cargo.toml}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUILD=$work SCRATCH=$work SOURCES=$work/sources LOGS=$work NOTES=$work/notes
mkdir "$SOURCES"
. "$root/scripts/suites/programs/common.sh"
need clang lld wasi-libc sqlite3
release=$(clang -dumpversion)
need "libclang-rt-${release%%.*}-dev-wasm32"

# The test comes with Debian's source of SQLite.
unpack sqlite3 source
step "compiling"
clang --target=wasm32-wasi -O2 -isystem /usr/include/wasm32-wasi -I "$crate/sqlite3" \
    -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DLONGDOUBLE_TYPE=double \
    -D_WASI_EMULATED_MMAN -D_WASI_EMULATED_GETPID -D_WASI_EMULATED_SIGNAL \
    -D_WASI_EMULATED_PROCESS_CLOCKS \
    source/test/speedtest1.c "$crate/sqlite3/sqlite3.c" -o speedtest.wasm \
    -lwasi-emulated-mman -lwasi-emulated-getpid -lwasi-emulated-process-clocks

hash() { sed -n 's/^Verification Hash: //p' "$1"; }

step "without files"
"$esker" run speedtest.wasm -- --verify --size "$size" --memdb x.db >none
"$esker" mkfs files.vol --size 2G >/dev/null
for journal in delete truncate persist memory off wal; do
    for home in mem: files.vol; do
        step "journal $journal, $home"
        "$esker" run speedtest.wasm --fs "$home" -- --verify --size "$size" --exclusive \
            --journal "$journal" "/$journal.db" >told
        [ "$(hash told)" = "$(hash none)" ] || die "it computes something else"
        grep TOTAL told
    done
    "$esker" cat "files.vol:/$journal.db" >found.db
    [ "$(sqlite3 found.db 'PRAGMA integrity_check')" = ok ] || die "SQLite finds it damaged"
done
"$esker" check files.vol
step "the same everywhere: $(hash none)"
