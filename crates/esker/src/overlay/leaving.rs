//! A lower home that is left behind once all of it is above: it keeps its directories in memory, one by one, and in the
//! end needs what it was made of no more.
//!
//! Neighbours: `fill` moves everything else. Invariant: a directory that is kept answers as before, but for attributes,
//! which it does not know; when the home is left, all its directories are kept.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::attr::{Attr, Kind};
use crate::error::{Error, Result};
use crate::ground::order::Rank;
use crate::ground::sync::RwLock;
use crate::ids::{Cursor, Ino, Span};
use crate::name::{Name, XattrName};
use crate::store::{Entry, Flow, Listed, Space, View};

/// A name of a kept directory.
#[derive(Clone, Copy)]
struct Row {
    entry: Entry,
    /// Where it begins and ends among all names.
    start: usize,
    end: usize,
}

/// A directory that is kept.
#[derive(Default)]
struct Directory {
    names: Box<[u8]>,
    /// In listing order.
    rows: Box<[Row]>,
    /// The rows in the order of their names.
    by_name: Box<[u32]>,
}

impl Directory {
    fn of<V: View>(view: &V, dir: Ino) -> Result<Self> {
        let (mut names, mut rows) = (Vec::new(), Vec::new());
        view.entries(dir, Cursor::DOT_DOT, false, &mut |listed| {
            let start = names.len();
            names.extend_from_slice(listed.name.bytes());
            rows.push(Row { entry: listed.entry, start, end: names.len() });
            Flow::Continue(())
        })?;
        let count = u32::try_from(rows.len()).map_err(|_| Error::NoMemory)?;
        let mut by_name: Vec<u32> = (0..count).collect();
        let name = |row: u32| &names[rows[row as usize].start..rows[row as usize].end];
        by_name.sort_unstable_by(|&one, &other| name(one).cmp(name(other)));
        Ok(Self {
            by_name: by_name.into(),
            names: names.into_boxed_slice(),
            rows: rows.into_boxed_slice(),
        })
    }

    fn name(&self, row: &Row) -> &[u8] {
        &self.names[row.start..row.end]
    }

    fn find(&self, name: &[u8]) -> Option<Entry> {
        let at = |&row: &u32| self.name(&self.rows[row as usize]).cmp(name);
        let found = self.by_name.binary_search_by(at).ok()?;
        Some(self.rows[self.by_name[found] as usize].entry)
    }

    fn behind(&self, after: Cursor) -> &[Row] {
        &self.rows[self.rows.partition_point(|row| row.entry.seq <= after)..]
    }
}

/// A home that can be left.
pub struct Leaving<V> {
    view: RwLock<Option<Arc<V>>>,
    kept: RwLock<BTreeMap<u64, Arc<Directory>>>,
    space: Space,
}

impl<V: View> Leaving<V> {
    /// This one, of which nothing is kept yet.
    pub fn new(view: V) -> Self {
        Self {
            space: view.space(),
            view: RwLock::new(Rank::Leaving.number(0), Some(Arc::new(view))),
            kept: RwLock::new(Rank::Leaving.number(1), BTreeMap::new()),
        }
    }

    /// Keeps a directory.
    ///
    /// # Errors
    /// What the home says.
    pub fn keep(&self, dir: Ino) -> Result<()> {
        if self.known(dir).is_none() {
            let directory = Arc::new(Directory::of(&*self.view()?, dir)?);
            self.kept.write().insert(dir.0, directory);
        }
        Ok(())
    }

    /// Leaves the home: it is dropped with the last call that is under way.
    pub fn leave(&self) {
        let left = self.view.write().take();
        drop(left);
    }

    /// The home, unless it was left: then nobody should have to ask it.
    fn view(&self) -> Result<Arc<V>> {
        self.view.read().as_ref().map(Arc::clone).ok_or(Error::Io)
    }

    fn known(&self, dir: Ino) -> Option<Arc<Directory>> {
        self.kept.read().get(&dir.0).map(Arc::clone)
    }
}

impl<V: View> View for Leaving<V> {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.view()?.attr(ino)
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        match self.known(dir) {
            Some(known) => known.find(name.bytes()).ok_or(Error::NotFound),
            None => self.view()?.entry(dir, name),
        }
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        let Some(known) = self.known(dir) else {
            return self.view()?.entries(dir, after, attrs, each);
        };
        for row in known.behind(after) {
            let name = Name::parse(known.name(row))?;
            if each(Listed { name, entry: row.entry, attr: None }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        self.view()?.read(ino, at, target)
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        self.view()?.next_data(ino, at)
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        self.view()?.xattr(ino, name, target)
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        self.view()?.xattrs(ino, each)
    }

    /// As it was when nothing had left.
    fn space(&self) -> Space {
        self.space
    }
}

/// What is in a directory of the lower, for whoever walks it.
pub(super) fn children<V: View>(view: &V, dir: Ino) -> Result<Vec<(Ino, Kind)>> {
    let mut children = Vec::new();
    view.entries(dir, Cursor::DOT_DOT, false, &mut |listed| {
        children.push((listed.entry.ino, listed.entry.kind));
        Flow::Continue(())
    })?;
    Ok(children)
}
