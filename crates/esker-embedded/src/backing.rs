//! A memory that holds one file's bytes and nothing else.
//!
//! Above: `mount`. Below: any [`Memory`]. Invariant: bytes behind the file's end that may have been written once are
//! cleared before they become part of it.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use esker::ground::{Memory, is_blank};
use esker::limits::FILE_SIZE_MAX;
use esker::posix::{Fs, XattrMode};
use esker::store::{Store, View};
use esker::{Error, Ino, Result, Time, XattrName, layout};

use crate::files::ME;

layout! {
    /// How a memory begins that remembers the size of the file in it. See FORMAT.md, "A file's own memory".
    pub struct BackingHead: 24 {
         /// Says what this is.
         0 => magic: [u8; 8],
         /// Of this format.
         8 => version: u32,
         /// Where the file's bytes begin.
        12 => start: u32,
         /// Bytes of the file.
        16 => size: u64,
    }
}

const MAGIC: [u8; 8] = *b"EskrFile";
const VERSION: u32 = 1;
/// A page of the host's, so that bytes of the file share none with the head.
const START: u64 = 4096;
/// Zeros written at once.
const ZEROS: [u8; 4096] = [0; 4096];
const SIZE_AT: u64 = BackingHead::FIELDS[3].0 as u64;

const _: () = assert!(matches!(BackingHead::FIELDS[3].1.as_bytes(), b"size"));

/// Where in its memory a file lies, and who knows how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Behind a page of the memory's own, which keeps its size: it is there again after an upgrade. A memory without
    /// bytes becomes an empty file.
    Kept,
    /// From the first byte on: the memory holds nothing but the file's bytes. The file below keeps how many there are,
    /// as its extended attribute `trusted.esker.mounted_size`, which is written with every call that changes it.
    RawKept {
        /// Bytes when it is mounted so for the first time: 0, or [`Memory::size`] for all of them.
        first: u64,
    },
    /// From the first byte on, and this long: the memory holds nothing but the file's bytes.
    Raw {
        /// In bytes.
        size: u64,
    },
    /// From the first byte on to the memory's end.
    RawPages,
}

impl Backing {
    /// How a memory begins that is [`Backing::Kept`].
    pub const MAGIC: [u8; 8] = MAGIC;
}

/// Who keeps how long the file is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeper {
    /// A page of the memory.
    Memory,
    /// The file below.
    Below,
    /// Whoever mounts it.
    Nobody,
}

/// Where the file below keeps a size.
const SIZE_NAME: &[u8] = b"trusted.esker.mounted_size";

/// A size as it is kept there: always of one length, so that another one takes no more space.
pub(crate) type Noted = [u8; 20];

/// Where the file below keeps the size of the memory that it is mounted on.
pub(crate) fn size_name() -> Result<XattrName<'static>> {
    XattrName::parse(SIZE_NAME)
}

/// The size that a file keeps, if it does and somebody asks.
pub(crate) fn noted(view: &impl View, ino: Option<Ino>, backing: Backing) -> Result<Option<u64>> {
    let Some(ino) = ino.filter(|_| matches!(backing, Backing::RawKept { .. })) else {
        return Ok(None);
    };
    let mut value = Vec::new();
    match view.xattr(ino, size_name()?, &mut value) {
        Ok(()) => {
            let text = core::str::from_utf8(&value).map_err(|_| Error::Corrupt)?;
            text.parse().map(Some).map_err(|_| Error::Corrupt)
        }
        Err(Error::NoData) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Tells the file below what it must keep, if it must. If it cannot, the file is as long as it was.
pub(crate) fn note<S: Store>(fs: &Fs<S>, ino: Ino, backed: &mut Backed) -> Result<()> {
    let Some(size) = backed.untold() else { return Ok(()) };
    let kept = fs.setxattr(&ME, ino, size_name()?, &size, XattrMode::Any, false);
    backed.told(kept)
}

/// Why a memory does not become a file's. It was left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MountError {
    /// It holds something else, a file system perhaps.
    Foreign,
    /// It holds a file in another version of the format.
    Version {
        /// Which.
        found: u32,
    },
    /// It is shorter than the file in it.
    Short {
        /// Bytes that there should be.
        needs: u64,
        /// Bytes that there are.
        has: u64,
    },
    /// The path cannot be mounted on: `Busy` when it is already, `IsDirectory`, `Invalid` for what has no bytes; or the
    /// memory itself failed.
    File(Error),
}

impl From<Error> for MountError {
    fn from(error: Error) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "the memory holds something else"),
            Self::Version { found } => {
                write!(f, "the memory holds version {found} of the format; this is {VERSION}")
            }
            Self::Short { needs, has } => {
                write!(f, "the file takes {needs} bytes, and the memory has {has}")
            }
            Self::File(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for MountError {}

/// A file's own memory.
pub(crate) struct Backed {
    memory: Box<dyn Memory>,
    /// Where the file's bytes begin.
    start: u64,
    size: u64,
    /// Who keeps the size.
    keeper: Keeper,
    /// What the file below was told last.
    told: Option<u64>,
    /// The memory was found blank, and has no head yet.
    blank: bool,
    /// Bytes of the file's that may have been written are before this.
    stale: u64,
    /// The time of the last change that the inode has.
    changed: Option<Time>,
    /// It grows no longer than that.
    size_max: u64,
}

impl Backed {
    /// The file that the memory holds, where the file below has `told` what it keeps; in a memory without bytes nothing
    /// is laid down yet.
    pub(crate) fn find(
        memory: Box<dyn Memory>,
        backing: Backing,
        told: Option<u64>,
    ) -> Result<Self, MountError> {
        let has = memory.size();
        let blank = backing == Backing::Kept && is_blank(&*memory)?;
        let (keeper, start, size) = match backing {
            Backing::Kept if blank => (Keeper::Memory, START, 0),
            Backing::Kept => (Keeper::Memory, START, kept_size(&*memory)?),
            Backing::RawKept { first } => (Keeper::Below, 0, told.unwrap_or(first)),
            Backing::Raw { size } => (Keeper::Nobody, 0, size),
            Backing::RawPages => (Keeper::Nobody, 0, has),
        };
        if keeper != Keeper::Memory && size > has {
            return Err(MountError::Short { needs: size, has });
        }
        let stale = has.saturating_sub(start);
        let (changed, size_max) = (None, FILE_SIZE_MAX);
        Ok(Self { memory, start, size, keeper, told, blank, stale, changed, size_max })
    }

    /// What the file below must be told to keep, if it must.
    pub(crate) fn untold(&self) -> Option<Noted> {
        let owed = self.keeper == Keeper::Below && self.told != Some(self.size);
        // A number of 64 bits has 20 digits at most.
        owed.then(|| format!("{:020}", self.size).as_bytes().try_into().ok()).flatten()
    }

    /// It keeps that, or could not: then the file is as long as it was.
    pub(crate) fn told(&mut self, kept: Result<()>) -> Result<()> {
        match (kept, self.told) {
            (Ok(()), _) => self.told = Some(self.size),
            (Err(_), Some(told)) => self.size = told,
            (Err(_), None) => {}
        }
        kept
    }

    /// A blank memory gets its head.
    pub(crate) fn lay_down(&self) -> Result<()> {
        if !self.blank {
            return Ok(());
        }
        let head = BackingHead { magic: MAGIC, version: VERSION, start: START as u32, size: 0 };
        self.memory.grow(START)?;
        self.memory.write(0, &head.encode())?;
        self.memory.whole()
    }

    /// Bytes of the file.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// When it was said last to change.
    #[inline]
    pub(crate) const fn changed(&self) -> Option<Time> {
        self.changed
    }

    /// It changes now: whether the inode has another time yet.
    #[inline]
    pub(crate) fn changes(&mut self, now: Time) -> bool {
        let other = self.changed != Some(now);
        self.changed = Some(now);
        other
    }

    /// The memory, as whoever opens it next finds it.
    pub(crate) fn into_memory(self) -> Box<dyn Memory> {
        self.memory
    }

    /// Bytes from `at`; how many there were.
    pub(crate) fn read(&self, at: u64, target: &mut [u8]) -> Result<usize> {
        let len = self.size.saturating_sub(at).min(target.len() as u64) as usize;
        if len > 0 {
            self.memory.read(self.start + at, &mut target[..len])?;
        }
        Ok(len)
    }

    /// Another limit; what is longer stays.
    pub(crate) const fn set_size_max(&mut self, size_max: u64) {
        self.size_max = size_max;
    }

    /// Whether it may end there.
    fn may_reach(&self, end: u64) -> Result<()> {
        if end <= self.size.max(self.size_max) { Ok(()) } else { Err(Error::FileTooBig) }
    }

    /// Bytes to `at`, all of them.
    pub(crate) fn write(&mut self, at: u64, source: &[u8]) -> Result<()> {
        let end = at.checked_add(source.len() as u64).ok_or(Error::FileTooBig)?;
        self.may_reach(end)?;
        if source.is_empty() {
            return Ok(());
        }
        if end > self.size {
            self.make_room(end)?;
            self.clear(self.size, at)?;
        }
        self.memory.write(self.start + at, source)?;
        self.stale = self.stale.max(end);
        if end > self.size { self.set_size(end) } else { self.memory.whole() }
    }

    /// So many bytes; new ones are zero.
    pub(crate) fn set_len(&mut self, len: u64) -> Result<()> {
        self.may_reach(len)?;
        if len > self.size {
            self.make_room(len)?;
            self.clear(self.size, len)?;
        }
        self.set_size(len)
    }

    /// So many bytes and no others, which `fill` tells to where it is given them. The memory is whole before and after.
    pub(crate) fn replace(
        &mut self,
        len: u64,
        fill: impl FnOnce(&mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.may_reach(len)?;
        self.make_room(len)?;
        self.stale = self.stale.max(len);
        fill(&mut |at, source| self.memory.write(self.start + at, source))?;
        self.set_size(len)
    }

    fn make_room(&self, end: u64) -> Result<()> {
        let needs = self.start.checked_add(end).ok_or(Error::FileTooBig)?;
        if needs > self.memory.size() { self.memory.grow(needs) } else { Ok(()) }
    }

    /// What may have been written in `from..to` becomes zero.
    fn clear(&self, mut from: u64, to: u64) -> Result<()> {
        let to = to.min(self.stale);
        while from < to {
            let len = (to - from).min(ZEROS.len() as u64);
            self.memory.write(self.start + from, &ZEROS[..len as usize])?;
            from += len;
        }
        Ok(())
    }

    fn set_size(&mut self, size: u64) -> Result<()> {
        self.size = size;
        match self.keeper {
            Keeper::Memory => self.memory.write(SIZE_AT, &size.to_le_bytes())?,
            // The inode is to be changed, whatever its time.
            Keeper::Below => self.changed = None,
            Keeper::Nobody => {}
        }
        self.memory.whole()
    }
}

fn kept_size(memory: &dyn Memory) -> Result<u64, MountError> {
    let has = memory.size();
    let mut bytes = [0; BackingHead::SIZE];
    if has < START {
        return Err(MountError::Foreign);
    }
    memory.read(0, &mut bytes)?;
    let head = BackingHead::decode(&bytes).ok_or(MountError::Foreign)?;
    if head.magic != MAGIC || u64::from(head.start) != START {
        return Err(MountError::Foreign);
    }
    if head.version != VERSION {
        return Err(MountError::Version { found: head.version });
    }
    match START.checked_add(head.size) {
        Some(needs) if needs <= has => Ok(head.size),
        needs => Err(MountError::Short { needs: needs.unwrap_or(u64::MAX), has }),
    }
}
