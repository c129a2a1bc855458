//! Packing what another home holds: a tree in memory, another image, a snapshot.
//!
//! Above: `esker pack` and `repack`, and the tests. Below: [`View`] on the one side, `packer` on the other.

use std::collections::HashMap;
use std::io::{Seek, Write};

use esker::store::{Flow, View};
use esker::{Attr, Cursor, Ino, Kind, XattrName};

use super::data::Incoming;
use super::{Error, Meta, NodeId, Packer, Result};

/// Bytes that are moved at a time.
const CHUNK: usize = 1 << 20;

/// A name to copy.
struct Pending {
    name: Vec<u8>,
    ino: Ino,
    attr: Attr,
}

/// Extended attributes of an inode, name and value.
///
/// # Errors
/// What the view says.
pub fn xattrs(view: &dyn View, ino: Ino) -> esker::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = Vec::new();
    view.xattrs(ino, &mut |name| {
        names.push(name.bytes().to_vec());
        Flow::Continue(())
    })?;
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let mut value = Vec::new();
        view.xattr(ino, XattrName::parse(&name)?, &mut value)?;
        all.push((name, value));
    }
    Ok(all)
}

/// What is known of an inode.
pub(super) fn meta(view: &dyn View, ino: Ino, attr: &Attr) -> esker::Result<Meta> {
    Ok(Meta::of(attr, xattrs(view, ino)?))
}

/// Copies everything below the root of `view`, and the root's attributes. What cannot be read is told to
/// `trouble` with its path, and left out; it decides whether to go on.
///
/// # Errors
/// `Tree` when `trouble` wants to stop; whatever packing meets.
pub fn copy<W: Write + Seek>(
    view: &dyn View,
    packer: &mut Packer<W>,
    trouble: &mut dyn FnMut(&[u8], esker::Error) -> bool,
) -> Result<()> {
    copy_into(view, NodeId::ROOT, packer, &|_, meta| Some(meta), trouble)
}

/// As [`copy`], into a directory of the new image. `rewrite` is told of each path and says what attributes it gets, or
/// that it is left out.
///
/// # Errors
/// As [`copy`].
pub fn copy_into<W: Write + Seek>(
    view: &dyn View,
    top: NodeId,
    packer: &mut Packer<W>,
    rewrite: &dyn Fn(&[u8], Meta) -> Option<Meta>,
    trouble: &mut dyn FnMut(&[u8], esker::Error) -> bool,
) -> Result<()> {
    let root = view.attr(Ino::ROOT)?;
    if let Some(meta) = rewrite(&[], meta(view, Ino::ROOT, &root)?) {
        packer.set(top, meta);
    }
    let mut links: HashMap<Ino, NodeId> = HashMap::new();
    let mut levels = vec![(top, listing(view, Ino::ROOT)?, Vec::new())];
    while let Some((dir, names, path)) = levels.last_mut() {
        let Some(next) = names.pop() else {
            levels.pop();
            continue;
        };
        let (dir, path) = (*dir, [&path[..], b"/", &next.name].concat());
        let own = match meta(view, next.ino, &next.attr) {
            Ok(own) => rewrite(&path, own),
            Err(error) if trouble(&path, error) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(own) = own else { continue };
        if let Some(&known) = links.get(&next.ino) {
            packer.link(dir, &next.name, known)?;
            continue;
        }
        match one(view, packer, dir, &next, own) {
            Ok(node) if next.attr.kind == Kind::Directory => match listing(view, next.ino) {
                Ok(names) => levels.push((node, names, path)),
                Err(error) if trouble(&path, error) => {}
                Err(error) => return Err(error.into()),
            },
            Ok(node) => {
                if next.attr.nlink > 1 {
                    links.insert(next.ino, node);
                }
            }
            Err(Error::Tree(error)) if trouble(&path, error) => packer.unlink(dir, &next.name),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The names in a directory, in the order of their bytes, the first one last.
fn listing(view: &dyn View, dir: Ino) -> esker::Result<Vec<Pending>> {
    let mut names = Vec::new();
    view.entries(dir, Cursor::START, true, &mut |listed| {
        if let Some(attr) = listed.attr {
            let name = listed.name.bytes().to_vec();
            names.push(Pending { name, ino: listed.entry.ino, attr });
        }
        Flow::Continue(())
    })?;
    names.sort_by(|one, other| other.name.cmp(&one.name));
    Ok(names)
}

fn one<W: Write + Seek>(
    view: &dyn View,
    packer: &mut Packer<W>,
    dir: NodeId,
    next: &Pending,
    own: Meta,
) -> Result<NodeId> {
    let node = packer.make(dir, &next.name, own)?;
    match next.attr.kind {
        Kind::Symlink => {
            let len = usize::try_from(next.attr.size).map_err(|_| esker::Error::NameTooLong)?;
            let mut target = vec![0; len.min(esker::limits::SYMLINK_LEN_MAX)];
            let len = view.read(next.ino, 0, &mut target)?;
            packer.target(node, &target[..len])?;
        }
        Kind::File => bytes(view, packer, node, next)?,
        _ => {}
    }
    Ok(node)
}

fn bytes<W: Write + Seek>(
    view: &dyn View,
    packer: &mut Packer<W>,
    node: NodeId,
    next: &Pending,
) -> Result<()> {
    let mut file = Incoming::default();
    let mut buffer = vec![0; CHUNK.min(usize::try_from(next.attr.size).unwrap_or(CHUNK))];
    let mut at = 0;
    while let Some(run) = view.next_data(next.ino, at)? {
        packer.hole(&mut file, run.start() - at)?;
        at = run.start();
        while at < run.end() {
            let room = buffer.len().min(usize::try_from(run.end() - at).unwrap_or(CHUNK));
            let count = view.read(next.ino, at, &mut buffer[..room])?;
            if count == 0 {
                return Err(esker::Error::Io.into());
            }
            packer.data(&mut file, &buffer[..count])?;
            at += count as u64;
        }
    }
    packer.hole(&mut file, next.attr.size.saturating_sub(at))?;
    packer.end(node, file)
}
