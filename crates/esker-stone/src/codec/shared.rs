//! A base that many blocks share, made ready once for all of them, and the room to compress on it.
//!
//! Above: whoever packs. Below: the codec that takes a base. Invariant: the stored form depends on the plain bytes, the
//! base and the setting alone, whatever was compressed before, and by which thread.

use std::sync::OnceLock;

use super::zstd::{Ready, Room};
use super::{Codec, Setting};
use crate::error::Result;

/// A base that many blocks share.
pub struct Shared {
    plain: Vec<u8>,
    setting: Setting,
    ready: OnceLock<Option<Ready>>,
}

/// Compresses blocks, one after the other.
#[derive(Default)]
pub struct Encoder {
    room: Option<Room>,
}

impl Shared {
    /// A base with these plain bytes, for blocks of this setting.
    #[must_use]
    pub const fn new(plain: Vec<u8>, setting: Setting) -> Self {
        Self { plain, setting, ready: OnceLock::new() }
    }
}

impl Encoder {
    /// As [`Setting::encode`] on this base. Whoever comes first makes it ready; others wait.
    ///
    /// # Errors
    /// What the codec says, which has no reason to.
    pub fn encode(&mut self, plain: &[u8], base: &Shared) -> Result<(Codec, Vec<u8>)> {
        let Setting { codec, level } = base.setting;
        let make = || if codec == Codec::Zstd { Ready::new(level, &base.plain) } else { None };
        let Some(ready) = base.ready.get_or_init(make) else {
            return base.setting.encode(plain, &base.plain);
        };
        let room = match &mut self.room {
            Some(room) => room,
            none => none.insert(Room::new()?),
        };
        let mut stored = Vec::new();
        room.encode(plain, ready, &mut stored)?;
        if stored.len() < plain.len() {
            return Ok((codec, stored));
        }
        Ok((Codec::None, plain.to_vec()))
    }
}
