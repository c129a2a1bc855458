#!/usr/bin/env bash
# Lua: build, then file I/O through its libraries (lua-files.lua). Lua publishes its tests apart
# from its source: when lua-<version>-tests.tar.gz lies in the cache of sources, they run too.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"

need gcc make libc6-dev libreadline-dev
unpack lua5.4 lua
cd lua
step build
make -j2 linux-readline
make test
make install INSTALL_TOP="$BUILD/root"
step files
mkdir files
(cd files && "$BUILD/root/bin/lua" "$here/lua-files.lua")
done="file I/O ok"
suite=$SOURCES/lua-${version%%-*}-tests.tar.gz
if [ -e "$suite" ]; then
    step tests
    tar -xf "$suite"
    (cd "lua-${version%%-*}-tests" && "$BUILD/root/bin/lua" -e '_U=true' all.lua) |
        tee "$LOGS/lua-tests"
    grep -q '^final OK' "$LOGS/lua-tests" || die "lua's tests"
    done="$done, its own tests ok"
fi
note "lua $version: $done"
