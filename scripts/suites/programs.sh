#!/usr/bin/env bash
# Builds real programs on a directory, runs their own tests there, and works with real data.
#
#   sudo scripts/suites/programs.sh DIR [NAME...]
#
# NAME is one of the files in scripts/suites/programs: redis nginx sqlite lua git clone rsync wal
# (these without names given), and postgres python. Sources are Debian's source packages; what is
# missing to build them is installed by apt. Give DIR some GB: python alone takes one and a half.
# As root, what has to run without privileges runs as nobody, so nobody must be able to enter DIR.
#
#   ESKER_SOURCES   cache of downloaded sources (default target/sources of this repository)
#   ESKER_LOGS      where logs go, emptied name by name (default target/suites)
#   ESKER_BESIDE    another directory: each program runs there first, its time stands beside
#   ESKER_KEEP      "yes" leaves the built trees in DIR
#   ESKER_TIMEOUT   seconds that one program may take (default 5400)
#
# Ends with a table: name, seconds, CPU seconds (user and system, without those of a file system's
# server), result. Exit status 0 only when all went well.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
everyday=(redis nginx sqlite lua git clone rsync wal)

die() { printf 'programs: %s\n' "$*" >&2; exit 2; }

[ $# -ge 1 ] || die "which directory? usage: $0 DIR [NAME...]"
[ -d "$1" ] || die "$1 is not a directory"
dir=$(cd "$1" && pwd -P)
shift
[ $# -gt 0 ] || set -- "${everyday[@]}"
for name in "$@"; do
    [ -x "$here/programs/$name.sh" ] || die "there is no program $name"
done
beside=
if [ -n "${ESKER_BESIDE:-}" ]; then
    [ -d "$ESKER_BESIDE" ] || die "$ESKER_BESIDE is not a directory"
    beside=$(cd "$ESKER_BESIDE" && pwd -P)
fi
export SOURCES=${ESKER_SOURCES:-$repository/target/sources}
logs=${ESKER_LOGS:-$repository/target/suites}
mkdir -p "$SOURCES" "$logs"
SOURCES=$(cd "$SOURCES" && pwd)
logs=$(cd "$logs" && pwd)

scratch=$(mktemp -d)
chmod 755 "$scratch"
running=
cleanup() {
    if [ -n "$running" ]; then kill -TERM -- "-$running" 2>/dev/null || true; fi
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# The CPU seconds, user and system, of the processes that this script has waited for.
burnt() { # FILE, in which `times` said it: a subshell would know of no children
    sed -n '2s/[ms]/ /gp' "$1" | awk '{ printf "%.2f", $1 * 60 + $2 + $3 * 60 + $4 }'
}

# measure NAME DIR LOGS: runs one program in a process group of its own. Sets seconds, cpu (of
# its processes, not of a file system's server) and verdict.
measure() {
    local begin end before status=0
    export BUILD=$2/$1 SCRATCH=$scratch/$1 LOGS=$3 NOTES=$3/notes
    rm -rf "$BUILD" "$SCRATCH" "$LOGS"
    mkdir -p "$BUILD" "$SCRATCH" "$LOGS"
    : >"$NOTES"
    times >"$scratch/times"
    before=$(burnt "$scratch/times")
    begin=$(date +%s.%N)
    setsid timeout --kill-after=30 "${ESKER_TIMEOUT:-5400}" "$here/programs/$1.sh" \
        >"$LOGS/log" 2>&1 </dev/null &
    running=$!
    wait "$running" || status=$?
    running=
    end=$(date +%s.%N)
    seconds=$(awk -v a="$begin" -v b="$end" 'BEGIN { printf "%.1f", b - a }')
    times >"$scratch/times"
    cpu=$(awk -v a="$before" -v b="$(burnt "$scratch/times")" 'BEGIN { printf "%.1f", b - a }')
    case $status in
    0) verdict=ok ;;
    124 | 137) verdict="FAIL (timeout)" ;;
    *) verdict="FAIL ($status)" ;;
    esac
    rm -rf "$SCRATCH"
    if [ "${ESKER_KEEP:-}" != yes ] && ! rm -rf "$BUILD" 2>>"$LOGS/log"; then
        verdict="FAIL (rm -rf)"
    fi
}

kind() { findmnt -n -o FSTYPE -T "$1"; }

failed=0
table=$scratch/table
printf 'NAME\tSECONDS\tCPU\t%sRESULT\n' "${beside:+BESIDE\tCPU\t}" >"$table"
for name in "$@"; do
    row=
    if [ -n "$beside" ]; then
        printf '%s on %s (%s) ... ' "$name" "$beside" "$(kind "$beside")"
        measure "$name" "$beside" "$logs/$name-beside"
        printf '%s s, %s\n' "$seconds" "$verdict"
        row="$seconds\t$cpu\t"
        [ "$verdict" = ok ] || row="$verdict\t$cpu\t"
    fi
    printf '%s on %s (%s) ... ' "$name" "$dir" "$(kind "$dir")"
    measure "$name" "$dir" "$logs/$name"
    printf '%s s, %s\n' "$seconds" "$verdict"
    if [ "$verdict" = ok ]; then
        sed 's/^/    /' "$NOTES"
    else
        failed=$((failed + 1))
        tail -n 25 "$LOGS/log" | sed 's/^/    /'
        printf '    (all of it: %s)\n' "$LOGS/log"
    fi
    printf '%s\t%s\t%s\t%s%s\n' "$name" "$seconds" "$cpu" "$row" "$verdict" >>"$table"
done

echo
printf '%b' "$(cat "$table")\n" | column -t -s $'\t'
echo
if [ "$failed" != 0 ]; then
    echo "programs: $failed of $# failed"
    exit 1
fi
echo "programs: all $# ok"
