//! What is mounted: memory, made and filled; an image, opened; memory above an image.
//!
//! Above: `serve`. Below: `import`, `images`, the homes. Invariant: nothing here is seen by anybody yet, so a failure
//! leaves nothing behind.

use std::cell::OnceCell;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use esker::ground::Clock as _;
use esker::memory::{self, Home};
use esker::overlay::{Leaving, Overlay};
use esker::posix::{Caller, Fs, SetAttr};
use esker::store::{Store, View};
use esker::{Attr, Ino, Kind};
use esker_fuse::convert::Timeouts;
use esker_host::{Arena, SystemClock};
use esker_image::{Cache, Image};

use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::import::{self, Filled};
use crate::options::Options;
use crate::{housekeeping, images, log, units};

/// Most threads that decode what is likely to be read next.
const READERS_MAX: usize = 4;

/// Memory above something.
type Above<L> = Overlay<Home<Arena>, L>;
/// Memory above an image.
pub type Layered = Above<Image>;

/// Memory above an image that is left behind when all of it is in memory.
pub type Lazy = Above<Leaving<Image>>;

/// An empty home in memory, and the most that it may hold.
pub fn memory(options: &Options) -> Outcome<(Home<Arena>, u64)> {
    let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (uid, gid) = (options.uid.unwrap_or(ids.0), options.gid.unwrap_or(ids.1));
    let perm = options.root_perm(None);
    let root = Attr::new(Kind::Directory, perm, uid, gid, Ino::ROOT, SystemClock.now());
    let size = options.size_or_half(units::ram());
    let unable = |error: esker::Error| {
        let what = format!("cannot make a file system of {size} bytes ({error})");
        Failure::new(Exit::Failed, what, "choose another -o size=")
    };
    let arena = Arena::new(size).map_err(unable)?;
    let home = memory::Options { size_max: size, file_size_max: options.file_size, root };
    Ok((Home::new(arena, &home).map_err(unable)?, size))
}

/// Fills one. What the options say about the root directory counts more than what the source says.
pub fn fill<S: Store>(
    fs: &Fs<S>,
    from: &import::Request<'_>,
    options: &Options,
) -> Outcome<Filled> {
    let filled = import::import(fs, from)?;
    set_root(fs, options)?;
    Ok(filled)
}

/// Sets of the root directory what the options say about it.
fn set_root<S: Store>(fs: &Fs<S>, options: &Options) -> Outcome {
    let unable = |error: esker::Error| {
        Failure::new(Exit::Failed, format!("cannot set up the root directory ({error})"), "")
    };
    let given = fs.getattr(Ino::ROOT).map_err(unable)?;
    let set = SetAttr {
        perm: (options.mode.or(options.umask).is_some())
            .then(|| options.root_perm(Some(given.perm))),
        uid: options.uid,
        gid: options.gid,
        ..SetAttr::default()
    };
    if set != SetAttr::default() {
        fs.setattr(&Caller::ROOT, Ino::ROOT, &set).map_err(unable)?;
    }
    Ok(())
}

/// Images for mounts: what is decoded of any of them is kept together, within one limit.
pub struct Images<'a> {
    /// How they are mounted.
    pub options: &'a Options,
    bases: &'a [PathBuf],
    cache: OnceCell<Arc<Cache>>,
}

impl<'a> Images<'a> {
    /// None yet. `bases` are looked at where an image has a base that is not beside it.
    pub const fn new(options: &'a Options, bases: &'a [PathBuf]) -> Self {
        Self { options, bases, cache: OnceCell::new() }
    }

    fn cache(&self) -> &Arc<Cache> {
        self.cache.get_or_init(|| {
            let limit = usize::try_from(self.options.cache).unwrap_or(usize::MAX);
            let readers = thread::available_parallelism().map_or(1, usize::from);
            esker_host::share_heap();
            Cache::with_readers(limit, readers.min(READERS_MAX))
        })
    }

    /// Sees to it that memory goes back when nobody reads.
    pub fn keep_house(&self) {
        if let Some(cache) = self.cache.get() {
            housekeeping::start_cache(cache);
        }
    }

    /// An image; what is damaged in it is told in the log.
    pub fn open(&self, path: &Path) -> Outcome<Image> {
        let image = images::open_with(path, self.options.offset, self.bases, self.cache())?;
        let name = path_shown(path);
        image.tell_damage(move |what| log::tell(&format!("{name}: {what}")));
        Ok(image)
    }

    /// An image with memory above it, and the most that may change.
    pub fn overlay(&self, path: &Path) -> Outcome<(Fs<Layered>, u64)> {
        let image = self.open(path)?;
        let last = Ino(image.root().statistics.last_ino);
        above(image, last, path, self.options)
    }

    /// Memory that an image is moved to, and the most that it may hold.
    pub fn lazy(&self, path: &Path) -> Outcome<(Fs<Lazy>, u64)> {
        let image = self.open(path)?;
        let bytes = image.root().statistics.file_bytes;
        let size = self.options.size_or_half(units::ram());
        if bytes > size {
            let (bytes, size) = (units::size_shown(bytes), units::size_shown(size));
            let what =
                format!("the files of the image take {bytes}, and the memory is to be {size}");
            let remedy = "choose a larger -o size=, or mount the image with --overlay";
            return Err(Failure::at(Exit::Failed, &what, path, remedy));
        }
        let last = Ino(image.root().statistics.last_ino);
        above(Leaving::new(image), last, path, self.options)
    }
}

/// Memory above something that was made of an image.
fn above<L: View>(
    lower: L,
    last: Ino,
    path: &Path,
    options: &Options,
) -> Outcome<(Fs<Above<L>>, u64)> {
    let (home, size) = memory(options)?;
    let layered = Overlay::new(home, lower, last)
        .map_err(|error| images::unreadable(path, "its root directory", error))?;
    let fs = Fs::new(layered, SystemClock);
    set_root(&fs, options)?;
    Ok((fs, size))
}

/// Whether it was packed when files were born, as the root directory tells: where it was not, each would be said to be
/// born when it was written last.
fn has_births(image: &Image) -> bool {
    let root = image.attributes(Ino::ROOT).ok().flatten();
    root.is_some_and(|root| root.btime != root.mtime)
}

/// How an image is mounted: it never changes, and the kernel may believe what it was told for as long as it likes.
pub fn as_image(path: &Path, image: &Image, options: &Options) -> Options {
    let mut options = named(path, options);
    options.mount.no_births = !has_births(image);
    let for_ever = Duration::from_secs(u32::MAX.into());
    options.mount.read_only = true;
    options.mount.no_atime = true;
    options.mount.writeback = false;
    options.mount.frozen = true;
    options.mount.timeouts = Timeouts { entry: for_ever, attr: for_ever, negative: for_ever };
    options
}

/// How one with memory above it is mounted: what is only read shall not move up, unless somebody asks for its atime.
pub fn as_overlay(path: &Path, options: &Options) -> Options {
    let mut options = named(path, options);
    options.mount.no_atime |= !options.atime;
    options
}

/// How a volume is mounted: reading it shall not write it, unless somebody asks for its atime.
pub fn as_volume(path: &Path, options: &Options) -> Options {
    // By this name `esker umount` finds it again.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut options = as_overlay(&path, options);
    let is_block = path.metadata().is_ok_and(|meta| meta.file_type().is_block_device());
    // The kernel must find the device by the name of the source.
    options.mount.block = is_block && !options.named;
    options.mount.waits = true;
    options
}

fn named(path: &Path, options: &Options) -> Options {
    let mut options = options.clone();
    if !options.named {
        options.mount.fsname = Some(path.to_string_lossy().into_owned());
    }
    options
}
