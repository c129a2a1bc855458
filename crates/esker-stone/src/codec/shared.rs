//! A base that many blocks share, made ready once for all of them, and the room to compress on it.
//!
//! Above: whoever packs. Below: the codec that takes a base. Invariant: the stored form depends on the plain bytes, the
//! base, the setting and the search alone, whatever was compressed before, and by which thread.

use std::sync::OnceLock;

use super::digest::{Digest, Room, Search, digest_memory};
use super::zstd::is_misread;
use super::{Codec, Setting};
use crate::error::Result;

/// A base that many blocks share.
pub struct Shared {
    plain: Vec<u8>,
    setting: Setting,
    search: Search,
    digest: OnceLock<Option<Digest>>,
}

/// Compresses blocks, one after the other.
#[derive(Default)]
pub struct Encoder {
    room: Option<Room>,
}

impl Shared {
    /// A base with these plain bytes, for blocks of this setting.
    #[must_use]
    pub const fn new(plain: Vec<u8>, setting: Setting, search: Search) -> Self {
        Self { plain, setting, search, digest: OnceLock::new() }
    }

    /// Bytes of memory that one of so many plain bytes takes.
    #[must_use]
    pub fn memory(setting: Setting, len: usize) -> u64 {
        let digest = match setting.codec {
            Codec::Zstd => digest_memory(setting.level, len),
            _ => 0,
        };
        digest + len as u64
    }

    /// `None` where no codec does so, and for a base that its library would misunderstand.
    fn look_through(&self) -> Option<Digest> {
        let Setting { codec, level } = self.setting;
        if codec != Codec::Zstd || self.plain.is_empty() || is_misread(&self.plain) {
            return None;
        }
        Digest::new(&self.plain, level, self.search)
    }
}

impl Encoder {
    /// As [`Setting::encode`] on this base. Whoever comes first makes it ready; others wait.
    ///
    /// # Errors
    /// What the codec says, which has no reason to.
    pub fn encode(&mut self, plain: &[u8], base: &Shared) -> Result<(Codec, Vec<u8>)> {
        let Some(digest) = base.digest.get_or_init(|| base.look_through()) else {
            return base.setting.encode(plain, &base.plain);
        };
        let room = match &mut self.room {
            Some(room) => room,
            none => none.insert(Room::new()?),
        };
        let stored = room.encode(plain, digest)?;
        if stored.len() < plain.len() {
            return Ok((base.setting.codec, stored.to_vec()));
        }
        Ok((Codec::None, plain.to_vec()))
    }
}
