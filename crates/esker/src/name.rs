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
        if is_reserved(bytes) || !plain(bytes) {
            return Err(Error::Invalid);
        }
        Ok(Self(bytes))
    }

    /// The name that a path begins with, if it begins with one, and what follows that: nothing, or a slash and more.
    #[inline]
    pub(crate) fn first(path: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let end = special(path).unwrap_or(path.len());
        let (name, behind) = path.split_at(end);
        let parsed = end <= NAME_LEN_MAX && !is_reserved(name) && behind.first() != Some(&0);
        parsed.then_some((Self(name), behind))
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Names that every directory has.
#[inline]
const fn is_reserved(name: &[u8]) -> bool {
    matches!(name, [] | b"." | b"..")
}

/// Bits of a word of bytes, of which the lowest is in the first that is `/` or NUL; none if there is no such.
#[inline]
const fn wrong(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const SLASHES: u64 = u64::from_ne_bytes([b'/'; 8]);
    let (nul, slash) = (u64::from_le_bytes(word), u64::from_le_bytes(word) ^ SLASHES);
    // The lowest byte that is zero borrows from its top bit, which it has not set itself.
    let nuls = nul.wrapping_sub(ONES) & !nul;
    let slashes = slash.wrapping_sub(ONES) & !slash;
    (nuls | slashes) & (ONES << 7)
}

/// Whether there is neither a `/` nor a NUL, eight bytes at a time, the last eight of which may overlap those before.
#[inline]
fn plain(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk() else {
        return bytes.iter().all(|&byte| byte != b'/' && byte != 0);
    };
    let words = bytes.as_chunks().0.iter();
    words.fold(wrong(*last), |found, word| found | wrong(*word)) == 0
}

/// Where the first `/` or NUL is.
#[inline]
fn special(bytes: &[u8]) -> Option<usize> {
    let Some(last) = bytes.last_chunk() else {
        return bytes.iter().position(|&byte| byte == b'/' || byte == 0);
    };
    let at = |found: u64, start| start + found.trailing_zeros() as usize / 8;
    for (index, word) in bytes.as_chunks().0.iter().enumerate() {
        let found = wrong(*word);
        if found != 0 {
            return Some(at(found, index * 8));
        }
    }
    let found = wrong(*last);
    if found == 0 { None } else { Some(at(found, bytes.len() - 8)) }
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
                    let whole = Name::parse(&bytes[..len]).map(|name| (name, &b""[..])).ok();
                    let cut = Name::parse(&bytes[..at]).map(|name| (name, &bytes[at..len])).ok();
                    let first = if byte == b'/' { cut } else { whole };
                    assert_eq!(Name::first(&bytes[..len]), first, "{byte} at {at}");
                }
            }
        }
    }
}
