//! Recovering: a volume as far as anything of it is left, without its superblocks if need be, to be looked at and
//! copied out.
//!
//! Above: the command. Below: everything that is read. Invariant: nothing is written; every byte that the volume then
//! answers has its checksum, what cannot be known is EIO and not zeros, and a file that may be older than the
//! last that was safe does not have its own name.
//!
//! | file | what it holds |
//! |---|---|
//! | scan.rs | every head and superblock of the device |
//! | mend.rs | damaged parts made again from their parity |
//! | base.rs | roots and tables |
//! | chain.rs | commits that count |
//! | rows.rs | what the log says besides, and what older rows may say of what is lost |
//! | links.rs | one tree of all that was found |
//! | repair.rs | the same written as a volume that is whole |
//! | prove.rs, recount.rs | blocks that are as they were; what that volume counts |
//! | keep.rs, ground.rs | snapshots that stay; where nothing lies that is needed |

mod base;
mod chain;
mod ground;
mod keep;
mod links;
pub(crate) mod mend;
mod prove;
mod recount;
pub mod repair;
mod rows;
pub(crate) mod scan;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use esker::Ino;
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::BlockName;

pub use mend::Mended;
pub use repair::{RepairError, Repaired, Repairing, repair};

use crate::base::Base;
use crate::device::Device;
use crate::error::{Damage, Result};
use crate::limits::{BLOCK_LEN_MAX, NEXT};
use crate::log::{Good, Log};
use crate::merge::Range;
use crate::migrate::Moving;
use crate::recent::Recent;
use crate::rows::{Begun, Move, Numbers};
use crate::segments::{Physical, Segments};
use crate::stack::State;
use crate::superblock::Superblock;
use crate::volume::{Options, Volume};
use scan::Scan;

/// Reads that are tried to find out where segments lie of which no head is left.
const PROBES_MAX: u64 = 1 << 20;
/// Blocks that are tried of each.
const PROBED_BLOCKS: usize = 4;

/// Roots that are tried at most, until nothing is lost with one.
const ROOTS: usize = 4;

/// How to recover.
#[derive(Clone, Debug, Default)]
pub struct Recovering {
    /// What this snapshot shows; `None`: what the volume does.
    pub snapshot: Option<Vec<u8>>,
    /// As of when, in seconds since 1970; `None`: as of the last commit that is left.
    pub before: Option<i64>,
    /// What may be older than it was keeps its name.
    pub keep_older: bool,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The volume's name for machines.
    pub uuid: [u8; 16],
    /// Superblocks that are whole.
    pub superblocks: usize,
    /// Heads of parts that are whole.
    pub parts: usize,
    /// Parts that were made again from their parity.
    pub mended: usize,
    /// Whether there was a root: all tables are known then.
    pub root: bool,
    /// The last commit that the root holds whole; 0: there is none.
    pub base: u64,
    /// The last commit that is there.
    pub sequence: u64,
    /// When it was written, if a head says so: seconds since 1970.
    pub time: Option<i64>,
    /// The last commit that is known to be lost.
    pub lost_commit: Option<u64>,
    /// Ranges of keys of tables that are lost.
    pub lost_ranges: usize,
    /// Bytes of the device that could not be read.
    pub unreadable: u64,
    /// The base image that it lies on, and whether that is there.
    pub base_image: Option<(Base, bool)>,
    /// Paths, as they are now, of files that may be older than they were.
    pub older: Vec<Vec<u8>>,
    /// Paths of which only the name is left.
    pub lost: Vec<Vec<u8>>,
    /// Things whose name is lost: they are in `lost+found`.
    pub nameless: u64,
    /// Paths of what may have had extended attributes that are lost.
    pub bare: Vec<Vec<u8>>,
}

impl Found {
    /// Whether anything is known to be missing.
    #[must_use]
    pub const fn has_gaps(&self) -> bool {
        self.lost_commit.is_some() || self.lost_ranges > 0 || self.nameless > 0
    }
}

/// Where segments begin on the device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    begins: HashMap<u64, u64>,
    /// Those of which more than a head says so.
    told: HashSet<u64>,
}

impl Places {
    fn get(&self, segment: u64) -> Option<u64> {
        self.begins.get(&segment).copied()
    }

    /// A root, a superblock or a commit says where a segment lies: heads may have gone astray.
    fn tell(&mut self, segment: u64, begin: u64) {
        self.begins.insert(segment, begin);
        self.told.insert(segment);
    }
}

/// Takes what is left of the volume on a device: a volume that can be read, and what there is to say of it.
///
/// # Errors
/// `NoVolume` when nothing of a volume is left; `NoSnapshot` when the root that is left knows none of that name;
/// `Stone` when it needs a newer reader.
pub fn recover<D: Device>(
    device: D,
    options: Options,
    how: Recovering,
) -> Result<(Volume<Mended<D>>, Found)> {
    let Left { mended, shape, places, base, mut all, mut found, .. } =
        left(device, &options, how.before)?;
    if let Some(name) = &how.snapshot {
        let snapshots = &base.state.snapshots;
        let row = snapshots.iter().find(|row| row.name == *name).ok_or(Damage::NoSnapshot)?;
        rows::of_snapshot(&mut all, (&mended, &places), &base.state.seen_by(row), &mut found);
        (found.sequence, found.time) = (row.sequence, Some(row.time));
    }
    let below = base.state.base;
    let links = links::link(&mut all, how.keep_older);
    (found.older, found.lost, found.nameless) = (links.older, links.lost, links.nameless);
    found.bare = links.bare;
    let by_number = places.begins.iter().filter_map(|(&number, &at)| {
        Some((number, Physical(u32::try_from(at / shape.segment_len).ok()?)))
    });
    let segments = Segments::found(by_number.collect());
    let numbers = Numbers { next_ino: u64::MAX, inodes: links.inodes, next_place: u64::MAX };
    let state = State { recent: all.recent, numbers, ..State::default() };
    let options = Options { write: false, ..options };
    let (log, bases) = (log(shape, found.sequence), options.bases.clone());
    let mut volume = Volume::with(mended, options, log, (segments, state));
    volume.state_mut().base.clone_from(&below);
    let is_there = volume.find_base(bases.as_deref()).is_ok();
    found.base_image = below.map(|below| (below, is_there));
    Ok((volume, found))
}

/// What is left of a volume, in memory.
struct Left<D> {
    scan: Scan,
    /// The device, with parts laid over it that were made again.
    mended: Mended<D>,
    shape: Superblock,
    places: Places,
    base: base::Base,
    all: All,
    found: Found,
}

fn left<D: Device>(device: D, options: &Options, before: Option<i64>) -> Result<Left<D>> {
    let scan = Scan::of(&device, options.threads);
    scan.known()?;
    let mut found = Found {
        superblocks: scan.superblocks.len(),
        parts: scan.parts.len(),
        unreadable: scan.unreadable,
        ..Found::default()
    };
    let Some(uuid) = scan.uuid() else { return Err(Damage::NoVolume.into()) };
    found.uuid = uuid;
    let shape = scan.shape(&device.geometry());
    let is_guess = scan.superblocks.is_empty() && device.geometry().zones.is_none();
    let places = scan.places(&device);
    let (mended, count) = mend::mend(device, &scan);
    found.mended = count;
    let way = |base: base::Base| {
        let (mut places, mut found) = (places.clone(), found.clone());
        let len = base.segment_len(&places).filter(|_| is_guess);
        let shape =
            len.map_or(shape, |len| Superblock { segment_len: len, segment_room: len, ..shape });
        base.tell(&mut places, shape.segment_len);
        (found.root, found.base) = (base.is_root, base.sequence);
        let told = rows::Told { scan: &scan, device: &mended, places: &places, before };
        let (all, lost) = told.all(&base, &mut found);
        Way { shape, places, base, all, lost, found }
    };
    let mut bases = base::newest(&mended, &scan, before, ROOTS).into_iter();
    let first = bases.next().map(way).ok_or(Damage::NoVolume)?;
    // Power may have failed before all tables of the newest were there: then the one before it has everything.
    let better = match first.is_whole() {
        true => None,
        false => {
            let alike = bases.filter(|base| base.agrees_with(&first.base));
            alike.map(way).find(|way| way.has_all_of(&first))
        }
    };
    let Way { shape, mut places, base, mut all, lost, found } = better.unwrap_or(first);
    let told = rows::Told { scan: &scan, device: &mended, places: &places, before };
    told.fill(&base, &mut all, lost);
    for row in &all.begun {
        places.tell(row.segment, u64::from(row.physical.0) * shape.segment_len);
    }
    probe(&mended, &shape, &mut places, &all.recent);
    Ok(Left { scan, mended, shape, places, base, all, found })
}

/// A root, and all that it and the log behind it say.
struct Way {
    shape: Superblock,
    places: Places,
    base: base::Base,
    all: All,
    /// Ranges of keys of which some are lost.
    lost: Vec<Range>,
    found: Found,
}

impl Way {
    /// Whether nothing is lost on it.
    const fn is_whole(&self) -> bool {
        self.base.is_root && self.found.lost_commit.is_none() && self.found.lost_ranges == 0
    }

    /// Whether it comes, with nothing lost, to where the other one would.
    fn has_all_of(&self, other: &Self) -> bool {
        let is_as_new = self.found.sequence >= other.base.sequence.max(other.found.sequence);
        self.is_whole() && is_as_new
    }
}

/// The log of a volume that is never written.
fn log(superblock: Superblock, sequence: u64) -> Log {
    let (physical, next) = (Physical(0), [Physical(0); NEXT]);
    Log {
        physical,
        segment: 0,
        at: 0,
        slot: 0,
        before: 0,
        next,
        good: Good::new(0, next, (physical, 0, 0, 0)),
        sequence,
        safe: sequence,
        tried: sequence,
        epoch: superblock.epoch,
        superblock,
        home: (0, 0),
        safe_home: 0,
        hidden: false,
        since: Vec::new(),
        round: None,
        idle: Vec::new(),
        unneeded: BTreeSet::new(),
        tables: None,
        moving: Moving::default(),
        fresh: true,
        closed: false,
    }
}

/// Where it lies that a block was moved to, if it was.
fn moved(moves: &BTreeMap<BlockName, Move>, block: BlockName) -> Option<Move> {
    let near = moves.range(..=block).next_back().map(|(_, row)| *row);
    near.filter(|row| row.holds(block))
}

/// Finds segments of which no head is left by their blocks: a checksum says which block it is.
fn probe(device: &impl Device, shape: &Superblock, places: &mut Places, recent: &Recent) {
    let mut unknown: BTreeMap<u64, Vec<(BlockName, u64, &BlockRow)>> = BTreeMap::new();
    for (&name, row) in &recent.blocks {
        let born = (name.segment, 0);
        let now = moved(&recent.moves, name).map(|row| (row.to, row.shift));
        for (segment, shift) in now.into_iter().chain([born]) {
            if places.get(segment).is_some() || row.stored > BLOCK_LEN_MAX {
                continue;
            }
            let own = unknown.entry(segment).or_default();
            if own.len() < PROBED_BLOCKS {
                own.push((name, row.at.wrapping_add(shift), row));
            }
        }
    }
    let taken: BTreeSet<u64> = places.begins.values().copied().collect();
    let mut left = PROBES_MAX;
    for (segment, blocks) in unknown {
        let stretches = (0..shape.size / shape.segment_len).map(|at| at * shape.segment_len);
        for begin in stretches.filter(|begin| !taken.contains(begin)) {
            left = left.saturating_sub(blocks.len() as u64);
            if left == 0 {
                return;
            }
            let lies_here = |&(name, at, row): &(BlockName, u64, &BlockRow)| {
                let mut stored = vec![0; row.stored as usize];
                let place = begin.checked_add(at);
                let read = place.is_some_and(|place| device.read(place, &mut stored).is_ok());
                read && BlockRow::covered(name).verify(0, &stored, &row.checksums).is_ok()
            };
            if blocks.iter().any(lies_here) {
                places.begins.insert(segment, begin);
                break;
            }
        }
    }
}

/// All rows that count, and what is not sure of them.
#[derive(Default)]
struct All {
    recent: Recent,
    /// Inodes that may be older than they were.
    older: BTreeSet<Ino>,
    /// Names that may be older than they were.
    older_names: BTreeSet<(Ino, Vec<u8>)>,
    /// Files of which bytes are lost, and how many: they have a hole there.
    damaged: BTreeMap<Ino, u64>,
    /// Inodes that may have had extended attributes that are lost.
    bare: BTreeSet<Ino>,
    /// Segments that commits have begun for blocks that were moved.
    begun: Vec<Begun>,
    /// Whether rows from before the root may be among them.
    has_older: bool,
}
