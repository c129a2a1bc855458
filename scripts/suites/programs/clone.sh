#!/usr/bin/env bash
# The system's git with a repository of at least 60 MB of packed history (the upstream sources of
# the other programs, one commit each): clone, gc, fsck, checkout, rebase, everything compared.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"

need git dpkg-dev
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=Esker GIT_AUTHOR_EMAIL=esker@example.org
export GIT_COMMITTER_NAME=Esker GIT_COMMITTER_EMAIL=esker@example.org
export GIT_AUTHOR_DATE="2024-01-01T00:00:00Z" GIT_COMMITTER_DATE="2024-01-01T00:00:00Z"
git config --global init.defaultBranch main
git config --global advice.detachedHead false
git config --global safe.directory '*'
origin=$SOURCES/history.git

# The same bytes on every machine that has the same source packages: fixed names and times, no
# attributes, one thread. Made once, outside of the file system under test.
make_history() {
    local package making=$SCRATCH/history
    git init -q "$making"
    printf '* -text -diff -ident -filter -export-subst\n' >"$making/.git/info/attributes"
    for package in lua5.4 nginx redis git sqlite3 python3.11 postgresql-15; do
        unpack "$package" "$making/$package"
        step "commit $package $version"
        git -C "$making" -c core.autocrlf=false add --force --all
        git -C "$making" -c gc.auto=0 commit -q -m "$package $version"
    done
    git -C "$making" -c pack.threads=1 repack -q -a -d
    git clone -q --bare --no-local "$making" "$origin.new"
    rm -rf "$making"
    mv "$origin.new" "$origin"
}

[ -d "$origin" ] || make_history
packed=$(du -sm --apparent-size "$origin" | cut -f 1)
[ "$packed" -ge 60 ] || die "$origin has $packed MB, at least 60 are wanted"
head=$(git -C "$origin" rev-parse HEAD)

step "clone $packed MB"
git clone -q --no-local "$origin" one
[ "$(git -C one rev-parse HEAD)" = "$head" ] || die "the clone has another head"
[ -z "$(git -C one status --porcelain --ignored)" ] || die "the clone is not clean"
files=$(git -C one ls-files | wc -l)
step "fsck"
git -C one fsck --full --strict 2>&1 | tee "$LOGS/clone-fsck"
git -C "$origin" fsck --full --strict >"$SCRATCH/fsck" 2>&1
cmp "$SCRATCH/fsck" "$LOGS/clone-fsck" || die "fsck says something else about the clone"
step "clone with hard links, on the same file system"
git clone -q one two
git -C two fsck --connectivity-only
[ "$(find two/.git/objects -type f -links +1 | wc -l)" -gt 0 ] || die "nothing was linked"
step "checkout back and forth"
git -C two checkout -q HEAD~3
git -C two checkout -q main
[ -z "$(git -C two status --porcelain)" ] || die "checkout left differences"
step "200 commits, branches, rebase, gc"
git -C two checkout -q -b work HEAD~1
for n in $(seq 200); do
    printf 'line %s\n' "$n" >>two/notes
    git -C two add notes
    git -C two commit -q -m "note $n"
    [ $((n % 10)) != 0 ] || git -C two branch "branch$n"
done
git -C two rebase -q main
git -C two reflog expire --expire=now --all
git -C two gc -q --prune=now
git -C two fsck --full
[ "$(wc -l <two/notes)" = 200 ] || die "the rebase lost notes"
[ "$(git -C two rev-list --count main..work)" = 200 ] || die "the rebase lost commits"
step "gc of the first clone"
git -C one gc -q --prune=now
git -C one fsck --full --strict >"$SCRATCH/fsck-gc" 2>&1
[ "$(git -C one rev-parse HEAD)" = "$head" ] || die "gc moved the head"
step "worktree and archive"
git -C one worktree add -q ../three HEAD~2
git -C one archive HEAD | tar -C "$SCRATCH" -x --to-command='cat >/dev/null'
[ "$(git -C one archive HEAD | sha256sum)" = "$(git -C "$origin" archive "$head" | sha256sum)" ] ||
    die "the archives differ"
note "git clone of $packed MB with $files files ($(git --version | cut -d ' ' -f 3)):" \
    "clone, fsck, checkout, rebase, gc, worktree ok"
