//! No file system: bytes at fixed places of the stable memory. What nobody can go below.

use ic_stable_structures::{DefaultMemoryImpl, Memory};

use crate::Subject;

/// Bytes of the memory for each file but the last.
const PLACE: u64 = 17 << 20;
const FILES: usize = 128;

pub struct Bare {
    memory: DefaultMemoryImpl,
    names: Vec<String>,
    len: [u64; FILES],
    at: [u64; FILES],
}

impl Bare {
    pub fn new() -> Self {
        let memory = DefaultMemoryImpl::default();
        Self { memory, names: Vec::new(), len: [0; FILES], at: [0; FILES] }
    }
}

impl Subject for Bare {
    type Handle = usize;
    const NAMES: bool = false;

    fn open(&mut self, path: &str, _: bool) -> usize {
        let known = self.names.iter().position(|name| name == path);
        let file = known.unwrap_or_else(|| {
            self.names.push(path.to_owned());
            self.names.len() - 1
        });
        self.at[file] = 0;
        file
    }
    fn close(&mut self, _: usize) {}
    #[inline]
    fn write(&mut self, file: usize, source: &[u8]) -> usize {
        let at = file as u64 * PLACE + self.at[file];
        let needs = (at + source.len() as u64).div_ceil(65536);
        let has = self.memory.size();
        if needs > has {
            self.memory.grow(needs - has);
        }
        self.memory.write(at, source);
        self.at[file] += source.len() as u64;
        self.len[file] = self.len[file].max(self.at[file]);
        source.len()
    }
    #[inline]
    fn read(&mut self, file: usize, target: &mut [u8]) -> usize {
        let count = (self.len[file] - self.at[file]).min(target.len() as u64) as usize;
        self.memory.read(file as u64 * PLACE + self.at[file], &mut target[..count]);
        self.at[file] += count as u64;
        count
    }
    fn seek(&mut self, file: usize, at: u64) {
        self.at[file] = at;
    }
    fn size(&mut self, file: usize) -> u64 {
        self.len[file]
    }
    fn truncate(&mut self, file: usize, len: u64) {
        self.len[file] = len;
    }
    fn stat(&mut self, _: &str) -> u64 {
        0
    }
    fn mkdir(&mut self, _: &str) {}
    fn list(&mut self, _: &str) -> u64 {
        0
    }
    fn unlink(&mut self, _: &str) {}
    fn rename(&mut self, _: &str, _: &str) {}
}
