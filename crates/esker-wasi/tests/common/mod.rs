//! A program whose memory is a vector, and what it asks, in Rust's own words.

#![allow(dead_code, reason = "each test uses some of it")]

pub mod door;

use std::sync::Arc;

use door::Door;
use esker::ground::Clock as _;
use esker::memory::{Home, Options};
use esker::posix::Fs;
use esker::store::Store;
use esker::{Attr, Ino, Kind};
use esker_host::{Arena, SystemClock};
use esker_wasi::{Clock, Context, Errno, Guest as _, Result, Rights, Seeded, Stream, World};

pub const FOLLOW: u32 = 1;
pub const CREATE: u32 = 1;
pub const DIRECTORY: u32 = 2;
pub const EXCLUSIVE: u32 = 4;
pub const TRUNCATE: u32 = 8;
pub const APPEND: u32 = 1;

/// The directory that every program here was given, as `/`.
pub const GIVEN: u32 = 3;

/// What a program reads and writes besides files.
pub struct Toy {
    pub input: Vec<u8>,
    pub output: Vec<u8>,
    pub now: u64,
    chance: Seeded,
}

impl World for Toy {
    fn read(&mut self, target: &mut [u8]) -> Result<usize> {
        let len = target.len().min(self.input.len());
        target[..len].copy_from_slice(&self.input[..len]);
        self.input.drain(..len);
        Ok(len)
    }

    fn write(&mut self, stream: Stream, source: &[u8]) -> Result<usize> {
        assert_ne!(stream, Stream::Input);
        self.output.extend_from_slice(source);
        Ok(source.len())
    }

    fn random(&mut self, target: &mut [u8]) -> Result {
        self.chance.fill(target);
        Ok(())
    }

    fn time(&mut self, _: Clock) -> u64 {
        self.now = self.now.saturating_add(1);
        self.now
    }

    fn wait(&mut self, nanos: Option<u64>, input: bool) -> Result<bool> {
        let readable = input && !self.input.is_empty();
        if !readable {
            self.now = self.now.saturating_add(nanos.unwrap_or(0));
        }
        Ok(readable)
    }
}

pub type Files = Fs<Home<Arena>>;

pub fn files() -> Arc<Files> {
    files_of(64 << 20)
}

/// Files that may take so many bytes in all.
pub fn files_of(size_max: u64) -> Arc<Files> {
    let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, SystemClock.now());
    let options = Options { size_max, file_size_max: u64::MAX, root };
    let home = Home::new(Arena::new(size_max).unwrap(), &options).unwrap();
    Arc::new(Fs::new(home, SystemClock))
}

pub struct Program<S: Store = Home<Arena>> {
    pub context: Door<S, Toy>,
    pub memory: Vec<u8>,
}

/// What is known of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Stat {
    pub ino: u64,
    pub filetype: u8,
    pub nlink: u64,
    pub size: u64,
    pub atim: u64,
    pub mtim: u64,
}

/// An entry of a listing: its cookie, its inode, its type and its name.
pub type Listed = (u64, u64, u8, String);

/// Places in the memory, far enough from each other.
const PATH: u32 = 0x1000;
const OTHER: u32 = 0x3000;
const RESULT: u32 = 0x5000;
const PIECE: u32 = 0x5100;
pub const BUFFER: u32 = 0x8000;
const MEMORY: usize = 0x4_0000;

impl Program {
    pub fn new() -> Self {
        let Self { context, memory } = Self::over(&files());
        match context {
            Door::Here(context) => Self { context: Door::asked(context), memory },
            linked => Self { context: linked, memory },
        }
    }
}

impl<S: Store> Program<S> {
    /// One more program over the same files.
    pub fn over(files: &Arc<Fs<S>>) -> Self {
        let toy = Toy {
            input: Vec::new(),
            output: Vec::new(),
            now: 1_700_000_000_000_000_000,
            chance: Seeded::new([1; 32]),
        };
        let mut context = Context::new(Arc::clone(files), toy);
        context.give(b"/", b"/").unwrap();
        Self { context: Door::Here(context), memory: vec![0; MEMORY] }
    }

    fn lay(&mut self, at: u32, text: &[u8]) -> (u32, u32) {
        self.memory.put(at, text).unwrap();
        (at, text.len() as u32)
    }

    fn number(&self) -> u32 {
        u32::from_le_bytes(self.memory.bytes(RESULT, 4).unwrap().try_into().unwrap())
    }

    fn long_number(&self, at: u32) -> u64 {
        u64::from_le_bytes(self.memory.bytes(at, 8).unwrap().try_into().unwrap())
    }

    pub fn open_with(
        &mut self,
        dir: u32,
        path: &str,
        (lookup, flags, fdflags): (u32, u32, u32),
        (base, inheriting): (Rights, Rights),
    ) -> Result<u32> {
        let (at, len) = self.lay(PATH, path.as_bytes());
        let memory = &mut self.memory[..];
        let (base, inheriting) = (base.0, inheriting.0);
        self.context
            .path_open(memory, dir, lookup, at, len, flags, base, inheriting, fdflags, RESULT)?;
        Ok(self.number())
    }

    /// Opens with every right of a file, and every right to hand on.
    pub fn open(&mut self, dir: u32, path: &str, flags: u32) -> Result<u32> {
        self.open_with(dir, path, (0, flags, 0), (Rights::FILE, Rights::ALL))
    }

    /// Opens with no rights at all.
    pub fn look(&mut self, dir: u32, path: &str, lookup: u32, flags: u32) -> Result<u32> {
        self.open_with(dir, path, (lookup, flags, 0), (Rights::NONE, Rights::NONE))
    }

    pub fn open_dir(&mut self, dir: u32, path: &str) -> Result<u32> {
        self.open_with(dir, path, (0, DIRECTORY, 0), (Rights::DIRECTORY, Rights::ALL))
    }

    pub fn make(&mut self, dir: u32, path: &str, content: &[u8]) {
        let file = self.open(dir, path, CREATE | TRUNCATE).unwrap();
        assert_eq!(self.write(file, content), Ok(content.len()));
        self.close(file).unwrap();
    }

    pub fn close(&mut self, fd: u32) -> Result {
        self.context.fd_close(fd)
    }

    fn piece(&mut self, len: usize) {
        self.memory.put_u32(PIECE, BUFFER).unwrap();
        self.memory.put_u32(PIECE + 4, len as u32).unwrap();
    }

    pub fn write(&mut self, fd: u32, source: &[u8]) -> Result<usize> {
        self.lay(BUFFER, source);
        self.piece(source.len());
        self.context.fd_write(&mut self.memory[..], fd, PIECE, 1, RESULT)?;
        Ok(self.number() as usize)
    }

    pub fn write_at(&mut self, fd: u32, at: u64, source: &[u8]) -> Result<usize> {
        self.lay(BUFFER, source);
        self.piece(source.len());
        self.context.fd_pwrite(&mut self.memory[..], fd, PIECE, 1, at, RESULT)?;
        Ok(self.number() as usize)
    }

    pub fn read(&mut self, fd: u32, len: usize) -> Result<Vec<u8>> {
        self.piece(len);
        self.context.fd_read(&mut self.memory[..], fd, PIECE, 1, RESULT)?;
        Ok(self.memory.bytes(BUFFER, self.number())?.to_vec())
    }

    pub fn read_at(&mut self, fd: u32, at: u64, len: usize) -> Result<Vec<u8>> {
        self.piece(len);
        self.context.fd_pread(&mut self.memory[..], fd, PIECE, 1, at, RESULT)?;
        Ok(self.memory.bytes(BUFFER, self.number())?.to_vec())
    }

    pub fn content(&mut self, path: &str) -> Result<Vec<u8>> {
        let rights = (Rights::FD_READ, Rights::NONE);
        let file = self.open_with(GIVEN, path, (FOLLOW, 0, 0), rights)?;
        let content = self.read(file, 0x1_0000);
        self.close(file)?;
        content
    }

    pub fn seek(&mut self, fd: u32, by: i64, whence: u32) -> Result<u64> {
        self.context.fd_seek(&mut self.memory[..], fd, by, whence, RESULT)?;
        Ok(self.long_number(RESULT))
    }

    pub fn tell(&mut self, fd: u32) -> Result<u64> {
        self.context.fd_tell(&mut self.memory[..], fd, RESULT)?;
        Ok(self.long_number(RESULT))
    }

    fn known(&self) -> Stat {
        let long = |more| self.long_number(RESULT + more);
        Stat {
            ino: long(8),
            filetype: self.memory[RESULT as usize + 16],
            nlink: long(24),
            size: long(32),
            atim: long(40),
            mtim: long(48),
        }
    }

    pub fn stat(&mut self, dir: u32, path: &str, lookup: u32) -> Result<Stat> {
        let (at, len) = self.lay(PATH, path.as_bytes());
        self.context.path_filestat_get(&mut self.memory[..], dir, lookup, at, len, RESULT)?;
        Ok(self.known())
    }

    pub fn stat_open(&mut self, fd: u32) -> Result<Stat> {
        self.context.fd_filestat_get(&mut self.memory[..], fd, RESULT)?;
        Ok(self.known())
    }

    pub fn set_times(&mut self, path: &str, lookup: u32, times: (u64, u64), flags: u32) -> Result {
        let (at, len) = self.lay(PATH, path.as_bytes());
        let (memory, (atim, mtim)) = (&mut self.memory[..], times);
        self.context.path_filestat_set_times(memory, GIVEN, lookup, at, len, atim, mtim, flags)
    }

    /// File type, flags, rights, and rights to hand on.
    pub fn status(&mut self, fd: u32) -> Result<(u8, u16, Rights, Rights)> {
        self.context.fd_fdstat_get(&mut self.memory[..], fd, RESULT)?;
        let at = RESULT as usize;
        let flags = u16::from_le_bytes([self.memory[at + 2], self.memory[at + 3]]);
        let rights = [8, 16].map(|more| Rights(self.long_number(RESULT + more)));
        Ok((self.memory[at], flags, rights[0], rights[1]))
    }

    pub fn mkdir(&mut self, dir: u32, path: &str) -> Result {
        let (at, len) = self.lay(PATH, path.as_bytes());
        self.context.path_create_directory(&mut self.memory[..], dir, at, len)
    }

    pub fn rmdir(&mut self, dir: u32, path: &str) -> Result {
        let (at, len) = self.lay(PATH, path.as_bytes());
        self.context.path_remove_directory(&mut self.memory[..], dir, at, len)
    }

    pub fn unlink(&mut self, dir: u32, path: &str) -> Result {
        let (at, len) = self.lay(PATH, path.as_bytes());
        self.context.path_unlink_file(&mut self.memory[..], dir, at, len)
    }

    pub fn rename(&mut self, dir: u32, old: &str, to: u32, new: &str) -> Result {
        let (at, len) = self.lay(PATH, old.as_bytes());
        let (new_at, new_len) = self.lay(OTHER, new.as_bytes());
        self.context.path_rename(&mut self.memory[..], dir, at, len, to, new_at, new_len)
    }

    pub fn link(&mut self, flags: u32, dir: u32, old: &str, to: u32, new: &str) -> Result {
        let (at, len) = self.lay(PATH, old.as_bytes());
        let (new_at, new_len) = self.lay(OTHER, new.as_bytes());
        self.context.path_link(&mut self.memory[..], dir, flags, at, len, to, new_at, new_len)
    }

    pub fn symlink(&mut self, target: &str, dir: u32, path: &str) -> Result {
        let (at, len) = self.lay(PATH, path.as_bytes());
        let (target_at, target_len) = self.lay(OTHER, target.as_bytes());
        self.context.path_symlink(&mut self.memory[..], target_at, target_len, dir, at, len)
    }

    pub fn readlink(&mut self, path: &str, room: u32) -> Result<String> {
        let (at, len) = self.lay(PATH, path.as_bytes());
        self.context.path_readlink(&mut self.memory[..], GIVEN, at, len, BUFFER, room, RESULT)?;
        let bytes = self.memory.bytes(BUFFER, self.number()).unwrap();
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// What a buffer of `room` bytes takes of a listing: each whole entry, and whether there is no more.
    pub fn list(&mut self, fd: u32, room: u32, cookie: u64) -> Result<(Vec<Listed>, bool)> {
        self.context.fd_readdir(&mut self.memory[..], fd, BUFFER, room, cookie, RESULT)?;
        let used = self.number();
        let mut bytes = self.memory.bytes(BUFFER, used).unwrap();
        let mut found = Vec::new();
        while bytes.len() >= 24 {
            let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            let name_len = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
            let Some(name) = bytes.get(24..24 + name_len) else { break };
            found.push((long(0), long(8), bytes[20], String::from_utf8(name.to_vec()).unwrap()));
            bytes = &bytes[24 + name_len..];
        }
        Ok((found, used < room))
    }

    /// Every name of a directory, in their order.
    pub fn names(&mut self, path: &str) -> Vec<String> {
        let dir = self.open_dir(GIVEN, path).unwrap();
        let (found, all) = self.list(dir, 0x1_0000, 0).unwrap();
        assert!(all);
        self.close(dir).unwrap();
        found.into_iter().map(|(.., name)| name).skip(2).collect()
    }
}

/// A call that was refused.
pub fn refused<T: std::fmt::Debug>(answer: Result<T>) -> Errno {
    answer.unwrap_err()
}
