#!/usr/bin/env bash
# rsync -aHAX there and back: a tree of everything a file system can hold (trees.py) and a source
# tree; nothing may differ for rsync nor for our own manifest. cp -a and tar take the same way.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"

need rsync acl attr python3 tar
[ "$(id -u)" = 0 ] || die "must run as root: devices, owners, trusted attributes"

manifest() { python3 "$here/trees.py" manifest "$1"; }
copy() { rsync -aHAXS --numeric-ids --delete "$@"; }
compare() { # FROM TO WHAT
    local found
    found=$(rsync -aHAX --numeric-ids --checksum --delete -n -i "$1/" "$2/")
    [ -z "$found" ] || { printf '%s\n' "$found" | head -n 40; die "$3: rsync sees differences"; }
    manifest "$2" >"$SCRATCH/manifest"
    diff "$SCRATCH/wanted" "$SCRATCH/manifest" >"$LOGS/rsync-differences" ||
        { head -n 40 "$LOGS/rsync-differences"; die "$3: the manifests differ"; }
}

# The origin lies on a tmpfs: it holds large attributes, which ext4 does not.
mkdir "$SCRATCH/reference"
mount -t tmpfs -o size=1g tmpfs "$SCRATCH/reference"
trap 'umount "$SCRATCH/reference"' EXIT
origin=$SCRATCH/reference/origin
returned=$SCRATCH/reference/returned
mkdir "$origin"
step "making the tree"
python3 "$here/trees.py" make "$origin/odd"
unpack redis "$origin/redis"
manifest "$origin" >"$SCRATCH/wanted"
step there
copy "$origin/" there/
compare "$origin" there "there"
step back
copy there/ "$returned/"
compare "$origin" "$returned" "back"
rm -rf "$returned"
step "in place, after changes"
python3 "$here/trees.py" change there/odd
copy "$origin/" there/
compare "$origin" there "repaired"
copy --inplace --no-whole-file --ignore-times "$origin/" there/
compare "$origin" there "written in place"
step "cp -a"
cp -a --sparse=always there copied
compare "$origin" copied "cp -a"
rm -rf copied
step tar
# tar knows no sockets, nor hard links of fifos.
rm there/odd/specials/socket "there/odd/specials/fifo again"
manifest there >"$SCRATCH/wanted"
tar -C there --acls --xattrs --xattrs-include='*' --sparse --numeric-owner -cf all.tar .
mkdir untarred
tar -C untarred --acls --xattrs --xattrs-include='*' --sparse --numeric-owner -xpf all.tar
compare there untarred tar
note "rsync $(rsync --version | sed -n '1s/.*version \([^ ]*\).*/\1/p'):" \
    "$(wc -l <"$SCRATCH/wanted") entries there and back, cp -a and tar: no difference"
