//! What a canister kept with the crate stable-fs, copied into a memory of ours: names, content, links and times. Holes
//! stay holes. A file that is mounted has the content of its memory.
//!
//! Above: a canister, once, in its first `post_upgrade` with us. Below: that crate reads its own format, versions 1 and
//! 2. Invariant: what is copied from stays as it is.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use esker::ground::Memory;
use esker::{Error, Time};
use stable_fs::fs::{DstBuf, FdStat, FileSystem, OpenFlags};
use stable_fs::storage::types::{FileType, MAX_FILE_SIZE, Metadata, Node};

use crate::files::Files;
use crate::handle::{Fd, Open};

/// Bytes copied at once.
const COPY_LEN: usize = 256 << 10;
/// Zeros of this length, at a multiple of it, are taken for a hole.
const HOLE_LEN: usize = 4096;
const SECOND: u64 = 1_000_000_000;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Directories, the root not counted.
    pub directories: u64,
    /// Files, each once whatever its names.
    pub files: u64,
    /// Further names of files.
    pub links: u64,
    /// Bytes that were not taken for holes.
    pub bytes: u64,
}

/// Why it could not be copied, and what. What was copied before stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportError {
    /// It cannot be read.
    Source {
        /// The path.
        path: String,
        /// The errno of WASI that stable-fs answers.
        errno: u16,
    },
    /// It cannot be written.
    Target {
        /// The path.
        path: String,
        /// Why.
        error: Error,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { path, errno } => write!(f, "/{path} cannot be read: errno {errno}"),
            Self::Target { path, error } => write!(f, "/{path} cannot be written: {error}"),
        }
    }
}

impl core::error::Error for ImportError {}

type Result<T, E = ImportError> = core::result::Result<T, E>;

struct Import<'a, M: Memory> {
    from: &'a mut FileSystem,
    to: &'a mut Files<M>,
    /// Directories to go into.
    left: Vec<(String, Node)>,
    /// Those that were met: in damaged ones a directory may lead to itself.
    met: BTreeSet<Node>,
    /// All directories, those above before those below.
    directories: Vec<(String, Metadata)>,
    /// The first name of each file that has several.
    known: BTreeMap<Node, String>,
    buffer: Vec<u8>,
    done: Imported,
}

/// Copies everything below the root of a file system of stable-fs.
///
/// # Errors
/// Which path could not be read or written, and why; `Exists` where a name is there already.
pub fn import<M: Memory>(from: &mut FileSystem, to: &mut Files<M>) -> Result<Imported> {
    let root = from.storage.root_node();
    let mut import = Import {
        from,
        to,
        left: alloc::vec![(String::new(), root)],
        met: BTreeSet::from([root]),
        directories: Vec::new(),
        known: BTreeMap::new(),
        buffer: alloc::vec![0; COPY_LEN],
        done: Imported::default(),
    };
    while let Some((path, node)) = import.left.pop() {
        import.directory(&path, node)?;
    }
    // What came into a directory moved its times: theirs come last.
    for (path, metadata) in core::mem::take(&mut import.directories) {
        let how = Open { directory: true, ..Open::READ };
        let opened = import.to.open(Fd::ROOT, path.as_bytes(), how);
        let fd = opened.map_err(|error| target(&path, error))?;
        import.set_times(&path, fd, &metadata)?;
    }
    Ok(import.done)
}

fn source(path: &str, error: stable_fs::error::Error) -> ImportError {
    ImportError::Source { path: path.into(), errno: error as u16 }
}

/// What is read there cannot be so.
fn damaged(path: &str) -> ImportError {
    source(path, stable_fs::error::Error::IOError)
}

fn target(path: &str, error: Error) -> ImportError {
    ImportError::Target { path: path.into(), error }
}

const fn time(nanos: u64) -> Time {
    Time { secs: (nanos / SECOND) as i64, nanos: (nanos % SECOND) as u32 }
}

impl<M: Memory> Import<'_, M> {
    fn directory(&mut self, path: &str, node: Node) -> Result<()> {
        let (mut names, mut last, mut sound) = (Vec::new(), None, true);
        self.from.storage.with_direntries(node, Some(0), &mut |&index, entry| {
            let name = &entry.name.bytes[..usize::from(entry.name.length)];
            if name != b"." && name != b".." {
                // They come in this order, or there may be no end of them.
                sound = last < Some(index);
                last = Some(index);
                names.push((String::from_utf8_lossy(name).into_owned(), entry.node));
            }
            sound
        });
        if !sound {
            return Err(damaged(path));
        }
        for (name, node) in names {
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            let found = self.from.metadata_from_node(node);
            let metadata = found.map_err(|error| source(&path, error))?;
            self.entry(path, node, metadata)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: String, node: Node, metadata: Metadata) -> Result<()> {
        if metadata.file_type == FileType::Directory {
            if !self.met.insert(node) {
                return Err(damaged(&path));
            }
            let made = self.to.mkdir(Fd::ROOT, path.as_bytes());
            made.map_err(|error| target(&path, error))?;
            self.done.directories += 1;
            self.left.push((path.clone(), node));
            self.directories.push((path, metadata));
            return Ok(());
        }
        if let Some(first) = self.known.get(&node) {
            let linked = self.to.link(Fd::ROOT, first.as_bytes(), Fd::ROOT, path.as_bytes());
            self.done.links += 1;
            return linked.map_err(|error| target(&path, error));
        }
        self.file(&path)?;
        if metadata.link_count > 1 {
            self.known.insert(node, path);
        }
        Ok(())
    }

    fn file(&mut self, path: &str) -> Result<()> {
        let root = self.from.root_fd();
        let opened = self.from.open(root, path, FdStat::default(), OpenFlags::empty(), 0);
        let from = opened.map_err(|error| source(path, error))?;
        // Through the handle: a mounted file has its own.
        let found = self.from.metadata(from);
        let metadata = found.map_err(|error| source(path, error))?;
        if metadata.size > MAX_FILE_SIZE {
            return Err(damaged(path));
        }
        let how = Open { exclusive: true, ..Open::CREATE };
        let fd = self.to.open(Fd::ROOT, path.as_bytes(), how).map_err(|e| target(path, e))?;
        let mut at = 0;
        while at < metadata.size {
            let len = (metadata.size - at).min(COPY_LEN as u64) as usize;
            let bytes = &mut self.buffer[..len];
            let part = DstBuf { buf: bytes.as_mut_ptr(), len };
            let read = self.from.read_vec_with_offset(from, &[part], at);
            if read.map_err(|error| source(path, error))? != len as u64 {
                return Err(damaged(path));
            }
            self.done.bytes +=
                put(self.to, fd, at, &self.buffer[..len]).map_err(|error| target(path, error))?;
            at += len as u64;
        }
        self.from.close(from).map_err(|error| source(path, error))?;
        self.to.set_len(fd, metadata.size).map_err(|error| target(path, error))?;
        if let Some(size_max) = metadata.maximum_size_allowed {
            let limited = self.to.set_size_limit(fd, Some(size_max));
            limited.map_err(|error| target(path, error))?;
        }
        self.done.files += 1;
        self.set_times(path, fd, &metadata)
    }

    /// Gives an open file or directory its times, and closes it.
    fn set_times(&mut self, path: &str, fd: Fd, metadata: &Metadata) -> Result<()> {
        let (accessed, modified) = (metadata.times.accessed, metadata.times.modified);
        let set = self.to.set_times(fd, Some(time(accessed)), Some(time(modified)));
        set.and_then(|()| self.to.close(fd)).map_err(|error| target(path, error))
    }
}

/// Writes all bytes but holes; how many.
fn put<M: Memory>(to: &mut Files<M>, fd: Fd, at: u64, bytes: &[u8]) -> Result<u64, Error> {
    let hole = |chunk: &[u8]| chunk.iter().all(|&byte| byte == 0);
    let (mut start, mut count) = (0, 0);
    while start < bytes.len() {
        let chunks = bytes[start..].chunks(HOLE_LEN);
        let data = chunks.take_while(|chunk| !hole(chunk)).map(<[u8]>::len).sum::<usize>();
        if data > 0 {
            to.write_at(fd, at + start as u64, &bytes[start..start + data])?;
        }
        count += data as u64;
        start += data + HOLE_LEN;
    }
    Ok(count)
}
