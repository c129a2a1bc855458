//! What changed between two moments of a volume, as paths.
//!
//! Above: verbs. Below: `differences`. Invariant: memory holds what changed and the directories on the way to it;
//! content counts as changed only where bytes are others, not where they lie elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use esker::{Ino, Kind};
use esker_stone::key::kind;
use esker_stone::rows::inodes::Inode;

use crate::device::Device;
use crate::differences::{Difference, Moment, Rows, differences};
use crate::error::{Damage, Error, Result};
use crate::limits::INLINE_LEN;
use crate::merge::Row;
use crate::moment::TRIES;
use crate::recent::END;
use crate::snapshots::SnapshotError;
use crate::stack::Stack;
use crate::volume::Volume;

/// Bytes that are compared at a time.
const CHUNK: usize = 1 << 20;

/// In which way something is not the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It is there no more.
    Removed,
    /// It was not there.
    Added,
    /// It was called so.
    Renamed(Vec<u8>),
    /// It is of another type.
    Type,
    /// It has other content.
    Content,
    /// It has other attributes: rights, owner, flags, extended attributes, and, unless it is a directory, when it was
    /// written.
    Attributes,
}

/// Something that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changed {
    /// From the root directory on; of what was removed, as it was.
    pub path: Vec<u8>,
    /// In which way.
    pub how: How,
}

/// What changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In the order of their paths.
    pub all: Vec<Changed>,
    /// Bytes of files that only the first moment has.
    pub before: u64,
    /// Bytes of files that only the second one has.
    pub after: u64,
}

/// Names: directory and name, and where they lead.
type Names = BTreeMap<(Ino, Vec<u8>), Ino>;
/// Inodes, and the names that lead to them.
type Links = BTreeMap<Ino, Vec<(Ino, Vec<u8>)>>;

/// What rows say.
#[derive(Default)]
struct Found {
    /// Inodes of which anything is not the same.
    inodes: BTreeSet<Ino>,
    /// Those whose content may not be.
    content: BTreeSet<Ino>,
    gone: Names,
    came: Names,
}

impl Found {
    fn add(&mut self, told: Difference) {
        let Difference { before, after } = told;
        for row in [&before, &after].into_iter().flatten() {
            match row {
                Row::Inode(row) => drop(self.inodes.insert(row.ino)),
                Row::Xattr(row) => drop(self.inodes.insert(row.ino)),
                Row::Extent(row) => {
                    self.inodes.insert(row.ino);
                    self.content.insert(row.ino);
                }
                _ => {}
            }
        }
        match (before, after) {
            (Some(Row::Name(old)), Some(Row::Name(new))) if old.ino == new.ino => {}
            (old, new) => {
                for (row, to) in [(old, &mut self.gone), (new, &mut self.came)] {
                    match row {
                        Some(Row::Name(row)) => drop(to.insert((row.dir, row.name), row.ino)),
                        Some(Row::Inode(row)) => drop(self.content.insert(row.ino)),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// All names of these inodes.
pub(crate) fn links<D: Device>(stack: &Stack<'_, D>, wanted: &BTreeSet<Ino>) -> Result<Links> {
    let mut found = Links::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    let mut rows = Rows::new(stack, kind::NAME..=kind::NAME, &BTreeSet::new());
    while let Some((_, row)) = rows.next()? {
        if let Row::Name(row) = row
            && wanted.contains(&row.ino)
        {
            found.entry(row.ino).or_default().push((row.dir, row.name));
        }
    }
    Ok(found)
}

/// Where directories are called what.
struct Paths(Links);

impl Paths {
    /// Of these directories.
    fn of<D: Device>(stack: &Stack<'_, D>, dirs: impl Iterator<Item = Ino>) -> Result<Self> {
        let mut wanted = BTreeSet::new();
        for dir in dirs {
            let mut at = dir;
            while at != Ino::ROOT && wanted.insert(at) {
                at = stack.inode(at)?.ok_or(Damage::Table)?.attr.parent;
            }
        }
        links(stack, &wanted).map(Self)
    }

    fn path(&self, dir: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let (mut parts, mut at) = (vec![name], dir);
        while at != Ino::ROOT {
            let above = self.0.get(&at).and_then(|own| own.first()).ok_or(Damage::Table)?;
            parts.push(&above.1);
            if parts.len() > self.0.len() + 1 {
                return Err(Damage::Table.into());
            }
            at = above.0;
        }
        Ok(parts.iter().rev().fold(Vec::new(), |path, part| [&path, &b"/"[..], part].concat()))
    }
}

/// Bytes of a file that lie in blocks, or in its inode.
fn bytes_of<D: Device>(stack: &Stack<'_, D>, row: &Inode) -> Result<u64> {
    let (mut at, mut sum) = (0, row.inline.len() as u64);
    while at < END && row.inline.is_empty() {
        let run = stack.run(row.ino, at)?;
        sum += if run.place.is_some() { run.len } else { 0 };
        at = run.end();
    }
    Ok(sum)
}

/// Two moments.
struct Both<'a, D> {
    one: &'a Stack<'a, D>,
    other: &'a Stack<'a, D>,
}

impl<D: Device> Both<'_, D> {
    /// Whether two files have the same bytes between two places.
    fn same_bytes(&self, (old, new): (Ino, Ino), (from, to): (u64, u64)) -> Result<bool> {
        let read = |stack: &Stack<'_, D>, ino, at, target: &mut [u8]| {
            stack.read(ino, at, target).map_err(Error::Source)
        };
        let (mut one, mut other) = (vec![0; CHUNK], vec![0; CHUNK]);
        let mut at = from;
        while at < to {
            let len = usize::try_from(to - at).unwrap_or(CHUNK).min(CHUNK);
            let count = read(self.one, old, at, &mut one[..len])?;
            let same = read(self.other, new, at, &mut other[..len])? == count;
            if !same || one[..count] != other[..count] {
                return Ok(false);
            }
            if count == 0 {
                break;
            }
            at += count as u64;
        }
        Ok(true)
    }

    /// Whether two files have the same content; bytes that only each has.
    fn content(&self, old: &Inode, new: &Inode) -> Result<(bool, u64, u64)> {
        let (one, other) = (self.one, self.other);
        let mut same = old.attr.size == new.attr.size;
        if !old.inline.is_empty() || !new.inline.is_empty() || old.attr.size <= INLINE_LEN {
            let whole = (0, old.attr.size);
            same = same && self.same_bytes((old.ino, new.ino), whole)?;
            let bytes = if same { (0, 0) } else { (bytes_of(one, old)?, bytes_of(other, new)?) };
            return Ok((same, bytes.0, bytes.1));
        }
        let (mut at, mut before, mut after) = (0, 0, 0);
        while at < END {
            let (was, is) = (one.run(old.ino, at)?, other.run(new.ino, at)?);
            let end = was.end().min(is.end());
            if was.place != is.place {
                before += if was.place.is_some() { end - at } else { 0 };
                after += if is.place.is_some() { end - at } else { 0 };
                same = same && self.same_bytes((old.ino, new.ino), (at, end))?;
            }
            at = end;
        }
        Ok((same, before, after))
    }

    fn xattrs(stack: &Stack<'_, D>, ino: Ino) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (mut all, mut from) = (Vec::new(), Vec::new());
        while let Some((name, value)) = stack.xattr_from(ino, &from)? {
            from = [name.as_slice(), &[0]].concat();
            all.push((name, value));
        }
        Ok(all)
    }

    /// How two inodes differ, if they do.
    fn compare(&self, old: Ino, new: Ino) -> Result<Option<How>> {
        let (Some(was), Some(is)) = (self.one.inode(old)?, self.other.inode(new)?) else {
            return Err(Damage::Table.into());
        };
        let (one, other) = (&was.attr, &is.attr);
        if one.kind != other.kind {
            return Ok(Some(How::Type));
        }
        let same = match one.kind {
            Kind::File | Kind::Symlink => self.content(&was, &is)?.0,
            Kind::CharDevice | Kind::BlockDevice => one.rdev == other.rdev,
            _ => true,
        };
        if !same {
            return Ok(Some(How::Content));
        }
        let rights = (one.perm, one.uid, one.gid, one.flags);
        let same = rights == (other.perm, other.uid, other.gid, other.flags)
            && (one.kind == Kind::Directory || one.mtime == other.mtime)
            && Self::xattrs(self.one, old)? == Self::xattrs(self.other, new)?;
        Ok((!same).then_some(How::Attributes))
    }

    /// Bytes of content that only each has.
    fn bytes(&self, found: &Found) -> Result<(u64, u64)> {
        let (mut before, mut after) = (0u64, 0u64);
        let file = |row: &Inode| matches!(row.attr.kind, Kind::File | Kind::Symlink);
        for &ino in &found.content {
            let (old, new) = (self.one.inode(ino)?, self.other.inode(ino)?);
            let (old, new) = match (old.filter(file), new.filter(file)) {
                (Some(old), Some(new)) => {
                    let (_, old, new) = self.content(&old, &new)?;
                    (old, new)
                }
                (Some(old), None) => (bytes_of(self.one, &old)?, 0),
                (None, Some(new)) => (0, bytes_of(self.other, &new)?),
                (None, None) => (0, 0),
            };
            (before, after) = (before.saturating_add(old), after.saturating_add(new));
        }
        Ok((before, after))
    }

    /// Names that lead to something else, as paths.
    fn names(&self, found: &Found, to: &mut Vec<Changed>) -> Result<()> {
        let old = Paths::of(self.one, found.gone.keys().map(|(dir, _)| *dir))?;
        let new = Paths::of(self.other, found.came.keys().map(|(dir, _)| *dir))?;
        let by_ino = |names: &Names| {
            let mut all: Links = Links::new();
            names.iter().for_each(|(key, &ino)| all.entry(ino).or_default().push(key.clone()));
            all
        };
        let (mut gone, came) = (by_ino(&found.gone), by_ino(&found.came));
        let mut left = Names::new();
        for (ino, names) in came {
            let mut before = gone.remove(&ino).unwrap_or_default().into_iter();
            for key in names {
                match before.next() {
                    Some((dir, name)) => {
                        let how = How::Renamed(old.path(dir, &name)?);
                        to.push(Changed { path: new.path(key.0, &key.1)?, how });
                    }
                    None => drop(left.insert(key, ino)),
                }
            }
            gone.entry(ino).or_default().extend(before);
        }
        for (ino, names) in gone {
            for (dir, name) in names {
                let path = old.path(dir, &name)?;
                match left.remove(&(dir, name)) {
                    // Another one took its place.
                    Some(is) => {
                        let how = self.compare(ino, is)?;
                        to.extend(how.map(|how| Changed { path, how }));
                    }
                    None => to.push(Changed { path, how: How::Removed }),
                }
            }
        }
        for (dir, name) in left.into_keys() {
            to.push(Changed { path: new.path(dir, &name)?, how: How::Added });
        }
        Ok(())
    }

    /// Inodes that both have and that are not the same, by all their paths.
    fn inodes(&self, found: &Found, to: &mut Vec<Changed>) -> Result<()> {
        let mut changed = BTreeMap::new();
        for &ino in &found.inodes {
            let both = self.one.inode(ino)?.is_some() && self.other.inode(ino)?.is_some();
            let how = if both { self.compare(ino, ino)? } else { None };
            changed.extend(how.map(|how| (ino, how)));
        }
        if let Some(how) = changed.remove(&Ino::ROOT) {
            to.push(Changed { path: b"/".to_vec(), how });
        }
        let names = links(self.other, &changed.keys().copied().collect())?;
        let dirs = names.values().flatten().map(|(dir, _)| *dir);
        let paths = Paths::of(self.other, dirs)?;
        for (ino, how) in changed {
            for (dir, name) in names.get(&ino).into_iter().flatten() {
                to.push(Changed { path: paths.path(*dir, name)?, how: how.clone() });
            }
        }
        Ok(())
    }

    fn changes(&self) -> Result<Changes> {
        let mut found = Found::default();
        differences(self.one, self.other, &mut |told| {
            found.add(told);
            Ok(())
        })?;
        let (before, after) = self.bytes(&found)?;
        let mut all = Vec::new();
        self.names(&found, &mut all)?;
        self.inodes(&found, &mut all)?;
        all.sort();
        Ok(Changes { all, before, after })
    }
}

impl<D: Device> Volume<D> {
    /// What changed from a snapshot until another one, or until now, and how many bytes become free when the first is
    /// deleted; while others write.
    ///
    /// # Errors
    /// `Missing`; `NoRoom` when others wrote where that was looked for; what looking meets.
    pub fn changes_meanwhile(
        &self,
        from: &str,
        to: Option<&str>,
    ) -> std::result::Result<(Changes, u64), SnapshotError> {
        for _ in 0..TRIES {
            let moment = self.moment(&|_| true, false);
            let found = moment.view.changes_since(from, to);
            if moment.is_kept() {
                return found;
            }
        }
        Err(SnapshotError::NoRoom)
    }

    /// The same. Nothing is committed meanwhile.
    ///
    /// # Errors
    /// `Missing`; what looking meets.
    pub fn changes_since(
        &self,
        from: &str,
        to: Option<&str>,
    ) -> std::result::Result<(Changes, u64), SnapshotError> {
        let own = self.snapshot(from)?;
        let moments = (Moment::Snapshot(from), to.map_or(Moment::Now, Moment::Snapshot));
        let changes = self.changes(moments)?;
        let held = self.held_by_snapshots()?;
        let held = held.iter().find(|(row, _)| row.name == own.name);
        Ok((changes, held.map_or(0, |(_, held)| held.blocks + held.tables)))
    }

    /// What changed from the first moment to the second. Nothing is committed meanwhile.
    ///
    /// # Errors
    /// `Missing`; what looking meets.
    pub fn changes(
        &self,
        moments: (Moment<'_>, Moment<'_>),
    ) -> std::result::Result<Changes, SnapshotError> {
        self.with_both(moments, |one, other| Both { one, other }.changes())
    }
}
