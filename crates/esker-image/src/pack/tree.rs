//! The tree while it is gathered: nodes, the names between them, what each holds.
//!
//! Above: `packer`. Invariant: every node but the root was put under a name once; what is replaced stays in the list
//! and is no longer reachable, so it is never written.

use std::collections::BTreeMap;

use esker::{Attr, Error, Flags, Ino, Kind, Result, Time};

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The root directory.
    pub const ROOT: Self = Self(0);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Held {
    /// Nothing.
    #[default]
    Nothing,
    /// A symbolic link's target.
    Target(Box<[u8]>),
    /// A file's content, by number, and its size.
    Content(u32, u64),
    /// A directory's names.
    Names(BTreeMap<Box<[u8]>, NodeId>),
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub meta: Meta,
    pub held: Held,
    /// Names that lead here, of directories: sub-directories.
    pub links: u32,
    /// Its number in the image; 0: it has none yet.
    pub ino: u64,
}

/// Bytes that a node takes beside its name, in about: itself and its place among the names.
const NODE_LEN: u64 = size_of::<Node>() as u64 + 64;

/// The tree.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    times: Times,
    bytes: u64,
}

impl Tree {
    pub fn new(root: Meta, times: Times) -> Self {
        let mut tree = Self { nodes: Vec::new(), times, bytes: 0 };
        tree.add(Meta { kind: Kind::Directory, ..root });
        tree
    }

    fn add(&mut self, meta: Meta) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let held = match meta.kind {
            Kind::Directory => Held::Names(BTreeMap::new()),
            _ => Held::Nothing,
        };
        self.bytes += NODE_LEN;
        let meta = self.kept(meta);
        self.nodes.push(Node { meta, held, links: 0, ino: 0 });
        id
    }

    /// What is kept of `meta`.
    fn kept(&mut self, mut meta: Meta) -> Meta {
        meta.perm &= 0o7777;
        let same = meta.others.as_deref().is_none_or(|others| *others == [meta.mtime; 3]);
        if same || self.times == Times::Content {
            meta.others = None;
        }
        meta.xattrs.sort();
        meta.xattrs.dedup_by(|one, other| one.0 == other.0);
        let xattrs = meta.xattrs.iter().map(|(name, value)| name.len() + value.len() + 96);
        self.bytes += xattrs.sum::<usize>() as u64 + if meta.others.is_some() { 64 } else { 0 };
        meta
    }

    /// How many nodes there are, also those that are not reachable.
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes that it takes, in about.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// All that `meta` says but the kind.
    pub fn set(&mut self, id: NodeId, meta: Meta) {
        let meta = self.kept(meta);
        let node = &mut self.nodes[id.index()];
        node.meta = Meta { kind: node.meta.kind, ..meta };
    }

    pub fn find(&self, dir: NodeId, name: &[u8]) -> Option<NodeId> {
        match &self.node(dir).held {
            Held::Names(names) => names.get(name).copied(),
            _ => None,
        }
    }

    fn name(&mut self, dir: NodeId, name: &[u8], id: NodeId) -> Result<()> {
        esker::Name::parse(name)?;
        let Held::Names(names) = &mut self.nodes[dir.index()].held else {
            return Err(Error::NotDirectory);
        };
        let replaced = names.insert(name.into(), id);
        self.bytes += name.len() as u64;
        if let Some(replaced) = replaced {
            let links = &mut self.nodes[replaced.index()].links;
            *links = links.saturating_sub(1);
        }
        self.nodes[id.index()].links += 1;
        Ok(())
    }

    /// A new node under a name, which may have led elsewhere before.
    pub fn make(&mut self, dir: NodeId, name: &[u8], meta: Meta) -> Result<NodeId> {
        if self.nodes.len() >= u32::MAX as usize {
            return Err(Error::NoSpace);
        }
        let id = self.add(meta);
        self.name(dir, name, id)?;
        Ok(id)
    }

    /// One more name.
    pub fn link(&mut self, dir: NodeId, name: &[u8], id: NodeId) -> Result<()> {
        if self.node(id).meta.kind == Kind::Directory {
            return Err(Error::NotPermitted);
        }
        self.name(dir, name, id)
    }

    /// Takes a name away.
    pub fn unlink(&mut self, dir: NodeId, name: &[u8]) {
        if let Held::Names(names) = &mut self.nodes[dir.index()].held
            && let Some(gone) = names.remove(name)
        {
            let links = &mut self.nodes[gone.index()].links;
            *links = links.saturating_sub(1);
        }
    }

    pub fn hold(&mut self, id: NodeId, held: Held) {
        if let Held::Target(target) = &held {
            self.bytes += target.len() as u64 + 16;
        }
        self.nodes[id.index()].held = held;
    }

    /// Numbers everything that can be reached, directory by directory, and answers with the nodes in the
    /// order of their numbers, each with its parent's number.
    pub fn number(&mut self) -> Vec<(NodeId, Ino)> {
        let mut order = vec![(NodeId::ROOT, Ino::ROOT)];
        self.nodes[0].ino = Ino::ROOT.0;
        let mut next = 0;
        while let Some(&(id, _)) = order.get(next) {
            next += 1;
            let own = Ino(self.node(id).ino);
            let children: Vec<NodeId> = match &self.node(id).held {
                Held::Names(names) => names.values().copied().collect(),
                _ => continue,
            };
            for child in children {
                let node = &mut self.nodes[child.index()];
                if node.ino == 0 {
                    order.push((child, own));
                    node.ino = order.len() as u64;
                }
            }
        }
        order
    }
}
