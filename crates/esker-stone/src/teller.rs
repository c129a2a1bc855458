//! Telling of what is damaged while somebody reads: in the log of a mount, say.
//!
//! Above: images, volumes. Invariant: each place is told of once.

use core::fmt::Display;
use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};

use crate::cache::locked;

/// Most places that are told of: who wants to know more checks all.
const TOLD_MAX: usize = 1000;

/// A place: what lies there, its segment, its number or offset in that.
type Place = (&'static str, u64, u64);

/// Hears of damage.
type Hears = Box<dyn Fn(&str) + Send + Sync>;

/// Who hears of damage, if anybody does.
#[derive(Default)]
pub struct Teller {
    hears: OnceLock<Hears>,
    told: Mutex<BTreeSet<Place>>,
}

impl Teller {
    /// From now on `hears` is told, unless somebody is already.
    pub fn tell_to(&self, hears: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.hears.set(Box::new(hears));
    }

    /// Something cannot be read.
    pub fn tell(&self, what: &'static str, segment: u64, number: u64, error: &impl Display) {
        let Some(hears) = self.hears.get() else { return };
        let mut told = locked(&self.told);
        if told.len() < TOLD_MAX && told.insert((what, segment, number)) {
            drop(told);
            hears(&format!("{what} {number} of segment {segment} cannot be read: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_place_is_told_of_once() {
        let (teller, heard) = (Teller::default(), Arc::new(Mutex::new(Vec::new())));
        teller.tell("block", 1, 2, &"nobody hears");
        let hears = Arc::clone(&heard);
        teller.tell_to(move |what| locked(&hears).push(what.to_owned()));
        for number in [2, 2, 3] {
            teller.tell("block", 1, number, &"damaged");
        }
        teller.tell("page", 1, 2, &"damaged");
        let heard = locked(&heard).clone();
        assert_eq!(heard.len(), 3);
        assert_eq!(heard[0], "block 2 of segment 1 cannot be read: damaged");
    }
}
