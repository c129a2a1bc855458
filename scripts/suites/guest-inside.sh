#!/usr/bin/env bash
# What scripts/suites/guest.sh does inside of the guest, on each disk that is named: POSIX, random I/O compared byte by
# byte, filling and emptying until every zone was begun again, SQLite and git under a server that is killed, and a check
# of the volume after each. Before that, a device with zones that do not fit.
#
#   inside.sh DISK...      the disks are /dev/DISK; what it needs lies in the directory from which it is called
#   inside.sh bench ...    counts what file systems write to /dev/plain
#   inside.sh placement    shows where on /dev/placed the streams of a volume go
set -euo pipefail

esker=$PWD/esker
mnt=/tmp/mnt
mkdir -p "$mnt" /tmp/lab

active() { # DEVICE: zones that are begun and not full
    blkzone report "$1" | grep -cE 'zcond: ?[234]\(' || true
}

about() { # DISK
    local queue name
    name=$(basename "$(readlink -f "/dev/$1")")
    queue=/sys/block/$name/queue
    echo "$1: $(cat "$queue/zoned"), $(($(cat "/sys/block/$name/size") / 2048)) MiB," \
        "$(cat "$queue/nr_zones") zones, at most $(cat "$queue/max_open_zones" 2>/dev/null || echo 0) open" \
        "and $(cat "$queue/max_active_zones" 2>/dev/null || echo 0) active, kernel $(uname -r)"
}

sound() { # DISK: unmounted, and nothing is wrong
    "$esker" umount "$mnt" >/dev/null
    "$esker" check "/dev/$1"
    if [ "$1" = zoned ]; then echo "zones active: $(active "/dev/$1")"; fi
}

# Files that cannot be compressed until there is no room, each read back; half of them go, again and again.
fill() { # ROUNDS
    python3 - "$mnt" "$1" <<'PY'
import errno, os, random, sys
top, rounds = sys.argv[1], int(sys.argv[2])
chance, kept, written = random.Random(8), {}, 0
for turn in range(rounds):
    for number in range(100000):
        path = f"{top}/{turn}-{number}"
        data = chance.randbytes(chance.choice([300, 5000, 70000, 3000000]))
        try:
            with open(path, "wb") as file:
                file.write(data)
                file.flush()
                if number % 5 == 0:
                    os.fsync(file.fileno())
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            if os.path.exists(path):
                os.unlink(path)
            break
        kept[path], written = hash(data), written + len(data)
    os.sync()
    used = os.statvfs(top)
    for at, path in enumerate(list(kept)):
        with open(path, "rb") as file:
            assert hash(file.read()) == kept[path], path
        if at % 2 == 0:
            os.unlink(path)
            del kept[path]
    full = 100 - 100 * used.f_bavail // used.f_blocks
    print(f"round {turn}: {written >> 20} MiB were written, {full} % full", flush=True)
assert used.f_bavail * 20 < used.f_blocks, "it was never full"
for path in kept:
    os.unlink(path)
PY
}

# Zones that need not be written in order, as shingled disks have some, are refused by name.
refuse_conventional() {
    local said
    modprobe null_blk nr_devices=1 gb=1 memory_backed=1 zoned=1 zone_size=16 zone_nr_conv=3
    if said=$("$esker" mkfs --force /dev/nullb0 2>&1); then echo "conventional zones were taken"; exit 1; fi
    echo "$said"
    grep -q '3 of its 64 zones are conventional' <<<"$said"
    rmmod null_blk
}

# A volume is filled, and written over at random until blocks were moved twice, while the kernel tells of each command
# to the disk; then each segment, from one beginning to the next, must have gone to one handle, and of the reclaim unit
# that each handle has open as much must be left, by the disk's own word, as what went by that handle leaves of it.
place() { # HOW
    local trace=/sys/kernel/tracing name
    name=$(basename "$(readlink -f /dev/placed)")
    "$esker" mkfs --force /dev/placed >/dev/null
    "$esker" mount -o "placement=$1" /dev/placed "$mnt"
    "$esker" stats "$mnt" --json >stats.json
    nvme fdp status "/dev/$name" >before.txt
    echo 65536 >$trace/buffer_size_kb
    echo 1 >$trace/events/nvme/nvme_setup_cmd/enable
    cat "$trace/trace_pipe" >told.txt &
    local reader=$!
    # Without streams there is nothing to see that comes late.
    python3 - "$mnt/file" "$([ "$1" = auto ] && echo 2000 || echo 200)" <<'PY'
import os, random, sys
chance, size = random.Random(8), 320 << 20
with open(sys.argv[1], "wb") as file:
    for _ in range(size >> 20):
        file.write(chance.randbytes(1 << 20))
    file.flush()
    os.fsync(file.fileno())
handle = os.open(sys.argv[1], os.O_RDWR)
for _ in range(int(sys.argv[2])):
    for _ in range(32):
        os.pwrite(handle, chance.randbytes(4096), chance.randrange(size >> 12) << 12)
    os.fsync(handle)
PY
    "$esker" umount "$mnt" >/dev/null
    sleep 2
    echo 0 >$trace/events/nvme/nvme_setup_cmd/enable
    kill "$reader"
    nvme fdp status "/dev/$name" >after.txt
    # On a terminal it would show how far it is, many times.
    "$esker" check /dev/placed 2>said.txt || { cat said.txt; exit 1; }
    "$esker" info /dev/placed --json >info.json
    python3 - "$1" "$name" <<'PY'
import collections, json, re, sys
how, disk = sys.argv[1:]
told, segment = json.load(open("stats.json"))["placement"], json.load(open("info.json"))["segment"]
print(f"placement={how}: told by {told['by']}, {told['streams']} streams; segments of {segment >> 10} KiB")
# Of a subsystem's namespace the kernel tells by which controller it goes: nvme2c2n1 is nvme2n1.
path = disk.replace("n1", r"(?:c\d+)?n1") if disk.endswith("n1") else disk
write = re.compile(r"disk=" + path + r",.*nvme_cmd_write slba=(\d+), len=(\d+), ctrl=0x([0-9a-f]+), dsmgmt=(\d+)")
lives, sums, ends = {}, collections.Counter(), collections.Counter()
mixed, begun = 0, collections.Counter()
for line in open("told.txt", errors="replace"):
    found = write.search(line)
    if not found:
        continue
    at, blocks, control, management = (int(found[n], 16 if n == 3 else 10) for n in (1, 2, 3, 4))
    handle = management >> 16 if control >> 4 & 15 == 2 else None
    sums[handle] += (blocks + 1) * 4096
    own = at * 4096 // segment
    if at * 4096 % segment == 0:
        lives[own] = handle
        begun[handle] += 1
    elif lives.get(own, handle) != handle:
        mixed += 1
for handle in sorted(sums, key=str):
    name = "no handle" if handle is None else f"handle {handle}"
    print(f"  {name}: {sums[handle] / 2**20:.1f} MiB, {begun[handle]} segments begun")
print(f"  writes to a segment that was begun by another handle: {mixed}")
# What is left of the reclaim unit that each handle has open, in blocks, as the disk says: of 8 handles, and units of
# 16 MiB, as guest.sh has them. How many units were filled besides, the trace of the kernel says.
status = re.compile(r"Placement Identifier (\d+).*?\(RUAMW\):\s*(\d+)", re.S)
def left(file):
    return {int(found[1]): int(found[2]) for found in status.finditer(open(file).read())}
before, after, unit = left("before.txt"), left("after.txt"), (16 << 20) // 4096
wrong = 0 if len(after) == 8 else 1
for handle in after:
    # What names no handle goes by the first.
    own = sum(sums[other] for other in {handle, None if handle == 0 else handle}) // 4096
    wrong += (before[handle] - own - after[handle]) % unit != 0
    if own:
        was, now = before[handle], after[handle]
        print(f"  handle {handle}: {was} blocks of its unit were left, {own} written, {now} left")
print(f"  handles of whose reclaim units other blocks are left: {wrong}")
# The kernel makes handles of lifetimes by itself where a device has them.
right = {"streams": len(sums) > 2, "none": set(sums) == {None}}.get(told["by"], True)
if how == "auto" and told["by"] != "streams":
    print("  this kernel has no write streams, so nothing is shown of them: ESKER_SUITE=sid has one that does")
    right = False
sys.exit(mixed > 0 or wrong > 0 or not right)
PY
}

if [ "$1" = placement ]; then
    name=$(basename "$(readlink -f /dev/placed)")
    echo "kernel $(uname -r), $(cat "/sys/block/$name/queue/max_write_streams") write streams"
    mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || true
    nvme fdp status "/dev/$name"
    # The last shows that nothing of those before it stays.
    for how in auto lifetimes none; do place "$how"; done
    nvme fdp status "/dev/$name"
    nvme fdp stats "/dev/${name%n*}" -e 1
    exit
fi

# A call of `esker bench volume` is one word of the shell's, as no argument of it has spaces.
if [ "${1%% *}" = bench ]; then
    built=()
    if [ -e build ]; then built=(--build "$(cat build)"); fi
    # shellcheck disable=SC2086
    "$esker" bench volume --device /dev/plain --erase --scratch /tmp/lab --images /tmp/lab \
        --svg /tmp/lab/volumes.svg "${built[@]}" ${1#bench} 2>&1 | cat
    cat /tmp/lab/volumes.svg
    exit
fi

refuse_conventional
for disk in $1; do
    about "$disk"
    "$esker" mkfs --force "/dev/$disk"
    if "$esker" mkfs "/dev/$disk" 2>/dev/null; then echo "a volume was overwritten"; exit 1; fi
    "$esker" mount -o allow_other "/dev/$disk" "$mnt"
    if [ -x pjdfstest ]; then
        mkdir -p tools/bin
        cp pjdfstest tools/bin/
        # No FUSE file system is remounted by the newer call that mount(8) prefers.
        LIBMOUNT_FORCE_MOUNT2=always ESKER_TOOLS=$PWD/tools bash ./pjdfstest.sh "$mnt"
    fi
    ./esker-fsx --count 5000 "$mnt"
    sound "$disk"
    "$esker" mount "/dev/$disk" "$mnt"
    fill 3
    # The kernel tells once more what it could not hand over when there was no room.
    sync -f "$mnt" || true
    sound "$disk"
    ESKER_VOLUME=/dev/$disk bash ./killed.sh "$esker" /tmp/lab 5
    "$esker" check "/dev/$disk"
    "$esker" mount -o ro "/dev/$disk" "$mnt"
    sound "$disk"
    echo "$disk: nothing is wrong"
done
