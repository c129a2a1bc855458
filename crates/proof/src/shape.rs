//! What volumes under proof are like: some shapes that hurt each in its own way, and as many others as chance draws.
//!
//! Above: [`crate::cut`] and all proofs of volumes. Below: [`crate::lying`]. Invariant: in every shape the same scripts
//! show the same.

use std::sync::Arc;

use esker_stone::cache::Cache;
use esker_stone::{Codec, Setting};
use esker_volume::device::{Device, Zones};
use esker_volume::{Bases, Error, Making, Options, Volume, make, open};

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
    copies: 1,
    recent_len: 4 << 10,
    table_len: 1,
    base: false,
    reserve: 0,
    dedup: true,
    deltas: true,
    discard: true,
    threads: 1,
};

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
    /// sharing, deltas and giving back are switched off, in zones or not.
    #[must_use]
    pub fn drawn(chance: &mut Chance) -> Self {
        let mut power = |least: u64, most: u64| 1_u64 << (least + chance.below(most - least + 1));
        let segment_len = power(17, 19);
        let (unit, block_len) = (power(9, 12), power(12, 15));
        let (recent_len, table_len) = (power(0, 17), power(0, 20));
        let segments = 32 + chance.below(64);
        let size = segments * segment_len;
        // A zone need not have room for all that it is long.
        let capacity = segment_len - segment_len / 8 * chance.below(3);
        let active = 3 + chance.below(4) as u32;
        let mut one_in = |count: u64| chance.below(count) == 0;
        let zones = one_in(5).then_some(Zones { len: segment_len, capacity, active });
        Self {
            name: "drawn",
            size,
            unit: if zones.is_some() { 4096 } else { unit as u32 },
            zones,
            segment_len,
            block_len: block_len as u32,
            copies: if one_in(3) { 2 } else { 1 },
            recent_len: recent_len as usize,
            table_len: table_len as usize,
            base: one_in(6),
            reserve: if one_in(4) { size / 16 } else { 0 },
            dedup: !one_in(4),
            deltas: !one_in(4),
            discard: !one_in(4),
            threads: if one_in(3) { 2 } else { 1 },
            codec: *chance.pick(&[Codec::None, Codec::Lz4, Codec::Zstd, Codec::Zstd]),
        }
    }

    /// A device with a fresh volume.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn fresh(&self, seed: u64) -> Arc<Lying> {
        let device = Lying::new(self.size, self.unit, self.zones, seed);
        let made = make(&device, &self.making()).and_then(|()| match self.base {
            true => self.open(&device, true)?.lay_over(base::below(), &mut |_| {}),
            false => Ok(()),
        });
        made.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        Arc::new(Lying::on(device.medium(), self.unit, self.zones, seed))
    }

    /// How it is made.
    #[must_use]
    pub fn making(&self) -> Making {
        Making {
            segment_len: self.segment_len,
            block_len: self.block_len,
            setting: Setting::new(self.codec, 1),
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
