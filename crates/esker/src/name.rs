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
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        if bytes.len() > NAME_LEN_MAX {
            return Err(Error::NameTooLong);
        }
        let reserved = bytes.is_empty() || bytes == b"." || bytes == b"..";
        if reserved || bytes.iter().any(|&byte| byte == b'/' || byte == 0) {
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
