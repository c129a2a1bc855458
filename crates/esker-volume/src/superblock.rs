//! The superblock: what a volume is like, where its root lies, and where its log goes on from there.
//!
//! Above: `mkfs`, `recovery`, `settle`. Invariant: a superblock that was parsed had its magic, end and checksum
//! right, needs no feature that is not known here, and its numbers fit each other.
#![expect(missing_docs, reason = "fields have their meanings in FORMAT.md")]

use esker::layout;
use esker_stone::check::checksum;
use esker_stone::superblock::{CHECKED_LEN, Claims, END, MAGIC, XXH3};
use esker_stone::{Codec, PageRef, Setting, Unsupported};

use crate::error::{Damage, Result};
use crate::limits::{
    BLOCK_LEN_MAX, BLOCK_LEN_MIN, COPIES_MAX, NUMBER_MAX, SEGMENT_LEN_MAX, SEGMENT_LEN_MIN,
    SEGMENTS_MAX, SEGMENTS_MIN, SLOT_MAX, SUPERBLOCK_STEP, SUPERBLOCKS_MAX, UNIT_MAX, UNIT_MIN,
};

/// The version written here.
pub const VERSION: u32 = 1;
/// The feature without which blocks that only snapshots need would be taken for others.
pub const SNAPSHOTS: u64 = 1;
/// The feature without which rules for snapshots would be lost.
pub const RULES: u64 = 2;
/// The feature without which bytes of a base would be taken for blocks.
pub const BASE: u64 = 4;
/// The feature without which parts would not be found that begin at the next page.
pub const PAGES: u64 = 8;
/// The feature without which segments of blocks that were moved would be taken for something else.
pub const MOVED: u64 = 16;
/// The feature without which a block would be taken for needless though others differ from it.
pub const DELTAS: u64 = 32;
/// The feature without which blocks of which a part is needed would be counted as a whole.
pub const PIECES: u64 = 64;
/// The feature without which listings would be looked for among rows of places.
pub const NAMES: u64 = 128;
/// Features without which a volume is not understood, and that are known here.
const KNOWN: u64 = SNAPSHOTS | RULES | BASE | PAGES | MOVED | DELTAS | PIECES | NAMES;
/// The feature without which what is written behind a log that was closed would not be looked for.
pub const CLOSED: u64 = 1;
/// The home that it is of.
const VOLUME: u32 = 2;

layout! {
    /// Where everything hangs from.
    pub struct Superblock: 512 {
        0 => magic: [u8; 8],
        8 => version: u32,
        12 => home: u32,
        16 => compatible: u64,
        24 => read_compatible: u64,
        32 => incompatible: u64,
        40 => generation: u64,
        48 => size: u64,
        56 => uuid: [u8; 16],
        72 => label: [u8; 32],
        104 => segment_len: u64,
        112 => segment_room: u64,
        120 => unit: u32,
        124 => block_len: u32,
        128 => codec: u32,
        132 => level: u32,
        136 => copies: u32,
        140 => checksums: u32,
        144 => born: i64,
        152 => sequence: u64,
        160 => epoch: u64,
        168 => log_segment: u64,
        176 => log_physical: u32,
        180 => log_slot: u32,
        184 => log_at: u64,
        192 => log_before: u64,
        200 => log_next: u32,
        204 => log_spare: u32,
        208 => root_segment: u64,
        216 => root_physical: u32,
        220 => root_codec: u32,
        224 => root_at: u64,
        232 => root_stored: u32,
        236 => root_plain: u32,
        240 => root_checksum: u64,
        248 => root_hash: [u8; 32],
        280 => reserve: u64,
        288 => proven: u64,
        296 => closed: u64,
        304 => reserved: [u8; 192],
        496 => checksum: u64,
        504 => end: [u8; 8],
    }
}

/// Whether a volume begins with these bytes, of any version.
#[must_use]
pub fn is_one(head: &[u8; 16]) -> bool {
    head.starts_with(&MAGIC) && head[12..] == VOLUME.to_le_bytes()
}

/// Whether one that was only decoded says that it is of a volume.
pub(crate) const fn is_volume(block: &Superblock) -> bool {
    block.home == VOLUME
}

impl Superblock {
    /// One of a new volume, to be filled in.
    #[must_use]
    pub fn new(uuid: [u8; 16]) -> Self {
        let zero = Self::decode(&[0; Self::SIZE]);
        let zero = zero.expect("as long as a superblock");
        Self {
            magic: MAGIC,
            version: VERSION,
            home: VOLUME,
            uuid,
            checksums: XXH3,
            end: END,
            ..zero
        }
    }

    /// Its bytes, with the checksum right.
    #[must_use]
    pub fn sealed(&self) -> [u8; 512] {
        let checksum = checksum(&self.encode()[..CHECKED_LEN]);
        Self { checksum, ..*self }.encode()
    }

    /// From its bytes, if they are as they were written; of whatever version.
    pub(crate) fn whole(bytes: &[u8]) -> Option<Self> {
        // Most of what is looked at is nothing: an opening looks at all places of superblocks.
        let block = bytes.starts_with(&MAGIC).then(|| Self::decode(bytes))??;
        let counts = block.end == END && checksum(bytes.get(..CHECKED_LEN)?) == block.checksum;
        counts.then_some(block)
    }

    /// From its bytes.
    ///
    /// # Errors
    /// `NoVolume` when it does not count; `Unsupported`; `Superblock` when its numbers contradict each other.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let block = Self::whole(bytes).ok_or(Damage::NoVolume)?;
        let Self { version, home, checksums, .. } = block;
        let incompatible = block.incompatible & !KNOWN;
        let claims = Claims { version, home, incompatible, checksums };
        claims.known(VERSION, VOLUME).map_err(esker_stone::Error::from)?;
        Codec::numbered(block.codec.into())?;
        if block.fits() { Ok(block) } else { Err(Damage::Superblock.into()) }
    }

    /// That nothing is set that a writer must know and is not known here.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn may_be_written(&self) -> Result<()> {
        match self.read_compatible & !CLOSED {
            0 => Ok(()),
            unknown => Err(esker_stone::Error::from(Unsupported::Writing(unknown)).into()),
        }
    }

    fn fits(&self) -> bool {
        let unit = self.unit.is_power_of_two() && (UNIT_MIN..=UNIT_MAX).contains(&self.unit);
        let segment = self.segment_len.is_power_of_two()
            && (SEGMENT_LEN_MIN..=SEGMENT_LEN_MAX).contains(&self.segment_len)
            && (SEGMENT_LEN_MIN..=self.segment_len).contains(&self.segment_room)
            && unit
            && self.segment_room.is_multiple_of(self.unit.into());
        let count = self.size.checked_div(self.segment_len).unwrap_or(0);
        let inside = |physical: u32| u64::from(physical) < count;
        segment
            && (SEGMENTS_MIN..=SEGMENTS_MAX).contains(&count)
            && (BLOCK_LEN_MIN..=BLOCK_LEN_MAX).contains(&self.block_len)
            && (1..=COPIES_MAX).contains(&self.copies)
            && [self.log_physical, self.log_next, self.log_spare, self.root_physical]
                .into_iter()
                .all(inside)
            && [self.generation, self.proven, self.epoch, self.log_segment, self.root_segment]
                .into_iter()
                .all(|number| number < NUMBER_MAX)
            && self.log_slot < SLOT_MAX
            && self.reserve <= self.size / 2
            && self.sequence <= self.proven
            && self.log_at <= self.segment_room
            && self.log_at.is_multiple_of(self.unit.into())
    }

    /// The same with its log closed behind the part of this name, or open: 0.
    #[must_use]
    pub const fn closed_at(self, name: u64) -> Self {
        let others = self.read_compatible & !CLOSED;
        let read_compatible = if name == 0 { others } else { others | CLOSED };
        Self { closed: name, read_compatible, ..self }
    }

    /// How many segments there are, superblocks included.
    #[must_use]
    pub const fn segments(&self) -> u32 {
        (self.size / self.segment_len) as u32
    }

    /// How many segments, from the first, hold superblocks.
    #[must_use]
    pub const fn homes(&self) -> u32 {
        2 * self.copies
    }

    /// How many superblocks one segment holds.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        let all = self.segment_room / SUPERBLOCK_STEP;
        if all < SUPERBLOCKS_MAX { all } else { SUPERBLOCKS_MAX }
    }

    /// The codec.
    #[must_use]
    pub fn setting(&self) -> Setting {
        let codec = Codec::numbered(self.codec.into()).unwrap_or(Codec::None);
        Setting::new(codec, self.level.cast_signed())
    }

    /// The root, if there is one yet.
    ///
    /// # Errors
    /// `Unsupported`, `Range`.
    pub fn root(&self) -> Result<Option<PageRef>> {
        if self.root_stored == 0 {
            return Ok(None);
        }
        let page = PageRef {
            segment: self.root_segment,
            at: self.root_at,
            stored: self.root_stored,
            plain: self.root_plain,
            codec: Codec::numbered(self.root_codec.into())?,
            checksum: self.root_checksum,
            hash: self.root_hash,
        };
        Ok(Some(page.checked()?))
    }

    /// The same volume with this root.
    #[must_use]
    pub fn with_root(&self, physical: u32, root: &PageRef) -> Self {
        Self {
            root_segment: root.segment,
            root_physical: physical,
            root_codec: root.codec.number().into(),
            root_at: root.at,
            root_stored: root.stored,
            root_plain: root.plain,
            root_checksum: root.checksum,
            root_hash: root.hash,
            ..*self
        }
    }
}
