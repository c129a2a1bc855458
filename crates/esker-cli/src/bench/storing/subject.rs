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
    /// A volume of ours.
    Esker {
        /// Words for `esker mkfs`.
        made: Vec<String>,
        /// Options for `esker mount`.
        mounted: String,
    },
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
            Some("") => Ok(Self::Esker { made: Vec::new(), mounted: String::new() }),
            Some(rest) if rest.starts_with(':') => {
                let (mut made, mut mounted) = (Vec::new(), Vec::new());
                for word in rest[1..].split(',') {
                    match word.split_once('=') {
                        Some(("-o", option)) => mounted.push(option),
                        Some((name, value)) => made.extend([format!("--{name}"), value.to_owned()]),
                        None => made.push(format!("--{word}")),
                    }
                }
                Ok(Self::Esker { made, mounted: mounted.join(",") })
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
        let ours = Self::Esker { made: Vec::new(), mounted: String::new() };
        std::iter::once(ours).chain(PEERS.map(Self::Kernel)).collect()
    }

    /// Puts a fresh one on the device.
    pub fn make(&self, device: &Path) -> Outcome {
        match self {
            Self::Esker { made, .. } => {
                let ours = this_program()?;
                let words = made.iter().map(Path::new);
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
            Self::Esker { mounted, .. } => Spec::Image(device.to_owned(), mounted.clone()),
            Self::Null => Spec::Bare(device.to_owned()),
            Self::Kernel((_, kind, _, options)) => Spec::Device(kind, device.to_owned(), options),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Esker { made, mounted } => {
                f.write_str("esker")?;
                made.iter().try_for_each(|word| write!(f, " {word}"))?;
                if mounted.is_empty() { Ok(()) } else { write!(f, " -o {mounted}") }
            }
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
        assert_eq!(Subject::parse("esker").unwrap(), Subject::usual()[0]);
        let ours = Subject::parse("esker:block=4K,-o=commit=60,discard,-o=nodedup").unwrap();
        assert_eq!(ours.to_string(), "esker --block 4K --discard -o commit=60,nodedup");
        let image = Spec::Image("/dev/x".into(), "commit=60,nodedup".to_owned());
        assert_eq!(ours.mounted(Path::new("/dev/x")), image);
        for bad in ["", "eskerr", "zfs", "ext4:"] {
            let failure = Subject::parse(bad).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{bad}");
            assert!(failure.text.contains("there are esker"), "{}", failure.text);
        }
    }
}
