//! The reference home: maps in memory, one lock, a copy before every batch. Slow, and too plain to be wrong.
//!
//! Above: `posix::Fs` as above any home. Beside: every other home, compared with this one.
//! Invariant: a batch is applied to a copy that replaces the state only when every change has been taken.

pub mod content;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esker::limits::{FILE_SIZE_MAX, XATTR_VALUE_LEN_MAX};
use esker::store::{Batch, Change, Entry, Flow, Listed, Space, Store, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Span, XattrName};

use content::{Content, PAGE};

#[derive(Clone)]
struct Inode {
    attr: Attr,
    content: Content,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    names: BTreeMap<Vec<u8>, Entry>,
    last_seq: u64,
}

impl Inode {
    fn new(attr: Attr) -> Self {
        Self {
            attr,
            content: Content::default(),
            xattrs: BTreeMap::new(),
            names: BTreeMap::new(),
            last_seq: Cursor::FIRST.0 - 1,
        }
    }

    fn attr(&self) -> Attr {
        let directory = self.attr.kind == Kind::Directory;
        let size = if directory { self.names.len() as u64 } else { self.content.size() };
        Attr { size, blocks: self.content.page_count() * (PAGE / 512), ..self.attr }
    }

    fn listed(&self) -> Vec<(Vec<u8>, Entry)> {
        let mut all: Vec<_> =
            self.names.iter().map(|(name, &entry)| (name.clone(), entry)).collect();
        all.sort_by_key(|(_, entry)| entry.seq);
        all
    }
}

type State = BTreeMap<Ino, Arc<Inode>>;

/// One more home.
pub struct Model {
    state: Mutex<(State, u64)>,
    file_size_max: u64,
}

impl Model {
    /// A home with only a root directory, which has these attributes.
    #[must_use]
    pub fn new(root: Attr) -> Self {
        let root = Attr { kind: Kind::Directory, nlink: 2, parent: Ino::ROOT, ..root };
        let state = BTreeMap::from([(Ino::ROOT, Arc::new(Inode::new(root)))]);
        Self { state: Mutex::new((state, Ino::ROOT.0)), file_size_max: FILE_SIZE_MAX }
    }

    /// The same with a limit on the size of a file, in bytes.
    #[must_use]
    pub fn with_file_size_max(self, file_size_max: u64) -> Self {
        Self { file_size_max, ..self }
    }

    /// Another model with all that is in this one.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self { state: Mutex::new(self.lock().clone()), file_size_max: self.file_size_max }
    }

    /// The largest inode number that was given out.
    #[must_use]
    pub fn last_ino(&self) -> Ino {
        Ino(self.lock().1)
    }

    fn lock(&self) -> MutexGuard<'_, (State, u64)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, ino: Ino, f: impl FnOnce(&Inode) -> R) -> Result<R> {
        self.lock().0.get(&ino).map(|inode| f(inode)).ok_or(Error::NotFound)
    }

    /// Everything that contradicts itself, in words: link counts against names, parents, kinds, and inodes that
    /// nothing leads to (`orphans` of them are still held by somebody).
    #[must_use]
    pub fn check(&self, orphans: usize) -> Vec<String> {
        let state = &self.lock().0;
        let mut findings = Vec::new();
        let mut links: BTreeMap<Ino, u32> = BTreeMap::new();
        for (&dir, inode) in state {
            for (name, entry) in &inode.names {
                let name = String::from_utf8_lossy(name);
                let Some(child) = state.get(&entry.ino) else {
                    findings.push(format!("{name} in {dir:?} leads to no inode: {entry:?}"));
                    continue;
                };
                if child.attr.kind != entry.kind {
                    findings.push(format!("{name} in {dir:?} says {:?}", entry.kind));
                }
                *links.entry(entry.ino).or_default() += 1;
                if entry.kind == Kind::Directory {
                    *links.entry(dir).or_default() += 1;
                    if child.attr.parent != dir {
                        findings
                            .push(format!("{name} in {dir:?} has {:?} above", child.attr.parent));
                    }
                }
            }
        }
        let mut without_names = 0;
        for (ino, inode) in state {
            let named = links.get(ino).copied().unwrap_or(0);
            let directory = inode.attr.kind == Kind::Directory;
            let expected = match (directory, inode.attr.nlink) {
                (true, 0) => 0,
                (true, _) if *ino == Ino::ROOT => named + 2,
                (true, _) => named + 1,
                (false, _) => named,
            };
            if inode.attr.nlink != expected {
                findings.push(format!("{ino:?} has nlink {}, not {expected}", inode.attr.nlink));
            }
            without_names += usize::from(named == 0 && *ino != Ino::ROOT);
        }
        if without_names != orphans {
            findings.push(format!("{without_names} inodes without names, not {orphans}"));
        }
        findings
    }
}

impl View for Model {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.with(ino, Inode::attr)
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        self.with(dir, |inode| inode.names.get(name.bytes()).copied())?.ok_or(Error::NotFound)
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        for (name, entry) in self.with(dir, Inode::listed)? {
            let attr = if attrs { self.attr(entry.ino).ok() } else { None };
            if entry.seq > after
                && each(Listed { name: Name::parse(&name)?, entry, attr }).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        self.with(ino, |inode| inode.content.read(at, target))
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        self.with(ino, |inode| inode.content.next_data(at))
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        let value = self.with(ino, |inode| inode.xattrs.get(name.bytes()).cloned())?;
        target.extend(value.ok_or(Error::NoData)?);
        Ok(())
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        let names: Vec<_> = self.with(ino, |inode| inode.xattrs.keys().cloned().collect())?;
        for name in names {
            if each(XattrName::parse(&name)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn space(&self) -> Space {
        let state = &self.lock().0;
        let used = state.values().map(|inode| inode.content.page_count() * PAGE).sum();
        Space { total: u64::MAX / 2, used, inodes: state.len() as u64 }
    }
}

impl Store for Model {
    fn next_ino(&self, _parent: Ino, _kind: Kind) -> Ino {
        let mut state = self.lock();
        state.1 += 1;
        Ino(state.1)
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        let mut state = self.lock();
        let mut next = state.0.clone();
        for change in batch.changes() {
            apply(&mut next, change, self.file_size_max)?;
        }
        state.0 = next;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

fn inode(state: &mut State, ino: Ino) -> Result<&mut Inode> {
    state.get_mut(&ino).map(Arc::make_mut).ok_or(Error::NotFound)
}

fn within(size_max: u64, at: u64, len: u64) -> Result<()> {
    match at.checked_add(len) {
        Some(end) if end <= size_max => Ok(()),
        _ => Err(Error::FileTooBig),
    }
}

fn apply(state: &mut State, change: &Change<'_>, size_max: u64) -> Result<()> {
    match *change {
        Change::Make { ino, attr } => {
            if state.insert(ino, Arc::new(Inode::new(attr))).is_some() {
                return Err(Error::Corrupt);
            }
        }
        Change::Set { ino, attr } => {
            let inode = inode(state, ino)?;
            inode.attr = Attr { kind: inode.attr.kind, ..attr };
        }
        Change::Drop { ino } => {
            state.remove(&ino).ok_or(Error::NotFound)?;
        }
        Change::Link { dir, name, ino, kind } => link(inode(state, dir)?, name, ino, kind),
        Change::Unlink { dir, name } => {
            inode(state, dir)?.names.remove(name.bytes()).ok_or(Error::NotFound)?;
        }
        Change::Write { ino, at, source } => {
            within(size_max, at, source.len() as u64)?;
            inode(state, ino)?.content.write(at, source);
        }
        Change::Cut { ino, len } => {
            within(size_max, 0, len)?;
            inode(state, ino)?.content.cut(len);
        }
        Change::Punch { ino, span } => inode(state, ino)?.content.punch(span),
        Change::Reserve { ino, span } => {
            within(size_max, span.start(), span.len())?;
            inode(state, ino)?;
        }
        Change::Share { source, from, ino, at, len } => {
            within(size_max, at, len)?;
            let bytes = inode(state, source)?.content.clone();
            inode(state, ino)?.content.share(&bytes, from, at, len);
        }
        Change::Xattr { ino, name, value } => {
            let inode = inode(state, ino)?;
            match value {
                Some(value) if value.len() > XATTR_VALUE_LEN_MAX => return Err(Error::TooBig),
                Some(value) => drop(inode.xattrs.insert(name.bytes().to_vec(), value.to_vec())),
                None => drop(inode.xattrs.remove(name.bytes()).ok_or(Error::NoData)?),
            }
        }
    }
    Ok(())
}

/// A replaced name keeps its place; a new one comes last.
fn link(dir: &mut Inode, name: Name<'_>, ino: Ino, kind: Kind) {
    let kept = dir.names.get(name.bytes()).map(|entry| entry.seq);
    let seq = kept.unwrap_or_else(|| {
        dir.last_seq += 1;
        Cursor(dir.last_seq)
    });
    dir.names.insert(name.bytes().to_vec(), Entry { ino, kind, seq });
}
