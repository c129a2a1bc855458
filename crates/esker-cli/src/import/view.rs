//! What an image or a volume holds copied into a file system, with everything that it has.
//!
//! Above: `import`. Below: `fill` makes. Invariant: an inode with several names is one again.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use esker::attr::device_parts;
use esker::posix::Fs;
use esker::store::{Flow, Store, View};
use esker::{Error, Flags, Ino, Kind, Name, XattrName};

use super::Filled;
use super::fill::{Filler, Meta, Unfinished, remedy};
use super::tree::explained;
use crate::failure::{Exit, Failure, Outcome};
use crate::images::{Node, target, unreadable, walk};
use crate::progress::Progress;

/// Bytes that are moved at a time.
const CHUNK: usize = 1 << 20;

/// Why something could not be copied.
enum Trouble {
    /// The source could not be read.
    Source(Error),
    /// It cannot be made as it was.
    Target(Unfinished),
}

impl From<Unfinished> for Trouble {
    fn from(error: Unfinished) -> Self {
        Self::Target(error)
    }
}

/// A refusal of what is filled.
fn made<T>(done: esker::Result<T>) -> Result<T, Trouble> {
    done.map_err(|error| Trouble::Target(error.into()))
}

/// A refusal of what is read.
fn read<T>(done: esker::Result<T>) -> Result<T, Trouble> {
    done.map_err(Trouble::Source)
}

struct Copier<'a, S> {
    filler: Filler<'a, S>,
    view: &'a dyn View,
    /// Where the directories are that lead to what is copied now.
    above: Vec<Ino>,
    /// Where an inode with several names was copied to.
    links: HashMap<Ino, Ino>,
    buffer: Box<[u8]>,
    progress: Progress,
}

/// Copies all that `view`, which is at `from`, holds.
pub fn copy<S: Store>(fs: &Fs<S>, view: &dyn View, from: &Path) -> Outcome<Filled> {
    let mut copier = Copier {
        filler: Filler::new(fs),
        view,
        above: Vec::new(),
        links: HashMap::new(),
        buffer: vec![0; CHUNK].into_boxed_slice(),
        progress: Progress::new("filling", None),
    };
    let failed = |path: &[u8], trouble| {
        let place = from.join(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)));
        match trouble {
            Trouble::Source(error) => unreadable(&place, "all of it", error),
            Trouble::Target(error) => {
                let what = format!("cannot copy ({})", explained(&error));
                let remedy =
                    if let Unfinished::Refused(error) = error { remedy(error) } else { "" };
                Failure::at(Exit::Failed, &what, &place, remedy)
            }
        }
    };
    let attr = view.attr(Ino::ROOT).map_err(|error| failed(b"", Trouble::Source(error)))?;
    let root = Node { path: Vec::new(), ino: Ino::ROOT, attr, depth: 0 };
    let (mut refused, mut unlisted) = (None, None);
    let mut each = |node: &Node| match copier.node(node) {
        Ok(()) => Flow::Continue(()),
        Err(trouble) => {
            refused.get_or_insert(failed(&node.path, trouble));
            Flow::Break(())
        }
    };
    walk(view, root, &mut each, &mut |node, error| {
        unlisted.get_or_insert(failed(&node.path, Trouble::Source(error)));
    });
    copier.progress.done();
    if let Some(failure) = refused.or(unlisted) {
        return Err(failure);
    }
    let tally = copier.filler.close().map_err(|error| failed(b"", Trouble::Target(error)))?;
    Ok(Filled { tally, skipped: Vec::new() })
}

impl<S: Store> Copier<'_, S> {
    fn node(&mut self, node: &Node) -> Result<(), Trouble> {
        self.progress.tick(self.filler.tally.seen(), 0);
        self.above.truncate(node.depth);
        let meta = self.meta(node)?;
        let Some(&dir) = self.above.last() else {
            self.above.push(Ino::ROOT);
            return Ok(self.filler.finish_early(Ino::ROOT, &node.path, &meta)?);
        };
        let name = made(Name::parse(node.name()))?;
        let kind = node.attr.kind;
        if kind == Kind::Directory {
            let ino = made(self.filler.make(dir, name, kind, (0, 0)))?;
            self.above.push(ino);
            return Ok(self.filler.finish_early(ino, &node.path, &meta)?);
        }
        if let Some(&first) = self.links.get(&node.ino) {
            return made(self.filler.link(first, dir, name));
        }
        let ino = match kind {
            Kind::Symlink => {
                let target = read(target(self.view, node))?.into_vec();
                made(self.filler.symlink(dir, name, &target))?
            }
            _ => made(self.filler.make(dir, name, kind, device_parts(node.attr.rdev)))?,
        };
        if node.attr.nlink > 1 {
            self.links.insert(node.ino, ino);
        }
        if kind == Kind::File {
            self.data(node, ino)?;
        }
        Ok(self.filler.finish(ino, kind, &node.path, &meta)?)
    }

    /// The bytes of a file; its holes stay holes.
    fn data(&mut self, node: &Node, ino: Ino) -> Result<(), Trouble> {
        let (mut at, size) = (0, node.attr.size);
        while let Some(span) = read(self.view.next_data(node.ino, at))? {
            at = span.start();
            while at < span.end() {
                let room = CHUNK.min(usize::try_from(span.end() - at).unwrap_or(CHUNK));
                let len = read(self.view.read(node.ino, at, &mut self.buffer[..room]))?;
                if len == 0 {
                    return Err(Trouble::Source(Error::Io));
                }
                made(self.filler.write(ino, at, &self.buffer[..len]))?;
                self.progress.tick(self.filler.tally.seen(), 0);
                at += len as u64;
            }
        }
        if at < size { made(self.filler.resize(ino, size)) } else { Ok(()) }
    }

    /// Everything else that an inode has.
    fn meta(&self, node: &Node) -> Result<Meta, Trouble> {
        let mut names = Vec::new();
        read(self.view.xattrs(node.ino, &mut |name| {
            names.push(name.bytes().to_vec());
            Flow::Continue(())
        }))?;
        let mut xattrs = Vec::with_capacity(names.len());
        for name in names {
            let mut value = Vec::new();
            let parsed = read(XattrName::parse(&name))?;
            read(self.view.xattr(node.ino, parsed, &mut value))?;
            xattrs.push((name, value));
        }
        let attr = &node.attr;
        let (perm, uid, gid) = (attr.perm, attr.uid, attr.gid);
        // What a home keeps there for itself is not for another.
        let flags = Flags(attr.flags.0 & Flags::KNOWN.0);
        Ok(Meta { perm, uid, gid, atime: Some(attr.atime), mtime: attr.mtime, xattrs, flags })
    }
}
