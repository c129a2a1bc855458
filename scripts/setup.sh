#!/usr/bin/env bash
# Installs what is missing on a Debian machine: system packages, as root or through sudo. Rust
# must be there.
#
#   scripts/setup.sh [test]
#
# With `test`, what the tests use besides.
set -euo pipefail

say() { printf 'esker: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# A shell that was open when Rust was installed does not know where it is yet.
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

packages=(fuse3:fusermount3 build-essential:cc git:git)
if [ "${1:-}" = test ]; then
    packages+=(acl:setfacl attr:setfattr tar:tar util-linux:findmnt procps:ps cpio:cpio
        unzip:unzip clang:clang llvm:llvm-ar chromium:chromium)
fi

missing=()
for package in "${packages[@]}"; do
    command -v "${package#*:}" >/dev/null || missing+=("${package%%:*}")
done
# What C needs to become WebAssembly: SQLite is C. It has no command.
if [ "${1:-}" = test ] && [ ! -d /usr/include/wasm32-wasi ]; then
    missing+=(wasi-libc)
fi
if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null ||
        die "not installed: ${missing[*]}: install them with the package manager of this system"
    as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null ||
            die "not installed: ${missing[*]}: as root, run: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt=("${as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=600)
    "${apt[@]}" update
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
fi

command -v cargo >/dev/null || die "Rust is not installed: https://rustup.rs says how, then try again"

# Tests build programs and modules for WebAssembly. Rust of a distribution has its own packages for that.
if [ "${1:-}" = test ] && command -v rustup >/dev/null; then
    for target in wasm32-unknown-unknown wasm32-wasip1; do
        rustup target list --installed | grep -qx "$target" ||
            { say "installing the target $target"; rustup --quiet target add "$target"; }
    done
fi

if [ ! -e /dev/fuse ]; then
    if [ "$(id -u)" = 0 ]; then modprobe fuse 2>/dev/null || true; fi
    [ -e /dev/fuse ] ||
        say "/dev/fuse is missing: nothing can be mounted (modprobe fuse loads it)"
fi

# Machines without udev have it for root alone; a test mounts as another user.
if [ "${1:-}" = test ] && [ "$(id -u)" = 0 ] && [ -e /dev/fuse ]; then
    chmod a+rw /dev/fuse
fi
