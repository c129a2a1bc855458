//! `esker mkfs`: make a volume.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use esker::ground::Clock as _;
use esker::store::View as _;
use esker_host::SystemClock;
use esker_stone::{Setting, hex};
use esker_volume::device::{Device as _, FileDevice};
use esker_volume::limits::{SEGMENT_LEN_MAX, SEGMENT_LEN_MIN, SEGMENTS_MAX, SEGMENTS_MIN};
use esker_volume::mkfs::{block_len, segment_len};
use esker_volume::{Base, Below, Making, make};
use serde_json::json;

use super::{is_same, say};
use crate::failure::{Exit, Failure, Outcome, path_shown, said, shown};
use crate::images;
use crate::import::{Filled, Request, import};
use crate::options::Options;
use crate::printed::warn;
use crate::progress::Progress;
use crate::units::{parse_size, ram, size_shown};
use crate::volumes::{self, is_block_len, setting};

/// Make a volume: a writable disk in a file, or on a block device.
///
/// A file takes no room before it is written, and grows up to its size; what was there is given
/// back. A zoned device may have zones of 128K to 4G that are all written in order, and is made
/// empty.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker mkfs disk.vol --size 10G
  esker mkfs /dev/sdx1 --label data
  esker mkfs disk.vol --size 1T --compress zstd:9 --meta-copies 2
  esker mkfs /dev/nvme1n1              a zoned device: the same
  esker mkfs /dev/sdx1 --reserve 5%    quicker when it is full, by so much less room
  esker mkfs disk.vol --size 10G --from tree.esker       what an image holds is in it
  esker mkfs disk.vol --size 10G --base tree.esker       the same, but only what changes is stored
  mkfs.esker /dev/sdx1                 the same under the name that mkfs(8) looks for")]
pub struct Mkfs {
    /// A file, which is made if it is not there, or a block device
    #[arg(value_name = "FILE|DEVICE")]
    target: PathBuf,
    /// How large [default: all of what is there]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    size: Option<u64>,
    /// What is begun again as a whole: an erase block of the device, or some; a power of two
    /// [default: fitting the size, 128K to 8M, above 256G more; a zone, where the device has zones]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    segment: Option<u64>,
    /// The largest piece that is compressed as one: 4K, 8K, 16K or 32K [default: 32K, in segments of less than 512K a
    /// sixteenth of these]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    block: Option<u64>,
    /// none, lz4, zstd or zstd:LEVEL
    #[arg(long, value_name = "CODEC", default_value = "zstd", value_parser = setting)]
    compress: Setting,
    /// How much is kept back, so that moving is cheap when the rest is full: bytes, or a share as in 5%
    #[arg(long, value_name = "SIZE|N%", default_value = "0", value_parser = reserve)]
    reserve: Reserve,
    /// How many copies of superblocks and tables, the second of tables as parity: 1 or 2
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=2))]
    meta_copies: u32,
    /// A name for people, of up to 32 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// A name for machines [default: a random one]
    #[arg(long, value_name = "UUID", value_parser = uuid)]
    uuid: Option<[u8; 16]>,
    /// Fill it with a copy of a directory, a tar archive (- for standard input), an image or a volume
    #[arg(long, value_name = "DIR|TAR|IMAGE|VOLUME")]
    from: Option<PathBuf>,
    /// Lay it over an image: it shows what the image holds, and stores only what changes. The image must stay; it is
    /// looked for where it is now, and beside the volume
    #[arg(long, value_name = "IMAGE", conflicts_with = "from")]
    base: Option<PathBuf>,
    /// Leave out, with a warning each, what cannot be read in the directory of --from
    #[arg(long, requires = "from")]
    skip_unreadable: bool,
    /// Also where there is something already
    #[arg(short = 'F', long)]
    force: bool,
    /// Leave what a file or a device holds below it as it is, in place of giving it back first
    #[arg(short = 'K', long)]
    no_discard: bool,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

/// A label as superblocks have it.
pub fn label(text: &str) -> Outcome<[u8; 32]> {
    let mut label = [0; 32];
    let place = label.get_mut(..text.len());
    let too_long = || Failure::new(Exit::Usage, "the label is too long", "32 bytes at most");
    place.ok_or_else(too_long)?.copy_from_slice(text.as_bytes());
    Ok(label)
}

/// What is kept back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    Bytes(u64),
    Percent(u64),
}

impl Reserve {
    const fn of(self, size: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(share) => (size / 100).saturating_mul(share),
        }
    }

    /// The same, if that is not too much.
    pub fn checked_of(self, size: u64) -> Outcome<u64> {
        let reserve = self.of(size);
        let fits = reserve <= size / 100 * RESERVE_PERCENT_MAX;
        let too_much =
            || Failure::new(Exit::Usage, "a bad --reserve", "half of the volume at most");
        fits.then_some(reserve).ok_or_else(too_much)
    }
}

/// What is kept back, as people write it.
pub fn reserve(word: &str) -> Result<Reserve, String> {
    let Some(share) = word.strip_suffix('%') else { return bytes(word).map(Reserve::Bytes) };
    let share = share.parse().ok().filter(|&share| share <= RESERVE_PERCENT_MAX);
    share
        .map(Reserve::Percent)
        .ok_or_else(|| format!("give bytes, or a share of up to {RESERVE_PERCENT_MAX}%"))
}

/// A number of bytes, as people write it.
pub fn bytes(word: &str) -> Result<u64, String> {
    parse_size(word, ram()).map_err(|_| "give bytes with K, M, G or T, as in 512M".to_owned())
}

fn uuid(word: &str) -> Result<[u8; 16], String> {
    let wrong = || "write it as 01234567-89ab-cdef-0123-456789abcdef".to_owned();
    let digits: String = word.chars().filter(|&letter| letter != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return Err(wrong());
    }
    let mut uuid = [0; 16];
    for (at, byte) in uuid.iter_mut().enumerate() {
        let two = &digits[2 * at..2 * at + 2];
        *byte = u8::from_str_radix(two, 16).map_err(|_| wrong())?;
    }
    Ok(uuid)
}

fn random_uuid() -> std::io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut uuid)?;
    // Version 4, variant 1.
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}

/// The largest share that is kept back.
const RESERVE_PERCENT_MAX: u64 = 50;

/// Bytes in front that are looked at for what is there.
const HEAD_LEN: usize = 128 << 10;

/// What is given back at a time.
const FORGET_LEN: u64 = 256 << 20;

/// Gives back what is there: nobody needs it, and flash would have to move it about.
fn forget(device: &FileDevice, size: u64) {
    let mut bar = Progress::new("discarding", Some(size));
    for at in (0..size).step_by(FORGET_LEN as usize) {
        bar.tick((0, 0), at);
        // It only ever saves room.
        if device.discard(at, FORGET_LEN.min(size - at)).is_err() {
            break;
        }
    }
}

/// What begins with these bytes, if that is known.
fn known(head: &[u8]) -> Option<&'static str> {
    const KNOWN: &[(usize, &[u8], &str)] = &[
        (0, b"\x89ESKR\r\n\x1a", "an Esker volume or image"),
        (0, b"XFSB", "xfs"),
        (0, b"hsqs", "squashfs"),
        (0, b"LUKS\xba\xbe", "LUKS"),
        (3, b"NTFS", "NTFS"),
        (3, b"EXFAT", "exFAT"),
        (512, b"EFI PART", "a partition table"),
        (512, b"LABELONE", "LVM"),
        (0x400, b"\x10\x20\xf5\xf2", "f2fs"),
        (0x400, b"\xe2\xe1\xf5\xe0", "EROFS"),
        (0x406, b"\x34\x34", "nilfs2"),
        (0x438, b"\x53\xef", "ext2, ext3 or ext4"),
        (0x1000, b"\xfc\x4e\x2b\xa9", "a RAID member"),
        (4086, b"SWAPSPACE2", "swap space"),
        (0x10040, b"_BHRfS_M", "btrfs"),
        (510, b"\x55\xaa", "a partition table or FAT"),
    ];
    let is = |&&(at, magic, _): &&(usize, &[u8], &str)| {
        head.get(at..).is_some_and(|rest| rest.starts_with(magic))
    };
    KNOWN.iter().find(is).map(|&(.., name)| name)
}

impl Mkfs {
    /// Makes it.
    pub fn run(&self) -> Outcome {
        if let Some(from) = &self.from {
            self.look_at(from)?;
        }
        let below = self.below()?;
        let is_new = std::fs::symlink_metadata(&self.target).is_err();
        let made = self.make().and_then(|made| {
            let filled = self.fill()?;
            Ok((made, filled, below.map(|below| self.lay_over(below)).transpose()?))
        });
        if made.is_err() && is_new {
            // What is of no use is not left behind.
            let _ = std::fs::remove_file(&self.target);
        }
        let ((making, size), filled, base) = made?;
        let len = making.segment_len;
        let bases: Vec<_> = self.base.iter().cloned().collect();
        let room = volumes::look_over(&self.target, &bases)?.space().total;
        if self.json {
            let line = json!({
                "volume": self.target.to_string_lossy(),
                "uuid": hex(&making.uuid),
                "size": size / len * len,
                "segment": len,
                "block": making.block_len,
                "room": room,
                "filled": filled.as_ref().map(Filled::json),
                "base": base.as_ref().map(|base| hex(&base.name)),
            });
            say(&line.to_string());
        } else {
            say(&format!(
                "made a volume of {} in segments of {}, with room for {}: {}",
                size_shown(size / len * len),
                size_shown(len),
                size_shown(room),
                path_shown(&self.target)
            ));
            if let Some(base) = base {
                say(&format!("it lies on the image {}, which must stay", shown(&base.file)));
            }
        }
        if room == 0 {
            warn("nothing can be written to it: all of it is kept back");
        }
        if self.segment.is_some_and(|len| len > segment_len(size)) && room < size / 2 {
            warn(&format!(
                "more than half of it is kept back, to move what is in such long segments: without \
                 --segment they have {}",
                size_shown(segment_len(size))
            ));
        }
        filled.iter().for_each(Filled::warn);
        Ok(())
    }

    /// What it is filled from is there, and is not what it is made on.
    fn look_at(&self, from: &Path) -> Outcome {
        if from == Path::new("-") {
            return Ok(());
        }
        let there = from.metadata().map_err(|error| {
            let what = format!("cannot read --from ({})", said(&error));
            Failure::at(Exit::Source, &what, from, "give something that exists")
        })?;
        if is_same(&there, &self.target) {
            let what = "it cannot be filled from itself";
            return Err(Failure::at(Exit::Usage, what, from, "name another file"));
        }
        crate::import::begins(from)
    }

    /// The image that it is to lie on.
    fn below(&self) -> Outcome<Option<Below>> {
        let Some(base) = &self.base else { return Ok(None) };
        if base.metadata().is_ok_and(|there| is_same(&there, &self.target)) {
            let what = "it cannot lie on itself";
            return Err(Failure::at(Exit::Usage, what, base, "name another file"));
        }
        if volumes::is_volume(base) {
            let remedy = "`esker pack`, or `esker freeze`, makes an image of it";
            return Err(Failure::at(Exit::Source, "a volume, not an image", base, remedy));
        }
        volumes::base::below(base, &[], &images::cache()).map(Some)
    }

    /// Lays it over an image.
    fn lay_over(&self, below: Below) -> Outcome<Base> {
        let (path, options) = (&self.target, Options::parse(&[], ram())?);
        let mut volume = volumes::open(path, volumes::opening(path, true, &options))?;
        let base = below.base.clone();
        let mut bar = Progress::new("laying", None);
        let laid = volume.lay_over(below, &mut |files| bar.tick((files, 0), 0));
        let laid = laid.and_then(|()| volume.close());
        laid.map_err(|error| volumes::failure(path, &error))?;
        Ok(base)
    }

    /// Copies what it is to hold, and makes that safe.
    fn fill(&self) -> Outcome<Option<Filled>> {
        let Some(from) = &self.from else { return Ok(None) };
        let fs = volumes::writable(&self.target, &Options::parse(&[], ram())?)?;
        let request = Request { from, skip_unreadable: self.skip_unreadable };
        let filled = import(&fs, &request)?;
        let home = fs.store();
        let safe = home.write().and_then(|()| home.volume().close());
        safe.map_err(|error| volumes::failure(&self.target, &error))?;
        Ok(Some(filled))
    }

    /// What was made, and on how many bytes.
    fn make(&self) -> Outcome<(Making, u64)> {
        let device = self.device()?;
        let (size, zones) = (device.geometry().size, device.geometry().zones);
        let usual = zones.map_or_else(|| segment_len(size), |zones| zones.len);
        let len = self.segment.unwrap_or(usual);
        if zones.is_some() && len != usual {
            let what = format!("the zones of the device have {}", size_shown(usual));
            return Err(Failure::at(Exit::Usage, &what, &self.target, "leave out --segment"));
        }
        let making = self.making(len, size)?;
        self.check_count(len, size)?;
        if zones.is_none() && !self.no_discard {
            forget(&device, size);
        }
        make(&device, &making).map_err(|error| volumes::failure(&self.target, &error))?;
        Ok((making, size))
    }

    /// There are neither too few nor too many segments.
    fn check_count(&self, len: u64, size: u64) -> Outcome {
        let told = |what: &str, count: u64, other: &str| {
            let (all, one, bound) = (size_shown(size), size_shown(len), size_shown(count * len));
            let what = format!("{all} is too {what} for segments of {one}: {count} at {other}");
            let remedy = format!("{bound} at {other}, or other segments with --segment");
            Failure::at(Exit::Usage, &what, &self.target, &remedy)
        };
        match size / len {
            ..SEGMENTS_MIN => Err(told("small", SEGMENTS_MIN, "least")),
            SEGMENTS_MIN..=SEGMENTS_MAX => Ok(()),
            _ => Err(told("large", SEGMENTS_MAX, "most")),
        }
    }

    fn making(&self, segment_len: u64, size: u64) -> Outcome<Making> {
        let usage = |what: &str, remedy: &str| Failure::new(Exit::Usage, what, remedy);
        let fits = (SEGMENT_LEN_MIN..=SEGMENT_LEN_MAX).contains(&segment_len);
        if !fits || !segment_len.is_power_of_two() {
            return Err(usage("a bad --segment", "give a power of two from 128K to 4G"));
        }
        let block = self.block.unwrap_or_else(|| block_len(segment_len).into());
        if !is_block_len(block) {
            return Err(usage("a bad --block", "give 4K, 8K, 16K or 32K"));
        }
        let reserve = self.reserve.checked_of(size)?;
        let label = label(&self.label)?;
        let random = |error: std::io::Error| {
            Failure::new(
                Exit::Failed,
                format!("no random numbers ({})", said(&error)),
                "give --uuid",
            )
        };
        Ok(Making {
            segment_len,
            block_len: block as u32,
            setting: self.compress,
            copies: self.meta_copies,
            reserve,
            label,
            uuid: self.uuid.map_or_else(random_uuid, Ok).map_err(random)?,
            root: volumes::root(),
            born: SystemClock.now().secs,
        })
    }

    /// What it is made on, with nothing on it that anybody may miss.
    fn device(&self) -> Outcome<FileDevice> {
        let target = &self.target;
        let failed = |error: std::io::Error| {
            let what = format!("cannot make a volume ({})", said(&error));
            Failure::at(Exit::Failed, &what, target, "")
        };
        let usage = |what: &str, remedy: &str| Failure::at(Exit::Usage, what, target, remedy);
        if self.size.is_some_and(|size| size > SEGMENTS_MAX * SEGMENT_LEN_MAX) {
            let most = size_shown(SEGMENTS_MAX * SEGMENT_LEN_MAX);
            return Err(usage("no volume is that large", &format!("give {most} at most")));
        }
        let meta = match target.metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let size =
                    self.size.ok_or_else(|| usage("there is no such file", "give --size"))?;
                return FileDevice::create(target, size).map_err(failed);
            }
            meta => meta.map_err(failed)?,
        };
        let kind = meta.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(usage("neither a file nor a block device", "name one"));
        }
        if !self.force {
            self.refuse_what_is_there(target)?;
        }
        let device = volumes::device(target, true)?;
        let there = device.geometry().size;
        match self.size {
            Some(size) if kind.is_file() && size > there => {
                drop(device);
                FileDevice::create(target, size).map_err(failed)
            }
            Some(size) if size != there => {
                let what = format!("it has {}", size_shown(there));
                Err(usage(&what, "leave out --size, or name another file"))
            }
            _ => Ok(device),
        }
    }

    fn refuse_what_is_there(&self, target: &Path) -> Outcome {
        let mut head = Vec::new();
        let read =
            File::open(target).and_then(|file| file.take(HEAD_LEN as u64).read_to_end(&mut head));
        read.map_err(|error| {
            let what = format!("cannot see what is there ({})", said(&error));
            Failure::at(Exit::Failed, &what, target, "")
        })?;
        let what = match known(&head) {
            Some(name) => format!("it holds {name}"),
            None if head.iter().any(|&byte| byte != 0) => "it holds something".to_owned(),
            None => return Ok(()),
        };
        Err(Failure::at(Exit::Failed, &what, target, "--force makes a volume all the same"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_read() {
        let text = "01234567-89ab-cdef-0123-456789abcdef";
        assert_eq!(uuid(text).unwrap()[..3], [0x01, 0x23, 0x45]);
        for bad in
            ["", "0123", "0123456789abcdef0123456789abcdeg", "é123456789abcdef0123456789abcde"]
        {
            assert!(uuid(bad).is_err(), "{bad}");
        }
        let random = random_uuid().unwrap();
        assert_eq!((random[6] >> 4, random[8] >> 6), (4, 2));
    }

    #[test]
    fn a_reserve_is_bytes_or_a_share() {
        assert_eq!(reserve("5%"), Ok(Reserve::Percent(5)));
        assert_eq!(reserve("1M").map(|reserve| reserve.of(8 << 20)), Ok(1 << 20));
        assert_eq!(Reserve::Percent(10).of(1000), 100);
        assert!(reserve("51%").is_err() && reserve("x%").is_err() && reserve("%").is_err());
    }

    #[test]
    fn what_is_there_is_known() {
        let mut head = vec![0; HEAD_LEN];
        assert_eq!(known(&head), None);
        head[0x438..0x43a].copy_from_slice(b"\x53\xef");
        assert_eq!(known(&head), Some("ext2, ext3 or ext4"));
        assert_eq!(known(b"XFSB"), Some("xfs"));
    }
}
