//! Laying a new volume over a base: names, attributes and what is short come in, content stays where it is.
//!
//! Above: the command. Below: `base`, commits. Invariant: until all of it is safe the root names no base that anybody
//! finds, so a volume of which only a part was laid is not opened.

use std::collections::HashSet;
use std::ops::ControlFlow;

use esker::store::{Entry, View};
use esker::{Attr, Cursor, Ino, Kind, Name, XattrName};
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;

use crate::base::{Base, Below, UNFINISHED};
use crate::commit::{Sink, Source};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::limits::INLINE_LEN;
use crate::rows::Numbers;
use crate::volume::Volume;

/// Entries of a directory that are asked for together.
const ENTRIES: usize = 1024;
/// Bytes of rows that go into one commit, about.
const COMMIT_LEN: usize = 1 << 20;
/// Bytes that a row takes besides its strings, about.
const ROW_LEN: usize = 128;

/// What is told of the base.
enum Row {
    Inode(Inode),
    Name(Named),
    Xattr(Ino, Vec<u8>, Vec<u8>),
    /// So many bytes from here on are those of the base.
    Piece(Ino, u64, u64),
}

/// Rows of one commit.
struct Rows {
    rows: Vec<Row>,
    numbers: Numbers,
}

impl Source for Rows {
    fn tell(&self, to: &mut dyn Sink) -> Result<()> {
        for row in &self.rows {
            match row {
                Row::Inode(row) => to.inode(row.clone()),
                Row::Name(row) => to.name(row.clone())?,
                Row::Xattr(ino, name, value) => to.xattr(*ino, name, Some(value.clone())),
                Row::Piece(ino, at, len) => to.piece_of_base(*ino, *at, *len)?,
            }
        }
        to.numbers(self.numbers);
        Ok(())
    }
}

/// Goes through the base.
struct Laying<'a, D> {
    volume: &'a Volume<D>,
    view: &'a dyn View,
    rows: Vec<Row>,
    weight: usize,
    numbers: Numbers,
    /// Inodes with more names than one that were met.
    linked: HashSet<Ino>,
    /// Told how many inodes there are so far.
    tick: &'a mut dyn FnMut(u64),
}

impl<D: Device> Laying<'_, D> {
    fn all(&mut self) -> Result<()> {
        self.inode(Ino::ROOT, self.view.attr(Ino::ROOT)?)?;
        let mut todo = vec![Ino::ROOT];
        while let Some(dir) = todo.pop() {
            self.directory(dir, &mut todo)?;
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<()> {
        let rows = Rows { rows: std::mem::take(&mut self.rows), numbers: self.numbers };
        self.weight = 0;
        self.volume.commit(&rows)
    }

    fn push(&mut self, row: Row, strings: usize) -> Result<()> {
        self.rows.push(row);
        self.weight += ROW_LEN + strings;
        if self.weight < COMMIT_LEN { Ok(()) } else { self.commit() }
    }

    fn directory(&mut self, dir: Ino, todo: &mut Vec<Ino>) -> Result<()> {
        let mut after = Cursor::START;
        loop {
            let mut found: Vec<(Vec<u8>, Entry, Option<Attr>)> = Vec::new();
            self.view.entries(dir, after, true, &mut |listed| {
                found.push((listed.name.bytes().to_vec(), listed.entry, listed.attr));
                match found.len() {
                    ENTRIES => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            })?;
            let whole = found.len() == ENTRIES;
            for (name, entry, attr) in found {
                after = entry.seq;
                let attr = attr.map_or_else(|| self.view.attr(entry.ino), Ok)?;
                if attr.kind == Kind::Directory {
                    todo.push(entry.ino);
                }
                self.entry(dir, name, &entry, attr)?;
            }
            if !whole {
                return Ok(());
            }
        }
    }

    fn entry(&mut self, dir: Ino, name: Vec<u8>, entry: &Entry, attr: Attr) -> Result<()> {
        Name::parse(&name)?;
        let (ino, kind, seq) = (entry.ino, entry.kind, entry.seq.0);
        self.numbers.next_place = self.numbers.next_place.max(seq.saturating_add(1));
        let len = 2 * name.len();
        self.push(Row::Name(Named { dir, name, ino, kind, seq }), len)?;
        let again = attr.nlink > 1 && kind != Kind::Directory && !self.linked.insert(ino);
        if again { Ok(()) } else { self.inode(ino, attr) }
    }

    fn inode(&mut self, ino: Ino, attr: Attr) -> Result<()> {
        self.numbers.next_ino = self.numbers.next_ino.max(ino.0.saturating_add(1));
        self.numbers.inodes += 1;
        (self.tick)(self.numbers.inodes);
        let has_bytes = matches!(attr.kind, Kind::File | Kind::Symlink) && attr.size > 0;
        let is_short = attr.size <= INLINE_LEN || attr.kind == Kind::Symlink;
        let mut inline = Vec::new();
        if has_bytes && is_short {
            inline.resize(usize::try_from(attr.size).map_err(|_| esker::Error::Io)?, 0);
            if self.view.read(ino, 0, &mut inline)? != inline.len() {
                return Err(esker::Error::Io.into());
            }
        }
        let len = inline.len();
        self.push(Row::Inode(Inode { ino, attr, inline }), len)?;
        if has_bytes && !is_short {
            self.content(ino)?;
        }
        self.xattrs(ino)
    }

    fn content(&mut self, ino: Ino) -> Result<()> {
        let (mut at, mut open) = (0, None::<(u64, u64)>);
        while let Some(run) = self.view.next_data(ino, at)? {
            at = run.end();
            match &mut open {
                Some((_, end)) if *end == run.start() => *end = run.end(),
                _ => {
                    let before = open.replace((run.start(), run.end()));
                    self.piece(ino, before)?;
                }
            }
        }
        self.piece(ino, open)
    }

    fn piece(&mut self, ino: Ino, piece: Option<(u64, u64)>) -> Result<()> {
        let Some((start, end)) = piece else { return Ok(()) };
        self.push(Row::Piece(ino, start, end - start), 0)
    }

    fn xattrs(&mut self, ino: Ino) -> Result<()> {
        let mut names = Vec::new();
        self.view.xattrs(ino, &mut |name| {
            names.push(name.bytes().to_vec());
            ControlFlow::Continue(())
        })?;
        for name in names {
            let mut value = Vec::new();
            self.view.xattr(ino, XattrName::parse(&name)?, &mut value)?;
            let len = name.len() + value.len();
            self.push(Row::Xattr(ino, name, value), len)?;
        }
        Ok(())
    }
}

impl<D: Device> Volume<D> {
    /// Lays a new volume over a base: it shows what that shows, and holds only what changes from then on. `tick` is
    /// told how many inodes there are so far.
    ///
    /// # Errors
    /// `Setting` for a volume that is not new, and for files that are too large; `NoSpace`; what the base, and the
    /// device, say. The volume is of no use then.
    pub fn lay_over(&mut self, below: Below, tick: &mut dyn FnMut(u64)) -> Result<()> {
        let is_new = self.base().is_none() && self.numbers().inodes == 1;
        if !is_new || below.base.name == UNFINISHED {
            return Err(Error::Setting("only a new volume can be laid over a base"));
        }
        let unfinished = Base { name: UNFINISHED, ..below.base.clone() };
        self.lie_on(unfinished)?;
        self.below = Some(below.view);
        let view = self.below.as_deref().ok_or(esker::Error::Io)?;
        let numbers = Numbers { inodes: 0, ..self.numbers() };
        let (rows, linked) = (Vec::new(), HashSet::new());
        Laying { volume: self, view, rows, weight: 0, numbers, linked, tick }.all()?;
        self.lie_on(below.base)
    }

    /// Tells where the base was found, for whoever opens the volume next. It is safe then.
    ///
    /// # Errors
    /// What the device says.
    pub fn tell_base(&self) -> Result<()> {
        self.base().map_or(Ok(()), |base| self.lie_on(base))
    }

    fn lie_on(&self, base: Base) -> Result<()> {
        self.writable()?;
        let mut log = self.log();
        self.prepare(&mut log)?;
        self.state_mut().base = Some(base);
        self.settle_all(&mut log)
    }
}
