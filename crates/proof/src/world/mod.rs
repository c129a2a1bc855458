//! Worlds: places in which a script can run, and what they answer.
//!
//! Above: [`crate::differ`] runs two side by side. Here: [`inside`], a `posix::Fs` in this process, and [`outside`],
//! a directory reached by system calls. Invariant: an answer holds only what any two right file systems agree on
//! (the exceptions are in docs/DIFFERENCES.md).

pub mod frozen;
pub mod inside;
pub mod layered;
pub mod on_volume;
pub mod outside;
pub mod thawed;

use std::fmt;

use esker::{Kind, Time};

use crate::script::Step;

/// What came of a step: an answer, or an errno.
pub type Outcome = Result<Answer, i32>;

/// What a step answered.
#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Nothing,
    /// A count.
    Number(u64),
    /// Bytes that were read.
    Bytes(Vec<u8>),
    /// Attributes.
    Stat(Stat),
    /// Names and kinds.
    Names(Vec<(Vec<u8>, Kind)>),
    /// The world contradicts itself, whatever the other says.
    Broken(String),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("done"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Bytes(bytes) => write!(f, "{} bytes, hash {:08x}", bytes.len(), hash(bytes)),
            Self::Stat(stat) => stat.fmt(f),
            Self::Names(names) => {
                let shown =
                    names.iter().map(|(name, kind)| (name.escape_ascii().to_string(), kind));
                f.debug_list().entries(shown).finish()
            }
            Self::Broken(why) => write!(f, "broken: {why}"),
        }
    }
}

/// Attributes that must agree. A directory's size is 0 here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of stat(2)")]
pub struct Stat {
    pub kind: Kind,
    pub perm: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub size: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
}

/// One name of a tree and everything behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// From the root of the world; the root is empty.
    pub path: Vec<u8>,
    /// The first path that leads to the same inode.
    pub same_as: Vec<u8>,
    /// Attributes.
    pub stat: Stat,
    /// A symlink's target, otherwise empty.
    pub target: Vec<u8>,
    /// Offset and hash of each page of the file that has a byte other than zero.
    pub pages: Vec<(u64, u32)>,
    /// Extended attributes.
    pub xattrs: Xattrs,
    /// A directory's names, in the order in which they are listed if the world promises one.
    pub names: Vec<(Vec<u8>, Kind)>,
}

/// A place in which a script can run.
pub trait World {
    /// What to call it.
    fn name(&self) -> &str;

    /// Its clock: every time it gives out from now on is not before this.
    fn now(&mut self) -> Time;

    /// Does one step.
    fn run(&mut self, step: &Step) -> Outcome;

    /// Closes all slots, then looks at everything with the eyes of root. What contradicts itself is an error.
    fn tree(&mut self) -> Result<Vec<Seen>, String>;
}

/// FNV-1a, for telling and comparing bytes briefly.
#[must_use]
pub fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Extended attributes, names with their values.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;
/// Reads bytes of a file from an offset; how many there were.
pub(crate) type ReadAt<'a> = dyn FnMut(u64, &mut [u8]) -> Result<usize, String> + 'a;
/// Finds the first data at or behind an offset.
pub(crate) type NextData<'a> = dyn FnMut(u64) -> Result<Option<u64>, String> + 'a;

/// Bytes per page of [`Seen::pages`].
pub const PAGE: u64 = 4096;

/// Pages of a file, from whatever can read it and find its data. Small files are read whole as well, and the two
/// must agree.
pub(crate) fn pages(
    size: u64,
    read: &mut ReadAt<'_>,
    next_data: &mut NextData<'_>,
) -> Result<Vec<(u64, u32)>, String> {
    const WHOLE_MAX: u64 = 1 << 20;
    let mut pages = Vec::new();
    let mut at = 0;
    while let Some(data) = if at < size { next_data(at)? } else { None } {
        if data < at || data >= size {
            return Err(format!("data at {data} when asked from {at} of {size}"));
        }
        at = data / PAGE * PAGE;
        page(at, size, read, &mut pages)?;
        at = at.saturating_add(PAGE);
    }
    if size > WHOLE_MAX {
        // tmpfs does not find data in the page that holds the last offset of all.
        let last = (size - 1) / PAGE * PAGE;
        if pages.last().is_none_or(|&(at, _)| at < last) {
            page(last, size, read, &mut pages)?;
        }
    } else {
        let mut whole = Vec::new();
        for at in (0..size).step_by(PAGE as usize) {
            page(at, size, read, &mut whole)?;
        }
        if whole != pages {
            return Err(format!("read {whole:x?}, but by its data {pages:x?}"));
        }
    }
    Ok(pages)
}

/// Programs that copy take a file without blocks for all hole: each page with bytes counts for one at
/// least.
pub(crate) fn counts(blocks: u64, pages: &[(u64, u32)]) -> Result<(), String> {
    let least = pages.len() as u64;
    if blocks < least { Err(format!("{blocks} blocks, and data in {least} pages")) } else { Ok(()) }
}

fn page(
    at: u64,
    size: u64,
    read: &mut ReadAt<'_>,
    pages: &mut Vec<(u64, u32)>,
) -> Result<(), String> {
    let mut bytes = vec![0; (size - at).min(PAGE) as usize];
    let count = read(at, &mut bytes)?;
    if count != bytes.len() {
        return Err(format!("{count} bytes at {at} instead of {}", bytes.len()));
    }
    if bytes.iter().any(|&byte| byte != 0) {
        pages.push((at, hash(&bytes)));
    }
    Ok(())
}
