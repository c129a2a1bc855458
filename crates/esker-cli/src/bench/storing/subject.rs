//! A file system on a device, as named on the command line.

use std::fmt;
use std::path::Path;

use super::super::spec::Spec;
use super::super::target::{run, this_program};
use crate::failure::{Exit, Failure, Outcome, shown};

/// A kernel file system: how it is called here, its kind, the options of mkfs(8) and those of mount(8).
type Peer = (&'static str, &'static str, &'static [&'static str], &'static str);

/// All that are known; what is not installed or not in the kernel is left out when it is tried.
const PEERS: [Peer; 7] = [
    ("ext4", "ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"], ""),
    ("xfs", "xfs", &["-q", "-f"], ""),
    ("btrfs", "btrfs", &["-q", "-f"], ""),
    ("btrfs-zstd", "btrfs", &["-q", "-f"], "compress-force=zstd:3"),
    ("f2fs", "f2fs", &["-q", "-f"], ""),
    (
        "f2fs-zstd",
        "f2fs",
        &["-q", "-f", "-O", "extra_attr,compression"],
        "compress_algorithm=zstd,compress_extension=*",
    ),
    ("nilfs2", "nilfs2", &["-q", "-f"], ""),
];

/// A file system that can be put on a device.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A volume of ours: words for `esker mkfs`.
    Esker(Vec<String>),
    /// A kernel file system.
    Kernel(Peer),
    /// A server that does nothing but write a block and flush at each fsync: the least that one over FUSE takes.
    Null,
}

impl Subject {
    /// From a word of the command line.
    pub fn parse(word: &str) -> Outcome<Self> {
        if let Some(peer) = PEERS.into_iter().find(|(name, ..)| *name == word) {
            return Ok(Self::Kernel(peer));
        }
        if word == "null" {
            return Ok(Self::Null);
        }
        match word.strip_prefix("esker") {
            Some("") => Ok(Self::Esker(Vec::new())),
            Some(rest) if rest.starts_with(':') => {
                let words = rest[1..].split(',').map(|word| match word.split_once('=') {
                    Some((name, value)) => vec![format!("--{name}"), value.to_owned()],
                    None => vec![format!("--{word}")],
                });
                Ok(Self::Esker(words.flatten().collect()))
            }
            _ => {
                let what = format!("no such file system: {}", shown(word.as_bytes()));
                let names = PEERS.map(|(name, ..)| name).join(", ");
                let remedy = format!("there are esker[:OPTION=VALUE,...], null, {names}");
                Err(Failure::new(Exit::Usage, what, &remedy))
            }
        }
    }

    /// Those that are measured where none is named.
    pub fn usual() -> Vec<Self> {
        std::iter::once(Self::Esker(Vec::new())).chain(PEERS.map(Self::Kernel)).collect()
    }

    /// Puts a fresh one on the device.
    pub fn make(&self, device: &Path) -> Outcome {
        match self {
            Self::Esker(words) => {
                let ours = this_program()?;
                let words = words.iter().map(Path::new);
                let fixed = [Path::new("mkfs"), "--force".as_ref()];
                run(&ours.to_string_lossy(), fixed.into_iter().chain(words).chain([device]))
            }
            Self::Kernel((_, kind, words, _)) => {
                let words = words.iter().map(Path::new);
                run(&format!("mkfs.{kind}"), words.chain([device]))
            }
            Self::Null => return Ok(()),
        }
        .map(drop)
    }

    /// How it is mounted.
    pub fn mounted(&self, device: &Path) -> Spec {
        match self {
            Self::Esker(_) => Spec::Image(device.to_owned(), String::new()),
            Self::Null => Spec::Bare(device.to_owned()),
            Self::Kernel((_, kind, _, options)) => Spec::Device(kind, device.to_owned(), options),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Esker(words) if words.is_empty() => f.write_str("esker"),
            Self::Esker(words) => write!(f, "esker {}", words.join(" ")),
            Self::Kernel((name, ..)) => f.write_str(name),
            Self::Null => f.write_str("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_file_systems() {
        for (name, ..) in PEERS {
            assert_eq!(Subject::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(Subject::parse("null").unwrap().to_string(), "null");
        assert_eq!(Subject::parse("esker").unwrap(), Subject::Esker(Vec::new()));
        let ours = Subject::parse("esker:block=4K,discard").unwrap();
        assert_eq!(ours.to_string(), "esker --block 4K --discard");
        for bad in ["", "eskerr", "zfs", "ext4:"] {
            let failure = Subject::parse(bad).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{bad}");
            assert!(failure.text.contains("there are esker"), "{}", failure.text);
        }
    }
}
