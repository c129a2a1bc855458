//! Mending: parts of tables that are damaged, made again from their parity, and laid over the device in memory.
//!
//! Above: `recover`, `scrub`. Below: `parity`. Invariant: what is laid over the device has the checksum of its head.

use std::collections::{BTreeMap, HashMap};

use super::scan::Scan;
use crate::device::{Device, Fault, Geometry, Result};
use crate::parity::{Left, PART_MAX, PIECE, len_of};
use crate::part::{PARITY, PartHead, TABLES};

/// A device with parts laid over it that it does not hold any more. It is only read.
pub struct Mended<D> {
    device: D,
    parts: BTreeMap<u64, Vec<u8>>,
}

impl<D> Mended<D> {
    /// With nothing laid over it.
    pub(super) const fn bare(device: D) -> Self {
        Self { device, parts: BTreeMap::new() }
    }

    /// Parts that were made again, and where they lie.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.parts.iter().map(|(&place, part)| (place, part.as_slice()))
    }

    /// Heads of parts that were made again.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (u64, PartHead)> {
        self.parts.iter().filter_map(|(&place, part)| Some((place, PartHead::decode(part)?)))
    }
}

impl<D: Device> Device for Mended<D> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        let near = self.parts.range(..=at).next_back();
        let inside = near.and_then(|(place, part)| {
            let from = usize::try_from(at - place).ok()?;
            part.get(from..)?.get(..target.len())
        });
        match inside {
            Some(bytes) => {
                target.copy_from_slice(bytes);
                Ok(())
            }
            None => self.device.read(at, target),
        }
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<()> {
        Err(Fault::ReadOnly)
    }

    fn flush(&self) -> Result<()> {
        Err(Fault::ReadOnly)
    }

    fn discard(&self, _: u64, _: u64) -> Result<()> {
        Err(Fault::ReadOnly)
    }
}

/// What is known of a part of tables.
#[derive(Default)]
pub(crate) struct Part {
    /// Its head.
    own: Option<PartHead>,
    /// Heads of its parity, and where they lie.
    pieces: Vec<(u64, PartHead)>,
}

/// What is there of a part.
pub(crate) enum State {
    /// All of it.
    Whole(Vec<u8>),
    /// It was damaged: this is it, made again.
    Again(Vec<u8>),
    /// It is damaged, and there is not enough parity.
    Lost,
}

/// Bytes of the device; zeros for what cannot be read.
fn bytes(device: &impl Device, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    if device.read(at, &mut bytes).is_err() {
        for (number, unit) in (0..).zip(bytes.chunks_mut(PIECE)) {
            if device.read(at + number * PIECE as u64, unit).is_err() {
                unit.fill(0);
            }
        }
    }
    bytes
}

impl Part {
    /// Its length, if anything that is left of it says so.
    pub fn len(&self) -> Option<usize> {
        let own = self.own.and_then(|head| usize::try_from(head.len).ok());
        let told = self.pieces.first().and_then(|(_, head)| len_of(head));
        own.filter(|&len| len <= PART_MAX).or(told)
    }

    /// Whether it is of this segment.
    pub fn is_of(&self, segment: u64) -> bool {
        let heads = self.own.iter().chain(self.pieces.iter().map(|(_, head)| head));
        heads.into_iter().all(|head| head.segment == segment)
    }

    /// Whether it has parity, or had.
    pub fn has_parity(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// What there is of it at this place.
    pub fn state(&self, device: &impl Device, place: u64) -> State {
        let Some(len) = self.len() else { return State::Lost };
        let damaged = bytes(device, place, len);
        if self.own.is_some_and(|head| head.holds(&damaged)) {
            return State::Whole(damaged);
        }
        self.again(device, &damaged).map_or(State::Lost, State::Again)
    }

    fn again(&self, device: &impl Device, damaged: &[u8]) -> Option<Vec<u8>> {
        let mut left = Left::default();
        for (at, head) in &self.pieces {
            left.take(head, &bytes(device, *at, PIECE));
        }
        let (_, piece) = self.pieces.first()?;
        if len_of(piece)? != damaged.len() {
            return None;
        }
        let whole = left.restore(piece, damaged)?;
        let head = PartHead::parse(&whole, &piece.uuid)?;
        head.holds(&whole).then_some(whole)
    }
}

/// All parts of tables of the newest life of each stretch, by their places.
pub(crate) fn parts(scan: &Scan) -> BTreeMap<u64, Part> {
    let mut known: BTreeMap<u64, Part> = BTreeMap::new();
    // What a stretch held in an earlier life may be written over by now.
    let mut lives: HashMap<u64, u64> = HashMap::new();
    for (place, head) in &scan.parts {
        let life = lives.entry(place - head.at).or_default();
        *life = head.segment.max(*life);
    }
    let is_newest =
        |(place, head): &&super::scan::Part| lives.get(&(place - head.at)) == Some(&head.segment);
    for (place, head) in scan.parts.iter().filter(is_newest) {
        match head.kind {
            TABLES => known.entry(*place).or_default().own = Some(*head),
            PARITY => {
                let of = head.at.checked_sub(head.before).and_then(|back| place.checked_sub(back));
                let Some(of) = of else { continue };
                known.entry(of).or_default().pieces.push((*place, *head));
            }
            _ => {}
        }
    }
    known
}

/// Makes all damaged parts again that have enough parity; how many.
pub(super) fn mend<D: Device>(device: D, scan: &Scan) -> (Mended<D>, usize) {
    let mut again = BTreeMap::new();
    for (place, part) in parts(scan).iter().filter(|(_, part)| part.has_parity()) {
        if let State::Again(whole) = part.state(&device, *place) {
            again.insert(*place, whole);
        }
    }
    let count = again.len();
    (Mended { device, parts: again }, count)
}
