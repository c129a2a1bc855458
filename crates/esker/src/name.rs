//! Names, parsed once: inside, they cannot be wrong.

use crate::error::{Error, Result};
use crate::limits::{NAME_LEN_MAX, XATTR_NAME_LEN_MAX};

/// The name of a directory entry: 1 to 255 bytes of any value but `/` and NUL, and neither `.` nor `..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// Checks the bytes.
    ///
    /// # Errors
    /// `NameTooLong` over 255 bytes; `Invalid` when empty, `.`, `..`, or with a `/` or NUL in it.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        if bytes.len() > NAME_LEN_MAX {
            return Err(Error::NameTooLong);
        }
        let reserved = matches!(bytes, [] | b"." | b"..");
        if reserved || !plain(bytes) {
            return Err(Error::Invalid);
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Whether there is neither a `/` nor a NUL, eight bytes at a time, the last eight of which may overlap those before.
#[inline]
fn plain(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const SLASHES: u64 = u64::from_ne_bytes([b'/'; 8]);
    // The lowest byte that is zero borrows from its top bit, which it has not set itself.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let wrong = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        zero(word) | zero(word ^ SLASHES)
    };
    let Some(last) = bytes.last_chunk() else {
        return bytes.iter().all(|&byte| byte != b'/' && byte != 0);
    };
    let words = bytes.as_chunks().0.iter();
    words.fold(wrong(last), |found, word| found | wrong(word)) == 0
}

/// The name of an extended attribute with its namespace, as in `user.colour`: 1 to 255 bytes without NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XattrName<'a>(&'a [u8]);

impl<'a> XattrName<'a> {
    /// Checks the bytes.
    ///
    /// # Errors
    /// `Range` over 255 bytes or when empty (what Linux answers); `Invalid` with a NUL in it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        if bytes.is_empty() || bytes.len() > XATTR_NAME_LEN_MAX {
            return Err(Error::Range);
        }
        if bytes.contains(&0) {
            return Err(Error::Invalid);
        }
        Ok(Self(bytes))
    }

    /// The bytes, namespace included.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_or_a_nul_is_seen_wherever_it_is() {
        for len in 1..=40 {
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    let mut bytes = [b'x'; 40];
                    bytes[at] = byte;
                    let wrong = byte == b'/' || byte == 0 || (len == 1 && byte == b'.');
                    assert_eq!(Name::parse(&bytes[..len]).is_err(), wrong, "{byte} at {at}");
                }
            }
        }
    }
}
