//! Which files of an image are read, in the order in which each is read first.
//!
//! Above: `serve`. Below: an image, or any other home. Invariant: it answers as what it watches does; what it remembers
//! is bounded by the number of files.

use std::collections::{HashMap, HashSet};
use std::fs::{OpenOptions, remove_file};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, Weak};

use esker::posix::Fs;
use esker::store::{Entry, Flow, Listed, ReadOnly, Space, View};
use esker::{Attr, Cursor, Ino, Kind, Name, Result, Span, XattrName};
use esker_fuse::Control;
use esker_fuse::control::Served;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Outcome, said};
use crate::images::{Node, exactly, walk};
use crate::pack::output::{replace, spare_unlike};
use crate::pack::{PATIENCE, read_list};
use crate::volumes::ask::{refusal, unknown};

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
    pub fn write(&self, file: &Path) -> Outcome<usize> {
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
        let mut lines = Vec::new();
        for path in paths().filter(|path| !is_broken(path)) {
            lines.extend_from_slice(path);
            lines.push(b'\n');
        }
        // Somebody may have made another one by now.
        spare_others(&self.view, file)?;
        replace("profile", file, &lines)?;
        Ok(paths().filter(is_broken).count())
    }
}

/// Has the server of a mount write its profile now.
pub fn message() -> Value {
    json!({ "profile": true })
}

/// Answers that, so that whoever unmounts has it when that is done.
pub struct Desk<V> {
    pub fs: Weak<Fs<ReadOnly<Profiled<V>>>>,
    pub file: PathBuf,
}

impl<V: View + Send + Sync> Control for Desk<V> {
    fn answer(&self, request: &[u8], _: &dyn Served) -> Vec<u8> {
        let asked: Value = serde_json::from_slice(request).unwrap_or_default();
        let answer = match self.fs.upgrade() {
            Some(fs) if asked.get("profile").is_some() => match fs.store().0.write(&self.file) {
                Ok(broken) => json!({ "broken": broken }),
                Err(failure) => refusal(&failure),
            },
            // There is nothing more to say of it.
            _ if asked.get("stats").is_some() => json!({}),
            _ => unknown(),
        };
        answer.to_string().into_bytes()
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

/// Why there can be no profile.
pub fn unable(file: &Path, error: &std::io::Error) -> Failure {
    let what = format!("cannot write the profile ({})", said(error));
    Failure::at(Exit::Failed, &what, file, "name a file that can be written")
}

/// A profile takes the place of an earlier one, and of no other file that holds something.
pub fn spare_others(view: &dyn View, file: &Path) -> Outcome {
    let is_one = || is_profile(view, file).map_err(|error| unable(file, &error));
    let what = "the file exists already, and is no profile of this image";
    spare_unlike(file, is_one, (what, "name another file, or remove it"))
}

/// Whether what is in a file is an earlier profile of such a tree: paths, of which some are there still.
fn is_profile(view: &dyn View, file: &Path) -> std::io::Result<bool> {
    let text = read_list(file, PATIENCE)?;
    let Some(lines) = text.strip_suffix(b"\n") else { return Ok(false) };
    let mut paths = lines.split(|&byte| byte == b'\n');
    let is_plain =
        |path: &[u8]| path.split(|&byte| byte == b'/').all(|name| Name::parse(name).is_ok());
    let is_file = |path: &[u8]| matches!(exactly(view, path), Ok((_, Kind::File)));
    Ok(paths.clone().all(is_plain) && paths.any(is_file))
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
