//! The tree while it is gathered: nodes, the names between them, what each holds.
//!
//! Above: `packer`, `numbers`. Below: `shelf`, `finder`. All of it lies in scratch files; a number for each name is
//! what is kept in memory, so that names are found. Invariant: every node but the root was put under a name once;
//! what is replaced stays in the list and is no longer reachable, so it is never written.

use esker::{Attr, Error, Flags, Kind, Time, layout};

use super::Result;
use super::finder::Finder;
use super::scratch::Scratches;
use super::shelf::{Row, Rows, Shelf, row};

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The root directory.
    pub const ROOT: Self = Self(0);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// That with this number.
    pub(super) const fn new(number: u32) -> Self {
        Self(number)
    }
}

/// Which times are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// That of the last change of content; the others say the same.
    Content,
    /// All four.
    All,
}

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node.
    pub rdev: u32,
    /// chattr flags.
    pub flags: Flags,
    /// Last change of content.
    pub mtime: Time,
    /// Last read, last change of anything, birth; none: they say the same.
    pub others: Option<Box<[Time; 3]>>,
    /// Extended attributes, name and value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Meta {
    /// Of a kind with permissions, all else empty.
    #[must_use]
    pub fn new(kind: Kind, perm: u16) -> Self {
        let none = Time::default();
        Self {
            kind,
            perm,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: Flags(0),
            mtime: none,
            others: None,
            xattrs: Vec::new(),
        }
    }

    /// What another home knows.
    #[must_use]
    pub fn of(attr: &Attr, xattrs: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        Self {
            kind: attr.kind,
            perm: attr.perm,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            flags: attr.flags,
            mtime: attr.mtime,
            others: Some(Box::new([attr.atime, attr.ctime, attr.btime])),
            xattrs,
        }
    }
}

/// What a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Nothing, or the names in a directory.
    Nothing,
    /// A symbolic link's target: where its bytes are, and how many.
    Target(u64, u32),
    /// A file's content, by number, and its size.
    Content(u32, u64),
}

layout! {
    /// A node.
    pub struct NodeRow: 60 {
        0 => mode: u32,
        4 => uid: u32,
        8 => gid: u32,
        12 => rdev: u32,
        16 => flags: u32,
        20 => secs: i64,
        28 => nanos: u32,
        32 => links: u32,
        36 => beside: u64,
        44 => held: u32,
        48 => number: u32,
        52 => place: u64,
    }
}
row!(NodeRow);

/// What the numbers of a [`NodeRow`] say that it holds.
mod held {
    pub const NOTHING: u32 = 0;
    pub const TARGET: u32 = 1;
    pub const CONTENT: u32 = 2;
}

impl NodeRow {
    fn of(meta: &Meta, beside: u64) -> Self {
        Self {
            mode: meta.kind.bits() | u32::from(meta.perm & 0o7777),
            uid: meta.uid,
            gid: meta.gid,
            rdev: meta.rdev,
            flags: meta.flags.0,
            secs: meta.mtime.secs,
            nanos: meta.mtime.nanos,
            links: 0,
            beside,
            held: held::NOTHING,
            number: 0,
            place: 0,
        }
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        Kind::from_mode(self.mode).unwrap_or(Kind::File)
    }

    /// Permission bits.
    pub const fn perm(&self) -> u16 {
        (self.mode & 0o7777) as u16
    }

    /// Last change of content.
    pub const fn mtime(&self) -> Time {
        Time { secs: self.secs, nanos: self.nanos }
    }

    /// What it holds.
    pub const fn holds(&self) -> Held {
        match self.held {
            held::TARGET => Held::Target(self.place, self.number),
            held::CONTENT => Held::Content(self.number, self.place),
            _ => Held::Nothing,
        }
    }
}

layout! {
    /// A name in a directory: where its bytes are, and what it leads to.
    pub struct NameRow: 18 {
        0 => dir: u32,
        4 => node: u32,
        8 => at: u64,
        16 => len: u8,
        17 => kind: u8,
    }
}
row!(NameRow);

/// The node of a name that was taken away.
const GONE: u32 = u32::MAX;

impl NameRow {
    /// Whether it leads anywhere.
    pub const fn is_there(&self) -> bool {
        self.node != GONE
    }

    /// What it leads to is of this kind.
    pub fn kind(&self) -> Kind {
        Kind::from_mode(u32::from(self.kind) << 12).unwrap_or(Kind::File)
    }
}

layout! {
    /// A time.
    pub struct TimeRow: 12 {
        0 => secs: i64,
        8 => nanos: u32,
    }
}
row!(TimeRow);

/// What a node has beside its row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Beside {
    /// Last read, last change of anything, birth.
    pub times: Option<[Time; 3]>,
    /// Extended attributes, name and value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The tree.
pub(super) struct Tree {
    nodes: Rows<NodeRow>,
    names: Rows<NameRow>,
    /// Bytes of names, of targets, and what nodes have beside their rows.
    words: Shelf,
    /// Names by directory and name.
    finder: Finder,
    times: Times,
    /// Whether anything has extended attributes.
    pub has_xattrs: bool,
}

impl Tree {
    pub fn new(root: Meta, times: Times, scratches: Scratches<'_>) -> Result<Self> {
        let mut tree = Self {
            nodes: Rows::new(scratches()?),
            names: Rows::new(scratches()?),
            words: Shelf::new(scratches()?),
            finder: Finder::new(),
            times,
            has_xattrs: false,
        };
        // An address of 0 means that there is nothing.
        tree.words.append(&[0])?;
        tree.add(Meta { kind: Kind::Directory, ..root })?;
        Ok(tree)
    }

    fn add(&mut self, meta: Meta) -> Result<NodeId> {
        let beside = self.keep_beside(&meta)?;
        Ok(NodeId(self.nodes.push(&NodeRow::of(&meta, beside))?))
    }

    /// Puts away what of `meta` no row has room for, and is to be kept: its address, or 0 for nothing.
    fn keep_beside(&mut self, meta: &Meta) -> Result<u64> {
        let others = meta.others.as_deref().filter(|others| **others != [meta.mtime; 3]);
        let others = others.filter(|_| self.times == Times::All);
        if others.is_none() && meta.xattrs.is_empty() {
            return Ok(0);
        }
        let mut xattrs: Vec<_> = meta.xattrs.iter().collect();
        xattrs.sort();
        xattrs.dedup_by(|one, other| one.0 == other.0);
        self.has_xattrs |= !xattrs.is_empty();
        let mut bytes = vec![u8::from(others.is_some())];
        for time in others.into_iter().flatten() {
            bytes.extend(TimeRow { secs: time.secs, nanos: time.nanos }.encode());
        }
        for (name, value) in xattrs {
            for word in [name, value] {
                bytes.extend((word.len() as u32).to_le_bytes());
                bytes.extend(word);
            }
        }
        let at = self.words.append(&(bytes.len() as u32).to_le_bytes())?;
        self.words.append(&bytes)?;
        Ok(at)
    }

    /// What a node has beside its row.
    pub fn beside(&mut self, node: &NodeRow) -> Result<Beside> {
        let mut found = Beside::default();
        if node.beside == 0 {
            return Ok(found);
        }
        let mut len = [0; 4];
        self.words.read(node.beside, &mut len)?;
        let bytes = self.words.bytes(node.beside + 4, u32::from_le_bytes(len) as usize)?;
        let mut rest = &bytes[1..];
        if bytes[0] > 0 {
            let mut times = [Time::default(); 3];
            for time in &mut times {
                let row = TimeRow::take(rest).map(|row| Time { secs: row.secs, nanos: row.nanos });
                *time = row.unwrap_or_default();
                rest = &rest[TimeRow::SIZE..];
            }
            found.times = Some(times);
        }
        let mut word = || {
            let (len, behind) = rest.split_first_chunk::<4>()?;
            let (word, behind) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = behind;
            Some(word.to_vec())
        };
        while let Some(name) = word() {
            found.xattrs.push((name, word().unwrap_or_default()));
        }
        Ok(found)
    }

    /// How many nodes there are, also those that are not reachable.
    pub const fn len(&self) -> usize {
        self.nodes.count() as usize
    }

    /// How many names there are, also those that were taken away.
    pub const fn names(&self) -> u32 {
        self.names.count()
    }

    /// Bytes of memory that it takes, in about.
    pub fn memory(&self) -> u64 {
        self.nodes.memory() + self.names.memory() + self.words.memory() + self.finder.memory()
    }

    /// A node.
    pub fn node(&mut self, id: NodeId) -> Result<NodeRow> {
        self.nodes.get(id.0)
    }

    /// A name, by its number.
    pub fn name(&mut self, number: u32) -> Result<NameRow> {
        self.names.get(number)
    }

    /// Its bytes.
    pub fn word(&mut self, name: &NameRow) -> Result<Vec<u8>> {
        self.words.bytes(name.at, name.len.into())
    }

    /// The target of a symbolic link.
    pub fn target(&mut self, at: u64, len: u32) -> Result<Vec<u8>> {
        self.words.bytes(at, len as usize)
    }

    /// All that `meta` says but the kind.
    pub fn set(&mut self, id: NodeId, meta: &Meta) -> Result<()> {
        let beside = self.keep_beside(meta)?;
        let NodeRow { mode, links, held, number, place, .. } = self.node(id)?;
        let own = NodeRow::of(meta, beside);
        let mode = mode & !0o7777 | u32::from(own.perm());
        self.nodes.set(id.0, &NodeRow { mode, links, held, number, place, ..own })
    }

    pub fn find(&mut self, dir: NodeId, name: &[u8]) -> Result<Option<(NodeId, Kind)>> {
        let found = self.look_up(dir, name)?.map(|(_, row)| row).filter(NameRow::is_there);
        Ok(found.map(|row| (NodeId(row.node), row.kind())))
    }

    /// The row of a name, which may have been taken away, and its number.
    fn look_up(&mut self, dir: NodeId, name: &[u8]) -> Result<Option<(u32, NameRow)>> {
        let Self { finder, names, words, .. } = self;
        let mut own = [0; esker::limits::NAME_LEN_MAX];
        let mut found = None;
        let number = finder.find(&(dir, name), |number| {
            let row = names.get(number)?;
            if row.dir != dir.0 || usize::from(row.len) != name.len() {
                return Ok(false);
            }
            let own = &mut own[..name.len()];
            words.read(row.at, own)?;
            found = Some(row);
            Ok(own == name)
        })?;
        Ok(number.zip(found))
    }

    fn put(&mut self, dir: NodeId, name: &[u8], id: NodeId) -> Result<()> {
        esker::Name::parse(name)?;
        if self.node(dir)?.kind() != Kind::Directory {
            return Err(Error::NotDirectory.into());
        }
        let mut node = self.node(id)?;
        let kind = node.kind().dirent_type();
        if let Some((number, row)) = self.look_up(dir, name)? {
            self.names.set(number, &NameRow { node: id.0, kind, ..row })?;
            self.lose_link(&row)?;
            node = self.node(id)?;
        } else {
            let at = self.words.append(name)?;
            let len = name.len() as u8;
            let number = self.names.push(&NameRow { dir: dir.0, node: id.0, at, len, kind })?;
            self.finder.insert(&(dir, name), number);
        }
        node.links += 1;
        self.nodes.set(id.0, &node)
    }

    /// A name leads no longer to where it led.
    fn lose_link(&mut self, row: &NameRow) -> Result<()> {
        if row.is_there() {
            let mut node = self.nodes.get(row.node)?;
            node.links = node.links.saturating_sub(1);
            self.nodes.set(row.node, &node)?;
        }
        Ok(())
    }

    /// A new node under a name, which may have led elsewhere before.
    pub fn make(&mut self, dir: NodeId, name: &[u8], meta: Meta) -> Result<NodeId> {
        let id = self.add(meta)?;
        self.put(dir, name, id)?;
        Ok(id)
    }

    /// One more name.
    pub fn link(&mut self, dir: NodeId, name: &[u8], id: NodeId) -> Result<()> {
        if self.node(id)?.kind() == Kind::Directory {
            return Err(Error::NotPermitted.into());
        }
        self.put(dir, name, id)
    }

    /// Takes a name away.
    pub fn unlink(&mut self, dir: NodeId, name: &[u8]) -> Result<()> {
        let Some((number, row)) = self.look_up(dir, name)? else { return Ok(()) };
        self.names.set(number, &NameRow { node: GONE, ..row })?;
        self.lose_link(&row)
    }

    /// A symbolic link leads there.
    pub fn lead(&mut self, id: NodeId, target: &[u8]) -> Result<()> {
        let place = self.words.append(target)?;
        let (held, number) = (held::TARGET, target.len() as u32);
        let node = self.node(id)?;
        self.nodes.set(id.0, &NodeRow { held, number, place, ..node })
    }

    /// A file holds a content of this size, or nothing.
    pub fn hold(&mut self, id: NodeId, content: u32, size: u64) -> Result<()> {
        let (held, number) = if size > 0 { (held::CONTENT, content) } else { (held::NOTHING, 0) };
        let node = self.node(id)?;
        self.nodes.set(id.0, &NodeRow { held, number, place: size, ..node })
    }

    /// No name is looked for any more.
    pub fn forget(&mut self) {
        self.finder = Finder::new();
    }
}
