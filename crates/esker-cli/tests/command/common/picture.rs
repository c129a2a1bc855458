//! Everything about a tree in words, so that two trees can be compared.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{SeekFrom, seek};

/// Each path below the root, escaped, with all that is known of it.
pub fn picture(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut first_names = HashMap::new();
    let mut open: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let name =
            path.strip_prefix(root).unwrap().as_os_str().as_bytes().escape_ascii().to_string();
        found.insert(name.clone(), words(&path, &meta));
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if meta.nlink() > 1 {
            let names: &mut Vec<String> = first_names.entry(meta.ino()).or_default();
            names.push(name);
        }
    }
    for mut names in first_names.into_values() {
        names.sort();
        for name in &names {
            write!(found.get_mut(name).unwrap(), " same-as={names:?}").unwrap();
        }
    }
    found
}

fn words(path: &Path, meta: &fs::Metadata) -> String {
    let mut text = format!(
        "mode={:o} owner={}:{} mtime={}.{:09} rdev={:x}",
        meta.mode(),
        meta.uid(),
        meta.gid(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.rdev()
    );
    let kind = meta.file_type();
    if !kind.is_dir() {
        write!(text, " size={} links={}", meta.size(), meta.nlink()).unwrap();
    }
    if kind.is_symlink() {
        let target = fs::read_link(path).unwrap();
        write!(text, " to={}", target.as_os_str().as_bytes().escape_ascii()).unwrap();
    }
    if kind.is_file() {
        write!(text, " content={}", content(path, meta.size())).unwrap();
    }
    if !kind.is_fifo() && !kind.is_socket() {
        for (name, value) in xattrs(path) {
            write!(text, " {name}={value}").unwrap();
        }
    }
    text
}

/// The data of a file, hashed, without its holes.
fn content(path: &Path, size: u64) -> String {
    let file = fs::File::open(path).unwrap();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < size {
        let Ok(from) = seek(&file, SeekFrom::Data(at)) else { break };
        let to = seek(&file, SeekFrom::Hole(from)).unwrap();
        let mut buffer = vec![0; usize::try_from(to - from).unwrap()];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut buffer, from).unwrap();
        // Zeros count as hole: where data end within a page is each file system's own affair.
        for (offset, byte) in (from..).zip(&buffer).filter(|(_, byte)| **byte != 0) {
            hash = (hash ^ offset ^ u64::from(*byte) << 56).wrapping_mul(0x100_0000_01b3);
        }
        at = to;
    }
    format!("{hash:016x}")
}

fn xattrs(path: &Path) -> BTreeMap<String, String> {
    let mut buffer = vec![0; 1 << 16];
    let len = rustix::fs::llistxattr(path, &mut buffer).unwrap_or(0);
    let names: Vec<Vec<u8>> = buffer[..len].split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    let mut found = BTreeMap::new();
    for name in names.iter().filter(|name| !name.is_empty()) {
        let key = std::ffi::OsStr::from_bytes(name);
        let len = rustix::fs::lgetxattr(path, key, &mut buffer).unwrap();
        found.insert(name.escape_ascii().to_string(), buffer[..len].escape_ascii().to_string());
    }
    found
}
