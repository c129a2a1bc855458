//! Packing what another home holds: a tree in memory, another image, a snapshot.
//!
//! Above: `esker pack` and `repack`, and the tests. Below: [`View`] on the one side, `packer` on the other.

use std::collections::HashMap;
use std::io::{Seek, Write};

use esker::store::{Flow, View};
use esker::{Attr, Cursor, Ino, Kind, XattrName};

use super::incoming::Incoming;
use super::{Error, Meta, NodeId, Packer, Result};
use crate::Image;

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

/// Who decides on what is copied.
pub trait Guide<W> {
    /// The attributes that something gets; none: it is left out, with all that is in it.
    fn rewrite(&self, path: &[u8], meta: Meta) -> Option<Meta> {
        let _ = path;
        Some(meta)
    }

    /// Told of what cannot be read, which is left out. Whether to go on.
    fn trouble(&mut self, path: &[u8], error: esker::Error) -> bool;

    /// Files come in the order of these, equal ones in that of their paths; none: all in that of their paths.
    fn order(&self, path: &[u8], ino: Ino, attr: &Attr) -> Option<Vec<u8>> {
        let _ = (path, ino, attr);
        None
    }

    /// Whether a file is wanted first when the image is used.
    fn hot(&self, ino: Ino) -> bool {
        let _ = ino;
        false
    }

    /// Told of every file, of each piece of it that came in, and of how much that was.
    fn tick(&mut self, path: &[u8], bytes: u64, packer: &Packer<W>) {
        let _ = (path, bytes, packer);
    }
}

/// What is copied, and where it is.
#[derive(Clone, Copy)]
enum From<'a> {
    /// Bytes are read.
    View(&'a dyn View),
    /// Blocks were taken over.
    Adopted(&'a Image),
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
    struct Plain<'a>(&'a mut dyn FnMut(&[u8], esker::Error) -> bool);
    impl<W> Guide<W> for Plain<'_> {
        fn trouble(&mut self, path: &[u8], error: esker::Error) -> bool {
            (self.0)(path, error)
        }
    }
    copy_into(view, NodeId::ROOT, packer, &mut Plain(trouble))
}

/// As [`copy`], into a directory of the new image, and as `guide` says.
///
/// # Errors
/// As [`copy`].
pub fn copy_into<W: Write + Seek>(
    view: &dyn View,
    top: NodeId,
    packer: &mut Packer<W>,
    guide: &mut dyn Guide<W>,
) -> Result<()> {
    Copying { from: From::View(view), packer, guide, later: Vec::new(), further: HashMap::new() }
        .run(top)
}

/// Copies a tree whose blocks the packer took over: no bytes of files are looked at.
///
/// # Errors
/// As [`copy`].
pub fn copy_adopted<W: Write + Seek>(
    image: &Image,
    packer: &mut Packer<W>,
    guide: &mut dyn Guide<W>,
) -> Result<()> {
    packer.adopt(image)?;
    Copying {
        from: From::Adopted(image),
        packer,
        guide,
        later: Vec::new(),
        further: HashMap::new(),
    }
    .run(NodeId::ROOT)
}

/// A file whose bytes come later.
struct Later {
    key: Vec<u8>,
    path: Vec<u8>,
    /// Where to take it out again.
    place: (NodeId, Vec<u8>),
    node: NodeId,
    ino: Ino,
    size: u64,
}

struct Copying<'a, W> {
    from: From<'a>,
    packer: &'a mut Packer<W>,
    guide: &'a mut dyn Guide<W>,
    later: Vec<Later>,
    /// Further names of files whose bytes come later.
    further: HashMap<NodeId, Vec<(NodeId, Vec<u8>)>>,
}

impl<W: Write + Seek> Copying<'_, W> {
    fn view(&self) -> &dyn View {
        match self.from {
            From::View(view) => view,
            From::Adopted(image) => image,
        }
    }

    fn run(mut self, top: NodeId) -> Result<()> {
        let root = self.view().attr(Ino::ROOT)?;
        let own = meta(self.view(), Ino::ROOT, &root)?;
        if let Some(meta) = self.guide.rewrite(&[], own) {
            self.packer.set(top, &meta)?;
        }
        let mut links: HashMap<Ino, NodeId> = HashMap::new();
        let mut levels = vec![(top, listing(self.view(), Ino::ROOT)?, Vec::new())];
        while let Some((dir, names, path)) = levels.last_mut() {
            let Some(next) = names.pop() else {
                levels.pop();
                continue;
            };
            let (dir, path) = (*dir, [&path[..], b"/", &next.name].concat());
            let own = match meta(self.view(), next.ino, &next.attr) {
                Ok(own) => self.guide.rewrite(&path, own),
                Err(error) => self.missed(&path, error.into())?,
            };
            let Some(own) = own else { continue };
            if let Some(&known) = links.get(&next.ino) {
                self.packer.link(dir, &next.name, known)?;
                if !self.later.is_empty() {
                    self.further.entry(known).or_default().push((dir, next.name));
                }
                continue;
            }
            match self.one(dir, &next, own, &path) {
                Ok(node) if next.attr.kind == Kind::Directory => {
                    match listing(self.view(), next.ino) {
                        Ok(names) => levels.push((node, names, path)),
                        Err(error) => self.missed(&path, error.into())?.unwrap_or(()),
                    }
                }
                Ok(node) => {
                    if next.attr.nlink > 1 {
                        links.insert(next.ino, node);
                    }
                }
                Err(error) => {
                    self.missed::<()>(&path, error)?;
                    self.packer.unlink(dir, &next.name)?;
                }
            }
        }
        self.bytes_later()
    }

    /// Something cannot be read: goes on without it, or ends.
    fn missed<T>(&mut self, path: &[u8], error: Error) -> Result<Option<T>> {
        match error {
            Error::Tree(error) if self.guide.trouble(path, error) => Ok(None),
            error => Err(error),
        }
    }

    fn one(&mut self, dir: NodeId, next: &Pending, own: Meta, path: &[u8]) -> Result<NodeId> {
        let node = self.packer.make(dir, &next.name, own)?;
        match next.attr.kind {
            Kind::Symlink => {
                let len = usize::try_from(next.attr.size).map_err(|_| esker::Error::NameTooLong)?;
                let mut target = vec![0; len.min(esker::limits::SYMLINK_LEN_MAX)];
                let len = self.view().read(next.ino, 0, &mut target)?;
                self.packer.target(node, &target[..len])?;
            }
            Kind::File => match self.guide.order(path, next.ino, &next.attr) {
                None => self.bytes(node, next.ino, next.attr.size, path)?,
                Some(key) => self.later.push(Later {
                    key,
                    path: path.to_vec(),
                    place: (dir, next.name.clone()),
                    node,
                    ino: next.ino,
                    size: next.attr.size,
                }),
            },
            _ => {}
        }
        Ok(node)
    }

    /// The bytes of those files that had to wait for their turn.
    fn bytes_later(&mut self) -> Result<()> {
        let mut later = std::mem::take(&mut self.later);
        // The order of equal ones is that in which they were met.
        later.sort_by(|one, other| one.key.cmp(&other.key));
        for file in later {
            if let Err(error) = self.bytes(file.node, file.ino, file.size, &file.path) {
                self.missed::<()>(&file.path, error)?;
                let further = self.further.remove(&file.node).unwrap_or_default();
                for (dir, name) in further.into_iter().chain([file.place]) {
                    self.packer.unlink(dir, &name)?;
                }
            }
        }
        Ok(())
    }

    fn bytes(&mut self, node: NodeId, ino: Ino, size: u64, path: &[u8]) -> Result<()> {
        self.guide.tick(path, 0, self.packer);
        let view = match self.from {
            From::View(view) => view,
            From::Adopted(image) => {
                self.packer.keep(node, image, ino, size)?;
                self.guide.tick(path, size, self.packer);
                return Ok(());
            }
        };
        let hot = self.guide.hot(ino);
        let mut file = if hot { Incoming::hot() } else { Incoming::default() };
        let mut buffer = vec![0; CHUNK.min(usize::try_from(size).unwrap_or(CHUNK))];
        let mut at = 0;
        while let Some(run) = view.next_data(ino, at)? {
            self.packer.hole(&mut file, run.start() - at)?;
            at = run.start();
            while at < run.end() {
                let room = buffer.len().min(usize::try_from(run.end() - at).unwrap_or(CHUNK));
                let count = view.read(ino, at, &mut buffer[..room])?;
                if count == 0 {
                    return Err(esker::Error::Io.into());
                }
                self.packer.data(&mut file, &buffer[..count])?;
                at += count as u64;
                self.guide.tick(path, count as u64, self.packer);
            }
        }
        self.packer.hole(&mut file, size.saturating_sub(at))?;
        self.packer.end(node, file)
    }
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
