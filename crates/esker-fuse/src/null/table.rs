//! Names of the do-nothing server: one row each.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use esker::posix::{Dirent, New, Node};
use esker::store::Flow;
use esker::{Attr, Cursor, Error, Ino, Kind, Result, Time};

const ROOT: u32 = 0;
/// In a directory's list: an entry that was removed.
const GONE: u32 = u32::MAX;
/// Entries of a directory are numbered from here; `.` and `..` come before.
const FIRST: u64 = Cursor::FIRST.0;

struct Row {
    name: Box<[u8]>,
    size: u64,
    owner: (u32, u32),
    kind: Kind,
    perm: u16,
    dir: u32,
    /// Where in the directory's list.
    place: u32,
    /// Look-ups that the kernel counts. A row without name is used anew when it counts none.
    held: u32,
    generation: u32,
    named: bool,
}

/// Rows by inode number, and row numbers by the hash of directory and name. Two names with the same
/// 64-bit hash would be one file, which a bench can live with.
pub(super) struct Table {
    rows: Vec<Row>,
    names: HashMap<u64, u32, BuildHasherDefault<Same>>,
    lists: HashMap<u32, List, BuildHasherDefault<Same>>,
    free: Vec<u32>,
}

#[derive(Default)]
struct List {
    rows: Vec<u32>,
    live: usize,
}

impl Table {
    pub(super) fn new() -> Self {
        let root = Row {
            name: Box::default(),
            size: 0,
            owner: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
            kind: Kind::Directory,
            perm: 0o755,
            dir: ROOT,
            place: 0,
            held: 1,
            generation: 0,
            named: true,
        };
        let (names, lists) = (HashMap::default(), HashMap::default());
        Self { rows: vec![root], names, lists, free: Vec::new() }
    }

    pub(super) fn count(&self) -> u64 {
        self.names.len() as u64 + 1
    }

    fn index(&self, ino: Ino) -> Result<u32> {
        let index = u32::try_from(ino.0.wrapping_sub(1)).map_err(|_| Error::Stale)?;
        if (index as usize) < self.rows.len() { Ok(index) } else { Err(Error::Stale) }
    }

    pub(super) fn attr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.rows[self.index(ino)? as usize].attr())
    }

    pub(super) fn set(&mut self, ino: Ino, perm: Option<u16>, size: Option<u64>) -> Result<Attr> {
        let index = self.index(ino)?;
        let row = &mut self.rows[index as usize];
        row.perm = perm.unwrap_or(row.perm);
        row.size = size.unwrap_or(row.size);
        Ok(row.attr())
    }

    pub(super) fn grow(&mut self, ino: Ino, end: u64) -> Result<()> {
        let index = self.index(ino)?;
        let row = &mut self.rows[index as usize];
        row.size = row.size.max(end);
        Ok(())
    }

    fn node(&mut self, index: u32) -> (Node, u32) {
        let row = &mut self.rows[index as usize];
        row.held = row.held.saturating_add(1);
        (Node { ino: Ino(u64::from(index) + 1), attr: row.attr() }, row.generation)
    }

    pub(super) fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<(Node, u32)> {
        let dir = self.index(dir)?;
        let index = match name {
            b"." => dir,
            b".." => self.rows[dir as usize].dir,
            name => *self.names.get(&hash(dir, name)).ok_or(Error::NotFound)?,
        };
        Ok(self.node(index))
    }

    pub(super) fn make(
        &mut self,
        dir: Ino,
        name: &[u8],
        new: New,
        owner: (u32, u32),
    ) -> Result<(Node, u32)> {
        let dir = self.index(dir)?;
        let key = hash(dir, name);
        if self.names.contains_key(&key) {
            return Err(Error::Exists);
        }
        let list = self.lists.entry(dir).or_default();
        let place = list.rows.len() as u32;
        let mut row = Row {
            name: name.into(),
            size: 0,
            owner,
            kind: new.kind,
            perm: new.perm & !new.umask,
            dir,
            place,
            held: 0,
            generation: 0,
            named: true,
        };
        let index = if let Some(index) = self.free.pop() {
            row.generation = self.rows[index as usize].generation + 1;
            self.rows[index as usize] = row;
            index
        } else {
            self.rows.push(row);
            u32::try_from(self.rows.len() - 1).map_err(|_| Error::NoSpace)?
        };
        list.rows.push(index);
        list.live += 1;
        self.names.insert(key, index);
        Ok(self.node(index))
    }

    pub(super) fn remove(&mut self, dir: Ino, name: &[u8], fits: fn(Kind) -> bool) -> Result<()> {
        let dir = self.index(dir)?;
        let key = hash(dir, name);
        let index = *self.names.get(&key).ok_or(Error::NotFound)?;
        let row = &mut self.rows[index as usize];
        if !fits(row.kind) {
            let directory = row.kind == Kind::Directory;
            return Err(if directory { Error::IsDirectory } else { Error::NotDirectory });
        }
        if self.lists.get(&index).is_some_and(|list| list.live > 0) {
            return Err(Error::NotEmpty);
        }
        row.named = false;
        let (place, held) = (row.place as usize, row.held);
        self.names.remove(&key);
        self.lists.remove(&index);
        if let Some(list) = self.lists.get_mut(&dir) {
            list.rows[place] = GONE;
            list.live -= 1;
            if list.live == 0 {
                list.rows.clear();
            }
        }
        if held == 0 {
            self.free.push(index);
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, ino: Ino, count: u64) {
        let Ok(index) = self.index(ino) else { return };
        let row = &mut self.rows[index as usize];
        let before = row.held;
        row.held = u32::try_from(u64::from(before).saturating_sub(count)).unwrap_or(0);
        if before > 0 && row.held == 0 && !row.named {
            row.name = Box::default();
            self.free.push(index);
        }
    }

    /// Tells the entries behind `after`, and counts a look-up of each whose attributes are taken.
    pub(super) fn list(
        &mut self,
        dir: Ino,
        after: Cursor,
        plus: bool,
        mut each: impl FnMut(&Dirent<'_>, u32) -> Flow,
    ) -> Result<()> {
        let index = self.index(dir)?;
        let above = Ino(u64::from(self.rows[index as usize].dir) + 1);
        for (cursor, name, ino) in [(Cursor::DOT, &b"."[..], dir), (Cursor::DOT_DOT, b"..", above)]
        {
            let dot = Dirent { name, ino, kind: Kind::Directory, cursor, attr: None };
            if after < cursor && each(&dot, 0).is_break() {
                return Ok(());
            }
        }
        let Some(list) = self.lists.get(&index) else { return Ok(()) };
        // The cursor of an entry is FIRST and its place: the next place is one less than that away.
        let from = (after.max(Cursor::DOT_DOT).0 + 1 - FIRST) as usize;
        for (place, &index) in list.rows.iter().enumerate().skip(from) {
            let Some(row) = self.rows.get_mut(index as usize) else { continue };
            let attr = plus.then(|| row.attr());
            let (ino, cursor) = (Ino(u64::from(index) + 1), Cursor(FIRST + place as u64));
            let dirent = Dirent { name: &row.name, ino, kind: row.kind, cursor, attr };
            if each(&dirent, row.generation).is_break() {
                break;
            }
            row.held += u32::from(plus);
        }
        Ok(())
    }
}

impl Row {
    const fn attr(&self) -> Attr {
        let mut attr = Attr::new(self.kind, self.perm, self.owner.0, self.owner.1, Ino(1), EPOCH);
        attr.size = self.size;
        attr.blocks = self.size.div_ceil(512);
        attr
    }
}

const EPOCH: Time = Time { secs: 1_000_000_000, nanos: 0 };

/// FNV-1a over eight bytes at a time, of directory and name.
fn hash(dir: u32, name: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mix = |sum: u64, word: u64| {
        let mixed = (sum ^ word).wrapping_mul(PRIME);
        mixed ^ (mixed >> 29)
    };
    let start = mix(0xcbf2_9ce4_8422_2325, u64::from(dir) << 8 | name.len() as u64);
    name.chunks(8).fold(start, |sum, chunk| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        mix(sum, u64::from_le_bytes(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// Keys are hashes already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }
    fn write_u32(&mut self, key: u32) {
        self.0 = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
