//! Frames: a stream is one behind the other.
//!
//! Above: `send`, `receive`. Invariant: a frame that was read is the one that was written, behind exactly those that
//! were written before it; none takes more memory than the largest that there may be.
#![expect(missing_docs, reason = "fields have their meanings in FORMAT.md")]

use std::fmt;
use std::io::{ErrorKind, Read, Write};

use esker::layout;
use esker_stone::check::checksum;
use esker_stone::{Codec, Hash, Setting, hash, hex};

use super::{Error, MOST, Result, Step};

/// How a frame begins.
pub const MAGIC: [u8; 8] = *b"EskrSend";
/// The part of a head that its checksum does not cover.
const UNCHECKED: usize = 16;

layout! {
    /// In front of a frame.
    pub struct FrameHead: 80 {
        0 => magic: [u8; 8],
        8 => checksum: u64,
        16 => number: u64,
        24 => step: u32,
        28 => codec: u32,
        32 => stored: u32,
        36 => plain: u32,
        40 => reserved: u64,
        48 => chain: [u8; 32],
    }
}

/// How far somebody is in a stream: so many frames, and the hash of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// How many.
    pub frames: u64,
    /// Of the hash of those before the last, and the last.
    pub chain: Hash,
}

impl Mark {
    /// One frame further.
    #[must_use]
    pub fn after(&self, step: Step, plain: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(44 + plain.len());
        bytes.extend(self.chain);
        bytes.extend(self.frames.to_le_bytes());
        bytes.extend((step as u32).to_le_bytes());
        bytes.extend_from_slice(plain);
        Self { frames: self.frames + 1, chain: hash(&bytes) }
    }

    /// From its words.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (frames, digits) = text.trim().split_once(':')?;
        let is_number = frames.bytes().all(|byte| byte.is_ascii_digit());
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) || !is_number
        {
            return None;
        }
        let mut chain = [0; 32];
        for (at, byte) in chain.iter_mut().enumerate() {
            *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self { frames: frames.parse().ok()?, chain })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.frames, hex(&self.chain))
    }
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its number, from 0.
    pub number: u64,
    /// What is done in it.
    pub step: Step,
    /// Its words.
    pub plain: Vec<u8>,
    /// Over it and all before it.
    pub chain: Hash,
}

impl Frame {
    /// Writes it.
    ///
    /// # Errors
    /// `Write`.
    pub fn write(&self, setting: Setting, out: &mut dyn Write) -> Result<()> {
        let refused = |_| Error::Write(ErrorKind::InvalidData.into());
        let (codec, stored) = setting.encode(&self.plain, &[]).map_err(refused)?;
        let head = FrameHead {
            magic: MAGIC,
            checksum: 0,
            number: self.number,
            step: self.step as u32,
            codec: codec.number().into(),
            stored: stored.len() as u32,
            plain: self.plain.len() as u32,
            reserved: 0,
            chain: self.chain,
        };
        let sealed = FrameHead { checksum: covered(&head, &stored), ..head };
        out.write_all(&sealed.encode()).map_err(Error::Write)?;
        out.write_all(&stored).map_err(Error::Write)
    }

    /// How far it goes.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark { frames: self.number + 1, chain: self.chain }
    }
}

fn covered(head: &FrameHead, stored: &[u8]) -> u64 {
    checksum(&[&head.encode()[UNCHECKED..], stored].concat())
}

/// Frames of a stream.
pub struct Frames<R> {
    input: R,
    /// How far it was read.
    at: Mark,
}

impl<R: Read> Frames<R> {
    /// From the beginning of a stream.
    pub fn new(input: R) -> Self {
        Self { input, at: Mark::default() }
    }

    /// Fills the target; whether there was anything.
    fn fill(&mut self, target: &mut [u8]) -> Result<bool> {
        let mut done = 0;
        while done < target.len() {
            match self.input.read(&mut target[done..]) {
                Ok(0) if done == 0 => return Ok(false),
                Ok(0) => return Err(Error::Cut),
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Read(error)),
            }
        }
        Ok(true)
    }

    /// Whether nothing comes behind what was read.
    ///
    /// # Errors
    /// `Read`.
    pub fn is_at_end(&mut self) -> Result<bool> {
        self.fill(&mut [0]).map(|any| !any)
    }

    /// The next frame, which follows the one before it or, behind the first, the mark of who reads.
    ///
    /// # Errors
    /// `Cut` where there is none; `NoStream`, `Damaged`, `Gap`, `OtherStream`, `Read`.
    pub fn next(&mut self, known: &Mark) -> Result<Frame> {
        let mut bytes = [0; FrameHead::SIZE];
        if !self.fill(&mut bytes)? {
            return Err(Error::Cut);
        }
        let damaged = Error::Damaged(self.at.frames);
        let Some(head) = FrameHead::decode(&bytes) else { return Err(damaged) };
        if head.magic != MAGIC {
            return Err(if self.at.frames == 0 { Error::NoStream } else { damaged });
        }
        let (stored_len, plain_len) = (head.stored as usize, head.plain as usize);
        if plain_len > MOST || stored_len > plain_len || head.reserved != 0 {
            return Err(damaged);
        }
        let mut stored = vec![0; stored_len];
        if stored_len > 0 && !self.fill(&mut stored)? {
            return Err(Error::Cut);
        }
        let (step, codec) = (Step::numbered(head.step), Codec::numbered(head.codec.into()));
        let (Some(step), Ok(codec)) = (step, codec) else { return Err(damaged) };
        if covered(&head, &stored) != head.checksum {
            return Err(damaged);
        }
        let mut plain = vec![0; plain_len];
        if codec.decode(&stored, &[], &mut plain).is_err() {
            return Err(damaged);
        }
        let goes_on = self.at.frames == 1 && head.number == known.frames;
        let before = if head.number == self.at.frames {
            self.at
        } else if goes_on {
            *known
        } else {
            return Err(Error::Gap(self.at.frames.max(known.frames)));
        };
        let after = before.after(step, &plain);
        if after.chain != head.chain {
            return Err(if goes_on { Error::OtherStream } else { damaged });
        }
        self.at = after;
        Ok(Frame { number: head.number, step, plain, chain: head.chain })
    }
}
