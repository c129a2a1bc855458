#!/usr/bin/env python3
"""Streams a large set of alike trees as a tar archive, without a disk: many installs of many versions.

    scripts/bench-scale.py DIR BYTES [SEED] | esker pack - -o scale.esker

DIR holds `versions` and `source` as scripts/bench-pack-data.sh makes them; BYTES is how much file data to stream, as in 10G.
Each install has one of the versions and a sixth of the source, in turn, under a directory of its own. In an install one
file in eight differs from the original as builds differ: a line more stands in a text, a few bytes are others in what is
no text. The same arguments make the same bytes on any machine. How many files and bytes there were is told on standard error.
"""

import io
import os
import random
import sys
import tarfile

SHARE = 8
SLICES = 6
SIZES = {"K": 10, "M": 20, "G": 30, "T": 40}


def size(word):
    unit = SIZES.get(word[-1:].upper())
    return int(word[:-1]) << unit if unit else int(word)


def files(root):
    """Paths in a tree with their modes, in the order of names."""
    found = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append((os.path.relpath(path, root), path, os.stat(path).st_mode & 0o777))
    return found


def varied(content, install, chance):
    """The same file of another build."""
    if b"\0" in content[:4096]:
        changed = bytearray(content)
        for _ in range(3):
            at = chance.randrange(len(changed))
            changed[at:at + 8] = chance.randbytes(len(changed[at:at + 8]))
        return bytes(changed)
    line = b"# built for install %05d, %08x\n" % (install, chance.getrandbits(32))
    lines = content.split(b"\n")
    lines.insert(chance.randrange(len(lines) + 1), line[:-1])
    return b"\n".join(lines)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(f"usage: {sys.argv[0]} DIR BYTES [SEED]")
    root, wanted = sys.argv[1], size(sys.argv[2])
    seed = sys.argv[3] if len(sys.argv) == 4 else "1"
    folder = os.path.join(root, "versions")
    versions = [files(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
    source = files(os.path.join(root, "source"))
    step = len(source) // SLICES + 1
    slices = [source[at:at + step] for at in range(0, len(source), step)]
    if not versions or not slices:
        sys.exit(f"{sys.argv[0]}: no trees in {root}: make them with scripts/bench-pack-data.sh")
    count = total = install = 0
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as archive:
        while total < wanted:
            chance = random.Random(f"{seed}/{install}")
            trees = [("lib", versions[install % len(versions)]), ("src", slices[install % len(slices)])]
            for place, tree in trees:
                for path, original, mode in tree:
                    with open(original, "rb") as file:
                        content = file.read()
                    if content and chance.randrange(SHARE) == 0:
                        content = varied(content, install, chance)
                    entry = tarfile.TarInfo(f"install-{install:05}/{place}/{path}")
                    entry.size, entry.mode, entry.mtime = len(content), mode, 1_700_000_000 + install
                    archive.addfile(entry, io.BytesIO(content))
                    count, total = count + 1, total + len(content)
            install += 1
    print(f"{install} installs, {count} files, {total} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
