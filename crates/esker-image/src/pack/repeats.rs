//! Stretches that were there before, found wherever they begin and end.
//!
//! Above: `data`. Below: `category`, `look`, `gear`, `spool`. Each anchor in new bytes is remembered with its address.
//! Where one comes again, bytes are compared in both directions, and what is the same is taken from there if it is long
//! enough; of sound only what lies between two of its moments, so that what is left can be predicted.
//! Within the bytes at hand nothing is looked for: they go into one block, where a codec finds it.
//! Invariant: nothing is taken to be the same that was not compared byte by byte.

use super::category::Category;
use super::gear::Anchors;
use super::look::{BITS, Looked};
use super::spool::Spool;

/// Most anchors that are remembered.
const ANCHORS_MAX: usize = 7 << 19;
/// Anchors that are looked up of the shortest stretch where it shall be quick.
const QUICK: usize = 4;
/// Anchors that are looked up together, so that none has to wait for the memory of another.
const AT_ONCE: usize = 32;

/// Shorter stretches of sound are not worth it: what is predicted takes less, and its block is read from its beginning.
const SOUND_LEAST: usize = 8 << 10;

/// Where stretches may begin and end, so that what is between them stays what it is said to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grain {
    /// At multiples of so many bytes.
    word: usize,
    /// The first of the bytes at hand is so far behind one of these.
    phase: usize,
    /// Shorter ones are not worth it.
    least: usize,
}

impl Grain {
    /// Anywhere.
    const FINE: Self = Self { word: 1, phase: 0, least: 0 };

    /// In bytes that are said to be something, and lie at `from` in what is.
    pub fn of(said: Option<Category>, from: u64) -> Self {
        let Some(sound @ Category::Sound(_)) = said else { return Self::FINE };
        let word = sound.alignment();
        Self { word, phase: (from % word as u64) as usize, least: SOUND_LEAST }
    }

    /// The same, where shorter ones than this are not worth it either.
    fn at_least(self, least: usize) -> Self {
        Self { least: self.least.max(least), ..self }
    }

    /// The first place from `at` on.
    const fn up(self, at: usize) -> usize {
        (at + self.phase).next_multiple_of(self.word) - self.phase
    }

    /// The last one up to `at`; 0 where there is none.
    const fn down(self, at: usize) -> usize {
        ((at + self.phase) / self.word * self.word).saturating_sub(self.phase)
    }
}

/// A part of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stretch {
    /// So many bytes that were not there before; they are in the spool now, at its end.
    New(usize),
    /// So many that are at this address.
    Known(u64, usize),
}

/// What is remembered of all bytes so far.
pub(super) struct Repeats {
    anchors: Anchors<u64>,
    /// Shorter stretches are not worth a piece of their own.
    least: usize,
}

/// Bytes that are looked through.
struct Search<'a> {
    bytes: &'a [u8],
    grain: Grain,
    /// Up to here it is known what they are.
    done: usize,
    /// Anchors behind that: hash, and where the bytes that it covers end.
    pending: Vec<(u64, usize)>,
    /// Anchors that were looked up, and the addresses that they are known from.
    next: Vec<(u64, usize, Option<u64>)>,
    /// Where comparing was in vain: the distance, and how far that is known.
    vain: (u64, usize),
    found: Vec<Stretch>,
}

impl Repeats {
    /// That finds stretches of `least` bytes and more; all anchors in them are looked up, or, to be quick, about four.
    pub fn new(least: usize, quick: bool) -> Self {
        let fewer = if quick { (least >> BITS) / QUICK } else { 0 };
        let bits = BITS + fewer.checked_ilog2().unwrap_or(0);
        Self { anchors: Anchors::new(bits, ANCHORS_MAX), least }
    }

    /// Bytes of memory that its table takes when it is full.
    pub const MEMORY_FULL: u64 = Anchors::<u64>::memory_of(ANCHORS_MAX);

    /// Bytes of memory that it takes, in about.
    pub fn memory(&self) -> u64 {
        self.anchors.memory()
    }

    /// How many anchors some bytes have, and how many of these were there before.
    pub fn known(&self, looked: Looked<'_>) -> (usize, usize) {
        let own = looked.behind(0).filter(|(hash, _)| self.anchors.is_one(*hash));
        own.fold((0, 0), |(all, known), (hash, _)| {
            (all + 1, known + usize::from(self.anchors.get(hash).is_some()))
        })
    }

    /// Remembers bytes that were put into the spool at this address as they are.
    pub fn note(&mut self, looked: Looked<'_>, address: u64) {
        for (hash, end) in looked.behind(0) {
            self.anchors.insert(hash, address + end as u64);
        }
    }

    /// Takes bytes apart, and puts what is new into the spool. They may go on where the stretch before ended, which
    /// is at the address `behind`.
    pub fn take(
        &mut self,
        looked: Looked<'_>,
        grain: Grain,
        behind: Option<u64>,
        spool: &mut Spool,
    ) -> super::Result<Vec<Stretch>> {
        let (bytes, grain) = (looked.bytes, grain.at_least(self.least));
        let (pending, next) = (Vec::new(), Vec::with_capacity(AT_ONCE));
        let (done, vain, found) = (0, (0, 0), Vec::new());
        let mut search = Search { bytes, grain, done, pending, next, vain, found };
        if let Some(behind) = behind.filter(|_| grain.phase == 0) {
            let same = grain.down(spool.same_after(behind, bytes)?);
            if same >= grain.least.min(bytes.len()) {
                search.found.push(Stretch::Known(behind, same));
                search.done = same;
            }
        }
        let mut anchors = looked.behind(search.done);
        while self.look_up(&mut search, &mut anchors) {
            for number in 0..search.next.len() {
                let (hash, end, address) = search.next[number];
                if let Some(address) = address
                    && self.compare(&mut search, end, address, spool)?
                {
                    anchors = looked.behind(search.done);
                    break;
                }
                search.pending.push((hash, end));
            }
        }
        self.is_new(&mut search, bytes.len(), spool)?;
        Ok(search.found)
    }

    /// Looks the next anchors up, if there are any.
    fn look_up(
        &self,
        search: &mut Search<'_>,
        anchors: &mut impl Iterator<Item = (u64, usize)>,
    ) -> bool {
        let own = anchors.filter(|(hash, _)| self.anchors.is_one(*hash));
        search.next.clear();
        search.next.extend(own.take(AT_ONCE).map(|(hash, end)| (hash, end, None)));
        for (hash, _, address) in &mut search.next {
            *address = self.anchors.get(*hash).copied();
        }
        !search.next.is_empty()
    }

    /// Bytes up to `at` are as those before `address`, if the hash says right: whether the stretch that is the same is
    /// long enough, so that it is taken.
    fn compare(
        &mut self,
        search: &mut Search<'_>,
        at: usize,
        address: u64,
        spool: &mut Spool,
    ) -> super::Result<bool> {
        let distance = address.wrapping_sub(at as u64);
        if search.vain.0 == distance && at <= search.vain.1 {
            return Ok(false);
        }
        let before = spool.same_before(address, &search.bytes[search.done..at])?;
        let after = spool.same_after(address, &search.bytes[at..])?;
        let (start, end) = (search.grain.up(at - before), search.grain.down(at + after));
        if end.saturating_sub(start) < search.grain.least {
            search.vain = (distance, at + after);
            return Ok(false);
        }
        self.is_new(search, start, spool)?;
        search.found.push(Stretch::Known(distance.wrapping_add(start as u64), end - start));
        search.pending.clear();
        search.done = end;
        Ok(true)
    }

    /// Bytes up to `end` were not there before.
    fn is_new(
        &mut self,
        search: &mut Search<'_>,
        end: usize,
        spool: &mut Spool,
    ) -> super::Result<()> {
        if end == search.done {
            return Ok(());
        }
        let address = spool.len();
        spool.append(&search.bytes[search.done..end])?;
        for &(hash, at) in
            search.pending.iter().filter(|(_, at)| (search.done + 1..=end).contains(at))
        {
            self.anchors.insert(hash, address + (at - search.done) as u64);
        }
        search.found.push(Stretch::New(end - search.done));
        search.done = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::look::Looker;
    use esker_stone::Shape;

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..len).map(next).collect()
    }

    fn take(
        repeats: &mut Repeats,
        bytes: &[u8],
        behind: Option<u64>,
        spool: &mut Spool,
    ) -> crate::pack::Result<Vec<Stretch>> {
        let anchors = Looker::new(true).anchors(bytes);
        repeats.take(Looked::new(bytes, &anchors), Grain::FINE, behind, spool)
    }

    /// What the stretches say the bytes are.
    fn read(found: &[Stretch], mut end: u64, spool: &Spool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for stretch in found {
            let (at, len) = match *stretch {
                Stretch::New(len) => (end, len),
                Stretch::Known(at, len) => (at, len),
            };
            let mut part = vec![0; len];
            spool.read(at, &mut part).unwrap();
            bytes.extend(part);
            if let Stretch::New(len) = *stretch {
                end += len as u64;
            }
        }
        bytes
    }

    #[test]
    fn a_stretch_is_found_from_its_first_byte_to_its_last() {
        let mut spool = Spool::new(Box::new(Vec::new()));
        let mut repeats = Repeats::new(1024, false);
        let first = noise(1, 200_000);
        assert_eq!(take(&mut repeats, &first, None, &mut spool).unwrap(), [Stretch::New(200_000)]);
        let other = noise(2, 5000);
        let second = [&other[..2500], &first[70_001..90_003], &other[2500..]].concat();
        let found = take(&mut repeats, &second, None, &mut spool).unwrap();
        let right = [Stretch::New(2500), Stretch::Known(70_001, 20_002), Stretch::New(2500)];
        assert_eq!(found, right);
        assert_eq!(read(&found, 200_000, &spool), second);
        assert_eq!(spool.len(), 205_000);
        // A short one stays where it is, unless it goes on where the one before ended.
        let short = &first[1000..1900];
        let found = take(&mut repeats, short, None, &mut spool).unwrap();
        assert_eq!(found, [Stretch::New(900)]);
        let found = take(&mut repeats, short, Some(1000), &mut spool).unwrap();
        assert_eq!(found, [Stretch::Known(1000, 900)]);
    }

    #[test]
    fn what_came_last_is_found_first() {
        let mut spool = Spool::new(Box::new(Vec::new()));
        let mut repeats = Repeats::new(1024, false);
        let part = noise(3, 10_000);
        let bytes = [&part[..], b"between", &part[..5000]].concat();
        for (end, piece) in [&part[..], &bytes].into_iter().enumerate() {
            let end = if end == 0 { 0 } else { 10_000 };
            let found = take(&mut repeats, piece, None, &mut spool).unwrap();
            assert_eq!(read(&found, end, &spool), piece);
        }
        assert_eq!(spool.len(), 10_007);
    }

    #[test]
    fn stretches_of_sound_begin_and_end_between_its_moments() {
        let (mut spool, shape) = (Spool::new(Box::new(Vec::new())), Shape::new(2, 3, false));
        let mut repeats = Repeats::new(1024, false);
        let first = noise(4, 90_000);
        take(&mut repeats, &first, None, &mut spool).unwrap();
        // The bytes at hand begin in a moment of six, 7 bytes are others, and the last ones too.
        let bytes = [&noise(5, 7)[..], &first[20_000..60_000], &noise(6, 50)[..]].concat();
        let said = shape.map(Category::Sound);
        for (from, start) in [(0, 12), (4, 8), (601, 11)] {
            let anchors = Looker::new(true).anchors(&bytes);
            let (looked, grain) = (Looked::new(&bytes, &anchors), Grain::of(said, from));
            let end = spool.len();
            let found = repeats.take(looked, grain, None, &mut spool).unwrap();
            let [Stretch::New(new), Stretch::Known(_, known), Stretch::New(_)] = found[..] else {
                panic!("{found:?}");
            };
            assert_eq!((new, (new + known + from as usize) % 6), (start, 0));
            assert!(known > 39_980, "{known}");
            assert_eq!(read(&found, end, &spool), bytes);
        }
        // What is short is predicted.
        let short = &first[1000..8000];
        let anchors = Looker::new(true).anchors(short);
        let (looked, grain) = (Looked::new(short, &anchors), Grain::of(said, 0));
        let found = repeats.take(looked, grain, None, &mut spool).unwrap();
        assert_eq!(found, [Stretch::New(7000)]);
    }
}
