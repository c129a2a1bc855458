//! What zlib, and encoders that come from it, would have made of a text: the token that comes next, guessed from the
//! bytes alone.
//!
//! Above: `run`, which tells where a guess is wrong. Invariant: the same bytes, style and tokens so far give the same
//! guess for ever, since what was packed hangs on it; and the work is bounded by the text.

use super::blocks::Token;
use super::places::{FAR_MAX, Hash, Places};

/// The longest match.
const MATCH_MAX: usize = 258;
/// The shortest.
const MATCH_MIN: usize = 3;
/// Matches of the shortest length that reach back further are none, for most encoders.
const TOO_FAR: usize = 4096;
/// Places that are compared for each byte of text on average, at most.
const STEPS_MAX: u64 = 192;
/// The same of a run that is described: less, so that nobody refuses what was.
const STEPS_DESCRIBED: u64 = 64;

/// How a text was compressed: what the encoder was told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// From 4 to 9.
    pub level: u8,
    /// Whether short matches are none.
    pub filtered: bool,
    /// Whose it is.
    pub family: Family,
}

/// Encoders that do the same but for how they find matches, by their numbers at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// zlib, and gzip.
    Zlib,
    /// zlib with more memory.
    Wide,
    /// zlib-ng and zlib-rs at level 9, as cargo has it: all places are compared, and short matches come from anywhere.
    Next,
    /// zlib-ng at levels 7 and 8, and zlib of Chromium's, as Node has it: no match is shorter than four bytes.
    Four,
    /// Go: the same, and matches of four bytes are none from far away.
    Go,
}

impl Family {
    const ALL: [Self; 5] = [Self::Zlib, Self::Wide, Self::Next, Self::Four, Self::Go];

    /// How places are found.
    const fn hash(self) -> Hash {
        match self {
            Self::Zlib | Self::Next => Hash::Three,
            Self::Wide => Hash::Wide,
            Self::Four | Self::Go => Hash::Four,
        }
    }

    /// The shortest match.
    const fn least(self) -> usize {
        self.hash().reach()
    }

    /// A match that is so short reaches back no further than [`TOO_FAR`].
    const fn near_only(self) -> usize {
        match self {
            Self::Zlib | Self::Wide => MATCH_MIN,
            Self::Next | Self::Four => 0,
            Self::Go => 4,
        }
    }

    /// Fewer bytes at the end of a text begin no match.
    const fn rest(self) -> usize {
        match self {
            Self::Zlib | Self::Wide => MATCH_MIN,
            Self::Next | Self::Four | Self::Go => 4,
        }
    }
}

/// How hard an encoder tries.
#[derive(Clone, Copy)]
struct Effort {
    /// A match of this length and more is looked past with a quarter of the effort.
    good: usize,
    /// One of this length and more is not looked past.
    lazy: usize,
    /// One of this length and more is good enough.
    nice: usize,
    /// So many places are compared.
    tries: u32,
}

impl Style {
    /// The usual one.
    #[cfg(test)]
    pub const USUAL: Self = Self::of(9, Family::Zlib);

    /// Those that may have made these tokens, the likeliest first: what zlib never does, somebody else has done.
    pub fn likely(tokens: &[Token]) -> Vec<Self> {
        let count = |is: &dyn Fn(usize, usize) -> bool| {
            let is_one = |token: &&Token| match **token {
                Token::Match { len, far } => is(len.into(), far.into()),
                Token::Literal(_) => false,
            };
            tokens.iter().filter(is_one).count()
        };
        let levels = |family| LEVELS.map(|level| Self::of(level, family));
        let filtered = [9, 6].map(|level| Self { filtered: true, ..Self::of(level, Family::Zlib) });
        let zlib = [&levels(Family::Zlib)[..], &filtered].concat();
        if count(&|len, far| len == MATCH_MIN && far > TOO_FAR) > 0 {
            return [&[Self::of(9, Family::Next)], &zlib[..]].concat();
        }
        if count(&|len, _| len == MATCH_MIN) * SELDOM > count(&|_, _| true) {
            return zlib;
        }
        let has_four = count(&|len, far| len == 4 && far > TOO_FAR) > 0;
        let four = if has_four { Family::Four } else { Family::Go };
        [zlib, levels(four).to_vec()].concat()
    }

    const fn of(level: u8, family: Family) -> Self {
        Self { level, filtered: false, family }
    }

    /// The byte at rest.
    pub const fn number(self) -> u8 {
        self.level | (self.filtered as u8) << 4 | (self.family as u8) << 5
    }

    /// Of the byte at rest.
    pub fn numbered(number: u8) -> Option<Self> {
        let (level, family) = (number & 15, Family::ALL.get(usize::from(number >> 5)));
        let family = *family.filter(|_| (4..=9).contains(&level))?;
        Some(Self { level, filtered: number >> 4 & 1 == 1, family })
    }

    /// Whether zlib itself has it, which is all that was known once.
    pub const fn is_plain(self) -> bool {
        matches!(self.family, Family::Zlib | Family::Wide)
    }

    const fn effort(self) -> Effort {
        let (good, lazy, nice, tries) = match self.level {
            4 => (4, 4, 16, 16),
            5 => (8, 16, 32, 32),
            6 => (8, 16, 128, 128),
            7 => (8, 32, 128, 256),
            8 => (32, 128, 258, 1024),
            _ => (32, 258, 258, 4096),
        };
        Effort { good, lazy, nice, tries }
    }
}

/// An encoder that knows places by four bytes has found three only where hashes met: one match in so many is none.
const SELDOM: usize = 256;

/// Levels, the most frequent first.
const LEVELS: [u8; 6] = [9, 6, 8, 7, 5, 4];

/// A match: its length and where it begins.
type Found = (usize, usize);

/// Guesses the tokens of a text, one after the other.
pub(super) struct Guesser<'a> {
    text: &'a [u8],
    style: Style,
    effort: Effort,
    /// Whether the stream begins where the text does: its first byte is no place for the encoder.
    whole: bool,
    places: Places,
    /// What was found at the next place already.
    carried: Option<Found>,
    /// Places that may still be compared.
    steps: u64,
}

impl<'a> Guesser<'a> {
    /// Of a text whose first `from` bytes are there already.
    pub fn new(text: &'a [u8], from: usize, style: Style) -> Self {
        let steps = text.len() as u64 * STEPS_MAX;
        let places = Places::of(text, style.family.hash());
        let effort = style.effort();
        Self { text, style, effort, whole: from == 0, places, carried: None, steps }
    }

    /// The same, to describe something.
    pub fn describing(text: &'a [u8], from: usize, style: Style) -> Self {
        let steps = text.len() as u64 * STEPS_DESCRIBED;
        Self { steps, ..Self::new(text, from, style) }
    }

    /// The same text from its beginning in another style. Where it finds places by the same hash, that spares the work
    /// of linking them.
    pub fn restyled(self, style: Style) -> Self {
        debug_assert!(self.whole);
        if style.family.hash() != self.style.family.hash() {
            return Self::new(self.text, 0, style);
        }
        let steps = self.text.len() as u64 * STEPS_MAX;
        Self { style, effort: style.effort(), carried: None, steps, ..self }
    }

    /// What is guessed of.
    pub const fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The longest match at a place that is longer than `least`: of those that are as long the nearest. Encoders look
    /// at all places with the same first three bytes. Here those are followed that share more, the longest first, and
    /// ranks say how many places an encoder would have looked at.
    fn search(&mut self, at: usize, least: usize) -> Option<Found> {
        let most = (self.text.len() - at).min(MATCH_MAX);
        let family = self.style.family;
        let least = least.max(family.least() - 1);
        if least >= most || most < family.rest() {
            return None;
        }
        let Effort { good, tries, .. } = self.effort;
        let tries = match family {
            Family::Next => u32::MAX,
            _ if least >= good => tries >> 2,
            _ => tries,
        };
        let lens = self.places.lens();
        let mut end = most;
        for order in (0..lens.len()).rev() {
            let len = lens[order];
            if len > most {
                continue;
            }
            // At most places there is nothing to be found.
            let found = if self.places.before(order, at) > 0 {
                self.search_by(order, at, (least.max(len - 1), end), tries)
            } else {
                None
            };
            if let Some((best, start)) = found {
                let far = best <= family.near_only() && at - start > TOO_FAR;
                let short = best <= 5 && self.style.filtered || far;
                return (!short).then_some((best, start));
            }
            // Whatever shares more bytes than that is no match, or too far away.
            if len <= least + 1 {
                break;
            }
            end = len - 1;
        }
        None
    }

    /// The same among places that share their first bytes: longer than `least`, and not longer than `end`.
    fn search_by(
        &mut self,
        order: usize,
        at: usize,
        (least, end): (usize, usize),
        tries: u32,
    ) -> Option<Found> {
        let (nice, text) = (self.effort.nice.min(end), self.text);
        let here = &text[at..];
        let (mut best, mut start) = (least, None);
        let (mut offset, mut back) = self.places.rarest(order, at, least + 1)?;
        let mut from = at;
        while back > 0 && back <= from && self.steps > 0 {
            from -= back;
            if at - from > FAR_MAX || (self.whole && from == 0) {
                break;
            }
            self.steps -= 1;
            let there = &text[from..text.len() - (at - from)];
            let len = if ends_alike(here, there, best) { same(here, there, end) } else { 0 };
            if len > best {
                let tried = self.places.tried(at, from);
                // Only the first one may lie right at the border.
                if tried > tries || (at - from == FAR_MAX && tried > 1) {
                    break;
                }
                (best, start) = (len, Some(from));
                if best >= nice {
                    break;
                }
                // A better one shares all that the two have, and one byte more with the first.
                let Some(shared) = self.places.rarest(order, from, best) else { break };
                let Some(wanted) = self.places.rarest(order, at, best + 1) else { break };
                let own = (wanted.0, wanted.1.saturating_sub(at - from));
                (offset, back) = if own.1 > shared.1 { own } else { shared };
                continue;
            }
            back = self.places.before(order, from + offset);
        }
        start.map(|start| (best, start))
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
        if len < self.effort.lazy && at + 1 < self.text.len() {
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

/// Length of what two stretches of one length begin with, at most `end`, which they have.
fn same(one: &[u8], other: &[u8], end: usize) -> usize {
    let (one, other) = (&one[..end], &other[..end]);
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
        let mut guesser = Guesser::new(text, 0, Style::USUAL);
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

    /// What FORMAT.md says that a search finds, place by place.
    fn plainly(guesser: &Guesser<'_>, at: usize, least: usize) -> Option<Found> {
        let (text, style) = (guesser.text, guesser.style);
        let family = style.family;
        let hash = |at: usize| {
            let bytes = [0, 1, 2, 3].map(|part| u32::from(*text.get(at + part).unwrap_or(&0)));
            let [one, two, three, four] = bytes;
            let shift = if family == Family::Wide { 6 } else { 5 };
            match family {
                Family::Four | Family::Go => {
                    let word = one | two << 8 | three << 16 | four << 24;
                    word.wrapping_mul(2_654_435_761) >> 16
                }
                _ => {
                    let hash = (one << (2 * shift)) ^ (two << shift) ^ three;
                    hash & ((1 << (3 * shift)) - 1) & 0xffff
                }
            }
        };
        let Effort { good, nice, tries, .. } = style.effort();
        let most = (text.len() - at).min(MATCH_MAX);
        let least = if matches!(family, Family::Four | Family::Go) { least.max(3) } else { least };
        if most <= least || most < 4 && !style.is_plain() {
            return None;
        }
        let (mut best, mut start, mut compared) = (least, None, 0);
        let places = (0..at).rev().take(FAR_MAX).filter(|&from| hash(from) == hash(at));
        for from in places {
            let border = at - from == FAR_MAX && compared > 0;
            if border || guesser.whole && from == 0 {
                break;
            }
            compared += 1;
            let len = (0..most).take_while(|&len| text[from + len] == text[at + len]).count();
            if len > best {
                (best, start) = (len, Some(from));
                if best >= nice.min(most) {
                    break;
                }
            }
            let enough = if least >= good { tries / 4 } else { tries };
            if compared == enough && family != Family::Next {
                break;
            }
        }
        let start = start?;
        let near = match family {
            Family::Zlib | Family::Wide => best == 3,
            Family::Go => best == 4,
            _ => false,
        };
        let short = best <= 5 && style.filtered || near && at - start > TOO_FAR;
        (!short).then_some((best, start))
    }

    /// Texts as they come and as they do not: few letters, words, long runs, what repeats itself right at the border.
    fn texts() -> Vec<Vec<u8>> {
        let mut state = 1u32;
        let mut next = |most: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % most
        };
        let few = (0..40_000).map(|_| next(3) as u8).collect();
        let words = (0..12_000).flat_map(|_| format!("w{} ", next(900)).into_bytes()).collect();
        let mut runs = Vec::new();
        while runs.len() < 50_000 {
            let (byte, most) = (next(3) as u8, if next(9) == 0 { 400 } else { 20 });
            let len = next(most);
            runs.extend((0..len).map(|_| byte));
        }
        let noise: Vec<u8> = (0..FAR_MAX).map(|_| next(256) as u8).collect();
        vec![few, words, runs, noise.repeat(2)]
    }

    #[test]
    fn what_is_found_is_what_the_format_says() {
        let texts = texts();
        for (number, style) in (0..=u8::MAX).filter_map(|n| Some((n, Style::numbered(n)?))) {
            let mut found = 0;
            for (text, from) in texts.iter().flat_map(|text| [(text, 0), (text, 1)]) {
                let mut guesser = Guesser::new(text, from, style);
                for at in (1..text.len() - 3).step_by(3989 + usize::from(number)) {
                    for least in [2, 3, 4, 5, 9, 40] {
                        let wanted = plainly(&guesser, at, least);
                        assert_eq!(guesser.search(at, least), wanted, "{style:?} {at} {least}");
                        found += usize::from(wanted.is_some());
                    }
                }
            }
            assert!(found > 50, "{style:?}: only {found}");
        }
    }

    #[test]
    fn a_style_guesses_the_same_where_others_guessed_before() {
        let text: Vec<u8> = (0..3000u32).flat_map(|at| (at * at % 1013).to_le_bytes()).collect();
        let all = |guesser: &mut Guesser<'_>| -> Vec<Token> {
            let mut at = 0;
            std::iter::from_fn(|| {
                let token = guesser.next(at)?;
                at += token.len();
                Some(token)
            })
            .collect()
        };
        let mut again = Guesser::new(&text, 0, Style::USUAL);
        for style in (0..=u8::MAX).filter_map(Style::numbered) {
            again = again.restyled(style);
            let found = all(&mut again);
            assert_eq!(found, all(&mut Guesser::new(&text, 0, style)), "{style:?}");
            assert_eq!(found.iter().map(|token| token.len()).sum::<usize>(), text.len());
            // What is carried over from one place to the next is forgotten too.
            again.wrong();
            let found = again.search(6000, MATCH_MIN - 1);
            assert!(found.is_some());
            again.carried = found;
        }
    }

    #[test]
    fn styles_have_numbers() {
        let all: Vec<_> = (0..=u8::MAX).filter_map(|n| Some((n, Style::numbered(n)?))).collect();
        assert_eq!(all.len(), 6 * 2 * Family::ALL.len());
        for (number, style) in all {
            assert_eq!(style.number(), number);
        }
        for wrong in [0, 3, 10, 0xa9, 0xe9] {
            assert_eq!(Style::numbered(wrong), None);
        }
    }

    #[test]
    fn what_zlib_never_does_tells_others() {
        let of = |all: &[(u16, u16)]| {
            let tokens: Vec<_> = all.iter().map(|&(len, far)| Token::Match { len, far }).collect();
            let families: Vec<_> =
                Style::likely(&tokens).iter().map(|style| style.family).collect();
            (families[0], families[families.len() - 1])
        };
        let (zlib, next) = (Family::Zlib, Family::Next);
        assert_eq!(of(&[]), (zlib, Family::Go));
        assert_eq!(of(&[(3, 4096), (4, 9000)]), (zlib, zlib));
        assert_eq!(of(&[(3, 4097)]), (next, zlib), "three bytes from far away");
        assert_eq!(of(&[(4, 4097), (9, 1)]), (zlib, Family::Four), "never three");
        assert_eq!(of(&[(4, 4096), (5, 9000)]), (zlib, Family::Go), "nor four from far away");
        let seldom = [&[(3, 1), (4, 9000)][..], &[(9, 1); 300]].concat();
        assert_eq!(of(&seldom), (zlib, Family::Four), "three by chance");
    }
}
