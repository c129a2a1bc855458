//! Answers: the volume's [`View`], as of its newest commit.
//!
//! Above: POSIX, by way of the home on top. Below: `stack`. Invariant: what is damaged is answered with EIO,
//! never with a wrong byte; no lock is held while a caller's closure runs.

use esker::store::{Entry, Flow, Listed, Space, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Span, XattrName};
use esker_stone::rows::extents::Place;
use esker_stone::rows::inodes::Inode;

use crate::device::Device;
use crate::limits::NEXT;
use crate::room::usage;
use crate::stack::Stack;
use crate::volume::Volume;

/// Entries that are looked up at a time.
const ENTRIES: usize = 64;

type Refused = crate::error::Error;

const fn refused(error: Refused) -> Error {
    error.core()
}

fn known<D: Device>(stack: &Stack<'_, D>, ino: Ino) -> Result<Inode> {
    stack.inode(ino).map_err(refused)?.ok_or(Error::NotFound)
}

fn attr_of(row: &Inode) -> Attr {
    row.attr
}

/// Bytes of a block, by way of the cache.
fn copy<D: Device>(stack: &Stack<'_, D>, place: Place, target: &mut [u8]) -> Result<()> {
    let plain = stack.block(place.block).map_err(refused)?;
    let source = plain.get(place.offset as usize..).and_then(|rest| rest.get(..target.len()));
    target.copy_from_slice(source.ok_or(Error::Io)?);
    Ok(())
}

impl<D: Device> View for Volume<D> {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        let state = self.state();
        known(&self.stack(&state), ino).map(|row| attr_of(&row))
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        let state = self.state();
        let stack = self.stack(&state);
        match stack.name(dir, name.bytes()).map_err(refused)? {
            Some(row) => Ok(Entry { ino: row.ino, kind: row.kind, seq: Cursor(row.seq) }),
            None => known(&stack, dir).and(Err(Error::NotFound)),
        }
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        self.attr(dir)?;
        let mut after = after;
        loop {
            let mut found = Vec::new();
            {
                let state = self.state();
                let stack = self.stack(&state);
                let mut at = after;
                while found.len() < ENTRIES {
                    let next = stack.place_behind(dir, at).map_err(refused)?;
                    let Some((seq, name)) = next else { break };
                    at = Cursor(seq);
                    let row = stack.name(dir, &name).map_err(refused)?;
                    let row = row.filter(|row| row.seq == seq).ok_or(Error::Io)?;
                    let attr = match attrs {
                        true => Some(known(&stack, row.ino).map(|row| attr_of(&row))?),
                        false => None,
                    };
                    found.push((row, attr));
                }
            }
            let whole = found.len() == ENTRIES;
            for (row, attr) in found {
                let entry = Entry { ino: row.ino, kind: row.kind, seq: Cursor(row.seq) };
                after = entry.seq;
                if each(Listed { name: Name::parse(&row.name)?, entry, attr }).is_break() {
                    return Ok(());
                }
            }
            if !whole {
                return Ok(());
            }
        }
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        let state = self.state();
        let stack = self.stack(&state);
        let row = known(&stack, ino)?;
        if !matches!(row.attr.kind, Kind::File | Kind::Symlink) {
            return Err(Error::Invalid);
        }
        let len = row.attr.size.saturating_sub(at).min(target.len() as u64) as usize;
        let target = &mut target[..len];
        if !row.inline.is_empty() {
            let from = usize::try_from(at).unwrap_or(usize::MAX);
            let part = row.inline.get(from..).and_then(|part| part.get(..len));
            target.copy_from_slice(part.unwrap_or_default());
            return Ok(len);
        }
        let (mut done, mut whole) = (0, Vec::new());
        while done < len {
            let run = stack.run(ino, at + done as u64).map_err(refused)?;
            let part = usize::try_from(run.len).unwrap_or(usize::MAX).min(len - done);
            let bytes = &mut target[done..done + part];
            if let Some(place) = run.place {
                match stack.whole(place, part, done).map_err(refused)? {
                    Some(one) => whole.push(one),
                    None => copy(&stack, place, bytes)?,
                }
            } else {
                bytes.fill(0);
            }
            done += part;
        }
        stack.read_whole(&whole, target).map_err(refused)?;
        Ok(len)
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        let state = self.state();
        let stack = self.stack(&state);
        let row = known(&stack, ino)?;
        let size = row.attr.size;
        if !matches!(row.attr.kind, Kind::File | Kind::Symlink) || at >= size {
            return Ok(None);
        }
        if !row.inline.is_empty() {
            return Ok(Span::new(at, size));
        }
        let (mut place, mut first) = (at, None);
        while place < size {
            let run = stack.run(ino, place).map_err(refused)?;
            match (run.place, first) {
                (Some(_), None) => first = Some(place),
                (None, Some(_)) => break,
                _ => {}
            }
            place = run.end().min(size);
        }
        Ok(first.and_then(|first| Span::new(first, place)))
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        let state = self.state();
        let stack = self.stack(&state);
        known(&stack, ino)?;
        let value = stack.xattr(ino, name.bytes()).map_err(refused)?;
        target.extend(value.ok_or(Error::NoData)?);
        Ok(())
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        self.attr(ino)?;
        let mut from = Vec::new();
        loop {
            let found = {
                let state = self.state();
                self.stack(&state).xattr_from(ino, &from).map_err(refused)?
            };
            let Some((name, _)) = found else { return Ok(()) };
            if each(XattrName::parse(&name)?).is_break() {
                return Ok(());
            }
            from = [name.as_slice(), &[0]].concat();
        }
    }

    fn space(&self) -> Space {
        let state = self.state();
        // Nor can those be used in which the log will go on, and what is left of the open ones.
        let kept = self.kept_back(&state) + NEXT + 1;
        let (total, used) = usage(self.segments().rows(), self.filled(), kept);
        let inodes = state.numbers.inodes;
        Space { total, used, inodes }
    }
}
