//! Equal bytes of files, found by hashes of pieces. Pieces are at multiples of their length in a file, so files that
//! are equal have equal ones, however their bytes are spread over blocks.
//!
//! Above: `dedup`. Invariant: of the files from some place on as many hashes are known as there is memory for; whoever
//! comes behind is compared with these. Then the same from the next place on, so each is compared with all before it.
//! What is found to be equal to something is itself not known by its hash: nobody comes to depend on what goes.

use esker::store::View;
use esker::{Ino, Kind};
use esker_stone::key;

use super::{Counted, Deduped, Deduping, Equal, First};
use crate::base::is_based;
use crate::device::Device;
use crate::error::Result;
use crate::leaf::Leaf;
use crate::limits::{DEDUP_ENTRY_LEN, DEDUP_FOUND_LEN, DEDUP_FOUND_MAX, DEDUP_PIECE_LEN};
use crate::volume::Volume;

/// Files that are looked for at a time.
const FILES: usize = 1024;
/// Bytes that are read at a time.
const CHUNK: u64 = 256 << 10;

pub(super) struct Finding<'a, D> {
    volume: &'a Volume<D>,
    how: Deduping<'a>,
    first: First,
    first_max: usize,
    /// From where on hashes are to be known in the next pass.
    next: Option<(Ino, u64)>,
    found: Vec<Equal>,
    /// Their bytes.
    found_len: u64,
    counted: Counted,
    /// Bytes of this pass.
    read: u64,
    pub done: Deduped,
}

impl<'a, D: Device> Finding<'a, D> {
    pub fn new(volume: &'a Volume<D>, how: Deduping<'a>) -> Self {
        let counted = Counted(how.dry_run.then(Default::default));
        let first_max = (how.memory / DEDUP_ENTRY_LEN).max(16);
        let (first, found, done) = (First::new(), Vec::new(), Deduped::default());
        Self {
            volume,
            how,
            first,
            first_max,
            next: None,
            found,
            found_len: 0,
            counted,
            read: 0,
            done,
        }
    }

    /// Goes over all files as often as it takes.
    pub fn run(&mut self) -> Result<()> {
        let mut from = Some((Ino(0), 0));
        while let Some(start) = from {
            self.first.clear();
            (self.next, self.read) = (None, 0);
            self.done.passes += 1;
            self.pass(start)?;
            self.share()?;
            from = self.next.filter(|_| !self.done.stopped);
        }
        Ok(())
    }

    /// Goes over all files from some place on.
    fn pass(&mut self, (first, at): (Ino, u64)) -> Result<()> {
        let mut next = Some(first);
        while let Some(from) = next {
            let files = self.files_from(from)?;
            next = files.last().filter(|_| files.len() == FILES).map(|ino| Ino(ino.0 + 1));
            for ino in files {
                let begin = if ino == first { at } else { 0 };
                self.done.files += u64::from(self.done.passes == 1);
                self.file(ino, begin)?;
                if self.done.stopped {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The next inodes.
    fn files_from(&self, from: Ino) -> Result<Vec<Ino>> {
        let state = self.volume.state();
        let stack = self.volume.stack(&state);
        let mut all: Vec<Ino> = Vec::new();
        stack.leaves_from(&key::inode(from), &mut |leaf| {
            let Leaf::Inodes(rows) = leaf else { return false };
            let own = (0..rows.len()).filter_map(|row| rows.ino(row));
            all.extend(own.filter(|&ino| ino >= from));
            all.len() < FILES
        })?;
        for own in state.news() {
            all.extend(own.inodes.range(from..).map(|(&ino, _)| ino).take(FILES));
        }
        all.sort_unstable();
        all.dedup();
        all.truncate(FILES);
        Ok(all)
    }

    /// Looks at a file from some place on. What cannot be read stays as it is: `scrub` tells which that is.
    fn file(&mut self, ino: Ino, begin: u64) -> Result<()> {
        let mut at = begin;
        while !self.done.stopped {
            match self.chunk(ino, at) {
                Ok(Some(end)) => at = end,
                Ok(None) => break,
                Err(_) => {
                    self.done.unreadable += 1;
                    break;
                }
            }
            let of = self.volume.space().used.max(self.read);
            self.done.stopped = !(self.how.pace)(self.read, of);
            if self.found.len() >= DEDUP_FOUND_MAX || self.found_len >= DEDUP_FOUND_LEN {
                self.share()?;
            }
        }
        Ok(())
    }

    /// Looks at the next bytes of a file; where they end. Pieces begin where they would in a copy without holes.
    fn chunk(&mut self, ino: Ino, at: u64) -> esker::Result<Option<u64>> {
        let attr = match self.volume.attr(ino) {
            Err(esker::Error::NotFound) => return Ok(None),
            attr => attr?,
        };
        let data = match attr.kind {
            Kind::File => self.volume.next_data(ino, at)?,
            _ => None,
        };
        let Some(data) = data else { return Ok(None) };
        let mut place = (data.start() / DEDUP_PIECE_LEN * DEDUP_PIECE_LEN).max(at);
        let len = (data.end() - place).min(CHUNK).next_multiple_of(DEDUP_PIECE_LEN);
        let mut bytes = vec![0; len.min(attr.size - place) as usize];
        let len = self.volume.read(ino, place, &mut bytes)?;
        for own in bytes[..len].chunks(DEDUP_PIECE_LEN as usize) {
            self.piece((ino, place), own);
            place += own.len() as u64;
        }
        self.read += len as u64;
        self.done.read += len as u64;
        Ok((len > 0).then_some(place))
    }

    /// Looks whether a piece is known, and knows it from now on otherwise.
    fn piece(&mut self, (ino, at): (Ino, u64), own: &[u8]) {
        let hash = (self.how.hash)(own);
        if let Some(&from) = self.first.get(&hash) {
            if from != (ino, at) && self.is_apart((ino, at), from) {
                let mut other = vec![0; own.len()];
                // That it cannot be read is no fault of this file.
                let read = self.volume.read(from.0, from.1, &mut other);
                if read == Ok(own.len()) && other == own {
                    self.add(Equal { ino, at, len: own.len() as u64, from });
                }
            }
        } else if self.first.len() < self.first_max {
            self.first.insert(hash, (ino, at));
        } else if self.next.is_none() {
            self.next = Some((ino, at));
        }
    }

    /// Whether two places are in different blocks of the volume's own.
    fn is_apart(&self, one: (Ino, u64), two: (Ino, u64)) -> bool {
        let state = self.volume.state();
        let stack = self.volume.stack(&state);
        let place = |(ino, at)| stack.run(ino, at).ok().and_then(|run| run.place);
        let own = |block| !is_based(block);
        match (place(one), place(two)) {
            (Some(one), Some(two)) => one != two && own(one.block) && own(two.block),
            _ => false,
        }
    }

    fn add(&mut self, equal: Equal) {
        self.found_len += equal.len;
        if let Some(last) = self.found.last_mut()
            && (last.ino, last.at + last.len) == (equal.ino, equal.at)
            && (last.from.0, last.from.1 + last.len) == equal.from
        {
            last.len += equal.len;
            return;
        }
        self.found.push(equal);
    }

    /// Shares what was found.
    fn share(&mut self) -> Result<()> {
        let found = std::mem::take(&mut self.found);
        self.found_len = 0;
        let worth = self.volume.worth_sharing(&found, &mut self.done, &mut self.counted)?;
        if self.how.dry_run { Ok(()) } else { self.volume.share_all(&worth) }
    }
}
