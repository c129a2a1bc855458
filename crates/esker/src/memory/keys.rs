//! The keys of the tree: `inode number, kind of key, rest`, all big-endian, so that the keys of an
//! inode lie together, its record first.
//!
//! Neighbours: `record` declares the values. Invariant: two different things never have the same
//! key, and no key is the beginning of a key of the same inode and kind.

use core::ops::Deref;

use crate::ground::short;
use crate::ids::{Cursor, Ino};
use crate::limits::KEY_LEN_MAX;

const INODE: u8 = 1;
const NAME: u8 = 2;
const SEQ: u8 = 3;
const XATTR: u8 = 4;
const EXTENT: u8 = 5;
const ORPHAN: u8 = 6;
const HEAD: usize = 9;
/// Bytes that a short key has at most.
const SHORT: usize = 48;
/// Kinds of keys, and none.
pub(super) const KINDS: usize = ORPHAN as usize + 1;

/// Which of so many sub-trees holds all keys of an inode.
#[inline]
pub(super) fn group(ino: Ino, groups: usize) -> usize {
    (ino.0 % groups as u64) as usize
}

/// The kind of a key, as a number under [`KINDS`].
#[inline]
pub(super) fn kind(key: &[u8]) -> usize {
    key.get(HEAD - 1).map_or(0, |&kind| usize::from(kind) % KINDS)
}

/// Whether it is the key of a name.
#[inline]
pub(super) fn is_name(key: &[u8]) -> bool {
    kind(key) == usize::from(NAME)
}

/// Whether it is the key of a record.
#[inline]
pub(super) fn is_inode(key: &[u8]) -> bool {
    kind(key) == usize::from(INODE)
}

/// A key of up to [`KEY_LEN_MAX`] bytes.
pub(super) struct Key {
    bytes: [u8; KEY_LEN_MAX],
    len: usize,
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[inline]
fn head(ino: Ino, kind: u8) -> [u8; HEAD] {
    let mut bytes = [kind; HEAD];
    bytes[..8].copy_from_slice(&ino.0.to_be_bytes());
    bytes
}

#[inline]
fn numbered(ino: Ino, kind: u8, number: u64) -> [u8; HEAD + 8] {
    let mut bytes = [kind; HEAD + 8];
    bytes[..8].copy_from_slice(&ino.0.to_be_bytes());
    bytes[HEAD..].copy_from_slice(&number.to_be_bytes());
    bytes
}

#[inline]
fn named(ino: Ino, kind: u8, name: &[u8], tail: &[u8]) -> Key {
    let mut key = Key { bytes: [0; KEY_LEN_MAX], len: HEAD + name.len() + tail.len() };
    key.bytes[..HEAD].copy_from_slice(&head(ino, kind));
    short::copy(&mut key.bytes[HEAD..HEAD + name.len()], name);
    short::copy(&mut key.bytes[HEAD + name.len()..key.len], tail);
    key
}

/// The inode's record.
#[inline]
pub(super) fn inode(ino: Ino) -> [u8; HEAD] {
    head(ino, INODE)
}

/// Before all keys of the inode; of the number behind it: behind them.
#[inline]
pub(super) fn first(ino: Ino) -> [u8; 8] {
    ino.0.to_be_bytes()
}

/// A name in a directory.
pub(super) fn name(dir: Ino, name: &[u8]) -> Key {
    named(dir, NAME, name, &[])
}

/// Calls `f` with the key of a name in a directory. Most names are short, and their keys soon made.
#[inline]
pub(super) fn with_name<R>(dir: Ino, name: &[u8], f: impl FnOnce(&[u8]) -> R) -> R {
    let mut short = short::zeros::<{ SHORT / 8 }>();
    let len = HEAD + name.len();
    match short.as_flattened_mut().get_mut(..len) {
        Some(key) => {
            short::copy(&mut key[..HEAD], &head(dir, NAME));
            short::copy(&mut key[HEAD..], name);
            f(key)
        }
        None => f(&named(dir, NAME, name, &[])),
    }
}

/// A place in a directory's listing.
#[inline]
pub(super) fn seq(dir: Ino, seq: Cursor) -> [u8; HEAD + 8] {
    numbered(dir, SEQ, seq.0)
}

/// A piece of an extended attribute's value. Names hold no NUL and pieces are under 256: the
/// number's first byte ends the name.
#[inline]
pub(super) fn xattr(ino: Ino, name: &[u8], piece: u16) -> Key {
    debug_assert!(piece < 256, "a value has at most 128 pieces");
    named(ino, XATTR, name, &piece.to_be_bytes())
}

/// Before all extended attributes of the inode.
#[inline]
pub(super) fn xattrs(ino: Ino) -> [u8; HEAD] {
    head(ino, XATTR)
}

/// The extent that begins at this granule of the file.
#[inline]
pub(super) fn extent(ino: Ino, start: u64) -> [u8; HEAD + 8] {
    numbered(ino, EXTENT, start)
}

/// That an inode is without names; under the number that no inode has.
#[inline]
pub(super) fn orphan(ino: Ino) -> [u8; HEAD + 8] {
    numbered(Ino(0), ORPHAN, ino.0)
}

/// Behind all extents of the inode.
#[inline]
pub(super) fn extents_end(ino: Ino) -> [u8; HEAD] {
    head(ino, EXTENT + 1)
}

/// What a key says behind the inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest<'a> {
    /// The record.
    Inode,
    /// A name in this directory.
    Name(&'a [u8]),
    /// A place in this directory's listing.
    Seq(Cursor),
    /// A piece of an extended attribute.
    Xattr(&'a [u8], u16),
    /// An extent from this granule on.
    Extent(u64),
    /// This inode is without names.
    Orphan(Ino),
}

/// Takes a key apart; nothing when it is not one of ours.
pub(super) fn parse(key: &[u8]) -> Option<(Ino, Rest<'_>)> {
    let (ino, rest) = key.split_first_chunk::<8>()?;
    let (kind, rest) = rest.split_first()?;
    let number = || Some(u64::from_be_bytes(rest.try_into().ok()?));
    let rest = match *kind {
        INODE if rest.is_empty() => Rest::Inode,
        NAME if !rest.is_empty() => Rest::Name(rest),
        SEQ => Rest::Seq(Cursor(number()?)),
        XATTR => {
            let (name, piece) = rest.split_last_chunk::<2>()?;
            Rest::Xattr(name, u16::from_be_bytes(*piece))
        }
        EXTENT => Rest::Extent(number()?),
        ORPHAN if *ino == [0; 8] => Rest::Orphan(Ino(number()?)),
        _ => return None,
    };
    Some((Ino(u64::from_be_bytes(*ino)), rest))
}
