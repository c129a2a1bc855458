//! Ground: which life of each stretch counts, and where nothing lies that the volume as it is may still be told from.
//!
//! Above: `repair`. Below: heads, the root's rows of stretches. Invariant: a stretch is free only if nothing that was
//! found lies there, or the root said that it was free and nothing of a later commit lies there.

use std::collections::{BTreeMap, BTreeSet};

use super::Places;
use super::base::Base;
use super::scan::Scan;
use crate::device::Device;
use crate::error::{Damage, Result};
use crate::limits::SEGMENT_LEN_MIN;
use crate::mkfs::behind;
use crate::part::{MOVED, PARITY};
use crate::segments::{Condition, Physical, Segment, Segments};
use crate::superblock::Superblock;

/// The stretches of a volume.
pub(super) struct Ground {
    shape: Superblock,
    /// The newest life of each.
    lives: BTreeMap<u32, u64>,
    /// Segments of blocks that were moved.
    moved: BTreeSet<u64>,
    /// Where the root says that nothing lies, and nothing came since.
    fallow: BTreeSet<u32>,
    /// What failed.
    bad: BTreeSet<u32>,
    erases: BTreeMap<u32, u64>,
    next: u64,
}

/// What the volume is like, as it is to be written; whether its superblock says so.
pub(super) fn shape(device: &impl Device, scan: &Scan) -> Result<(Superblock, bool)> {
    let geometry = device.geometry();
    let mut shape = scan.shape(geometry.size);
    if let Some(known) = scan.superblocks.first() {
        return if geometry.size < known.size {
            Err(Damage::Shortened.into())
        } else {
            Ok((shape, true))
        };
    }
    if let Some(zones) = geometry.zones {
        (shape.segment_len, shape.segment_room) = (zones.len, zones.capacity);
    }
    shape.unit = geometry.unit;
    let twice = scan.parts.iter().any(|(_, head)| head.kind == PARITY);
    shape.copies = if twice { 2 } else { 1 };
    // Where few parts are left, they may all lie at multiples of more. None lies where superblocks do.
    let first = scan.parts.iter().map(|(place, head)| place - head.at).min().unwrap_or(0);
    while shape.segment_len > SEGMENT_LEN_MIN
        && u64::from(shape.homes()) * shape.segment_len > first
        && geometry.zones.is_none()
    {
        shape.segment_len /= 2;
        shape.segment_room = shape.segment_len;
    }
    shape.size = geometry.size / shape.segment_len * shape.segment_len;
    let newest = scan.parts.iter().max_by_key(|(_, head)| head.sequence);
    shape.codec = newest.map_or(0, |(_, head)| head.rows_codec);
    // What was put together is checked as it will be when it is opened.
    Superblock::parse(&shape.sealed())?;
    Ok((shape, false))
}

impl Ground {
    /// Finds it; from now on only segments that are the newest of their stretch have a place.
    pub fn of(shape: Superblock, scan: &Scan, base: &Base, places: &mut Places) -> Self {
        let homes = u64::from(shape.homes());
        let physical = |begin: u64| {
            let own = begin / shape.segment_len;
            let inside = (homes..u64::from(shape.segments())).contains(&own);
            (inside && begin.is_multiple_of(shape.segment_len)).then_some(own as u32)
        };
        let mut lives: BTreeMap<u32, u64> = BTreeMap::new();
        let heads = scan.parts.iter().map(|(place, head)| (head.segment, place - head.at));
        let named = places.0.iter().map(|(&number, &begin)| (number, begin));
        for (number, begin) in heads.chain(named) {
            if let Some(own) = physical(begin) {
                let life = lives.entry(own).or_default();
                *life = number.max(*life);
            }
        }
        places.0.retain(|number, begin| {
            physical(*begin).is_some_and(|own| lives.get(&own) == Some(number))
        });
        let late = scan.parts.iter().filter(|(_, head)| head.sequence >= base.sequence);
        let late = late.filter_map(|(place, head)| physical(place - head.at));
        let late: BTreeSet<u32> = late.collect();
        let of = |wanted: Condition| {
            let rows = base.segments.iter().filter(move |row| row.condition == wanted);
            rows.map(|row| row.physical.0).filter(|&own| u64::from(own) >= homes)
        };
        let fallow = of(Condition::Free).filter(|own| !late.contains(own)).collect();
        let bad = of(Condition::Bad).collect();
        let erases = base.segments.iter().map(|row| (row.physical.0, row.erases)).collect();
        let told = scan.superblocks.iter().map(|own| own.log_segment.max(own.root_segment));
        let heads = scan.parts.iter().map(|(_, head)| head.segment);
        let newest = told.chain(heads).chain([base.next_segment]).max().unwrap_or(0);
        let next = behind(newest).max(newest + 1);
        let moved = scan.parts.iter().filter(|(_, head)| head.kind == MOVED);
        let moved = moved.map(|(_, head)| head.segment).collect();
        Self { shape, lives, moved, fallow, bad, erases, next }
    }

    /// All stretches: those with bytes that are needed, and those of tables among them; and so many at least that are
    /// free, if there are.
    pub fn segments(
        &self,
        live: &BTreeMap<u64, u64>,
        tables: &BTreeSet<u64>,
        wanted: u64,
    ) -> Result<Segments> {
        let count = self.shape.segments();
        let is_bare = |own: u32| !self.lives.contains_key(&own) && !self.bad.contains(&own);
        let bare = (self.shape.homes()..count).filter(|&own| is_bare(own)).count() as u64;
        let mut next = self.next;
        let mut row = |own: u32| {
            let number = self.lives.get(&own).copied().unwrap_or(0);
            let needed = live.get(&number).copied().unwrap_or(0);
            let (number, live, condition) = if own < self.shape.homes() {
                (0, 0, Condition::Home)
            } else if self.bad.contains(&own) {
                (0, 0, Condition::Bad)
            } else if needed > 0 && number > 0 {
                let condition = match number {
                    _ if tables.contains(&number) => Condition::Tables,
                    _ if self.moved.contains(&number) => Condition::Moved,
                    _ => Condition::Log,
                };
                (number, needed, condition)
            } else if is_bare(own) || (bare < wanted && self.fallow.contains(&own)) {
                (0, 0, Condition::Free)
            } else {
                // Free as soon as nothing of the old state counts.
                next += 1;
                (next - 1, 0, Condition::Log)
            };
            let erases = self.erases.get(&own).copied().unwrap_or(0);
            Segment { physical: Physical(own), number, live, condition, erases }
        };
        let rows = (0..count).map(&mut row).collect();
        Segments::from_rows(rows, count, next)
    }
}
