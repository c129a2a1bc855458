//! Which files of an image are read, in the order in which each is read first.
//!
//! Above: `serve`. Below: an image, or any other home. Invariant: it answers as what it watches does; what it remembers
//! is bounded by the number of files.

use std::collections::{HashMap, HashSet};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use esker::store::{Entry, Flow, Listed, Space, View};
use esker::{Attr, Cursor, Ino, Name, Result, Span, XattrName};

use crate::images::{Node, walk};

/// A home that is watched.
pub struct Profiled<V> {
    view: V,
    read: Mutex<(HashSet<Ino>, Vec<Ino>)>,
}

impl<V: View> Profiled<V> {
    /// Nothing of it was read yet.
    pub fn new(view: V) -> Self {
        Self { view, read: Mutex::default() }
    }

    /// Writes the paths of what was read, each on a line, which a path with a line break in it does not get.
    pub fn write(&self, file: &Path) -> std::io::Result<()> {
        let order = self.read.lock().unwrap_or_else(PoisonError::into_inner).1.clone();
        let places: HashMap<Ino, usize> =
            order.into_iter().enumerate().map(|(place, ino)| (ino, place)).collect();
        let mut paths = vec![Vec::new(); places.len()];
        let mut each = |node: &Node| {
            if let Some(&place) = places.get(&node.ino) {
                paths[place] = node.path.clone();
            }
            Flow::Continue(())
        };
        if let Ok(attr) = self.view.attr(Ino::ROOT) {
            let root = Node { path: Vec::new(), ino: Ino::ROOT, attr, depth: 0 };
            // What cannot be listed was not read by its name either.
            walk(&self.view, root, &mut each, &mut |_, _| {});
        }
        let mut out = BufWriter::new(std::fs::File::create(file)?);
        for path in paths.iter().filter(|path| path.len() > 1 && !path.contains(&b'\n')) {
            out.write_all(&path[1..])?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }
}

impl<V: View> View for Profiled<V> {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.view.attr(ino)
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        self.view.entry(dir, name)
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        self.view.entries(dir, after, attrs, each)
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.0.insert(ino) {
            read.1.push(ino);
        }
        drop(read);
        self.view.read(ino, at, target)
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        self.view.next_data(ino, at)
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        self.view.xattr(ino, name, target)
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        self.view.xattrs(ino, each)
    }

    fn space(&self) -> Space {
        self.view.space()
    }
}
