//! What volumes under proof are like: some shapes that hurt each in its own way, and as many others as chance draws.
//!
//! Above: [`crate::cut`] and all proofs of volumes. Below: [`crate::lying`]. Invariant: in every shape the same scripts
//! show the same.

use std::sync::Arc;

use esker_stone::cache::Cache;
use esker_stone::{Codec, Setting};
use esker_volume::device::{Device, Zones};
use esker_volume::limits::{SEGMENT_LEN_MIN, SUPERBLOCK_STEP, SUPERBLOCKS_MAX};
use esker_volume::superblock::{DELTAS, NAMES, PAGES, PIECES};
use esker_volume::{Bases, Error, Making, Options, Superblock, Volume, make, open};

use crate::base;
use crate::chance::Chance;
use crate::lying::Lying;
use crate::lying::medium::Medium;
use crate::world::inside::root_attr;

/// What a volume under proof is like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What to call it.
    pub name: &'static str,
    /// Bytes of the device.
    pub size: u64,
    /// Of its units.
    pub unit: u32,
    /// Its zones.
    pub zones: Option<Zones>,
    /// Of a segment.
    pub segment_len: u64,
    /// Of a logical block.
    pub block_len: u32,
    /// The codec.
    pub codec: Codec,
    /// How hard it tries.
    pub level: i32,
    /// Copies of the superblock.
    pub copies: u32,
    /// Bytes of rows at which they are settled.
    pub recent_len: usize,
    /// Of a table: a round of settling takes a step for so many, in about.
    pub table_len: usize,
    /// Whether it lies over [`base`].
    pub base: bool,
    /// Bytes that are kept back besides.
    pub reserve: u64,
    /// Whether what is written is looked for among what was written before.
    pub dedup: bool,
    /// Whether what resembles what it takes the place of is stored as what differs.
    pub deltas: bool,
    /// Whether what nobody needs is given back below.
    pub discard: bool,
    /// Threads that compress.
    pub threads: usize,
    /// What it is without, as earlier versions made it.
    pub lacks: u64,
}

/// What most shapes have in common: everything that there is, and nothing kept back.
const USUAL: Shape = Shape {
    name: "usual",
    size: 8 << 20,
    unit: 4096,
    zones: None,
    segment_len: 256 << 10,
    block_len: 16 << 10,
    codec: Codec::Lz4,
    level: 1,
    copies: 1,
    recent_len: 4 << 10,
    table_len: 1,
    base: false,
    reserve: 0,
    dedup: true,
    deltas: true,
    discard: true,
    threads: 1,
    lacks: 0,
};

/// What volumes lack, by the version that made them: each learned one thing more.
pub const OLDER: [u64; 4] =
    [NAMES, NAMES | PIECES, NAMES | PIECES | DELTAS, NAMES | PIECES | DELTAS | PAGES];

/// Shapes under which everything is proven.
pub const SHAPES: [Shape; 5] = [
    Shape {
        name: "small segments",
        size: 4 << 20,
        segment_len: 128 << 10,
        block_len: 4 << 10,
        codec: Codec::None,
        recent_len: 1,
        ..USUAL
    },
    Shape {
        name: "small units",
        unit: 512,
        block_len: 8 << 10,
        copies: 2,
        table_len: 1 << 20,
        ..USUAL
    },
    Shape {
        name: "zstd",
        segment_len: 512 << 10,
        block_len: 32 << 10,
        codec: Codec::Zstd,
        recent_len: 2 << 10,
        ..USUAL
    },
    Shape {
        name: "never settled",
        size: 16 << 20,
        segment_len: 128 << 10,
        recent_len: 64 << 20,
        table_len: 1 << 20,
        ..USUAL
    },
    Shape {
        name: "zones",
        zones: Some(Zones { len: 256 << 10, capacity: 192 << 10, active: 3 }),
        ..USUAL
    },
];

impl Shape {
    /// One that chance draws: with a codec or none, one or two copies, over a base or not, with each of what
    /// sharing, deltas and giving back are switched off, in zones or not, as this version makes it or an earlier one.
    #[must_use]
    pub fn drawn(chance: &mut Chance) -> Self {
        let mut power = |least: u64, most: u64| 1_u64 << (least + chance.below(most - least + 1));
        let segment_len = power(17, 19);
        let (unit, block_len) = (power(9, 12), power(12, 15));
        let (recent_len, table_len) = (power(0, 17), power(0, 20));
        let segments = 32 + chance.below(64);
        let size = segments * segment_len;
        // A zone need not have room for all that it is long.
        let capacity = SEGMENT_LEN_MIN.max(segment_len - segment_len / 8 * chance.below(3));
        let more = chance.below(4) as u32;
        let lacks = if chance.below(4) == 0 { *chance.pick(&OLDER) } else { 0 };
        let codec = *chance.pick(&[Codec::None, Codec::Lz4, Codec::Zstd, Codec::Zstd]);
        // Only of the last there are several.
        let level = if codec == Codec::Zstd { *chance.pick(&[-3, 1, 9]) } else { 1 };
        let mut one_in = |count: u64| chance.below(count) == 0;
        let copies = if one_in(3) { 2 } else { 1 };
        // The fewest that suffice, or some more.
        let active = copies + 2 + more;
        let zones = one_in(5).then_some(Zones { len: segment_len, capacity, active });
        Self {
            name: "drawn",
            size,
            unit: if zones.is_some() { 4096 } else { unit as u32 },
            zones,
            segment_len,
            block_len: block_len as u32,
            copies,
            recent_len: recent_len as usize,
            table_len: table_len as usize,
            base: one_in(6),
            reserve: if one_in(4) { size / 16 } else { 0 },
            dedup: !one_in(4),
            deltas: !one_in(4),
            discard: !one_in(4),
            threads: if one_in(3) { 2 } else { 1 },
            codec,
            level,
            lacks,
        }
    }

    /// One of a run of them: among the first four all that can be switched on and off is both ways, whatever chance
    /// draws besides.
    #[must_use]
    pub fn numbered(number: u64, chance: &mut Chance) -> Self {
        let drawn = Self::drawn(chance);
        let (segment_len, size) = (drawn.segment_len, drawn.size);
        let capacity = SEGMENT_LEN_MIN.max(segment_len - segment_len / 8);
        let zones = Some(Zones { len: segment_len, capacity, active: 6 });
        let plain = Self { zones: None, base: false, reserve: 0, lacks: 0, ..drawn };
        let on = Self { dedup: true, deltas: true, discard: true, ..plain };
        let zstd = Self { codec: Codec::Zstd, level: 1, ..on };
        match number {
            0 => Self { copies: 2, ..zstd },
            1 => Self { copies: 1, zones, unit: 4096, reserve: size / 16, level: 9, ..zstd },
            2 => {
                let (codec, lacks) =
                    (*chance.pick(&[Codec::None, Codec::Lz4]), *chance.pick(&OLDER));
                Self { codec, level: 1, base: true, lacks, dedup: false, discard: false, ..on }
            }
            3 => Self { deltas: false, ..zstd },
            _ => drawn,
        }
    }

    /// The same with little room, in as many segments as it takes for blocks to be moved before they must be, and
    /// settled now and then, so that it is soon full.
    #[must_use]
    pub fn narrow(self) -> Self {
        let segment_len = SEGMENT_LEN_MIN;
        // Two more zones than it takes are for what is moved.
        let zones = Zones { len: segment_len, capacity: segment_len, active: self.copies + 4 };
        let zones = self.zones.map(|_| zones);
        let size = 72 * segment_len;
        let reserve = if self.reserve > 0 { size / 16 } else { 0 };
        let (recent_len, table_len) = (self.recent_len.max(8 << 10), self.table_len.max(8 << 10));
        Self { size, segment_len, zones, reserve, recent_len, table_len, ..self }
    }

    /// A device with a fresh volume.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn fresh(&self, seed: u64) -> Arc<Lying> {
        let device = Lying::new(self.size, self.unit, self.zones, seed);
        let made = make(&device, &self.making());
        made.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let device = self.device(self.without(device.medium(), self.lacks));
        let made = match self.base {
            true => self
                .open(&device, true)
                .and_then(|mut own| own.lay_over(base::below(), &mut |_| {})),
            false => Ok(()),
        };
        made.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        Arc::new(Lying::on(device.medium(), self.unit, self.zones, seed))
    }

    /// What a fresh volume of it was as an earlier version made it, which knew nothing of these features.
    fn without(&self, mut medium: Medium, features: u64) -> Medium {
        if features == 0 {
            return medium;
        }
        for home in 0..2 * u64::from(self.copies) {
            for step in 0..SUPERBLOCKS_MAX.min(self.segment_len / SUPERBLOCK_STEP) {
                let at = home * self.segment_len + step * SUPERBLOCK_STEP;
                let mut bytes = vec![0; Superblock::SIZE];
                medium.read(at, &mut bytes);
                if let Ok(found) = Superblock::parse(&bytes) {
                    let incompatible = found.incompatible & !features;
                    medium.write(at, &Superblock { incompatible, ..found }.sealed());
                }
            }
        }
        medium
    }

    /// How it is made.
    #[must_use]
    pub fn making(&self) -> Making {
        Making {
            segment_len: self.segment_len,
            block_len: self.block_len,
            setting: Setting::new(self.codec, self.level),
            copies: self.copies,
            reserve: self.reserve,
            label: [0; 32],
            uuid: [7; 16],
            root: root_attr(),
            born: 0,
        }
    }

    /// Opens what is on a device.
    ///
    /// # Errors
    /// As the volume says.
    pub fn open<D: Device>(&self, device: D, write: bool) -> Result<Volume<D>, Error> {
        open(device, self.options(write))
    }

    /// How it is opened.
    #[must_use]
    pub fn options(&self, write: bool) -> Options {
        Options {
            write,
            recent_len: Some(self.recent_len),
            table_len: Some(self.table_len),
            bases: Some(Arc::new(base::Known) as Arc<dyn Bases>),
            dedup: self.dedup,
            deltas: self.deltas,
            discard: self.discard,
            threads: self.threads,
            ..Options::new(Cache::new(1 << 20))
        }
    }

    /// A device with this medium.
    #[must_use]
    pub fn device(&self, medium: Medium) -> Lying {
        Lying::on(medium, self.unit, self.zones, 1)
    }
}
