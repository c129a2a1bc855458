//! Writing superblocks: where the next one goes, and one that only says how far the log is safe.
//!
//! Above: `settle`, `commit`. Below: the device. Invariant: the superblock that counts is never written over, and its
//! stretch not begun again; that a commit was safe is said somewhere else than where its parts lie.

use crate::counts::Count;
use crate::device::Device;
use crate::error::Result;
use crate::limits::SUPERBLOCK_STEP;
use crate::log::Log;
use crate::segments::Physical;
use crate::superblock::Superblock;
use crate::volume::Volume;

impl<D: Device> Volume<D> {
    /// Where the next superblock goes.
    pub(crate) fn next_home(&self, log: &Log) -> Result<(u32, u64)> {
        let (which, step) = log.home;
        // The stretch of the one that counts is never begun again; the other is, as often as it fails.
        let begun = (1 - log.safe_home, 0);
        let mut next = if step + 1 < self.shape.steps() { (which, step + 1) } else { begun };
        for copy in 0..self.shape.copies {
            let written = self.device.written(self.place(Physical(2 * copy + next.0)))?;
            // A zone in which a superblock was torn, or failed, cannot go on.
            if next.1 > 0 && written.is_some_and(|written| written != next.1 * SUPERBLOCK_STEP) {
                next = begun;
            }
        }
        Ok(next)
    }

    /// Writes the successor of the superblock, and makes it safe.
    pub(crate) fn put_superblock(&self, log: &mut Log, superblock: &Superblock) -> Result<()> {
        let next = self.next_home(log)?;
        let mut bytes = vec![0; SUPERBLOCK_STEP as usize];
        bytes[..Superblock::SIZE].copy_from_slice(&superblock.sealed());
        // Whatever comes of it, this place and this generation are used up.
        let before = std::mem::replace(&mut log.home, next);
        log.superblock.generation = superblock.generation;
        // Even one that fails may be there when somebody opens.
        log.closed |= superblock.closed != 0;
        for copy in 0..self.shape.copies {
            let at = self.place(Physical(2 * copy + next.0));
            if next.1 == 0 && self.device.geometry().zones.is_some() {
                self.leave(Physical(2 * copy + before.0));
                self.device.discard(at, self.shape.segment_len)?;
            }
            self.device.write(at + next.1 * SUPERBLOCK_STEP, &bytes)?;
            self.counts.add(Count::Superblocks, SUPERBLOCK_STEP);
        }
        self.device.flush()?;
        log.safe_home = next.0;
        log.hidden = false;
        log.closed = superblock.closed != 0;
        Ok(())
    }

    /// Says on the device how far the log is safe, whatever becomes of its parts; and that it ends behind the part
    /// `closed`, unless that is 0.
    fn proclaim(&self, log: &mut Log, closed: u64) -> Result<()> {
        let (generation, epoch) = (log.superblock.generation + 1, log.epoch);
        let superblock = Superblock { generation, epoch, proven: log.sequence, ..log.superblock };
        let superblock = superblock.closed_at(closed);
        self.put_superblock(log, &superblock)?;
        log.superblock = superblock;
        Ok(())
    }

    /// Before something is written behind a log that was closed: it is so no more. If the place for the next superblock
    /// fails, there may be another.
    pub(crate) fn unclose(&self, log: &mut Log) -> Result<()> {
        if !log.closed {
            return Ok(());
        }
        self.proclaim(log, 0).or_else(|_| self.proclaim(log, 0))
    }

    /// Where the log came into another stretch, and left one with so little in it that one damage may take all of that:
    /// what follows would not be found, and nobody would know that it was there. So a superblock says it, before the
    /// next commit.
    pub(crate) fn proclaim_in_time(&self, log: &mut Log) {
        if log.hidden {
            // The commits are safe without it.
            let _ = self.proclaim(log, 0);
        }
    }

    /// Writes the superblock again, and all its copies, as it is.
    pub(crate) fn retell(&self, log: &mut Log) -> Result<()> {
        self.writable()?;
        // It says that all commits are safe.
        self.device.flush()?;
        self.proclaim(log, 0)
    }

    /// Nothing more is written: of all that was, the last commit included, the superblock says that it was safe, and
    /// that nothing lies behind it, so that the next who opens need not look there. Behind many commits it is settled
    /// before. Not where nothing was committed since opening.
    ///
    /// # Errors
    /// What the device says. All commits are safe all the same.
    pub fn close(&self) -> Result<()> {
        let mut log = self.log();
        if !self.is_writable() {
            return Ok(());
        }
        if log.fresh && !log.unneeded.is_empty() {
            self.prepare(&mut log)?;
        }
        if log.fresh {
            return Ok(());
        }
        if self.shape.copies > 1 || self.is_worth_settling(&log) || self.holds_waste(&log) {
            // Rows have their parity in tables only, and opening reads every commit that is not in them. Where there
            // is no room for that, the log has them.
            let _ = self.settle_rest(&mut log);
        }
        self.give_back_rest(&mut log);
        if log.closed {
            return Ok(());
        }
        // A part behind the last whole commit is none that the next who opens may find.
        let whole = log.before == log.good.name && log.sequence == log.safe;
        let end = if whole { log.before } else { 0 };
        if end == 0 && log.superblock.proven >= log.sequence {
            return Ok(());
        }
        self.proclaim(&mut log, end)
    }
}
