//! Links: one tree of all inodes and names that were found, each directory in it once.
//!
//! Above: `recover`. Invariant: every name leads to an inode that is there; what has no name is in `lost+found` under
//! its number; what may be older than it was has a name that says so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use esker::limits::NAME_LEN_MAX;
use esker::{Attr, Cursor, Ino, Kind, Time};
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;

use super::All;
use crate::recent::Recent;

/// Where things go whose name is lost.
const LOST: &[u8] = b"lost+found";
/// What the names of things end with that may be older than they were.
const OLDER: &[u8] = b".older";
/// The same of files of which bytes are lost.
const DAMAGED: &[u8] = b".damaged";

/// What came of it.
#[derive(Default)]
pub(super) struct Links {
    /// Paths of what may be older than it was.
    pub older: Vec<Vec<u8>>,
    /// Paths of names that lead nowhere.
    pub lost: Vec<Vec<u8>>,
    /// Paths of what may have had extended attributes that are lost.
    pub bare: Vec<Vec<u8>>,
    /// Paths of files of which bytes are lost, and how many.
    pub damaged: Vec<(Vec<u8>, u64)>,
    /// How many things had no name.
    pub nameless: u64,
    /// No name has this place in a listing or one above it.
    pub next_place: u64,
    /// How many inodes there are.
    pub inodes: u64,
}

/// Makes the tree.
struct Linking<'a> {
    all: &'a mut All,
    keep_older: bool,
    /// What names lead to, as it was found.
    entries: BTreeMap<Ino, Vec<(Vec<u8>, Ino)>>,
    /// Names and places as they are to be.
    new: Recent,
    next: u64,
    /// Of names that several wanted: how many numbers were tried.
    tried: BTreeMap<(Ino, Vec<u8>), u64>,
    /// What has a name.
    named: BTreeSet<Ino>,
    links: Links,
}

/// A directory of which nothing is known.
fn directory(ino: Ino, parent: Ino) -> Inode {
    let attr = Attr::new(Kind::Directory, 0o700, 0, 0, parent, Time::default());
    Inode { ino, attr, inline: Vec::new() }
}

/// A name that is longer, but not too long.
fn with_end(name: &[u8], end: &[u8]) -> Vec<u8> {
    let len = name.len().min(NAME_LEN_MAX - end.len());
    [&name[..len], end].concat()
}

impl Linking<'_> {
    fn kind(&self, ino: Ino) -> Option<Kind> {
        self.all.recent.inodes.get(&ino).and_then(Option::as_ref).map(|row| row.attr.kind)
    }

    /// Gives something a name; which, if that is taken.
    fn name(&mut self, dir: Ino, name: &[u8], ino: Ino, kind: Kind) -> Vec<u8> {
        let mut own = name.to_vec();
        while self.new.names.contains_key(&(dir, own.clone())) {
            // Many may want the same: each goes on where the one before found a place.
            let number = self.tried.entry((dir, name.to_vec())).or_insert(0);
            *number += 1;
            own = with_end(name, format!(".{number}").as_bytes());
        }
        let seq = self.next;
        self.next += 1;
        let row = Named { dir, name: own.clone(), ino, kind, seq };
        self.new.add_name(row);
        self.named.insert(ino);
        own
    }

    /// Everything below a directory that has its place in the tree.
    fn walk(&mut self, dir: Ino, path: Vec<u8>) {
        let mut todo = VecDeque::from([(dir, path)]);
        while let Some((dir, path)) = todo.pop_front() {
            let mut entries = self.entries.remove(&dir).unwrap_or_default();
            // What is sure has its name before anything else can take that.
            entries.sort_by_cached_key(|(name, ino)| {
                self.all.older_names.contains(&(dir, name.clone()))
                    || self.all.older.contains(ino)
                    || self.all.damaged.contains_key(ino)
            });
            for (name, ino) in entries {
                let below = [&path[..], b"/", &name].concat();
                let Some(kind) = self.kind(ino) else {
                    self.links.lost.push(below);
                    continue;
                };
                let is_directory = kind == Kind::Directory;
                if is_directory && (self.named.contains(&ino) || ino == Ino::ROOT) {
                    continue;
                }
                let key = (dir, name);
                let older = self.all.older_names.contains(&key)
                    || (!is_directory && self.all.older.contains(&ino));
                let wanted = self.marked(key.1, ino, older);
                let name = self.name(dir, &wanted, ino, kind);
                let below = [&path[..], b"/", &name].concat();
                self.tell(&below, ino, older);
                if is_directory {
                    self.place(ino, dir);
                    todo.push_back((ino, below));
                }
            }
        }
    }

    /// A name that says what is wrong with what has it.
    fn marked(&self, name: Vec<u8>, ino: Ino, older: bool) -> Vec<u8> {
        let name = if older && !self.keep_older { with_end(&name, OLDER) } else { name };
        if self.all.damaged.contains_key(&ino) { with_end(&name, DAMAGED) } else { name }
    }

    /// Notes what is wrong with what has this path now.
    fn tell(&mut self, path: &[u8], ino: Ino, older: bool) {
        if older {
            self.links.older.push(path.to_vec());
        } else if self.all.bare.contains(&ino) {
            self.links.bare.push(path.to_vec());
        }
        if let Some(&lost) = self.all.damaged.get(&ino) {
            self.links.damaged.push((path.to_vec(), lost));
        }
    }

    /// Says where a directory is.
    fn place(&mut self, ino: Ino, parent: Ino) {
        if let Some(Some(row)) = self.all.recent.inodes.get_mut(&ino) {
            row.attr.parent = parent;
        }
    }

    /// The directory for what has no name, and its path.
    fn lost_and_found(&mut self) -> Option<(Ino, Vec<u8>)> {
        let key = (Ino::ROOT, LOST.to_vec());
        if let Some(Some(row)) = self.new.names.get(&key)
            && row.kind == Kind::Directory
        {
            return Some((row.ino, [b"/", LOST].concat()));
        }
        let last = self.all.recent.inodes.last_key_value().map_or(Ino::ROOT, |(&ino, _)| ino);
        let ino = Ino(last.0.checked_add(1)?);
        self.all.recent.inodes.insert(ino, Some(directory(ino, Ino::ROOT)));
        let name = self.name(Ino::ROOT, LOST, ino, Kind::Directory);
        Some((ino, [b"/", &name[..]].concat()))
    }

    /// Puts something without a name where such things go.
    fn attach(&mut self, home: &(Ino, Vec<u8>), ino: Ino, kind: Kind) {
        let older = kind != Kind::Directory && self.all.older.contains(&ino);
        let name = self.marked(format!("#{}", ino.0).into_bytes(), ino, older);
        let name = self.name(home.0, &name, ino, kind);
        self.links.nameless += 1;
        let path = [&home.1[..], b"/", &name].concat();
        self.tell(&path, ino, older);
        if kind == Kind::Directory {
            self.place(ino, home.0);
            self.walk(ino, path);
        }
    }

    /// Things without a name, the directories first that nothing is above.
    fn attach_all(&mut self) {
        let nameless = |own: &Self| -> Vec<(Ino, Kind)> {
            let all = own.all.recent.inodes.values().flatten();
            let all = all.filter(|row| row.attr.nlink > 0 && row.ino != Ino::ROOT);
            let all = all.filter(|row| !own.named.contains(&row.ino));
            all.map(|row| (row.ino, row.attr.kind)).collect()
        };
        let first = nameless(self);
        let Some(home) = (!first.is_empty()).then(|| self.lost_and_found()).flatten() else {
            return;
        };
        let below: BTreeSet<Ino> = self.entries.values().flatten().map(|(_, ino)| *ino).collect();
        for (ino, kind) in first {
            if kind == Kind::Directory && !below.contains(&ino) && !self.named.contains(&ino) {
                self.attach(&home, ino, kind);
            }
        }
        // Directories that only lie in each other.
        for (ino, kind) in nameless(self) {
            if kind == Kind::Directory && !self.named.contains(&ino) {
                self.attach(&home, ino, kind);
            }
        }
        for (ino, kind) in nameless(self) {
            self.attach(&home, ino, kind);
        }
    }
}

/// Makes one tree of all that was found.
pub(super) fn link(all: &mut All, keep_older: bool) -> Links {
    let mut entries: BTreeMap<Ino, Vec<(Vec<u8>, Ino)>> = BTreeMap::new();
    for row in all.recent.take_names() {
        entries.entry(row.dir).or_default().push((row.name, row.ino));
    }
    let dirs = entries.keys().copied().chain([Ino::ROOT]);
    for dir in dirs.collect::<BTreeSet<_>>() {
        // One that is gone has nothing in it; one that is lost may.
        all.recent.inodes.entry(dir).or_insert_with(|| Some(directory(dir, Ino::ROOT)));
    }
    let root = all.recent.inodes.get(&Ino::ROOT).and_then(Option::as_ref);
    if root.is_none_or(|row| row.attr.kind != Kind::Directory) {
        all.recent.inodes.insert(Ino::ROOT, Some(directory(Ino::ROOT, Ino::ROOT)));
    }
    entries.retain(|dir, _| {
        let row = all.recent.inodes.get(dir).and_then(Option::as_ref);
        row.is_some_and(|row| row.attr.kind == Kind::Directory)
    });
    let mut own = Linking {
        all,
        keep_older,
        entries,
        new: Recent::default(),
        next: Cursor::FIRST.0,
        tried: BTreeMap::new(),
        named: BTreeSet::new(),
        links: Links::default(),
    };
    if own.all.bare.contains(&Ino::ROOT) {
        own.links.bare.push(b"/".to_vec());
    }
    own.walk(Ino::ROOT, Vec::new());
    own.attach_all();
    let Linking { mut new, mut links, next, .. } = own;
    links.next_place = next;
    new.take_names().for_each(|row| all.recent.add_name(row));
    links.inodes = all.recent.inodes.values().flatten().count() as u64;
    links
}
