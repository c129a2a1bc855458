#!/usr/bin/env bash
# Runs the correctness suite of volumes in a QEMU guest with two disks of its own: an emulated zoned NVMe namespace (its
# zones are strictly sequential, few may be open or active at a time) and a plain NVMe disk.
#
#   sudo scripts/suites/guest.sh BIN LAB [plain|zoned]...
#   sudo scripts/suites/guest.sh BIN LAB bench [ARGUMENT...]
#   sudo scripts/suites/guest.sh BIN LAB placement
#
# `bench` counts what file systems write to the plain disk instead: `esker bench volume` with these arguments, on
# kernel file systems that the machine itself may not have (f2fs, nilfs2); LAB/volumes.svg is its picture. `placement`
# writes over a volume on a disk with flexible data placement, and shows which of its handles each segment went to; it
# takes Linux 6.16 or later, as ESKER_SUITE=sid has (with a LAB of its own).
#
# BIN is a directory with the commands esker, esker-fsx and, if it is to run, pjdfstest; LAB one for the guest, which is
# made of Debian packages the first time (3 GB). What is done inside is scripts/suites/guest-inside.sh; it is done on
# both disks where none is named.
#
# Exit status: that of the suite inside; 125 where the guest gave none.
#   ESKER_ARCHIVE   for bench: a tar archive, which is archive.tar there (`bench tree:archive.tar`)
#   ESKER_BUILD     for bench: the command that builds what is in it (gcc and make are there)
#   ESKER_ACCEL     kvm, or tcg (the default: slower by far, and it runs anywhere)
#   ESKER_MIRROR    where the packages come from (default: as apt has it)
#   ESKER_SUITE     of Debian (default: trixie)
#   ESKER_ZONE      options of the zoned namespace (default: zones of 16 MiB of which 12 can be written, 14 active)
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: $0 BIN LAB [plain|zoned]...|bench [ARGUMENT...]|placement" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "guest: must run as root: it makes the tree of a system" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
bin=$(realpath -- "$1")
mkdir -p "$2"
lab=$(realpath -- "$2")
shift 2
suite=${ESKER_SUITE:-trixie}
root=$lab/root
zone=${ESKER_ZONE:-zoned.zone_size=16M,zoned.zone_capacity=12M,zoned.max_open=14,zoned.max_active=14}
accel=${ESKER_ACCEL:-tcg}
if [ "$accel" = tcg ]; then accel=tcg,thread=multi; fi

mirror() {
    sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[.*\] \)\?\([^ ]*\).*/\2/p' \
        /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null | head -n 1
}

# A Debian system in a directory, with QEMU in it as well: the machine that runs this need not have one.
make_system() {
    local packages="linux-image-amd64 systemd-sysv kmod udev fuse3 util-linux attr acl procps"
    packages="$packages nvme-cli python3 sqlite3 git qemu-system-x86 qemu-utils seabios"
    packages="$packages e2fsprogs xfsprogs btrfs-progs f2fs-tools nilfs-tools"
    packages="$packages gcc libc6-dev make"
    # What makes the kernel's first file system comes first: a kernel is content with it, whatever its usual one is.
    debootstrap --variant=minbase --include=initramfs-tools "$suite" "$root.new" \
        "${ESKER_MIRROR:-$(mirror)}" >"$lab/system.log" 2>&1
    cp -L /etc/resolv.conf "$root.new/etc/"
    printf '#!/bin/sh\nexit 101\n' >"$root.new/usr/sbin/policy-rc.d"
    chmod +x "$root.new/usr/sbin/policy-rc.d"
    # shellcheck disable=SC2086 # packages are words
    DEBIAN_FRONTEND=noninteractive chroot "$root.new" \
        apt-get install -y -q --no-install-recommends $packages >>"$lab/system.log" 2>&1
    cat >"$root.new/guest-init" <<'INIT'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
for dir in /tmp /run; do mount -t tmpfs -o mode=1777 tmpfs $dir; done
mkdir -p /dev/shm /dev/pts && mount -t devpts pts /dev/pts
ln -sfn /proc/self/fd /dev/fd
modprobe -a nvme fuse loop
mkdir /run/job && cd /run/job && tar -xf /dev/vdb
for disk in /sys/block/nvme*n1; do
    name=$(tr -d ' ' <"$disk/device/serial")
    for _ in $(seq 50); do [ -b "/dev/${disk##*/}" ] && break; sleep 0.1; done
    ln -sfn "/dev/${disk##*/}" "/dev/$name"
done
bash ./inside.sh "$(cat disks)" >/dev/ttyS1 2>&1
echo "guest: exit status $?" >/dev/ttyS1
sleep 1
echo o >/proc/sysrq-trigger
sleep 60
INIT
    chmod +x "$root.new/guest-init"
    rm -rf "$root.new"/var/cache/apt/archives/*.deb "$root.new"/var/lib/apt/lists/*
    mv "$root.new" "$root"
}

make_disks() {
    local size
    size=$(du -sm "$root" | cut -f 1)
    if [ ! -s "$lab/system.img" ]; then
        rm -f "$lab/system.img.new"
        truncate -s "$((size + 512))M" "$lab/system.img.new"
        mkfs.ext4 -q -d "$root" "$lab/system.img.new"
        mv "$lab/system.img.new" "$lab/system.img"
    fi
    rm -rf "$lab/job"
    mkdir "$lab/job"
    cp "$here/guest-inside.sh" "$lab/job/inside.sh"
    cp "$here/pjdfstest.sh" "$here/killed.sh" "$here/volume.sh" "$lab/job/"
    for command in esker esker-fsx pjdfstest; do
        if [ -x "$bin/$command" ]; then cp "$bin/$command" "$lab/job/"; fi
    done
    if [ -n "${ESKER_ARCHIVE:-}" ]; then cp -- "$ESKER_ARCHIVE" "$lab/job/archive.tar"; fi
    if [ -n "${ESKER_BUILD:-}" ]; then echo "$ESKER_BUILD" >"$lab/job/build"; fi
    echo "${*:-plain zoned}" >"$lab/job/disks"
    plain=512M
    if [ "${1:-}" = bench ]; then plain=4G; fi
    tar -C "$lab/job" -cf "$lab/job.tar" .
    truncate -s %1M "$lab/job.tar"
    rm -f "$lab/plain.img" "$lab/zoned.img" "$lab/placed.img"
    truncate -s "$plain" "$lab/plain.img"
    truncate -s 512M "$lab/zoned.img" "$lab/placed.img"
}

# By the system's own QEMU and libraries.
run_guest() {
    local kernel libraries=$root/usr/lib/x86_64-linux-gnu
    # A machine that is busy gives the guest no time when its clock is looked at, and a timer that is set for one moment
    # may be missed for good: so it ticks.
    local tuning='mitigations=off no_timer_check nowatchdog nohz=off highres=off'
    kernel=$(cd "$root/boot" && echo vmlinuz-*)
    exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" \
        "$root/usr/bin/qemu-system-x86_64" -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" \
        -accel "$accel" -cpu max -M q35 -m 2048 -smp 2 -nodefaults -no-reboot -display none \
        -serial "file:$lab/console" -serial "file:$lab/told" \
        -kernel "$root/boot/$kernel" -initrd "$root/boot/initrd.img-${kernel#vmlinuz-}" \
        -append "console=ttyS0 root=/dev/vda rw init=/guest-init quiet panic=-1 $tuning" \
        -drive "file=$lab/system.img,if=virtio,format=raw,snapshot=on" \
        -drive "file=$lab/job.tar,if=virtio,format=raw,readonly=on" \
        -drive "file=$lab/plain.img,if=none,id=plain,format=raw,cache=unsafe,discard=unmap" \
        -device nvme,serial=plain,drive=plain \
        -drive "file=$lab/zoned.img,if=none,id=zoned,format=raw,cache=unsafe,discard=unmap" \
        -device nvme,serial=zoned,id=zns \
        -device "nvme-ns,drive=zoned,bus=zns,logical_block_size=4096,physical_block_size=4096,zoned=true,$zone" \
        -drive "file=$lab/placed.img,if=none,id=placed,format=raw,cache=unsafe,discard=unmap" \
        -device nvme-subsys,id=apart,nqn=apart,fdp=on,fdp.runs=16M,fdp.nrg=1,fdp.nruh=8 \
        -device nvme,serial=placed,id=fdp,subsys=apart \
        -device "nvme-ns,drive=placed,bus=fdp,logical_block_size=4096,physical_block_size=4096,fdp.ruhs=0-7"
}

if [ ! -d "$root" ]; then
    echo "guest: making a Debian system in $lab"
    rm -rf --one-file-system "$root.new"
    make_system
fi
make_disks "$@"
: >"$lab/told"
run_guest >"$lab/qemu.log" 2>&1 &
guest=$!
trap 'kill "$guest" 2>/dev/null || true' EXIT
tail --pid="$guest" -n +1 -f "$lab/told"
if [ "${1:-}" = bench ]; then tr -d '\r' <"$lab/told" | sed -n '/^<svg/,/^<\/svg>/p' >"$lab/volumes.svg"; fi
status=$(tr -d '\r' <"$lab/told" | sed -n 's/^guest: exit status //p')
if [ -z "$status" ]; then
    echo "guest: no result; console and qemu.log in $lab tell more" >&2
    exit 125
fi
exit "$status"
