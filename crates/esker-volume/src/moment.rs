//! What a volume was like a moment ago, for whoever looks at it for long while others write.
//!
//! Above: `scrub`, verbs. Below: `volume`. A [`Moment`] is a volume of its own, with the tables, the log and the
//! segments of then: as long as there is one, segments that nobody needs any more do not become free, so all that it
//! names stays where it was. Invariant: who writes comes first: where room is short the moment is let go, and who
//! looked at it is told that what was seen does not count.

use std::sync::{Mutex, MutexGuard, PoisonError};

use esker_stone::cache::Cache;

use crate::check::Finding;
use crate::device::{Device, Fault, Geometry, Result};
use crate::limits::{MOMENT_CACHE_LEN, SPARE};
use crate::log::Log;
use crate::segments::{Physical, Segments};
use crate::stack::State;
use crate::volume::{Options, Volume};

/// So many of a volume's segments, as one part of this, stay free while a moment is kept.
const FREE_SHARE: usize = 16;
/// How often somebody tries to keep a moment that is let go.
pub(crate) const TRIES: usize = 3;

/// Asked before so many bytes are read: waits as long as it is to be waited, and says whether to go on.
pub type Pace<'a> = &'a (dyn Fn(usize) -> bool + Sync);

/// A moment could not be kept to its end, or nobody wants to know any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetGo;

/// Who looks at moments.
#[derive(Default)]
pub(crate) struct Moments(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// Those that were not let go.
    count: usize,
    /// How often all of them were.
    lost: u64,
}

impl Moments {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is no room for them.
    pub fn let_go(&self) {
        let mut held = self.held();
        if held.count > 0 {
            *held = Held { count: 0, lost: held.lost + 1 };
        }
    }

    /// One more; how often others were let go before.
    fn hold(&self) -> u64 {
        let mut held = self.held();
        held.count += 1;
        held.lost
    }

    fn end(&self, lost: u64) {
        let mut held = self.held();
        if held.lost == lost {
            held.count = held.count.saturating_sub(1);
        }
    }
}

/// The device below a moment: paced, and written only where what is there is still what it was.
pub(crate) struct Below<'a, D> {
    volume: &'a Volume<D>,
    segments: Segments,
    pace: Pace<'a>,
}

/// What a volume was like.
pub(crate) struct Moment<'a, D> {
    /// As a volume of its own. Nothing is committed to it.
    pub view: Volume<Below<'a, D>>,
    volume: &'a Volume<D>,
    lost: u64,
}

impl<D> Moment<'_, D> {
    /// Whether all that it names is still where it was.
    pub fn is_kept(&self) -> bool {
        self.volume.moments.held().lost == self.lost
    }
}

impl<D> Drop for Moment<'_, D> {
    fn drop(&mut self) {
        self.volume.moments.end(self.lost);
    }
}

impl<D: Device> Volume<D> {
    /// What it is like now. `mend`: damaged bytes may be written over.
    pub(crate) fn moment<'a>(&'a self, pace: Pace<'a>, mend: bool) -> Moment<'a, D> {
        let log = self.log();
        self.moment_of(&log, pace, mend)
    }

    fn moment_of<'a>(&'a self, log: &Log, pace: Pace<'a>, mend: bool) -> Moment<'a, D> {
        let lost = self.moments.hold();
        let (state, segments) = (self.state().clone(), self.segments().clone());
        let below = Below { volume: self, segments: segments.clone(), pace };
        let options = Options {
            write: mend && self.is_writable(),
            ..Options::new(Cache::new(MOMENT_CACHE_LEN))
        };
        let mut view = Volume::with(below, options, log.clone(), (segments, state));
        view.below.clone_from(&self.below);
        Moment { view, volume: self, lost }
    }

    /// Whether segments must not become free. Where there are few of those, moments are let go.
    pub(crate) fn keeps_moments(&self, state: &State) -> bool {
        let kept = self.reserve(state).saturating_add(SPARE);
        let segments = self.segments();
        let least = kept.saturating_add(segments.rows().len() / FREE_SHARE);
        let is_held = self.moments.held().count > 0;
        if is_held && segments.free() <= least {
            self.moments.let_go();
        }
        is_held && segments.free() > least
    }

    /// All that is wrong with it as it is now, while others write: every byte that somebody needs is read.
    ///
    /// # Errors
    /// `LetGo`: there was no room to keep the moment, or `pace` said so.
    pub fn check_moment(&self, pace: Pace<'_>) -> std::result::Result<Vec<Finding>, LetGo> {
        for _ in 0..TRIES {
            let moment = self.moment(pace, false);
            let findings = moment.view.check();
            if !pace(0) {
                break;
            }
            if moment.is_kept() {
                return Ok(findings);
            }
        }
        Err(LetGo)
    }
}

impl<D: Device> Device for Below<'_, D> {
    fn geometry(&self) -> Geometry {
        self.volume.device.geometry()
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        if !(self.pace)(target.len()) {
            return Err(Fault::Gone);
        }
        self.volume.device.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        let physical =
            Physical(u32::try_from(at / self.volume.shape.segment_len).unwrap_or(u32::MAX));
        // As long as this is held nothing becomes free, and so nothing is begun again that was not free before.
        let _state = self.volume.state();
        let now = self.volume.segments().get(physical).map(|row| row.number);
        if now.is_none() || now != self.segments.get(physical).map(|row| row.number) {
            return Err(Fault::ReadOnly);
        }
        self.volume.device.write(at, source)
    }

    /// A device tells of a write that failed once: whoever commits holds the log until he was told of his own.
    fn flush(&self) -> Result<()> {
        let _log = self.volume.log();
        self.volume.device.flush()
    }

    fn discard(&self, _: u64, _: u64) -> Result<()> {
        Err(Fault::ReadOnly)
    }
}
