//! The size that a file may have, where it has a limit of its own: an extended attribute, kept with the file.
//!
//! Neighbours: whoever makes a file longer asks here; `xattr` keeps what is said. Invariant: an inode's flags tell
//! whether it has a limit, so that others pay nothing for it.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::xattr::XattrMode;
use super::{Caller, Fs};
use crate::attr::Attr;
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::FILE_SIZE_MAX;
use crate::name::XattrName;
use crate::store::{Store, View};

/// The attribute: bytes, as a decimal number.
pub(super) const SIZE_MAX: &[u8] = b"trusted.esker.size_max";
/// Kept in an inode's flags: it has a limit of its own.
pub(super) const LIMITED: u32 = 1 << 27;

/// What an attribute's value says; `Invalid` when it is no number.
pub(super) fn parse(value: &[u8]) -> Result<u64> {
    let text = core::str::from_utf8(value).map_err(|_| Error::Invalid)?;
    text.parse().map_err(|_| Error::Invalid)
}

impl<S: View> Fs<S> {
    /// The limit that [`Fs::set_size_limit`] gave a file, in bytes.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` for what has no size; `Corrupt`.
    pub fn size_limit(&self, ino: Ino) -> Result<Option<u64>> {
        let attr = self.file(ino)?;
        self.limit_of(ino, &attr)
    }

    fn limit_of(&self, ino: Ino, attr: &Attr) -> Result<Option<u64>> {
        if attr.flags.0 & LIMITED == 0 {
            return Ok(None);
        }
        let mut value = Vec::new();
        self.store.xattr(ino, XattrName::parse(SIZE_MAX)?, &mut value)?;
        parse(&value).map(Some).map_err(|_| Error::Corrupt)
    }

    /// Whether a file may end there. What is longer already may stay so.
    #[inline]
    pub(super) fn may_reach(&self, ino: Ino, attr: &Attr, end: u64) -> Result<()> {
        if attr.flags.0 & LIMITED == 0 || end <= attr.size {
            return Ok(());
        }
        let size_max = self.limit_of(ino, attr)?.unwrap_or(FILE_SIZE_MAX);
        if end <= size_max { Ok(()) } else { Err(Error::FileTooBig) }
    }
}

impl<S: Store> Fs<S> {
    /// From now on the file grows no longer than so many bytes; without a number, as long as any. A file that is longer
    /// stays, and can be made shorter.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` for what has no size; `NotPermitted`, `NoSpace`.
    pub fn set_size_limit(
        &self,
        caller: &Caller<'_>,
        ino: Ino,
        size_max: Option<u64>,
    ) -> Result<()> {
        let attr = self.file(ino)?;
        let name = XattrName::parse(SIZE_MAX)?;
        match size_max {
            Some(size_max) => {
                let value = size_max.to_string();
                self.setxattr(caller, ino, name, value.as_bytes(), XattrMode::Any, false)
            }
            None if attr.flags.0 & LIMITED == 0 => Ok(()),
            None => self.removexattr(caller, ino, name),
        }
    }
}
