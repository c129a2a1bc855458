//! Scrubbing: everything that somebody needs is read, what has parity is made again in its place, and what is damaged
//! is named by its paths.
//!
//! Above: the command. Below: `check`, `recover` for parts and their parity. Invariant: only damaged bytes are written
//! over, and only with those that were there, which a checksum says.

use std::collections::{BTreeMap, BTreeSet};

use esker::store::{Flow, View as _};
use esker::{Cursor, Ino, Kind};
use esker_stone::rows::extents::BlockName;

use crate::check::Finding;
use crate::device::Device;
use crate::error::{Damage, Result};
use crate::parity::{PIECE, parity};
use crate::part::PartHead;
use crate::recent::END;
use crate::recover::mend::{Part, State, parts};
use crate::recover::scan::Scan;
use crate::recovery::newest;
use crate::segments::Condition;
use crate::superblock::Superblock;
use crate::volume::Volume;

/// Longest path that is put together.
const PATH_LEN_MAX: usize = 64 << 10;

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Scrubbed {
    /// Parts of tables that were read.
    pub parts: u64,
    /// Of these so many were damaged, and could be made again.
    pub mended: u64,
    /// Pieces of parity that were damaged, and could be made again.
    pub parity: u64,
    /// All that is wrong besides.
    pub findings: Vec<Finding>,
    /// Which paths of files that costs.
    pub files: Vec<Vec<u8>>,
}

/// Makes the root again, without which a volume does not open; whether it was damaged. It is written if `write` says
/// so.
///
/// # Errors
/// `Root` when it cannot be; what opening says of superblocks; what the device says.
pub fn mend_root(device: &impl Device, write: bool) -> Result<bool> {
    let ((superblock, _), _) = newest(device)?;
    let Some(page) = superblock.root()? else { return Ok(false) };
    let begin = u64::from(superblock.root_physical) * superblock.segment_len;
    let mut stored = vec![0; page.stored as usize];
    let read = device.read(begin + page.at, &mut stored);
    if read.is_ok() && page.verify(&stored).is_ok() {
        return Ok(false);
    }
    let at = page.at.checked_sub(PartHead::SIZE as u64).ok_or(Damage::Root)?;
    let scan = Scan::between(device, begin, begin + superblock.segment_room);
    let known = parts(&scan);
    let part = known.get(&(begin + at)).ok_or(Damage::Root)?;
    let State::Again(whole) = part.state(device, begin + at) else {
        return Err(Damage::Root.into());
    };
    let right = whole.get(PartHead::SIZE..).and_then(|rest| rest.get(..page.stored as usize));
    if right.is_none_or(|stored| page.verify(stored).is_err()) {
        return Err(Damage::Root.into());
    }
    if write {
        put_back(device, begin + at, &whole)?;
        device.flush()?;
    }
    Ok(true)
}

/// Writes what is not there as it should be; how many pieces.
fn put_back(device: &impl Device, place: u64, wanted: &[u8]) -> Result<u64> {
    let mut count = 0;
    for (number, piece) in (0..).zip(wanted.chunks(PIECE)) {
        let at = place + number * PIECE as u64;
        let mut there = vec![0; piece.len()];
        if device.read(at, &mut there).is_err() || there != piece {
            device.write(at, piece)?;
            count += 1;
        }
    }
    Ok(count)
}

/// How many pieces are not there as they should be.
fn missing(device: &impl Device, place: u64, wanted: &[u8]) -> u64 {
    let mut there = vec![0; PIECE];
    let pieces = (0..).zip(wanted.chunks(PIECE));
    let bad = pieces.filter(|(number, piece)| {
        let read = device.read(place + number * PIECE as u64, &mut there[..piece.len()]);
        read.is_err() || there[..piece.len()] != **piece
    });
    bad.count() as u64
}

impl<D: Device> Volume<D> {
    /// Reads everything that somebody needs, and makes again what has parity; that is written if the volume can be.
    ///
    /// # Errors
    /// What the device says of what is written. Whatever else is wrong is a finding.
    pub fn scrub(&self) -> Result<Scrubbed> {
        let mut done = Scrubbed::default();
        self.scrub_tables(&mut done)?;
        done.findings = self.check();
        done.files = self.files_of(&done.findings);
        Ok(done)
    }

    /// Parts of tables, and their parity.
    fn scrub_tables(&self, done: &mut Scrubbed) -> Result<()> {
        // Nobody writes meanwhile.
        let log = self.log();
        let state = self.state();
        let tables = state.tables.iter().chain(&state.kept);
        let tops = tables.map(|table| table.top.page).collect::<Vec<_>>();
        drop(state);
        let root = log.superblock.root().ok().flatten();
        let needed: BTreeSet<(u64, u64)> =
            tops.iter().chain(&root).map(|page| (page.segment, page.at)).collect();
        let stretches = self.stretches();
        for row in stretches.iter().filter(|row| row.condition == Condition::Tables) {
            let begin = self.place(row.physical);
            let scan = Scan::between(&self.device, begin, begin + self.shape.segment_room);
            for (place, part) in parts(&scan) {
                let Some(len) = part.len() else { continue };
                let Some(at) = place.checked_sub(begin) else { continue };
                let own = (row.number, at)..(row.number, at + len as u64);
                let is_needed = needed.range(own).next().is_some();
                if is_needed && part.is_of(row.number) {
                    self.scrub_part(place, &part, done)?;
                }
            }
        }
        if self.writes_in_place() && done.mended + done.parity > 0 {
            self.device.flush()?;
        }
        Ok(())
    }

    /// Whether damaged bytes can be written over.
    fn writes_in_place(&self) -> bool {
        self.is_writable() && self.device.geometry().zones.is_none()
    }

    fn scrub_part(&self, place: u64, part: &Part, done: &mut Scrubbed) -> Result<()> {
        done.parts += 1;
        let whole = match part.state(&self.device, place) {
            State::Whole(whole) => whole,
            State::Again(whole) => {
                done.mended += 1;
                if self.writes_in_place() {
                    put_back(&self.device, place, &whole)?;
                }
                whole
            }
            // The check names what hangs from it.
            State::Lost => return Ok(()),
        };
        let Some(head) = PartHead::parse(&whole, &self.shape.uuid) else { return Ok(()) };
        if !part.has_parity() {
            return Ok(());
        }
        let (behind, wanted) = (place + whole.len() as u64, parity(&head, &whole));
        done.parity += match self.writes_in_place() {
            true => put_back(&self.device, behind, &wanted)?,
            false => missing(&self.device, behind, &wanted),
        };
        Ok(())
    }

    /// Paths of what findings are about.
    fn files_of(&self, findings: &[Finding]) -> Vec<Vec<u8>> {
        let (mut inodes, mut blocks) = (BTreeSet::new(), BTreeSet::new());
        for finding in findings {
            match finding {
                Finding::Content(ino, _) | Finding::Dangling(_, ino) | Finding::Listing(ino, _) => {
                    inodes.insert(*ino);
                }
                Finding::Block(block, _) => drop(blocks.insert(*block)),
                _ => {}
            }
        }
        let (mut named, mut seen) = (Vec::new(), BTreeMap::new());
        if inodes.is_empty() && blocks.is_empty() {
            return named;
        }
        let mut todo = vec![(Ino::ROOT, Vec::new())];
        while let Some((dir, path)) = todo.pop() {
            let mut entries = Vec::new();
            // What cannot be listed is a finding of its own.
            let _ = self.entries(dir, Cursor::START, false, &mut |listed| {
                entries.push((listed.name.bytes().to_vec(), listed.entry));
                Flow::Continue(())
            });
            for (name, entry) in entries {
                let below = [&path[..], b"/", &name].concat();
                if inodes.contains(&entry.ino) || self.has_one_of(entry.ino, &blocks) {
                    named.push(below.clone());
                }
                let new = seen.insert(entry.ino, ()).is_none();
                if entry.kind == Kind::Directory && new && below.len() <= PATH_LEN_MAX {
                    todo.push((entry.ino, below));
                }
            }
        }
        named.sort();
        named
    }

    /// Whether a file has bytes in one of these blocks.
    fn has_one_of(&self, ino: Ino, blocks: &BTreeSet<BlockName>) -> bool {
        let state = self.state();
        let stack = self.stack(&state);
        let mut at = 0;
        while !blocks.is_empty() && at < END {
            let Ok(run) = stack.run(ino, at) else { return false };
            if run.place.is_some_and(|place| blocks.contains(&place.block)) {
                return true;
            }
            at = run.end();
        }
        false
    }
}

/// The steps of all superblocks that are not what their generation wrote there in the other copy.
///
/// # Errors
/// What opening says of superblocks; what the device says.
pub fn damaged_superblocks(device: &impl Device) -> Result<u64> {
    let ((own, (which, step)), _) = newest(device)?;
    let at = step * crate::limits::SUPERBLOCK_STEP;
    let copy = |copy: u32| {
        let mut bytes = [0; Superblock::SIZE];
        let place = u64::from(2 * copy + which) * own.segment_len + at;
        let read = device.read(place, &mut bytes).is_ok();
        read && Superblock::parse(&bytes).is_ok_and(|found| found.generation == own.generation)
    };
    Ok((0..own.copies).filter(|&number| !copy(number)).count() as u64)
}
