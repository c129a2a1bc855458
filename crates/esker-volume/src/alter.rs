//! What can be changed of a volume that was made: its size, its name, what is kept back, how what is new is compressed.
//!
//! Above: verbs. Below: `settle`. Invariant: one superblock says all of it, so all of it is so, or nothing.

use std::sync::PoisonError;

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

/// The one, with what can be changed as the other has it.
const fn like(one: &Superblock, other: &Superblock) -> Superblock {
    let Superblock { size, label, reserve, codec, level, .. } = *other;
    Superblock { size, label, reserve, codec, level, ..*one }
}

impl<D: Device> Volume<D> {
    /// Changes it, while others look and wait to write. A file below it becomes as long as it has to be.
    ///
    /// # Errors
    /// `Setting` for what does not fit; `ReadOnly`, `NoSpace`; what the device says. It is as it was then; where that
    /// is not known, it cannot be written any more.
    pub fn alter(&self, change: &Change) -> Result<Superblock> {
        self.writable()?;
        let mut log = self.log();
        let (old, new) = (log.superblock, change.of(&log.superblock));
        self.fits(&old, &new)?;
        self.prepare(&mut log)?;
        // From here on nothing is half-way: what is written next holds all of the log, and the new shape.
        self.settle_all(&mut log)?;
        let (before, generation, tables) = (log.superblock, log.superblock.generation, log.tables);
        self.segments_mut().grow(new.segments());
        log.superblock = change.of(&before);
        if let Err(error) = self.settle(&mut log) {
            if log.superblock.generation != generation || log.tables != tables {
                // A superblock that could not be written may be there all the same; and tables may be where there is
                // nothing from now on.
                self.stop();
            }
            log.superblock = Superblock { generation: log.superblock.generation, ..before };
            if let Some(round) = &mut log.round {
                round.begin = like(&round.begin, &before);
            }
            self.segments_mut().shrink(old.segments());
            return Err(error);
        }
        let now = change.of(&self.shape());
        *self.altered.write().unwrap_or_else(PoisonError::into_inner) = now;
        self.look_again();
        self.measure_room(&self.state(), &self.segments());
        Ok(log.superblock)
    }

    /// Whether it can be so; what is below is as large then.
    fn fits(&self, old: &Superblock, new: &Superblock) -> Result<()> {
        if new.size < old.size {
            return Err(Error::Setting("a volume only grows"));
        }
        if new.size / new.segment_len > SEGMENTS_MAX {
            return Err(Error::Setting("there would be too many segments"));
        }
        if new.reserve > new.size / 2 {
            return Err(Error::Setting("half of the volume may be kept back at most"));
        }
        if self.device.geometry().size < new.size && self.device.extend(new.size)? < new.size {
            return Err(Error::Setting("the device is smaller than that"));
        }
        Superblock::parse(&new.sealed()).map(drop)
    }
}
