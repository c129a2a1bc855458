//! A volume, open: its device, its segments, the state that the newest commit left, and the end of its log.
//!
//! Above: homes and verbs. Invariant: locks are taken in the order log, state, segments; who changes the state holds
//! the log, so that who holds the log may look at the state twice.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use esker::Ino;
use esker::store::View;
use esker_stone::cache::{Cache, CacheUse};
use esker_stone::tree::Writing;
use esker_stone::{Setting, Teller};

use crate::base::Bases;
use crate::commit::Likeness;
use crate::counts::{Counted, Counts};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::known::Known;
use crate::limits::{
    RECENT_LEN, RECENT_LEN_MIN, RECENT_SCALE, TABLE_LEN, TABLE_LEN_MIN, TABLE_SCALE,
};
use crate::listing::Listings;
use crate::log::Log;
use crate::moment::Moments;
use crate::rows::Numbers;
use crate::segments::{Condition, Physical, Segment, Segments};
use crate::shelf::Shelf;
use crate::stack::{Stack, State};
use crate::superblock::Superblock;
use crate::vain::Vain;

/// How a volume is opened.
#[derive(Clone)]
pub struct Options {
    /// Whether it may be written.
    pub write: bool,
    /// Where pages and blocks are kept.
    pub cache: Arc<Cache>,
    /// Seconds since 1970, for parts.
    pub now: fn() -> i64,
    /// Bytes of rows in memory at which they are settled; `None`: as fits the volume's size.
    pub recent_len: Option<usize>,
    /// Stored bytes of a table, about; `None`: as fits the volume's size.
    pub table_len: Option<usize>,
    /// How what is new is compressed; `None`: as the volume was made.
    pub setting: Option<Setting>,
    /// Whether what nobody needs is given back below.
    pub discard: bool,
    /// Whether that is all that is free when it is opened too, and not only what becomes so.
    pub discard_all: bool,
    /// Whether what is written is looked for among what was written since it was opened, and shared where it is there.
    pub dedup: bool,
    /// Whether what takes the place of something that it resembles is stored as what differs from that.
    pub deltas: bool,
    /// How many threads may compress.
    pub threads: usize,
    /// Who knows where its base is, if it has one.
    pub bases: Option<Arc<dyn Bases>>,
}

impl Options {
    /// To be looked at, by one thread.
    #[must_use]
    pub fn new(cache: Arc<Cache>) -> Self {
        Self {
            write: false,
            cache,
            now: || 0,
            recent_len: None,
            table_len: None,
            setting: None,
            discard: true,
            discard_all: false,
            dedup: false,
            deltas: false,
            threads: 1,
            bases: None,
        }
    }
}

/// Of a volume smaller than `whole` in proportion: what is kept back for settling would be much of it, and a step would
/// lay down all of its tables anew, while others wait.
fn scaled(len: usize, least: usize, size: u64, whole: u64) -> usize {
    let share = (len as u64).saturating_mul(size) / whole;
    usize::try_from(share).unwrap_or(len).clamp(least, len)
}

/// A volume, open.
pub struct Volume<D> {
    pub(crate) device: D,
    /// What it was like when it was opened, with the root and the log of then.
    pub(crate) shape: Superblock,
    /// The same with what was altered since.
    pub(crate) altered: RwLock<Superblock>,
    /// The base that it lies on.
    pub(crate) below: Option<Arc<dyn View + Send + Sync>>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) number: u64,
    pub(crate) now: fn() -> i64,
    pub(crate) recent_len: usize,
    pub(crate) table_len: usize,
    /// How what is new is compressed, whatever the volume says.
    pub(crate) own_setting: Option<Setting>,
    pub(crate) discard: bool,
    /// What was written since opening, where it is to be found once more.
    pub(crate) known: Option<Mutex<Known>>,
    /// How well new blocks resemble what they take the place of, where that is looked at.
    pub(crate) likeness: Option<Likeness>,
    pub(crate) threads: usize,
    pub(crate) segments: RwLock<Segments>,
    pub(crate) state: RwLock<State>,
    pub(crate) log: Mutex<Log>,
    /// Bytes that free segments take, besides those that are kept back.
    pub(crate) free: AtomicU64,
    /// Bytes that can be used, and that nobody needs, wherever they lie.
    pub(crate) left: AtomicU64,
    /// Of these what cannot be used at all times, at most, in about.
    pub(crate) slack: AtomicU64,
    /// Bytes that were admitted and wait to be written, when somebody looked last.
    pub(crate) waiting: AtomicU64,
    /// When moving gave no more room.
    pub(crate) moved_in_vain: Vain,
    /// When settling gave none.
    pub(crate) settled_in_vain: Vain,
    /// Somebody writes what was admitted, and has found no room for it.
    pub(crate) in_need: AtomicBool,
    /// How many snapshots were deleted since opening.
    pub(crate) deleted: AtomicU64,
    /// Scrubbing is to read blocks from this segment on.
    pub(crate) scrubbed: AtomicU64,
    /// What was written since opening.
    pub(crate) counts: Counts,
    /// Who hears of damage.
    pub(crate) teller: Teller,
    /// Who looks at what the volume was like.
    pub(crate) moments: Moments,
    /// In which order names stand in directories that were listed.
    pub(crate) listings: Listings,
    /// What is known of its snapshots.
    pub(crate) shelf: Arc<Shelf>,
    /// How often somebody has committed something since opening.
    pub(crate) commits: AtomicU64,
    /// Cannot be written any more.
    pub(crate) stopped: AtomicBool,
}

impl<D: Device> Volume<D> {
    /// Of what was recovered.
    pub(crate) fn with(
        device: D,
        options: Options,
        log: Log,
        (segments, state): (Segments, State),
    ) -> Self {
        let (number, scrubbed) = (options.cache.number(), AtomicU64::new(state.scrubbed));
        let size = log.superblock.size;
        let recent_len =
            options.recent_len.unwrap_or(scaled(RECENT_LEN, RECENT_LEN_MIN, size, RECENT_SCALE));
        let table_len =
            options.table_len.unwrap_or(scaled(TABLE_LEN, TABLE_LEN_MIN, size, TABLE_SCALE));
        let volume = Self {
            device,
            shape: log.superblock,
            altered: RwLock::new(log.superblock),
            below: None,
            cache: options.cache,
            number,
            now: options.now,
            recent_len,
            table_len,
            own_setting: options.setting,
            discard: options.discard,
            known: options.dedup.then(Mutex::default),
            likeness: options.deltas.then(Likeness::default),
            threads: options.threads,
            segments: RwLock::new(segments),
            state: RwLock::new(state),
            log: Mutex::new(log),
            free: AtomicU64::new(0),
            left: AtomicU64::new(0),
            slack: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            moved_in_vain: Vain::default(),
            settled_in_vain: Vain::default(),
            in_need: AtomicBool::new(false),
            deleted: AtomicU64::new(0),
            scrubbed,
            counts: Counts::default(),
            teller: Teller::default(),
            moments: Moments::default(),
            listings: Listings::default(),
            shelf: Arc::default(),
            commits: AtomicU64::new(0),
            stopped: AtomicBool::new(!options.write),
        };
        if options.write && options.discard_all && volume.gives_back() {
            let (mut log, segments) = (volume.log(), volume.segments());
            let free = segments.rows().iter().filter(|row| row.condition == Condition::Free);
            log.unneeded.extend(free.map(|row| row.physical));
        }
        volume.measure_room(&volume.state(), &volume.segments());
        volume
    }

    /// From now on `hears` is told of every block and page that cannot be read, once.
    pub fn tell_damage(&self, hears: impl Fn(&str) + Send + Sync + 'static) {
        self.teller.tell_to(hears);
    }

    /// What it is like now; the root and the log are those that it was opened with.
    #[must_use]
    pub fn shape(&self) -> Superblock {
        *self.altered.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How what is new is compressed.
    pub(crate) fn setting(&self) -> Setting {
        self.own_setting.unwrap_or_else(|| self.shape().setting())
    }

    /// What was written since it was opened.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.counts.told()
    }

    /// Plain bytes of blocks that are stored as what differs from others.
    #[must_use]
    pub fn deltas(&self) -> u64 {
        self.state().deltas
    }

    /// What it keeps of pages and blocks in memory.
    #[must_use]
    pub fn cached(&self) -> CacheUse {
        self.cache.usage()
    }

    /// Bytes of rows in memory that are not in tables.
    #[must_use]
    pub fn unsettled(&self) -> u64 {
        let state = self.state();
        (state.recent.bytes() + state.settling.bytes()) as u64
    }

    /// The device below.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Where a stretch begins on the device.
    pub(crate) fn place(&self, physical: Physical) -> u64 {
        u64::from(physical.0) * self.shape.segment_len
    }

    /// How pages are written.
    pub(crate) fn writing(&self) -> Writing {
        Writing { setting: self.setting(), threads: self.threads }
    }

    pub(crate) fn segments(&self) -> RwLockReadGuard<'_, Segments> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn segments_mut(&self) -> RwLockWriteGuard<'_, Segments> {
        self.segments.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn stack<'a>(&'a self, state: &'a State) -> Stack<'a, D> {
        Stack { volume: self, state, index: state }
    }

    /// Whether it can be written.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        !self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn writable(&self) -> Result<()> {
        if self.is_writable() { Ok(()) } else { Err(Error::ReadOnly) }
    }

    /// The number of the newest commit.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.log().sequence
    }

    /// The number that the next commit will have, if it succeeds.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.log().tried + 1
    }

    /// How often somebody has committed something since it was opened.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }

    /// How often it was settled.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.log().superblock.generation - 1
    }

    /// What it counts of its inodes and names.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        self.state().numbers
    }

    /// All stretches of the device, as they are used now.
    #[must_use]
    pub fn stretches(&self) -> Vec<Segment> {
        self.segments().rows().to_vec()
    }

    /// Inodes without a name: whoever used them is gone, if nobody has them now.
    #[must_use]
    pub fn orphans(&self) -> Vec<Ino> {
        self.state().orphans.iter().copied().collect()
    }
}
