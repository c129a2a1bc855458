//! Doubting everything: walks all keys and compares what they say about each other.
//!
//! Neighbours: `finding` lists what can be wrong. Invariant: nothing is changed, and nothing that
//! is read is believed. Run it while nobody changes the home: it looks at one sub-tree after the
//! other.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::base::{Base, Sheets};
use super::extents::Extent;
use super::finding::Finding;
use super::home::Home;
use super::keys::{self, Rest};
use super::record::{self, Record};
use super::subtree::SubTree;
use crate::attr::Kind;
use crate::error::{Error, Result};
use crate::ids::{Cursor, Ino};
use crate::limits::GRANULE;
use crate::store::{Entry, Flow};

/// What was seen of an inode.
#[derive(Clone, Debug)]
struct Seen {
    record: Record,
    kind: Kind,
    /// Names that lead here.
    names: u32,
    /// Directories in this one.
    directories: u32,
    /// Entries in this one.
    entries: u64,
    /// Granules in extents.
    granules: u64,
    /// Where the last extent ended.
    end: u64,
    /// The next piece of an extended attribute that is being passed, and its name's place in the
    /// key order.
    pieces: (Vec<u8>, u16),
}

/// What was seen of all.
#[derive(Default)]
struct Survey {
    inodes: BTreeMap<Ino, Seen>,
    entries: Vec<(Ino, Entry)>,
    /// Where the number of extents that name granules changes, and by how much.
    uses: BTreeMap<u64, i64>,
    findings: Vec<Finding>,
    /// Inodes that are noted to be without names, in order.
    orphans: Vec<Ino>,
}

impl<B: Base> Home<B> {
    /// Everything that contradicts itself; empty when the home is sound. An inode without names
    /// whose link count says so is not a finding: somebody may hold it
    /// ([`orphans`](Self::orphans)).
    pub fn check(&self) -> Vec<Finding> {
        let mut survey = Survey::default();
        let mut pages = 0;
        for (group, tree) in self.trees.iter().enumerate() {
            let tree = tree.read();
            pages += tree.bytes();
            let walked = tree.check().and_then(|_| survey.walk(group, B::GROUPS, &tree));
            if let Err(error) = walked {
                survey.findings.push(Finding::Tree { group, error });
            }
        }
        survey.follow_entries();
        survey.weigh_inodes();
        if let Err(error) = self.compare_uses(&mut survey) {
            survey.findings.push(Finding::Accounts { error });
        }
        if B::LASTING {
            survey.compare_orphans();
        }
        let used = self.budget.used();
        let found = pages + self.space.claimed() * GRANULE;
        if used != found {
            survey.findings.push(Finding::Budget { used, found });
        }
        let inodes = self.inodes();
        let found = survey.inodes.len() as u64;
        if inodes != found {
            survey.findings.push(Finding::Inodes { inodes, found });
        }
        survey.findings
    }

    /// Inodes to which no name leads, by their own account: removed while somebody held them.
    ///
    /// # Errors
    /// `Corrupt` when a record cannot be read.
    pub fn orphans(&self) -> Result<Vec<Ino>> {
        let mut orphans = Vec::new();
        for tree in &self.trees {
            let mut damaged = false;
            tree.read().scan(&[], |key, value| {
                if let Some((ino, Rest::Inode)) = keys::parse(key) {
                    match Record::decode(value) {
                        Some(record) if record.nlink == 0 => orphans.push(ino),
                        Some(_) => {}
                        None => damaged = true,
                    }
                }
                Flow::Continue(())
            })?;
            if damaged {
                return Err(Error::Corrupt);
            }
        }
        Ok(orphans)
    }

    /// Compares how often granules are named with how often they should be.
    fn compare_uses(&self, survey: &mut Survey) -> Result<()> {
        let (end, free) = self.space.survey()?;
        if !self.space.mirrored()? {
            survey.findings.push(Finding::FreeByLength);
        }
        let mut counted: BTreeMap<u64, i64> = BTreeMap::new();
        let mut count = |start: u64, len: u64, by: i64| {
            *counted.entry(start).or_default() += by;
            *counted.entry(start.saturating_add(len)).or_default() -= by;
        };
        count(0, end, 1);
        free.iter().for_each(|run| count(run.start, run.len, -1));
        B::own_runs(self)?.iter().for_each(|run| count(run.start, run.len, -1));
        let shared = self.space.shared_runs()?;
        shared.iter().for_each(|(run, uses)| count(run.start, run.len, i64::from(*uses) - 1));
        let mut edges: Vec<u64> = counted.keys().chain(survey.uses.keys()).copied().collect();
        edges.sort_unstable();
        edges.dedup();
        let (mut uses, mut found) = (0, 0);
        for (index, &place) in edges.iter().enumerate() {
            uses += counted.get(&place).copied().unwrap_or(0);
            found += survey.uses.get(&place).copied().unwrap_or(0);
            let len = edges.get(index + 1).map_or(0, |next| next - place);
            match (uses, found) {
                (uses, found) if uses == found => {}
                (0, _) => survey.findings.push(Finding::NotClaimed { place, len }),
                (1, 0) => survey.findings.push(Finding::NotUsed { place, len }),
                (uses, found) => {
                    let (uses, found) = (uses as u32, found as u32);
                    survey.findings.push(Finding::Uses { place, uses, found });
                }
            }
        }
        Ok(())
    }
}

impl Survey {
    /// Every key of a sub-tree.
    fn walk<P: Sheets>(&mut self, group: usize, groups: usize, tree: &SubTree<P>) -> Result<()> {
        tree.scan(&[], |key, value| {
            match keys::parse(key) {
                Some((ino, rest)) if keys::group(ino, groups) == group => {
                    self.look(tree, ino, rest, value);
                }
                _ => self.findings.push(Finding::Key { group }),
            }
            Flow::Continue(())
        })
    }

    fn look<P: Sheets>(&mut self, tree: &SubTree<P>, ino: Ino, rest: Rest<'_>, value: &[u8]) {
        if let Rest::Orphan(ino) = rest {
            return self.orphans.push(ino);
        }
        if rest == Rest::Inode {
            return self.look_at_record(ino, value);
        }
        let Some(seen) = self.inodes.get_mut(&ino) else {
            // Once for each inode: its keys come one after the other.
            let finding = Finding::NoRecord { ino };
            if self.findings.last() != Some(&finding) {
                self.findings.push(finding);
            }
            return;
        };
        let fits = match rest {
            Rest::Name(_) | Rest::Seq(_) => seen.kind == Kind::Directory,
            Rest::Extent(_) => seen.record.has_content(),
            Rest::Inode | Rest::Xattr(..) | Rest::Orphan(_) => true,
        };
        if !fits {
            return self.findings.push(Finding::Misplaced { ino });
        }
        let looked = match rest {
            Rest::Inode | Rest::Orphan(_) => Ok(()),
            Rest::Name(name) => self.look_at_name(tree, ino, name, value),
            Rest::Seq(seq) => self.look_at_seq(tree, ino, seq, value),
            Rest::Xattr(name, piece) => {
                let next = if seen.pieces.0 == name { seen.pieces.1 } else { 0 };
                if piece != next {
                    self.findings.push(Finding::XattrPieces { ino });
                }
                seen.pieces = (name.to_vec(), piece.wrapping_add(1));
                Ok(())
            }
            Rest::Extent(start) => self.look_at_extent(ino, start, value),
        };
        if looked.is_err() {
            self.findings.push(Finding::Value { ino });
        }
    }

    fn look_at_record(&mut self, ino: Ino, value: &[u8]) {
        let Ok(record) = record::record(value) else {
            return self.findings.push(Finding::Value { ino });
        };
        let whole = value.len() == Record::SIZE + usize::from(record.inline_len);
        let Some(kind) = record.kind().ok().filter(|_| whole) else {
            return self.findings.push(Finding::Value { ino });
        };
        let seen = Seen {
            record,
            kind,
            names: 0,
            directories: 0,
            entries: 0,
            granules: 0,
            end: 0,
            pieces: (Vec::new(), 0),
        };
        self.inodes.insert(ino, seen);
    }

    fn look_at_name<P: Sheets>(
        &mut self,
        tree: &SubTree<P>,
        dir: Ino,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let entry = record::entry(value)?;
        let mirrored = tree.get(&keys::seq(dir, entry.seq), |value| {
            record::listed(entry.seq, value).is_ok_and(|found| found == (entry, name))
        })?;
        if mirrored != Some(true) {
            self.findings.push(Finding::NameWithoutSeq { dir, seq: entry.seq });
        }
        self.entries.push((dir, entry));
        Ok(())
    }

    fn look_at_seq<P: Sheets>(
        &mut self,
        tree: &SubTree<P>,
        dir: Ino,
        seq: Cursor,
        value: &[u8],
    ) -> Result<()> {
        let (entry, name) = record::listed(seq, value)?;
        let same = |value: &[u8]| record::entry(value).is_ok_and(|found| found == entry);
        if tree.get(&keys::name(dir, name), same)? != Some(true) {
            self.findings.push(Finding::SeqWithoutName { dir, seq });
        }
        if self.inodes.get(&dir).is_some_and(|seen| seq.0 >= seen.record.own) {
            self.findings.push(Finding::SeqBeyondNext { dir, seq });
        }
        Ok(())
    }

    fn look_at_extent(&mut self, ino: Ino, start: u64, value: &[u8]) -> Result<()> {
        let extent = Extent::decode(start, value)?;
        let Some(seen) = self.inodes.get_mut(&ino) else { return Ok(()) };
        if start < seen.end {
            self.findings.push(Finding::ExtentOverlap { ino, start });
        }
        seen.end = extent.end();
        seen.granules += extent.len;
        *self.uses.entry(extent.place).or_default() += 1;
        *self.uses.entry(extent.place.saturating_add(extent.len)).or_default() -= 1;
        Ok(())
    }

    /// Inodes that are noted to be without names, against those that are.
    fn compare_orphans(&mut self) {
        let orphans = self.inodes.iter().filter(|(_, seen)| seen.record.nlink == 0);
        let found: Vec<Ino> = orphans.map(|(&ino, _)| ino).collect();
        let unnoted = found.iter().filter(|ino| self.orphans.binary_search(ino).is_err());
        let wrong = self.orphans.iter().filter(|ino| found.binary_search(ino).is_err());
        let findings = unnoted.chain(wrong).map(|&ino| Finding::Orphan { ino });
        let findings: Vec<Finding> = findings.collect();
        self.findings.extend(findings);
    }

    /// From every name to its inode.
    fn follow_entries(&mut self) {
        for (dir, entry) in core::mem::take(&mut self.entries) {
            let directory = entry.kind == Kind::Directory;
            if let Some(seen) = self.inodes.get_mut(&dir) {
                seen.entries += 1;
                seen.directories += u32::from(directory);
            }
            let Some(target) = self.inodes.get_mut(&entry.ino) else {
                self.findings.push(Finding::EntryWithoutInode { dir, seq: entry.seq });
                continue;
            };
            target.names += 1;
            if target.kind != entry.kind {
                self.findings.push(Finding::EntryKind { dir, seq: entry.seq });
            }
            let parent = Ino(target.record.parent);
            if directory && parent != dir {
                self.findings.push(Finding::Parent { dir: entry.ino, parent, found: dir });
            }
        }
    }

    /// Every inode against what was counted for it.
    fn weigh_inodes(&mut self) {
        let findings = &mut self.findings;
        for (&ino, seen) in &self.inodes {
            let record = &seen.record;
            let orphan = record.nlink == 0 && seen.names == 0;
            let found = match seen.kind {
                Kind::Directory if !orphan => {
                    // The name above and `.`; the root has no name, and is counted as if.
                    let named = if ino == Ino::ROOT { 1 } else { seen.names };
                    named + 1 + seen.directories
                }
                _ => seen.names,
            };
            if record.nlink != found {
                findings.push(Finding::LinkCount { ino, nlink: record.nlink, found });
            }
            if seen.kind == Kind::Directory && record.size != seen.entries {
                let (size, found) = (record.size, seen.entries);
                findings.push(Finding::DirectorySize { dir: ino, size, found });
            }
            if record.has_content() && record.own != seen.granules {
                let (blocks, found) = (record.own, seen.granules);
                findings.push(Finding::Blocks { ino, blocks, found });
            }
            if record.inline_len > 0 && (seen.granules > 0 || !record.has_content()) {
                findings.push(Finding::InlineAndExtents { ino });
            }
        }
    }
}
