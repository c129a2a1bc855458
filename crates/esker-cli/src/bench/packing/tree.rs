//! A tree that is packed: its files, and random places in them.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::workloads::Scatter;
use crate::failure::{Exit, Failure, Outcome, said};

/// What is read at once, in bytes.
pub const PIECE: u64 = 4096;
/// Random places are the same in every run.
const SEED: u64 = 7;

/// A tree.
pub struct Tree {
    /// Where it is.
    pub path: PathBuf,
    /// The last part of its path.
    pub name: String,
    /// Paths in it and lengths of its files, in the order of their paths.
    pub files: Vec<(PathBuf, u64)>,
    /// All of them together.
    pub bytes: u64,
}

impl Tree {
    /// Looks at all of it.
    pub fn walk(path: &Path) -> Outcome<Self> {
        let unable = |error: io::Error| {
            Failure::at(Exit::Source, &format!("cannot read the tree ({})", said(&error)), path, "")
        };
        let mut files = Vec::new();
        let whole = path.canonicalize().map_err(unable)?;
        let name = whole.file_name().unwrap_or(OsStr::new("tree")).to_string_lossy().into_owned();
        each(path, &mut |at, metadata| {
            if metadata.is_file() {
                let own = at.strip_prefix(path).unwrap_or(at).to_owned();
                files.push((own, metadata.len()));
            }
            Ok(())
        })
        .map_err(unable)?;
        let bytes = files.iter().map(|(_, len)| len).sum();
        if bytes == 0 {
            return Err(Failure::at(Exit::Source, "nothing to pack: no bytes in", path, ""));
        }
        Ok(Self { path: whole, name, files, bytes })
    }

    /// Places of pieces, spread over all of its bytes.
    pub fn places(&self, count: usize) -> Vec<(&Path, u64)> {
        let mut ends: Vec<u64> = Vec::with_capacity(self.files.len());
        for (_, len) in &self.files {
            ends.push(ends.last().unwrap_or(&0) + len);
        }
        let mut scatter = Scatter::new(SEED);
        let place = |_| {
            let place = scatter.below(self.bytes);
            let index = ends.partition_point(|&end| end <= place);
            let (path, len) = &self.files[index];
            (path.as_path(), (place - (ends[index] - len)) / PIECE * PIECE)
        };
        (0..count).map(place).collect()
    }
}

/// Everything below a directory in the order of names, with its attributes.
pub fn each(
    dir: &Path,
    seen: &mut dyn FnMut(&Path, &fs::Metadata) -> io::Result<()>,
) -> io::Result<()> {
    let entries = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort_unstable();
    for path in paths {
        let metadata = fs::symlink_metadata(&path)?;
        seen(&path, &metadata)?;
        if metadata.is_dir() {
            each(&path, seen)?;
        }
    }
    Ok(())
}
