//! Looking at a directory tree by system calls: listings, extended attributes, contents.
//!
//! Above: [`super::Outside::tree`] with root's eyes. Invariant: looking moves nothing that is compared.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use esker::Kind;
use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, Result};

use super::calls::convert;
use crate::world::{Answer, Seen, counts, pages};

pub(super) fn xattr_names(path: &[u8], follow: bool) -> Result<Vec<Vec<u8>>> {
    let mut list = vec![0; 1 << 16];
    let count = if follow {
        fs::listxattr(path, &mut list[..])?
    } else {
        fs::llistxattr(path, &mut list[..])?
    };
    let names = list[..count].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(<[u8]>::to_vec).collect();
    names.sort();
    Ok(names)
}

/// All names, sorted, with `.` and `..` taken out once they have been seen.
pub(super) fn list(path: &[u8]) -> Result<Answer> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = fs::openat(CWD, path, flags, Mode::empty())?;
    let (mut names, mut dots) = (Vec::new(), 0);
    for entry in Dir::new(fd)? {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => dots += 1,
            name => names.push((name.to_vec(), kind(entry.file_type()).ok_or(Errno::IO)?)),
        }
    }
    names.sort();
    let twice = names.windows(2).any(|pair| pair[0].0 == pair[1].0);
    if dots != 2 || twice {
        return Ok(Answer::Broken(format!("{dots} dots, a name twice: {twice}, in {names:?}")));
    }
    Ok(Answer::Names(names))
}

fn kind(file_type: FileType) -> Option<Kind> {
    Some(match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Unknown => return None,
    })
}

/// Everything below `root`, in the order of names, the root first.
pub(super) fn tree(root: &Path) -> std::result::Result<Vec<Seen>, String> {
    let mut seen = Vec::new();
    let mut first = HashMap::new();
    let mut todo = vec![Vec::new()];
    while let Some(path) = todo.pop() {
        let full = [root.as_os_str().as_bytes(), b"/", &path].concat();
        let told = |error: String| format!("{}: {error}", path.escape_ascii());
        let one = look_at(&path, &full, &mut first).map_err(told)?;
        for (name, _) in one.names.iter().rev() {
            let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
            todo.push([&path, slash, name].concat());
        }
        seen.push(one);
    }
    Ok(seen)
}

fn look_at(
    path: &[u8],
    full: &[u8],
    first: &mut HashMap<u64, Vec<u8>>,
) -> std::result::Result<Seen, String> {
    let raw = fs::statat(CWD, full, AtFlags::SYMLINK_NOFOLLOW).map_err(text)?;
    let stat = convert(&raw);
    let mut xattrs = Vec::new();
    for name in xattr_names(full, false).map_err(text)? {
        let mut value = vec![0; 1 << 16];
        let count = fs::lgetxattr(full, &name[..], &mut value[..]).map_err(text)?;
        value.truncate(count);
        xattrs.push((name, value));
    }
    let names = match stat.kind {
        Kind::Directory => match list(full).map_err(text)? {
            Answer::Names(names) => names,
            other => return Err(format!("{other:?}")),
        },
        _ => Vec::new(),
    };
    let target = match stat.kind {
        Kind::Symlink => fs::readlinkat(CWD, full, Vec::new()).map_err(text)?.into_bytes(),
        _ => Vec::new(),
    };
    let pages = if stat.kind == Kind::File { file_pages(full, stat.size)? } else { Vec::new() };
    counts(raw.st_blocks.cast_unsigned(), &pages)?;
    let same_as = first.entry(raw.st_ino).or_insert_with(|| path.to_vec()).clone();
    Ok(Seen { path: path.to_vec(), same_as, stat, target, pages, xattrs, names })
}

fn text(errno: Errno) -> String {
    errno.to_string()
}

fn file_pages(full: &[u8], size: u64) -> std::result::Result<Vec<(u64, u32)>, String> {
    let fd =
        fs::openat(CWD, full, OFlags::RDONLY | OFlags::NOATIME | OFlags::CLOEXEC, Mode::empty())
            .map_err(text)?;
    let mut read = |at: u64, target: &mut [u8]| rustix::io::pread(&fd, target, at).map_err(text);
    let mut next_data = |at: u64| match fs::seek(&fd, SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.to_string()),
    };
    pages(size, &mut read, &mut next_data)
}
