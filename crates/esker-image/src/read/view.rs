//! Answers: the image's [`View`].
//!
//! Above: POSIX, by way of [`ReadOnly`](esker::store::ReadOnly), and whoever walks an image. Invariant: a directory
//! is only entered through the parent that it names itself, so no walk goes round.

use std::sync::Arc;

use esker::store::{Entry, Flow, Listed, Space, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Span, XattrName};
use esker_stone::Damage;
use esker_stone::key::{self, kind};
use esker_stone::rows::inodes::Inodes;
use esker_stone::rows::names::Names;
use esker_stone::rows::xattrs::Xattrs;
use esker_stone::tree::Found;

use super::image::Image;
use super::wanted::Wanted;

/// What reading met, in the words of the core: damage is answered like a failing device.
fn refused(error: esker_stone::Error) -> Error {
    match error {
        esker_stone::Error::Io(std::io::ErrorKind::OutOfMemory, _) => Error::NoMemory,
        esker_stone::Error::Unsupported(_) => Error::NotSupported,
        _ => Error::Io,
    }
}

fn damaged(_: Damage) -> Error {
    Error::Io
}

/// Inodes that were looked up last, which those looked up next are likely to be beside.
#[derive(Default)]
struct Beside(Option<Arc<Inodes>>);

impl Beside {
    fn attr(&mut self, image: &Image, ino: Ino) -> Result<Attr> {
        let known = self.0.as_ref().and_then(|page| Some((Arc::clone(page), page.find(ino)?)));
        let found = match known {
            Some(known) => Some(known),
            None => image.inode(ino).map_err(refused)?,
        };
        let (page, row) = found.ok_or_else(|| damaged(Damage::Reference))?;
        let attr = page.attr_at(row).map_err(refused);
        self.0 = Some(page);
        attr
    }
}

/// That what a name says of an inode, and what the inode says itself, agree.
fn agree(dir: Ino, entry: &Entry, attr: &Attr) -> Result<()> {
    let right = attr.kind == entry.kind
        && (attr.kind != Kind::Directory || (attr.parent == dir && entry.ino != Ino::ROOT));
    if right { Ok(()) } else { Err(damaged(Damage::Parent)) }
}

impl Image {
    /// The rank among all entries of the first name of a directory, or of where it would be.
    fn first_name(&self, dir: Ino) -> Result<Option<u64>> {
        let bound = |page: &Names| page.lower_bound(dir, &[]);
        let found = self.lower(kind::NAME, &key::name(dir, &[]), bound).map_err(refused)?;
        Ok(found.map(|(found, _, row)| found.before + row as u64))
    }

    /// A name's place in its directory.
    fn rank(&self, dir: Ino, found: &Found, page: &Names, row: usize) -> Result<u64> {
        let first = page.lower_bound(dir, &[]);
        if first > 0 {
            return Ok((row - first) as u64);
        }
        let first = self.first_name(dir)?;
        let rank = first.and_then(|first| (found.before + row as u64).checked_sub(first));
        rank.ok_or_else(|| damaged(Damage::Order))
    }

    fn content(&self, ino: Ino) -> Result<(Attr, Arc<Inodes>, usize)> {
        let (page, row) = self.inode(ino).map_err(refused)?.ok_or(Error::NotFound)?;
        let attr = page.attr_at(row).map_err(refused)?;
        Ok((attr, page, row))
    }

    /// The first attribute of an inode that is not before `name`.
    fn first_xattr(&self, ino: Ino, name: &[u8]) -> Result<Option<(Found, Arc<Xattrs>, usize)>> {
        let bound = |page: &Xattrs| page.lower_bound(ino, name);
        self.lower(kind::XATTR, &key::xattr(ino, name), bound).map_err(refused)
    }
}

impl View for Image {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.attributes(ino).map_err(refused)?.ok_or(Error::NotFound)
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        let bound = |page: &Names| page.lower_bound(dir, name.bytes());
        let key = key::name(dir, name.bytes());
        let found = self.lower(kind::NAME, &key, bound).map_err(refused)?;
        let found = found.filter(|(_, page, row)| {
            page.dir(*row) == Some(dir) && page.name(*row) == name.bytes()
        });
        let Some((found, page, row)) = found else {
            return self.attr(dir).and(Err(Error::NotFound));
        };
        let (ino, kind) = page.child(row).map_err(refused)?;
        let rank = self.rank(dir, &found, &page, row)?;
        let entry = Entry { ino, kind, seq: Cursor(Cursor::FIRST.0 + rank) };
        agree(dir, &entry, &self.attr(ino).map_err(|_| damaged(Damage::Reference))?)?;
        Ok(entry)
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        let own = self.attr(dir)?;
        if own.kind != Kind::Directory || own.size == 0 {
            return Ok(());
        }
        let first = self.first_name(dir)?.ok_or_else(|| damaged(Damage::Count))?;
        let mut rank = after.0.saturating_add(1).saturating_sub(Cursor::FIRST.0);
        let mut beside = Beside::default();
        while rank < own.size {
            let place = first.checked_add(rank).ok_or_else(|| damaged(Damage::Range))?;
            let found = self.leaf_of_rank::<Names>(kind::NAME, place).map_err(refused)?;
            let (found, page) = found.ok_or_else(|| damaged(Damage::Count))?;
            let from = (place - found.before) as usize;
            for row in from..page.len() {
                if page.dir(row) != Some(dir) {
                    // The directory says that it has more.
                    return Err(damaged(Damage::Count));
                }
                let (ino, kind) = page.child(row).map_err(refused)?;
                let entry = Entry { ino, kind, seq: Cursor(Cursor::FIRST.0 + rank) };
                let attr = if attrs { Some(beside.attr(self, ino)?) } else { None };
                if let Some(attr) = &attr {
                    agree(dir, &entry, attr)?;
                }
                let name = Name::parse(page.name(row))?;
                rank += 1;
                if each(Listed { name, entry, attr }).is_break() || rank == own.size {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        let (attr, page, row) = self.content(ino)?;
        if !matches!(attr.kind, Kind::File | Kind::Symlink) {
            return Err(Error::Invalid);
        }
        let len = attr.size.saturating_sub(at).min(target.len() as u64) as usize;
        let mut target = &mut target[..len];
        let inline = page.inline_at(row);
        if !inline.is_empty() {
            let from = usize::try_from(at).unwrap_or(usize::MAX);
            let part = inline.get(from..).and_then(|part| part.get(..len)).unwrap_or_default();
            target.copy_from_slice(part);
            return Ok(len);
        }
        let (mut done, mut wanted) = (0, Wanted::default());
        while done < len {
            let place = at + done as u64;
            let stretch = self.stretch(ino, attr.size, place).map_err(refused)?;
            let mut start = stretch.start;
            for piece in stretch.pieces {
                let end = start + piece.len;
                let place = at + done as u64;
                if place < end && done < len {
                    let part = (len - done).min(usize::try_from(end - place).unwrap_or(usize::MAX));
                    let (bytes, rest) = std::mem::take(&mut target).split_at_mut(part);
                    match piece.place {
                        None => bytes.fill(0),
                        Some(source) => {
                            let from = u64::from(source.offset) + (place - start);
                            let from = usize::try_from(from).map_err(|_| damaged(Damage::Range))?;
                            wanted.add(source.block, (from, bytes));
                        }
                    }
                    (target, done) = (rest, done + part);
                }
                start = end;
                if wanted.is_full() {
                    self.fill_wanted(std::mem::take(&mut wanted)).map_err(refused)?;
                }
            }
        }
        self.fill_wanted(wanted).map_err(refused)?;
        Ok(len)
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        let (attr, page, row) = self.content(ino)?;
        if !matches!(attr.kind, Kind::File | Kind::Symlink) || at >= attr.size {
            return Ok(None);
        }
        if !page.inline_at(row).is_empty() {
            return Ok(Span::new(at, attr.size));
        }
        let mut run: Option<(u64, u64)> = None;
        let mut place = at;
        while place < attr.size {
            let stretch = self.stretch(ino, attr.size, place).map_err(refused)?;
            let mut start = stretch.start;
            for piece in stretch.pieces {
                let end = start + piece.len;
                if end > at {
                    run = match (run, piece.place) {
                        (None, Some(_)) => Some((start.max(at), end)),
                        (Some((first, _)), Some(_)) => Some((first, end)),
                        (Some((first, last)), None) => return Ok(Span::new(first, last)),
                        (None, None) => None,
                    };
                }
                start = end;
            }
            place = start;
        }
        Ok(run.and_then(|(first, last)| Span::new(first, last)))
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        if let Some((_, page, row)) = self.first_xattr(ino, name.bytes())?
            && let Some((owner, found, value)) = page.row(row)
            && owner == ino
            && found == name.bytes()
        {
            target.extend_from_slice(value);
            return Ok(());
        }
        self.attr(ino).and(Err(Error::NoData))
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        self.attr(ino)?;
        let mut at = self.first_xattr(ino, &[])?;
        while let Some((found, page, from)) = at {
            for row in from..page.len() {
                let Some((owner, name, _)) = page.row(row) else { return Ok(()) };
                if owner != ino || each(XattrName::parse(name)?).is_break() {
                    return Ok(());
                }
            }
            let behind = found.before + found.entries;
            let behind = self.leaf_of_rank::<Xattrs>(kind::XATTR, behind).map_err(refused)?;
            at = behind.map(|(found, page)| (found, page, 0));
        }
        Ok(())
    }

    fn space(&self) -> Space {
        let size = self.rest().superblock().size;
        Space { total: size, used: size, inodes: self.root().statistics.inodes }
    }
}
