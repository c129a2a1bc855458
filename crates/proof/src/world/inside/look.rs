//! Looking at a whole tree through `posix::Fs`, moving nothing.
//!
//! Above: [`super::Inside::tree`]. Invariant: every hold taken here is let go here.

use std::collections::HashMap;
use std::ops::ControlFlow;

use esker::posix::{Caller, Fs, Node};
use esker::store::Store;
use esker::{Attr, Cursor, Error, Ino, Kind, Name, XattrName};

use crate::world::{Answer, Seen, Stat, Xattrs, counts, pages};

pub(super) fn stat(attr: &Attr) -> Stat {
    let device = matches!(attr.kind, Kind::CharDevice | Kind::BlockDevice);
    Stat {
        kind: attr.kind,
        perm: attr.perm,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: if device { attr.rdev } else { 0 },
        size: if attr.kind == Kind::Directory { 0 } else { attr.size },
        atime: attr.atime,
        mtime: attr.mtime,
        ctime: attr.ctime,
    }
}

/// Names in the order of the home, once `.` and `..` have come first.
pub(super) fn names<S: Store>(
    fs: &Fs<S>,
    caller: &Caller<'_>,
    dir: Ino,
    peek: bool,
) -> Result<Answer, Error> {
    let (mut names, mut dots, mut last) = (Vec::new(), 0, Cursor::START);
    let mut broken = None;
    let mut each = |entry: esker::posix::Dirent<'_>| {
        if entry.cursor <= last {
            broken = Some(format!("{:?} after {last:?}", entry.cursor));
        }
        last = entry.cursor;
        match entry.name {
            b"." | b".." => dots += 1,
            name => names.push((name.to_vec(), entry.kind)),
        }
        ControlFlow::Continue(())
    };
    if peek {
        fs.peek_dir(caller, dir, Cursor::START, false, &mut each)?;
    } else {
        fs.readdir(caller, dir, Cursor::START, false, &mut each)?;
    }
    match broken {
        None if dots == 2 => Ok(Answer::Names(names)),
        None => Ok(Answer::Broken(format!("{dots} dots"))),
        Some(why) => Ok(Answer::Broken(why)),
    }
}

pub(super) fn tree<S: Store>(fs: &Fs<S>) -> Result<Vec<Seen>, String> {
    let mut seen = Vec::new();
    let mut first = HashMap::new();
    let root = fs.hold(Ino::ROOT).map_err(text)?;
    let mut todo = vec![(Vec::new(), root)];
    while let Some((path, node)) = todo.pop() {
        let told = |error: String| format!("{}: {error}", path.escape_ascii());
        let one = look_at(fs, &path, node, &mut first).map_err(told)?;
        for (name, kind) in one.names.iter().rev() {
            let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
            let below = [&path, slash, name].concat();
            let parsed = Name::parse(name).map_err(text)?;
            let child = fs.lookup(&Caller::ROOT, node.ino, parsed).map_err(text)?;
            if child.attr.kind != *kind {
                return Err(format!("{} is listed as {kind:?}", below.escape_ascii()));
            }
            todo.push((below, child));
        }
        fs.forget(node.ino, 1);
        seen.push(one);
    }
    Ok(seen)
}

fn text(error: Error) -> String {
    error.to_string()
}

fn look_at<S: Store>(
    fs: &Fs<S>,
    path: &[u8],
    node: Node,
    first: &mut HashMap<Ino, Vec<u8>>,
) -> Result<Seen, String> {
    let attr = fs.getattr(node.ino).map_err(text)?;
    let stat = stat(&attr);
    let names = match stat.kind {
        Kind::Directory => match names(fs, &Caller::ROOT, node.ino, true).map_err(text)? {
            Answer::Names(names) => names,
            other => return Err(format!("{other:?}")),
        },
        _ => Vec::new(),
    };
    let mut target = Vec::new();
    if stat.kind == Kind::Symlink {
        target.resize(esker::limits::SYMLINK_LEN_MAX, 0);
        let len = fs.peek_link(node.ino, &mut target).map_err(text)?;
        target.truncate(len);
    }
    let mut read = |at: u64, target: &mut [u8]| fs.peek(node.ino, at, target).map_err(text);
    let mut next_data = |at: u64| match fs.seek_data(node.ino, at) {
        Ok(data) => Ok(Some(data)),
        Err(Error::NoSuchOffset) => Ok(None),
        Err(error) => Err(text(error)),
    };
    let pages = match stat.kind {
        Kind::File => pages(stat.size, &mut read, &mut next_data)?,
        _ => Vec::new(),
    };
    counts(attr.blocks, &pages)?;
    let xattrs = xattrs(fs, node.ino)?;
    let same_as = first.entry(node.ino).or_insert_with(|| path.to_vec()).clone();
    Ok(Seen { path: path.to_vec(), same_as, stat, target, pages, xattrs, names })
}

fn xattrs<S: Store>(fs: &Fs<S>, ino: Ino) -> Result<Xattrs, String> {
    let mut list = Vec::new();
    fs.listxattr(&Caller::ROOT, ino, &mut list).map_err(text)?;
    let mut xattrs = Vec::new();
    for name in list.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut value = Vec::new();
        let parsed = XattrName::parse(name).map_err(text)?;
        fs.getxattr(&Caller::ROOT, ino, parsed, &mut value).map_err(text)?;
        xattrs.push((name.to_vec(), value));
    }
    Ok(xattrs)
}
