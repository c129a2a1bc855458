//! What became of the names that a lower directory has, by their places in its listing.
//!
//! Neighbours: `state` keeps them for each lower directory that changed. Invariant: a place is hidden or leads
//! elsewhere, never both; runs of hidden places are not empty and never touch.

use alloc::collections::BTreeMap;

use crate::attr::Kind;
use crate::ids::{Cursor, Ino};

/// What a lower name means now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// What it means below.
    Own,
    /// Nothing: it was taken away.
    Hidden,
    /// Something else, in the same place of the listing.
    Leads(Ino, Kind),
}

/// The names of one directory that do not mean what they mean below. A directory that is emptied name by name is
/// one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    /// Hidden places: the first of each run, and one past its last.
    hidden: BTreeMap<u64, u64>,
    hidden_count: u64,
    leads: BTreeMap<u64, (Ino, Kind)>,
}

impl Slots {
    /// The name at this place.
    pub(super) fn get(&self, place: Cursor) -> Slot {
        if let Some(&(ino, kind)) = self.leads.get(&place.0) {
            return Slot::Leads(ino, kind);
        }
        let run = self.hidden.range(..=place.0).next_back();
        if run.is_some_and(|(_, &end)| end > place.0) { Slot::Hidden } else { Slot::Own }
    }

    /// Says what the name at this place means; what is hidden stays so.
    pub(super) fn set(&mut self, place: Cursor, slot: Slot) {
        match slot {
            Slot::Own => {}
            Slot::Leads(ino, kind) => drop(self.leads.insert(place.0, (ino, kind))),
            Slot::Hidden => {
                self.leads.remove(&place.0);
                self.hide(place.0);
            }
        }
    }

    fn hide(&mut self, place: u64) {
        if self.get(Cursor(place)) == Slot::Hidden {
            return;
        }
        self.hidden_count += 1;
        let end = self.hidden.remove(&(place + 1)).unwrap_or(place + 1);
        match self.hidden.range_mut(..place).next_back() {
            Some((_, before)) if *before == place => *before = end,
            _ => drop(self.hidden.insert(place, end)),
        }
    }

    /// Names that are hidden.
    pub(super) const fn hidden_count(&self) -> u64 {
        self.hidden_count
    }

    /// Nothing is other than below.
    pub(super) fn is_empty(&self) -> bool {
        self.hidden.is_empty() && self.leads.is_empty()
    }

    /// Entries of the maps.
    pub(super) fn len(&self) -> usize {
        self.hidden.len() + self.leads.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_emptied_is_one_run() {
        let mut slots = Slots::default();
        // In some order that leaves gaps and fills them.
        for place in (0..1000).map(|step| Cursor(3 + step * 7 % 1000)) {
            assert_eq!(slots.get(place), Slot::Own);
            if place.0 % 5 == 0 {
                slots.set(place, Slot::Leads(Ino(place.0), Kind::File));
                assert_eq!(slots.get(place), Slot::Leads(Ino(place.0), Kind::File));
            }
            slots.set(place, Slot::Hidden);
            slots.set(place, Slot::Hidden);
            assert_eq!(slots.get(place), Slot::Hidden);
        }
        assert_eq!((slots.len(), slots.hidden_count()), (1, 1000));
        assert_eq!((slots.get(Cursor(2)), slots.get(Cursor(1003))), (Slot::Own, Slot::Own));
    }
}
