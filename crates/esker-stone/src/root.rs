//! The root page: the tops of all trees, base images, statistics, notes.
//!
//! Above: `rest`, and whoever packs. Invariant: a root that was read has exactly one layer, and at most
//! one index for each segment.

use esker::limits::{NAME_LEN_MAX, XATTR_VALUE_LEN_MAX};

use crate::error::{Damage, Result, Unsupported};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::limits::LEVELS_MAX;
use crate::page::PageRef;
use crate::rows::bases;
pub use crate::rows::bases::Base;
use crate::rows::pages::{self, Child};
use crate::strings::Strings;

const GENERATION: u8 = 14;
const HEIGHT: u8 = 15;
const SEGMENT: u8 = 16;
const VALUE: u8 = 6;

/// The top of a tree of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Top {
    /// The page; none in a tree without entries.
    pub page: PageRef,
    /// How many levels of inner pages there are from it down; 0: it is the only leaf.
    pub height: u8,
    /// How many entries.
    pub entries: u64,
}

/// What is counted, as numbered in `FORMAT.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Inodes.
    pub inodes: u64,
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, pipes, sockets.
    pub specials: u64,
    /// Names.
    pub names: u64,
    /// Bytes of all files, holes not counted.
    pub file_bytes: u64,
    /// Plain bytes of all blocks.
    pub block_bytes: u64,
    /// The highest inode number.
    pub last_ino: u64,
    /// The largest plain length of a block.
    pub block_len: u64,
    /// Extended attributes.
    pub xattrs: u64,
}

/// The root page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The layer.
    pub layer: Top,
    /// For each segment with blocks, its index.
    pub indexes: Vec<(u64, Top)>,
    /// Base images: the first is origin 1.
    pub bases: Vec<Base>,
    /// What is counted.
    pub statistics: Statistics,
    /// Words about how the image came to be.
    pub notes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Statistics {
    fn fields(&mut self) -> [&mut u64; 11] {
        [
            &mut self.inodes,
            &mut self.files,
            &mut self.directories,
            &mut self.symlinks,
            &mut self.specials,
            &mut self.names,
            &mut self.file_bytes,
            &mut self.block_bytes,
            &mut self.last_ino,
            &mut self.block_len,
            &mut self.xattrs,
        ]
    }
}

fn child(top: &Top) -> Child {
    Child { key: Vec::new(), entries: top.entries, page: top.page, base: None }
}

fn write_tops(kind: u8, tops: &[(u64, Top)], plain: &mut Vec<u8>) {
    let mut group = GroupWriter::new(kind, tops.len(), Measure::Raw);
    let children: Vec<_> = tops.iter().map(|(_, top)| child(top)).collect();
    pages::write(&mut group, &children, 0);
    let own: Vec<_> = tops.iter().map(|&(number, _)| number).collect();
    if kind == kind::LAYER {
        group.numbers(GENERATION, &own);
    }
    group.numbers(HEIGHT, &tops.iter().map(|(_, top)| top.height.into()).collect::<Vec<_>>());
    if kind == kind::INDEX {
        group.numbers(SEGMENT, &own);
    }
    group.finish(plain);
}

fn read_tops(group: &Group<'_>) -> Result<Vec<(u64, Top)>> {
    let own = if group.kind == kind::LAYER { GENERATION } else { SEGMENT };
    group.knows(&[&pages::COLUMNS[..], &[HEIGHT, own]].concat())?;
    let (children, _) = pages::read(group)?;
    let (heights, own) = (group.numbers(HEIGHT)?, group.numbers(own)?);
    let mut tops = Vec::with_capacity(children.len());
    for (row, child) in children.into_iter().enumerate() {
        let height = u8::try_from(heights.get(row)).ok().filter(|&height| height <= LEVELS_MAX);
        let height = height.ok_or(Damage::Range)?;
        tops.push((own.get(row), Top { page: child.page, height, entries: child.entries }));
    }
    Ok(tops)
}

fn write_notes(notes: &[(Vec<u8>, Vec<u8>)], plain: &mut Vec<u8>) {
    let mut group = GroupWriter::new(kind::NOTE, notes.len(), Measure::Raw);
    let mut names = Strings::default();
    notes.iter().for_each(|(name, _)| names.push(name));
    names.write(&mut group, 1);
    group.numbers(VALUE, &notes.iter().map(|(_, value)| value.len() as u64).collect::<Vec<_>>());
    group.bytes(VALUE + 1, &notes.iter().flat_map(|(_, value)| value.clone()).collect::<Vec<_>>());
    group.finish(plain);
}

fn read_notes(group: &Group<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let names = Strings::read(group, 1, NAME_LEN_MAX)?;
    let (lens, mut bytes) = (group.numbers(VALUE)?, group.bytes(VALUE + 1)?);
    let mut notes = Vec::with_capacity(group.count);
    for row in 0..group.count {
        let len = usize::try_from(lens.get(row)).ok().filter(|&len| len <= XATTR_VALUE_LEN_MAX);
        let (value, rest) =
            bytes.split_at_checked(len.ok_or(Damage::Column)?).ok_or(Damage::Column)?;
        notes.push((names.get(row).to_vec(), value.to_vec()));
        bytes = rest;
    }
    if bytes.is_empty() { Ok(notes) } else { Err(Damage::Column.into()) }
}

impl Root {
    /// Its plain bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        write_tops(kind::LAYER, &[(1, self.layer)], &mut plain);
        write_tops(kind::INDEX, &self.indexes, &mut plain);
        if !self.bases.is_empty() {
            plain.extend(bases::encode(&self.bases, Measure::Raw));
        }
        let mut statistics = self.statistics;
        let values = statistics.fields().map(|value| *value);
        let mut group = GroupWriter::new(kind::STATISTIC, values.len(), Measure::Raw);
        group.numbers(1, &(1..=values.len() as u64).collect::<Vec<_>>());
        group.numbers(2, &values);
        group.finish(&mut plain);
        write_notes(&self.notes, &mut plain);
        plain
    }

    /// From its plain bytes.
    ///
    /// # Errors
    /// `Damaged`, `Unsupported`.
    pub fn decode(mut plain: &[u8]) -> Result<Self> {
        let (mut layers, mut indexes, mut below) = (Vec::new(), Vec::new(), Vec::new());
        let (mut statistics, mut notes) = (Statistics::default(), Vec::new());
        while !plain.is_empty() {
            let (group, rest) = Group::parse(plain)?;
            plain = rest;
            match group.kind {
                kind::LAYER => layers.extend(read_tops(&group)?),
                kind::INDEX => indexes.extend(read_tops(&group)?),
                kind::BASE => below.extend(bases::read(&group, NAME_LEN_MAX)?),
                kind::STATISTIC => read_statistics(&group, &mut statistics)?,
                kind::NOTE => notes.extend(read_notes(&group)?),
                _ if group.is_optional() => {}
                kind => return Err(Unsupported::Group(kind).into()),
            }
        }
        let [(_, layer)] = layers[..] else { return Err(Damage::Count.into()) };
        if indexes.windows(2).any(|two| two[0].0 >= two[1].0) {
            return Err(Damage::Order.into());
        }
        Ok(Self { layer, indexes, bases: below, statistics, notes })
    }

    /// The note of this name.
    #[must_use]
    pub fn note(&self, name: &str) -> Option<&[u8]> {
        let found = self.notes.iter().find(|(own, _)| own == name.as_bytes());
        found.map(|(_, value)| value.as_slice())
    }
}

fn read_statistics(group: &Group<'_>, statistics: &mut Statistics) -> Result<()> {
    let (numbers, values) = (group.numbers(1)?, group.numbers(2)?);
    let mut fields = statistics.fields();
    for row in 0..group.count {
        // Numbers that are not known here are no harm.
        let field = numbers.get(row).checked_sub(1).and_then(|n| usize::try_from(n).ok());
        if let Some(field) = field.and_then(|field| fields.get_mut(field)) {
            **field = values.get(row);
        }
    }
    Ok(())
}
