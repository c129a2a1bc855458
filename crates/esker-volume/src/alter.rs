//! What can be changed of a volume that was made: its size, its name, what is kept back, how what is new is compressed.
//!
//! Above: verbs. Below: `settle`. Invariant: one superblock says all of it, so all of it is so, or nothing.

use esker_stone::Setting;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::limits::SEGMENTS_MAX;
use crate::superblock::Superblock;
use crate::volume::Volume;

/// What is to be another; `None`: as it was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// Bytes, rounded down to whole segments; it only grows.
    pub size: Option<u64>,
    /// A name for people.
    pub label: Option<[u8; 32]>,
    /// Bytes that are kept back.
    pub reserve: Option<u64>,
    /// How what is new is compressed.
    pub setting: Option<Setting>,
}

impl Change {
    /// The same volume with it.
    fn of(&self, old: &Superblock) -> Superblock {
        let setting = self.setting.unwrap_or_else(|| old.setting());
        Superblock {
            size: self.size.map_or(old.size, |size| size / old.segment_len * old.segment_len),
            label: self.label.unwrap_or(old.label),
            reserve: self.reserve.unwrap_or(old.reserve),
            codec: setting.codec.number().into(),
            level: setting.level.cast_unsigned(),
            ..*old
        }
    }
}

impl<D: Device> Volume<D> {
    /// Changes it. Whoever goes on with it opens it anew.
    ///
    /// # Errors
    /// `Setting` for what does not fit; `ReadOnly`, `NoSpace`; what the device says.
    pub fn alter(self, change: &Change) -> Result<Superblock> {
        self.writable()?;
        let mut log = self.log();
        let new = change.of(&log.superblock);
        self.fits(&new)?;
        self.prepare(&mut log)?;
        // From here on nothing is half-way: what is written next holds all of the log, and the new shape.
        self.settle_all(&mut log)?;
        self.segments_mut().grow(new.segments());
        log.superblock = change.of(&log.superblock);
        self.settle(&mut log)?;
        Ok(log.superblock)
    }

    fn fits(&self, new: &Superblock) -> Result<()> {
        if new.size < self.shape.size {
            return Err(Error::Setting("a volume only grows"));
        }
        if new.size > self.device.geometry().size {
            return Err(Error::Setting("the device is smaller than that"));
        }
        if new.size / new.segment_len > SEGMENTS_MAX {
            return Err(Error::Setting("there would be too many segments"));
        }
        if new.reserve > new.size / 2 {
            return Err(Error::Setting("half of the volume may be kept back at most"));
        }
        Superblock::parse(&new.sealed()).map(drop)
    }
}
