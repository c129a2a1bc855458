//! Rows of inodes: attributes, and content that is short enough to be kept with them.

use esker::limits::SYMLINK_LEN_MAX;
use esker::{Attr, Flags, Ino, Kind, Time};

use super::{ends, rising, value, write_rising};
use crate::column::{Numbers, apply, difference, unzigzag, zigzag};
use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;

const INO: u8 = 1;
const MODE: u8 = 3;
const UID: u8 = 4;
const GID: u8 = 5;
const LINKS: u8 = 6;
const DEVICE: u8 = 7;
const FLAGS: u8 = 8;
const SIZE: u8 = 9;
const BLOCKS: u8 = 10;
const PARENT: u8 = 11;
const MTIME: u8 = 12;
const ATIME: u8 = 14;
const CTIME: u8 = 16;
const BTIME: u8 = 18;
const INLINE: u8 = 20;
const COLUMNS: [u8; 21] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21];

/// An inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Its number.
    pub ino: Ino,
    /// Its attributes.
    pub attr: Attr,
    /// Its content, if it is kept here.
    pub inline: Vec<u8>,
}

/// A page of inodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inodes {
    inos: Vec<u64>,
    columns: [Numbers; 17],
    inline_ends: Vec<u32>,
    inline: Vec<u8>,
}

/// Columns from MODE to BTIME's nanoseconds.
const fn place(column: u8) -> usize {
    (column - MODE) as usize
}

const fn usual_links(kind: Kind) -> u64 {
    if matches!(kind, Kind::Directory) { 2 } else { 1 }
}

fn usual_blocks(kind: Kind, size: u64) -> u64 {
    if kind == Kind::File { size.div_ceil(512) } else { 0 }
}

fn time_columns(time: Time, mtime: Time) -> [u64; 2] {
    let secs = time.secs.wrapping_sub(mtime.secs);
    [zigzag(secs), zigzag(i64::from(time.nanos) - i64::from(mtime.nanos))]
}

fn row(inode: &Inode) -> [u64; 17] {
    let attr = &inode.attr;
    let mut row = [0; 17];
    let mut set = |column: u8, value: u64| row[place(column)] = value;
    set(MODE, attr.mode().into());
    set(UID, attr.uid.into());
    set(GID, attr.gid.into());
    set(LINKS, difference(attr.nlink.into(), usual_links(attr.kind)));
    set(DEVICE, attr.rdev.into());
    set(FLAGS, attr.flags.0.into());
    set(SIZE, attr.size);
    set(BLOCKS, difference(attr.blocks, usual_blocks(attr.kind, attr.size)));
    if attr.kind == Kind::Directory {
        set(PARENT, difference(inode.ino.0, attr.parent.0));
    }
    set(MTIME, attr.mtime.secs.cast_unsigned());
    set(MTIME + 1, attr.mtime.nanos.into());
    for (column, time) in [(ATIME, attr.atime), (CTIME, attr.ctime), (BTIME, attr.btime)] {
        let [secs, nanos] = time_columns(time, attr.mtime);
        set(column, secs);
        set(column + 1, nanos);
    }
    row
}

impl Inodes {
    /// The plain bytes of a page of these, which rise.
    #[must_use]
    pub fn encode(inodes: &[Inode], measure: Measure) -> Vec<u8> {
        let mut group = GroupWriter::new(kind::INODE, inodes.len(), measure);
        let inos: Vec<_> = inodes.iter().map(|inode| inode.ino.0).collect();
        write_rising(&mut group, (INO, INO + 1), &inos, 1);
        let rows: Vec<_> = inodes.iter().map(row).collect();
        for column in MODE..INLINE {
            group.numbers(column, &rows.iter().map(|row| row[place(column)]).collect::<Vec<_>>());
        }
        let lens: Vec<_> = inodes.iter().map(|inode| inode.inline.len() as u64).collect();
        group.numbers(INLINE, &lens);
        let inline: Vec<u8> = inodes.iter().flat_map(|inode| inode.inline.clone()).collect();
        group.bytes(INLINE + 1, &inline);
        group.page()
    }

    /// From the plain bytes of a page.
    ///
    /// # Errors
    /// `Damaged`, `Unsupported`.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        let group = Group::only(plain, kind::INODE, &COLUMNS)?;
        let inos = rising(&group, (INO, INO + 1), 1)?;
        let mut columns = [const { Numbers::Same(0) }; 17];
        for column in MODE..INLINE {
            columns[place(column)] = group.numbers(column)?;
        }
        let (inline_ends, inline) = ends(&group, INLINE, INLINE + 1, SYMLINK_LEN_MAX)?;
        let page = Self { inos, columns, inline_ends, inline };
        for row in 0..page.inos.len() {
            let attr = page.attr_at(row)?;
            let len = page.inline_at(row).len() as u64;
            let holds = matches!(attr.kind, Kind::File | Kind::Symlink);
            let whole = len == attr.size && holds;
            if (len > 0 || attr.kind == Kind::Symlink) && !whole {
                return Err(Damage::Range.into());
            }
        }
        Ok(page)
    }

    /// The row of an inode.
    #[must_use]
    pub fn find(&self, ino: Ino) -> Option<usize> {
        self.inos.binary_search(&ino.0).ok()
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.inos.len()
    }

    /// None at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.inos.is_empty()
    }

    /// An inode's number.
    #[must_use]
    pub fn ino(&self, row: usize) -> Option<Ino> {
        self.inos.get(row).map(|&ino| Ino(ino))
    }

    fn time(&self, row: usize, column: u8, mtime: Time) -> Result<Time> {
        let secs = unzigzag(self.columns[place(column)].get(row));
        let nanos = unzigzag(self.columns[place(column + 1)].get(row));
        let nanos = i64::from(mtime.nanos).checked_add(nanos).ok_or(Damage::Range)?;
        in_time(mtime.secs.wrapping_add(secs), nanos)
    }

    /// An inode's attributes.
    ///
    /// # Errors
    /// `Range`, which a page that was decoded does not have.
    pub fn attr_at(&self, row: usize) -> Result<Attr> {
        let number = |column: u8| self.columns[place(column)].get(row);
        let short = |column: u8| u32::try_from(number(column)).map_err(|_| Damage::Range);
        let ino = *self.inos.get(row).ok_or(Damage::Reference)?;
        let mode = short(MODE)?;
        let kind = Kind::from_mode(mode).filter(|kind| kind.bits() == mode & !0o7777);
        let kind = kind.ok_or(Damage::Range)?;
        let size = number(SIZE);
        let nanos = i64::try_from(number(MTIME + 1)).map_err(|_| Damage::Range)?;
        let mtime = in_time(number(MTIME).cast_signed(), nanos)?;
        let links = apply(usual_links(kind), number(LINKS));
        let directory = kind == Kind::Directory;
        let parent = if directory { apply(ino, zigzag_negated(number(PARENT))) } else { 0 };
        if size > esker::limits::FILE_SIZE_MAX {
            return Err(Damage::Range.into());
        }
        Ok(Attr {
            kind,
            perm: (mode & 0o7777) as u16,
            uid: short(UID)?,
            gid: short(GID)?,
            nlink: u32::try_from(links).map_err(|_| Damage::Range)?,
            rdev: short(DEVICE)?,
            flags: Flags(short(FLAGS)?),
            size,
            blocks: apply(usual_blocks(kind, size), number(BLOCKS)),
            parent: Ino(parent),
            atime: self.time(row, ATIME, mtime)?,
            mtime,
            ctime: self.time(row, CTIME, mtime)?,
            btime: self.time(row, BTIME, mtime)?,
        })
    }

    /// An inode's content, as far as it is kept here.
    #[must_use]
    pub fn inline_at(&self, row: usize) -> &[u8] {
        value(&self.inline_ends, &self.inline, row)
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        let columns: usize = self.columns.iter().map(Numbers::memory).sum();
        self.inos.len() * 8 + columns + self.inline_ends.len() * 4 + self.inline.len()
    }
}

/// The zigzag of the number with the other sign.
const fn zigzag_negated(value: u64) -> u64 {
    zigzag(unzigzag(value).wrapping_neg())
}

fn in_time(secs: i64, nanos: i64) -> Result<Time> {
    let nanos = u32::try_from(nanos).ok().filter(|&nanos| nanos < 1_000_000_000);
    Ok(Time { secs, nanos: nanos.ok_or(Damage::Range)? })
}
