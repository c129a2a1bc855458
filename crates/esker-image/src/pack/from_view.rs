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
    Copying { from: From::View(view), packer, guide, waiting: None }.run(top)
}

/// As [`copy_into`], but for the bytes of files: each comes when it is asked for.
///
/// # Errors
/// As [`copy`].
pub fn copy_names<W: Write + Seek>(
    view: &dyn View,
    top: NodeId,
    packer: &mut Packer<W>,
    guide: &mut dyn Guide<W>,
) -> Result<Waiting> {
    let waiting = Some(Waiting::default());
    let mut copying = Copying { from: From::View(view), packer, guide, waiting };
    copying.run(top)?;
    Ok(copying.waiting.unwrap_or_default())
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
    Copying { from: From::Adopted(image), packer, guide, waiting: None }.run(NodeId::ROOT)
}

/// A file whose bytes come later.
struct Later {
    path: Vec<u8>,
    dir: NodeId,
    node: NodeId,
    ino: Ino,
    size: u64,
}

/// Files of a view whose names are in the new image, and whose bytes are not.
#[derive(Default)]
pub struct Waiting {
    /// In the order of their paths; none: it came.
    files: Vec<Option<Later>>,
    /// Where each is among them.
    places: HashMap<Ino, usize>,
    /// Further names of what has several.
    further: HashMap<NodeId, Vec<(NodeId, Vec<u8>)>>,
}

impl Waiting {
    fn push(&mut self, file: Later) {
        self.places.insert(file.ino, self.files.len());
        self.files.push(Some(file));
    }

    /// The bytes of a file of that view come next, unless they came before, or it was left out. With `hot` it is wanted
    /// first when the image is used.
    ///
    /// # Errors
    /// As [`copy`].
    pub fn take<W: Write + Seek>(
        &mut self,
        ino: Ino,
        hot: bool,
        view: &dyn View,
        packer: &mut Packer<W>,
        guide: &mut dyn Guide<W>,
    ) -> Result<()> {
        let file = self.places.remove(&ino).and_then(|place| self.files[place].take());
        file.map_or(Ok(()), |file| self.bytes(&file, hot, view, packer, guide))
    }

    /// The bytes of all that still wait.
    ///
    /// # Errors
    /// As [`copy`].
    pub fn rest<W: Write + Seek>(
        mut self,
        view: &dyn View,
        packer: &mut Packer<W>,
        guide: &mut dyn Guide<W>,
    ) -> Result<()> {
        let files = std::mem::take(&mut self.files);
        let mut files = files.iter().flatten();
        files.try_for_each(|file| self.bytes(file, false, view, packer, guide))
    }

    fn bytes<W: Write + Seek>(
        &mut self,
        file: &Later,
        hot: bool,
        view: &dyn View,
        packer: &mut Packer<W>,
        guide: &mut dyn Guide<W>,
    ) -> Result<()> {
        let mut copying = Copying { from: From::View(view), packer, guide, waiting: None };
        let incoming = if hot { Incoming::hot() } else { Incoming::default() };
        if let Err(error) = copying.bytes(file.node, file.ino, file.size, &file.path, incoming) {
            copying.missed::<()>(&file.path, error)?;
            let name = file.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            let further = self.further.remove(&file.node).unwrap_or_default();
            for (dir, name) in further.into_iter().chain([(file.dir, name.to_vec())]) {
                copying.packer.unlink(dir, &name)?;
            }
        }
        Ok(())
    }
}

struct Copying<'a, W> {
    from: From<'a>,
    packer: &'a mut Packer<W>,
    guide: &'a mut dyn Guide<W>,
    /// Files whose bytes come later; none: all come at once.
    waiting: Option<Waiting>,
}

impl<W: Write + Seek> Copying<'_, W> {
    fn view(&self) -> &dyn View {
        match self.from {
            From::View(view) => view,
            From::Adopted(image) => image,
        }
    }

    fn run(&mut self, top: NodeId) -> Result<()> {
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
                if let Some(waiting) = &mut self.waiting {
                    waiting.further.entry(known).or_default().push((dir, next.name));
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
        Ok(())
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
            Kind::File => {
                let (ino, size) = (next.ino, next.attr.size);
                match &mut self.waiting {
                    None => self.bytes(node, ino, size, path, Incoming::default())?,
                    Some(waiting) => {
                        waiting.push(Later { path: path.to_vec(), dir, node, ino, size });
                    }
                }
            }
            _ => {}
        }
        Ok(node)
    }

    fn bytes(
        &mut self,
        node: NodeId,
        ino: Ino,
        size: u64,
        path: &[u8],
        mut file: Incoming,
    ) -> Result<()> {
        self.guide.tick(path, 0, self.packer);
        let view = match self.from {
            From::View(view) => view,
            From::Adopted(image) => {
                self.packer.keep(node, image, ino, size)?;
                self.guide.tick(path, size, self.packer);
                return Ok(());
            }
        };
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
