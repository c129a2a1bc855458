#!/usr/bin/env bash
# Prints the directory that cargo builds into.
set -euo pipefail
cargo metadata --format-version 1 --no-deps --offline |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
