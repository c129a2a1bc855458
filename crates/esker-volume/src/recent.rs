//! What came since the layers were settled, in memory: the sum of all deltas in the log.
//!
//! Above: `stack` looks here first. Invariant: after a delta was applied every key that it named has exactly the
//! value that it gave; what is gone here hides what is below.

use std::collections::BTreeMap;

use esker::Ino;
use esker::limits::FILE_SIZE_MAX;
use esker_stone::key::kind;
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::{BlockName, Content, Extent, Place};
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;
use esker_stone::rows::xattrs::Xattr;

use crate::base::behind;
use crate::delta::Delta;
use crate::error::{Damage, Result};
use crate::rows::Move;

/// Where a file's bytes end at the latest.
pub const END: u64 = FILE_SIZE_MAX;

/// A stretch of a file: where it begins, how long it is, where its bytes are (nowhere: a hole).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it begins in the file.
    pub start: u64,
    /// In bytes.
    pub len: u64,
    /// Where its bytes are.
    pub place: Option<Place>,
}

impl Run {
    /// Its end in the file.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start + self.len
    }

    /// The part of it from `from` to `to`, if there is any.
    #[must_use]
    pub fn within(&self, from: u64, to: u64) -> Option<Self> {
        let (start, end) = (self.start.max(from), self.end().min(to));
        let skip = start.saturating_sub(self.start);
        let moved = |place| behind(place, skip);
        (start < end).then(|| Self { start, len: end - start, place: self.place.map(moved) })
    }
}

/// Runs of one file that do not overlap: what was said of it last.
#[derive(Clone, Debug, Default)]
pub struct Runs(BTreeMap<u64, Run>);

impl Runs {
    /// This run replaces whatever was said of its bytes.
    pub fn put(&mut self, run: Run) {
        if run.len == 0 {
            return;
        }
        if self.0.last_key_value().is_none_or(|(_, last)| last.end() <= run.start) {
            self.0.insert(run.start, run);
            return;
        }
        let before = self.0.range(..run.start).next_back().map(|(_, before)| *before);
        if let Some(before) = before.filter(|before| before.end() > run.start) {
            self.0.insert(before.start, Run { len: run.start - before.start, ..before });
            self.0.extend(before.within(run.end(), END).map(|rest| (rest.start, rest)));
        }
        while let Some((&start, &over)) = self.0.range(run.start..run.end()).next() {
            self.0.remove(&start);
            self.0.extend(over.within(run.end(), END).map(|rest| (rest.start, rest)));
        }
        self.0.insert(run.start, run);
    }

    /// What was said of the bytes from `at` on: the run that holds it, or `Err` with where the next one begins.
    pub fn at(&self, at: u64) -> core::result::Result<Run, u64> {
        let holding = self.0.range(..=at).next_back().filter(|(_, run)| run.end() > at);
        match holding.and_then(|(_, run)| run.within(at, END)) {
            Some(run) => Ok(run),
            None => Err(self.0.range(at..).next().map_or(END, |(&start, _)| start)),
        }
    }

    /// Parts of them that lie between two places.
    pub fn between(&self, from: u64, to: u64) -> impl Iterator<Item = Run> {
        let first = self.0.range(..from).next_back();
        let runs = first
            .into_iter()
            .chain((from < to).then(|| self.0.range(from..to)).into_iter().flatten());
        runs.filter_map(move |(_, run)| run.within(from, to))
    }

    /// Whether anything was said between two places.
    #[must_use]
    pub fn meets(&self, from: u64, to: u64) -> bool {
        self.between(from, to).next().is_some()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.0.values()
    }
}

/// The runs of a row.
///
/// # Errors
/// `Commit` for a row that only an image may have.
pub fn runs(row: &Extent) -> Result<Vec<Run>> {
    let Content::Pieces(pieces) = &row.content else { return Err(Damage::Commit.into()) };
    let mut start = row.start;
    let mut all = Vec::with_capacity(pieces.len());
    for (index, piece) in pieces.iter().enumerate() {
        let last = index + 1 == pieces.len() && row.len.is_none();
        let len = if last { END - start } else { piece.len };
        all.push(Run { start, len, place: piece.place });
        start += len;
    }
    Ok(all)
}

/// All that was said since.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// Inodes; `None`: gone, with all that it had.
    pub inodes: BTreeMap<Ino, Option<Inode>>,
    /// Names.
    pub names: BTreeMap<(Ino, Vec<u8>), Option<Named>>,
    /// Which name of a directory stands where in its listing, of those that are here.
    pub listed: BTreeMap<(Ino, u64), Vec<u8>>,
    /// Places in listings, of volumes that have rows of them.
    pub places: BTreeMap<(Ino, u64), Option<Vec<u8>>>,
    /// Extended attributes.
    pub xattrs: BTreeMap<(Ino, Vec<u8>), Option<Vec<u8>>>,
    /// Content.
    pub extents: BTreeMap<Ino, Runs>,
    /// References; 0: the block is gone.
    pub refs: BTreeMap<BlockName, u64>,
    /// Blocks.
    pub blocks: BTreeMap<BlockName, BlockRow>,
    /// Blocks that were moved.
    pub moves: BTreeMap<BlockName, Move>,
    /// How many runs files have that commits told of.
    runs: usize,
    /// Bytes of what lies beside the entries: names, values.
    strings: usize,
    /// Bytes that it takes in tables, at most, in about.
    pub stored: usize,
}

/// What the allocator takes besides a string.
const STRING_LEN: usize = 16;

/// Bytes that entries take, in about: the leaves of a tree of them are two thirds full.
const fn entries<K, V>(count: usize) -> usize {
    count * (size_of::<K>() + size_of::<V>()) * 3 / 2
}

/// Bytes that a string takes.
const fn string(bytes: &[u8]) -> usize {
    bytes.len() + STRING_LEN
}

/// Bytes that rows take in a table at most, in about, by what numbers of each kind are; strings besides.
mod stored_len {
    pub const INODE: usize = 128;
    pub const NAMED: usize = 40;
    pub const RUN: usize = 40;
    pub const REFS: usize = 24;
    pub const MOVE: usize = 40;
    pub const BLOCK: usize = 80;
}

/// Bytes that the rows of a delta take in tables, at most, in about. What is gone takes none.
fn stored(delta: &Delta) -> usize {
    let inodes = delta.inodes.iter().map(|row| stored_len::INODE + row.inline.len());
    let names = delta.names.iter().map(|row| stored_len::NAMED + row.name.len());
    let places = delta.places.iter().map(|row| stored_len::NAMED + row.name.len());
    let xattr = |row: &Xattr| stored_len::NAMED + row.name.len() + row.value.len();
    let pieces = |row: &Extent| match &row.content {
        Content::Pieces(pieces) => stored_len::RUN * pieces.len(),
        Content::Same(_) => 0,
    };
    let blocks = delta.blocks.iter();
    let blocks = blocks.map(|(_, row)| stored_len::BLOCK + size_of::<u64>() * row.checksums.len());
    let refs = delta.refs.iter().filter(|row| row.bytes > 0).count() * stored_len::REFS;
    let strings = inodes.chain(names).chain(places).chain(delta.xattrs.iter().map(xattr));
    let all = strings.chain(delta.extents.iter().map(pieces)).chain(blocks);
    all.sum::<usize>() + refs + delta.moves.len() * stored_len::MOVE
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

impl Recent {
    /// Adds what a commit says. Counters and segments are somebody else's.
    ///
    /// # Errors
    /// `Commit`.
    pub fn apply(&mut self, delta: Delta) -> Result<()> {
        for key in &delta.gone {
            self.drop_key(key)?;
        }
        self.stored += stored(&delta);
        for row in delta.inodes {
            self.put_inode(row.ino, Some(row));
        }
        for row in delta.names {
            let key = (row.dir, row.name.clone());
            self.put_name(key, Some(row));
        }
        for row in delta.places {
            self.put_place((row.dir, row.seq), Some(row.name));
        }
        for row in delta.xattrs {
            self.put_xattr((row.ino, row.name), Some(row.value));
        }
        for row in delta.extents {
            let own = self.extents.entry(row.ino).or_default();
            let before = own.0.len();
            let put = runs(&row).map(|all| all.into_iter().for_each(|run| own.put(run)));
            self.runs = (self.runs + own.0.len()).saturating_sub(before);
            put?;
        }
        self.blocks.extend(delta.blocks);
        for row in delta.refs {
            if row.bytes == 0 {
                self.blocks.remove(&row.block);
                self.moves.remove(&row.block);
            }
            self.refs.insert(row.block, row.bytes);
        }
        self.moves.extend(delta.moves.into_iter().map(|row| (row.block, row)));
        Ok(())
    }

    fn drop_key(&mut self, key: &[u8]) -> Result<()> {
        let split = key.split_first().and_then(|(kind, rest)| {
            let (ino, rest) = rest.split_at_checked(8)?;
            Some((*kind, Ino(number(ino)?), rest))
        });
        match split.ok_or(Damage::Commit)? {
            (kind::INODE, ino, []) => {
                self.put_inode(ino, None);
                let had = self.extents.remove(&ino).map_or(0, |runs| runs.0.len());
                self.runs = self.runs.saturating_sub(had);
                let range = (ino, Vec::new())..(Ino(ino.0.saturating_add(1)), Vec::new());
                let own: Vec<_> = self.xattrs.range(range).map(|(key, _)| key.clone()).collect();
                own.iter().for_each(|key| self.drop_xattr(key));
            }
            (kind::NAME, dir, name) => self.put_name((dir, name.to_vec()), None),
            (kind::PLACE, dir, seq) => {
                let seq = number(seq).ok_or(Damage::Commit)?;
                self.put_place((dir, seq), None);
            }
            (kind::XATTR, ino, name) => self.put_xattr((ino, name.to_vec()), None),
            _ => return Err(Damage::Commit.into()),
        }
        Ok(())
    }

    /// Strings of so many bytes are here no more.
    fn forget(&mut self, bytes: usize) {
        self.strings = self.strings.saturating_sub(bytes);
    }

    fn put_inode(&mut self, ino: Ino, row: Option<Inode>) {
        let len = |row: Option<&Inode>| row.map_or(0, |row| string(&row.inline));
        self.strings += len(row.as_ref());
        let old = self.inodes.insert(ino, row).flatten();
        self.forget(len(old.as_ref()));
    }

    fn put_name(&mut self, key: (Ino, Vec<u8>), row: Option<Named>) {
        let (len, place) = (string(&key.1), row.as_ref().map(|row| row.seq));
        self.strings += len * (1 + usize::from(row.is_some()));
        if let Some(Some(old)) = self.names.get(&key) {
            self.unlist((key.0, old.seq), &key.1);
        }
        if let Some(place) = place {
            self.strings += len;
            let old = self.listed.insert((key.0, place), key.1.clone());
            self.forget(old.as_deref().map_or(0, string));
        }
        if let Some(old) = self.names.insert(key, row) {
            self.forget(len * (1 + usize::from(old.is_some())));
        }
    }

    /// A name does not stand there any more; another one may.
    fn unlist(&mut self, place: (Ino, u64), name: &[u8]) {
        if self.listed.get(&place).is_some_and(|own| own == name) {
            self.listed.remove(&place);
            self.forget(string(name));
        }
    }

    /// Takes all names out, with their places.
    pub fn take_names(&mut self) -> impl Iterator<Item = Named> + use<> {
        let places = self.places.values().flatten().chain(self.listed.values());
        let names = self.names.iter();
        let names = names.map(|(key, row)| string(&key.1) * (1 + usize::from(row.is_some())));
        let strings = names.chain(places.map(|name| string(name))).sum();
        self.forget(strings);
        self.places.clear();
        self.listed.clear();
        std::mem::take(&mut self.names).into_values().flatten()
    }

    /// Adds a name, or takes it for what it leads to now.
    pub fn add_name(&mut self, row: Named) {
        self.put_name((row.dir, row.name.clone()), Some(row));
    }

    fn put_place(&mut self, key: (Ino, u64), name: Option<Vec<u8>>) {
        self.strings += name.as_deref().map_or(0, string);
        let old = self.places.insert(key, name).flatten();
        self.forget(old.as_deref().map_or(0, string));
    }

    fn put_xattr(&mut self, key: (Ino, Vec<u8>), value: Option<Vec<u8>>) {
        let len = string(&key.1);
        self.strings += len + value.as_deref().map_or(0, string);
        if let Some(old) = self.xattrs.insert(key, value) {
            self.forget(len + old.as_deref().map_or(0, string));
        }
    }

    fn drop_xattr(&mut self, key: &(Ino, Vec<u8>)) {
        if let Some(old) = self.xattrs.remove(key) {
            self.forget(string(&key.1) + old.as_deref().map_or(0, string));
        }
    }

    /// Bytes that all this takes, in about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        entries::<Ino, Option<Inode>>(self.inodes.len())
            + entries::<(Ino, Vec<u8>), Option<Named>>(self.names.len())
            + entries::<(Ino, u64), Vec<u8>>(self.listed.len())
            + entries::<(Ino, u64), Option<Vec<u8>>>(self.places.len())
            + entries::<(Ino, Vec<u8>), Option<Vec<u8>>>(self.xattrs.len())
            + entries::<Ino, Runs>(self.extents.len())
            + entries::<u64, Run>(self.runs)
            + entries::<BlockName, u64>(self.refs.len())
            + entries::<BlockName, BlockRow>(self.blocks.len())
            // The checksum of each has an allocation of its own.
            + self.blocks.len() * 2 * STRING_LEN
            + entries::<BlockName, Move>(self.moves.len())
            + self.strings
    }

    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inodes.is_empty()
            && self.names.is_empty()
            && self.places.is_empty()
            && self.xattrs.is_empty()
            && self.extents.is_empty()
            && self.refs.is_empty()
            && self.moves.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use esker::{Attr, Kind, Time};
    use esker_stone::key;
    use esker_stone::rows::extents::Piece;
    use esker_stone::rows::places::Listing;

    use super::*;

    /// Numbers below others that look random.
    fn dice() -> impl FnMut(u64) -> u64 {
        let mut seed = 1u64;
        move |end| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % end
        }
    }

    /// What commits say over and over takes no more memory than what they said last.
    #[test]
    fn what_is_counted_is_what_is_there() {
        let (mut recent, mut chance) = (Recent::default(), dice());
        for _ in 0..2000 {
            let (ino, word) = (Ino(chance(5)), vec![b'x'; chance(40) as usize]);
            let name = format!("name {}", chance(5)).into_bytes();
            let mut delta = Delta::default();
            match chance(7) {
                0 => {
                    let attr = Attr::new(Kind::File, 0, 0, 0, Ino::ROOT, Time::default());
                    delta.inodes.push(Inode { ino, attr, inline: word });
                }
                1 => {
                    let kind = Kind::File;
                    delta.names.push(Named { dir: ino, name, ino, kind, seq: chance(5) });
                }
                2 => delta.places.push(Listing { dir: ino, seq: chance(5), name: word }),
                3 => delta.xattrs.push(Xattr { ino, name, value: word }),
                4 => {
                    let piece = Piece { len: 1 + chance(50), place: None };
                    let (start, content) = (chance(200), Content::Pieces(vec![piece]));
                    delta.extents.push(Extent { ino, start, len: Some(piece.len), content });
                }
                _ => delta.gone.push(match chance(4) {
                    0 => key::inode(ino),
                    1 => key::name(ino, &name),
                    2 => key::place(ino, chance(5)),
                    _ => key::xattr(ino, &name),
                }),
            }
            recent.apply(delta).unwrap();
            let optional = |word: Option<&Vec<u8>>| word.map_or(0, |word| string(word));
            let inodes = recent.inodes.values().flatten().map(|row| string(&row.inline));
            let names = recent.names.iter();
            let names = names.map(|(key, row)| string(&key.1) * (1 + usize::from(row.is_some())));
            let listed = recent.listed.values().map(|name| string(name));
            let places = recent.places.values().map(|name| optional(name.as_ref()));
            let xattrs = recent.xattrs.iter();
            let xattrs = xattrs.map(|(key, value)| string(&key.1) + optional(value.as_ref()));
            let places = places.chain(listed);
            let all = inodes.chain(names).chain(places).chain(xattrs).sum::<usize>();
            assert_eq!(recent.strings, all);
            assert_eq!(recent.runs, recent.extents.values().map(|own| own.0.len()).sum::<usize>());
        }
        assert!(recent.bytes() > 5000);
    }

    /// Every byte is where the last run that holds it says, however runs overlap.
    #[test]
    fn the_last_word_on_a_byte_counts() {
        let mut chance = dice();
        for _ in 0..200 {
            let (mut runs, mut bytes) = (Runs::default(), [None; 64]);
            for slot in 0..12 {
                let start = chance(60);
                let len = 1 + chance(63 - start);
                let block = BlockName { segment: 1, slot };
                let place = (chance(4) > 0).then_some(Place { block, offset: 7 });
                runs.put(Run { start, len, place });
                for at in start..start + len {
                    let own = place.map(|place| (slot, place.offset + (at - start) as u32));
                    bytes[at as usize] = Some(own);
                }
            }
            for (at, byte) in bytes.iter().enumerate() {
                let found = runs.at(at as u64).ok();
                let said = found.map(|run| run.place.map(|p| (p.block.slot, p.offset)));
                assert_eq!(said, *byte, "byte {at}");
            }
        }
    }
}
