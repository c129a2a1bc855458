//! Keys: put together from their parts, compared, cut.
//!
//! Invariant: a [`KeyBuf`] holds at most [`KEY_LEN_MAX`] bytes; a longer key cannot come from a
//! sound page.

use core::ops::Deref;

use crate::error::{Error, Result};
use crate::ground::short::{self, same};
use crate::limits::KEY_LEN_MAX;

/// Bytes of a key that are kept in its slot.
pub const HEAD_LEN: usize = 4;

/// Words that hold any key.
const WORDS: usize = KEY_LEN_MAX.div_ceil(8);

/// A whole key, on the stack.
#[derive(Clone, Debug)]
pub struct KeyBuf {
    words: [[u8; 8]; WORDS],
    len: usize,
}

impl KeyBuf {
    /// The empty key.
    #[inline]
    pub fn new() -> Self {
        Self { words: short::zeros(), len: 0 }
    }

    /// Bytes of the key, if so many fit.
    #[inline]
    fn part(&mut self, start: usize, len: usize) -> Option<&mut [u8]> {
        let bytes = &mut self.words.as_flattened_mut()[..KEY_LEN_MAX];
        bytes.get_mut(start..start + len)
    }

    /// Keeps the first `len` bytes and puts `tail` behind them. `Corrupt` when that is too long.
    #[inline]
    pub fn set_tail(&mut self, len: usize, tail: &[u8]) -> Result<()> {
        let target = self.part(len, tail.len()).ok_or(Error::Corrupt)?;
        short::copy(target, tail);
        self.len = len + tail.len();
        Ok(())
    }

    /// Keeps the first `len` bytes and puts the first `head_len` of `head` behind them. `Corrupt` if that is too long.
    #[inline]
    pub fn set_head(&mut self, len: usize, head: [u8; HEAD_LEN], head_len: usize) -> Result<()> {
        match self.part(len, HEAD_LEN) {
            Some(target) if head_len <= HEAD_LEN => {
                target.copy_from_slice(&head);
                self.len = len + head_len;
                Ok(())
            }
            _ => self.set_tail(len, &head[..head_len.min(HEAD_LEN)]),
        }
    }

    /// Keeps the first `len` bytes, if there are more.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for KeyBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.words.as_flattened()[..self.len]
    }
}

/// A suffix as it is kept: its first bytes as a number that sorts like them, and the rest.
///
/// Two suffixes compare as their heads; if these are equal, as their rests; then as their lengths,
/// for a short suffix is filled up with zeros.
#[inline]
pub fn cut(suffix: &[u8]) -> (u32, &[u8]) {
    if let Some((head, rest)) = suffix.split_first_chunk() {
        return (u32::from_be_bytes(*head), rest);
    }
    let head = match *suffix {
        [a, b, c, ..] => [a, b, c, 0],
        [a, b] => [a, b, 0, 0],
        [a] => [a, 0, 0, 0],
        [] => [0; HEAD_LEN],
    };
    (u32::from_be_bytes(head), &[])
}

/// What follows `prefix` in a key that begins with it.
#[inline]
pub fn suffix_behind<'k>(key: &'k [u8], prefix: &[u8]) -> Option<&'k [u8]> {
    let (start, suffix) = key.split_at_checked(prefix.len())?;
    same(start, prefix).then_some(suffix)
}

/// How many bytes of a suffix are not in its head.
#[inline]
pub const fn rest_len(suffix_len: usize) -> usize {
    suffix_len.saturating_sub(HEAD_LEN)
}

/// How many bytes two keys have in common at their beginning.
pub fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
