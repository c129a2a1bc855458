//! Codecs, all behind one trait.
//!
//! Neighbours: `page` and `block` say what is coded. Invariant: a decoder is given the exact plain
//! length, allocates nothing because of what the stored bytes say but a window bounded by it or by
//! the format, and answers damage with an error; a base only ever reaches a codec that takes one.

mod brotli;
mod digest;
mod feed;
pub mod jpeg;
mod lz4;
mod pcm;
mod shared;
mod xz;
mod zstd;

use std::io::Read;

use crate::error::{Damage, Error, Result, Unsupported};

pub use digest::Search;
pub use pcm::Shape;
pub use shared::{Encoder, Shared};

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Codec {
    /// Not at all.
    None,
    /// LZ4 block format: the quickest to read.
    Lz4,
    /// Zstandard.
    Zstd,
    /// LZMA2, as in xz.
    Xz,
    /// Brotli.
    Brotli,
    /// Sound, by linear prediction: its level is how samples lie in the bytes, a [`Shape`].
    Pcm,
    /// Scans of pictures of JPEG, by what is likely in their blocks. [`jpeg::Strip`] encodes.
    Jpeg,
}

/// A codec and how hard it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Which.
    pub codec: Codec,
    /// In the codec's own counting.
    pub level: i32,
}

impl std::fmt::Display for Setting {
    /// As users write it: `zstd:19`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.codec {
            Codec::None => f.write_str(Codec::None.name()),
            codec => write!(f, "{}:{}", codec.name(), self.level),
        }
    }
}

/// What every codec can do.
trait Coding {
    /// Appends the coded form of `plain` to `stored`. `base` is empty, unless the codec takes one.
    fn encode(&self, level: i32, plain: &[u8], base: &[u8], stored: &mut Vec<u8>) -> Result<()>;

    /// Fills `plain`, whose length is exactly that of what was encoded, whatever is in it.
    fn decode(&self, stored: &[u8], base: &[u8], plain: &mut [u8]) -> Result<()>;

    /// Fills `plain` with the first bytes of what was encoded, `whole` long, reading no more of
    /// `stored` than it must; `None` if the codec can only decode everything. `plain` has as much
    /// room as `head_room` says, of which only the first `len` bytes are filled for certain.
    fn decode_head(
        &self,
        stored: &mut dyn Read,
        base: &[u8],
        len: usize,
        whole: usize,
        plain: &mut [u8],
    ) -> Option<Result<()>>;

    /// How much room decoding the first `len` bytes of `whole` needs.
    fn head_room(&self, len: usize, _: usize) -> usize {
        len
    }

    /// Bytes that encoding so much takes, in about.
    fn encoding_memory(&self, level: i32, len: usize) -> u64;

    /// The least and the greatest level.
    fn levels(&self) -> (i32, i32);
}

/// No compression.
struct Plain;

impl Coding for Plain {
    fn encode(&self, _: i32, plain: &[u8], _: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        stored.extend_from_slice(plain);
        Ok(())
    }

    fn decode(&self, stored: &[u8], _: &[u8], plain: &mut [u8]) -> Result<()> {
        if stored.len() != plain.len() {
            return Err(Damage::Undecodable.into());
        }
        plain.copy_from_slice(stored);
        Ok(())
    }

    fn decode_head(
        &self,
        stored: &mut dyn Read,
        _: &[u8],
        _: usize,
        _: usize,
        plain: &mut [u8],
    ) -> Option<Result<()>> {
        Some(first(stored, plain))
    }

    fn encoding_memory(&self, _: i32, _: usize) -> u64 {
        0
    }

    fn levels(&self) -> (i32, i32) {
        (0, 0)
    }
}

/// What a decoder's reader said: the reader's own failure, carried through, or damage.
fn undecodable(error: &std::io::Error) -> Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    inner.copied().unwrap_or(Error::Damaged(Damage::Undecodable))
}

/// Fills `plain` with the first bytes that a decoder gives.
fn first(mut decoder: impl Read, plain: &mut [u8]) -> Result<()> {
    decoder.read_exact(plain).map_err(|error| undecodable(&error))
}

/// Fills `plain` with all that a decoder gives: its end must follow.
fn all(mut decoder: impl Read, plain: &mut [u8]) -> Result<()> {
    first(&mut decoder, plain)?;
    match decoder.read(&mut [0]) {
        Ok(0) => Ok(()),
        _ => Err(Damage::Undecodable.into()),
    }
}

/// A failure of ours on its way through a decoder's reader.
pub(crate) fn through(error: Error) -> std::io::Error {
    std::io::Error::other(error)
}

impl Codec {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Lz4, Self::Zstd, Self::Xz, Self::Brotli, Self::Pcm, Self::Jpeg];

    /// The number at rest.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The codec with this number.
    ///
    /// # Errors
    /// `Unsupported` for one that is not known here.
    pub fn numbered(number: u64) -> Result<Self> {
        let found = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        found.copied().ok_or_else(|| Unsupported::Codec(number).into())
    }

    /// As users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Brotli => "brotli",
            Self::Pcm => "pcm",
            Self::Jpeg => "jpeg",
        }
    }

    /// The codec of this name, but for those of sound and of pictures: they are for nothing else.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = if name == "lzma" { "xz" } else { name };
        Self::ALL.into_iter().find(|codec| codec.name() == name && codec.is_for_anything())
    }

    /// Whether it is for bytes of any kind.
    #[must_use]
    pub const fn is_for_anything(self) -> bool {
        !matches!(self, Self::Pcm | Self::Jpeg)
    }

    /// Whether it takes hardly any time, so that nothing is worth a look beforehand.
    #[must_use]
    pub const fn is_quick(self) -> bool {
        matches!(self, Self::None | Self::Lz4)
    }

    /// Whether a base may help it.
    #[must_use]
    pub const fn takes_base(self) -> bool {
        matches!(self, Self::Zstd)
    }

    /// The least and the greatest level.
    #[must_use]
    pub fn levels(self) -> (i32, i32) {
        self.coding().levels()
    }

    fn coding(self) -> &'static dyn Coding {
        match self {
            Self::None => &Plain,
            Self::Lz4 => &lz4::Lz4,
            Self::Zstd => &zstd::Zstd,
            Self::Xz => &xz::Xz,
            Self::Brotli => &brotli::Brotli,
            Self::Pcm => &pcm::Pcm,
            Self::Jpeg => &jpeg::Jpeg,
        }
    }

    /// Fills `plain`, which is exactly as long as what was encoded.
    ///
    /// # Errors
    /// `Undecodable`.
    pub fn decode(self, stored: &[u8], base: &[u8], plain: &mut [u8]) -> Result<()> {
        if !base.is_empty() && !self.takes_base() {
            return Err(Damage::Undecodable.into());
        }
        self.coding().decode(stored, base, plain)
    }

    /// How much room decoding the first `len` bytes of `whole` needs.
    pub(crate) fn head_room(self, len: usize, whole: usize) -> usize {
        self.coding().head_room(len, whole)
    }

    /// Fills `plain`, which has that much room, with the first `len` bytes of `whole`; `None` if only everything can be
    /// decoded.
    pub(crate) fn decode_head(
        self,
        stored: &mut dyn Read,
        base: &[u8],
        len: usize,
        whole: usize,
        plain: &mut [u8],
    ) -> Option<Result<()>> {
        if !base.is_empty() && !self.takes_base() {
            return Some(Err(Damage::Undecodable.into()));
        }
        self.coding().decode_head(stored, base, len, whole, plain)
    }
}

impl Setting {
    /// Everything as it is.
    pub const PLAIN: Self = Self::new(Codec::None, 0);
    /// What finds what comes again in hardly any time.
    pub const QUICK: Self = Self::new(Codec::Lz4, 1);

    /// A codec at its own level.
    #[must_use]
    pub const fn new(codec: Codec, level: i32) -> Self {
        Self { codec, level }
    }

    /// The stored form of `plain`, and its codec: none at all where the codec does not shrink it.
    ///
    /// # Errors
    /// What the codec says, which has no reason to.
    pub fn encode(self, plain: &[u8], base: &[u8]) -> Result<(Codec, Vec<u8>)> {
        let mut stored = Vec::new();
        if self.codec != Codec::None {
            let base = if self.codec.takes_base() { base } else { &[] };
            self.codec.coding().encode(self.level, plain, base, &mut stored)?;
            if stored.len() < plain.len() {
                return Ok((self.codec, stored));
            }
            stored.clear();
        }
        stored.extend_from_slice(plain);
        Ok((Codec::None, stored))
    }

    /// Bytes that encoding so much takes, in about, the stored form included.
    #[must_use]
    pub fn encoding_memory(self, len: usize) -> u64 {
        self.codec.coding().encoding_memory(self.level, len) + len as u64
    }
}
