//! Places of a text that begin alike: from each the way to the one before it, for beginnings of several lengths.
//!
//! Above: `guess`, which looks for matches. Invariant: places that share a beginning are on one way, so whoever follows
//! it misses none that is near enough; others are on it too where hashes meet, so bytes are compared.

/// Lengths of the beginnings by which places are linked, rising: the first is the encoder's, by the other long matches
/// are found soon.
const LENS: [usize; 2] = [3, 5];

/// How an encoder finds places that begin alike: by a hash of their first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    /// Of three bytes, 15 bits.
    Three,
    /// Of three bytes, 16 bits.
    Wide,
    /// Of four bytes, 16 bits.
    Four,
}

impl Hash {
    /// How many bytes it is of.
    pub const fn reach(self) -> usize {
        match self {
            Self::Three | Self::Wide => 3,
            Self::Four => 4,
        }
    }
}

/// Bits of the hash of a beginning.
const BITS: u32 = 15;
/// How far back a match may begin.
pub(super) const FAR_MAX: usize = 32 * 1024 - 258 - 3 - 1;
/// Before the first place there is none for so many bytes.
const NOTHING: usize = FAR_MAX + 1;

/// Where the way of a hash begins: the last place of it, and `NOTHING` more. Those of short texts take two bytes, so
/// that all of them lie near the processor.
trait Head: Copy + Default + Into<u32> {
    fn of(place: usize) -> Self;
}

impl Head for u16 {
    fn of(place: usize) -> Self {
        (place + NOTHING) as Self
    }
}

impl Head for u32 {
    fn of(place: usize) -> Self {
        (place + NOTHING) as Self
    }
}

/// What is known of all places of a text.
pub(super) struct Places {
    /// Lengths of the beginnings by which places are linked, rising.
    lens: [usize; LENS.len()],
    /// For each length and each place, how far back the next one is; 0: there is none, or none that is near enough.
    near: [Vec<u16>; LENS.len()],
    /// How many places before it are on the way of the shortest, modulo 2^16.
    rank: Vec<u16>,
}

impl Places {
    /// Of a text.
    pub fn of(text: &[u8], by: Hash) -> Self {
        let mut places = Self::none(text.len(), by);
        if text.len() + NOTHING <= usize::from(u16::MAX) {
            places.link_all::<u16>(text, by);
        } else {
            places.link_all::<u32>(text, by);
        }
        places
    }

    /// Nothing yet of a text of this length.
    fn none(len: usize, by: Hash) -> Self {
        let lens = [by.reach(), LENS[1]];
        Self { lens, near: std::array::from_fn(|_| vec![0; len]), rank: vec![0; len] }
    }

    fn link_all<H: Head>(&mut self, text: &[u8], by: Hash) {
        match by {
            Hash::Three => self.link_first::<H, 3>(text, 15, |bytes| rolled(bytes, 5)),
            Hash::Wide => self.link_first::<H, 3>(text, 16, |bytes| rolled(bytes, 6)),
            Hash::Four => self.link_first::<H, 4>(text, 16, multiplied),
        }
        link::<H>(text, LENS[1], &mut self.near[1]);
    }

    /// By so many first bytes, with the hash that an encoder has.
    fn link_first<H: Head, const LEN: usize>(
        &mut self,
        text: &[u8],
        bits: u32,
        hash: impl Fn([u8; LEN]) -> usize,
    ) {
        let mut heads = heads::<H>(bits);
        let windows = text.windows(LEN).filter_map(|bytes| bytes.first_chunk());
        for (at, (bytes, near)) in windows.zip(&mut self.near[0]).enumerate() {
            let head = &mut heads[hash(*bytes) & ((1 << bits) - 1)];
            *near = gap(at, *head);
            self.rank[at] = self.rank[at - usize::from(*near)].wrapping_add(1);
            *head = H::of(at);
        }
    }

    /// Lengths of the beginnings by which places are linked, rising.
    pub const fn lens(&self) -> [usize; LENS.len()] {
        self.lens
    }

    /// How far back the next place of this way is.
    pub fn before(&self, order: usize, at: usize) -> usize {
        self.near[order][at].into()
    }

    /// The first `len` bytes of a place are what others must share, and so is every beginning in them: at which offset
    /// the one lies whose way leads back the furthest, and how far. `None`: one of them leads nowhere.
    #[inline]
    pub fn rarest(&self, order: usize, at: usize, len: usize) -> Option<(usize, usize)> {
        let ways = &self.near[order][at..at + len + 1 - self.lens[order]];
        // What leads nowhere is most often the last one, and most often it is alone.
        let (&first, &last) = (ways.first()?, ways.last()?);
        if first == 0 || last == 0 {
            return None;
        }
        if ways.len() == 1 {
            return Some((0, last.into()));
        }
        // Numbers so small are as good with a sign, which processors like better.
        let all = |(least, most): (i16, i16), &near: &u16| {
            let near = near.cast_signed();
            (least.min(near), most.max(near))
        };
        let (least, most) = ways.iter().fold((i16::MAX, 0), all);
        let most = most.cast_unsigned();
        let offset = ways.iter().position(|&near| near == most)?;
        (least > 0).then_some((offset, most.into()))
    }

    /// How many places an encoder would have looked at, from one down to another that begins with the same bytes.
    pub fn tried(&self, at: usize, from: usize) -> u32 {
        self.rank[at].wrapping_sub(self.rank[from]).into()
    }
}

/// The hash of zlib, which takes in one byte after the other.
fn rolled(bytes: [u8; 3], shift: u32) -> usize {
    bytes.into_iter().fold(0, |hash, byte| hash << shift ^ usize::from(byte))
}

/// That of zlib-ng.
fn multiplied(bytes: [u8; 4]) -> usize {
    (u32::from_le_bytes(bytes).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

/// As many as there are hashes of so many bits.
fn heads<H: Head>(bits: u32) -> Vec<H> {
    vec![H::default(); 1 << bits]
}

/// How far back a head is, if that is not too far.
fn gap<H: Head>(at: usize, head: H) -> u16 {
    let far = (at + NOTHING).wrapping_sub(head.into() as usize);
    if far <= FAR_MAX { far as u16 } else { 0 }
}

/// By the first `len` bytes, four to eight.
fn link<H: Head>(text: &[u8], len: usize, near: &mut [u16]) {
    let mut heads = heads::<H>(BITS);
    let mut put = |at: usize, word: u64, near: &mut u16| {
        let hash = (word << (64 - 8 * len)).wrapping_mul(0x9e37_79b1_85eb_ca87) >> (64 - BITS);
        let head = &mut heads[hash as usize];
        *near = gap(at, *head);
        *head = H::of(at);
    };
    let words = text.windows(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    for (at, (word, near)) in words.zip(&mut *near).enumerate() {
        put(at, word, near);
    }
    for at in text.len().saturating_sub(7)..(text.len() + 1).saturating_sub(len) {
        let mut word = [0; 8];
        let rest = &text[at..];
        word[..rest.len()].copy_from_slice(rest);
        put(at, u64::from_le_bytes(word), &mut near[at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_short_texts_are_those_of_long_ones() {
        let short = usize::from(u16::MAX) - NOTHING;
        let word = |at: u32| format!("w{} ", at.wrapping_mul(at) >> 6 & 0xfff).into_bytes();
        let words = (0..9000).flat_map(word);
        let text: Vec<u8> = words.take(short).collect();
        for (text, by) in [
            (&text[..], Hash::Three),
            (&text[..], Hash::Wide),
            (&text[..], Hash::Four),
            (&text[..9], Hash::Three),
        ] {
            let mut long = Places::none(text.len(), by);
            let short = Places::of(text, by);
            long.link_all::<u32>(text, by);
            assert!(long.near == short.near && long.rank == short.rank);
            assert!(text.len() < 10 || long.near[1].iter().filter(|&&near| near > 0).count() > 500);
        }
    }
}
