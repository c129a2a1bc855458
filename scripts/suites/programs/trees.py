"""A tree of everything a file system can hold, and a manifest that compares two of them.

trees.py make DIR       makes the tree (root is needed)
trees.py change DIR     spoils some of it
trees.py manifest DIR   prints one line per entry: all of it but what a copy cannot keep (ctime)
"""

import hashlib
import os
import random
import socket
import stat
import subprocess
import sys


def make(root):
    chance = random.Random(1)
    os.makedirs(root)
    os.chdir(root)
    make_files(chance)
    make_names()
    make_links()
    make_specials()
    make_attributes(chance)
    make_acls()
    make_sparse()
    make_times()


def write(name, content=b""):
    with open(name, "wb") as file:
        file.write(content)


def make_files(chance):
    os.mkdir("files")
    for size in (0, 1, 511, 4095, 4096, 4097, 65535, 65536, 1048577, 9000001):
        write(f"files/size{size}", chance.randbytes(size))
    for n in range(64):
        write(f"files/mode{n}", b"x" * n)
        os.chown(f"files/mode{n}", 1000 + n, 2000 + n)
        os.chmod(f"files/mode{n}", (n * 65) & 0o7777)
    deep = "files"
    for n in range(60):
        deep = f"{deep}/d{n}"
        os.mkdir(deep)
    write(f"{deep}/bottom", b"deep")
    os.mkdir("many")
    for n in range(5000):
        write(f"many/{n:05}", b"%d" % n)
    for mode in (0o1777, 0o2775, 0o3770, 0o700, 0o000):
        os.mkdir(f"files/dir{mode:o}")
        os.chmod(f"files/dir{mode:o}", mode)


def make_names():
    os.mkdir("names")
    for byte in range(1, 256):
        if byte != ord("/"):
            write(b"names/b" + bytes([byte]) + b"e")
    for name in (b"x" * 255, "ü".encode() * 127, b"\xff\xfe", b" ", b"...", b"-rf", b"*", b"~",
                 "e\u0301".encode(), "é".encode(), b"A", b"a", b"new\nline", b"CON", b"a:b"):
        write(b"names/" + name, name)


def make_links():
    os.mkdir("links")
    write("links/first", b"linked")
    for n in range(40):
        os.link("links/first", f"links/hard{n}")
    for n in range(300):
        write(f"links/pair{n}")
        os.link(f"links/pair{n}", f"many/pair{n}")
    os.symlink("first", "links/relative")
    os.symlink("/nowhere/at all", "links/dangling")
    os.symlink("x" * 4095, "links/longest")
    os.symlink("links", "links/loop")
    os.symlink(b"\xff\x01", b"links/odd")
    os.lchown("links/relative", 7, 8)
    os.link("links/relative", "links/same symlink", follow_symlinks=False)


def make_specials():
    os.mkdir("specials")
    os.mkfifo("specials/fifo", 0o640)
    os.link("specials/fifo", "specials/fifo again")
    os.mknod("specials/char", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod("specials/block", 0o660 | stat.S_IFBLK, os.makedev(7, 200))
    os.mknod("specials/big minor", 0o600 | stat.S_IFCHR, os.makedev(4095, 1048575))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("specials/socket")
    listener.close()


def make_attributes(chance):
    os.mkdir("attributes")
    for n in range(50):
        write(f"attributes/f{n}")
        for key in range(n % 7):
            os.setxattr(f"attributes/f{n}", f"user.key{key}", chance.randbytes(n * 20))
    os.setxattr("attributes", "user.on a directory", b"yes")
    os.setxattr("attributes/f1", "user.empty", b"")
    os.setxattr("attributes/f1", "user." + "n" * 250, b"long name")
    os.setxattr("attributes/f2", "user.large", chance.randbytes(40000))
    os.setxattr("attributes/f3", "trusted.secret", b"\0\1\2")
    capability = bytes.fromhex("0100000200040000000000000000000000000000")
    os.setxattr("attributes/f4", "security.capability", capability)


def make_acls():
    os.mkdir("acls")
    write("acls/file")
    os.mkdir("acls/dir")
    subprocess.run(["setfacl", "-m", "u:daemon:rw,g:bin:r,u:1234:x,m:rwx", "acls/file"], check=True)
    both = "u:daemon:rwx,d:u:daemon:rx,d:g:bin:w"
    subprocess.run(["setfacl", "-m", both, "acls/dir"], check=True)
    os.mkdir("acls/dir/below")
    write("acls/dir/inherits")


def make_sparse():
    os.mkdir("sparse")
    with open("sparse/holes", "wb") as file:
        for at in (0, 1 << 20, 5 << 20, 64 << 20):
            file.seek(at)
            file.write(b"data" * 1024)
        file.truncate(100 << 20)
    with open("sparse/only a hole", "wb") as file:
        file.truncate(256 << 20)


def make_times():
    os.mkdir("times")
    for n, ns in enumerate((0, 1, 999999999, -1, -5 * 10**17 - 1, 2**31 * 10**9 + 5,
                            2**32 * 10**9 + 7, 1700000000123456789)):
        write(f"times/t{n}")
        os.utime(f"times/t{n}", ns=(ns, ns))
    os.symlink("nowhere", "times/symlink")
    os.utime("times/symlink", ns=(5, 10**18 + 5), follow_symlinks=False)
    for directory, _, _ in os.walk("."):
        os.utime(directory, ns=(10**18, 10**18 + len(directory)))


def change(root):
    os.chdir(root)
    for n in range(0, 5000, 7):
        os.unlink(f"many/{n:05}")
    os.rename("many", "moved")
    write("files/size4096", b"shorter")
    with open("files/size9000001", "r+b") as file:
        file.seek(5000000)
        file.write(b"spoiled")
    os.chmod("files/mode5", 0o777)
    os.chown("files/mode6", 0, 0)
    os.removexattr("attributes/f2", "user.large")
    os.setxattr("attributes/f5", "user.key0", b"other")
    subprocess.run(["setfacl", "-b", "acls/file"], check=True)
    os.unlink("links/hard3")
    write("links/hard3", b"no longer linked")
    os.unlink("specials/char")
    os.mkdir("specials/char")
    os.utime("times/t3", ns=(1, 1))
    write("extra", b"too many")


def manifest(root):
    os.chdir(os.fsencode(root))
    groups = {}
    lines = []
    for path in sorted(walk(b".")):
        info = os.lstat(path)
        kind = stat.S_IFMT(info.st_mode)
        row = [oct(info.st_mode), info.st_uid, info.st_gid, info.st_mtime_ns]
        if kind == stat.S_IFREG:
            row += [info.st_size, digest(path)]
            if b"/sparse/" in path and info.st_blocks * 512 > 1 << 20:
                row.append(f"not sparse: {info.st_blocks} blocks")
        elif kind == stat.S_IFLNK:
            row += [info.st_size, os.readlink(path)]
        elif kind in (stat.S_IFCHR, stat.S_IFBLK):
            row += [os.major(info.st_rdev), os.minor(info.st_rdev)]
        if kind != stat.S_IFDIR and info.st_nlink > 1:
            row += [info.st_nlink, "same as", groups.setdefault(info.st_ino, path)]
        for name in sorted(os.listxattr(path, follow_symlinks=False)):
            row.append((name, os.getxattr(path, name, follow_symlinks=False)))
        lines.append(f"{path!r} {' '.join(map(repr, row))}")
    print("\n".join(lines))


def walk(directory):
    yield directory
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from walk(entry.path)
            else:
                yield entry.path


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    {"make": make, "change": change, "manifest": manifest}[sys.argv[1]](sys.argv[2])
