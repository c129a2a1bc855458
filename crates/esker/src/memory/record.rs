//! The values of the tree, each declared once.
//!
//! Neighbours: `keys` has the keys. Invariant: a record with inline content has no extents.

use crate::attr::{Attr, Flags, Kind, Time};
use crate::error::{Error, Result};
use crate::ground::short;
use crate::ids::{Cursor, Ino};
use crate::layout;
use crate::limits::{FILE_SIZE_MAX, GRANULE, INLINE_LEN_MAX, INODE_HEAD_LEN_MAX, LINKS_MAX};
use crate::store::Entry;

layout! {
    /// An inode. Behind it in the same value: `inline_len` bytes of content; what follows them up
    /// to `size` is hole.
    pub struct Record: 92 {
        /// `st_mode`: type and permission bits.
         0 => mode: u16,
        /// Content behind the record, in bytes.
         2 => inline_len: u16,
        /// chattr flags.
         4 => flags: u32,
        /// Owner.
         8 => uid: u32,
        /// Group.
        12 => gid: u32,
        /// Names that lead here.
        16 => nlink: u32,
        /// Bytes; of a directory: entries.
        20 => size: u64,
        /// The directory above, of a directory.
        28 => parent: u64,
        /// By kind. Directory: the next entry's sequence number. Device: its number. Otherwise:
        /// granules that the extents take.
        36 => own: u64,
        /// Last read: seconds and nanoseconds.
        44 => atime_secs: i64,
        52 => atime_nanos: u32,
        /// Last change of content.
        56 => mtime_secs: i64,
        64 => mtime_nanos: u32,
        /// Last change of anything.
        68 => ctime_secs: i64,
        76 => ctime_nanos: u32,
        /// Birth.
        80 => btime_secs: i64,
        88 => btime_nanos: u32,
    }
}

layout! {
    /// What a name leads to.
    pub struct NameValue: 17 {
        /// Its place in the listing.
         0 => seq: u64,
        /// The inode.
         8 => ino: u64,
        /// The inode's kind, as `d_type`.
        16 => kind: u8,
    }
}

layout! {
    /// An entry in the order of the listing; the name follows.
    pub struct SeqValue: 9 {
        /// The inode.
         0 => ino: u64,
        /// The inode's kind, as `d_type`.
         8 => kind: u8,
    }
}

layout! {
    /// A run of granules of a file.
    pub struct ExtentValue: 12 {
        /// Where it lies, in bytes, a multiple of the granule; bit 0: unwritten, reads as zeros.
         0 => place: u64,
        /// Granules.
         8 => len: u32,
    }
}

const _: () = assert!(matches!(Record::FIELDS[6].1.as_bytes(), b"size"));
const _: () = assert!(Record::SIZE <= INODE_HEAD_LEN_MAX);
const _: () = assert!(INLINE_LEN_MAX <= GRANULE as usize && INLINE_LEN_MAX <= u16::MAX as usize);

/// Kinds by their `d_type`.
static KINDS: [Option<Kind>; 16] = {
    let (mut kinds, mut bits) = ([None; 16], 1);
    while bits < kinds.len() {
        kinds[bits] = Kind::from_mode((bits as u32) << 12);
        bits += 1;
    }
    kinds
};

/// The kind behind a `d_type`.
#[inline]
pub(super) fn kind_of(dirent_type: u8) -> Result<Kind> {
    let kind = KINDS.get(usize::from(dirent_type)).copied().flatten();
    kind.ok_or(Error::Corrupt)
}

const fn time(secs: i64, nanos: u32) -> Time {
    Time { secs, nanos }
}

impl Record {
    /// Where its size is.
    pub(super) const SIZE_OFFSET: usize = Self::FIELDS[6].0;

    /// Of no inode.
    pub(super) const NONE: Self = Self {
        mode: 0,
        inline_len: 0,
        flags: 0,
        uid: 0,
        gid: 0,
        nlink: 0,
        size: 0,
        parent: 0,
        own: 0,
        atime_secs: 0,
        atime_nanos: 0,
        mtime_secs: 0,
        mtime_nanos: 0,
        ctime_secs: 0,
        ctime_nanos: 0,
        btime_secs: 0,
        btime_nanos: 0,
    };

    /// A new inode without content. Sets everything that POSIX decides.
    pub(super) fn new(attr: &Attr) -> Self {
        let own = if attr.kind == Kind::Directory { Cursor::FIRST.0 } else { 0 };
        let mut record = Self { own, ..Self::NONE };
        record.set(attr.kind, attr);
        record
    }

    /// Everything that POSIX decides; `kind` stays as it is here.
    pub(super) fn set(&mut self, kind: Kind, attr: &Attr) {
        self.mode = (kind.bits() | u32::from(attr.perm & 0o7777)) as u16;
        self.flags = attr.flags.0;
        (self.uid, self.gid) = (attr.uid, attr.gid);
        self.nlink = attr.nlink;
        self.parent = attr.parent.0;
        if matches!(kind, Kind::CharDevice | Kind::BlockDevice) {
            self.own = u64::from(attr.rdev);
        }
        (self.atime_secs, self.atime_nanos) = (attr.atime.secs, attr.atime.nanos);
        (self.mtime_secs, self.mtime_nanos) = (attr.mtime.secs, attr.mtime.nanos);
        (self.ctime_secs, self.ctime_nanos) = (attr.ctime.secs, attr.ctime.nanos);
        (self.btime_secs, self.btime_nanos) = (attr.btime.secs, attr.btime.nanos);
    }

    /// Takes the place of the record at the head of a value; other values stay as they are.
    #[inline]
    pub(super) fn change(&self, value: &mut [u8]) {
        if let Some(head) = value.first_chunk_mut() {
            self.encode_into(head);
        }
    }

    /// What it is.
    #[inline]
    pub(super) fn kind(&self) -> Result<Kind> {
        kind_of((self.mode >> 12) as u8)
    }

    /// Regular files and symlinks have content.
    #[inline]
    pub(super) fn has_content(&self) -> bool {
        matches!(self.kind(), Ok(Kind::File | Kind::Symlink))
    }

    /// Space taken in granules, which are also the units of `st_blocks`.
    #[inline]
    fn blocks(&self, kind: Kind) -> u64 {
        match kind {
            Kind::File | Kind::Symlink if self.inline_len > 0 => {
                u64::from(self.inline_len).div_ceil(GRANULE)
            }
            Kind::File | Kind::Symlink => self.own,
            _ => 0,
        }
    }

    /// As the knot has it.
    #[inline]
    pub(super) fn attr(&self) -> Result<Attr> {
        let kind = self.kind()?;
        let device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
        Ok(Attr {
            kind,
            perm: self.mode & 0o7777,
            uid: self.uid,
            gid: self.gid,
            nlink: self.nlink,
            rdev: if device { self.own as u32 } else { 0 },
            flags: Flags(self.flags),
            size: self.size,
            blocks: self.blocks(kind),
            parent: Ino(self.parent),
            atime: time(self.atime_secs, self.atime_nanos),
            mtime: time(self.mtime_secs, self.mtime_nanos),
            ctime: time(self.ctime_secs, self.ctime_nanos),
            btime: time(self.btime_secs, self.btime_nanos),
        })
    }
}

/// The record at the head of a value, with its numbers within their limits.
#[inline]
pub(super) fn record(value: &[u8]) -> Result<Record> {
    let record = Record::decode(value).ok_or(Error::Corrupt)?;
    let sound =
        record.size <= FILE_SIZE_MAX && record.own <= FILE_SIZE_MAX && record.nlink <= LINKS_MAX;
    if sound { Ok(record) } else { Err(Error::Corrupt) }
}

/// The inline content behind the record.
#[inline]
pub(super) fn inline(value: &[u8]) -> Result<&[u8]> {
    let len = usize::from(record(value)?.inline_len);
    value.get(Record::SIZE..Record::SIZE + len).ok_or(Error::Corrupt)
}

/// What is stored for an entry under its name.
#[inline]
pub(super) fn name_value(entry: &Entry) -> [u8; NameValue::SIZE] {
    NameValue { seq: entry.seq.0, ino: entry.ino.0, kind: entry.kind.dirent_type() }.encode()
}

/// What a name's value says.
#[inline]
pub(super) fn entry(value: &[u8]) -> Result<Entry> {
    let value = NameValue::decode(value).ok_or(Error::Corrupt)?;
    Ok(Entry { ino: Ino(value.ino), kind: kind_of(value.kind)?, seq: Cursor(value.seq) })
}

/// The part of an entry's value in listing order that comes before the name.
#[inline]
pub(super) fn seq_value(entry: &Entry) -> [u8; SeqValue::SIZE] {
    SeqValue { ino: entry.ino.0, kind: entry.kind.dirent_type() }.encode()
}

/// Bytes that the value of a short name has at most.
const SHORT: usize = 48;

/// Calls `f` with the value of an entry in listing order. Most names are short, and their values soon made.
#[inline]
pub(super) fn with_listed<R>(entry: &Entry, name: &[u8], f: impl FnOnce(&[u8]) -> R) -> R {
    let head = seq_value(entry);
    let put = |value: &mut [u8]| {
        short::copy(&mut value[..SeqValue::SIZE], &head);
        short::copy(&mut value[SeqValue::SIZE..], name);
    };
    let (mut near, len) = (short::zeros::<{ SHORT / 8 }>(), SeqValue::SIZE + name.len());
    match near.as_flattened_mut().get_mut(..len) {
        Some(value) => {
            put(value);
            f(value)
        }
        None => {
            let mut value = alloc::vec![0; len];
            put(&mut value);
            f(&value)
        }
    }
}

/// An entry and its name from the listing.
#[inline]
pub(super) fn listed(seq: Cursor, value: &[u8]) -> Result<(Entry, &[u8])> {
    let head = SeqValue::decode(value).ok_or(Error::Corrupt)?;
    let entry = Entry { ino: Ino(head.ino), kind: kind_of(head.kind)?, seq };
    Ok((entry, &value[SeqValue::SIZE..]))
}
