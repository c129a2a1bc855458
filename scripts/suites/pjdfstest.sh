#!/usr/bin/env bash
# Runs pjdfstest (the Rust one) on a directory and counts what passed.
#
#   sudo scripts/suites/pjdfstest.sh DIR [TEST...]
#
# DIR is any directory of the file system under test; root is needed, because the suite plays
# other users. Round one is the suite itself. Round two is what round one has to leave out: when
# DIR is a mount point, the tests for read-only file systems run one by one with remounting
# allowed (together they would hold each other's files open, and every file system would be
# busy), and those for two file systems run against a private tmpfs.
#
# Exit status: 0 when nothing failed. Nothing stays behind in DIR.
#   ESKER_TOOLS     where the suite is installed (default target/tools of this repository)
#   ESKER_REMOUNT   "no" leaves round two out
set -euo pipefail

version=0.2.2
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
tools=${ESKER_TOOLS:-$(cd "$here/../.." && pwd)/target/tools}

die() { printf 'pjdfstest: %s\n' "$*" >&2; exit 2; }

[ $# -ge 1 ] || die "which directory? usage: $0 DIR [TEST...]"
[ -d "$1" ] || die "$1 is not a directory"
[ "$(id -u)" = 0 ] || die "must run as root: the suite plays other users"
dir=$(cd "$1" && pwd -P)
shift

install_suite() {
    if [ "$("$tools/bin/pjdfstest" --version 2>/dev/null)" = "pjdfstest $version" ]; then
        return
    fi
    echo "installing pjdfstest $version into $tools"
    cargo install --quiet --locked --root "$tools" pjdfstest --version "$version"
}

scratch=$(mktemp -d)
second=$scratch/second
cleanup() {
    if mountpoint -q "$second"; then umount "$second"; fi
    rm -rf "$scratch"
}
trap cleanup EXIT

# Two users that every Debian has; the suite becomes one and then the other.
write_config() { # FILE ALLOW_REMOUNT
    cat >"$1" <<END
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.05
allow_remount = $2
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
END
}

# The suite remounts by mount(8), which for a FUSE file system would hand the work to the mount
# helper of libfuse, and that one can only start servers: -i leaves the helper out.
mkdir "$scratch/bin"
printf '#!/bin/sh\nexec %s -i "$@"\n' "$(command -v mount)" >"$scratch/bin/mount"
chmod +x "$scratch/bin/mount"

run() { PATH=$scratch/bin:$PATH "$tools/bin/pjdfstest" --path "$dir" "$@"; }

# Prints "name<TAB>reason" for every test in the report FILE that has the state STATE; the
# suite writes the reason into the line below the name.
listed() { # FILE STATE
    awk -v state="$2" '
        pending { sub(/^[ \t]+/, ""); print name "\t" $0; pending = 0 }
        $2 == state && NF == 2 { name = $1; pending = 1 }' "$1"
}

count() { # FILE WORD: the number before WORD in the summary line
    sed -n "s/^Summary: .*[^0-9]*\b\([0-9][0-9]*\) $2.*/\1/p" "$1"
}

install_suite
write_config "$scratch/first.toml" false
write_config "$scratch/second.toml" true

echo "pjdfstest $version on $dir ($(findmnt -n -o FSTYPE -T "$dir"))"
status=0
run -c "$scratch/first.toml" "$@" >"$scratch/first" 2>&1 || status=$?
grep -q '^Summary: ' "$scratch/first" || { cat "$scratch/first"; die "the suite did not finish"; }
passed=$(count "$scratch/first" passed)
failed=$(count "$scratch/first" failed)
skipped=$(count "$scratch/first" skipped)
listed "$scratch/first" FAILED | sed 's/^/  FAILED  /'
echo "round one: $passed passed, $failed failed, $skipped skipped"
listed "$scratch/first" skipped >"$scratch/skipped"
if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
    die "the suite failed without naming a test (exit status $status)"
fi

again_passed=0
again_failed=0
: >"$scratch/left"
if [ "${ESKER_REMOUNT:-yes}" = no ] || ! mountpoint -q "$dir"; then
    cp "$scratch/skipped" "$scratch/left"
else
    mkdir "$second"
    mount -t tmpfs -o size=64m tmpfs "$second"
    while IFS=$'\t' read -r name reason; do
        case $reason in
        Remounts* | "No secondary"*) ;;
        *) printf '%s\t%s\n' "$name" "$reason" >>"$scratch/left"; continue ;;
        esac
        if run -c "$scratch/second.toml" --secondary-fs "$second" \
            --exact "pjdfstest::tests::$name" >"$scratch/one" 2>&1 </dev/null &&
            [ "$(count "$scratch/one" passed)" = 1 ]; then
            again_passed=$((again_passed + 1))
        else
            again_failed=$((again_failed + 1))
            listed "$scratch/one" FAILED | sed 's/^/  FAILED  /'
        fi
    done <"$scratch/skipped"
    echo "round two: $again_passed passed, $again_failed failed"
fi

sed 's/\t/: /; s/^/  skipped  /' "$scratch/left"
echo "pjdfstest: $((passed + again_passed)) passed, $((failed + again_failed)) failed," \
    "$(wc -l <"$scratch/left") skipped"
[ $((failed + again_failed)) = 0 ]
