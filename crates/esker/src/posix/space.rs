//! fallocate(2) and copy_file_range(2): space and bytes without their content passing by.

use super::create::change;
use super::locks::Mode;
use super::{Caller, Fs};
use crate::attr::{Attr, Flags};
use crate::error::{Error, Result};
use crate::ids::{Ino, Span};
use crate::limits::FILE_SIZE_MAX;
use crate::store::{Batch, Change, Store};

/// What fallocate(2) shall do with a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Space for it; the file grows to hold it.
    Reserve,
    /// Space for it, also behind the end.
    ReserveKeepSize,
    /// It becomes hole.
    Punch,
    /// It becomes zeros with space; the file grows to hold it.
    Zero,
    /// It becomes zeros with space, also behind the end.
    ZeroKeepSize,
}

/// The most that one copy_file_range(2) does, so that no lock is held for long.
const COPY_LEN_MAX: u64 = 1 << 30;
/// Where there is no room for all of it, it does a part, but nothing shorter than this.
const COPY_LEN_MIN: u64 = 1 << 20;
/// Which part it tries then, and which of that.
const COPY_SHARE: u64 = 4;

impl<S: Store> Fs<S> {
    /// fallocate(2).
    ///
    /// # Errors
    /// `Invalid` for an empty span, `FileTooBig`, `NoSpace`, `NotPermitted` (immutable, append-only).
    pub fn fallocate(
        &self,
        caller: &Caller<'_>,
        ino: Ino,
        mode: Allocate,
        at: u64,
        len: u64,
    ) -> Result<()> {
        let span = Span::at(at, len).filter(|span| span.end() <= FILE_SIZE_MAX);
        let span = span.ok_or(Error::FileTooBig)?;
        if span.is_empty() {
            return Err(Error::Invalid);
        }
        let _inode = self.locks.write(ino);
        let mut attr = self.file(ino)?;
        let reserves = matches!(mode, Allocate::Reserve | Allocate::ReserveKeepSize);
        let append = attr.flags.contains(Flags::APPEND) && !reserves;
        if attr.flags.contains(Flags::IMMUTABLE) || append {
            return Err(Error::NotPermitted);
        }
        let mut batch = Batch::new();
        if !reserves {
            batch.push(Change::Punch { ino, span });
        }
        if mode != Allocate::Punch {
            batch.push(Change::Reserve { ino, span });
        }
        let grows = matches!(mode, Allocate::Reserve | Allocate::Zero);
        if grows {
            self.may_reach(ino, &attr, span.end())?;
        }
        if grows && span.end() > attr.size {
            batch.push(Change::Cut { ino, len: span.end() });
        }
        change(&mut attr, self.now());
        self.push_written(&mut batch, ino, &mut attr, !caller.privileged)?;
        self.store.commit(&batch)
    }

    /// copy_file_range(2): `len` bytes of `source` from `from` also become those of `ino` from `at`, shared where
    /// the home can. Answers how many: fewer where the source ends, past 1 GiB, or where there is no room for all of
    /// them at once: what is shared may take none a moment later.
    ///
    /// # Errors
    /// `Invalid` for ranges of one file that overlap, `FileTooBig`, `NoSpace`, `NotPermitted`.
    pub fn copy_range(
        &self,
        caller: &Caller<'_>,
        (source, from): (Ino, u64),
        (ino, at): (Ino, u64),
        len: u64,
    ) -> Result<u64> {
        let _inodes = self.locks.lock(&[(source, Mode::Read), (ino, Mode::Write)]);
        let left = self.file(source)?.size.saturating_sub(from);
        let mut attr = self.file(ino)?;
        let fixed = Flags::IMMUTABLE.0 | Flags::APPEND.0;
        if attr.flags.0 & fixed != 0 {
            return Err(Error::NotPermitted);
        }
        // As in Linux: what cannot be copied is left out, and only the rest must not overlap.
        let room = FILE_SIZE_MAX.saturating_sub(at);
        if room == 0 {
            return Err(Error::FileTooBig);
        }
        let len = len.min(left).min(room);
        if source == ino && from < at.saturating_add(len) && at < from.saturating_add(len) {
            return Err(Error::Invalid);
        }
        let mut len = len.min(COPY_LEN_MAX);
        if len == 0 {
            return Ok(0);
        }
        change(&mut attr, self.now());
        loop {
            let share = [Change::Share { source, from, ino, at, len }];
            match self.copy_whole(&share, attr, (ino, at + len), !caller.privileged) {
                Err(Error::NoSpace) if len > COPY_LEN_MIN => {
                    let part = len / COPY_SHARE;
                    // Cut where blocks are, so that none is copied for it.
                    len = (part - part % COPY_LEN_MIN).max(COPY_LEN_MIN);
                }
                done => return done.map(|()| len),
            }
        }
    }

    /// Shares bytes with a file, up to there, which gets these attributes.
    fn copy_whole(
        &self,
        changes: &[Change<'_>],
        mut attr: Attr,
        (ino, end): (Ino, u64),
        strip: bool,
    ) -> Result<()> {
        self.may_reach(ino, &attr, end)?;
        let mut batch = Batch::new();
        changes.iter().for_each(|change| batch.push(*change));
        self.push_written(&mut batch, ino, &mut attr, strip)?;
        self.store.commit(&batch)
    }

    /// All content of `source` becomes that of `ino`, and nothing is left of what that had: at once, and shared where
    /// the home can.
    ///
    /// # Errors
    /// `FileTooBig`, `NoSpace`, `NotPermitted`: then it has what it had.
    pub fn replace_content(&self, caller: &Caller<'_>, source: Ino, ino: Ino) -> Result<()> {
        if source == ino {
            return Err(Error::Invalid);
        }
        let _inodes = self.locks.lock(&[(source, Mode::Read), (ino, Mode::Write)]);
        let (len, mut attr) = (self.file(source)?.size, self.file(ino)?);
        if attr.flags.0 & (Flags::IMMUTABLE.0 | Flags::APPEND.0) != 0 {
            return Err(Error::NotPermitted);
        }
        change(&mut attr, self.now());
        let share = Change::Share { source, from: 0, ino, at: 0, len };
        let changes = [Change::Cut { ino, len: 0 }, share];
        self.copy_whole(&changes, attr, (ino, len), !caller.privileged)
    }
}
