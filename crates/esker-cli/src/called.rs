//! Under which name we were called: `esker`, or one of those that mount(8), fsck(8) and mkfs(8) look for, with their
//! words and exit statuses.
//!
//! Above: `main`. Invariant: behind this everybody speaks of verbs and of [`Exit`].

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::failure::Exit;
use crate::verbs::BY_MOUNT8;

/// Who called us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// A person, or mount(8) by way of its helper for FUSE.
    Esker,
    /// mount(8), as `mount.esker`.
    Mount,
    /// fsck(8), as `fsck.esker`.
    Fsck,
    /// mkfs(8), as `mkfs.esker`.
    Mkfs,
}

impl Called {
    /// By the first word of the command line.
    pub fn by(program: Option<&OsString>) -> Self {
        match program.map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str) {
            Some("mount.esker") => Self::Mount,
            Some("fsck.esker") => Self::Fsck,
            Some("mkfs.esker") => Self::Mkfs,
            _ => Self::Esker,
        }
    }

    /// The words as `esker` takes them.
    pub fn words(self, mut words: Vec<OsString>) -> Vec<OsString> {
        match self {
            Self::Esker => {
                // mount(8) leaves out the verb: its helper for FUSE says `esker SOURCE DIR -o OPTIONS`.
                let source = words.get(1).is_some_and(|word| {
                    let bytes = word.as_encoded_bytes();
                    bytes.ends_with(b":") || bytes.starts_with(b"/")
                });
                if source {
                    words.splice(1..1, ["mount".into(), BY_MOUNT8.into()]);
                }
            }
            Self::Mount => {
                words = without(words, &["-s", "-n", "-v"], &["-t", "-N"]);
                words.splice(1..1, ["mount".into(), BY_MOUNT8.into()]);
            }
            Self::Fsck => {
                // What it may repair is nobody's choice yet; -C and a number tell where to show progress.
                let rest = without(words, &[], &["-C"]).into_iter();
                words = rest.filter(|word| !word.as_encoded_bytes().starts_with(b"-")).collect();
                words.splice(1..1, ["check".into()]);
            }
            Self::Mkfs => drop(words.splice(1..1, ["mkfs".into()])),
        }
        words
    }

    /// Whether there is nothing to do: mount(8) only pretends with -f.
    pub fn is_fake(self, words: &[OsString]) -> bool {
        self == Self::Mount && words.iter().any(|word| word == "-f")
    }

    /// The exit status of a failure.
    pub const fn status(self, exit: Exit) -> u8 {
        match (self, exit) {
            (Self::Mount, Exit::Usage) => 1,
            (Self::Mount, _) => 32,
            (Self::Fsck, Exit::Damaged) => 4,
            (Self::Fsck, Exit::Usage) => 16,
            (Self::Fsck, _) => 8,
            (Self::Esker | Self::Mkfs, exit) => exit as u8,
        }
    }
}

/// Without these words, and without those with the word behind each.
fn without(words: Vec<OsString>, plain: &[&str], valued: &[&str]) -> Vec<OsString> {
    let is = |word: &OsString, some: &[&str]| some.iter().any(|&one| word == one);
    let (mut rest, mut skip) = (Vec::new(), false);
    for word in words {
        if !skip && !is(&word, plain) && !is(&word, valued) {
            rest.push(word);
            continue;
        }
        skip = !skip && is(&word, valued);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let called = Called::by(words.first());
        called.words(words).iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn every_caller_gets_its_verb() {
        let mount = ["/sbin/mount.esker", "mount", BY_MOUNT8, "/dev/x", "/mnt", "-o", "rw"];
        assert_eq!(words("/sbin/mount.esker /dev/x /mnt -n -v -t esker -o rw"), mount);
        assert_eq!(words("fsck.esker -a -C 7 /dev/x"), ["fsck.esker", "check", "/dev/x"]);
        assert_eq!(words("mkfs.esker /dev/x"), ["mkfs.esker", "mkfs", "/dev/x"]);
        assert_eq!(words("esker mem: /mnt")[1..], ["mount", BY_MOUNT8, "mem:", "/mnt"]);
        assert_eq!(words("esker /dev/x /mnt")[1..3], ["mount", BY_MOUNT8]);
        assert_eq!(words("esker ls x.esker"), ["esker", "ls", "x.esker"]);
    }

    #[test]
    fn statuses_are_those_of_the_caller() {
        assert_eq!(Called::Fsck.status(Exit::Damaged), 4);
        assert_eq!(Called::Fsck.status(Exit::Source), 8);
        assert_eq!(Called::Mount.status(Exit::MountPoint), 32);
        assert_eq!(Called::Esker.status(Exit::Damaged), 6);
        assert!(Called::Mount.is_fake(&["mount.esker".into(), "-f".into()]));
    }
}
