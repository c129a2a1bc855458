//! Scanning: every head of a part and every superblock that is whole, wherever it lies on the device.
//!
//! Above: `recover`. Below: the device. Invariant: what lies within a part that was found is content, whatever it looks
//! like; what is read that fails is as if zeros were there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use esker_stone::superblock::MAGIC as SUPERBLOCK;

use super::Places;
use crate::device::{Device, Geometry};
use crate::error::{Error, Result};
use crate::limits::{
    BLOCK_LEN_MAX, COPIES_MAX, SEGMENT_LEN_MAX, SEGMENT_LEN_MIN, SUPERBLOCK_STEP, SUPERBLOCKS_MAX,
    UNIT_MIN,
};
use crate::parity::PART_MAX;
use crate::part::{MAGIC, PARITY, PartHead};
use crate::superblock::{self, Superblock};

/// Bytes that a thread takes at a time.
const PIECE: u64 = 1 << 20;
/// Bytes that are lost at most when one cannot be read.
const SMALL: usize = 4096;

/// A head, and where on the device it lies.
pub(crate) type Part = (u64, PartHead);

/// What a device holds.
#[derive(Default)]
pub(crate) struct Scan {
    /// Superblocks of the volume.
    pub superblocks: Vec<Superblock>,
    /// Those that are whole, and need a newer reader: what that is.
    newer: Vec<(Superblock, Error)>,
    /// Heads of its parts, in the order of their places.
    pub parts: Vec<Part>,
    /// Bytes that could not be read.
    pub unreadable: u64,
}

/// Fills `target`, with zeros for what cannot be read; how much that is.
fn read(device: &impl Device, at: u64, target: &mut [u8]) -> u64 {
    if device.read(at, target).is_ok() {
        return 0;
    }
    let mut lost = 0;
    for (number, part) in (0..).zip(target.chunks_mut(SMALL)) {
        if device.read(at + number * SMALL as u64, part).is_err() {
            part.fill(0);
            lost += part.len() as u64;
        }
    }
    lost
}

/// A head here, of whichever volume.
fn head(bytes: &[u8]) -> Option<PartHead> {
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let uuid = PartHead::decode(bytes)?.uuid;
    PartHead::parse(bytes, &uuid).filter(|head| head.at + head.len <= SEGMENT_LEN_MAX)
}

/// Whether a superblock of this shape may lie at this place.
const fn may_lie(own: &Superblock, place: u64) -> bool {
    let Some(stretch) = place.checked_div(own.segment_len) else { return false };
    stretch < own.homes() as u64 && (place % own.segment_len).is_multiple_of(SUPERBLOCK_STEP)
}

/// A superblock that lies where one may.
fn superblock(place: u64, bytes: &[u8]) -> Option<Superblock> {
    if !bytes.starts_with(&SUPERBLOCK) {
        return None;
    }
    Superblock::parse(bytes).ok().filter(|found| may_lie(found, place))
}

/// The same of one that needs a newer reader. What else it says may mean something else, so it may lie wherever opening
/// looks first.
fn newer(place: u64, bytes: &[u8]) -> Option<(Superblock, Error)> {
    let near = place < SUPERBLOCKS_MAX * SUPERBLOCK_STEP;
    if !bytes.starts_with(&SUPERBLOCK) || !place.is_multiple_of(SUPERBLOCK_STEP) {
        return None;
    }
    let error = Superblock::parse(bytes).err().filter(|error| matches!(error, Error::Stone(_)))?;
    let found = Superblock::decode(bytes).filter(superblock::is_volume)?;
    (near || (found.copies <= COPIES_MAX && may_lie(&found, place))).then_some((found, error))
}

impl Scan {
    /// Reads all of a device, in so many threads.
    pub fn of(device: &impl Device, threads: usize) -> Self {
        let (size, next) = (device.geometry().size, AtomicU64::new(0));
        let all = Mutex::new(Self::default());
        let work = || {
            let mut own = Self::default();
            let mut bytes = vec![0; PIECE as usize];
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed).saturating_mul(PIECE);
                if at >= size {
                    break;
                }
                bytes.truncate((size - at).min(PIECE) as usize);
                own.unreadable += read(device, at, &mut bytes);
                own.take(at, &bytes);
                bytes.resize(PIECE as usize, 0);
            }
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.superblocks.append(&mut own.superblocks);
            all.newer.append(&mut own.newer);
            all.parts.append(&mut own.parts);
            all.unreadable += own.unreadable;
        };
        thread::scope(|scope| {
            for _ in 1..threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
        let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.choose(device);
        all
    }

    /// Reads a part of a device, which begins where a stretch does.
    pub fn between(device: &impl Device, from: u64, to: u64) -> Self {
        let mut all = Self::default();
        let mut bytes = vec![0; PIECE as usize];
        for at in (from..to).step_by(PIECE as usize) {
            bytes.resize((to - at).min(PIECE) as usize, 0);
            all.unreadable += read(device, at, &mut bytes);
            all.take(at, &bytes);
        }
        all.choose(device);
        all
    }

    fn take(&mut self, at: u64, bytes: &[u8]) {
        for (number, unit) in (0..).zip(bytes.chunks(UNIT_MIN as usize)) {
            let place = at + number * u64::from(UNIT_MIN);
            self.parts.extend(head(unit).map(|head| (place, head)));
            self.superblocks.extend(superblock(place, unit));
            self.newer.extend(newer(place, unit));
        }
    }

    /// Leaves only what is of one volume, and no head that is the content of another part.
    fn choose(&mut self, device: &impl Device) {
        let mut counts: HashMap<[u8; 16], usize> = HashMap::new();
        self.parts.iter().for_each(|(_, head)| *counts.entry(head.uuid).or_default() += 1);
        let known: HashSet<_> = self.superblocks.iter().map(|own| own.uuid).collect();
        let most = |(uuid, count): &(&[u8; 16], &usize)| (known.contains(*uuid), **count, **uuid);
        let uuid = counts.iter().max_by_key(most).map(|(uuid, _)| *uuid);
        let uuid = uuid.or_else(|| self.superblocks.first().map(|own| own.uuid));
        self.superblocks.retain(|own| Some(own.uuid) == uuid);
        self.superblocks.sort_by_key(|own| std::cmp::Reverse(own.generation));
        self.superblocks.dedup_by_key(|own| own.generation);
        let aligned = |(place, head): &Part| {
            let begin = place.checked_sub(head.at);
            begin.is_some_and(|begin| begin.is_multiple_of(SEGMENT_LEN_MIN))
        };
        self.parts.retain(|part| Some(part.1.uuid) == uuid && aligned(part));
        self.parts.sort_by_key(|(place, _)| *place);
        self.parts = outermost(device, &self.parts);
    }

    /// The volume's name.
    pub fn uuid(&self) -> Option<[u8; 16]> {
        let head = self.parts.first().map(|(_, head)| head.uuid);
        head.or_else(|| self.superblocks.first().map(|own| own.uuid))
    }

    /// That no newer reader is needed.
    ///
    /// # Errors
    /// What the newest superblock needs, as opening says it. Where no other is left it counts whatever volume it is of.
    pub fn known(&self) -> Result<()> {
        let newest = self.superblocks.first();
        let counts = |own: &Superblock| {
            newest.is_none_or(|known| own.uuid == known.uuid && own.generation > known.generation)
        };
        self.newer.iter().find(|(own, _)| counts(own)).map_or(Ok(()), |(_, error)| Err(*error))
    }

    /// What the volume is like: as its newest superblock says, or as its parts lie.
    pub fn shape(&self, geometry: &Geometry) -> Superblock {
        if let Some(own) = self.superblocks.first() {
            return *own;
        }
        let begins = || self.parts.iter().map(|(place, head)| place - head.at);
        let bits = begins().fold(SEGMENT_LEN_MAX, |bits, begin| bits | begin);
        let mut segment_len = (1 << bits.trailing_zeros()).clamp(SEGMENT_LEN_MIN, SEGMENT_LEN_MAX);
        let twice = self.parts.iter().any(|(_, head)| head.kind == PARITY);
        let like = Superblock {
            copies: 1 + u32::from(twice),
            ..Superblock::new(self.uuid().unwrap_or_default())
        };
        // Where few parts are left, they may all lie at multiples of more. None lies where superblocks do.
        let first = begins().min().unwrap_or(0);
        while segment_len > SEGMENT_LEN_MIN && u64::from(like.homes()) * segment_len > first {
            segment_len /= 2;
        }
        let zones = geometry.zones.filter(|zones| zones.len > 0);
        let (segment_len, segment_room) =
            zones.map_or((segment_len, segment_len), |zones| (zones.len, zones.capacity));
        Superblock {
            size: geometry.size.next_multiple_of(segment_len),
            segment_len,
            segment_room,
            unit: UNIT_MIN,
            block_len: BLOCK_LEN_MAX,
            ..like
        }
    }

    /// Where segments begin, as most of their parts say that are as they were written; or most of their heads, if none
    /// is. The newest superblock knows it of two.
    pub fn places(&self, device: &impl Device) -> Places {
        let mut begins: HashMap<u64, BTreeMap<u64, Vec<&Part>>> = HashMap::new();
        for part in &self.parts {
            let (place, head) = part;
            let own = begins.entry(head.segment).or_default();
            own.entry(place - head.at).or_default().push(part);
        }
        let mut left = device.geometry().size;
        let mut places = Places::default();
        for (segment, begins) in begins {
            let votes = |parts: &[&Part], left: &mut u64| {
                let whole = parts.iter().filter(|part| holds(device, part, left) == Some(true));
                (whole.count(), parts.len())
            };
            let one = begins.len() == 1;
            let most = begins.iter().max_by_key(|(_, parts)| match one {
                true => (0, 0),
                false => votes(parts, &mut left),
            });
            places.begins.extend(most.map(|(&begin, _)| (segment, begin)));
        }
        if let Some(own) = self.superblocks.first() {
            let begin = |physical: u32| u64::from(physical) * own.segment_len;
            places.tell(own.log_segment, begin(own.log_physical));
            if own.root_stored > 0 {
                places.tell(own.root_segment, begin(own.root_physical));
            }
        }
        places
    }
}

/// Parts that lie in no other, of those that lie in the order of their places. But one of which only the head is left,
/// in a gap between parts that were written over it since, is none: what seems to lie in it is.
fn outermost(device: &impl Device, parts: &[Part]) -> Vec<Part> {
    let (mut outermost, mut end) = (Vec::new(), 0);
    // What is read to find that out: much less, unless somebody made up the heads.
    let mut left = device.geometry().size;
    for (number, part) in parts.iter().enumerate() {
        let (place, head) = part;
        if *place < end {
            continue;
        }
        let own_end = place.saturating_add(head.len);
        let mut inside = parts[number + 1..].iter().take_while(|(place, _)| *place < own_end);
        let others = inside
            .any(|other| is_later(other, part) && holds(device, other, &mut left) == Some(true));
        if others && holds(device, part, &mut left) == Some(false) {
            continue;
        }
        outermost.push(*part);
        end = own_end;
    }
    outermost
}

/// Whether a part was written to the same stretch later than another one.
fn is_later((place, head): &Part, (other_place, other): &Part) -> bool {
    let newer = (head.segment, head.sequence) > (other.segment, other.sequence);
    newer && place.wrapping_sub(head.at) == other_place.wrapping_sub(other.at)
}

/// Whether a part is as it was written; nothing where no more is to be read, or it says that it is longer than any is.
pub(super) fn holds(device: &impl Device, (place, head): &Part, left: &mut u64) -> Option<bool> {
    let len = usize::try_from(head.len).ok().filter(|&len| len <= PART_MAX)?;
    *left = left.checked_sub(head.len)?;
    let mut bytes = vec![0; len];
    Some(device.read(*place, &mut bytes).is_ok() && head.holds(&bytes))
}
