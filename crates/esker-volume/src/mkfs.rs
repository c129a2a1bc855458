//! Making a volume.
//!
//! Above: the command. Invariant: when it returns, the volume is safe and holds a root directory; before its
//! last barrier there is no volume.

use esker::{Attr, Cursor, Ino, Kind};
use esker_stone::rows::inodes::Inode;
use esker_stone::{Setting, cache::Cache};

use crate::commit::{Sink, Source};
use crate::device::{Device, Geometry};
use crate::error::{Damage, Error, Result};
use crate::limits::{
    BLOCK_LEN_MAX, BLOCK_LEN_MIN, SEGMENT_LEN_MAX, SEGMENT_LEN_MIN, SEGMENTS_MAX, SEGMENTS_MIN,
    SUPERBLOCK_STEP, SUPERBLOCKS_MAX, UNIT_MAX,
};
use crate::recovery::{newest, open};
use crate::rows::Numbers;
use crate::superblock::{DELTAS, NAMES, PAGES, PIECES, Superblock};
use crate::volume::{Options, Volume};

/// What a new volume is like.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    /// In bytes; of a zoned device, the length of its zones.
    pub segment_len: u64,
    /// The largest piece that is compressed as one.
    pub block_len: u32,
    /// How.
    pub setting: Setting,
    /// How many copies of the superblock.
    pub copies: u32,
    /// Bytes that are kept back from what may be written.
    pub reserve: u64,
    /// A name for people.
    pub label: [u8; 32],
    /// A name for machines.
    pub uuid: [u8; 16],
    /// The root directory.
    pub root: Attr,
    /// When: seconds since 1970.
    pub born: i64,
}

/// Zones that are written at a time, besides one for each copy of the superblock: one of the log, and one of tables.
pub(crate) const OPEN: u32 = 2;

/// The segment length that fits a device best.
#[must_use]
pub fn segment_len(size: u64) -> u64 {
    const USUAL: u64 = 8 << 20;
    const SHORT: u64 = 256 << 10;
    // What is kept free for commits and for settling is so many segments, whatever their length: so the more of them
    // the better, as long as they are not too short for what is laid down together.
    let few = (size / 256).next_power_of_two().min(SHORT);
    let wanted = (size / 512).next_power_of_two().clamp(few, USUAL);
    let least = size.div_ceil(SEGMENTS_MAX).next_power_of_two();
    wanted.max(least).clamp(SEGMENT_LEN_MIN, SEGMENT_LEN_MAX)
}

/// The block length that fits segments of this length best: blocks that do not get shorter are moved whole, and of a
/// few long ones each segment would keep a part that none fits into.
#[must_use]
pub fn block_len(segment_len: u64) -> u32 {
    (segment_len / 16).clamp(BLOCK_LEN_MIN.into(), BLOCK_LEN_MAX.into()) as u32
}

/// Tells of the root directory.
struct First(Attr);

impl Source for First {
    fn tell(&self, to: &mut dyn Sink) -> Result<()> {
        let attr = Attr {
            kind: Kind::Directory,
            nlink: 2,
            parent: Ino::ROOT,
            size: 0,
            blocks: 0,
            ..self.0
        };
        to.inode(Inode { ino: Ino::ROOT, attr, inline: Vec::new() });
        let next_place = Cursor::FIRST.0;
        to.numbers(Numbers { next_ino: Ino::ROOT.0 + 1, inodes: 1, next_place });
        Ok(())
    }
}

/// A number that is far behind this one, as long as there are such.
pub(crate) fn behind(number: u64) -> u64 {
    const FAR: u64 = 1 << 32;
    const MOST: u64 = 1 << 47;
    number.checked_add(FAR).filter(|&far| far < MOST).unwrap_or(0)
}

/// The last commit, and the last segment, that an earlier volume of the same name may have had: what it left must not
/// be taken for something of the new one.
fn used(device: &impl Device, uuid: [u8; 16]) -> (u64, u64) {
    match newest(device) {
        Ok(((earlier, _), proven)) if earlier.uuid == uuid => {
            (behind(proven), behind(earlier.log_segment))
        }
        _ => (0, 0),
    }
}

/// Whether parts of a new volume begin at pages where that is better. Nothing is left out of a zone.
pub(crate) const fn begins_at_pages(unit: u32, geometry: &Geometry) -> bool {
    unit < UNIT_MAX && geometry.zones.is_none()
}

/// Whether as many zones may be active as are written to, with so many copies of what everything hangs from.
pub(crate) fn suffices(geometry: &Geometry, copies: u32) -> Result<()> {
    if geometry.zones.is_some_and(|zones| (1..copies + OPEN).contains(&zones.active)) {
        return Err(Error::Setting("the device allows too few zones to be active at a time"));
    }
    Ok(())
}

fn shape(device: &impl Device, making: &Making) -> Result<Superblock> {
    let geometry = device.geometry();
    let (segment_len, segment_room) = match geometry.zones {
        Some(zones) => (zones.len, zones.capacity),
        None => (making.segment_len, making.segment_len),
    };
    if !segment_len.is_power_of_two() {
        return Err(Error::Setting("a segment's length must be a power of two"));
    }
    let count = geometry.size / segment_len;
    if count < SEGMENTS_MIN {
        return Err(Error::Setting("the device is too small for segments of this length"));
    }
    if count > SEGMENTS_MAX {
        return Err(Error::Setting("the device is too large for segments of this length"));
    }
    suffices(&geometry, making.copies)?;
    let home = 2 * making.copies;
    let (sequence, segment) = used(device, making.uuid);
    Ok(Superblock {
        generation: 1,
        size: count * segment_len,
        label: making.label,
        segment_len,
        segment_room,
        unit: geometry.unit,
        incompatible: DELTAS
            | PIECES
            | NAMES
            | if begins_at_pages(geometry.unit, &geometry) { PAGES } else { 0 },
        block_len: making.block_len,
        codec: making.setting.codec.number().into(),
        level: making.setting.level.cast_unsigned(),
        copies: making.copies,
        reserve: making.reserve,
        born: making.born,
        log_physical: home,
        log_next: home + 1,
        log_spare: home + 2,
        log_segment: segment + 1,
        sequence,
        proven: sequence,
        ..Superblock::new(making.uuid)
    })
}

/// Makes a volume on a device, whatever was there.
///
/// # Errors
/// `Setting` for what does not fit; what the device says.
pub fn make(device: impl Device, making: &Making) -> Result<()> {
    let shape = shape(&device, making)?;
    // What an earlier volume left must not count any more, wherever it had its superblocks.
    let steps = SUPERBLOCKS_MAX.min(shape.segment_room / SUPERBLOCK_STEP);
    let zeros = vec![0; (steps * SUPERBLOCK_STEP) as usize];
    if device.geometry().zones.is_some() {
        // All of them, or some that others were writing might be too many.
        device.discard(0, shape.size)?;
    } else {
        for number in 0..u64::from(shape.homes()) {
            device.write(number * shape.segment_len, &zeros)?;
        }
    }
    device.flush()?;
    // Checks what was put together as it will be checked for ever.
    Superblock::parse(&shape.sealed()).map_err(|_| Error::Setting("these sizes do not fit"))?;
    let mut bytes = vec![0; SUPERBLOCK_STEP as usize];
    bytes[..Superblock::SIZE].copy_from_slice(&shape.sealed());
    for copy in 0..u64::from(shape.copies) {
        device.write(2 * copy * shape.segment_len, &bytes)?;
    }
    device.flush()?;
    let options = Options { write: true, ..Options::new(Cache::new(1 << 20)) };
    let remains = Error::Setting("parts of an earlier volume with the same UUID are there");
    let volume: Volume<_> = match open(device, options) {
        Err(Error::Damaged(Damage::LostCommit)) => return Err(remains),
        opened => opened?,
    };
    if volume.sequence() != shape.sequence {
        return Err(remains);
    }
    volume.commit(&First(making.root))
}
