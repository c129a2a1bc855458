//! Ground: which life of each stretch counts, and where nothing lies that the volume as it is may still be told from.
//!
//! Above: `repair`. Below: heads, the root's rows of stretches. Invariant: a stretch is free only if nothing that was
//! found lies there, or the root said that it was free and nothing of a later commit lies there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Places;
use super::base::{Base, page_at};
use super::scan::{Part, Scan};
use crate::device::{Device, Geometry};
use crate::error::{Damage, Result};
use crate::mkfs::behind;
use crate::part::MOVED;
use crate::segments::{Condition, Physical, Segment, Segments};
use crate::superblock::Superblock;

/// The stretches of a volume.
pub(super) struct Ground {
    shape: Superblock,
    /// The newest life of each.
    lives: BTreeMap<u32, u64>,
    /// Those in which anything was found.
    touched: BTreeSet<u32>,
    /// Segments of blocks that were moved.
    moved: BTreeSet<u64>,
    /// Where the root says that nothing lies, and nothing came since.
    fallow: BTreeSet<u32>,
    /// What failed.
    bad: BTreeSet<u32>,
    erases: BTreeMap<u32, u64>,
    next: u64,
}

/// What the volume is like, as it is to be written, from what is left of it; whether its superblock says so.
pub(super) fn shape(
    geometry: &Geometry,
    scan: &Scan,
    mut shape: Superblock,
) -> Result<(Superblock, bool)> {
    if !scan.superblocks.is_empty() {
        let is_whole = geometry.size >= shape.size;
        return if is_whole { Ok((shape, true)) } else { Err(Damage::Shortened.into()) };
    }
    shape.unit = geometry.unit;
    shape.size = geometry.size / shape.segment_len * shape.segment_len;
    let newest = scan.parts.iter().max_by_key(|(_, head)| head.sequence);
    shape.codec = newest.map_or(0, |(_, head)| head.rows_codec);
    // What was put together is checked as it will be when it is opened.
    Superblock::parse(&shape.sealed())?;
    Ok((shape, false))
}

/// Which segments lie where they seem to.
struct Lives<'a, D> {
    device: &'a D,
    places: &'a Places,
    parts: HashMap<u64, Vec<&'a Part>>,
}

impl<'a, D: Device> Lives<'a, D> {
    fn of(device: &'a D, scan: &'a Scan, places: &'a Places) -> Self {
        let mut parts: HashMap<u64, Vec<&Part>> = HashMap::new();
        for part in &scan.parts {
            parts.entry(part.1.segment).or_default().push(part);
        }
        Self { device, places, parts }
    }

    /// Whether more than a head says so, which may have gone astray: a root, or what one of its parts has behind it.
    fn is_sure(&self, number: u64) -> bool {
        let begin = self.places.get(number);
        let is_there = |(place, head): &&&Part| place.checked_sub(head.at) == begin;
        let has_rows = |(place, head): &&Part| {
            let (at, page) = (place.checked_add(head.rows_at.into()), head.rows().ok());
            let page = page.filter(|page| page.stored > 0);
            at.zip(page).is_some_and(|(at, page)| page_at(self.device, at, &page, &[]).is_some())
        };
        let mut parts = self.parts.get(&number).into_iter().flatten().filter(is_there);
        self.places.told.contains(&number) || parts.any(has_rows)
    }

    /// The newest of these, which all seem to lie in one stretch.
    fn newest(&self, numbers: &BTreeSet<u64>) -> Option<u64> {
        let sure = numbers.iter().rev().find(|&&number| numbers.len() == 1 || self.is_sure(number));
        sure.or(numbers.last()).copied()
    }
}

impl Ground {
    /// Finds it; from now on only segments that are the newest of their stretch have a place.
    pub fn of(
        shape: Superblock,
        device: &impl Device,
        (scan, base, has_older): (&Scan, &Base, bool),
        places: &mut Places,
    ) -> Self {
        let homes = u64::from(shape.homes());
        let physical = |begin: u64| {
            let own = begin / shape.segment_len;
            let inside = (homes..u64::from(shape.segments())).contains(&own);
            (inside && begin.is_multiple_of(shape.segment_len)).then_some(own as u32)
        };
        let mut known: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for (&number, &begin) in &places.begins {
            if let Some(own) = physical(begin) {
                known.entry(own).or_default().insert(number);
            }
        }
        let heads = scan.parts.iter().filter_map(|(place, head)| physical(place - head.at));
        let touched: BTreeSet<u32> = heads.chain(known.keys().copied()).collect();
        let lives = Lives::of(device, scan, places);
        let lives = known.iter().filter_map(|(&own, all)| Some((own, lives.newest(all)?)));
        let lives: BTreeMap<u32, u64> = lives.collect();
        places.begins.retain(|number, begin| {
            physical(*begin).is_some_and(|own| lives.get(&own) == Some(number))
        });
        // What came since the root, or since it was begun.
        let is_late =
            |sequence: u64, segment: u64| sequence >= base.sequence || segment >= base.next_segment;
        let late = scan.parts.iter().filter(|(_, head)| is_late(head.sequence, head.segment));
        let late = late.filter_map(|(place, head)| physical(place - head.at));
        let begun = places.begins.iter().filter(|(number, _)| is_late(0, **number));
        let begun = begun.filter_map(|(_, &begin)| physical(begin));
        let late: BTreeSet<u32> = late.chain(begun).collect();
        let of = |wanted: Condition| {
            let rows = base.segments.iter().filter(move |row| row.condition == wanted);
            rows.map(|row| row.physical.0).filter(|&own| u64::from(own) >= homes)
        };
        // Where rows from before the root were needed, any part may have had some.
        let is_needed = |own: &u32| late.contains(own) || (has_older && touched.contains(own));
        let fallow = of(Condition::Free).filter(|own| !is_needed(own)).collect();
        let bad = of(Condition::Bad).collect();
        let erases = base.segments.iter().map(|row| (row.physical.0, row.erases)).collect();
        let told = scan.superblocks.iter().map(|own| own.log_segment.max(own.root_segment));
        let heads = scan.parts.iter().map(|(_, head)| head.segment);
        let newest = told.chain(heads).chain([base.next_segment]).max().unwrap_or(0);
        let next = behind(newest).max(newest + 1);
        let moved = scan.parts.iter().filter(|(_, head)| head.kind == MOVED);
        let moved = moved.map(|(_, head)| head.segment).collect();
        Self { shape, lives, touched, moved, fallow, bad, erases, next }
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
        let is_bare = |own: u32| !self.touched.contains(&own) && !self.bad.contains(&own);
        let bare = (self.shape.homes()..count).filter(|&own| is_bare(own)).count() as u64;
        let mut next = self.next;
        let mut row = |own: u32| {
            let number = self.lives.get(&own).copied().unwrap_or(0);
            let needed = live.get(&number).copied().unwrap_or(0);
            let (number, live, condition) = if own < self.shape.homes() {
                (0, 0, Condition::Home)
            } else if needed > 0 && number > 0 {
                // One that failed too, if it was tried again since.
                let condition = match number {
                    _ if tables.contains(&number) => Condition::Tables,
                    _ if self.moved.contains(&number) => Condition::Moved,
                    _ => Condition::Log,
                };
                (number, needed, condition)
            } else if self.bad.contains(&own) {
                (0, 0, Condition::Bad)
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
