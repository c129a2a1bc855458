//! What zlib and gzip would have made of a text: the token that comes next, guessed from the bytes alone.
//!
//! Above: `run`, which tells where a guess is wrong. Invariant: the same bytes, style and tokens so far give the same
//! guess for ever, since what was packed hangs on it; and the work is bounded by the text.

use super::blocks::Token;

/// The longest match.
const MATCH_MAX: usize = 258;
/// The shortest.
const MATCH_MIN: usize = 3;
/// Matches of the shortest length that reach back further are none.
const TOO_FAR: usize = 4096;
/// How far back is looked.
const FAR_MAX: usize = 32 * 1024 - MATCH_MAX - MATCH_MIN - 1;
/// Places that are compared for each byte of text on average, at most.
const STEPS_MAX: u64 = 192;
/// The same of a run that is described: less, so that nobody refuses what was.
const STEPS_DESCRIBED: u64 = 64;
/// Places of a match whose links are looked at for the one that leads back the furthest.
const LINKS_MAX: usize = 32;
/// No place.
const NONE: u32 = u32::MAX;

/// How a text was compressed: what the encoder was told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// From 4 to 9.
    pub level: u8,
    /// Whether short matches are none.
    pub filtered: bool,
    /// Whether places are found by 16 bits instead of 15.
    pub wide: bool,
}

impl Style {
    /// Those that are tried, the most frequent first.
    pub const ALL: [Self; 8] = [
        Self::of(9, false),
        Self::of(6, false),
        Self::of(8, false),
        Self::of(7, false),
        Self::of(5, false),
        Self::of(4, false),
        Self::of(9, true),
        Self::of(6, true),
    ];

    const fn of(level: u8, filtered: bool) -> Self {
        Self { level, filtered, wide: false }
    }

    /// The byte at rest.
    pub const fn number(self) -> u8 {
        self.level | (self.filtered as u8) << 4 | (self.wide as u8) << 5
    }

    /// Of the byte at rest.
    pub fn numbered(number: u8) -> Option<Self> {
        let known = number >> 6 == 0 && (4..=9).contains(&(number & 15));
        known.then_some(Self {
            level: number & 15,
            filtered: number >> 4 & 1 == 1,
            wide: number >> 5 & 1 == 1,
        })
    }

    /// A match of this length and more is looked past with a quarter of the effort; one of this length and more is not
    /// looked past; one of this length and more is good enough; so many places are compared.
    const fn effort(self) -> (usize, usize, usize, u32) {
        match self.level {
            4 => (4, 4, 16, 16),
            5 => (8, 16, 32, 32),
            6 => (8, 16, 128, 128),
            7 => (8, 32, 128, 256),
            8 => (32, 128, 258, 1024),
            _ => (32, 258, 258, 4096),
        }
    }
}

/// A match: its length and where it begins.
type Found = (usize, usize);

/// What is known of a place.
#[derive(Clone, Copy)]
struct Link {
    /// The one before it whose three bytes have the same hash.
    before: u32,
    /// How many there are before it.
    rank: u32,
}

/// Guesses the tokens of a text, one after the other.
pub(super) struct Guesser<'a> {
    text: &'a [u8],
    style: Style,
    /// Whether the stream begins where the text does: its first byte is no place for the encoder.
    whole: bool,
    /// Of each place.
    links: Vec<Link>,
    /// What was found at the next place already.
    carried: Option<Found>,
    /// Places that may still be compared.
    steps: u64,
}

impl<'a> Guesser<'a> {
    /// Of a text whose first `from` bytes are there already.
    pub fn new(text: &'a [u8], from: usize, style: Style) -> Self {
        let steps = text.len() as u64 * STEPS_MAX;
        Self { text, style, whole: from == 0, links: links(text, style), carried: None, steps }
    }

    /// The same, to describe something.
    pub fn describing(text: &'a [u8], from: usize, style: Style) -> Self {
        let steps = text.len() as u64 * STEPS_DESCRIBED;
        Self { steps, ..Self::new(text, from, style) }
    }

    /// What is guessed of.
    pub const fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Of some places in a row, where three bytes each must be found again: how far into these is the one that leads
    /// back the furthest, and where to. `None`: one of them leads nowhere.
    fn rarest(&mut self, from: usize, count: usize) -> Option<(usize, usize)> {
        let mut found = (0, usize::MAX);
        let first = count.saturating_sub(LINKS_MAX);
        self.steps = self.steps.saturating_sub((count - first) as u64 / 8);
        for offset in first..count {
            let before = self.links[from + offset].before;
            // What would begin before the text is none.
            let start = (before as usize).checked_sub(offset).filter(|_| before != NONE)?;
            if start < found.1 {
                found = (offset, start);
            }
        }
        Some(found)
    }

    /// The longest match at a place that is longer than `least`: of those that are as long the nearest. Encoders look
    /// at all places with the same first three bytes. Any other three of its bytes must be found again too, so those
    /// are followed that are found least, and ranks say how many places an encoder would have looked at.
    fn search(&mut self, at: usize, least: usize) -> Option<Found> {
        let (good, _, nice, tries) = self.style.effort();
        let most = (self.text.len() - at).min(MATCH_MAX);
        if least >= most || most < MATCH_MIN {
            return None;
        }
        let tries = if least >= good { tries >> 2 } else { tries };
        let (nice, text) = (nice.min(most), self.text);
        let (here, rank) = (&text[at..at + most], self.links[at].rank);
        let (mut best, mut start) = (least, 0);
        let (mut offset, mut from) = self.rarest(at, least - 1)?;
        while at - from <= FAR_MAX && !(self.whole && from == 0) && self.steps > 0 {
            self.steps -= 1;
            let there = &text[from..from + most];
            let len = if ends_alike(here, there, best) { same(here, there) } else { 0 };
            if len > best {
                let tried = rank - self.links[from].rank;
                // Only the first one may lie right at the border.
                if tried > tries || (at - from == FAR_MAX && tried > 1) {
                    break;
                }
                (best, start) = (len, from);
                if best >= nice {
                    break;
                }
                let Some(next) = self.rarest(from, best - 2) else { break };
                (offset, from) = next;
                continue;
            }
            let before = self.links[from + offset].before;
            let next = (before as usize).checked_sub(offset).filter(|_| before != NONE);
            let Some(next) = next else { break };
            from = next;
        }
        let short = best <= 5 && self.style.filtered || best == MATCH_MIN && at - start > TOO_FAR;
        (best > least && !short).then_some((best, start))
    }

    /// The token at a place, where the last one ended. `None`: that takes too long.
    pub fn next(&mut self, at: usize) -> Option<Token> {
        // Whoever gave up a search has not found out what there is.
        if self.steps == 0 {
            return None;
        }
        let literal = Token::Literal(*self.text.get(at)?);
        let found = self.carried.take().or_else(|| self.search(at, MATCH_MIN - 1));
        let Some((len, start)) = found else { return Some(literal) };
        let (_, lazy, ..) = self.style.effort();
        if len < lazy && at + 1 < self.text.len() {
            self.carried = self.search(at + 1, len);
            if self.carried.is_some() {
                return Some(literal);
            }
        }
        Some(Token::Match { len: len as u16, far: (at - start) as u16 })
    }

    /// The token was another one.
    pub fn wrong(&mut self) {
        self.carried = None;
    }
}

/// The hash of the three bytes at a place.
fn hash(text: &[u8], at: usize, wide: bool) -> Option<usize> {
    let [one, two, three] = *text.get(at..)?.first_chunk()?;
    let [one, two, three] = [one, two, three].map(usize::from);
    Some(match wide {
        true => (one << 12 ^ two << 6 ^ three) & 0xffff,
        false => (one << 10 ^ two << 5 ^ three) & 0x7fff,
    })
}

/// What is known of all places.
fn links(text: &[u8], style: Style) -> Vec<Link> {
    // By hash: the last place that has it, and how many there are.
    let mut heads = vec![Link { before: NONE, rank: 0 }; 1 << if style.wide { 16 } else { 15 }];
    let mut link = |at| {
        let Some(hash) = hash(text, at, style.wide) else { return Link { before: NONE, rank: 0 } };
        let head = &mut heads[hash];
        let own = *head;
        *head = Link { before: at as u32, rank: own.rank + 1 };
        own
    };
    (0..text.len()).map(&mut link).collect()
}

/// Length of what two stretches of one length begin with.
fn same(one: &[u8], other: &[u8]) -> usize {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let mut at = 0;
    for (one, other) in one.chunks_exact(8).zip(other.chunks_exact(8)) {
        let differ = word(one) ^ word(other);
        if differ != 0 {
            return at + differ.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + one[at..].iter().zip(&other[at..]).take_while(|(one, other)| one == other).count()
}

/// Whether the byte at `best` is the same, and those before it: most places fail this.
fn ends_alike(one: &[u8], other: &[u8], best: usize) -> bool {
    let end = |bytes: &[u8]| -> Option<u32> {
        let four = bytes.get(best.checked_sub(3)?..)?.first_chunk()?;
        Some(u32::from_le_bytes(*four))
    };
    match (end(one), end(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.get(best) == other.get(best),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_found_and_better_ones_behind_them() {
        let text = b"_abcde_bcdefgh_abcdefgh!";
        let mut guesser = Guesser::new(text, 0, Style::ALL[0]);
        let (mut at, mut tokens) = (0, Vec::new());
        while at < text.len() {
            let token = guesser.next(at).unwrap();
            at += token.len();
            tokens.push(token);
        }
        let literals = tokens.iter().filter(|token| matches!(token, Token::Literal(_))).count();
        assert_eq!(tokens[7], Token::Match { len: 4, far: 5 });
        // `_abc` would do, and `bcdefgh` one byte later is longer; the first byte of all is no place.
        assert!(tokens.contains(&Token::Match { len: 7, far: 9 }), "{tokens:?}");
        assert_eq!(literals + 2, tokens.len());
    }

    #[test]
    fn styles_have_numbers() {
        for style in Style::ALL {
            assert_eq!(Style::numbered(style.number()), Some(style));
        }
        for wrong in [0, 3, 10, 64 | 9, 0x89] {
            assert_eq!(Style::numbered(wrong), None);
        }
    }
}
