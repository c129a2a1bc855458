//! Which words of a text are told, and telling it in them.
//!
//! Above: `words`, whose forms are made here. Invariant: what comes out depends on the text alone.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{CODES, Form, ITSELF, LEADS, WORD_LEN_MAX};
use crate::limits::SECTION_LEN;

/// Leads of words that are told by two bytes, at most.
const PAIR_LEADS: usize = 8;
/// A word that is told by two bytes comes so often at least: less often, a codec does as well without.
const PAIRS_MIN: u32 = 16;
/// And one that is told by one.
const SINGLES_MIN: u32 = 8;
/// Bytes of a text in which words are counted, at most, and of each of the parts that they are in: many short ones say
/// more than few long ones, since what is near each other is alike.
const SAMPLE_LEN: usize = 3 << 20;
const PART_LEN: usize = 512;
/// Text has no more than one byte in so many that is none of ASCII.
const OTHERS: usize = 32;

/// What a byte is in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    /// Part of a name, but not at its beginning.
    Digit,
    /// A mark of punctuation.
    Mark,
    Blank,
    LineEnd,
    Other,
}

const CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let (mut table, mut at) = ([Class::Other; 256], 0);
    while at < 128 {
        let byte = at as u8;
        table[at] = match byte {
            b'\n' => Class::LineEnd,
            b' ' | b'\t' => Class::Blank,
            b'0'..=b'9' => Class::Digit,
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => Class::Letter,
            b'!'..=b'~' => Class::Mark,
            _ => Class::Other,
        };
        at += 1;
    }
    table
}

const fn class(byte: u8) -> Class {
    CLASSES[byte as usize]
}

/// Whether bytes are text as it can be told in words.
#[must_use]
pub fn is_text(bytes: &[u8]) -> bool {
    let other = |byte: &&u8| class(**byte) == Class::Other && **byte != b'\r';
    bytes.iter().filter(other).count() * OTHERS <= bytes.len()
}

/// Cuts the first word off: a name, a line's end and how the next one is indented, marks, or a byte that is none of
/// these.
#[inline]
fn cut(text: &[u8]) -> (&[u8], &[u8]) {
    let Some(&first) = text.first() else { return (text, text) };
    let more = |belongs: fn(Class) -> bool| {
        let word = &text[1..text.len().min(WORD_LEN_MAX)];
        1 + word.iter().take_while(|&&byte| belongs(class(byte))).count()
    };
    text.split_at(match class(first) {
        Class::Letter => more(|class| matches!(class, Class::Letter | Class::Digit)),
        Class::Mark => more(|class| class == Class::Mark),
        Class::LineEnd => more(|class| class == Class::Blank),
        Class::Digit | Class::Blank | Class::Other => 1,
    })
}

/// By hashes that nobody can foresee: whoever makes a text cannot make all of its words meet in one place. What comes
/// out does not depend on them.
type Table<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// A word as it is looked up: it has no byte that is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Word(u128, u128);

impl Word {
    /// The first `len` bytes.
    fn of(bytes: &[u8], len: usize) -> Self {
        let first = |bytes: &[u8; 16], len: usize| {
            let kept = u128::MAX.checked_shr(128 - 8 * len.min(16) as u32).unwrap_or(0);
            u128::from_le_bytes(*bytes) & kept
        };
        let (mut own, mut room) = (bytes, [0; WORD_LEN_MAX]);
        if bytes.len() < WORD_LEN_MAX {
            room[..bytes.len()].copy_from_slice(bytes);
            own = &room;
        }
        let (low, high) = own.split_at(16);
        let part = |bytes: &[u8], len| bytes.first_chunk().map_or(0, |bytes| first(bytes, len));
        Self(part(low, len), part(high, len.saturating_sub(16)))
    }
}

/// The words of a text, as they are seen in parts that are spread over all of it, and how often each comes in the
/// whole, in about.
fn counted(text: &[u8]) -> Vec<(&[u8], u32)> {
    let part_len = if text.len() > SAMPLE_LEN { PART_LEN } else { text.len() };
    let step = text.len().div_ceil(SAMPLE_LEN) * part_len;
    let mut counts: Table<&[u8], u32> = Table::default();
    let mut seen = 0;
    for part in text.chunks(step.max(1)) {
        let mut rest = &part[..part.len().min(part_len)];
        seen += rest.len() as u64;
        while !rest.is_empty() {
            let (word, behind) = cut(rest);
            rest = behind;
            if word.len() > 1 {
                *counts.entry(word).or_default() += 1;
            }
        }
    }
    // No text is so long that they would be too many.
    let all = |count: u32| (u64::from(count) * text.len() as u64 / seen.max(1)) as u32;
    counts.into_iter().map(|(word, count)| (word, all(count))).collect()
}

/// Words, and by what each is told.
pub struct Vocabulary {
    /// How a form with these words begins.
    head: Vec<u8>,
    /// One byte, or two: the second one is `None` then.
    codes: Table<Word, (u8, Option<u8>)>,
}

impl Vocabulary {
    /// The words that are worth it in a text.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let mut words = counted(text);
        words.retain(|&(_, count)| count >= SINGLES_MIN);
        let gain = |code_len: usize| {
            move |&(word, count): &(&[u8], u32)| {
                (
                    Reverse(word.len().saturating_sub(code_len) as u64 * u64::from(count)),
                    word.to_vec(),
                )
            }
        };
        words.sort_by_cached_key(gain(1));
        let mut pairs = words.split_off(words.len().min(LEADS - PAIR_LEADS));
        pairs.retain(|&(word, count)| word.len() > 2 && count >= PAIRS_MIN);
        pairs.sort_by_cached_key(gain(2));
        pairs.truncate(PAIR_LEADS * 256);
        Self::with(&words, &mut pairs)
    }

    /// That tells these words by one byte, and those by two.
    fn with(singles: &[(&[u8], u32)], pairs: &mut [(&[u8], u32)]) -> Self {
        // Within a lead all are about as frequent, and a codec likes them in order.
        pairs.chunks_mut(256).for_each(|chunk| chunk.sort_unstable());
        let all = || singles.iter().chain(&*pairs).map(|&(word, _)| word);
        let count = (singles.len() + pairs.len()) as u16;
        let mut head = vec![singles.len() as u8];
        head.extend(count.to_le_bytes());
        let mut codes = Table::default();
        for (number, word) in all().enumerate() {
            head.push(word.len() as u8);
            head.extend_from_slice(word);
            let code = match number.checked_sub(singles.len()) {
                None => (CODES + number as u8, None),
                Some(pair) => (CODES + (singles.len() + pair / 256) as u8, Some(pair as u8)),
            };
            codes.insert(Word::of(word, word.len()), code);
        }
        Self { head, codes }
    }

    /// The form of a text that has its words with it.
    #[must_use]
    pub fn form(&self, text: &[u8]) -> Form {
        self.tell_all(text, self.head.clone())
    }

    /// The form of a text whose words are known from elsewhere.
    #[must_use]
    pub fn text(&self, text: &[u8]) -> Form {
        self.tell_all(text, Vec::with_capacity(text.len() / 2))
    }

    fn tell_all(&self, text: &[u8], mut bytes: Vec<u8>) -> Form {
        let (mut sections, mut from) = (Vec::with_capacity(text.len().div_ceil(SECTION_LEN)), 0);
        for section in text.chunks(SECTION_LEN) {
            self.tell(section, &mut bytes);
            sections.push((bytes.len() - from) as u32);
            from = bytes.len();
        }
        Form { bytes, sections }
    }

    fn tell(&self, mut text: &[u8], form: &mut Vec<u8>) {
        while let Some(&first) = text.first() {
            let (word, behind) = cut(text);
            if word.len() > 1 {
                match self.codes.get(&Word::of(text, word.len())) {
                    Some(&(code, None)) => form.push(code),
                    Some(&(lead, Some(second))) => form.extend([lead, second]),
                    // All of its bytes are below those of codes.
                    None => form.extend_from_slice(word),
                }
            } else if first < CODES {
                form.push(first);
            } else {
                form.extend([ITSELF, first]);
            }
            text = behind;
        }
    }
}
