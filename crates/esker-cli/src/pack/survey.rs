//! All things in a tree, as programs and scripts that choose are told of them.
//!
//! Above: `inputs`, `hooks`, `script`. Below: the system, or a view. Invariant: a directory comes before all that is in
//! it, and that follows without a gap; what cannot be read is left to whoever packs it.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use esker::store::{Flow, View};
use esker::{Attr, Ino, Kind};
use rustix::fs::Stat;
use serde_json::json;

use super::nonsense::{NAMED_BEFORE, no_file};
use super::{Plan, Rules};
use crate::images::{Node, walk};
use crate::import::source;

/// One thing in the tree.
pub struct Thing {
    /// In the image that is packed, without a `/` in front.
    pub path: Vec<u8>,
    /// `file`, `directory`, `symlink` or `special`.
    pub kind: &'static str,
    /// In bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Whose it is.
    pub uid: u32,
    /// And whose group's.
    pub gid: u32,
    /// Seconds since 1970.
    pub mtime: i64,
}

/// What those that choose are told that something is.
pub const fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        _ => "special",
    }
}

impl Thing {
    fn of(path: &[u8], stat: &Stat) -> Self {
        Self {
            path: path.to_vec(),
            kind: Kind::from_mode(stat.st_mode).map_or("special", kind_word),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime: stat.st_mtime,
        }
    }

    fn shown(path: &[u8], attr: &Attr) -> Self {
        Self {
            path: path.to_vec(),
            kind: kind_word(attr.kind),
            size: attr.size,
            mode: attr.perm.into(),
            uid: attr.uid,
            gid: attr.gid,
            mtime: attr.mtime.secs,
        }
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == "file"
    }

    fn is_directory(&self) -> bool {
        self.kind == "directory"
    }

    /// It as JSON, for a program. A path that is no UTF-8 is told with U+FFFD in it, and named by its number.
    pub fn line(&self, id: usize) -> String {
        json!({
            "id": id,
            "path": String::from_utf8_lossy(&self.path),
            "kind": self.kind,
            "size": self.size,
            "mode": self.mode,
            "uid": self.uid,
            "gid": self.gid,
            "mtime": self.mtime,
        })
        .to_string()
    }
}

/// Files that come one after the other.
#[derive(Default)]
pub struct Ordered(HashSet<usize>);

impl Ordered {
    /// The next one, with its number. The error is why it makes no sense.
    pub fn next(&mut self, id: usize, thing: &Thing) -> Result<(), String> {
        if !thing.is_file() {
            return Err(no_file(thing.kind));
        }
        let is_new = self.0.insert(id);
        if is_new { Ok(()) } else { Err(NAMED_BEFORE.to_owned()) }
    }
}

/// A directory and all things below it that the plan takes, in the order of their paths. As when they are packed,
/// nothing is followed, and a path may be of any length.
pub fn survey(root: &Path, plan: &Plan<'_>) -> Vec<Thing> {
    source::allow_many_files();
    let Ok((top, stat)) = source::open_root(root) else { return Vec::new() };
    let (mut things, device) = (vec![Thing::of(&[], &stat)], stat.st_dev);
    let listed = |dir: &OwnedFd| source::names(dir).unwrap_or_default();
    let names = listed(&top);
    let (mut levels, mut path) = (vec![(top, names, 0)], Vec::new());
    while let Some((dir, names, len)) = levels.last_mut() {
        path.truncate(*len);
        let Some(name) = names.pop() else {
            levels.pop();
            continue;
        };
        if *len > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        let Ok(stat) = source::stat(dir, &name) else { continue };
        let thing = Thing::of(&path, &stat);
        let directory = thing.is_directory();
        if !plan.rules.take(&path, directory) {
            continue;
        }
        things.push(thing);
        if directory && let Ok((dir, stat)) = source::open_directory(dir, &name) {
            let elsewhere = plan.one_file_system && stat.st_dev != device;
            let names = if elsewhere { Vec::new() } else { listed(&dir) };
            levels.push((dir, names, path.len()));
        }
    }
    things
}

/// The same of what an image or a volume shows.
pub fn survey_view(view: &dyn View, rules: &Rules) -> Vec<Thing> {
    let Ok(attr) = view.attr(Ino::ROOT) else { return Vec::new() };
    let root = Node { path: Vec::new(), ino: Ino::ROOT, attr, depth: 0 };
    let mut things = Vec::new();
    let mut each = |node: &Node| {
        let path = node.path.strip_prefix(b"/").unwrap_or_default();
        if !path.is_empty() && !rules.take(path, node.attr.kind == Kind::Directory) {
            return Flow::Break(());
        }
        things.push(Thing::shown(path, &node.attr));
        Flow::Continue(())
    };
    walk(view, root, &mut each, &mut |_, _| {});
    things
}
