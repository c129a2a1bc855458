//! Blocks of deflate (RFC 1951), taken apart into tokens, and put together again.
//!
//! Above: `stream`, `recipe`. Below: `huffman`, `bits`. Invariant: a block that was taken apart reaches back no further
//! than the format lets it, and is made of no more than [`BLOCK_TOKENS_MAX`]; anything else is refused.

use core::ops::Range;

use super::bits::{Reader, Writer};
use super::huffman::{DISTANCES, Decoder, END, LITERALS, Trees, codes};

/// Most tokens of a block: encoders make no more than some ten thousand.
const BLOCK_TOKENS_MAX: usize = 512 << 10;

/// The shortest length of each code, and how many bits follow.
const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

/// The shortest distance of a code, and how many bits follow.
const fn distance(code: usize) -> (usize, u32) {
    if code < 4 {
        return (code + 1, 0);
    }
    let bits = code / 2 - 1;
    (((2 + code % 2) << bits) + 1, bits as u32)
}

/// The code of each length.
const LENGTH_CODES: [u8; 259] = length_codes();

const fn length_codes() -> [u8; 259] {
    let (mut codes, mut len, mut code) = ([0; 259], 3, 0);
    while len < codes.len() {
        if code + 1 < LENGTHS.len() && LENGTHS[code + 1].0 as usize <= len {
            code += 1;
        }
        codes[len] = code as u8;
        len += 1;
    }
    codes
}

/// The code of a length.
fn length_code(len: u16) -> usize {
    LENGTH_CODES[usize::from(len)].into()
}

/// The code of a distance.
fn distance_code(far: u16) -> usize {
    let far = usize::from(far) - 1;
    if far < 4 {
        return far;
    }
    let bits = far.ilog2() as usize - 1;
    2 * bits + (far >> bits)
}

/// What a block is made of: the next byte, or bytes that were there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Literal(u8),
    Match { len: u16, far: u16 },
}

impl Token {
    /// Bytes of text that it stands for.
    pub fn len(self) -> usize {
        match self {
            Self::Literal(_) => 1,
            Self::Match { len, .. } => len.into(),
        }
    }
}

/// What a block holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Bytes as they are, and what the bits before them were, up to a whole byte.
    Stored { pad: u8, bytes: Vec<u8> },
    /// Tokens in codes that are always the same.
    Fixed(Vec<Token>),
    /// Tokens in codes of its own, which these bits describe.
    Dynamic { described: Range<usize>, trees: Trees, tokens: Vec<Token> },
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub last: bool,
    pub held: Held,
}

/// Takes the next block apart, of at most so many bytes of text.
pub(super) fn read(reader: &mut Reader<'_>, text_max: usize) -> Option<Block> {
    let last = reader.take(1)? == 1;
    let held = match reader.take(2)? {
        0 => {
            let pad = reader.pad()? as u8;
            let (len, not) = (reader.take(16)?, reader.take(16)?);
            if len ^ not != 0xffff {
                return None;
            }
            Held::Stored { pad, bytes: reader.bytes(len as usize)?.to_vec() }
        }
        1 => Held::Fixed(tokens(reader, &Trees::fixed(), text_max)?),
        2 => {
            let from = reader.at();
            let trees = Trees::read(reader)?;
            let described = from..reader.at();
            let tokens = tokens(reader, &trees, text_max)?;
            Held::Dynamic { described, trees, tokens }
        }
        _ => return None,
    };
    Some(Block { last, held })
}

fn tokens(reader: &mut Reader<'_>, trees: &Trees, text_max: usize) -> Option<Vec<Token>> {
    let (literals, distances) = (Decoder::new(&trees.literals)?, Decoder::new(&trees.distances)?);
    let (mut tokens, mut text) = (Vec::new(), 0);
    loop {
        let token = match literals.next(reader)? {
            END => return Some(tokens),
            byte @ 0..END => Token::Literal(byte as u8),
            code => {
                let (least, bits) = *LENGTHS.get(code - END - 1)?;
                let len = least + reader.take(bits.into())? as u16;
                let code = distances.next(reader)?;
                let (least, bits) = Some(distance(code)).filter(|_| code < DISTANCES)?;
                Token::Match { len, far: (least + reader.take(bits)? as usize) as u16 }
            }
        };
        text += token.len();
        if text > text_max || tokens.len() == BLOCK_TOKENS_MAX {
            return None;
        }
        tokens.push(token);
    }
}

/// Adds the text of a block to what comes before it.
pub(super) fn expand(held: &Held, text: &mut Vec<u8>) -> Option<()> {
    let tokens = match held {
        Held::Stored { bytes, .. } => {
            text.extend_from_slice(bytes);
            return Some(());
        }
        Held::Fixed(tokens) | Held::Dynamic { tokens, .. } => tokens,
    };
    for token in tokens {
        match *token {
            Token::Literal(byte) => text.push(byte),
            Token::Match { len, far } => {
                let (len, far) = (usize::from(len), usize::from(far));
                let mut from = text.len().checked_sub(far)?;
                let mut left = len;
                while left > 0 {
                    // What is far away goes over as one; what overlaps itself grows as it goes.
                    let now = left.min(text.len() - from);
                    text.extend_from_within(from..from + now);
                    (from, left) = (from + now, left - now);
                }
            }
        }
    }
    Some(())
}

/// How a block of tokens describes its codes.
pub(super) enum Codes<'a> {
    /// They are always the same.
    Fixed,
    /// As zlib makes and describes them.
    Usual,
    /// These, which so many bits of these bytes describe.
    Own(&'a Trees, &'a [u8], usize),
}

/// The codes that zlib would make for these tokens.
pub(super) fn usual(tokens: &[Token]) -> Trees {
    let (mut literals, mut distances) = ([0; LITERALS], [0; DISTANCES]);
    literals[END] = 1;
    for token in tokens {
        match *token {
            Token::Literal(byte) => literals[usize::from(byte)] += 1,
            Token::Match { len, far } => {
                literals[END + 1 + length_code(len)] += 1;
                distances[distance_code(far)] += 1;
            }
        }
    }
    Trees::made(&mut literals, &mut distances)
}

/// Writes a block of tokens. `None`: its codes lack one that it needs.
pub(super) fn write(
    writer: &mut Writer,
    last: bool,
    of: &Codes<'_>,
    tokens: &[Token],
) -> Option<()> {
    writer.put(last.into(), 1);
    let made;
    let trees = match *of {
        Codes::Fixed => {
            writer.put(1, 2);
            made = Trees::fixed();
            &made
        }
        Codes::Usual => {
            writer.put(2, 2);
            made = usual(tokens);
            made.write(writer);
            &made
        }
        Codes::Own(trees, described, bits) => {
            writer.put(2, 2);
            let mut reader = Reader::new(described, 0);
            for from in (0..bits).step_by(32) {
                let now = (bits - from).min(32) as u32;
                writer.put(reader.take(now)?, now);
            }
            trees
        }
    };
    let (literals, distances) = (codes(&trees.literals), codes(&trees.distances));
    let mut put = |all: &[(u16, u32)], symbol: usize, extra: usize, bits: u32| {
        let &(code, len) = all.get(symbol).filter(|(_, len)| *len > 0)?;
        // A code has 15 bits at most, and what follows it 13.
        writer.put(u32::from(code) | (extra as u32) << len, len + bits);
        Some(())
    };
    for token in tokens {
        match *token {
            Token::Literal(byte) => put(&literals, byte.into(), 0, 0)?,
            Token::Match { len, far } => {
                let (of_len, of_far) = (length_code(len), distance_code(far));
                let (least, bits) = LENGTHS[of_len];
                put(&literals, END + 1 + of_len, (len - least).into(), bits.into())?;
                let (least, bits) = distance(of_far);
                put(&distances, of_far, usize::from(far) - least, bits)?;
            }
        }
    }
    put(&literals, END, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_lengths_and_distances_cover_all() {
        for len in 3..=258 {
            let (least, bits) = LENGTHS[length_code(len)];
            assert!(len >= least && len - least < 1 << bits, "{len}");
        }
        for far in 1..=32768u16 {
            let code = distance_code(far);
            let (least, bits) = distance(code);
            assert!(code < DISTANCES && usize::from(far) >= least, "{far}");
            assert!(usize::from(far) - least < 1 << bits, "{far}");
        }
    }

    #[test]
    fn a_block_is_written_as_it_was_read() {
        let tokens: Vec<Token> = (0..3000u16)
            .map(|at| match at % 7 {
                0 if at > 10 => Token::Match { len: 3 + at % 256, far: 1 + at % at.min(9) },
                _ => Token::Literal(((u32::from(at) * 31) >> 3) as u8),
            })
            .collect();
        for of in [Codes::Fixed, Codes::Usual] {
            let mut writer = Writer::default();
            write(&mut writer, true, &of, &tokens).unwrap();
            let bits = writer.len();
            let missing = writer.missing();
            writer.put(0, missing);
            let bytes = writer.finish();
            let mut reader = Reader::new(&bytes, 0);
            let block = read(&mut reader, usize::MAX).unwrap();
            assert!(block.last && reader.at() == bits);
            let (Held::Fixed(found) | Held::Dynamic { tokens: found, .. }) = &block.held else {
                panic!("it holds tokens")
            };
            assert_eq!(*found, tokens);
            let mut text = Vec::new();
            expand(&block.held, &mut text).unwrap();
            assert_eq!(text.len(), tokens.iter().map(|token| token.len()).sum::<usize>());
        }
    }
}
