//! Volumes for verbs: known when they are seen, opened for one at a time, and what is wrong with one in words.
//!
//! Above: `verbs`, `serve`, `images`. Below: `esker-volume`. Invariant: whoever may write has the volume to himself as
//! long as he has it open, and who else comes is told who that is.

pub mod alter;
pub mod ask;
pub mod base;
pub mod care;
pub mod desk;
pub mod host;
pub mod owner;
pub mod pacer;
mod queue;
pub mod repair;
pub mod report;
mod ruled;
pub mod shown;
pub mod snapshots;
pub mod writer;

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use esker::ground::Clock as _;
use esker::limits::FILE_SIZE_MAX;
use esker::memory::{self, Home};
use esker::posix::Fs;
use esker::{Attr, Ino, Kind};
use esker_host::{Lent, Pool, SystemClock};
use esker_stone::cache::Cache;
use esker_stone::superblock::MAGIC;
use esker_stone::{Codec, Setting, Unsupported};
use esker_volume::device::{Device as _, Fault, FileDevice};
use esker_volume::limits::{BLOCK_LEN_MAX, BLOCK_LEN_MIN};
use esker_volume::{Bases, Damage, Error, Kept, Maker, NoBase, Options, Volume};

use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::{log, options};

/// The kind of home that an image is, in superblocks.
const IMAGE: u32 = 1;
/// Most threads that compress what is written.
const WRITERS_MAX: usize = 4;

/// A file system on a volume that can be written.
pub type Writable = Fs<Kept<Home<Lent>, FileDevice>>;

/// Whether a volume begins here.
pub fn is_volume(path: &Path) -> bool {
    let mut head = [0; 16];
    // To open a pipe would be to wait for who writes to it.
    let may_be = |kind: std::fs::FileType| kind.is_file() || kind.is_block_device();
    if !std::fs::metadata(path).is_ok_and(|meta| may_be(meta.file_type())) {
        return false;
    }
    let Ok(file) = File::open(path) else { return false };
    if file.read_exact_at(&mut head, 0).is_err() {
        return false;
    }
    // The first superblock may be damaged, and another one be there. Who has it knows what it is.
    let other = || match FileDevice::open(path, false) {
        Err(error) => error.kind() == ErrorKind::WouldBlock,
        Ok(device) => esker_volume::is_there(&device),
    };
    esker_volume::superblock::is_one(&head) || (!head.starts_with(&MAGIC) && other())
}

/// Whether blocks of a volume may have so many bytes.
pub fn is_block_len(len: u64) -> bool {
    (BLOCK_LEN_MIN.into()..=BLOCK_LEN_MAX.into()).contains(&len) && len.is_power_of_two()
}

/// A codec as people write it: none, lz4, zstd or zstd:LEVEL.
pub fn setting(word: &str) -> Result<Setting, String> {
    let (name, level) = word.split_once(':').map_or((word, None), |(name, l)| (name, Some(l)));
    let codec =
        Codec::named(name).filter(|codec| matches!(codec, Codec::None | Codec::Lz4 | Codec::Zstd));
    let codec = codec.ok_or("known are none, lz4 and zstd")?;
    let (least, most) = codec.levels();
    let usual = if codec == Codec::Zstd { 3 } else { most };
    let level = level.map_or(Ok(usual), str::parse).map_err(|_| "the level is no number")?;
    if (least..=most).contains(&level) {
        return Ok(Setting::new(codec, level));
    }
    Err(format!("levels of {name} go from {least} to {most}"))
}

/// What is wrong with a volume, for a person.
pub fn failure(path: &Path, error: &Error) -> Failure {
    let check = "`esker check --repair` repairs it, `esker recover` takes out what is left";
    let (exit, what, remedy) = match error {
        Error::Damaged(Damage::NoVolume) => (
            Exit::Source,
            "not an Esker volume".to_owned(),
            "if it was one, `esker check --repair` makes it whole as far as it can be, and `esker \
             recover` takes out what is left; `esker mkfs` makes a new one",
        ),
        Error::Base(NoBase::Unfinished) => return base::unfinished(path),
        Error::Base(NoBase::Missing) => {
            (Exit::Source, error.to_string(), "name it with --base where you mount the volume")
        }
        Error::Damaged(Damage::Shortened) => {
            let what = "the volume is cut short: the file or device is smaller than it";
            (Exit::Damaged, what.to_owned(), "make that as large again as it was")
        }
        Error::Stone(esker_stone::Error::Unsupported(Unsupported::Home(home))) => {
            let what = match *home {
                IMAGE => "not a volume but an image".to_owned(),
                other => format!("not a volume but a home of kind {other}"),
            };
            (Exit::Source, what, "name a volume")
        }
        Error::Stone(esker_stone::Error::Unsupported(_)) => {
            (Exit::Source, format!("cannot read the volume: {error}"), "take a newer esker")
        }
        Error::Damaged(_) | Error::Stone(_) => {
            (Exit::Damaged, format!("the volume is damaged ({error})"), check)
        }
        Error::Setting(_) => (Exit::Usage, error.to_string(), "choose other options"),
        Error::NoSpace | Error::Device(Fault::NoSpace) => {
            (Exit::Failed, error.to_string(), "take something away, or make room below")
        }
        Error::Device(_) => (Exit::Failed, format!("the device failed ({error})"), ""),
        Error::ReadOnly | Error::Source(_) => (Exit::Failed, error.to_string(), ""),
    };
    Failure::at(exit, &what, path, remedy)
}

/// Whether the kernel lets nobody write to a block device, though it can be opened for that.
fn is_read_only(path: &Path) -> bool {
    let Ok(meta) = path.metadata() else { return false };
    let (major, minor) = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
    let told = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
    meta.file_type().is_block_device() && told.is_ok_and(|word| word.trim() == "1")
}

/// How long one waits for who has a volume that is not mounted: umount(8) returns before the server has written what is
/// left, and how often one looks.
const LEAVING: Duration = Duration::from_secs(10);
const LOOKS: Duration = Duration::from_millis(20);

/// Opens the file or device, for one at a time where it may be written.
pub fn device(path: &Path, write: bool) -> Outcome<FileDevice> {
    if path.is_dir() {
        owner::is_a_mount(path).map_or(Ok(()), Err)?;
    }
    const ONLY_READ: &str =
        "it can be mounted with -o ro; --dry-run writes nothing, where a verb has it";
    if write && is_read_only(path) {
        return Err(Failure::at(Exit::Source, "the device is read-only", path, ONLY_READ));
    }
    let open = || {
        FileDevice::open(path, write)
            .map(|file| if file.is_file() { file } else { file.with_discard(esker_host::discard) })
            .and_then(|device| device.with_zones(|file| queue::Zoned::find(file, write)))
    };
    let (begin, mut opened) = (Instant::now(), open());
    let is_held = |opened: &std::io::Result<FileDevice>| {
        opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    while is_held(&opened) && begin.elapsed() < LEAVING && owner::mounted_at(path).is_none() {
        thread::sleep(LOOKS);
        opened = open();
    }
    opened.map_err(|error| {
        if error.kind() == ErrorKind::Unsupported {
            let what = format!("cannot use the device: {error}");
            let remedy = "make a device of the zones that are alike: dmsetup(8), target linear";
            return Failure::at(Exit::Source, &what, path, remedy);
        }
        if error.kind() != ErrorKind::WouldBlock {
            let what = format!("cannot open the volume ({})", said(&error));
            let refused = [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied];
            let remedy = if write && refused.contains(&error.kind()) { ONLY_READ } else { "" };
            return Failure::at(Exit::Source, &what, path, remedy);
        }
        let what = format!("the volume is in use by {}", owner::shown(path));
        let remedy = match owner::mounted_at(path) {
            Some(dir) => {
                let dir = path_shown(&dir);
                format!("it is mounted on {dir}: name that where a mount will do, or unmount it")
            }
            None => "unmount it there, or wait".to_owned(),
        };
        Failure::at(Exit::Failed, &what, path, &remedy)
    })
}

/// How a volume is opened by mount options.
pub fn opening(path: &Path, write: bool, options: &options::Options) -> Options {
    // Of a file it saves room; of a device it may take long.
    let is_file = path.metadata().is_ok_and(|meta| meta.is_file());
    let limit = usize::try_from(options.cache).unwrap_or(usize::MAX);
    Options {
        write,
        now: || SystemClock.now().secs,
        setting: options.compress,
        discard: options.discard.unwrap_or(is_file),
        discard_all: options.discard == Some(true),
        dedup: options.dedup.unwrap_or(true),
        deltas: options.deltas.unwrap_or(true),
        threads: thread::available_parallelism().map_or(1, usize::from).min(WRITERS_MAX),
        ..Options::new(Cache::new(limit))
    }
}

/// Opens what is written past the kernel's cache, where that can be done.
pub fn past_cache(path: &Path) -> Outcome<FileDevice> {
    let device = device(path, true)?;
    let zoned = device.geometry().zones.is_some();
    Ok(if zoned { device } else { device.with_queue(queue::Direct::begin) })
}

/// Opens a volume; its base is where it was, or beside it.
pub fn open(path: &Path, options: Options) -> Outcome<Volume<FileDevice>> {
    open_over(path, &[], options)
}

/// Opens a volume whose base may be among these.
pub fn open_over(path: &Path, bases: &[PathBuf], options: Options) -> Outcome<Volume<FileDevice>> {
    let finder = base::Finder::new(path, bases, &options.cache);
    let options = Options { bases: Some(Arc::clone(&finder) as Arc<dyn Bases>), ..options };
    let device = if options.write { past_cache(path) } else { device(path, false) }?;
    esker_volume::open(device, options).map_err(|error| finder.failure(&error))
}

/// Opens a volume to be looked at.
pub fn look(path: &Path) -> Outcome<Volume<FileDevice>> {
    look_over(path, &[])
}

/// Opens a volume to be looked at, whose base may be among these.
pub fn look_over(path: &Path, bases: &[PathBuf]) -> Outcome<Volume<FileDevice>> {
    open_over(path, bases, Options::new(Cache::new(crate::images::CACHE_LEN)))
}

/// The root directory of a new volume.
pub fn root() -> Attr {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Attr::new(Kind::Directory, 0o755, uid, gid, Ino::ROOT, SystemClock.now())
}

/// Memory for what changes.
struct Layers {
    pool: Arc<Pool>,
    options: memory::Options,
}

impl Maker<Home<Lent>> for Layers {
    fn make(&self) -> esker::Result<Home<Lent>> {
        Home::new(self.pool.lend()?, &self.options)
    }

    fn again(&self, used: Home<Lent>) -> esker::Result<Home<Lent>> {
        used.again(|| self.pool.lend(), &self.options)
    }

    fn rest(&self) {
        self.pool.rest();
    }
}

/// A volume with memory above it, for as many bytes as may change before they are written: half of them for what is
/// being written, half for what changes meanwhile.
pub fn writable(path: &Path, options: &options::Options) -> Outcome<Arc<Writable>> {
    // What is kept of tables, and what changes, comes and goes in every thread.
    esker_host::share_heap();
    let volume = open_over(path, &options.bases, opening(path, true, options))?;
    volume.device().place(options.placement.unwrap_or_default());
    kept(path, volume, options)
}

/// What is damaged is told in the log.
pub fn tell_damage(path: &Path, volume: &Volume<FileDevice>) {
    let name = path_shown(path);
    let tell = move |what: &str| {
        log::tell(&format!("{name}: {what}; `esker scrub` names the files of what is damaged"));
    };
    volume.tell_damage(tell);
}

/// Memory above a volume that is open.
pub fn kept(
    path: &Path,
    volume: Volume<FileDevice>,
    options: &options::Options,
) -> Outcome<Arc<Writable>> {
    tell_damage(path, &volume);
    let dirty_max = options.dirty.unwrap_or(options::DIRTY_LEN) / 2;
    let (size_max, root) = (dirty_max, root());
    let options = memory::Options { size_max, file_size_max: FILE_SIZE_MAX, root };
    let layers = Layers { pool: Pool::new(dirty_max), options };
    let kept = Kept::new(volume, dirty_max, Box::new(layers));
    let kept = kept.map_err(|error| failure(path, &Error::Source(error)))?;
    Ok(Arc::new(Fs::new(kept, SystemClock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_are_read() {
        assert_eq!(setting("zstd").unwrap(), Setting::new(Codec::Zstd, 3));
        assert_eq!(setting("zstd:9").unwrap(), Setting::new(Codec::Zstd, 9));
        assert!(
            setting("xz").is_err() && setting("zstd:x").is_err() && setting("zstd:99").is_err()
        );
    }
}
