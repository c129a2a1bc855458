#!/usr/bin/env bash
# CPython: build, and those of its own tests that use files, directories, processes and archives.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"

tests=(test_bz2 test_compileall test_dbm test_dbm_dumb test_ensurepip test_fcntl test_file
    test_file_eintr test_filecmp test_fileinput test_fileio test_genericpath test_glob test_gzip
    test_import test_importlib test_io test_largefile test_lzma test_mailbox test_mmap test_os
    test_pathlib test_pkgutil test_posix test_posixpath test_py_compile test_runpy test_shelve
    test_shutil test_sqlite3 test_stat test_subprocess test_tarfile test_tempfile
    test_unicode_file test_unicode_file_functions test_univnewlines test_venv test_zipapp
    test_zipfile test_zipimport)

need gcc g++ make libc6-dev pkg-config zlib1g-dev libbz2-dev liblzma-dev libffi-dev libssl-dev \
    libsqlite3-dev libreadline-dev libncurses-dev libexpat1-dev uuid-dev libgdbm-dev tzdata
reachable
unpack python3.11 python
given python
cd python
step build
plainly ./configure --quiet --prefix="$BUILD/root" CFLAGS="-O1"
plainly make -j2 -s
step test
plainly ./python -m test -j2 -w -u largefile --tempdir "$TMPDIR" "${tests[@]}" \
    >"$LOGS/python-tests" 2>&1 || { tail -n 80 "$LOGS/python-tests"; die "python's tests"; }
step install
make -s install >/dev/null
"$BUILD/root/bin/python3.11" -m compileall -q -f "$BUILD/root/lib/python3.11/json"
"$BUILD/root/bin/python3.11" -c 'import ssl, sqlite3, zlib, lzma, bz2, ctypes, curses, readline'
note "python $version: $(sed -n 's/^\(All \)\?\([0-9]*\) tests OK.*/\2/p' "$LOGS/python-tests")" \
    "of ${#tests[@]} test files ok"
