//! Answers: the volume's [`View`], as of its newest commit; those of any stack.
//!
//! Above: POSIX, by way of the home on top; `snapped`. Below: `stack`. Invariant: what is damaged is answered with EIO,
//! never with a wrong byte; no lock is held while a caller's closure runs.

use esker::store::{Entry, Flow, Listed, Space, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Span, XattrName};
use esker_stone::rows::extents::Place;
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;

use crate::base::is_based;
use crate::device::Device;
use crate::limits::NEXT;
use crate::listing::{Behind, Looking};
use crate::stack::Stack;
use crate::volume::Volume;

/// What is looked at through a stack.
pub(crate) trait Sees {
    type On: Device;

    /// Looks while nothing changes.
    fn look<R>(&self, see: impl FnOnce(&Stack<'_, Self::On>) -> Result<R>) -> Result<R>;
}

/// Entries that are looked up at a time.
const ENTRIES: usize = 64;

/// Pieces of a file that one look for data walks through.
const RUNS_MAX: usize = 64;

/// Some entries of a directory, and where those that follow go on; `None`: there are none.
struct Entries {
    found: Vec<(Named, Option<Attr>)>,
    next: Option<Cursor>,
}

type Refused = crate::error::Error;

const fn refused(error: Refused) -> Error {
    error.core()
}

fn known<D: Device>(stack: &Stack<'_, D>, ino: Ino) -> Result<Inode> {
    stack.inode(ino).map_err(refused)?.ok_or(Error::NotFound)
}

/// Bytes of a block, by way of the cache, or of the base.
fn copy<D: Device>(stack: &Stack<'_, D>, place: Place, target: &mut [u8]) -> Result<()> {
    if is_based(place.block) {
        return stack.read_base(place, target).map_err(refused);
    }
    let plain = stack.block(place.block).map_err(refused)?;
    let source = plain.get(place.offset as usize..).and_then(|rest| rest.get(..target.len()));
    target.copy_from_slice(source.ok_or(Error::Io)?);
    Ok(())
}

/// Entries of a directory, from the one behind `after` on, with attributes if they are wanted.
pub(crate) fn list(
    on: &impl Sees,
    dir: Ino,
    (after, attrs): (Cursor, bool),
    each: &mut dyn FnMut(Listed<'_>) -> Flow,
) -> Result<()> {
    on.look(|stack| stack.attr(dir))?;
    let (mut after, mut looking) = (after, Looking::default());
    loop {
        let some = on.look(|stack| stack.some_entries(dir, (after, attrs), &mut looking))?;
        for (row, attr) in some.found {
            let entry = Entry { ino: row.ino, kind: row.kind, seq: Cursor(row.seq) };
            if each(Listed { name: Name::parse(&row.name)?, entry, attr }).is_break() {
                return Ok(());
            }
        }
        let Some(next) = some.next else { return Ok(()) };
        after = next;
    }
}

/// Names of the extended attributes of an inode.
pub(crate) fn list_xattrs(
    on: &impl Sees,
    ino: Ino,
    each: &mut dyn FnMut(XattrName<'_>) -> Flow,
) -> Result<()> {
    on.look(|stack| stack.attr(ino))?;
    let mut from = Vec::new();
    loop {
        let found = on.look(|stack| stack.xattr_from(ino, &from).map_err(refused))?;
        let Some((name, _)) = found else { return Ok(()) };
        if each(XattrName::parse(&name)?).is_break() {
            return Ok(());
        }
        from = [name.as_slice(), &[0]].concat();
    }
}

impl<D: Device> Stack<'_, D> {
    pub(crate) fn attr(&self, ino: Ino) -> Result<Attr> {
        known(self, ino).map(|row| row.attr)
    }

    pub(crate) fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        match self.name(dir, name.bytes()).map_err(refused)? {
            Some(row) => Ok(Entry { ino: row.ino, kind: row.kind, seq: Cursor(row.seq) }),
            None => known(self, dir).and(Err(Error::NotFound)),
        }
    }

    fn some_entries(
        &self,
        dir: Ino,
        (after, attrs): (Cursor, bool),
        looking: &mut Looking,
    ) -> Result<Entries> {
        let mut found = Vec::new();
        let behind = Behind::new(self, (dir, after.0), looking).map_err(refused)?;
        let Some(mut behind) = behind else { return Ok(Entries { found, next: Some(after) }) };
        while found.len() < ENTRIES {
            let Some(row) = behind.next().map_err(refused)? else {
                return Ok(Entries { found, next: behind.until().map(Cursor) });
            };
            let attr = if attrs { Some(self.attr(row.ino)?) } else { None };
            found.push((row, attr));
        }
        let next = found.last().map(|(row, _)| Cursor(row.seq));
        Ok(Entries { found, next })
    }

    pub(crate) fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        let row = known(self, ino)?;
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
            let run = self.run(ino, at + done as u64).map_err(refused)?;
            let part = usize::try_from(run.len).unwrap_or(usize::MAX).min(len - done);
            let bytes = &mut target[done..done + part];
            if let Some(place) = run.place {
                match self.whole(place, part, done).map_err(refused)? {
                    Some(one) => whole.push(one),
                    None => copy(self, place, bytes)?,
                }
            } else {
                bytes.fill(0);
            }
            done += part;
        }
        self.read_whole(&whole, target).map_err(refused)?;
        Ok(len)
    }

    pub(crate) fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        let row = known(self, ino)?;
        let size = row.attr.size;
        if !matches!(row.attr.kind, Kind::File | Kind::Symlink) || at >= size {
            return Ok(None);
        }
        if !row.inline.is_empty() {
            return Ok(Span::new(at, size));
        }
        let (mut place, mut first, mut runs) = (at, None, 0);
        while place < size && runs < RUNS_MAX {
            let run = self.run(ino, place).map_err(refused)?;
            match (run.place, first) {
                (Some(_), None) => first = Some(place),
                (None, Some(_)) => break,
                _ => {}
            }
            runs += usize::from(first.is_some());
            place = run.end().min(size);
        }
        Ok(first.and_then(|first| Span::new(first, place)))
    }

    pub(crate) fn xattr_value(
        &self,
        ino: Ino,
        name: XattrName<'_>,
        target: &mut Vec<u8>,
    ) -> Result<()> {
        known(self, ino)?;
        let value = self.xattr(ino, name.bytes()).map_err(refused)?;
        target.extend(value.ok_or(Error::NoData)?);
        Ok(())
    }
}

impl<D: Device> Sees for Stack<'_, D> {
    type On = D;

    fn look<R>(&self, see: impl FnOnce(&Stack<'_, D>) -> Result<R>) -> Result<R> {
        see(self)
    }
}

impl<D: Device> Sees for Volume<D> {
    type On = D;

    fn look<R>(&self, see: impl FnOnce(&Stack<'_, D>) -> Result<R>) -> Result<R> {
        see(&self.stack(&self.state()))
    }
}

impl<D: Device> View for Volume<D> {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.look(|stack| stack.attr(ino))
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        self.look(|stack| stack.entry(dir, name))
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        list(self, dir, (after, attrs), each)
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        self.look(|stack| stack.read(ino, at, target))
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        self.look(|stack| stack.next_data(ino, at))
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        self.look(|stack| stack.xattr_value(ino, name, target))
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        list_xattrs(self, ino, each)
    }

    fn space(&self) -> Space {
        let state = self.state();
        // Nor can those be used in which the log will go on, and what is left of the open ones.
        let kept = self.kept_back(&state) + NEXT + 1;
        let (total, used) = self.segments().usage(self.filled(), kept);
        let total = total.saturating_sub(self.rows_to_come()).max(used);
        let inodes = state.numbers.inodes;
        Space { total, used, inodes }
    }
}
