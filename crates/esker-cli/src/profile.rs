//! Which files of an image are read, in the order in which each is read first.
//!
//! Above: `serve`. Below: an image, or any other home. Invariant: it answers as what it watches does; what it remembers
//! is bounded by the number of files.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions, remove_file, rename};
use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use esker::store::{Entry, Flow, Listed, Space, View};
use esker::{Attr, Cursor, Ino, Kind, Name, Result, Span, XattrName};

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

    /// Writes the paths of the files that were read, each on a line, in place of what is in the file. How many got
    /// none: there is a line break in their paths.
    pub fn write(&self, file: &Path) -> std::io::Result<usize> {
        let order = self.read.lock().unwrap_or_else(PoisonError::into_inner).1.clone();
        let places: HashMap<Ino, usize> =
            order.into_iter().enumerate().map(|(place, ino)| (ino, place)).collect();
        let mut paths = vec![Vec::new(); places.len()];
        let mut each = |node: &Node| {
            // Links are read when they are followed, but what comes in an order are files.
            let place = places.get(&node.ino).filter(|_| node.attr.kind == Kind::File);
            if let Some(&place) = place {
                paths[place] = node.path.clone();
            }
            Flow::Continue(())
        };
        if let Ok(attr) = self.view.attr(Ino::ROOT) {
            let root = Node { path: Vec::new(), ino: Ino::ROOT, attr, depth: 0 };
            // What cannot be listed was not read by its name either.
            walk(&self.view, root, &mut each, &mut |_, _| {});
        }
        let paths =
            || paths.iter().filter_map(|path| path.get(1..)).filter(|path| !path.is_empty());
        let is_broken = |path: &&[u8]| path.contains(&b'\n');
        replace(file, paths().filter(|path| !is_broken(path)))?;
        Ok(paths().filter(is_broken).count())
    }
}

/// Whether a file can be written, and its whole path, by which it is found from anywhere: what is in it stays for now.
pub fn examine(file: &Path) -> std::io::Result<PathBuf> {
    match OpenOptions::new().write(true).create_new(true).open(file) {
        Ok(_) => {
            let whole = file.canonicalize()?;
            remove_file(&whole)?;
            Ok(whole)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            drop(OpenOptions::new().write(true).open(file)?);
            file.canonicalize()
        }
        Err(error) => Err(error),
    }
}

/// Writes lines in place of what is in a file, which has the old ones or all of the new.
fn replace<'a>(file: &Path, lines: impl Iterator<Item = &'a [u8]>) -> std::io::Result<()> {
    // What is no file, as a terminal, has nothing to keep.
    let is_file = !file.metadata().is_ok_and(|meta| !meta.is_file());
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let beside = if is_file { PathBuf::from(name) } else { file.to_owned() };
    let mut out = BufWriter::new(File::create(&beside)?);
    for line in lines {
        out.write_all(line)?;
        out.write_all(b"\n")?;
    }
    out.into_inner()?.sync_all().or_else(|error| if is_file { Err(error) } else { Ok(()) })?;
    if is_file { rename(beside, file) } else { Ok(()) }
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
