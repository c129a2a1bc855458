//! The lying device: memory that behaves like the worst disk that is still one, from a seed, and writes down all that
//! is done to it.
//!
//! Above: the proofs of the volume home. [`medium`] keeps bytes, [`states`] says what a loss of power may
//! leave. Invariant: what a flush that succeeded covers stays, unless the device was told to forget its flushes.

pub mod medium;
pub mod ram;
pub mod states;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esker_volume::device::{Buffer, Device, Fault, Geometry, Result, Stream, Zones};

use crate::chance::Chance;
use medium::Medium;

/// What a device tears writes into.
pub const SECTOR: usize = 512;

/// A write.
#[derive(Clone)]
pub struct Write {
    /// Where.
    pub at: u64,
    /// What.
    pub bytes: Arc<[u8]>,
}

/// Something that was done to the device.
#[derive(Clone)]
pub enum Op {
    /// A write, also one that failed.
    Write(Write),
    /// A flush that succeeded.
    Flush,
    /// A stretch is needed no more.
    Discard(u64, u64),
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    /// Of bytes.
    Read,
    /// Of bytes.
    Write,
    /// A barrier.
    Flush,
    /// Of a stretch that is needed no more, or of a zone that is begun again.
    Discard,
    /// Any of these, and whatever else is asked: as of a device that was pulled out.
    Any,
}

/// A failure that is planned.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What fails.
    pub request: Request,
    /// The first that does, from 0.
    pub nth: u64,
    /// And all after it.
    pub forever: bool,
    /// How.
    pub fault: Fault,
}

struct Inner {
    /// What reads see.
    seen: Medium,
    ops: Vec<Op>,
    plan: Option<Plan>,
    counts: BTreeMap<Request, u64>,
    chance: Chance,
    /// How far each zone was written; one that was finished, to its end.
    written: Vec<u64>,
    /// Bytes that were asked for.
    read: u64,
    /// What became of a write, which nobody was told yet.
    late: Option<Fault>,
    /// Where what was handed over went, and of which stream it was.
    placed: Vec<(u64, Stream)>,
}

/// The device.
pub struct Lying {
    geometry: Geometry,
    inner: Mutex<Inner>,
}

impl Lying {
    /// Of zeros.
    #[must_use]
    pub fn new(size: u64, unit: u32, zones: Option<Zones>, seed: u64) -> Self {
        Self::on(Medium::new(size), unit, zones, seed)
    }

    /// Of what is on a medium.
    #[must_use]
    pub fn on(medium: Medium, unit: u32, zones: Option<Zones>, seed: u64) -> Self {
        let count = zones.map_or(0, |zones| medium.size() / zones.len);
        let written = (0..count).map(|zone| last_written(&medium, zone, zones)).collect();
        let geometry = Geometry { size: medium.size(), unit, zones };
        let inner = Inner {
            seen: medium,
            ops: Vec::new(),
            plan: None,
            counts: BTreeMap::new(),
            chance: Chance::new(seed),
            written,
            read: 0,
            late: None,
            placed: Vec::new(),
        };
        Self { geometry, inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans a failure; counting begins again.
    pub fn plan(&self, plan: Option<Plan>) {
        let mut inner = self.inner();
        inner.plan = plan;
        inner.counts.clear();
    }

    /// Requests of a kind since the last plan.
    #[must_use]
    pub fn count(&self, request: Request) -> u64 {
        self.inner().counts.get(&request).copied().unwrap_or(0)
    }

    /// How much was done to it: the number of the next operation.
    #[must_use]
    pub fn done(&self) -> usize {
        self.inner().ops.len()
    }

    /// All that was done to it.
    #[must_use]
    pub fn ops(&self) -> Vec<Op> {
        self.inner().ops.clone()
    }

    /// Where what was handed over went, and of which stream it was.
    #[must_use]
    pub fn placed(&self) -> Vec<(u64, Stream)> {
        self.inner().placed.clone()
    }

    /// Bytes that were read from it.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.inner().read
    }

    /// What it holds, as reads see it.
    #[must_use]
    pub fn medium(&self) -> Medium {
        self.inner().seen.clone()
    }

    fn within(&self, at: u64, len: usize) -> Result<()> {
        let end = at.checked_add(len as u64).filter(|&end| end <= self.geometry.size);
        end.map(|_| ()).ok_or(Fault::OutOfRange)
    }
}

/// As a zone whose bytes are there but whose pointer was lost: behind its last byte that is not zero.
fn last_written(medium: &Medium, zone: u64, zones: Option<Zones>) -> u64 {
    let Some(zones) = zones else { return 0 };
    let begin = zone * zones.len;
    medium.end_of_bytes(begin, begin + zones.capacity) - begin
}

impl Inner {
    /// Zones that are begun, and not full.
    fn active(&self, zones: Zones) -> impl Iterator<Item = u64> {
        let begun = move |&(_, &written): &(u64, &u64)| (1..zones.capacity).contains(&written);
        (0..).zip(&self.written).filter(begun).map(move |(zone, _)| zone * zones.len)
    }

    fn count(&mut self, request: Request) -> u64 {
        let count = self.counts.entry(request).or_default();
        *count += 1;
        *count - 1
    }

    fn fails(&mut self, request: Request) -> Option<Fault> {
        let any = self.count(Request::Any);
        let own = if request == Request::Any { any } else { self.count(request) };
        let plan = self.plan.filter(|plan| [request, Request::Any].contains(&plan.request))?;
        let number = if plan.request == Request::Any { any } else { own };
        let now = number == plan.nth || (plan.forever && number > plan.nth);
        now.then_some(plan.fault)
    }
}

impl Device for Lying {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.within(at, target.len())?;
        let mut inner = self.inner();
        if let Some(fault) = inner.fails(Request::Read) {
            return Err(fault);
        }
        inner.read += target.len() as u64;
        inner.seen.read(at, target);
        Ok(())
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.within(at, source.len())?;
        let unit = u64::from(self.geometry.unit);
        assert!(
            at.is_multiple_of(unit) && (source.len() as u64).is_multiple_of(unit),
            "a write that fits no unit: {at} + {}",
            source.len()
        );
        let mut inner = self.inner();
        if let Some(zones) = self.geometry.zones {
            let (zone, offset) = ((at / zones.len) as usize, at % zones.len);
            let end = offset + source.len() as u64;
            if inner.written[zone] != offset || end > zones.capacity {
                return Err(Fault::Zone);
            }
            // A device would refuse it; whoever comes here has forgotten to finish one.
            let more = offset == 0 && zones.active > 0;
            let active = inner.active(zones).count();
            assert!(!more || active < zones.active as usize, "{active} zones are active already");
            inner.written[zone] = end;
        }
        let failed = inner.fails(Request::Write);
        let mut bytes = source.to_vec();
        if failed.is_some() {
            // Any of its sectors may be there all the same.
            let mut old = vec![0; bytes.len()];
            inner.seen.read(at, &mut old);
            for (new, old) in bytes.chunks_mut(SECTOR).zip(old.chunks(SECTOR)) {
                if inner.chance.below(2) == 0 {
                    new.copy_from_slice(old);
                }
            }
        }
        inner.seen.write(at, &bytes);
        inner.ops.push(Op::Write(Write { at, bytes: bytes.into() }));
        failed.map_or(Ok(()), Err)
    }

    /// That a write failed is told with this one, the next, or the flush.
    fn submit(&self, at: u64, mut source: Buffer, stream: Stream) -> Result<Buffer> {
        let done = self.write(at, &source);
        source.clear();
        let mut inner = self.inner();
        inner.placed.push((at, stream));
        let failed = inner.late.take().or(done.err());
        if failed.is_some() && inner.chance.below(2) == 0 {
            inner.late = failed;
            return Ok(source);
        }
        failed.map_or(Ok(source), Err)
    }

    fn flush(&self) -> Result<()> {
        let mut inner = self.inner();
        if let Some(late) = inner.late.take() {
            return Err(late);
        }
        if let Some(fault) = inner.fails(Request::Flush) {
            return Err(fault);
        }
        inner.ops.push(Op::Flush);
        Ok(())
    }

    fn discard(&self, at: u64, len: u64) -> Result<()> {
        self.within(at, len as usize)?;
        let mut inner = self.inner();
        inner.fails(Request::Discard).map_or(Ok(()), Err)?;
        if let Some(zones) = self.geometry.zones {
            let (first, last) = ((at / zones.len) as usize, ((at + len) / zones.len) as usize);
            inner.written[first..last].fill(0);
        }
        inner.seen.write(at, &vec![0; len as usize]);
        inner.ops.push(Op::Discard(at, len));
        Ok(())
    }

    fn written(&self, at: u64) -> Result<Option<u64>> {
        let Some(zones) = self.geometry.zones else { return Ok(None) };
        let mut inner = self.inner();
        inner.fails(Request::Any).map_or(Ok(()), Err)?;
        Ok(inner.written.get((at / zones.len) as usize).copied())
    }

    fn finish(&self, at: u64) -> Result<()> {
        if let Some(zones) = self.geometry.zones {
            let mut inner = self.inner();
            inner.fails(Request::Any).map_or(Ok(()), Err)?;
            inner.written[(at / zones.len) as usize] = zones.capacity;
        }
        Ok(())
    }

    fn active(&self) -> Result<Vec<u64>> {
        let Some(zones) = self.geometry.zones else { return Ok(Vec::new()) };
        let mut inner = self.inner();
        inner.fails(Request::Any).map_or(Ok(()), Err)?;
        Ok(inner.active(zones).collect())
    }
}
