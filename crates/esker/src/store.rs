//! The knot: what POSIX may ask of a home, and the only words in which a file system can change.
//!
//! Above: `posix` reads through a [`View`], decides, and commits one [`Batch`]. Below: homes remember.
//! Invariant: whoever calls holds the locks of the inodes concerned (`posix::locks`): no two commits at once
//! name the same inode, and nobody reads an inode's bytes while a commit writes them. What touches the home
//! as a whole (sub-trees, space) the home locks itself.

use core::ops::ControlFlow;

use crate::attr::{Attr, Kind, Time};
use crate::error::{Error, Result};
use crate::ids::{Cursor, Ino, Span};
use crate::limits::CHANGES_MAX;
use crate::name::{Name, XattrName};

/// What is done with an inode's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// They are read.
    Read,
    /// They are written.
    Write,
}

/// Go on, or stop here.
pub type Flow = ControlFlow<()>;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The inode.
    pub ino: Ino,
    /// Its kind, kept with the name so that listing needs no inode.
    pub kind: Kind,
    /// Its place in the listing.
    pub seq: Cursor,
}

/// One entry of a listing.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The name.
    pub name: Name<'a>,
    /// What it leads to.
    pub entry: Entry,
    /// The inode's attributes, where they were asked for.
    pub attr: Option<Attr>,
}

/// How full a home is, in bytes and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that the home may hold, its own bookkeeping included.
    pub total: u64,
    /// Bytes in use.
    pub used: u64,
    /// Inodes in use.
    pub inodes: u64,
}

/// Everything that a home can answer. A read-only image implements only this.
pub trait View {
    /// Whether [`reread`](Self::reread) and [`Store::rewrite`] ever do anything.
    #[inline]
    fn warms(&self) -> bool {
        false
    }

    /// Whether the inode can never be changed though others can: every batch that names it is refused with `ReadOnly`.
    /// Who asks first refuses at once what would only fail later, as opening a file to be written.
    #[inline]
    fn is_fixed(&self, ino: Ino) -> bool {
        let _ = ino;
        false
    }

    /// Whether what is told of the inode, of the name that leads to it, and of the names in it changes without a
    /// batch: nobody may keep it.
    #[inline]
    fn is_fleeting(&self, ino: Ino) -> bool {
        let _ = ino;
        false
    }

    /// An inode's attributes. `NotFound` when there is no such inode.
    fn attr(&self, ino: Ino) -> Result<Attr>;

    /// What `name` leads to in directory `dir`.
    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry>;

    /// Every entry behind `after`, in listing order, until `each` breaks. With `attrs`, each comes with its
    /// inode's attributes. Entries made or removed meanwhile may or may not come; all others come once.
    /// No lock is held while `each` runs.
    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()>;

    /// Bytes of a file, or a symlink's target, from `at`; how many there were. Short only at the end of the file.
    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize>;

    /// As [`read`](Self::read), quickly, where a read of the inode at `now` was told to leave its attributes alone
    /// ([`warm`](Self::warm)) and they have not changed since; `None` where it is to be done at length.
    #[inline]
    fn reread(&self, ino: Ino, at: u64, target: &mut [u8], now: Time) -> Result<Option<usize>> {
        let _ = (ino, at, target, now);
        Ok(None)
    }

    /// Another use of this kind at the same time `now` would leave the inode's attributes as they are, but for its
    /// size, until they change. A hint, which a home may forget.
    #[inline]
    fn warm(&self, ino: Ino, after: Use, now: Time) {
        let _ = (ino, after, now);
    }

    /// The first run of data at or behind `at` and before the end of the file; `None` when there is only hole
    /// left. A run that holds `at` begins at `at`. It need not be all of the data there: another may begin where it
    /// ends, so that nobody has to walk through a whole file to tell of a part.
    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>>;

    /// The value of an extended attribute, appended to `target`. `NoData` when there is none.
    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut alloc::vec::Vec<u8>) -> Result<()>;

    /// The names of all extended attributes, in the order of their bytes.
    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()>;

    /// How full the home is.
    fn space(&self) -> Space;
}

/// What a writable home must add: take a batch whole, or not at all.
pub trait Store: View {
    /// A number for a new inode. Never given out twice. A file follows its directory's group of
    /// inodes, a directory starts one.
    fn next_ino(&self, parent: Ino, kind: Kind) -> Ino;

    /// Applies the changes in their order, all of them or, on an error, none.
    fn commit(&self, batch: &Batch<'_>) -> Result<()>;

    /// Writes as [`Change::Write`] alone would, quickly, where a write to the inode at `now` was told to leave its
    /// attributes alone ([`warm`](View::warm)) and they have not changed since; `false`, and nothing has
    /// happened, where it is to be done at length.
    #[inline]
    fn rewrite(&self, ino: Ino, at: u64, source: &[u8], now: Time) -> Result<bool> {
        let _ = (ino, at, source, now);
        Ok(false)
    }

    /// Gives back space that the home took beyond the end of a file on speculation; nothing that a
    /// [`View`] answers changes but `blocks`.
    fn trim(&self, ino: Ino) -> Result<()> {
        let _ = ino;
        Ok(())
    }

    /// Told about once a second by whoever serves the home, if anybody does: what was kept at hand for speed and
    /// not used for [`RESTING_TICKS`](crate::limits::RESTING_TICKS) goes back to the operating system. A home that
    /// is never told keeps nothing there. The answer is how many bytes went back to the global allocator, whose
    /// they still are until it is told to let go of them.
    fn tick(&self) -> Result<u64> {
        Ok(0)
    }

    /// Returns once everything committed would survive a loss of power, as far as the home promises that.
    fn sync(&self) -> Result<()>;
}

/// A home that cannot be written, as a [`Store`]: what it answers stays true for ever.
#[derive(Clone, Copy, Debug)]
pub struct ReadOnly<V>(pub V);

impl<V: View> View for ReadOnly<V> {
    fn is_fixed(&self, _: Ino) -> bool {
        true
    }

    fn is_fleeting(&self, ino: Ino) -> bool {
        self.0.is_fleeting(ino)
    }

    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.0.attr(ino)
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        self.0.entry(dir, name)
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        self.0.entries(dir, after, attrs, each)
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        self.0.read(ino, at, target)
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        self.0.next_data(ino, at)
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut alloc::vec::Vec<u8>) -> Result<()> {
        self.0.xattr(ino, name, target)
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        self.0.xattrs(ino, each)
    }

    fn space(&self) -> Space {
        self.0.space()
    }
}

impl<V: View> Store for ReadOnly<V> {
    /// Nobody can use it: every batch is refused.
    fn next_ino(&self, _: Ino, _: Kind) -> Ino {
        Ino(0)
    }

    fn commit(&self, _: &Batch<'_>) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// The only words in which a file system can change.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// A new, empty inode; `size` and `blocks` of `attr` are ignored.
    Make {
        /// From [`Store::next_ino`].
        ino: Ino,
        /// Its attributes.
        attr: Attr,
    },
    /// New attributes; `kind`, `size` and `blocks` stay as the home has them.
    Set {
        /// Which.
        ino: Ino,
        /// All of them.
        attr: Attr,
    },
    /// The inode with its content and extended attributes goes. No name leads to it any more.
    Drop {
        /// Which.
        ino: Ino,
    },
    /// `name` leads to `ino`. What it led to before is replaced and keeps its place in the listing; a new
    /// name comes last. The directory's `size` counts its entries.
    Link {
        /// Where.
        dir: Ino,
        /// Under what name.
        name: Name<'a>,
        /// To what.
        ino: Ino,
        /// Which is of this kind.
        kind: Kind,
    },
    /// `name` leads nowhere.
    Unlink {
        /// Where.
        dir: Ino,
        /// What name.
        name: Name<'a>,
    },
    /// Bytes of a file or a symlink's target; `size` rises if they end behind it.
    Write {
        /// Which.
        ino: Ino,
        /// From which byte.
        at: u64,
        /// What.
        source: &'a [u8],
    },
    /// `size` becomes `len`: what lies behind is dropped (reserved space too), what is new is hole.
    Cut {
        /// Which.
        ino: Ino,
        /// In bytes.
        len: u64,
    },
    /// The span becomes hole; `size` stays.
    Punch {
        /// Which.
        ino: Ino,
        /// What.
        span: Span,
    },
    /// Space for every byte of the span, which reads as it did; `size` stays.
    Reserve {
        /// Which.
        ino: Ino,
        /// What; may lie behind the end of the file.
        span: Span,
    },
    /// `len` bytes of `source` from `from` also become those of `ino` from `at`, shared where the home can,
    /// holes staying holes; `size` rises if they end behind it. The ranges lie within `source`'s size and do not
    /// overlap if `source` is `ino`.
    Share {
        /// Whose bytes.
        source: Ino,
        /// From which byte.
        from: u64,
        /// Into which file.
        ino: Ino,
        /// At which byte.
        at: u64,
        /// How many.
        len: u64,
    },
    /// An extended attribute's value; `None` removes it.
    Xattr {
        /// Whose.
        ino: Ino,
        /// Which.
        name: XattrName<'a>,
        /// The value.
        value: Option<&'a [u8]>,
    },
}

/// What one POSIX operation changes, in order. Lives on the stack.
#[derive(Debug, Default)]
pub struct Batch<'a> {
    changes: [Option<Change<'a>>; CHANGES_MAX],
    len: usize,
}

impl<'a> Batch<'a> {
    /// No changes yet.
    // Built where it will stand: it is too large to be moved about.
    #[inline(always)]
    #[must_use]
    pub fn new() -> Self {
        // One by one: a constant would be copied here with all its bytes.
        Self { changes: core::array::from_fn(|_| None), len: 0 }
    }

    /// Adds a change.
    ///
    /// # Panics
    /// When the batch is full: no operation of `posix` is longer than [`CHANGES_MAX`], which its tests show.
    #[inline]
    pub fn push(&mut self, change: Change<'a>) {
        self.changes[self.len] = Some(change);
        self.len += 1;
    }

    /// The changes in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change<'a>> {
        self.changes[..self.len].iter().flatten()
    }
}
