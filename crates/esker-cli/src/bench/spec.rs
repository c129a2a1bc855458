//! A target as it is named on the command line.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use esker_fuse::mount::Way;

use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::near::nearest;
use crate::options::Options;
use crate::units::ram;

/// Kernel file systems that a loop device can hold.
pub const LOOPS: [&str; 3] = ["ext4", "xfs", "btrfs"];

const DEVICE: &str = "transport=device";

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// `mem:` with mount options: Esker, mounted.
    Memory(String),
    /// `vol:` with mount options: Esker's volume on a loop device in RAM, mounted.
    Volume(String),
    /// `null:`: a server that does nothing, mounted with the same options: the bound.
    Null(String),
    /// The same, which writes a block to this device and flushes it at each fsync: never named.
    Bare(PathBuf),
    /// `lib:`: Esker in this process, without a mount.
    Library,
    /// `tmpfs:`: the kernel's memory file system.
    Tmpfs,
    /// `ext4:`, `xfs:`, `btrfs:`: a kernel file system on a loop device in RAM.
    Loop(String),
    /// An image of ours with mount options: never named, but made by the bench.
    Image(PathBuf, String),
    /// The same of a kernel file system of this kind.
    Packed(&'static str, PathBuf),
    /// A kernel file system of this kind on a device, to be mounted with these options: never named either.
    Device(&'static str, PathBuf, &'static str),
    /// Memory of which nothing is safe before so many microseconds, for a device to lie in: never named either.
    Slow(u64),
    /// A directory that is there already.
    Directory(PathBuf),
}

impl Spec {
    /// From a word of the command line; mounts of ours take the options `common` too.
    pub fn parse(word: &str, common: &str) -> Outcome<Self> {
        let spec = match word.split_once(':') {
            Some(("mem", own)) => Self::Memory(options(common, own)?),
            Some(("vol", own)) => Self::Volume(options(common, own)?),
            Some(("null", own)) => Self::Null(options(common, own)?),
            Some(("lib", "")) => Self::Library,
            Some(("tmpfs", "")) => Self::Tmpfs,
            Some((kind, "")) if LOOPS.contains(&kind) => Self::Loop(kind.to_owned()),
            _ if Path::new(word).is_dir() => Self::Directory(PathBuf::from(word)),
            _ => return Err(unknown(word)),
        };
        Ok(spec)
    }

    /// A file system on a loop device, as `--loop` names it.
    pub fn parse_loop(kind: &str) -> Outcome<Self> {
        if LOOPS.contains(&kind) {
            return Ok(Self::Loop(kind.to_owned()));
        }
        let what = format!("no such file system for a loop device: {kind}");
        Err(Failure::new(Exit::Usage, what, &format!("there are {}", LOOPS.join(", "))))
    }

    /// The options of a mount of ours.
    pub fn options(&self) -> Option<Options> {
        match self {
            Self::Memory(words) | Self::Volume(words) | Self::Null(words) => {
                Options::parse(&[OsString::from(words)], ram()).ok()
            }
            _ => None,
        }
    }

    /// What to run where this cannot be had: the device, where io_uring was asked for.
    pub fn instead(&self) -> Option<Self> {
        if self.options()?.mount.way != Way::Ring {
            return None;
        }
        let device = |words: &String| {
            let way = |word| if str::starts_with(word, "transport=") { DEVICE } else { word };
            words.split(',').map(way).collect::<Vec<_>>().join(",")
        };
        match self {
            Self::Memory(words) => Some(Self::Memory(device(words))),
            Self::Volume(words) => Some(Self::Volume(device(words))),
            Self::Null(words) => Some(Self::Null(device(words))),
            _ => None,
        }
    }

    /// What it holds, it holds in the memory of this machine.
    pub const fn is_in_memory(&self) -> bool {
        !matches!(self, Self::Directory(_))
    }
}

/// Those for all mounts, then its own, which win; they make sense.
fn options(common: &str, own: &str) -> Outcome<String> {
    let words: Vec<&str> = [common, own].into_iter().filter(|words| !words.is_empty()).collect();
    let words = words.join(",");
    Options::parse(&[OsString::from(&words)], ram())?;
    Ok(words)
}

fn unknown(word: &str) -> Failure {
    let known = ["mem:", "vol:", "null:", "lib:", "tmpfs:", "ext4:", "xfs:", "btrfs:"];
    let near =
        nearest(word, &known).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
    let what = format!("no such target: {}{near}", path_shown(Path::new(word)));
    let remedy = format!("name a directory that exists, or {}", known.join(" "));
    Failure::new(Exit::Usage, what, &remedy)
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, words) = match self {
            Self::Memory(words) => ("esker", words.as_str()),
            Self::Volume(words) => ("volume", words.as_str()),
            Self::Null(words) => ("null", words.as_str()),
            Self::Bare(_) => ("null", ""),
            Self::Library => ("library", ""),
            Self::Tmpfs => ("tmpfs", ""),
            Self::Slow(wait) => return write!(f, "slow,{wait}"),
            Self::Loop(kind) => return write!(f, "{kind}-loop"),
            Self::Image(path, _)
            | Self::Packed(_, path)
            | Self::Device(_, path, _)
            | Self::Directory(path) => return f.write_str(&path_shown(path)),
        };
        f.write_str(name)?;
        if words.is_empty() { Ok(()) } else { write!(f, ",{words}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_targets() {
        let parse = |word: &str, common: &str| Spec::parse(word, common).map_err(|why| why.text);
        assert_eq!(parse("mem:", "").unwrap().to_string(), "esker");
        let spec = parse("null:transport=ring", "threads=2").unwrap();
        assert_eq!(spec.to_string(), "null,threads=2,transport=ring");
        assert_eq!(spec.instead().unwrap().to_string(), "null,threads=2,transport=device");
        assert_eq!(spec.instead().unwrap().instead(), None);
        assert_eq!(parse("vol:compress=lz4", "").unwrap().to_string(), "volume,compress=lz4");
        assert_eq!(parse("lib:", "ro").unwrap(), Spec::Library);
        assert!(parse("men:", "").unwrap_err().contains("(did you mean mem:?)"));
        assert!(parse("mem:writebak", "").unwrap_err().contains("(did you mean writeback?)"));
        assert!(parse("/no/such/place", "").unwrap_err().contains("a directory that exists"));
        assert!(Spec::parse_loop("zfs").unwrap_err().text.contains("ext4, xfs, btrfs"));
    }
}
