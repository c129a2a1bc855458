//! Files as plain vectors and maps, and the words in which they change.

use std::collections::BTreeMap;
use std::rc::Rc;

use esker::ground::Memory;
use esker::limits::XATTR_VALUE_LEN_MAX;
use esker::memory::{Home, Options};
use esker::store::{Batch, Change, Flow, Store, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Span, Time, XattrName};

/// A change that owns its bytes.
#[derive(Clone)]
pub enum Word {
    Make(Ino, Attr),
    Set(Ino, Attr),
    Drop(Ino),
    Link(Ino, String, Ino, Kind),
    Unlink(Ino, String),
    Write(Ino, u64, Vec<u8>),
    Cut(Ino, u64),
    Punch(Ino, u64, u64),
    Reserve(Ino, u64, u64),
    Share(Ino, u64, Ino, u64, u64),
    Xattr(Ino, String, Option<Vec<u8>>),
}

impl Word {
    pub fn change(&self) -> Change<'_> {
        let span = |start, end| Span::new(start, end).unwrap();
        match *self {
            Self::Make(ino, attr) => Change::Make { ino, attr },
            Self::Set(ino, attr) => Change::Set { ino, attr },
            Self::Drop(ino) => Change::Drop { ino },
            Self::Link(dir, ref name, ino, kind) => {
                Change::Link { dir, name: Name::parse(name.as_bytes()).unwrap(), ino, kind }
            }
            Self::Unlink(dir, ref name) => {
                Change::Unlink { dir, name: Name::parse(name.as_bytes()).unwrap() }
            }
            Self::Write(ino, at, ref source) => Change::Write { ino, at, source },
            Self::Cut(ino, len) => Change::Cut { ino, len },
            Self::Punch(ino, start, end) => Change::Punch { ino, span: span(start, end) },
            Self::Reserve(ino, start, end) => Change::Reserve { ino, span: span(start, end) },
            Self::Share(source, from, ino, at, len) => Change::Share { source, from, ino, at, len },
            Self::Xattr(ino, ref name, ref value) => Change::Xattr {
                ino,
                name: XattrName::parse(name.as_bytes()).unwrap(),
                value: value.as_deref(),
            },
        }
    }
}

/// As in code, but long bytes as their number.
impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Write(ino, at, source) => write!(f, "Write({}, {at}, [{}])", ino.0, source.len()),
            Self::Xattr(ino, name, value) => {
                write!(f, "Xattr({}, {name}, {:?})", ino.0, value.as_ref().map(Vec::len))
            }
            Self::Make(ino, attr) => write!(f, "Make({}, {:?})", ino.0, attr.kind),
            Self::Set(ino, attr) => write!(f, "Set({}, nlink {})", ino.0, attr.nlink),
            Self::Link(dir, name, ino, _) => write!(f, "Link({}, {:.6}, {})", dir.0, name, ino.0),
            Self::Unlink(dir, name) => write!(f, "Unlink({}, {name:.6})", dir.0),
            _ => write!(f, "{:?}", self.change()),
        }
    }
}

/// Commits the words as one batch.
pub fn commit<S: Store>(home: &S, words: &[Word]) -> Result<()> {
    let mut batch = Batch::new();
    words.iter().for_each(|word| batch.push(word.change()));
    home.commit(&batch)
}

/// An inode of the model.
#[derive(Clone, Debug)]
pub struct Inode {
    pub attr: Attr,
    pub bytes: Vec<u8>,
    pub entries: BTreeMap<u64, (String, Ino, Kind)>,
    pub xattrs: BTreeMap<String, Vec<u8>>,
    pub next_seq: u64,
}

/// All inodes.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub inodes: BTreeMap<Ino, Rc<Inode>>,
}

impl Model {
    pub fn new(root: Attr) -> Self {
        let mut model = Self::default();
        model.make(Ino::ROOT, root);
        model
    }

    fn make(&mut self, ino: Ino, attr: Attr) {
        let inode = Inode {
            attr,
            bytes: Vec::new(),
            entries: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            next_seq: Cursor::FIRST.0,
        };
        self.inodes.insert(ino, Rc::new(inode));
    }

    fn at(&mut self, ino: Ino) -> Result<&mut Inode> {
        self.inodes.get_mut(&ino).map(Rc::make_mut).ok_or(Error::NotFound)
    }

    fn bytes(&mut self, ino: Ino) -> Result<&mut Vec<u8>> {
        let inode = self.at(ino)?;
        match inode.attr.kind {
            Kind::File | Kind::Symlink => Ok(&mut inode.bytes),
            _ => Err(Error::Invalid),
        }
    }

    fn find(&mut self, dir: Ino, name: &str) -> Result<Option<u64>> {
        let inode = self.at(dir)?;
        if inode.attr.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        Ok(inode.entries.iter().find(|(_, entry)| entry.0 == name).map(|(&seq, _)| seq))
    }

    /// All words or, on an error, none.
    pub fn apply(&mut self, words: &[Word]) -> Result<()> {
        let mut next = self.clone();
        words.iter().try_for_each(|word| next.apply_word(word))?;
        *self = next;
        Ok(())
    }

    fn apply_word(&mut self, word: &Word) -> Result<()> {
        match word {
            &Word::Make(ino, attr) => self.make(ino, attr),
            &Word::Set(ino, attr) => self.at(ino)?.attr = attr,
            Word::Drop(ino) => drop(self.inodes.remove(ino).ok_or(Error::NotFound)?),
            &Word::Link(dir, ref name, ino, kind) => {
                let seq = self.find(dir, name)?;
                let inode = self.at(dir)?;
                inode.next_seq += u64::from(seq.is_none());
                let seq = seq.unwrap_or(inode.next_seq - 1);
                inode.entries.insert(seq, (name.clone(), ino, kind));
            }
            Word::Unlink(dir, name) => {
                let seq = self.find(*dir, name)?.ok_or(Error::NotFound)?;
                self.at(*dir)?.entries.remove(&seq);
            }
            &Word::Write(ino, at, ref source) => put(self.bytes(ino)?, at, source),
            &Word::Cut(ino, len) => self.bytes(ino)?.resize(len as usize, 0),
            &Word::Punch(ino, start, end) => {
                let bytes = self.bytes(ino)?;
                let len = bytes.len();
                bytes[len.min(start as usize)..len.min(end as usize)].fill(0);
            }
            &Word::Reserve(ino, ..) => drop(self.bytes(ino)?),
            &Word::Share(source, from, ino, at, len) => {
                let bytes = self.bytes(source)?;
                let part = bytes.get(from as usize..(from + len) as usize);
                let part = part.ok_or(Error::Invalid)?.to_vec();
                put(self.bytes(ino)?, at, &part);
            }
            Word::Xattr(ino, name, value) => {
                let xattrs = &mut self.at(*ino)?.xattrs;
                match value {
                    Some(value) if value.len() > XATTR_VALUE_LEN_MAX => return Err(Error::TooBig),
                    Some(value) => drop(xattrs.insert(name.clone(), value.clone())),
                    None => drop(xattrs.remove(name).ok_or(Error::NoData)?),
                }
            }
        }
        Ok(())
    }
}

fn put(bytes: &mut Vec<u8>, at: u64, source: &[u8]) {
    if !source.is_empty() {
        let end = at as usize + source.len();
        bytes.resize(bytes.len().max(end), 0);
        bytes[at as usize..end].copy_from_slice(source);
    }
}

/// Attributes with `seed` in all their fields.
pub fn attr(kind: Kind, parent: Ino, seed: u64) -> Attr {
    let time =
        |by: u64| Time { secs: (seed + by) as i64 - 500, nanos: (seed % 999_999_937) as u32 };
    let device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
    Attr {
        perm: (seed % 0o10000) as u16,
        rdev: if device { seed as u32 } else { 0 },
        atime: time(1),
        mtime: time(2),
        ctime: time(3),
        btime: time(4),
        ..Attr::new(kind, 0, seed as u32 ^ 1, seed as u32 ^ 2, parent, Time::default())
    }
}

/// How homes of tests are.
pub fn options(size_max: u64) -> Options {
    let root = attr(Kind::Directory, Ino::ROOT, 1);
    Options { size_max, file_size_max: u64::MAX, root }
}

/// A home and its model.
pub fn start<M: Memory>(memory: M, size_max: u64) -> (Home<M>, Model) {
    let options = options(size_max);
    (Home::new(memory, &options).unwrap(), Model::new(options.root))
}

/// All bytes of a file.
pub fn read_all<V: View>(home: &V, ino: Ino) -> Vec<u8> {
    let size = home.attr(ino).unwrap().size as usize;
    let mut bytes = vec![0xaa; size + 3];
    assert_eq!(home.read(ino, 0, &mut bytes), Ok(size));
    assert_eq!(bytes[size..], [0xaa; 3]);
    bytes.truncate(size);
    bytes
}

/// The inode is the same in the home and in the model.
pub fn assert_same<V: View>(home: &V, model: &Model, ino: Ino) {
    let Some(inode) = model.inodes.get(&ino) else {
        assert_eq!(home.attr(ino), Err(Error::NotFound));
        return;
    };
    let content = matches!(inode.attr.kind, Kind::File | Kind::Symlink);
    let size = if content { inode.bytes.len() } else { inode.entries.len() } as u64;
    let found = home.attr(ino).unwrap();
    assert_eq!(found, Attr { size, blocks: found.blocks, ..inode.attr }, "{ino:?}");
    if content {
        let found = read_all(home, ino);
        let differ = found.iter().zip(&inode.bytes).position(|(found, expected)| found != expected);
        assert_eq!(differ, None, "bytes of {ino:?} differ from there on");
        assert_holes(home, ino, inode);
    }
    if inode.attr.kind == Kind::Directory {
        assert_listing(home, ino, inode);
    }
    let mut names = Vec::new();
    home.xattrs(ino, &mut |name| {
        names.push(String::from_utf8(name.bytes().to_vec()).unwrap());
        Flow::Continue(())
    })
    .unwrap();
    assert!(names.iter().eq(inode.xattrs.keys()), "{names:?}");
    for (name, value) in &inode.xattrs {
        let mut found = Vec::new();
        home.xattr(ino, XattrName::parse(name.as_bytes()).unwrap(), &mut found).unwrap();
        assert!(found == *value, "value of {name}");
    }
}

/// Runs of data are in order, within the file, and all that is not zero lies in them.
fn assert_holes<V: View>(home: &V, ino: Ino, inode: &Inode) {
    let (mut at, mut data) = (0, 0);
    while let Some(span) = home.next_data(ino, at).unwrap() {
        assert!(span.start() >= at && !span.is_empty(), "{span:?} from {at}");
        let hole = &inode.bytes[at as usize..span.start() as usize];
        assert!(hole.iter().all(|&byte| byte == 0), "data in a hole of {ino:?}");
        let middle = span.start() + span.len() / 2;
        let again = home.next_data(ino, middle).unwrap().unwrap();
        assert_eq!((again.start(), again.end()), (middle, span.end()));
        (at, data) = (span.end(), data + span.len());
    }
    assert!(inode.bytes[at as usize..].iter().all(|&byte| byte == 0));
    assert!(home.attr(ino).unwrap().blocks >= data / 512);
}

fn assert_listing<V: View>(home: &V, dir: Ino, inode: &Inode) {
    for attrs in [false, true] {
        let mut expected = inode.entries.iter();
        home.entries(dir, Cursor::DOT_DOT, attrs, &mut |listed| {
            let (&seq, (name, ino, kind)) = expected.next().expect("more entries than expected");
            assert_eq!(listed.name.bytes(), name.as_bytes());
            let entry = (listed.entry.seq.0, listed.entry.ino, listed.entry.kind);
            assert_eq!(entry, (seq, *ino, *kind));
            assert_eq!(listed.attr.is_some(), attrs);
            assert_eq!(home.entry(dir, listed.name), Ok(listed.entry));
            Flow::Continue(())
        })
        .unwrap();
        assert_eq!(expected.next(), None, "fewer entries than expected");
    }
}
