#!/usr/bin/env bash
# Measures Esker beside the limit of FUSE and the kernel's file systems, and writes the tables into the
# pages of docs/benchmarks, each in place of the one before; everything else in these files stays.
#
#   sudo scripts/bench.sh [NAME...]
#
# NAME is one of: directories million append fio trees memory disks volumes transports library peers; all of
# them, an hour and a half, where none is given (peers are built with Go). Or storing: what reaches a device, counted, some
# minutes. Or packs, which takes an hour more: trees from public registries, packed at every level and by other
# tools, and read again. Files go through the kernel's caches:
# without root nothing is cold.
#
#   ESKER_ROUNDS       how often each (default 3)
#   ESKER_FILES        sizes of directories (default 1K,10K,100K)
#   ESKER_ARCHIVE      a source tree to unpack (default: Esker's own)
#   ESKER_BUILD        the command that builds it (default: none)
#   ESKER_REPOSITORY   a git repository to clone (default: Esker's own)
#   ESKER_DATA         where the trees of packs are made (default target/data)
#   ESKER_PAGES        the directory of the pages to write (default docs/benchmarks)
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
cd "$here"

names=(directories million append fio trees memory disks volumes transports library peers)
[ $# -gt 0 ] || set -- "${names[@]}"
for name in "$@"; do
    case " ${names[*]} storing packs " in
        *" $name "*) ;;
        *) echo "esker: no such measurement: $name: there are ${names[*]} storing packs" >&2; exit 2 ;;
    esac
done

scripts/setup.sh
cargo build --release --locked -p esker-cli
target=$(scripts/target.sh)
pages=$(realpath -m "${ESKER_PAGES:-docs/benchmarks}")
mkdir -p "$pages"
files=${ESKER_FILES:-1K,10K,100K}
cpus=$(taskset -cp $$)
cpu=${cpus##*[ ,-]}
[ "$(id -u)" = 0 ] || echo "esker: not root: some targets and all cold rows will be left out" >&2

incomplete=
# What runs the bench for us.
through=()
measure() { # TITLE ARGUMENTS...
    local title=$1
    shift
    echo "== $title" >&2
    "${through[@]}" "$target/release/esker" bench "$@" --rounds "${ESKER_ROUNDS:-3}" \
        --markdown "$page" --title "$title" >/dev/null || incomplete="$incomplete, $title"
}
both() { # TITLE ARGUMENTS...: as the scheduler places client and server, and on one CPU
    measure "$@"
    local title=$1
    shift
    measure "$title, on one CPU" "$@" --pin "$cpu"
}

# Esker's own source, as git has it.
own() {
    mkdir -p target/bench
    git archive --prefix=esker/ -o target/bench/esker.tar HEAD
    echo target/bench/esker.tar
}

for name in "$@"; do
    page=$pages/memory.md
    case $name in
        directories)
            both "Directories" dir --on null: --on mem: --on tmpfs: --files "$files" ;;
        million)
            both "A million files" dir --on null: --on mem: --on tmpfs: --files 10K,1M ;;
        append)
            both "Appending" append --on null: --on mem: --on tmpfs: --on lib: --bytes 100M ;;
        fio)
            both "Reading and writing" fio --on null: --on mem: --on tmpfs: --bytes 256M ;;
        trees)
            archive=${ESKER_ARCHIVE:-$(own)}
            tree=(--archive "$archive" --repository "${ESKER_REPOSITORY:-.}")
            [ -z "${ESKER_BUILD:-}" ] || tree+=(--build "$ESKER_BUILD")
            both "A source tree: $(basename "$archive")" tree --on tmpfs: --on mem: "${tree[@]}" ;;
        memory)
            archive=${ESKER_ARCHIVE:-$(own)}
            measure "Memory: $(basename "$archive")" memory --on mem: --files 1M --bytes 1G \
                --archive "$archive" ;;
        disks)
            measure "Beside file systems for disks" dir append --on mem: --loop ext4,xfs,btrfs \
                --files 10K,100K ;;
        volumes)
            page=$pages/volumes.md
            archive=${ESKER_ARCHIVE:-$(own)}
            targets=(--on null: --on vol:compress=none --on vol: --loop ext4)
            measure "Volumes" dir fio "${targets[@]}" --files 10K --bytes 512M
            tree=(--archive "$archive")
            [ -z "${ESKER_BUILD:-}" ] || tree+=(--build "$ESKER_BUILD")
            measure "A source tree on volumes: $(basename "$archive")" tree --loop ext4 \
                --on vol:compress=none --on vol: "${tree[@]}" ;;
        transports)
            targets=()
            for kind in null mem; do
                for way in device ring; do
                    targets+=(--on "$kind:transport=$way" --on "$kind:transport=$way,no_writeback")
                done
            done
            measure "Transports" dir append clients "${targets[@]}" --files 10K ;;
        peers)
            # They are measured from another directory.
            through=(scripts/peers.sh)
            measure "Beside other file systems in memory" dir append fio --on mem: {} --files 1K,10K \
                --bytes 16M
            through=() ;;
        storing)
            page=$pages/volumes.md
            "$target/release/esker" bench volume --svg "$pages/volumes.svg" --markdown "$page" \
                --title "What reaches a device" \
                >/dev/null || incomplete="$incomplete, storing"
            tree=("tree:${ESKER_ARCHIVE:-$(own)}")
            [ -z "${ESKER_BUILD:-}" ] || tree+=(--build "$ESKER_BUILD")
            "$target/release/esker" bench volume "${tree[@]}" --markdown "$page" \
                --title "What reaches a device, of a tree" >/dev/null || incomplete="$incomplete, storing of a tree" ;;
        packs)
            page=$pages/images.md
            data=${ESKER_DATA:-target/data}
            mkdir -p "$data/images"
            scripts/bench-pack-data.sh "$data" versions source mixed media
            # DwarFS 0.15.3 is in no registry: its bytes are exact, its CPU seconds those of another machine, told as
            # shares of what zstd took there.
            "$target/release/esker" bench pack "$data"/{versions,source,mixed,media} --images "$data/images" \
                --scratch "$data" --rounds "${ESKER_ROUNDS:-3}" --svg "$pages/packs.svg" --markdown "$page" \
                --title "Trees, packed" \
                --given 'versions:DwarFS -l7=33573384,0.693*zstd-long:19' \
                --given 'versions:DwarFS -l9=19304054,0.583*zstd-long:19' \
                --given 'source:DwarFS -l7 by paths=33486004,0.752*zstd-long:19' \
                --given 'source:DwarFS -l9=32799725,1.105*zstd-long:19' \
                --given 'mixed:DwarFS -l7=197067083,0.861*zstd-long:19' \
                --given 'mixed:DwarFS -l7 --categorize=191750043,0.700*zstd-long:19' \
                >/dev/null || incomplete="$incomplete, packs" ;;
        library)
            measure "The library" library --on lib: --files 10K,1M ;;
    esac
done

[ -z "$incomplete" ] || { echo "esker: not all could be run, the pages say what: ${incomplete#, }" >&2; exit 1; }
