//! Bases: the newest root that is left, and the rows of its tables, with the ranges of keys that are lost.
//!
//! Above: `recover`. Below: roots, pages, leaves. Invariant: a range of keys that is not lost has every row that it had
//! as of the root's commit.

use std::collections::{BTreeMap, HashSet};

use esker_stone::key::kind;
use esker_stone::limits::LEVELS_MAX;
use esker_stone::rows::numbers;
use esker_stone::rows::pages::Inner;
use esker_stone::rows::tables::TableRow;
use esker_stone::{PageRef, groups};

use super::Places;
use super::mend::Mended;
use super::scan::{Part, Scan};
use crate::device::Device;
use crate::leaf::Leaf;
use crate::limits::{SEGMENT_LEN_MAX, SEGMENT_LEN_MIN};
use crate::merge::{Range, Row, rows};
use crate::part::{PartHead, TABLES};
use crate::root;
use crate::segments::Segment;
use crate::stack::State;

/// The newest root that is left.
#[derive(Default)]
pub(super) struct Base {
    /// Whether there is one.
    pub is_root: bool,
    /// The last commit that it holds whole.
    pub sequence: u64,
    /// The name of the last part of the log that it holds.
    pub before: u64,
    /// When it was written, if its head says so.
    pub time: Option<i64>,
    pub state: State,
    /// What it says of stretches.
    pub segments: Vec<Segment>,
    /// No segment that it knows has this number or one above it.
    pub next_segment: u64,
    /// The newest one that a superblock names could not be read.
    pub is_passed: bool,
}

/// A page that may be a root.
struct Candidate {
    place: u64,
    page: PageRef,
    sequence: u64,
    before: u64,
    /// Whether a superblock names it.
    told: bool,
}

/// The plain bytes of a page that lies here.
pub(super) fn page_at(
    device: &impl Device,
    place: u64,
    page: &PageRef,
    base: &[u8],
) -> Option<Vec<u8>> {
    let page = page.checked().ok()?;
    let mut stored = vec![0; page.stored as usize];
    device.read(place, &mut stored).ok()?;
    page.verify(&stored).ok()?;
    page.open(&stored, base).ok()
}

/// What a page says of stretches.
fn segments(plain: &[u8]) -> Option<Vec<Segment>> {
    let mut all = Vec::new();
    for (kind, bytes) in groups(plain).ok()? {
        if kind == kind::SEGMENT {
            all.extend(numbers::decode::<5, Segment>(bytes).ok()?);
        }
    }
    Some(all)
}

/// When the part that has this page in front was written.
fn time(scan: &Scan, place: u64) -> Option<i64> {
    let at = place.checked_sub(PartHead::SIZE as u64)?;
    let found = scan.parts.binary_search_by_key(&at, |(place, _)| *place).ok()?;
    scan.parts.get(found).map(|(_, head)| head.time)
}

/// All parts of tables, those that were made again included.
pub(super) fn tables<D: Device>(device: &Mended<D>, scan: &Scan) -> Vec<Part> {
    let again: HashSet<u64> = device.heads().map(|(place, _)| place).collect();
    let own =
        scan.parts.iter().filter(|(place, head)| head.kind == TABLES && !again.contains(place));
    own.copied().chain(device.heads()).collect()
}

fn candidates<D: Device>(device: &Mended<D>, scan: &Scan) -> Vec<Candidate> {
    let mut all = Vec::new();
    // A root whose number is not told to be safe is of a superblock that never was: of going back to a snapshot, say.
    let told = scan.superblocks.iter().map(|own| own.proven);
    let heads = scan.parts.iter().map(|(_, head)| head.durable);
    let again = device.heads().map(|(_, head)| head.durable);
    let proven = told.chain(heads).chain(again).max().unwrap_or(0);
    for own in &scan.superblocks {
        let Ok(Some(page)) = own.root() else { continue };
        let place = u64::from(own.root_physical) * own.segment_len + page.at;
        let (sequence, before) = (own.sequence, own.log_before);
        all.push(Candidate { place, page, sequence, before, told: true });
    }
    for (place, head) in tables(device, scan) {
        if let Ok(page) = head.rows()
            && page.stored > 0
            && head.sequence <= proven
        {
            let place = place + u64::from(head.rows_at);
            let (sequence, before) = (head.sequence, head.before);
            all.push(Candidate { place, page, sequence, before, told: false });
        }
    }
    // Of those of one commit the one that was written last is as good as any.
    all.sort_by_key(|own| std::cmp::Reverse(own.newness()));
    all
}

impl Candidate {
    const fn newness(&self) -> (u64, u64, u64) {
        (self.sequence, self.page.segment, self.page.at)
    }

    /// What it says, if it is a root that can be read.
    fn read(&self, device: &impl Device) -> Option<(State, Vec<Segment>, u64)> {
        let plain = page_at(device, self.place, &self.page, &[])?;
        let rows = segments(&plain).filter(|rows| !rows.is_empty())?;
        let (state, known) = root::decode(&plain, u32::try_from(rows.len()).ok()?).ok()?;
        Some((state, rows, known.next_number()))
    }
}

impl Base {
    /// Bytes from stretch to stretch, as most segments say that lie where it knows.
    pub fn segment_len(&self, places: &Places) -> Option<u64> {
        let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
        for row in self.segments.iter().filter(|row| row.number > 0) {
            let (begin, physical) = (places.get(row.number), u64::from(row.physical.0));
            let len = begin.and_then(|begin| begin.checked_div(physical));
            let right = len.filter(|len| {
                let fits = (SEGMENT_LEN_MIN..=SEGMENT_LEN_MAX).contains(len);
                fits && len.is_power_of_two() && begin == Some(len * physical)
            });
            right.into_iter().for_each(|len| *votes.entry(len).or_default() += 1);
        }
        votes.into_iter().max_by_key(|&(_, count)| count).map(|(len, _)| len)
    }

    /// Says where the segments lie that it knows.
    pub fn tell(&self, places: &mut Places, segment_len: u64) {
        for row in self.segments.iter().filter(|row| row.number > 0) {
            places.tell(row.number, u64::from(row.physical.0) * segment_len);
        }
    }

    /// Whether it says the same of what no log tells of.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let (own, other) = (&self.state, &other.state);
        own.rules == other.rules && own.base == other.base && own.snapshots == other.snapshots
    }
}

/// The newest roots that can be read, as of a time, the newest first: so many at most. Where there is none, one that
/// says nothing.
pub(super) fn newest<D: Device>(
    device: &Mended<D>,
    scan: &Scan,
    before: Option<i64>,
    most: usize,
) -> Vec<Base> {
    let (mut found, mut last, mut is_passed) = (Vec::new(), None, false);
    for own in candidates(device, scan) {
        let late = |time: i64| before.is_some_and(|before| time > before);
        let when = device.heads().find(|(place, _)| place + PartHead::SIZE as u64 == own.place);
        let when = when.map(|(_, head)| head.time).or_else(|| time(scan, own.place));
        // Most are named by a superblock and by the head before them.
        if (before.is_some() && when.is_none_or(late)) || last == Some(own.newness()) {
            continue;
        }
        let Some((state, segments, next_segment)) = own.read(device) else {
            is_passed |= own.told && found.is_empty();
            continue;
        };
        last = Some(own.newness());
        let (sequence, before, time) = (own.sequence, own.before, when);
        found.push(Base {
            is_root: true,
            sequence,
            before,
            time,
            state,
            segments,
            next_segment,
            is_passed,
        });
        if found.len() == most {
            break;
        }
    }
    if found.is_empty() {
        found.push(Base { is_passed, ..Base::default() });
    }
    found
}

/// Reads tables as far as they are there.
pub(super) struct Walk<'a, D> {
    pub device: &'a Mended<D>,
    pub places: &'a Places,
    pub rows: Vec<Row>,
    /// Ranges of keys that could not be read.
    pub lost: Vec<Range>,
    /// Pages that were read: each is once, however often it is named.
    seen: HashSet<(u64, u64)>,
}

impl<'a, D: Device> Walk<'a, D> {
    /// Of nothing yet.
    pub fn new(device: &'a Mended<D>, places: &'a Places) -> Self {
        Self { device, places, rows: Vec::new(), lost: Vec::new(), seen: HashSet::new() }
    }

    fn page(&self, page: &PageRef, base: Option<&PageRef>) -> Option<Vec<u8>> {
        let base = match base {
            Some(base) => self.page(base, None)?,
            None => Vec::new(),
        };
        let place = self.places.get(page.segment)?.checked_add(page.at)?;
        page_at(self.device, place, page, &base)
    }

    /// All tables of a root.
    pub fn tables(&mut self, tables: &[TableRow]) {
        for (number, own) in tables.iter().enumerate() {
            let from = if number == 0 { Vec::new() } else { own.key.clone() };
            let to = tables.get(number + 1).map(|next| next.key.clone());
            self.tree((own.top.page, None), Some(own.top.height), &Range { from, to });
        }
    }

    /// A page, and all below it. Its level, if it is known, is what the page above says.
    pub fn tree(
        &mut self,
        (page, base): (PageRef, Option<PageRef>),
        level: Option<u8>,
        range: &Range,
    ) {
        let new = self.seen.insert((page.segment, page.at));
        let plain = if new { self.page(&page, base.as_ref()) } else { None };
        let read = plain.is_some_and(|plain| match plain.first() {
            Some(&kind::PAGE) => self.inner(&plain, level, range),
            _ if level.is_none_or(|level| level == 0) => self.leaf(&plain),
            _ => false,
        });
        if !read {
            self.lost.push(range.clone());
        }
    }

    fn leaf(&mut self, plain: &[u8]) -> bool {
        let mut own = Vec::new();
        let read = Leaf::decode(plain).and_then(|leaf| rows(&leaf, &mut own)).is_ok();
        if read {
            self.rows.append(&mut own);
        }
        read
    }

    fn inner(&mut self, plain: &[u8], level: Option<u8>, range: &Range) -> bool {
        let Ok(inner) = Inner::decode(plain) else { return false };
        let right = level.is_none_or(|level| level == inner.level + 1);
        if !right || inner.level >= LEVELS_MAX {
            return false;
        }
        for child in 0..inner.len() {
            let from = if child == 0 { range.from.clone() } else { inner.key(child).to_vec() };
            let last = child + 1 == inner.len();
            let to = if last { range.to.clone() } else { Some(inner.key(child + 1).to_vec()) };
            let Some(page) = inner.page(child) else { return false };
            self.tree(page, Some(inner.level), &Range { from, to });
        }
        true
    }
}
