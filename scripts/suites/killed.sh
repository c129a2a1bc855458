#!/usr/bin/env bash
# Kills the server of a volume under SQLite (rollback journal and WAL) and git, again and again, and looks whether
# anything that was committed is lost.
#
#   sudo scripts/suites/killed.sh ESKER DIR [ROUNDS]
#
# ESKER is the command, DIR a directory for the volume and its mount point; by default there are 20 rounds. The volume
# is a file there, or made anew on the block device ESKER_VOLUME. Each round
# works for up to two seconds, kills the server with SIGKILL, checks the volume, mounts it again, and asks SQLite
# (PRAGMA integrity_check, and every committed row) and git (git fsck, and the last commit).
#
# Exit status: 0 when nothing was lost.
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: $0 ESKER DIR [ROUNDS]" >&2; exit 2; }
esker=$(realpath -- "$1")
lab=$(realpath -- "$2")
rounds=${3:-20}
volume=${ESKER_VOLUME:-$lab/killed.vol}
size=(--size 2G)
if [ -b "$volume" ]; then size=(); fi
mnt=$lab/killed.mnt
safe=$lab/killed.safe
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/volume.sh"

cleanup() {
    take_down
    rm -rf "$lab/killed.vol" "$mnt" "$safe"
}
trap cleanup EXIT

# Rows 1, 2, 3, ... into a database, each its own transaction; the last committed one goes to a file elsewhere.
rows() { # DATABASE JOURNAL
    python3 - "$mnt/$1" "$2" "$safe/$1" <<'END'
import os, sqlite3, sys
path, journal, safe = sys.argv[1:]
base = sqlite3.connect(path, isolation_level=None)
base.execute(f"PRAGMA journal_mode={journal}")
# With less, SQLite does not make safe that it took the rollback journal away, and may lose the last row.
base.execute("PRAGMA synchronous=EXTRA")
base.execute("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, x BLOB)")
number = base.execute("SELECT max(n) FROM t").fetchone()[0] or 0
while True:
    number += 1
    base.execute("INSERT INTO t VALUES(?, randomblob(?))", (number, number * 37 % 3000))
    # SQLite takes a directory that it cannot open for one that needs no sync, and calls the row committed. So it counts
    # only if the server answers still: then it did when the directory was opened. This question no cache answers.
    os.statvfs(path)
    with open(safe, "w") as file:
        file.write(str(number))
END
}

commits() {
    local number head
    cd "$mnt/git"
    for number in $(seq 100000); do
        echo "$RANDOM $number" >"file$((number % 50))"
        git add -A
        git -c user.name=x -c user.email=x@x commit -q -m "$number"
        sync "$mnt/git/.git"
        head=$(git rev-parse HEAD)
        echo "$head" >"$safe/git"
    done
}

sound() { # DATABASE
    python3 - "$mnt/$1" "$(cat "$safe/$1" 2>/dev/null || echo 0)" <<'END'
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
found = base.execute("PRAGMA integrity_check").fetchone()[0]
assert found == "ok", found
base.execute("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, x BLOB)")
count = base.execute("SELECT count(*) FROM t").fetchone()[0]
assert count >= int(sys.argv[2]), f"{count} rows of {sys.argv[2]}"
print(f"{sys.argv[1]}: {count} rows")
END
}

mkdir -p "$mnt" "$safe"
"$esker" mkfs "$volume" --force "${size[@]}"
bring_up commit=1
mkdir "$mnt/git"
git -C "$mnt/git" init -q
git -C "$mnt/git" config core.fsync all
git -C "$mnt/git" config gc.auto 0
"$esker" sync "$mnt"
for round in $(seq "$rounds"); do
    rows rollback DELETE 2>/dev/null &
    first=$!
    rows wal WAL 2>/dev/null &
    second=$!
    commits 2>/dev/null &
    third=$!
    sleep "1.$((RANDOM % 10))"
    kill -9 "$server"
    wait "$server" "$first" "$second" "$third" 2>/dev/null || true
    umount -l "$mnt"
    "$esker" check "$volume"
    bring_up commit=1
    sound rollback
    sound wal
    rm -f "$mnt"/git/.git/*.lock "$mnt"/git/.git/refs/heads/*.lock
    git -C "$mnt/git" fsck --no-dangling --no-progress
    if [ -e "$safe/git" ]; then git -C "$mnt/git" cat-file -e "$(cat "$safe/git")"; fi
    echo "round $round of $rounds: nothing is lost"
done
