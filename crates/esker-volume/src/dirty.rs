//! What changed since the last commit, by batches as they pass, and its final values, read back from whoever
//! has them.
//!
//! Above: `home`. Below: `commit`. Invariant: a key whose value may differ from that in the volume is marked;
//! reading it back gives the same as applying every batch since.

use std::collections::{BTreeMap, BTreeSet};

use esker::limits::FILE_SIZE_MAX;
use esker::overlay::Piece;
use esker::store::{Batch, Change, View};
use esker::{Attr, Error, Ino, Kind, Name, XattrName};
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;

use crate::commit::{Sink, Source};
use crate::error::Result;
use crate::limits::INLINE_LEN;
use crate::ranges::Ranges;
use crate::rows::Numbers;

/// Bytes that are read back at a time.
const CHUNK: usize = 256 << 10;

/// What changed of an inode.
#[derive(Clone, Debug, Default)]
struct Touched {
    bytes: Ranges,
    xattrs: BTreeSet<Vec<u8>>,
}

/// What changed.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    inodes: BTreeMap<Ino, Touched>,
    names: BTreeSet<(Ino, Vec<u8>)>,
}

impl Dirty {
    /// Nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inodes.is_empty() && self.names.is_empty()
    }

    fn touch(&mut self, ino: Ino) -> &mut Touched {
        self.inodes.entry(ino).or_default()
    }

    /// This inode too.
    pub fn mark_inode(&mut self, ino: Ino) {
        self.touch(ino);
    }

    /// What this batch changes.
    pub fn mark(&mut self, batch: &Batch<'_>) {
        for change in batch.changes() {
            match *change {
                Change::Make { ino, .. } | Change::Set { ino, .. } | Change::Drop { ino } => {
                    self.touch(ino);
                }
                Change::Link { dir, name, .. } | Change::Unlink { dir, name } => {
                    // Its size counts its entries.
                    self.touch(dir);
                    self.names.insert((dir, name.bytes().to_vec()));
                }
                Change::Write { ino, at, source } => {
                    self.touch(ino).bytes.add(at, at.saturating_add(source.len() as u64));
                }
                Change::Cut { ino, len } => self.touch(ino).bytes.add(len, FILE_SIZE_MAX),
                Change::Punch { ino, span } => self.touch(ino).bytes.add(span.start(), span.end()),
                Change::Reserve { ino, .. } => drop(self.touch(ino)),
                Change::Share { ino, at, len, .. } => {
                    self.touch(ino).bytes.add(at, at.saturating_add(len));
                }
                Change::Xattr { ino, name, .. } => {
                    self.touch(ino).xattrs.insert(name.bytes().to_vec());
                }
            }
        }
    }
}

/// What changed, with who has the final values.
pub struct Told<'a, V: ?Sized> {
    /// What changed.
    pub dirty: &'a Dirty,
    /// Who has the values.
    pub view: &'a V,
    /// Whose values the volume has now: to know what went into an inode, or out of it.
    pub below: &'a dyn View,
    /// Which bytes of a file are those of files of the volume, in order.
    pub borrowed: &'a dyn Fn(Ino) -> Vec<Piece>,
    /// What there is to count then.
    pub numbers: Numbers,
}

fn some<T>(found: core::result::Result<T, Error>) -> core::result::Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound | Error::NoData) => Ok(None),
        Err(error) => Err(error),
    }
}

fn has_content(attr: &Attr) -> bool {
    matches!(attr.kind, Kind::File | Kind::Symlink)
}

/// Whether content of this length is kept in its inode.
fn is_inline(attr: &Attr) -> bool {
    attr.kind == Kind::Symlink || (attr.kind == Kind::File && attr.size <= INLINE_LEN)
}

impl<V: View + ?Sized> Told<'_, V> {
    fn tell_inode(&self, ino: Ino, touched: &Touched, to: &mut dyn Sink) -> Result<()> {
        let below = some(self.below.attr(ino))?;
        let Some(attr) = some(self.view.attr(ino))? else {
            return if below.is_some() { to.forget(ino) } else { Ok(()) };
        };
        let mut inline = Vec::new();
        let was_inline = below.as_ref().is_some_and(|below| is_inline(below) && has_content(below));
        if is_inline(&attr) {
            inline = vec![0; attr.size as usize];
            let len = self.view.read(ino, 0, &mut inline)?;
            inline.truncate(len);
            if below.is_some() && !was_inline {
                to.hole(ino, 0, None)?;
            }
            // A file of nothing but zeros is a hole.
            if attr.kind == Kind::File && some(self.view.next_data(ino, 0))?.flatten().is_none() {
                inline.clear();
            }
        } else if has_content(&attr) {
            let mut bytes = touched.bytes.clone();
            if was_inline {
                bytes.add(0, INLINE_LEN);
            }
            if below.is_some() && !was_inline {
                bytes = to.widen((ino, attr.size), &bytes)?;
            }
            let mut borrowed = (self.borrowed)(ino);
            // Of what is told again though it is its own, nothing is to be shared.
            borrowed.retain(|piece| (piece.ino, piece.from) != (ino, piece.start));
            for (start, end) in bytes.iter() {
                let told = (&*borrowed, below.is_some());
                self.tell_bytes((ino, attr.size), (start, end), told, to)?;
            }
        }
        to.inode(Inode { ino, attr, inline });
        for name in &touched.xattrs {
            let mut value = Vec::new();
            let found = some(self.view.xattr(ino, XattrName::parse(name)?, &mut value))?;
            to.xattr(ino, name, found.map(|()| value));
        }
        Ok(())
    }

    /// Data of a range, at most so much as is read at a time; how many bytes.
    fn tell_data(
        &self,
        ino: Ino,
        (at, end): (u64, u64),
        (borrowed, buffer): (&[Piece], &mut Vec<u8>),
        to: &mut dyn Sink,
    ) -> Result<u64> {
        let next = borrowed.partition_point(|piece| piece.end <= at);
        let next = borrowed.get(next).filter(|piece| piece.start < end);
        let mut len = next.map_or(end, |piece| piece.start.max(at)) - at;
        if let Some(piece) = next.filter(|piece| piece.start <= at) {
            len = piece.end.min(end) - at;
            let shared = to.share(ino, at, len, (piece.ino, piece.from + (at - piece.start)))?;
            if shared > 0 {
                return Ok(shared);
            }
        }
        buffer.resize(len.min(CHUNK as u64) as usize, 0);
        if self.view.read(ino, at, buffer)? != buffer.len() {
            return Err(Error::Io.into());
        }
        to.bytes(ino, at, buffer)?;
        Ok(buffer.len() as u64)
    }

    /// Data and holes of a range; `hide`: the volume may have something there.
    fn tell_bytes(
        &self,
        (ino, size): (Ino, u64),
        (start, end): (u64, u64),
        (borrowed, hide): (&[Piece], bool),
        to: &mut dyn Sink,
    ) -> Result<()> {
        let (mut at, mut buffer) = (start, Vec::new());
        let until = end.min(size);
        while at < until {
            let data = self.view.next_data(ino, at)?;
            let run =
                data.map_or((until, until), |run| (run.start().min(until), run.end().min(until)));
            if at < run.0 && hide {
                to.hole(ino, at, Some(run.0 - at))?;
            }
            at = run.0;
            while at < run.1 {
                at += self.tell_data(ino, (at, run.1), (borrowed, &mut buffer), to)?;
            }
        }
        if end > until && hide {
            let from = until.max(start);
            to.hole(ino, from, (end < FILE_SIZE_MAX).then(|| end - from))?;
        }
        Ok(())
    }
}

impl<V: View + ?Sized> Source for Told<'_, V> {
    fn tell(&self, to: &mut dyn Sink) -> Result<()> {
        for (&ino, touched) in &self.dirty.inodes {
            self.tell_inode(ino, touched, to)?;
        }
        for (dir, name) in &self.dirty.names {
            match some(self.view.entry(*dir, Name::parse(name)?))? {
                Some(entry) => {
                    let (ino, kind, seq) = (entry.ino, entry.kind, entry.seq.0);
                    to.name(Named { dir: *dir, name: name.clone(), ino, kind, seq })?;
                }
                None => to.unname(*dir, name)?,
            }
        }
        to.numbers(self.numbers);
        Ok(())
    }

    fn recall(&self, ino: Ino, at: u64, target: &mut [u8]) -> bool {
        self.view.read(ino, at, target) == Ok(target.len())
    }
}
