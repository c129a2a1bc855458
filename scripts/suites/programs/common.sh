# shellcheck shell=bash
# What the program suites share: their environment, source packages, users, notes.
#
# programs.sh starts each program's file with these variables:
#   BUILD    an empty directory of its own on the file system under test
#   SCRATCH  an empty directory of its own elsewhere, gone afterwards
#   SOURCES  the cache of downloaded sources
#   NOTES    the file in which `note` says what was built and tested
#   LOGS     the folder for logs that are worth keeping
set -euo pipefail
: "${BUILD:?run by programs.sh}" "${SCRATCH:?}" "${SOURCES:?}" "${NOTES:?}" "${LOGS:?}"
# What the caller's own work has set is not for the programs.
unset "${!PYTHON@}" "${!GIT_@}" "${!PG@}" "${!LUA_@}" "${!PERL@}" MAKEFLAGS CFLAGS LDFLAGS CC
export LC_ALL=C.UTF-8 TZ=UTC HOME="$SCRATCH" TMPDIR="$BUILD/tmp"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export DEBIAN_FRONTEND=noninteractive
umask 022
# shellcheck disable=SC2034 # for the programs
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$TMPDIR"
chmod 1777 "$TMPDIR"
cd "$BUILD"

die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
step() { printf '== %s s: %s\n' "$SECONDS" "$*"; }
note() { printf '%s\n' "$*" >>"$NOTES"; }

# need PACKAGE... : Debian packages that must be there; as root, missing ones are installed.
need() {
    local missing=() package
    for package in "$@"; do
        if [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null)" != "ii " ]; then
            missing+=("$package")
        fi
    done
    [ ${#missing[@]} = 0 ] && return
    [ "$(id -u)" = 0 ] || die "not installed: ${missing[*]} (root would install them)"
    step "installing ${missing[*]}"
    apt-get -o DPkg::Lock::Timeout=600 update -qq
    apt-get -o DPkg::Lock::Timeout=600 install -qq -y --no-install-recommends "${missing[@]}"
}

# The system's own package sources, once more as sources of source packages: apt is told of them
# by options, its configuration stays as it is.
source_options() {
    local apt=$SOURCES/.apt file
    mkdir -p "$apt/parts" "$apt/lists/partial"
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] || continue
        sed 's/^Types:.*/Types: deb-src/' "$file" >"$apt/parts/${file##*/}"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$file" ] || continue
        sed -n 's/^deb /deb-src /p' "$file" >"$apt/parts/${file##*/}"
    done
    options=(-qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$apt/parts"
        -o Dir::State::lists="$apt/lists" -o APT::Sandbox::User=root)
}

# download PACKAGE: puts the source package into the cache, unless some version is there. The
# newest one first; a mirror that does not carry it yet may have the one before.
download() {
    local version options
    if compgen -G "$SOURCES/$1_*.dsc" >/dev/null; then return; fi
    need dpkg-dev
    step "downloading the source of $1"
    source_options
    apt-get "${options[@]}" update
    for version in $(apt-cache "${options[@]}" madison "$1" | awk '{ print $3 }'); do
        if (cd "$SOURCES" && apt-get "${options[@]}" source --download-only "$1=$version"); then
            return
        fi
        rm -f "$SOURCES/$1_${version#*:}.dsc"
    done
    die "no version of the source package $1 can be downloaded"
}

# unpack PACKAGE DIRECTORY: the upstream source without Debian's patches (these expect Debian's
# way of building).
unpack() {
    download "$1"
    need dpkg-dev
    local dsc
    dsc=$(compgen -G "$SOURCES/$1_*.dsc" | sort -V | tail -n 1)
    step "unpacking ${dsc##*/}"
    dpkg-source --no-check --no-copy --skip-patches -x "$dsc" "$2" >/dev/null
    version=$(sed -n 's/^Version: //p' "$dsc" | head -n 1)
    version=${version#*:}
}

# given DIRECTORY : hands a tree to the user that `plainly` becomes.
given() {
    [ "$(id -u)" != 0 ] || chown -R nobody:nogroup "$@"
}

# plainly COMMAND... : runs it as a user without privileges, who must be able to get here.
plainly() {
    if [ "$(id -u)" != 0 ]; then
        "$@"
        return
    fi
    setpriv --reuid nobody --regid nogroup --clear-groups env HOME="$TMPDIR" "$@"
}

# Says why when that user cannot.
reachable() {
    plainly test -x "$BUILD" || die "user nobody cannot enter $BUILD: check the modes of the" \
        "directories above it, and mount with -o allow_other,default_permissions"
}
