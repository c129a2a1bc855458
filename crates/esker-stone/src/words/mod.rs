//! Text in words: its frequent words told by one byte or two, so that a codec has half as much to look through, and
//! finds more in it.
//!
//! Above: `rows::blocks`, `rest`, homes, and whoever packs. Below: `choose`. Invariant: what a form makes is as long as
//! its block says and no longer, whatever the form says; each section of a text is told by itself.

mod choose;

use core::ops::Range;

use crate::error::{Damage, Error, Result};
use crate::limits::SECTION_LEN;

pub use choose::{Vocabulary, is_text};

/// Bytes of a word, at most.
const WORD_LEN_MAX: usize = 32;
/// Most words have no more.
const SHORT_LEN: usize = 16;
/// Bytes below this one stand for themselves.
const CODES: u8 = 0x80;
/// The byte behind this one stands for itself.
const ITSELF: u8 = 0xff;
/// How many bytes begin a code.
const LEADS: usize = (ITSELF - CODES) as usize;
/// Bytes before the words: how many of them are told by one byte, and how many there are.
const HEAD_LEN: usize = 3;

const UNDECODABLE: Error = Error::Damaged(Damage::Undecodable);

/// Where a word lies in [`Words::bytes`], and below that, in 8 bits, its length. Nothing: this byte says too little.
type Place = u32;

/// The place of a byte that stands for itself.
const fn itself(byte: u8) -> Place {
    (byte as u32) << 8 | 1
}

/// A text told in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// What stands in its place: the words, if they are its own, and the text told in them.
    pub bytes: Vec<u8>,
    /// How many of these bytes each section of the text takes; the first one, the words too.
    pub sections: Vec<u32>,
}

/// A form with its words, from which it can be read, and others that are told in the same words.
#[derive(Debug)]
pub struct Words {
    form: Vec<u8>,
    /// Where the text begins in it.
    text: usize,
    /// How many words are told by one byte.
    singles: usize,
    /// Every byte, then the words, then as many bytes as a word may have.
    bytes: Vec<u8>,
    /// What each byte stands for.
    firsts: [Place; 256],
    /// Words that are told by two bytes.
    pairs: Vec<Place>,
}

impl Words {
    /// Takes a form apart. It may lack its end.
    ///
    /// # Errors
    /// `Undecodable`.
    pub fn parse(form: Vec<u8>) -> Result<Self> {
        let &[singles, low, high] = form.first_chunk::<HEAD_LEN>().ok_or(UNDECODABLE)?;
        let (singles, count) = (usize::from(singles), usize::from(u16::from_le_bytes([low, high])));
        if LEADS.checked_sub(singles).is_none_or(|leads| count > leads * 256 + singles) {
            return Err(UNDECODABLE);
        }
        let mut bytes: Vec<u8> = (0..=255).collect();
        let mut firsts = [0; 256];
        (0..CODES).for_each(|byte| firsts[usize::from(byte)] = itself(byte));
        let (mut pairs, mut at) = (Vec::with_capacity(count.saturating_sub(singles)), HEAD_LEN);
        for number in 0..count {
            let len = usize::from(*form.get(at).ok_or(UNDECODABLE)?);
            let word = form.get(at + 1..at + 1 + len).ok_or(UNDECODABLE)?;
            if !(1..=WORD_LEN_MAX).contains(&len) {
                return Err(UNDECODABLE);
            }
            // So many words end within 2^24 bytes.
            let place = (bytes.len() as u32) << 8 | len as u32;
            match firsts.get_mut(usize::from(CODES) + number) {
                Some(first) if number < singles => *first = place,
                _ => pairs.push(place),
            }
            bytes.extend_from_slice(word);
            at += 1 + len;
        }
        bytes.resize(bytes.len() + WORD_LEN_MAX, 0);
        Ok(Self { form, text: at, singles, bytes, firsts, pairs })
    }

    /// The form, which is what others in its words have as their base.
    #[must_use]
    pub const fn form(&self) -> &[u8] {
        self.form.as_slice()
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.form.capacity() + self.bytes.capacity() + (256 + self.pairs.capacity()) * 4
    }

    /// Fills `plain`, which is as long as what was told in this form in these sections; none: nobody knows them.
    ///
    /// # Errors
    /// `Undecodable`.
    pub fn read(&self, sections: &[u32], plain: &mut [u8]) -> Result<()> {
        self.read_all(&self.form, self.text, sections, plain)
    }

    /// The same of what was told in these words in the form `text`.
    ///
    /// # Errors
    /// `Undecodable`.
    pub fn read_other(&self, text: &[u8], sections: &[u32], plain: &mut [u8]) -> Result<()> {
        self.read_all(text, 0, sections, plain)
    }

    /// Fills `plain` with all sections of a form whose text begins at `text`.
    fn read_all(&self, form: &[u8], text: usize, sections: &[u32], plain: &mut [u8]) -> Result<()> {
        if sections.is_empty() {
            return self.exactly(&form[text..], plain);
        }
        let (mut start, mut parts) = (0, plain.chunks_mut(SECTION_LEN));
        for &len in sections {
            let end = start + len as usize;
            let own = form.get(start.max(text)..end).ok_or(UNDECODABLE)?;
            self.exactly(own, parts.next().ok_or(UNDECODABLE)?)?;
            start = end;
        }
        let all = start == form.len() && parts.next().is_none();
        if all { Ok(()) } else { Err(UNDECODABLE) }
    }

    /// Fills `plain` with what `text` tells, which must be as much.
    fn exactly(&self, text: &[u8], plain: &mut [u8]) -> Result<()> {
        let (taken, made) = self.expand(text, plain)?;
        let all = taken == text.len() && made == plain.len();
        if all { Ok(()) } else { Err(UNDECODABLE) }
    }

    /// Fills `plain`, a section that lies there in this form.
    ///
    /// # Errors
    /// `Undecodable`, also where there is too little of the form.
    pub fn read_section(&self, place: Range<usize>, plain: &mut [u8]) -> Result<()> {
        let text = self.form.get(place.start.max(self.text)..place.end).ok_or(UNDECODABLE)?;
        self.exactly(text, plain)
    }

    /// Makes text until there is no more of it, or no more room: how much was taken, and how much made. The last word
    /// may go beyond the end of `plain`: then that is how much was made.
    fn expand(&self, text: &[u8], plain: &mut [u8]) -> Result<(usize, usize)> {
        let (mut at, mut made) = (0, 0);
        while let (Some(&byte), true) = (text.get(at), made < plain.len()) {
            at += 1;
            let mut place = self.firsts[usize::from(byte)];
            if place == 0 {
                let second = *text.get(at).ok_or(UNDECODABLE)?;
                place = self.pair(byte, second).ok_or(UNDECODABLE)?;
                at += 1;
            }
            let (from, len) = ((place >> 8) as usize, (place & 0xff) as usize);
            let word = &self.bytes[from..from + WORD_LEN_MAX];
            if let Some(room) = plain.get_mut(made..made + WORD_LEN_MAX) {
                // As many bytes each time are quicker than as many as there are.
                room[..SHORT_LEN].copy_from_slice(&word[..SHORT_LEN]);
                if len > SHORT_LEN {
                    room[SHORT_LEN..].copy_from_slice(&word[SHORT_LEN..]);
                }
            } else {
                let room = &mut plain[made..];
                let now = len.min(room.len());
                room[..now].copy_from_slice(&word[..now]);
            }
            made += len;
        }
        Ok((at, made))
    }

    /// What two bytes stand for, of which the first says too little.
    fn pair(&self, first: u8, second: u8) -> Option<Place> {
        if first == ITSELF {
            return Some(itself(second));
        }
        let lead = usize::from(first.checked_sub(CODES)?).checked_sub(self.singles)?;
        self.pairs.get(lead * 256 + usize::from(second)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Vec<u8> {
        let line = |at: u32| {
            let name = ["device", "buffer", "length", "offset"][at as usize % 4];
            format!(
                "\tif (device->{name} > {at})\n\t\treturn device_error(device, \"{name} é\");\n"
            )
        };
        (0..2000).flat_map(|at| line(at).into_bytes()).collect()
    }

    fn read(words: &Words, len: usize) -> Result<Vec<u8>> {
        let mut plain = vec![0; len];
        words.read(&[], &mut plain).map(|()| plain)
    }

    #[test]
    fn text_is_read_as_it_was_told_and_is_shorter() {
        let plain = source();
        let vocabulary = Vocabulary::of(&plain);
        let form = vocabulary.form(&plain).bytes;
        assert!(form.len() * 2 < plain.len(), "{} of {}", form.len(), plain.len());
        let words = Words::parse(form).unwrap();
        assert!(read(&words, plain.len()).unwrap() == plain);
        assert_eq!(read(&words, plain.len() - 1), Err(UNDECODABLE));
        assert_eq!(read(&words, plain.len() + 1), Err(UNDECODABLE));
        let other = [&plain[777..5000], "ümläut".as_bytes(), &[0, 0x80, 0xff]].concat();
        let mut again = vec![0; other.len()];
        words.read_other(&vocabulary.text(&other).bytes, &[], &mut again).unwrap();
        assert_eq!(again, other);
    }

    #[test]
    fn a_long_text_is_known_by_parts_of_it() {
        let words = ["device_attach", "device_detach", "page_locked", "page_dirty"];
        let line = |at: usize| {
            let quarter = words[at / 100_000];
            format!("\treturn {quarter}({});\n", at.wrapping_mul(0x9e37_79b9) >> 7 & 0xfff)
        };
        let plain: Vec<u8> = (0..400_000).flat_map(|at| line(at).into_bytes()).collect();
        let vocabulary = Vocabulary::of(&plain);
        let told = words.map(|word| vocabulary.text(word.as_bytes()).bytes.len());
        assert_eq!(told, [1; 4], "from its beginning to its end");
        assert!(vocabulary.form(&plain) == Vocabulary::of(&plain).form(&plain), "the same again");
        let form = vocabulary.form(&plain).bytes;
        assert!(form.len() * 2 < plain.len(), "{} of {}", form.len(), plain.len());
        assert!(read(&Words::parse(form).unwrap(), plain.len()).unwrap() == plain);
    }

    #[test]
    fn whatever_goes_in_comes_out_again() {
        let noise: Vec<u8> = (0..50_001u32).map(|at| (at.wrapping_mul(at) >> 11) as u8).collect();
        let long = [&[b'a'; 100][..], &[b' '; 100], &[b'\n'; 100]].concat().repeat(9);
        for plain in [&noise[..], &noise[..1], &[], &long, &[0xff; 9]] {
            let words = Words::parse(Vocabulary::of(plain).form(plain).bytes).unwrap();
            assert!(read(&words, plain.len()).unwrap() == plain);
        }
    }

    /// Where each section lies in a form, and what it tells.
    fn sections<'a>(form: &Form, plain: &'a [u8]) -> Vec<(Range<usize>, &'a [u8])> {
        let ends = form.sections.iter().scan(0, |end, &len| {
            let start = *end;
            *end += len as usize;
            Some(start..*end)
        });
        ends.zip(plain.chunks(SECTION_LEN)).collect()
    }

    #[test]
    fn a_section_needs_nothing_but_the_words() {
        let plain = source();
        let vocabulary = Vocabulary::of(&plain);
        let form = vocabulary.form(&plain);
        assert_eq!(form.sections.len(), plain.len().div_ceil(SECTION_LEN));
        assert!(form.sections.len() > 1);
        assert_eq!(form.sections.iter().sum::<u32>() as usize, form.bytes.len());
        let words = Words::parse(form.bytes.clone()).unwrap();
        let other = vocabulary.text(&plain);
        for (place, own) in sections(&form, &plain) {
            let mut section = vec![0; own.len()];
            words.read_section(place.clone(), &mut section).unwrap();
            assert!(section == own);
            let head = Words::parse(form.bytes[..place.end].to_vec()).unwrap();
            head.read_section(place.clone(), &mut section).unwrap();
            assert!(section == own);
            let short = place.start..place.end - 1;
            assert_eq!(words.read_section(short, &mut section), Err(UNDECODABLE));
            let behind = place.start..form.bytes.len() + 1;
            assert_eq!(words.read_section(behind, &mut section), Err(UNDECODABLE));
        }
        let mut all = vec![0; plain.len()];
        words.read(&form.sections, &mut all).unwrap();
        assert!(all == plain);
        all.fill(0);
        words.read_other(&other.bytes, &other.sections, &mut all).unwrap();
        assert!(all == plain);
        for wrong in [&form.sections[1..], &other.sections, &[]] {
            let own = &mut all[..plain.len() - usize::from(wrong.is_empty())];
            assert_eq!(words.read(wrong, own), Err(UNDECODABLE), "{wrong:?}");
        }
        for (place, own) in sections(&other, &plain) {
            let mut section = vec![0; own.len()];
            words.read_other(&other.bytes[place], &[], &mut section).unwrap();
            assert!(section == own);
        }
    }

    #[test]
    fn what_no_encoder_writes_is_refused() {
        let parse = |form: &[u8]| Words::parse(form.to_vec());
        for wrong in [
            &[][..],
            &[0, 0],
            &[128, 0, 0],
            &[127, 128, 0],
            &[1, 1, 0],
            &[1, 1, 0, 0],
            &[1, 1, 0, 33],
            &[1, 1, 0, 3, b'a', b'b'],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        let words = parse(&[1, 2, 0, 2, b'a', b'b', 1, b'c', 0x80, 0x81, 0, 0xff, 0xff]).unwrap();
        assert_eq!(read(&words, 4).unwrap(), *b"abc\xff");
        let mut plain = [0; 4];
        for wrong in [&[0x81, 1][..], &[0x81], &[0x82, 0], &[0xff], b"abc", b"abcde"] {
            assert_eq!(words.read_other(wrong, &[], &mut plain), Err(UNDECODABLE), "{wrong:?}");
        }
    }
}
