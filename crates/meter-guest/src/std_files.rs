//! A program of plain `std::fs`: what it calls goes through WASI to whichever functions are linked in.
//!
//! Invariant: nothing here knows what is below.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

use crate::Subject;

/// Open files, by number.
#[derive(Default)]
pub struct StdFiles(Vec<Option<File>>);

impl StdFiles {
    fn file(&mut self, number: usize) -> &mut File {
        self.0[number].as_mut().expect("is open")
    }
}

impl Subject for StdFiles {
    type Handle = usize;

    fn open(&mut self, path: &str, create: bool) -> usize {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(create).create(create).open(path).expect("opens");
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        match self.0.get_mut(free) {
            Some(place) => *place = Some(file),
            None => self.0.push(Some(file)),
        }
        free
    }
    fn close(&mut self, file: usize) {
        self.0[file] = None;
    }
    #[inline]
    fn write(&mut self, file: usize, source: &[u8]) -> usize {
        self.file(file).write_all(source).expect("writes");
        source.len()
    }
    #[inline]
    fn read(&mut self, file: usize, target: &mut [u8]) -> usize {
        self.file(file).read_exact(target).expect("reads");
        target.len()
    }
    fn seek(&mut self, file: usize, at: u64) {
        self.file(file).seek(SeekFrom::Start(at)).expect("seeks");
    }
    fn size(&mut self, file: usize) -> u64 {
        self.file(file).metadata().expect("is there").len()
    }
    fn truncate(&mut self, file: usize, len: u64) {
        self.file(file).set_len(len).expect("truncates");
    }
    fn stat(&mut self, path: &str) -> u64 {
        fs::metadata(path).expect("is there").len()
    }
    fn mkdir(&mut self, path: &str) {
        fs::create_dir(path).expect("makes");
    }
    fn list(&mut self, path: &str) -> u64 {
        fs::read_dir(path).expect("lists").map(|entry| u64::from(entry.is_ok())).sum()
    }
    fn unlink(&mut self, path: &str) {
        fs::remove_file(path).expect("removes");
    }
    fn rename(&mut self, old: &str, new: &str) {
        fs::rename(old, new).expect("moves");
    }
}
