//! The base: an image below the volume, whose files are there without being copied.
//!
//! Above: `view` reads from it, `lay` puts a volume on one. Below: any [`View`] that never changes. Invariant: a piece
//! of the base is bytes of one of its files, told by an origin in the name of its block; no such name is in the block
//! index, and none is counted, moved or freed. A base is known by its hash, wherever it lies.

use std::sync::Arc;

use esker::Error::{Io, NoMemory, NotSupported};
use esker::store::View;
use esker::{Ino, Kind};
use esker_stone::limits::BLOCK_LEN_MAX;
pub use esker_stone::rows::bases::Base;
use esker_stone::rows::extents::{BlockName, Place};

use crate::device::Device;
use crate::error::{Damage, Error, NoBase, Result};
use crate::limits::NUMBER_MAX;
use crate::log::Log;
use crate::segments::Segments;
use crate::stack::{Stack, State};
use crate::volume::{Options, Volume};

/// Numbers of segments from here on have an origin, in their top 16 bits.
const ORIGINS: u64 = NUMBER_MAX;
/// What is below has this one.
const ORIGIN: u64 = 1;
/// A file of the base counts as blocks of so many bytes.
const BLOCK_LEN: u64 = BLOCK_LEN_MAX as u64;
/// No byte of a file of the base from here on has a name.
const END: u64 = BLOCK_LEN << u32::BITS;
/// The name of a base of which not all is told yet.
pub(crate) const UNFINISHED: [u8; 32] = [0; 32];

/// A base that was found.
#[derive(Clone)]
pub struct Below {
    /// What it is called, and where it is.
    pub base: Base,
    /// What it holds.
    pub view: Arc<dyn View + Send + Sync>,
}

/// Who knows where bases are.
pub trait Bases: Send + Sync {
    /// The base that is called so, if it is there.
    fn find(&self, base: &Base) -> Option<Below>;
}

/// Whether a block is one of the base.
pub(crate) const fn is_based(block: BlockName) -> bool {
    block.segment >= ORIGINS
}

/// The name of a byte of a file of the base, if it has one.
pub(crate) fn place(ino: Ino, at: u64) -> Option<Place> {
    let named = ino.0 < ORIGINS && at < END;
    let segment = (ORIGIN * ORIGINS) | ino.0;
    let block = BlockName { segment, slot: (at / BLOCK_LEN) as u32 };
    named.then_some(Place { block, offset: (at % BLOCK_LEN) as u32 })
}

/// Where in its file a byte of the base is.
const fn address(place: Place) -> u64 {
    place.block.slot as u64 * BLOCK_LEN + place.offset as u64
}

/// Whether so many bytes, and no byte less, have names from this one on.
pub(crate) fn has_names(ino: Ino, at: u64, len: u64) -> bool {
    ino.0 < ORIGINS && at.checked_add(len).is_some_and(|end| end <= END)
}

/// The place of a byte behind this one. What lies past the end of a block, or of all that has a name, is not found.
pub(crate) fn behind(from: Place, skip: u64) -> Place {
    if !is_based(from.block) {
        return Place { offset: from.offset.wrapping_add(skip as u32), ..from };
    }
    let at = address(from).saturating_add(skip).min(END - 1);
    let slot = (at / BLOCK_LEN) as u32;
    Place { block: BlockName { slot, ..from.block }, offset: (at % BLOCK_LEN) as u32 }
}

/// Whether what begins here goes on there after so many bytes.
pub(crate) fn goes_on(from: Place, len: u64, to: Place) -> bool {
    match is_based(from.block) {
        true => behind(from, len) == to,
        false => from.block == to.block && u64::from(from.offset) + len == u64::from(to.offset),
    }
}

/// The file of the base, and the byte in it, that a place names.
pub(crate) fn origin(place: Place) -> Result<(Ino, u64)> {
    let Place { block, .. } = place;
    match block.segment / ORIGINS {
        ORIGIN => Ok((Ino(block.segment % ORIGINS), address(place))),
        _ => Err(Damage::Base.into()),
    }
}

impl<D: Device> Stack<'_, D> {
    fn below(&self) -> Result<&(dyn View + Send + Sync)> {
        self.volume.below.as_deref().ok_or_else(|| Damage::Base.into())
    }

    /// Bytes of the base.
    pub(crate) fn read_base(&self, place: Place, target: &mut [u8]) -> Result<()> {
        let (ino, at) = origin(place)?;
        match self.below()?.read(ino, at, target) {
            Ok(read) if read == target.len() => Ok(()),
            Err(error @ (Io | NoMemory | NotSupported)) => Err(error.into()),
            _ => Err(Damage::Base.into()),
        }
    }

    /// Whether the base has so many bytes there.
    pub(crate) fn prove_base(&self, place: Place, len: u64) -> Result<()> {
        let (ino, at) = origin(place)?;
        let attr = self.below()?.attr(ino).map_err(|_| Damage::Base)?;
        let end = at.checked_add(len);
        let fits = attr.kind == Kind::File && end.is_some_and(|end| end <= attr.size.min(END));
        if fits { Ok(()) } else { Err(Damage::Base.into()) }
    }
}

impl<D: Device> Volume<D> {
    /// The base that it lies on, and where that was found last.
    #[must_use]
    pub fn base(&self) -> Option<Base> {
        self.state().base.clone()
    }

    /// Of what was recovered, with its base.
    pub(crate) fn over(
        device: D,
        options: Options,
        log: Log,
        rest: (Segments, State),
    ) -> Result<Self> {
        let bases = options.bases.clone();
        let mut volume = Self::with(device, options, log, rest);
        volume.find_base(bases.as_deref())?;
        Ok(volume)
    }

    /// Finds the base that the root names, if it names one. Where it is is told with the next root.
    pub(crate) fn find_base(&mut self, bases: Option<&dyn Bases>) -> Result<()> {
        let Some(told) = self.base() else { return Ok(()) };
        if told.name == UNFINISHED {
            return Err(Error::Base(NoBase::Unfinished));
        }
        let found = bases.and_then(|bases| bases.find(&told));
        let found = found.filter(|found| found.base.name == told.name);
        let found = found.ok_or(Error::Base(NoBase::Missing))?;
        self.below = Some(found.view);
        self.state_mut().base = Some(found.base);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a file of the base have one name each, in their order, whatever leads to them.
    #[test]
    fn bytes_of_the_base_have_names() {
        let ino = Ino(77);
        for at in [0, 1, BLOCK_LEN - 1, BLOCK_LEN, 5 * BLOCK_LEN + 9, END - 1] {
            let named = place(ino, at).expect("a name");
            assert!(is_based(named.block) && u64::from(named.offset) < BLOCK_LEN);
            assert_eq!(origin(named), Ok((ino, at)));
            assert_eq!(behind(place(ino, 0).expect("a name"), at), named);
            assert!(goes_on(place(ino, 0).expect("a name"), at, named));
        }
        assert_eq!(place(ino, END), None);
        assert_eq!(place(Ino(1 << 48), 0), None);
        let last = behind(place(ino, 9).expect("a name"), u64::MAX);
        assert_eq!(origin(last), Ok((ino, END - 1)), "it does not go round");
        let other = BlockName { segment: 2 << 48 | 5, slot: 0 };
        assert_eq!(origin(Place { block: other, offset: 0 }), Err(Damage::Base.into()));
    }
}
