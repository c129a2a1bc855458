# shellcheck shell=bash
# Mounts a volume for the suites that source this, with the server as a child of theirs that they may kill.
#
# They set esker (the command), volume (its file or device) and mnt (the mount point); server is the process then.

server=

bring_up() { # OPTIONS
    "$esker" mount -f "$volume" "$mnt" -o "$1" &
    server=$!
    for _ in $(seq 200); do
        if mountpoint -q "$mnt"; then return; fi
        sleep 0.05
    done
    echo "${0##*/}: no mount" >&2
    exit 1
}

# Whatever state it is in.
take_down() {
    if [ -n "$server" ]; then kill -9 "$server" 2>/dev/null || true; fi
    umount -l "$mnt" 2>/dev/null || true
}
