#!/usr/bin/env bash
# An SQLite database in WAL mode under load: writers, readers, a checkpointer, and writers killed
# in the middle (wal.py says what must hold).
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"

need python3
reachable
given "$BUILD"
plainly python3 "$here/wal.py" "$BUILD/load.db" "${ESKER_WAL_SECONDS:-60}" | tee "$LOGS/wal"
note "$(tail -n 1 "$LOGS/wal")"
