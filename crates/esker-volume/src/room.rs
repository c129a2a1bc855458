//! Room: how much more a volume takes, and making more of it by moving what is needed out of segments of which little
//! is.
//!
//! Above: `home` asks before it takes a batch. Below: `commit`, `settle`. Invariant: what is told to be room can be
//! written; what is kept back beside it is enough for whatever only takes away, and for settling.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use esker_stone::key::{self, kind};
use esker_stone::rows::extents::BlockName;

use crate::commit::{Sink, Source};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::leaf::Leaf;
use crate::log::Log;
use crate::segments::{Condition, Segments};
use crate::settle::idle;
use crate::stack::{Stack, State};
use crate::volume::Volume;

/// Segments that are kept back for commits that only take away.
const SPARE: usize = 3;
/// Of a segment so much, in eighths, is filled at least before the next one is begun.
const FILLED: u64 = 7;
/// A segment is worth emptying when less than this is needed of it, in sixteenths.
const WORTH: u64 = 15;

/// Segments' worth of bytes that are moved in passing, at most.
const BUDGET: u64 = 4;

/// Blocks that are moved.
struct Carried(Vec<BlockName>);

impl Source for Carried {
    fn tell(&self, to: &mut dyn Sink) -> Result<()> {
        self.0.iter().try_for_each(|&block| to.carry(block))
    }
}

impl<D: Device> Volume<D> {
    /// Bytes that can surely be written, as they are.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.room.load(Ordering::Acquire)
    }

    /// Measures it, whenever it may be another.
    pub(crate) fn measure_room(&self, state: &State, segments: &Segments) {
        let kept = self.reserve(state) + SPARE;
        let free = segments.free().saturating_sub(kept) as u64;
        self.room.store(free * (self.shape.segment_room / 8 * FILLED), Ordering::Release);
    }

    /// Bytes of rows that one commit may have, whatever the room.
    #[must_use]
    pub const fn rows_room(&self) -> u64 {
        self.shape.segment_room
    }

    /// Makes room for so many bytes, as far as that can be done.
    ///
    /// # Errors
    /// What the device says; that there is not as much is no error.
    pub fn reclaim(&self, wanted: u64) -> Result<()> {
        self.writable()?;
        let mut log = self.log();
        self.prepare(&mut log)?;
        let mut last = None;
        while self.room() < wanted {
            let before = self.needless();
            if last.is_some_and(|last| last <= before) {
                return Ok(());
            }
            last = Some(before);
            match self.round(&mut log, u64::MAX, 0) {
                Err(Error::NoSpace) => return Ok(()),
                done => done?,
            }
        }
        Ok(())
    }

    /// One round, where there is little room: so that it is made while others write, and not all at once. What it
    /// moves is bounded, and must be worth it.
    ///
    /// # Errors
    /// What the device says.
    pub fn reclaim_in_time(&self) -> Result<()> {
        let stretches = u64::from(self.shape.segments());
        if self.is_writable() && self.room() < stretches / 16 * self.shape.segment_room {
            let mut log = self.log();
            self.prepare(&mut log)?;
            let segment = self.shape.segment_room;
            match self.round(&mut log, BUDGET * segment, segment) {
                Err(Error::NoSpace) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Bytes in segments that are used and that nobody needs.
    fn needless(&self) -> u64 {
        let segments = self.segments();
        let used = segments.rows().iter().filter(|row| row.number != 0);
        used.map(|row| self.shape.segment_room.saturating_sub(row.live)).sum()
    }

    /// Empties a few segments by moving at most so many bytes, and has them free; unless less is gained.
    fn round(&self, log: &mut Log, budget: u64, least: u64) -> Result<()> {
        let (blocks, gain) = self.to_carry(log, budget)?;
        if gain < least {
            return Ok(());
        }
        if !blocks.is_empty() {
            self.write(log, &Carried(blocks), |show| show())?;
        }
        // What is idle is free with the second superblock from now.
        self.settle(log)?;
        self.settle(log)
    }

    /// Blocks of the segments of which least is needed, as many as surely fit; and the bytes that are gained.
    fn to_carry(&self, log: &Log, budget: u64) -> Result<(Vec<BlockName>, u64)> {
        let state = self.state();
        let (mut worth, mut fits, mut gain) = {
            let segments = self.segments();
            let room = self.shape.segment_room;
            let free = segments.free().saturating_sub(self.reserve(&state) + 1);
            let sealed = segments.rows().iter().filter(|row| {
                let few = row.live > 0 && row.live < room / 16 * WORTH;
                row.condition == Condition::Log && row.physical != log.physical && few
            });
            let worth: Vec<_> = sealed.map(|row| (row.live, row.number)).collect();
            // They are free once it was settled.
            let dead = idle(&segments, &[log.physical]).len() as u64 * room;
            (worth, budget.min(free as u64 * (room / 8 * FILLED)), dead)
        };
        worth.sort_unstable();
        let mut victims = BTreeSet::new();
        for (live, number) in worth {
            if live > fits {
                break;
            }
            fits -= live;
            gain += self.shape.segment_room - live;
            victims.insert(number);
        }
        Ok((self.stack(&state).blocks_in(&victims)?, gain))
    }
}

impl<D: Device> Stack<'_, D> {
    /// Blocks that somebody needs and that lie in one of these segments, wherever they were born.
    fn blocks_in(&self, segments: &BTreeSet<u64>) -> Result<Vec<BlockName>> {
        let mut known = BTreeSet::new();
        let state = self.state;
        for &segment in segments {
            let name = |slot| BlockName { segment, slot };
            self.leaves_from(&key::block(kind::BLOCK, segment, 0), &mut |leaf| match leaf {
                Leaf::Blocks(rows) if rows.segment() == segment => {
                    known.extend(rows.iter().map(|(slot, _)| name(slot)));
                    true
                }
                Leaf::Blocks(rows) => rows.segment() < segment,
                _ => false,
            })?;
            known
                .extend(state.recent.blocks.range(name(0)..=name(u32::MAX)).map(|(&name, _)| name));
        }
        self.leaves_from(&key::block(kind::MOVE, 0, 0), &mut |leaf| match leaf {
            Leaf::Moves(rows) => {
                let here = rows.iter().filter(|row| segments.contains(&row.to));
                known.extend(here.map(|row| row.block));
                true
            }
            _ => false,
        })?;
        let moved = state.recent.moves.values().filter(|row| segments.contains(&row.to));
        known.extend(moved.map(|row| row.block));
        let mut found = Vec::new();
        for block in known {
            if self.refs(block)? > 0 {
                let (segment, at) = self.whereabouts(block, &self.block_row(block)?)?;
                if segments.contains(&segment) {
                    found.push((segment, at, block));
                }
            }
        }
        // In the order in which they lie, so that they are read and laid down so.
        found.sort_unstable_by_key(|&(segment, at, _)| (segment, at));
        Ok(found.into_iter().map(|(.., block)| block).collect())
    }
}

/// Stretches of which somebody needs something: how many bytes, of how many that can be used.
pub(crate) fn usage(rows: &[crate::segments::Segment], room: u64, kept: usize) -> (u64, u64) {
    let usable =
        rows.iter().filter(|row| !matches!(row.condition, Condition::Home | Condition::Bad));
    let total = usable.clone().count().saturating_sub(kept) as u64 * room;
    let used = usable.map(|row| row.live).sum::<u64>();
    (total, used.min(total))
}
