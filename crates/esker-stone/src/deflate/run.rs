//! Some blocks of a stream: what it takes to make them again of their text.
//!
//! Above: `stream`, `recipe`. Below: `guess`, `blocks`. Invariant: what is described was made again and compared, bit
//! by bit; what is made depends on the text and the description alone.

use core::ops::Range;

use super::bits::{Reader, Writer, cut};
use super::blocks::{self, Codes, Held, Token};
use super::guess::{Guesser, Style};
use super::huffman::Trees;
use crate::column::{put_varint, take_varint};

/// Text before a run that it may refer to.
const BEFORE_MAX: usize = 32 * 1024;
/// Text behind it that an encoder looks at.
const AFTER_MAX: usize = 262;
/// Most bytes of text of a run.
const RUN_TEXT_MAX: usize = 1 << 20;
/// Most blocks of a run.
const RUN_BLOCKS_MAX: u64 = 4096;
/// Tokens by which a style is chosen: at first, and when these are as they should be.
const TOKENS_FEW: usize = 1024;
const TOKENS_MORE: usize = 8192;
/// Text that they stand for, at most.
const TOKENS_TEXT_MAX: usize = 256 << 10;
/// A description is at most one part in so many of what it makes, and a little more.
const WORTH: usize = 8;
/// The little more.
const WORTH_LEAST: usize = 64;

/// Most bits that describe the codes of a block.
const DESCRIBED_MAX: usize = 8192;

/// Kinds of blocks, as a description numbers them.
const STORED: u8 = 0;
const FIXED: u8 = 1;
const USUAL: u8 = 2;
const OWN: u8 = 3;

/// What it takes to make a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// All of it but the text.
    pub description: Vec<u8>,
    /// Where the text lies that it needs, in that of the stream.
    pub text: Range<usize>,
    /// The bytes that it makes, in the stream.
    pub bytes: Range<usize>,
}

impl Run {
    /// Whether zlib itself makes such streams; others are a feature of the image.
    #[must_use]
    pub fn is_by_zlib(&self) -> bool {
        let style = self.description.first().and_then(|&number| Style::numbered(number));
        style.is_none_or(Style::is_plain)
    }
}

/// The style that explains most of these blocks, the first ones of a text. A few tokens tell what it is not, and more
/// whether it is what they say: in a plain beginning, levels do the same.
pub(super) fn style(held: &[Held], text: &[u8]) -> Style {
    let tokens: Vec<Token> = held
        .iter()
        .take_while(|held| !matches!(held, Held::Stored { .. }))
        .flat_map(|held| match held {
            Held::Stored { .. } => &[],
            Held::Fixed(tokens) | Held::Dynamic { tokens, .. } => &tokens[..],
        })
        .copied()
        .collect();
    let some = |most: usize| {
        let mut sum = 0;
        let fits = |token: &&Token| {
            sum += token.len();
            sum <= TOKENS_TEXT_MAX
        };
        &tokens[..tokens.iter().take(most).take_while(fits).count()]
    };
    let likely = Style::likely(&tokens);
    let (wrong, best) = best(&likely, some(TOKENS_FEW), text);
    if wrong > 0 || tokens.len() <= TOKENS_FEW {
        return likely[best];
    }
    let likely = &likely[best..];
    likely[self::best(likely, some(TOKENS_MORE), text).1]
}

/// How many of these tokens the best of some styles does not guess, and which one that is.
fn best(styles: &[Style], tokens: &[Token], text: &[u8]) -> (usize, usize) {
    let end = tokens.iter().map(|token| token.len()).sum::<usize>() + AFTER_MAX;
    let text = text.get(..end).unwrap_or(text);
    let mut best = (usize::MAX, 0);
    let mut guesser = Guesser::new(text, 0, styles[0]);
    for (number, style) in styles.iter().enumerate() {
        guesser = guesser.restyled(*style);
        let wrong = wrong(&mut guesser, tokens, best.0);
        if wrong < best.0 {
            best = (wrong, number);
        }
        if wrong == 0 {
            break;
        }
    }
    best
}

/// How many of these tokens are not what is guessed; no more than `enough` are counted.
fn wrong(guesser: &mut Guesser<'_>, tokens: &[Token], enough: usize) -> usize {
    let (mut at, mut wrong) = (0, 0);
    for token in tokens {
        if guesser.next(at) != Some(*token) {
            guesser.wrong();
            wrong += 1;
            if wrong >= enough {
                break;
            }
        }
        at += token.len();
    }
    wrong
}

/// Describes the blocks that lie in `bits`, whose text is `own` of all text of the stream.
pub(super) fn describe(
    bytes: &[u8],
    bits: Range<usize>,
    all: &[u8],
    own: Range<usize>,
    style: Style,
) -> Option<Run> {
    if own.len() > RUN_TEXT_MAX {
        return None;
    }
    let text = own.start.saturating_sub(BEFORE_MAX)..(own.end + AFTER_MAX).min(all.len());
    let (before, carry) = (own.start - text.start, bits.start % 8);
    let mut out = vec![style.number()];
    let first = bytes.get(bits.start / 8)?;
    out.push(1 << carry | first & ((1 << carry) - 1));
    for number in [before, own.len(), text.end - own.end] {
        put_varint(number as u64, &mut out);
    }
    let mut reader = Reader::new(bytes, bits.start);
    let (mut blocks, mut count, mut last) = (Vec::new(), 0u64, false);
    let mut guesser = Guesser::describing(&all[text.clone()], before, style);
    let mut at = before;
    while reader.at() < bits.end {
        let block = blocks::read(&mut reader, RUN_TEXT_MAX)?;
        last = block.last;
        put_block(bytes, &block, &mut guesser, &mut at, &mut blocks)?;
        count += 1;
        if blocks.len() > bits.len() / 8 / WORTH + WORTH_LEAST {
            return None;
        }
    }
    put_varint(count, &mut out);
    out.extend(blocks);
    let end = if last {
        out.push(reader.pad()? as u8);
        bits.end.div_ceil(8)
    } else {
        bits.end / 8
    };
    let made = bits.start / 8..end;
    let again = rebuild(&mut &out[..], &mut &all[text.clone()])?;
    (again == bytes[made.clone()]).then_some(Run { description: out, text, bytes: made })
}

/// Adds what it takes to make a block.
fn put_block(
    bytes: &[u8],
    block: &blocks::Block,
    guesser: &mut Guesser<'_>,
    at: &mut usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    let last = u8::from(block.last);
    let tokens = match &block.held {
        Held::Stored { pad, bytes } => {
            out.extend([last | STORED << 1, *pad]);
            put_varint(bytes.len() as u64, out);
            *at += bytes.len();
            guesser.wrong();
            return Some(());
        }
        Held::Fixed(tokens) => {
            out.push(last | FIXED << 1);
            tokens
        }
        Held::Dynamic { described, tokens, .. } => {
            if usual_bits(tokens) == cut(bytes, described.clone()).map(|own| (own, described.len()))
            {
                out.push(last | USUAL << 1);
            } else {
                out.push(last | OWN << 1);
                put_varint(described.len() as u64, out);
                out.extend(cut(bytes, described.clone())?);
            }
            tokens
        }
    };
    put_varint(tokens.len() as u64, out);
    let (mut wrong, mut right) = (Vec::new(), 0u64);
    let mut count = 0u64;
    for token in tokens {
        if guesser.next(*at)? == *token {
            right += 1;
        } else {
            guesser.wrong();
            put_varint(right, &mut wrong);
            match *token {
                Token::Literal(_) => wrong.push(0),
                Token::Match { len, far } => {
                    put_varint(len.into(), &mut wrong);
                    put_varint(far.into(), &mut wrong);
                }
            }
            (right, count) = (0, count + 1);
        }
        *at += token.len();
    }
    put_varint(count, out);
    out.extend(wrong);
    Some(())
}

/// How zlib would describe the codes of these tokens: the bytes, and how many bits.
fn usual_bits(tokens: &[Token]) -> Option<(Vec<u8>, usize)> {
    let mut writer = Writer::default();
    blocks::usual(tokens).write(&mut writer);
    let (bits, missing) = (writer.len(), writer.missing());
    writer.put(0, missing);
    Some((writer.finish(), bits))
}

fn take_byte(from: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = from.split_first()?;
    *from = rest;
    Some(byte)
}

fn take_len(from: &mut &[u8], most: usize) -> Option<usize> {
    usize::try_from(take_varint(from).ok()?).ok().filter(|&len| len <= most)
}

/// Makes the bytes of a run. Takes its description from the front of `from`, and its text from that of `texts`.
/// `None`: the description makes no sense, or not of this text.
pub(crate) fn rebuild(from: &mut &[u8], texts: &mut &[u8]) -> Option<Vec<u8>> {
    let style = Style::numbered(take_byte(from)?)?;
    let carry = take_byte(from)?;
    let before = take_len(from, BEFORE_MAX)?;
    let own = take_len(from, RUN_TEXT_MAX)?;
    let after = take_len(from, AFTER_MAX)?;
    let (text, rest) = texts.split_at_checked(before + own + after)?;
    *texts = rest;
    let mut writer = Writer::default();
    let bits = carry.checked_ilog2()?;
    writer.put(u32::from(carry) & !(1 << bits), bits);
    let count = take_varint(from).ok().filter(|&count| count <= RUN_BLOCKS_MAX)?;
    let mut guesser = Guesser::new(text, before, style);
    let (mut at, mut last) = (before, false);
    for _ in 0..count {
        if last {
            return None;
        }
        let head = take_byte(from)?;
        last = head & 1 == 1;
        let end = before + own;
        match head >> 1 {
            STORED => {
                let (pad, len) = (take_byte(from)?, take_len(from, 0xffff)?);
                let stored = text.get(at..at + len)?;
                writer.put(u32::from(last), 3);
                let missing = writer.missing();
                writer.put(u32::from(pad) & ((1 << missing) - 1), missing);
                writer.put(len as u32, 16);
                writer.put(!(len as u32) & 0xffff, 16);
                writer.bytes(stored);
                at += len;
                guesser.wrong();
            }
            kind => {
                let described = if kind == OWN { Some(take_described(from)?) } else { None };
                let tokens = take_tokens(from, &mut guesser, &mut at, end)?;
                let codes = match (&described, kind) {
                    (Some((trees, bytes, bits)), _) => Codes::Own(trees, bytes, *bits),
                    (None, FIXED) => Codes::Fixed,
                    (None, USUAL) => Codes::Usual,
                    _ => return None,
                };
                blocks::write(&mut writer, last, &codes, &tokens)?;
            }
        }
        if at > end {
            return None;
        }
    }
    if last {
        let (pad, missing) = (take_byte(from)?, writer.missing());
        writer.put(u32::from(pad) & ((1 << missing) - 1), missing);
    }
    (at == before + own).then(|| writer.finish())
}

/// Codes that are described bit by bit.
fn take_described<'a>(from: &mut &'a [u8]) -> Option<(Trees, &'a [u8], usize)> {
    let bits = take_len(from, DESCRIBED_MAX)?;
    let (bytes, rest) = from.split_at_checked(bits.div_ceil(8))?;
    *from = rest;
    let mut reader = Reader::new(bytes, 0);
    let trees = Trees::read(&mut reader)?;
    (reader.at() == bits).then_some((trees, bytes, bits))
}

/// Tokens of a block: guessed, but for those that are told.
fn take_tokens(
    from: &mut &[u8],
    guesser: &mut Guesser<'_>,
    at: &mut usize,
    end: usize,
) -> Option<Vec<Token>> {
    let count = take_len(from, end - *at)?;
    let mut wrong = take_len(from, count)?;
    let mut next = |from: &mut &[u8]| match wrong.checked_sub(1) {
        Some(less) => {
            wrong = less;
            take_len(from, count).map(Some)
        }
        None => Some(None),
    };
    let mut tokens = Vec::with_capacity(count);
    let mut right = next(from)?;
    for _ in 0..count {
        let mut token = guesser.next(*at)?;
        if right == Some(0) {
            guesser.wrong();
            token = match take_len(from, 258)? {
                0 => Token::Literal(*guesser.text().get(*at)?),
                1 | 2 => return None,
                len => {
                    let far = take_len(from, BEFORE_MAX).filter(|&far| far > 0)?;
                    Token::Match { len: len as u16, far: far as u16 }
                }
            };
            right = next(from)?;
        } else {
            right = right.map(|right| right - 1);
        }
        *at += token.len();
        if *at > end {
            return None;
        }
        tokens.push(token);
    }
    right.is_none().then_some(tokens)
}

#[cfg(test)]
mod tests {
    use super::super::Stream;
    use super::*;

    /// Compressed as a program would that knows only blocks of one kind, and its text.
    fn stream(kind: u8, seed: u32) -> (Vec<u8>, Vec<u8>) {
        let mut text = Vec::new();
        let mut state = seed | 1;
        while text.len() < 300_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.extend(format!("word {} and {}, ", state >> 20, state >> 28).bytes());
        }
        let mut writer = Writer::default();
        let parts: Vec<_> = text.chunks(40_000).collect();
        let mut at = 0;
        let mut guesser = Guesser::new(&text, 0, Style::numbered(6).unwrap());
        for (number, part) in parts.iter().enumerate() {
            let last = number + 1 == parts.len();
            if kind == STORED {
                writer.put(u32::from(last), 3);
                let missing = writer.missing();
                writer.put(0x55 & ((1 << missing) - 1), missing);
                writer.put(part.len() as u32, 16);
                writer.put(!(part.len() as u32) & 0xffff, 16);
                writer.bytes(part);
                continue;
            }
            let (mut tokens, end) = (Vec::new(), at + part.len());
            while at < end {
                let mut token = guesser.next(at).unwrap();
                // Not what anybody would guess, and never across the border.
                if at + token.len() > end || at % 5000 < 3 {
                    token = Token::Literal(text[at]);
                    guesser.wrong();
                }
                at += token.len();
                tokens.push(token);
            }
            let codes = if kind == FIXED { Codes::Fixed } else { Codes::Usual };
            blocks::write(&mut writer, last, &codes, &tokens).unwrap();
        }
        let missing = writer.missing();
        writer.put(0x2a & ((1 << missing) - 1), missing);
        let mut bytes = writer.finish();
        bytes.extend(b"something behind it");
        (bytes, text)
    }

    #[test]
    fn a_stream_is_made_again_stretch_by_stretch() {
        for kind in [STORED, FIXED, USUAL] {
            let (bytes, text) = stream(kind, 7);
            let stream = Stream::open(&bytes, 1 << 20).unwrap();
            assert!(stream.text() == text, "{kind}");
            assert_eq!(stream.len() + 19, bytes.len());
            assert!(Stream::open(&bytes, 299_999).is_none(), "too much text");
            let (mut made, mut told) = (Vec::new(), 0);
            let stretches = stream.stretches();
            assert!(stretches.len() > 1);
            for stretch in stretches {
                let run = stream.run(stretch).unwrap();
                assert_eq!(run.bytes.start, made.len());
                let (mut from, mut own) = (&run.description[..], &text[run.text.clone()]);
                made.extend(rebuild(&mut from, &mut own).unwrap());
                assert!(from.is_empty() && own.is_empty());
                told += run.description.len();
            }
            assert!(made == bytes[..stream.len()], "{kind}");
            assert!(told < stream.len() / 50, "{told} of {}", stream.len());
        }
    }

    #[test]
    fn nothing_that_is_read_panics_or_takes_long() {
        for kind in [STORED, FIXED, USUAL] {
            let (bytes, text) = stream(kind, 9);
            let stream = Stream::open(&bytes, 1 << 20).unwrap();
            let run = stream.run(stream.stretches().swap_remove(0)).unwrap();
            for at in 0..run.description.len().min(200) {
                for wrong in [0, 1, 0x7f, 0x80, 0xff, run.description[at] ^ 1] {
                    let mut hostile = run.description.clone();
                    hostile[at] = wrong;
                    let _ = rebuild(&mut &hostile[..], &mut &text[run.text.clone()]);
                }
                assert!(rebuild(&mut &run.description[..at], &mut &text[..]).is_none());
            }
            for at in 0..300 {
                let mut hostile = bytes.clone();
                hostile[at * 97 % bytes.len()] ^= 1 << (at % 8);
                if let Some(stream) = Stream::open(&hostile[..40_000], 1 << 20) {
                    stream.stretches().into_iter().for_each(|stretch| drop(stream.run(stretch)));
                }
            }
        }
    }
}
