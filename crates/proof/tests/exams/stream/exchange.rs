//! A tree before and after everything in it was exchanged: names with each other, files with directories, names of one
//! inode, what is above and what is below, bytes with holes, and flags that forbid it.

use esker::{Flags, Kind, Result, Time};
use esker_volume::stream::{Meta, Target};

fn file(to: &mut dyn Target, path: &[u8], bytes: &[u8]) -> Result<()> {
    to.make(path, Kind::File, 0)?;
    to.write(path, 0, bytes)
}

fn dir(to: &mut dyn Target, path: &[u8]) -> Result<()> {
    to.make(path, Kind::Directory, 0)
}

/// As it was.
pub fn before(to: &mut dyn Target) -> Result<()> {
    file(to, b"a", b"AAAA")?;
    file(to, b"b", b"BBBB")?;
    for path in [&b"outer"[..], b"outer/inner", b"outer/inner/deep", b"was-dir"] {
        dir(to, path)?;
    }
    file(to, b"outer/inner/deep/leaf", b"leaf")?;
    file(to, b"was-file", b"was a file")?;
    file(to, b"linked", b"three names")?;
    to.link(b"linked", b"outer/linked-too")?;
    to.link(b"linked", b"was-dir/linked-three")?;
    to.symlink(b"link", b"a")?;
    file(to, b"full", &[7; 40_000])?;
    file(to, b"fixed", b"fixed")?;
    to.xattr(b"fixed", b"user.note", b"one")?;
    to.flags(b"fixed", Flags::IMMUTABLE)?;
    to.flags(b"outer/inner", Flags::APPEND)
}

/// As it is.
pub fn after(to: &mut dyn Target) -> Result<()> {
    to.flags(b"fixed", Flags::default())?;
    to.flags(b"outer/inner", Flags::default())?;
    for (from, path) in [(b"a", b"t"), (b"b", b"a"), (b"t", b"b")] {
        to.rename(from, path)?;
    }
    // What was above is below.
    to.rename(b"outer/inner/deep", b"deep")?;
    to.rename(b"outer", b"deep/outer")?;
    to.remove(b"was-dir/linked-three", false)?;
    to.remove(b"was-dir", true)?;
    file(to, b"was-dir", b"a file now")?;
    to.remove(b"was-file", false)?;
    dir(to, b"was-file")?;
    to.rename(b"linked", b"was-file/linked")?;
    to.link(b"was-file/linked", b"new-name")?;
    to.remove(b"link", false)?;
    to.symlink(b"link", b"b")?;
    to.hole(b"full", 8_192, 16_384)?;
    to.write(b"full", 39_000, b"other")?;
    to.size(b"full", 50_000)?;
    to.write(b"fixed", 0, b"FIXED")?;
    to.xattr(b"fixed", b"user.note", b"two")?;
    let (atime, mtime) = (Time { secs: 1, nanos: 2 }, Time { secs: -3, nanos: 4 });
    to.attr(b"was-file", &Meta { perm: 0o2750, uid: 3, gid: 4, atime, mtime })?;
    to.flags(b"fixed", Flags(Flags::IMMUTABLE.0 | Flags::APPEND.0))?;
    to.flags(b"deep/outer", Flags::IMMUTABLE)
}
