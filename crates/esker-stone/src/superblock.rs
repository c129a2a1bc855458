//! The superblock: first and last in an image, where everything hangs from.
//!
//! Above: `rest`. Invariant: a superblock that was read had its magic, its checksum and its hash
//! right, needs no feature that is not known here, and places everything inside the image.
#![expect(missing_docs, reason = "fields have their meanings in FORMAT.md")]

use esker::layout;

use crate::check::{Hash, checksum, hash};
use crate::codec::Codec;
use crate::error::{Damage, Result, Unsupported};
use crate::page::PageRef;

/// How a superblock begins.
pub const MAGIC: [u8; 8] = *b"\x89ESKR\r\n\x1a";
/// How it ends.
pub const END: [u8; 8] = *b"\x1a\n\rRKSE\x89";
/// The version written here.
pub const VERSION: u32 = 1;
/// The home that it is of.
const IMAGE: u32 = 1;
/// The kind of checksums.
pub const XXH3: u32 = 1;

/// The feature without which code in blocks would be taken for plain: its branches are told by where they go to.
pub const BRANCHES: u64 = 1;
/// The feature without which blocks that are told in words would be taken for plain.
pub const WORDS: u64 = 2;
/// The feature that says of pictures that some block is in a codec of their own.
pub const PICTURES: u64 = 4;
/// The feature without which blocks made of text could not be made where encoders are guessed beside zlib.
pub const ENCODERS: u64 = 8;
/// All features that are known here.
const KNOWN: u64 = BRANCHES | WORDS | PICTURES | ENCODERS;

/// The number of the segment with the roots.
pub const ROOTS: u64 = 1;
/// The number of the segment with the tables.
pub const TABLES: u64 = 2;
/// The number of the segment with the blocks.
pub const DATA: u64 = 3;

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
        56 => data_place: u64,
        64 => data_len: u64,
        72 => tables_place: u64,
        80 => tables_len: u64,
        88 => roots_place: u64,
        96 => roots_twin: u64,
        104 => roots_len: u64,
        112 => root_at: u64,
        120 => root_stored: u32,
        124 => root_plain: u32,
        128 => root_codec: u32,
        132 => checksums: u32,
        136 => root_checksum: u64,
        144 => root_hash: [u8; 32],
        176 => reserved: [u8; 288],
        464 => name: [u8; 32],
        496 => checksum: u64,
        504 => end: [u8; 8],
    }
}

const NAMED_LEN: usize = 464;
/// Bytes that the checksum covers.
pub const CHECKED_LEN: usize = 496;

/// What the superblock of every home says of how it is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The version.
    pub version: u32,
    /// The home.
    pub home: u32,
    /// Features without which it cannot be read.
    pub incompatible: u64,
    /// The kind of checksums.
    pub checksums: u32,
}

impl Claims {
    /// That all of it is known to a reader of this version of this home.
    ///
    /// # Errors
    /// `Version`, `Home`, `Features`, `Checksums`.
    pub fn known(self, version: u32, home: u32) -> std::result::Result<(), Unsupported> {
        if self.version != version {
            return Err(Unsupported::Version(self.version));
        }
        if self.home != home {
            return Err(Unsupported::Home(self.home));
        }
        if self.incompatible != 0 {
            return Err(Unsupported::Features(self.incompatible));
        }
        if self.checksums != XXH3 {
            return Err(Unsupported::Checksums(self.checksums));
        }
        Ok(())
    }
}

/// The lengths of an image's parts, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lens {
    /// Of the blocks.
    pub data: u64,
    /// Of the roots, once.
    pub roots: u64,
    /// Of the tables.
    pub tables: u64,
}

impl Superblock {
    /// Of an image with parts of these lengths.
    #[must_use]
    pub fn new(lens: Lens, root: &PageRef) -> Self {
        let own = Self::SIZE as u64;
        let roots_place = own + lens.data;
        let tables_place = roots_place + lens.roots;
        let roots_twin = tables_place + lens.tables;
        let mut new = Self {
            magic: MAGIC,
            version: VERSION,
            home: IMAGE,
            compatible: 0,
            read_compatible: 0,
            incompatible: 0,
            generation: 1,
            size: roots_twin + lens.roots + own,
            data_place: own,
            data_len: lens.data,
            tables_place,
            tables_len: lens.tables,
            roots_place,
            roots_twin,
            roots_len: lens.roots,
            root_at: root.at,
            root_stored: root.stored,
            root_plain: root.plain,
            root_codec: root.codec.number().into(),
            checksums: XXH3,
            root_checksum: root.checksum,
            root_hash: root.hash,
            reserved: [0; 288],
            name: [0; 32],
            checksum: 0,
            end: END,
        };
        new.seal();
        new
    }

    /// Puts name and checksum right.
    pub fn seal(&mut self) {
        self.name = hash(&self.encode()[..NAMED_LEN]);
        self.checksum = checksum(&self.encode()[..CHECKED_LEN]);
    }

    /// From its bytes.
    ///
    /// # Errors
    /// `NoImage`, `Checksum`, `Hash`, `Range`; `Unsupported`.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let block = Self::decode(bytes).ok_or(Damage::NoImage)?;
        if block.magic != MAGIC {
            return Err(Damage::NoImage.into());
        }
        if checksum(&bytes[..CHECKED_LEN]) != block.checksum || block.end != END {
            return Err(Damage::Checksum.into());
        }
        if hash(&bytes[..NAMED_LEN]) != block.name {
            return Err(Damage::Hash.into());
        }
        let Self { version, home, checksums, .. } = block;
        let incompatible = block.incompatible & !KNOWN;
        Claims { version, home, incompatible, checksums }.known(VERSION, IMAGE)?;
        block.check_places()?;
        Ok(block)
    }

    fn check_places(&self) -> Result<()> {
        let own = Self::SIZE as u64;
        let room = self.size.checked_sub(own).ok_or(Damage::Range)?;
        let parts = [
            (self.data_place, self.data_len),
            (self.roots_place, self.roots_len),
            (self.tables_place, self.tables_len),
            (self.roots_twin, self.roots_len),
        ];
        let mut before = own;
        for (place, len) in parts {
            let end = place.checked_add(len).filter(|&end| end <= room);
            if place < before || end.is_none() {
                return Err(Damage::Range.into());
            }
            before = place + len;
        }
        Ok(())
    }

    /// The root page.
    ///
    /// # Errors
    /// `Unsupported`, `Range`.
    pub fn root(&self) -> Result<PageRef> {
        PageRef {
            segment: ROOTS,
            at: self.root_at,
            stored: self.root_stored,
            plain: self.root_plain,
            codec: Codec::numbered(self.root_codec.into())?,
            checksum: self.root_checksum,
            hash: self.root_hash,
        }
        .checked()
    }

    /// The image's name.
    #[must_use]
    pub const fn image_name(&self) -> Hash {
        self.name
    }
}
