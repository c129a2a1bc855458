//! Pages: the small pieces that metadata is compressed and checked in.
//!
//! Above: `tree`, `root`. Below: `codec`, `check`. Invariant: no byte of a page is believed before its
//! checksum, which stands in the page above, has been compared.

use crate::check::{Covered, Hash, hash};
use crate::codec::{Codec, Setting};
use crate::error::{Damage, Result};
use crate::limits::{PAGE_LEN_MAX, PAGE_STORED_LEN_MAX};

/// All that must be known to read a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef {
    /// The segment that holds it.
    pub segment: u64,
    /// Its offset in the segment.
    pub at: u64,
    /// Its stored length.
    pub stored: u32,
    /// Its plain length.
    pub plain: u32,
    /// Its codec.
    pub codec: Codec,
    /// Of the stored bytes.
    pub checksum: u64,
    /// Of the plain bytes.
    pub hash: Hash,
}

/// A page that is compressed and has no place yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The stored bytes.
    pub stored: Vec<u8>,
    /// How they are coded.
    pub codec: Codec,
    /// Whether they need the base.
    pub based: bool,
    plain_len: u32,
    hash: Hash,
}

impl Sealed {
    /// Compresses: without the base, or with it where that is shorter.
    ///
    /// # Errors
    /// What the codec says.
    pub fn new(plain: &[u8], base: &[u8], setting: Setting) -> Result<Self> {
        debug_assert!(plain.len() <= PAGE_LEN_MAX, "a page that is too large");
        let (mut codec, mut stored) = setting.encode(plain, &[])?;
        let mut based = false;
        if !base.is_empty() && setting.codec.takes_base() {
            let (other_codec, other) = setting.encode(plain, base)?;
            if other.len() < stored.len() {
                (codec, stored, based) = (other_codec, other, true);
            }
        }
        Ok(Self { stored, codec, based, plain_len: plain.len() as u32, hash: hash(plain) })
    }
}

impl PageRef {
    /// Checks what can be checked without the page.
    ///
    /// # Errors
    /// `Range`.
    pub fn checked(self) -> Result<Self> {
        let fits = self.stored as usize <= PAGE_STORED_LEN_MAX
            && self.plain as usize <= PAGE_LEN_MAX
            && self.at.checked_add(self.stored.into()).is_some();
        if fits { Ok(self) } else { Err(Damage::Range.into()) }
    }

    const fn covered(&self) -> Covered {
        Covered { segment: self.segment, number: self.at }
    }

    /// Of a page that lies at offset `at` of a segment.
    #[must_use]
    pub fn new((segment, at): (u64, u64), sealed: &Sealed) -> Self {
        let covered = Covered { segment, number: at };
        Self {
            segment,
            at,
            stored: sealed.stored.len() as u32,
            plain: sealed.plain_len,
            codec: sealed.codec,
            checksum: covered.checksum(0, &sealed.stored),
            hash: sealed.hash,
        }
    }

    /// Compares stored bytes with the checksum.
    ///
    /// # Errors
    /// `Checksum`.
    pub fn verify(&self, stored: &[u8]) -> Result<()> {
        let right = stored.len() == self.stored as usize
            && self.covered().checksum(0, stored) == self.checksum;
        if right { Ok(()) } else { Err(Damage::Checksum.into()) }
    }

    /// The plain bytes of what [`verify`](Self::verify) has found right.
    ///
    /// # Errors
    /// `Undecodable`.
    pub fn open(&self, stored: &[u8], base: &[u8]) -> Result<Vec<u8>> {
        let mut plain = vec![0; self.plain as usize];
        self.codec.decode(stored, base, &mut plain)?;
        Ok(plain)
    }
}
