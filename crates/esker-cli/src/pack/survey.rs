//! All things in a tree, as programs and scripts that choose are told of them.
//!
//! Above: `inputs`, `hooks`, `script`. Below: the system, or a view. Invariant: a directory comes before all that is in
//! it, and that follows without a gap; what cannot be read is left to whoever packs it.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use esker::store::{Flow, View};
use esker::{Attr, Ino, Kind};
use serde_json::json;

use super::Rules;
use super::nonsense::{NAMED_BEFORE, no_file};
use crate::images::{Node, walk};

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
    fn of(path: &[u8], meta: &std::fs::Metadata) -> Self {
        Self {
            path: path.to_vec(),
            kind: Kind::from_mode(meta.mode()).map_or("special", kind_word),
            size: meta.size(),
            mode: meta.mode() & 0o7777,
            uid: meta.uid(),
            gid: meta.gid(),
            mtime: meta.mtime(),
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

/// A directory and all things below it that `rules` take, in the order of their paths.
pub fn survey(root: &Path, rules: &Rules) -> Vec<Thing> {
    let (mut things, mut pending) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = pending.pop() {
        let path = below.as_os_str().as_bytes();
        let Ok(meta) = root.join(&below).symlink_metadata() else { continue };
        if !path.is_empty() && !rules.take(path, meta.is_dir()) {
            continue;
        }
        things.push(Thing::of(path, &meta));
        if meta.is_dir() {
            let listed = root.join(&below).read_dir();
            let mut names: Vec<_> =
                listed.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
            names.sort_unstable_by(|one, other| other.as_bytes().cmp(one.as_bytes()));
            pending.extend(names.into_iter().map(|name| below.join(name)));
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
