//! Doubting everything: every page, every block, and that they hang together.
//!
//! Above: `esker check`. Below: `image`. Invariant: one damaged thing is one finding, and damage never stops the
//! rest from being looked at; what a damaged block costs is named file by file, and what can be read is not named.

use std::collections::{HashMap, HashSet};

use esker::store::{Flow, View};
use esker::{Attr, Cursor, Ino, Kind};
use esker_stone::check::hash;
use esker_stone::recipe::Ingredient;
use esker_stone::root::Top;
use esker_stone::rows::blocks::{BlockRow, Blocks, ORIGIN_SEGMENT_MASK};
use esker_stone::rows::extents::{BlockName, Extents};
use esker_stone::rows::inodes::Inodes;
use esker_stone::rows::names::Names;
use esker_stone::rows::pages::Inner;
use esker_stone::rows::xattrs::Xattrs;
use esker_stone::superblock::Superblock;
use esker_stone::{Damage, Error, Hash, PageRef, ReadAt as _, Recipe, Result};

use super::image::{Image, Page as _};

/// How deep a block leans: on what it is made of, that on a base, and that on nothing.
const LEAN_MAX: u8 = 3;

/// Bytes of a file that are read at a time.
const READ_LEN: usize = 1 << 20;

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Every stored byte against its checksum, every page taken apart, every file and name.
    Stored,
    /// Also every plain byte against its strong hash.
    Plain,
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A superblock: 0 the head, 1 the tail.
    Superblock(u8),
    /// A copy of a page.
    Page {
        /// Its segment.
        segment: u64,
        /// Its offset there.
        at: u64,
        /// Which copy.
        copy: usize,
    },
    /// A block.
    Block(BlockName),
    /// A block of the base image of this name.
    BaseBlock(Hash, BlockName),
    /// A file or directory.
    Path(Vec<u8>),
    /// The whole.
    Whole,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// With what.
    pub thing: Thing,
    /// What.
    pub error: Error,
}

/// What came of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Pages looked at.
    pub pages: u64,
    /// Blocks looked at.
    pub blocks: u64,
    /// Stored bytes of blocks looked at.
    pub bytes: u64,
    /// Names looked at.
    pub names: u64,
    /// What is wrong, in the order in which it was found.
    pub findings: Vec<Finding>,
}

/// Checks an image, and of its bases what it uses. `tick` is told of every block.
pub fn verify(image: &Image, depth: Depth, tick: &mut dyn FnMut(&Report)) -> Report {
    verify_while(image, depth, &mut |report| {
        tick(report);
        true
    })
}

/// The same, as long as `goes_on` says so of every block; then what was found until there.
pub fn verify_while(
    image: &Image,
    depth: Depth,
    goes_on: &mut dyn FnMut(&Report) -> bool,
) -> Report {
    let (bad, borrowed) = (HashSet::new(), HashMap::new());
    let (report, lies, stopped) = (Report::default(), false, false);
    let mut check = Check { image, depth, report, bad, borrowed, lies, goes_on, stopped };
    check.superblocks();
    if let Ok(root) = image.rest().superblock().root() {
        check.copies(&root);
    }
    check.tree(&image.root().layer, None);
    for (segment, top) in &image.root().indexes {
        check.tree(top, Some(*segment));
    }
    if check.stopped {
        return check.report;
    }
    let tree = check.names();
    if let Err(error) = tree {
        check.find(Thing::Whole, error);
    }
    check.report
}

struct Check<'a> {
    image: &'a Image,
    depth: Depth,
    report: Report,
    /// Blocks that cannot be read.
    bad: HashSet<BlockName>,
    /// Blocks of base images that were looked at, and whether they can be read.
    borrowed: HashMap<(Hash, BlockName), bool>,
    /// Some block is decoded without an error, and to other bytes than were packed.
    lies: bool,
    goes_on: &'a mut dyn FnMut(&Report) -> bool,
    /// It does not.
    stopped: bool,
}

/// A directory that is being walked.
struct Level {
    path: Vec<u8>,
    dir: Ino,
}

impl Check<'_> {
    fn find(&mut self, thing: Thing, error: impl Into<Error>) {
        let error = error.into();
        self.lies |= error == Error::Damaged(Damage::Hash);
        self.report.findings.push(Finding { thing, error });
    }

    fn superblocks(&mut self) {
        let rest = self.image.rest();
        let own = rest.superblock();
        let len = Superblock::SIZE as u64;
        for (copy, at) in [(0, 0), (1, own.size - len)] {
            let mut bytes = [0; Superblock::SIZE];
            let read = rest.source().read_at(rest.start() + at, &mut bytes);
            match read.and_then(|()| Superblock::parse(&bytes)) {
                Ok(found) if found == *own => {}
                Ok(_) => self.find(Thing::Superblock(copy), Damage::Count),
                Err(error) => self.find(Thing::Superblock(copy), error),
            }
        }
    }

    /// Looks at all copies of a page.
    fn copies(&mut self, page: &PageRef) {
        self.report.pages += 1;
        let (segment, at) = (page.segment, page.at);
        match self.image.rest().copies(page) {
            Ok((_, wrong)) => {
                for (copy, error) in wrong {
                    self.find(Thing::Page { segment, at, copy }, error);
                }
            }
            Err(error) => self.find(Thing::Page { segment, at, copy: 0 }, error),
        }
    }

    /// All pages of a tree; of a block index, the blocks too.
    fn tree(&mut self, top: &Top, segment: Option<u64>) {
        let mut pending = vec![(top.page, None, top.height, top.entries)];
        while let Some((page, base, level, entries)) = pending.pop() {
            if self.stopped {
                return;
            }
            self.copies(&page);
            let thing = || Thing::Page { segment: page.segment, at: page.at, copy: 0 };
            let plain = match self.image.plain(&page, base.as_ref()) {
                Ok(plain) => plain,
                Err(error) => {
                    // Wrong copies are told of already.
                    if !matches!(error, Error::Damaged(Damage::Checksum)) {
                        self.find(thing(), error);
                    }
                    continue;
                }
            };
            if self.depth >= Depth::Plain && hash(&plain) != page.hash {
                self.find(thing(), Damage::Hash);
            }
            let seen = match (level, segment) {
                (0, None) => entry_leaf(&plain),
                (0, Some(segment)) => Blocks::decode(&plain).map(|blocks| {
                    self.blocks(segment, &blocks);
                    blocks.rows() as u64
                }),
                _ => Inner::decode(&plain).and_then(|inner| {
                    if inner.level + 1 != level {
                        return Err(Damage::Tree.into());
                    }
                    for child in (0..inner.len()).rev() {
                        if let Some((page, base)) = inner.page(child) {
                            pending.push((page, base, level - 1, inner.entries(child)));
                        }
                    }
                    Ok(inner.all_entries())
                }),
            };
            match seen {
                Ok(seen) if seen == entries => {}
                Ok(_) => self.find(thing(), Damage::Count),
                Err(error) => self.find(thing(), error),
            }
        }
    }

    fn blocks(&mut self, segment: u64, blocks: &Blocks) {
        for (slot, row) in blocks.iter() {
            let name = BlockName { segment, slot };
            if self.stopped {
                return;
            }
            if let Err(error) = self.block(self.image, name, row) {
                self.bad.insert(name);
                self.find(Thing::Block(name), error);
            } else if !self.complete(self.image, name, row, LEAN_MAX) {
                // It is whole, and cannot be read all the same.
                self.bad.insert(name);
            }
        }
    }

    fn block(&mut self, image: &Image, name: BlockName, row: &BlockRow) -> Result<()> {
        self.report.blocks += 1;
        self.report.bytes += u64::from(row.stored);
        self.stopped |= !(self.goes_on)(&self.report);
        if self.depth == Depth::Stored {
            return image.rest().stored_block(name, row).map(drop);
        }
        let plain = image.whole(name, row)?;
        let right = row.hash.is_none_or(|right| right == hash(&plain));
        if right { Ok(()) } else { Err(Damage::Hash.into()) }
    }

    /// Whether all that a block is made of, or leans on, can be read, if that goes no deeper. In one image that has
    /// lower slots.
    fn complete(&mut self, image: &Image, name: BlockName, row: &BlockRow, deep: u8) -> bool {
        if row.base.is_some_and(|base| !self.readable(image, base, deep)) {
            return false;
        }
        let own = image.name() == self.image.name();
        if row.recipe == 0 || own && self.bad.is_empty() {
            return true;
        }
        let part = |part: &Ingredient| BlockName { slot: part.slot, ..name };
        let parts = image.rest().recipe(name, row).and_then(|recipe| {
            let recipe = Recipe::parse(&recipe)?;
            Ok(recipe.text.iter().map(part).collect::<Vec<_>>())
        });
        parts.is_ok_and(|parts| parts.into_iter().all(|part| self.readable(image, part, deep)))
    }

    /// Whether a block that `image` knows by this name can be read. One of a base is looked at when it is first needed.
    fn readable(&mut self, image: &Image, name: BlockName, deep: u8) -> bool {
        let own = BlockName { segment: name.segment & ORIGIN_SEGMENT_MASK, ..name };
        let origin = image.origin(name);
        let holder = origin.as_ref().map_or(image, |holder| holder);
        if holder.name() == self.image.name() {
            return !self.bad.contains(&own);
        }
        let key = (holder.name(), own);
        if let Some(&known) = self.borrowed.get(&key) {
            return known;
        }
        let Some(deep) = deep.checked_sub(1) else { return false };
        let row = origin.and_then(|holder| holder.block_row(own));
        let read = row.and_then(|row| self.block(holder, own, &row).map(|()| row));
        let known = match read {
            Ok(row) => self.complete(holder, own, &row, deep),
            Err(error) => {
                self.find(Thing::BaseBlock(key.0, own), error);
                false
            }
        };
        self.borrowed.insert(key, known);
        known
    }

    /// Every name from the root down, and what it leads to.
    fn names(&mut self) -> Result<()> {
        let root = self.image.attributes(Ino::ROOT)?.ok_or(Damage::Reference)?;
        if root.kind != Kind::Directory {
            return Err(Damage::Reference.into());
        }
        self.xattrs(b"/", Ino::ROOT);
        let mut links: HashMap<Ino, (u32, u32)> = HashMap::new();
        let mut inodes = 1u64;
        let mut pending = vec![Level { path: Vec::new(), dir: Ino::ROOT }];
        while let Some(level) = pending.pop() {
            let mut children = Vec::new();
            let listed = self.image.entries(level.dir, Cursor::START, true, &mut |listed| {
                if let Some(attr) = listed.attr {
                    let path = [&level.path[..], b"/", listed.name.bytes()].concat();
                    children.push((path, listed.entry.ino, attr));
                }
                Flow::Continue(())
            });
            if listed.is_err() {
                let path = if level.path.is_empty() { b"/".to_vec() } else { level.path };
                self.find(Thing::Path(path), Damage::Reference);
            }
            for (path, ino, attr) in children {
                self.report.names += 1;
                let names = links.entry(ino).or_insert((0, attr.nlink));
                names.0 += 1;
                let again = names.0 > 1;
                // A directory with two names would be walked twice; one that is its own parent, for ever.
                if attr.kind == Kind::Directory && again {
                    self.find(Thing::Path(path), Damage::Parent);
                    continue;
                }
                if attr.kind != Kind::Directory && attr.nlink <= 1 && !again {
                    links.remove(&ino);
                }
                inodes += u64::from(!again);
                self.content(&path, ino, &attr);
                self.xattrs(&path, ino);
                if attr.kind == Kind::Directory {
                    pending.push(Level { path, dir: ino });
                }
            }
        }
        self.counts(inodes, &links);
        Ok(())
    }

    fn counts(&mut self, inodes: u64, links: &HashMap<Ino, (u32, u32)>) {
        let files = links.iter().filter(|(ino, (names, said))| {
            names != said && self.image.attr(**ino).is_ok_and(|attr| attr.kind != Kind::Directory)
        });
        let wrong = files.count();
        let statistics = self.image.root().statistics;
        let right =
            wrong == 0 && statistics.inodes == inodes && statistics.names == self.report.names;
        // With damaged directories less is reachable, and that is told already.
        if !right && self.report.findings.is_empty() {
            self.find(Thing::Whole, Damage::Count);
        }
    }

    fn content(&mut self, path: &[u8], ino: Ino, attr: &Attr) {
        if attr.kind != Kind::File || attr.size == 0 {
            return;
        }
        let inline = self.image.inode(ino).ok().flatten();
        if inline.is_some_and(|(page, row)| !page.inline_at(row).is_empty()) {
            return;
        }
        let mut at = 0;
        while at < attr.size {
            let stretch = match self.image.stretch(ino, attr.size, at) {
                Ok(stretch) => stretch,
                Err(error) => return self.find(Thing::Path(path.to_vec()), error),
            };
            let mut end = stretch.start;
            for piece in stretch.pieces {
                end += piece.len;
                let Some(place) = piece.place else { continue };
                let fits = self.image.origin(place.block).and_then(|image| {
                    let row = image.block_row(place.block)?;
                    let inside = u64::from(place.offset).checked_add(piece.len);
                    let inside = inside.is_some_and(|end| end <= u64::from(row.plain));
                    if inside { Ok(()) } else { Err(Damage::Reference.into()) }
                });
                if let Err(error) = fits {
                    return self.find(Thing::Path(path.to_vec()), error);
                }
                let whole = self.readable(self.image, place.block, LEAN_MAX);
                if !whole && !self.reads(ino, end - piece.len, end) {
                    return self.find(Thing::Path(path.to_vec()), Damage::Checksum);
                }
            }
            at = end;
        }
    }

    /// Whether what a file has of a block that is damaged can be read all the same, as it lies before the damage or in
    /// other units.
    fn reads(&self, ino: Ino, start: u64, end: u64) -> bool {
        if self.lies {
            return false;
        }
        let mut buffer = vec![0; READ_LEN.min(usize::try_from(end - start).unwrap_or(READ_LEN))];
        let mut at = start;
        while at < end {
            let len = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            match self.image.read(ino, at, &mut buffer[..len]) {
                Ok(read) if read > 0 => at += read as u64,
                _ => return false,
            }
        }
        true
    }

    fn xattrs(&mut self, path: &[u8], ino: Ino) {
        if self.image.root().statistics.xattrs == 0 {
            return;
        }
        if self.image.xattrs(ino, &mut |_| Flow::Continue(())).is_err() {
            self.find(Thing::Path(path.to_vec()), Damage::Reference);
        }
    }
}

/// A leaf of the layer, whatever its rows are: how many there are.
fn entry_leaf(plain: &[u8]) -> Result<u64> {
    use esker_stone::key::kind;
    let rows = match plain.first() {
        Some(&kind::INODE) => Inodes::decode(plain)?.len(),
        Some(&kind::NAME) => Names::decode(plain)?.len(),
        Some(&kind::XATTR) => Xattrs::decode(plain)?.len(),
        Some(&kind::EXTENT) => Extents::decode(plain)?.len(),
        _ => return Err(Damage::Head.into()),
    };
    Ok(rows as u64)
}
