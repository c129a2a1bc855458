//! What a stream is of: the moment of a volume that it makes, and the one that it begins from; what a receiver keeps.
//!
//! Above: `send`, `receive`. Invariant: two moments are the same only if they are snapshots of one volume with the same
//! last commit, made in the same second, and the hash over all names and attributes in them is the same: copies of a
//! volume that went different ways have different ones.
#![expect(missing_docs, reason = "fields have their meanings in FORMAT.md")]

use std::fmt;

use esker::layout;
use esker_stone::check::checksum;
use esker_stone::hex;
use esker_stone::rows::snapshots::{SnapshotRow, is_name};

use super::frame::Mark;
use super::{Error, Result, Step};

/// The version written here. The one before is read, too.
pub const VERSION: u32 = 2;
/// Bytes of an opening and of a moment in version 1, which had no hash.
const V1: (usize, usize) = (240, 112);
/// The stream begins from another moment.
const SINCE: u32 = 1;
/// No stream has so many frames.
const FRAMES_MAX: u64 = 1 << 48;
/// How a state begins.
const MAGIC: [u8; 8] = *b"EskrHav2";
/// The part of a state that its checksum does not cover.
const UNCHECKED: usize = 16;

layout! {
    /// A snapshot of a volume.
    pub struct Moment: 144 {
        0 => uuid: [u8; 16],
        16 => sequence: u64,
        24 => time: i64,
        32 => next_ino: u64,
        40 => inodes: u64,
        48 => name: [u8; 64],
        112 => tree: [u8; 32],
    }
}

layout! {
    /// What a stream is of.
    pub struct Opening: 304 {
        0 => version: u32,
        4 => flags: u32,
        8 => bytes: u64,
        16 => of: [u8; 144],
        160 => since: [u8; 144],
    }
}

layout! {
    /// How far a receiver is, and with what.
    pub struct Received: 400 {
        0 => magic: [u8; 8],
        8 => checksum: u64,
        16 => step: u32,
        20 => whole: u32,
        24 => frames: u64,
        32 => chain: [u8; 32],
        64 => home: [u8; 16],
        80 => seal: u64,
        88 => left_out: u64,
        96 => opening: [u8; 304],
    }
}

impl Moment {
    /// A snapshot of the volume with this name for machines. Whoever sends it adds the hash.
    #[must_use]
    pub fn of(uuid: [u8; 16], row: &SnapshotRow) -> Self {
        let mut name = [0; 64];
        let len = row.name.len().min(name.len());
        name[..len].copy_from_slice(&row.name[..len]);
        let SnapshotRow { sequence, time, next_ino, inodes, .. } = *row;
        Self { uuid, sequence, time, next_ino, inodes, name, tree: [0; 32] }
    }

    /// What it is called.
    #[must_use]
    pub fn called(&self) -> String {
        let len = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..len]).into_owned()
    }

    /// Whether both are the same, whatever they are called.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Self { name: [0; 64], ..*self } == Self { name: [0; 64], ..*other }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let moment = Self::decode(bytes)?;
        is_name(moment.called().as_bytes()).then_some(moment)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the snapshot {} of the volume {}", self.called(), hex(&self.uuid))
    }
}

impl Opening {
    /// Of a moment, whole or as it differs from another; `bytes` are about those of all files.
    #[must_use]
    pub fn new(of: &Moment, since: Option<&Moment>, bytes: u64) -> Self {
        let flags = if since.is_some() { SINCE } else { 0 };
        let since = since.map_or([0; 144], Moment::encode);
        Self { version: VERSION, flags, bytes, of: of.encode(), since }
    }

    /// From its bytes.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let version = bytes.first_chunk().map_or(0, |&bytes| u32::from_le_bytes(bytes));
        if version > VERSION {
            return Err(Error::Version(version));
        }
        let old =
            (version == 1 && bytes.len() == V1.0).then(|| Self::of_version_1(bytes)).flatten();
        let bytes = old.as_ref().map_or(bytes, |bytes| bytes.as_slice());
        let opening = Self::decode(bytes).filter(|_| bytes.len() == Self::SIZE);
        let sound = |opening: &Self| {
            let since = opening.flags & SINCE == 0 || Moment::parse(&opening.since).is_some();
            (1..=VERSION).contains(&opening.version)
                && opening.flags & !SINCE == 0
                && since
                && Moment::parse(&opening.of).is_some()
        };
        opening.filter(sound).ok_or(Error::Damaged(0))
    }

    /// One of version 1 as it is kept: with hashes of zeros, which are those of no tree.
    fn of_version_1(bytes: &[u8]) -> Option<[u8; 304]> {
        let (whole, moment) = V1;
        let (front, since) = bytes.split_at_checked(whole - moment)?;
        let mut wide = [0; 304];
        wide[..front.len()].copy_from_slice(front);
        wide.get_mut(160..160 + since.len())
            .filter(|_| since.len() == moment)?
            .copy_from_slice(since);
        Some(wide)
    }

    /// What it makes.
    ///
    /// # Panics
    /// Never: a moment takes any bytes.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment::decode(&self.of).expect("as long as a moment")
    }

    /// What it begins from.
    #[must_use]
    pub fn base(&self) -> Option<Moment> {
        if self.flags & SINCE == 0 { None } else { Moment::decode(&self.since) }
    }
}

impl Received {
    pub(super) fn begun(opening: &Opening, mark: Mark) -> Self {
        let (opening, frames, chain) = (opening.encode(), mark.frames, mark.chain);
        let step = Step::Clear as u32;
        let (home, seal, left_out) = ([0; 16], 0, 0);
        let (magic, checksum, whole) = (MAGIC, 0, 0);
        Self { magic, checksum, step, whole, frames, chain, home, seal, left_out, opening }
    }

    /// Its bytes, with the checksum right.
    #[must_use]
    pub fn sealed(&self) -> [u8; 400] {
        let checksum = checksum(&self.encode()[UNCHECKED..]);
        Self { checksum, ..*self }.encode()
    }

    /// From its bytes; none at all where nothing was received.
    ///
    /// # Errors
    /// `State`.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let sound = |own: &Self| {
            bytes.len() == Self::SIZE
                && own.magic == MAGIC
                && checksum(&bytes[UNCHECKED..]) == own.checksum
                && Step::numbered(own.step).is_some()
                && (1..FRAMES_MAX).contains(&own.frames)
                && Opening::parse(&own.opening).is_ok()
        };
        Self::decode(bytes).filter(sound).map(Some).ok_or(Error::State)
    }

    /// How far it is.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark { frames: self.frames, chain: self.chain }
    }

    /// What it is of.
    ///
    /// # Errors
    /// `State`.
    pub fn opening(&self) -> Result<Opening> {
        Opening::parse(&self.opening).map_err(|_| Error::State)
    }
}
