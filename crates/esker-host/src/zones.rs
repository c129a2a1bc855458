//! Zones of a block device: stretches that are only written from their beginning on, past the kernel's cache and one
//! write behind the other, and begun again as a whole.
//!
//! Below: the ioctls of the kernel's `blkzoned.h`. Invariant: a zone is written by one at a time, in order.
#![expect(unsafe_code, reason = "ioctls, each with the structure that it is declared with")]

use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};

use rustix::fs::{OFlags, major, minor};
use rustix::ioctl::{Getter, Opcode, Setter, Updater, ioctl, opcode};

/// Bytes of a sector, in which the kernel counts.
const SECTOR: u64 = 512;
/// Zones that are asked for at once.
const AT_ONCE: usize = 256;
/// A zone that is written only from its beginning on, because it must be.
const SEQUENTIAL: u8 = 2;
/// Conditions of a zone: opened by a write, opened because somebody said so, closed, full.
const ACTIVE: [u8; 3] = [2, 3, 4];
const FULL: u8 = 14;

#[repr(C)]
#[derive(Clone, Copy)]
struct Zone {
    start: u64,
    len: u64,
    pointer: u64,
    kind: u8,
    condition: u8,
    not_sequential: u8,
    reset: u8,
    reserved: [u8; 4],
    capacity: u64,
    more: [u8; 24],
}

/// What the opcode is made of.
#[repr(C)]
struct ReportHead {
    sector: u64,
    count: u32,
    flags: u32,
}

#[repr(C)]
struct Report {
    head: ReportHead,
    zones: [Zone; AT_ONCE],
}

#[repr(C)]
struct Range {
    sector: u64,
    count: u64,
}

const NO_ZONE: Zone = Zone {
    start: 0,
    len: 0,
    pointer: 0,
    kind: 0,
    condition: 0,
    not_sequential: 0,
    reset: 0,
    reserved: [0; 4],
    capacity: 0,
    more: [0; 24],
};

const _: () = assert!(size_of::<Zone>() == 64 && size_of::<ReportHead>() == 16);

const REPORT: Opcode = opcode::read_write::<ReportHead>(0x12, 130);
const RESET: Opcode = opcode::write::<Range>(0x12, 131);
const LEN: Opcode = opcode::read::<u32>(0x12, 132);
const FINISH: Opcode = opcode::write::<Range>(0x12, 136);

/// What the zones of a device are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonesLayout {
    /// From the beginning of one to that of the next, in bytes.
    pub len: u64,
    /// How many of these can be written.
    pub capacity: u64,
    /// How many may be begun and not full at a time; 0: any number.
    pub active: u32,
}

/// A zoned block device.
pub struct ZonedFile {
    file: File,
    /// The same past the kernel's cache, if it may be written.
    direct: Option<File>,
    layout: ZonesLayout,
}

impl ZonedFile {
    /// Of a file that is open; `None`: it has no zones.
    ///
    /// # Errors
    /// What the kernel says; `Unsupported` for zones that differ, or that need not be written in order.
    pub fn new(file: &File, write: bool) -> Result<Option<Self>> {
        // SAFETY: the opcode is declared with a number of 32 bits that the kernel writes.
        let len = unsafe { ioctl(file, Getter::<LEN, u32>::new()) };
        let len = u64::from(len.unwrap_or(0)) * SECTOR;
        if len == 0 {
            return Ok(None);
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::DIRECT.bits().cast_signed();
        let direct = || OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let direct = if write { Some(direct()?) } else { None };
        let layout = ZonesLayout { len, capacity: 0, active: active_max(file)? };
        let mut zoned = Self { file: file.try_clone()?, direct, layout };
        zoned.layout.capacity = zoned.capacity()?;
        Ok(Some(zoned))
    }

    /// What its zones are like.
    #[must_use]
    pub const fn layout(&self) -> ZonesLayout {
        self.layout
    }

    /// What all zones but a last short one have.
    fn capacity(&self) -> Result<u64> {
        let mut survey = Survey::default();
        self.each(0, u64::MAX, |zone| {
            survey.add(zone, self.layout.len / SECTOR);
            Ok(())
        })?;
        survey.capacity()
    }

    /// Tells of so many zones from that at `at` on.
    fn each(&self, at: u64, most: u64, mut tell: impl FnMut(&Zone) -> Result<()>) -> Result<()> {
        let (mut sector, mut left) = (at / SECTOR, most);
        while left > 0 {
            let count = left.min(AT_ONCE as u64) as u32;
            let head = ReportHead { sector, count, flags: 0 };
            let mut report = Box::new(Report { head, zones: [NO_ZONE; AT_ONCE] });
            // SAFETY: the kernel writes as many zones as the head says at most, and there is room for them behind it.
            unsafe { ioctl(&self.file, Updater::<REPORT, Report>::new(&mut report)) }?;
            let found = report.zones.iter().take(report.head.count.min(count) as usize);
            for zone in found {
                tell(zone)?;
                (sector, left) = (zone.start.saturating_add(zone.len), left - 1);
            }
            if report.head.count == 0 {
                break;
            }
        }
        Ok(())
    }

    /// How far the zone that begins at `at` was written; one that is full, to its end.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn written(&self, at: u64) -> Result<u64> {
        let mut written = 0;
        self.each(at, 1, |zone| {
            written = match zone.condition {
                FULL => zone.capacity * SECTOR,
                _ => zone.pointer.saturating_sub(zone.start).min(zone.capacity) * SECTOR,
            };
            Ok(())
        })?;
        Ok(written)
    }

    /// Where zones begin that were begun and are not full.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn active(&self) -> Result<Vec<u64>> {
        let mut active = Vec::new();
        self.each(0, u64::MAX, |zone| {
            active.extend(ACTIVE.contains(&zone.condition).then_some(zone.start * SECTOR));
            Ok(())
        })?;
        Ok(active)
    }

    /// Writes at the end of what was written of a zone. `source` begins and ends where the device can take it from.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        let direct = self.direct.as_ref().ok_or(ErrorKind::ReadOnlyFilesystem)?;
        direct.write_all_at(source, at)
    }

    /// Has zones begin again.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn reset(&self, at: u64, len: u64) -> Result<()> {
        let range = Range { sector: at / SECTOR, count: len / SECTOR };
        // SAFETY: the opcode is declared with this structure, which the kernel reads.
        Ok(unsafe { ioctl(&self.file, Setter::<RESET, Range>::new(range)) }?)
    }

    /// The zone that begins at `at` is full now, however little was written.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn finish(&self, at: u64) -> Result<()> {
        let range = Range { sector: at / SECTOR, count: self.layout.len / SECTOR };
        // SAFETY: as above.
        Ok(unsafe { ioctl(&self.file, Setter::<FINISH, Range>::new(range)) }?)
    }
}

/// What the zones of a device have in common.
#[derive(Default)]
struct Survey {
    zones: u64,
    /// Those that can be written anywhere.
    conventional: u64,
    /// The least and the most sectors that can be written of one of the others.
    room: Option<(u64, u64)>,
}

impl Survey {
    /// One more, of a device whose zones have so many sectors. A last short one is not used.
    fn add(&mut self, zone: &Zone, sectors: u64) {
        if zone.len != sectors {
            return;
        }
        self.zones += 1;
        if zone.kind == SEQUENTIAL {
            let (least, most) = self.room.unwrap_or((zone.capacity, zone.capacity));
            self.room = Some((least.min(zone.capacity), most.max(zone.capacity)));
        } else {
            self.conventional += 1;
        }
    }

    /// Bytes that can be written of each.
    fn capacity(&self) -> Result<u64> {
        let Self { zones, conventional, room } = *self;
        let why = match room {
            _ if conventional > 0 => format!(
                "{conventional} of its {zones} zones are conventional: not written in order"
            ),
            None => "it has no zones".to_owned(),
            Some((least, most)) if least != most => {
                format!("of its zones {} to {} bytes can be written", least * SECTOR, most * SECTOR)
            }
            Some((capacity, _)) => return Ok(capacity * SECTOR),
        };
        Err(Error::new(ErrorKind::Unsupported, why))
    }
}

/// How many zones of a device may be active, as the kernel has it; 0: any number, or it does not say.
fn active_max(file: &File) -> Result<u32> {
    let device = file.metadata()?.rdev();
    let own = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    // What a partition lies on is above it.
    let places = ["queue", "../queue"].map(|queue| format!("{own}/{queue}/max_active_zones"));
    let found = places.iter().find_map(|place| fs::read_to_string(place).ok());
    Ok(found.and_then(|text| text.trim().parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(zones: &[(u8, u64, u64)]) -> Result<u64> {
        let mut survey = Survey::default();
        for &(kind, len, capacity) in zones {
            survey.add(&Zone { kind, len, capacity, ..NO_ZONE }, 64);
        }
        survey.capacity()
    }

    #[test]
    fn zones_that_do_not_fit_are_named() {
        let told = |zones: &[_]| survey(zones).expect_err("they do not fit").to_string();
        assert_eq!(survey(&[(SEQUENTIAL, 64, 48); 3]).unwrap(), 48 * SECTOR);
        // The last one may be short.
        assert_eq!(survey(&[(SEQUENTIAL, 64, 64), (SEQUENTIAL, 7, 7)]).unwrap(), 64 * SECTOR);
        let mixed = told(&[(1, 64, 64), (1, 64, 64), (SEQUENTIAL, 64, 48)]);
        assert!(mixed.starts_with("2 of its 3 zones are conventional"), "{mixed}");
        let uneven = told(&[(SEQUENTIAL, 64, 48), (SEQUENTIAL, 64, 32)]);
        assert_eq!(uneven, "of its zones 16384 to 24576 bytes can be written");
        assert_eq!(told(&[]), "it has no zones");
    }

    #[test]
    fn a_file_has_no_zones() {
        let file = File::open("/proc/self/exe").unwrap();
        assert!(ZonedFile::new(&file, false).unwrap().is_none());
    }
}
