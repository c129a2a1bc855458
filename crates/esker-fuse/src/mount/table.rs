//! The kernel's mount table, as far as we need it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// `major:minor` of its device number, which no other living mount has.
    pub device: String,
    /// Where it is mounted.
    pub dir: PathBuf,
    /// Its type, such as `fuse.esker`.
    pub fs_type: String,
    /// Its source, such as what `fsname=` said.
    pub source: OsString,
    /// How it may be used, in the words of mount(8): the mount's own, then its file system's.
    pub options: Vec<String>,
}

impl MountEntry {
    /// The table has this word about it.
    #[must_use]
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }
}

/// The topmost mount on exactly this directory, which must be an absolute path without symbolic
/// links.
#[must_use]
pub fn mount_entry(dir: &Path) -> Option<MountEntry> {
    Table::open().ok()?.entry(dir)
}

/// All mounts of Esker, in the order in which they were mounted.
#[must_use]
pub fn ours() -> Vec<MountEntry> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let all = table.split(|&byte| byte == b'\n').filter_map(parse);
    all.filter(|mount| super::is_ours(&mount.fs_type)).collect()
}

/// The table, opened once, for who cannot be sure to be able to later.
#[derive(Debug)]
pub(super) struct Table {
    file: File,
}

impl Table {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { file: File::open("/proc/self/mountinfo")? })
    }

    /// As [`mount_entry`], of what is mounted now.
    pub(super) fn entry(&self, dir: &Path) -> Option<MountEntry> {
        let mut file = &self.file;
        let mut table = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut table)).ok()?;
        table.split(|&byte| byte == b'\n').rev().filter_map(parse).find(|entry| entry.dir == dir)
    }
}

/// A line of /proc/self/mountinfo: `id parent major:minor root point options [fields] - type source
/// options`.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut words = line.split(|&byte| byte == b' ');
    let device = text(words.nth(2)?);
    let dir = PathBuf::from(unescape(words.nth(1)?));
    let own = words.next()?;
    words.find(|&word| word == b"-")?;
    let (fs_type, source) = (text(words.next()?), unescape(words.next()?));
    let options = options(own, words.next().unwrap_or_default());
    Some(MountEntry { device, dir, fs_type, source, options })
}

/// Both lists as one, without repetition: what either calls `ro` cannot be written to.
fn options(own: &[u8], whole: &[u8]) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for word in own.split(|&byte| byte == b',').chain(whole.split(|&byte| byte == b',')) {
        let word = text(word);
        if !word.is_empty() && !options.contains(&word) {
            options.push(word);
        }
    }
    if options.iter().any(|word| word == "ro") {
        options.retain(|word| word != "rw");
    }
    options
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// Blanks, line ends, `#` and backslashes come as `\` and three octal digits.
fn unescape(word: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| first == b'\\').and_then(|digits| {
            let value = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?;
            u8::try_from(value).ok()
        });
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &behind[3..] } else { behind };
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_understood() {
        let line =
            br"610 24 0:52 / /mnt/with\040blank rw,nosuid shared:7 - fuse.esker mem:\134x rw";
        let entry = parse(line).unwrap();
        assert_eq!(entry.device, "0:52");
        assert_eq!(entry.dir, Path::new("/mnt/with blank"));
        assert_eq!(
            (entry.fs_type.as_str(), entry.source.to_str()),
            ("fuse.esker", Some(r"mem:\x"))
        );
        assert_eq!(entry.options, ["rw", "nosuid"]);
        let line = b"610 24 0:52 / /m rw,nodev - fuse.esker mem: ro,sync,user_id=0";
        let entry = parse(line).unwrap();
        assert_eq!(entry.options, ["nodev", "ro", "sync", "user_id=0"]);
        assert!(entry.has("ro") && !entry.has("rw") && !entry.has("user_id"));
        assert_eq!(parse(b"610 24 0:52 /"), None);
        assert_eq!(parse(b""), None);
    }
}
