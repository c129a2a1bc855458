//! A file system to race in, and the judgement afterwards.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use esker::ground::Heap;
use esker::memory::{Home, Options};
use esker::posix::{Caller, Fs, New, Node, RenameFlags};
use esker::{Attr, Cursor, Ino, Kind, Name, Result, Time};

/// A file system in memory that knows what its racers hold.
pub struct Tree {
    pub fs: Fs<Home<Heap>>,
    // Of the standard library: no schedule shall turn on them.
    held: Mutex<Vec<Ino>>,
}

pub fn name(name: &str) -> Name<'_> {
    Name::parse(name.as_bytes()).expect("a name")
}

fn new(kind: Kind) -> New {
    New { kind, perm: 0o755, umask: 0, rdev: 0 }
}

impl Tree {
    pub fn new() -> Self {
        Self::of_size(1 << 24)
    }

    pub fn of_size(size_max: u64) -> Self {
        let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, Time::default());
        let options = Options { size_max, file_size_max: 1 << 40, root };
        let home = Home::new(Heap::new(), &options).expect("a home");
        let ticks = AtomicI64::new(1);
        let clock = move || Time { secs: ticks.fetch_add(1, Ordering::Relaxed), nanos: 0 };
        Self { fs: Fs::new(home, clock), held: Mutex::default() }
    }

    /// The racer keeps what it was given until the end.
    pub fn keep(&self, node: Node) -> Ino {
        self.held.lock().expect("nobody panics").push(node.ino);
        node.ino
    }

    /// What was kept from before goes now.
    pub fn let_go(&self, ino: Ino) {
        let mut held = self.held.lock().expect("nobody panics");
        let index = held.iter().position(|&held| held == ino).expect("it is kept");
        held.swap_remove(index);
        drop(held);
        self.fs.forget(ino, 1);
    }

    pub fn make(&self, dir: Ino, at: &str, kind: Kind) -> Result<Ino> {
        self.fs.create(&Caller::ROOT, dir, name(at), new(kind)).map(|node| self.keep(node))
    }

    pub fn mkdir(&self, dir: Ino, at: &str) -> Ino {
        self.make(dir, at, Kind::Directory).expect("a directory")
    }

    pub fn file(&self, dir: Ino, at: &str) -> Ino {
        self.make(dir, at, Kind::File).expect("a file")
    }

    pub fn tmpfile(&self, dir: Ino) -> Ino {
        self.keep(self.fs.tmpfile(&Caller::ROOT, dir, new(Kind::File)).expect("a file"))
    }

    pub fn find(&self, dir: Ino, at: &str) -> Result<Ino> {
        self.fs.lookup(&Caller::ROOT, dir, name(at)).map(|node| self.keep(node))
    }

    pub fn link(&self, ino: Ino, dir: Ino, at: &str) -> Result<()> {
        self.fs.link(&Caller::ROOT, ino, dir, name(at)).map(|node| {
            self.keep(node);
        })
    }

    pub fn unlink(&self, dir: Ino, at: &str) -> Result<()> {
        self.fs.unlink(&Caller::ROOT, dir, name(at))
    }

    pub fn rmdir(&self, dir: Ino, at: &str) -> Result<()> {
        self.fs.rmdir(&Caller::ROOT, dir, name(at))
    }

    pub fn rename(&self, from: (Ino, &str), to: (Ino, &str)) -> Result<()> {
        let flags = RenameFlags::default();
        self.fs.rename(&Caller::ROOT, from.0, name(from.1), to.0, name(to.1), flags)
    }

    pub fn exchange(&self, from: (Ino, &str), to: (Ino, &str)) -> Result<()> {
        let flags = RenameFlags { exchange: true, ..RenameFlags::default() };
        self.fs.rename(&Caller::ROOT, from.0, name(from.1), to.0, name(to.1), flags)
    }

    pub fn write(&self, ino: Ino, at: u64, bytes: &[u8]) -> Result<()> {
        self.fs.write(ino, at, bytes, false).map(|len| assert_eq!(len, bytes.len()))
    }

    pub fn read(&self, ino: Ino) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 14];
        let len = self.fs.read(ino, 0, &mut bytes).expect("it can be read");
        bytes.truncate(len);
        bytes
    }

    /// Names and inodes of a directory without `.` and `..`, each held with `attrs`.
    pub fn list(&self, dir: Ino, attrs: bool) -> Result<Vec<(String, Ino)>> {
        let mut found = Vec::new();
        self.fs.readdir(&Caller::ROOT, dir, Cursor::DOT_DOT, attrs, &mut |entry| {
            found.push((String::from_utf8_lossy(entry.name).into_owned(), entry.ino));
            if attrs {
                self.held.lock().expect("nobody panics").push(entry.ino);
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// The race is over and everybody lets go of what is kept: the home is sound, everything in it hangs on
    /// the root, and when all names are gone nothing is left. So no link and no hold was counted wrong.
    pub fn end(self) {
        for ino in self.held.lock().expect("nobody panics").drain(..) {
            let attr = self.fs.getattr(ino);
            assert!(attr.is_ok(), "{ino:?} is held and gone: {attr:?}");
            self.fs.forget(ino, 1);
        }
        assert_eq!(self.fs.store().check(), []);
        assert!(!self.fs.has_orphans(), "an orphan that nobody holds");
        let names = self.survey();
        for (dir, name, kind) in names.iter().rev() {
            let removed = match kind {
                Kind::Directory => self.rmdir(*dir, name),
                _ => self.unlink(*dir, name),
            };
            assert_eq!(removed, Ok(()), "{name} in {dir:?}");
        }
        assert_eq!(self.fs.statfs().inodes, 1, "held by nobody, and still there");
        assert_eq!(self.fs.store().check(), []);
    }

    /// Every name from the root down, directories before what is in them.
    fn survey(&self) -> Vec<(Ino, String, Kind)> {
        let mut names = Vec::new();
        let mut links = BTreeMap::from([(Ino::ROOT, 0)]);
        let mut todo = vec![(Ino::ROOT, Ino::ROOT)];
        while let Some((dir, parent)) = todo.pop() {
            assert_eq!(self.fs.getattr(dir).expect("a directory").parent, parent);
            for (name, ino) in self.list(dir, false).expect("a listing") {
                let kind = self.fs.getattr(ino).expect("an inode").kind;
                let known = links.insert(ino, links.get(&ino).map_or(1, |links| links + 1));
                names.push((dir, name, kind));
                if kind == Kind::Directory {
                    assert!(known.is_none(), "{ino:?} has two names, or lies in itself");
                    todo.push((ino, dir));
                }
            }
        }
        let inodes = self.fs.statfs().inodes;
        assert_eq!(inodes, links.len() as u64, "what no name leads to: a loop, or held by nobody");
        names
    }
}
