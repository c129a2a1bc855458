//! One home above another: what changes goes to the upper, and the lower stays as it is.
//!
//! | file | what it holds |
//! |---|---|
//! | state.rs | what the overlay itself remembers: which inodes are not just those of one home |
//! | slots.rs | what became of the names of a lower directory |
//! | below.rs | which bytes of a file still come from below |
//! | view.rs | answers |
//! | commit.rs | bringing inodes up, and changing them |
//! | fill.rs, leaving.rs | moving everything up, until the lower is not needed any more |
//!
//! Inodes of the lower keep their numbers, and new ones have numbers behind the lower's largest. An inode that
//! changes is first brought up: the upper gets one with its number, its attributes and its extended attributes,
//! and as large, but with a hole for its bytes. That changes no answer, so it is a commit of its own, and batches
//! stay as bounded as they were. From then on each byte comes from below until it is written, punched, cut off or
//! replaced. All works by inode numbers: hard links stay one inode, and a directory moves without what is in it.
//!
//! Names of a lower directory are not copied. Each has a place in the listing, where it means what it means below,
//! nothing, or something else; names that are new are the upper's, listed behind the lower's. An inode that
//! was made above costs a comparison of its number more than in the upper alone.
//!
//! Above: `store`, whose contract this keeps for any upper that keeps it, and any lower that never changes. Invariant:
//! the upper's directories lead only to inodes that the upper has.

mod below;
mod commit;
mod fill;
mod leaving;
mod slots;
mod state;
mod view;

pub use below::Piece;
pub use fill::Walk;
pub use leaving::Leaving;

use crate::error::Result;
use crate::ids::{Cursor, Ino};
use crate::limits::SUBTREES;
use crate::store::{Store, View};
use state::{States, Told};

/// The upper's names in a lower directory are listed behind this place, unless it is said otherwise. A listing of the
/// lower never gets there.
const UPPER_PLACES: u64 = 1 << 62;

/// A home above another.
pub struct Overlay<U, L> {
    upper: U,
    lower: L,
    /// The lower's largest inode number.
    last: u64,
    /// What is added to the numbers that the upper gives.
    shift: u64,
    /// The upper's names in a lower directory are listed behind this place.
    places: u64,
    /// Inodes from this number on are files of the lower that no name leads to here.
    beside: u64,
    states: States,
}

/// What an overlay is made of: an upper that is empty but for its root directory, and a table with nothing in it.
pub struct Blank<U> {
    upper: U,
    states: States,
}

impl<U> Blank<U> {
    /// For the first overlay.
    pub fn new(upper: U) -> Self {
        Self { upper, states: States::new() }
    }

    /// For the next one, out of an overlay that nobody needs any more: making the table takes as long as a few changes
    /// do. `empty` makes its upper empty, when its lower is gone.
    ///
    /// # Errors
    /// Those of `empty`.
    pub fn again<L>(overlay: Overlay<U, L>, empty: impl FnOnce(U) -> Result<U>) -> Result<Self> {
        let Overlay { upper, lower, mut states, .. } = overlay;
        drop(lower);
        states.clear();
        Ok(Self { upper: empty(upper)?, states })
    }
}

/// Where an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Only below, as it was.
    Below,
    /// It was below, and the upper has it now, perhaps with names or bytes that still come from there.
    Changed,
    /// It was below, and is nowhere now.
    Gone,
    /// Only above.
    Above,
}

impl<U: Store, L: View> Overlay<U, L> {
    /// `upper`, which is empty but for its root directory, above `lower`, whose largest inode number is `last`.
    ///
    /// # Errors
    /// What the lower says of its root directory, and the upper when it is told so.
    pub fn new(upper: U, lower: L, last: Ino) -> Result<Self> {
        Self::behind(Blank::new(upper), lower, last, Cursor(UPPER_PLACES))
    }

    /// The same above a lower that may list names up to this place, which another overlay may have given them.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn behind(blank: Blank<U>, lower: L, last: Ino, places: Cursor) -> Result<Self> {
        // A multiple, so that a number stays in the group that the upper gave it for.
        let shift = last.0.next_multiple_of(SUBTREES as u64);
        let (last, places) = (last.0, places.0);
        let (beside, Blank { upper, states }) = (u64::MAX, blank);
        let overlay = Self { upper, lower, last, shift, places, beside, states };
        overlay.bring_up_root()?;
        Ok(overlay)
    }

    /// The same; files of the lower with numbers from this one on are beside its tree: they are never changed, and
    /// nothing is done with them but that others share their bytes.
    #[must_use]
    pub fn with_beside(self, from: Ino) -> Self {
        Self { beside: from.0, ..self }
    }

    /// The home above.
    pub const fn upper(&self) -> &U {
        &self.upper
    }

    /// The home below.
    pub const fn lower(&self) -> &L {
        &self.lower
    }

    /// Where an inode that there is, or was, is now.
    pub fn origin(&self, ino: Ino) -> Origin {
        match self.states.told(ino) {
            _ if ino.0 > self.last => Origin::Above,
            Told::Nothing => Origin::Below,
            Told::Gone => Origin::Gone,
            Told::Above { .. } => Origin::Changed,
        }
    }

    /// Every inode of the lower that is not as it was, in no particular order. Those that were changed meanwhile may
    /// or may not come.
    pub fn changed(&self, each: &mut dyn FnMut(Ino, Origin)) {
        let mut at = None;
        while let Some((ino, told)) = self.states.next(at) {
            at = Some(ino);
            match told {
                _ if ino.0 > self.last => {}
                Told::Gone => each(ino, Origin::Gone),
                _ => each(ino, Origin::Changed),
            }
        }
    }

    /// Which bytes of a file that the upper has come from below, in order.
    pub fn from_below(&self, ino: Ino) -> alloc::vec::Vec<Piece> {
        self.states.pieces(ino, 0, u64::MAX)
    }

    /// Whether an inode is a file of the lower that is beside its tree.
    const fn is_beside(&self, ino: Ino) -> bool {
        ino.0 >= self.beside
    }

    /// Whether the upper alone knows all of an inode.
    fn is_above(&self, ino: Ino) -> bool {
        ino.0 > self.last && !self.states.has_borrowers()
    }
}
