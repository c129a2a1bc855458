//! Repairing: what recovering finds, written as tables of its own beside all that is there, and one superblock that
//! names them.
//!
//! Above: the command. Below: all of `recover`, and `settle`, which writes. Invariant: until that superblock is safe
//! everything that the volume was told from is where it was; what has its right name then is what it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use esker::Ino;
use esker_stone::check::checksum;
use esker_stone::rows::extents::BlockName;

use super::base::Base;
use super::ground::{self, Ground};
use super::keep::{Keeping, keep};
use super::prove::Proving;
use super::{All, Found, Left, Mended, left, links, recount};
use crate::base::{UNFINISHED, is_based};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::limits::{NEXT, SUPERBLOCK_STEP};
use crate::log::{Good, Log};
use crate::migrate::Moving;
use crate::mkfs::behind;
use crate::recent::{Run, Runs};
use crate::rows::{Numbers, Refs};
use crate::segments::{Condition, Physical, Segments};
use crate::stack::State;
use crate::superblock::{BASE, NAMES, SNAPSHOTS, Superblock};
use crate::volume::{Options, Volume};

/// Segments that are wanted besides those for tables: of the log, the root, and what is left of others.
const MORE: u64 = 8;

/// Segments that it takes at least: of the log, those where that goes on, one for tables.
const LEAST: usize = 2 + NEXT;

/// Numbers that must be left to count on with.
const SPARE: u64 = 1 << 20;

/// How to repair.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repairing {
    /// Whether to write it, or only to say what would be.
    pub write: bool,
    /// What may be older than it was keeps its name.
    pub keep_older: bool,
    /// Whether snapshots may go of which anything is lost.
    pub drop_snapshots: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    /// What was found.
    pub found: Found,
    /// Paths, as they are now, of files of which bytes are lost, and how many: they are a hole.
    pub damaged: Vec<(Vec<u8>, u64)>,
    /// Names of snapshots that went.
    pub gone: Vec<Vec<u8>>,
    /// Names of snapshots that stay though bytes of their files are lost.
    pub hurt: Vec<Vec<u8>>,
    /// The newest root is lost, or may be, and with it how many snapshots there were.
    pub unknown_snapshots: bool,
    /// No superblock was left: label, reserve, lengths of blocks and codec are those of a new volume.
    pub settings_lost: bool,
    /// Inodes that there are.
    pub inodes: u64,
    /// Blocks that files name, all of them whole.
    pub blocks: u64,
}

/// Why it was not repaired. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairError {
    /// These snapshots would go; none named: nobody knows which.
    Snapshots(Vec<Vec<u8>>),
    /// There is no room for tables beside those that are there.
    NoRoom,
    /// It has a feature that cannot be put together again.
    Feature,
    /// The volume, or the device, says no.
    Volume(Error),
}

impl fmt::Display for RepairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshots(_) => f.write_str("snapshots would be lost"),
            Self::NoRoom => f.write_str("no room to write tables beside those that are there"),
            Self::Feature => f.write_str("the volume has a feature that is not repaired"),
            Self::Volume(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RepairError {}

impl From<Error> for RepairError {
    fn from(error: Error) -> Self {
        match error {
            Error::NoSpace => Self::NoRoom,
            error => Self::Volume(error),
        }
    }
}

/// Makes a volume that checks clean of what is left on a device: one superblock says all of it.
///
/// # Errors
/// `Snapshots`, `NoRoom`, `Feature`; `Volume` for what cannot be recovered, and what the device says. The volume is as
/// it was then.
pub fn repair<D: Device>(
    device: D,
    options: Options,
    how: Repairing,
) -> std::result::Result<Repaired, RepairError> {
    let Left { scan, mended, shape, mut places, base, mut all, found } =
        left(&device, &options, None)?;
    let (shape, known) = ground::shape(&device.geometry(), &scan, shape)?;
    shape.may_be_written()?;
    let below = base.state.base.is_some();
    if lacks_base(&shape, &base.state, &all) {
        return Err(RepairError::Feature);
    }
    let newest = numbers(&scan);
    let from = (&scan, &base, all.has_older);
    let ground = Ground::of(shape, &mended, from, &mut places);
    let mut proving = Proving::new(&mended, &places, shape.segment_room, &mut all);
    proving.below = below;
    proving.holes(&mut all);
    // Where nothing is written over, parts that were made again are not put back: no snapshot can do with those.
    let (bare, in_place) = (Mended::bare(&device), device.geometry().zones.is_none());
    let left = if in_place { &mended } else { &bare };
    let kept = keep(&base.state, (left, &places), &mut proving, how.drop_snapshots);
    let mut done = Repaired { found, settings_lost: !known, ..Repaired::default() };
    // Without a superblock and a root nothing says that there were none.
    done.unknown_snapshots = has_lost_root(&shape, &base) || (!known && !base.is_root);
    (done.gone, done.hurt) = (kept.gone.clone(), kept.hurt.clone());
    proving.lose(&kept.blocks, shape.block_len);
    if how.write && !how.drop_snapshots && (done.unknown_snapshots || !kept.gone.is_empty()) {
        return Err(RepairError::Snapshots(kept.gone));
    }
    let state = tree(&mut all, &base.state, how.keep_older, &mut done);
    let sequence = behind(newest.sequence).max(newest.sequence + 1);
    let (state, segments) = index(state, &kept, &proving, (&ground, &shape), sequence)?;
    let whole = state.recent.blocks.values().filter(|row| !row.is_lost());
    (done.inodes, done.blocks) = (state.numbers.inodes, whole.count() as u64);
    let superblock = superblock(shape, &newest, sequence);
    counts_on(&superblock, segments.next_number())?;
    if !how.write {
        return Ok(done);
    }
    if !kept.rows.is_empty() && in_place {
        put_back(&device, &mended)?;
    }
    drop(mended);
    let home = home(&device, &shape);
    write(device, Options { write: true, ..options }, (superblock, home), (segments, state))?;
    Ok(done)
}

/// Numbers that are not given out again.
struct Newest {
    sequence: u64,
    generation: u64,
    epoch: u64,
}

fn numbers(scan: &super::scan::Scan) -> Newest {
    let mut newest = Newest { sequence: 0, generation: 0, epoch: 0 };
    for (_, head) in &scan.parts {
        newest.sequence = newest.sequence.max(head.sequence).max(head.durable);
        newest.epoch = newest.epoch.max(head.epoch);
    }
    for own in &scan.superblocks {
        newest.sequence = newest.sequence.max(own.proven);
        newest.generation = newest.generation.max(own.generation);
        newest.epoch = newest.epoch.max(own.epoch);
    }
    newest
}

/// What is to be written, without a root. All tables are: without rows of places.
fn superblock(shape: Superblock, newest: &Newest, sequence: u64) -> Superblock {
    Superblock {
        generation: newest.generation + 1,
        epoch: newest.epoch + 1,
        sequence,
        proven: sequence,
        root_stored: 0,
        root_segment: 0,
        root_physical: 0,
        log_at: 0,
        log_slot: 0,
        incompatible: shape.incompatible | NAMES,
        ..shape
    }
}

/// That a superblock can be read again when all numbers have gone on from here. Some head may say absurd ones.
fn counts_on(own: &Superblock, next_segment: u64) -> Result<()> {
    let far = |number: u64| number.saturating_add(SPARE);
    let later = Superblock {
        generation: far(own.generation),
        epoch: far(own.epoch),
        proven: far(own.proven),
        log_segment: far(next_segment),
        ..*own
    };
    Superblock::parse(&later.sealed()).map(drop)
}

/// Whether there were snapshots, and the root that was read is older than the one that says which.
const fn has_lost_root(shape: &Superblock, base: &Base) -> bool {
    let lacks = base.is_passed || (shape.root_stored > 0 && !base.is_root);
    shape.incompatible & SNAPSHOTS != 0 && lacks
}

/// Whether something hangs from a base, and no root says from which. A root from before all of it was laid down names
/// none yet.
fn lacks_base(shape: &Superblock, told: &State, all: &All) -> bool {
    let is_of = |run: &Run| run.place.is_some_and(|place| is_based(place.block));
    match &told.base {
        Some(base) => base.name == UNFINISHED,
        None => {
            let mut runs = all.recent.extents.values().flat_map(Runs::iter);
            shape.incompatible & BASE != 0 || runs.any(is_of)
        }
    }
}

/// One tree of all that was found, with its counts.
fn tree(all: &mut All, base: &State, keep_older: bool, done: &mut Repaired) -> State {
    let links = links::link(all, keep_older);
    (done.damaged, done.found.nameless) = (links.damaged, links.nameless);
    (done.found.older, done.found.lost, done.found.bare) = (links.older, links.lost, links.bare);
    let mut recent = std::mem::take(&mut all.recent);
    recount::links(&mut recent);
    recent.refs = recount::references(&recent);
    let last = recent.inodes.keys().next_back().copied().unwrap_or(Ino::ROOT);
    let numbers = Numbers {
        next_ino: base.numbers.next_ino.max(last.0.saturating_add(1)),
        inodes: recent.inodes.len() as u64,
        next_place: base.numbers.next_place.max(links.next_place),
    };
    State {
        recent,
        numbers,
        rules: base.rules.clone(),
        made: base.made.clone(),
        base: base.base.clone(),
        ..State::default()
    }
}

/// The same with the index of blocks that it, and the snapshots that stay, need; and all stretches.
fn index<D: Device>(
    mut state: State,
    kept: &Keeping,
    proving: &Proving<'_, Mended<D>>,
    (ground, shape): (&Ground, &Superblock),
    sequence: u64,
) -> Result<(State, Segments)> {
    let recent = &mut state.recent;
    for &block in &kept.blocks {
        recent.refs.entry(block).or_insert(Refs::kept(block, sequence).bytes);
    }
    state.deltas = proving.deltas(&mut recent.refs);
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let blocks: Vec<BlockName> = recent.refs.keys().copied().collect();
    for block in blocks {
        let Some(row) = proving.row(block) else { continue };
        if !row.is_lost() {
            *live.entry(proving.segment(block)).or_default() += u64::from(row.stored);
        }
        recent.blocks.insert(block, row.clone());
        recent.moves.extend(proving.moved(block).map(|row| (block, row)));
    }
    let mut tables = BTreeSet::new();
    for table in &kept.tables {
        let segment = table.top.page.segment;
        *live.entry(segment).or_default() += table.bytes;
        tables.insert(segment);
    }
    let bytes = recount::weight(recent) * u64::from(shape.copies) * 2;
    let segments = ground.segments(&live, &tables, bytes / shape.segment_room + MORE)?;
    if segments.free() < LEAST {
        return Err(Error::NoSpace);
    }
    (state.snapshots, state.kept) = (kept.rows.clone(), kept.tables.clone());
    state.since.clone_from(&kept.since);
    let stays: BTreeSet<u64> = kept.rows.iter().map(|row| row.sequence).collect();
    state.made.retain(|sequence, _| stays.contains(sequence));
    Ok((state, segments))
}

/// Parts that were made again are written where they were, as they were.
fn put_back<D: Device>(device: &D, mended: &Mended<&D>) -> Result<()> {
    for (place, part) in mended.parts() {
        device.write(place, part)?;
    }
    Ok(device.flush()?)
}

/// Where the superblock lies that says what the volume is like; a place before the first if there is none.
fn home(device: &impl Device, shape: &Superblock) -> (u32, u64) {
    let mut bytes = vec![0; Superblock::SIZE];
    for stretch in 0..shape.homes() {
        for step in 0..shape.steps() {
            let at = u64::from(stretch) * shape.segment_len + step * SUPERBLOCK_STEP;
            let read = device.read(at, &mut bytes).is_ok();
            let found = Superblock::parse(&bytes).ok().filter(|_| read);
            if found.is_some_and(|own| own.uuid == shape.uuid && own.generation == shape.generation)
            {
                return (stretch % 2, step);
            }
        }
    }
    (1, shape.steps().saturating_sub(1))
}

/// Writes it, twice: so the superblock before the newest knows it too.
fn write<D: Device>(
    device: D,
    options: Options,
    (superblock, home): (Superblock, (u32, u64)),
    (mut segments, state): (Segments, State),
) -> Result<()> {
    let mut next = [Physical(0); NEXT];
    for to in &mut next {
        *to = segments.take(Condition::Next).ok_or(Error::NoSpace)?;
    }
    let first = segments.take(Condition::Log).ok_or(Error::NoSpace)?;
    let log = log(superblock, home, (first, next));
    let bases = options.bases.clone();
    let mut volume = Volume::with(device, options, log, (segments, state));
    // Whoever opens it then will want it.
    volume.find_base(bases.as_deref())?;
    let mut log = volume.log();
    volume.leave_others(&log)?;
    log.segment = volume.begin(first, Condition::Log)?;
    log.good = Good::new(log.before, next, (first, log.segment, 0, 0));
    volume.settle_rest(&mut log)?;
    // It is so already; this is for the day when the newest superblock is damaged.
    let _ = volume.settle(&mut log);
    Ok(())
}

/// A log that begins anew: no part of it follows one that was there before.
fn log(superblock: Superblock, home: (u32, u64), places: (Physical, [Physical; NEXT])) -> Log {
    let (physical, next) = places;
    let sequence = superblock.sequence;
    let seed = [&superblock.uuid[..], &sequence.to_le_bytes()].concat();
    let before = checksum(&seed).max(1);
    Log {
        physical,
        segment: 0,
        at: 0,
        slot: 0,
        before,
        next,
        good: Good::new(before, next, (physical, 0, 0, 0)),
        sequence,
        // Nothing is told to be safe before the superblock is.
        safe: 0,
        tried: sequence,
        epoch: superblock.epoch,
        superblock,
        home,
        safe_home: home.0,
        hidden: false,
        since: vec![physical],
        round: None,
        idle: Vec::new(),
        unneeded: BTreeSet::new(),
        tables: None,
        moving: Moving::default(),
        fresh: false,
        closed: false,
    }
}
