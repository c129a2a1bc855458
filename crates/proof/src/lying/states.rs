//! What a loss of power may leave: every state of the medium that the device's rules allow, or many of them.
//!
//! Above: [`crate::cut`]. Invariant: each state holds all that a flush covered; of the rest each write is
//! there, or not, or in part, and what was in flight may be garbage. No state comes twice.

use std::collections::HashSet;

use super::medium::Medium;
use super::{Op, SECTOR, Write};
use crate::chance::Chance;

/// How many random states are tried at each cut.
#[derive(Clone, Copy, Debug)]
pub struct Dose {
    /// Subsets of whole writes.
    pub subsets: u64,
    /// Subsets of sectors.
    pub torn: u64,
    /// Garbage in what is in flight.
    pub garbage: u64,
}

/// The log of a device, played again up to each of its operations.
pub struct Replay {
    safe: Medium,
    pending: Vec<Write>,
    known: HashSet<u64>,
    /// Flushes do nothing: the control.
    forgets: bool,
    /// Bytes from zone to zone, if there are zones: of each the writes come in their order.
    zone: Option<u64>,
}

impl Replay {
    /// From what was on the medium before the first operation.
    #[must_use]
    pub fn new(safe: Medium, zone: Option<u64>, forgets: bool) -> Self {
        Self { safe, pending: Vec::new(), known: HashSet::new(), forgets, zone }
    }

    /// What is safe.
    #[must_use]
    pub const fn safe(&self) -> &Medium {
        &self.safe
    }

    /// One more operation was done.
    pub fn step(&mut self, op: &Op) {
        match op {
            Op::Write(write) => self.pending.push(write.clone()),
            Op::Flush if self.forgets => {}
            Op::Flush => self.settle(),
            Op::Discard(at, len) => {
                // It is done at once, and what waits for those bytes comes before it.
                self.settle();
                self.safe.write(*at, &vec![0; *len as usize]);
            }
        }
    }

    fn settle(&mut self) {
        for write in std::mem::take(&mut self.pending) {
            self.safe.write(write.at, &write.bytes);
        }
        self.known.clear();
    }

    fn tell(&mut self, state: Medium, each: &mut dyn FnMut(Medium)) {
        let print = self.pending.iter().fold(0u64, |sum, write| {
            sum.rotate_left(9) ^ state.print(write.at, write.bytes.len() as u64)
        });
        if self.known.insert(print) {
            each(state);
        }
    }

    fn whole(&self, there: impl Fn(usize) -> bool) -> Medium {
        let mut state = self.safe.clone();
        for (_, write) in self.pending.iter().enumerate().filter(|(at, _)| there(*at)) {
            state.write(write.at, &write.bytes);
        }
        state
    }

    /// All states that are tried here.
    pub fn states(&mut self, dose: Dose, chance: &mut Chance, each: &mut dyn FnMut(Medium)) {
        let count = self.pending.len();
        self.tell(self.safe.clone(), each);
        self.tell(self.whole(|_| true), each);
        for end in 1..count {
            self.tell(self.whole(|at| at < end), each);
        }
        for _ in 0..dose.subsets {
            let mask = chance.number();
            let there = self.chosen(mask);
            self.tell(self.whole(|at| there[at]), each);
        }
        for number in 0..dose.torn + dose.garbage {
            let state = self.torn(chance, number >= dose.torn);
            self.tell(state, each);
        }
    }

    /// Any writes; of a zone only those before the first that is not there.
    fn chosen(&self, mask: u64) -> Vec<bool> {
        let mut broken = HashSet::new();
        let chosen = self.pending.iter().enumerate().map(|(at, write)| {
            let there = mask >> (at % 64) & 1 == 1;
            let Some(zone) = self.zone else { return there };
            let zone = write.at / zone;
            if !there {
                broken.insert(zone);
            }
            !broken.contains(&zone)
        });
        chosen.collect()
    }

    /// Any subset of sectors of any writes; of zones only what begins each. Sectors that are not there may be
    /// garbage.
    fn torn(&self, chance: &mut Chance, garbage: bool) -> Medium {
        let mut state = self.safe.clone();
        let mut broken = HashSet::new();
        for write in &self.pending {
            let zone = self.zone.map(|zone| write.at / zone);
            if zone.is_some_and(|zone| broken.contains(&zone)) {
                continue;
            }
            let sectors = write.bytes.len().div_ceil(SECTOR) as u64;
            let mood = chance.below(4);
            let until = chance.below(sectors + 1);
            for (number, bytes) in (0..).zip(write.bytes.chunks(SECTOR)) {
                let there = match mood {
                    0 => true,
                    1 if zone.is_none() => chance.below(2) == 0,
                    2 if zone.is_none() => number >= until,
                    _ => number < until,
                };
                let at = write.at + number * SECTOR as u64;
                if there {
                    state.write(at, bytes);
                } else if garbage && (zone.is_none() || number == until) {
                    let noise: Vec<u8> = bytes.iter().map(|_| chance.number() as u8).collect();
                    state.write(at, &noise);
                }
            }
            if until < sectors && mood != 0 {
                broken.extend(zone);
            }
        }
        state
    }
}
