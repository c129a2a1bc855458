//! What packs a tree: an image of ours at some level, or a peer; as named on the command line.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::spec::Spec;
use crate::failure::{Exit, Failure, Outcome, shown};

/// The level of `esker pack` where none is named is its own.
const OPTIONS: &str =
    "esker[:LEVEL[,OPTION...]] squashfs[:LEVEL] erofs[:CODEC] zstd:LEVEL zstd-long:LEVEL xz:LEVEL";

/// What `mkfs.erofs` compresses with, the smallest first: each of its versions has some of them.
const EROFS_CODECS: [&str; 5] = ["lzma", "zstd", "deflate", "lz4hc", "lz4"];

/// Something that packs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An image of ours: words of `esker pack`.
    Esker(Vec<String>),
    /// `mksquashfs`, zstd of this level in blocks of 1 MiB.
    Squashfs(u32),
    /// `mkfs.erofs` with a codec of its, in clusters of 1 MiB.
    Erofs(String),
    /// `tar | zstd`, two threads; with a window of 2 GiB where `long`.
    Zstd { level: u32, long: bool },
    /// `tar | xz`, of so many and perhaps `e`.
    Xz(String),
}

impl Subject {
    /// From a word of the command line.
    pub fn parse(word: &str) -> Outcome<Self> {
        let (kind, rest) = word.split_once(':').unwrap_or((word, ""));
        let level = |most: u32| {
            let level = rest.parse().ok().filter(|level| (1..=most).contains(level));
            level.ok_or_else(|| unknown(word))
        };
        match kind {
            "esker" => Ok(Self::Esker(own_words(rest))),
            "squashfs" if rest.is_empty() => Ok(Self::Squashfs(15)),
            "squashfs" => level(22).map(Self::Squashfs),
            "erofs" if rest.is_empty() => Ok(Self::Erofs(erofs_codec().to_owned())),
            "erofs" if EROFS_CODECS.contains(&rest) => Ok(Self::Erofs(rest.to_owned())),
            "zstd" => Ok(Self::Zstd { level: level(22)?, long: false }),
            "zstd-long" => Ok(Self::Zstd { level: level(22)?, long: true }),
            "xz" if is_xz_level(rest) => Ok(Self::Xz(rest.to_owned())),
            _ => Err(unknown(word)),
        }
    }

    /// All levels of ours, and the peers at those that people use.
    pub fn usual() -> Vec<Self> {
        let levels = (0..=9).map(|level| Self::Esker(own_words(&level.to_string())));
        let zstd = [(3, false), (19, true)].map(|(level, long)| Self::Zstd { level, long });
        levels
            .chain([Self::Squashfs(15), Self::Erofs(erofs_codec().to_owned())])
            .chain(zstd)
            .collect()
    }

    /// The program that must be there.
    pub const fn program(&self) -> Option<&'static str> {
        match self {
            Self::Esker(_) => None,
            Self::Squashfs(_) => Some("mksquashfs"),
            Self::Erofs(_) => Some("mkfs.erofs"),
            Self::Zstd { .. } => Some("zstd"),
            Self::Xz(_) => Some("xz"),
        }
    }

    /// The words of the command that packs `tree` into `file`, which is not there.
    pub fn command(&self, ours: &Path, tree: &Path, file: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut all = |more: &[&dyn AsRef<OsStr>]| {
            words.extend(more.iter().map(|word| word.as_ref().to_owned()));
        };
        match self {
            Self::Esker(own) => {
                all(&[&ours, &"pack", &tree, &"-o", &file, &"-q"]);
                own.iter().for_each(|word| all(&[word]));
            }
            Self::Squashfs(level) => {
                let level = level.to_string();
                all(&[&"mksquashfs", &tree, &file, &"-comp", &"zstd", &"-Xcompression-level"]);
                all(&[&level, &"-b", &"1M", &"-no-progress", &"-noappend"]);
            }
            Self::Erofs(codec) => {
                let codec = format!("-z{codec}");
                all(&[&"mkfs.erofs", &codec, &"-C1048576", &file, &tree]);
            }
            Self::Zstd { level, long } => {
                let ultra = if *level > 19 { "--ultra" } else { "" };
                let long = if *long { "--long=31" } else { "" };
                let packer = format!("zstd -{level} {ultra} {long} -T2 -q -c");
                all(&[&"bash", &"-c", &pipe(&packer), &"bash", &tree, &file]);
            }
            Self::Xz(level) => {
                let packer = format!("xz -{level} -c");
                all(&[&"bash", &"-c", &pipe(&packer), &"bash", &tree, &file]);
            }
        }
        words
    }

    /// How to mount what it made, with a cache of so many bytes where that can be chosen; `None`: nobody can.
    pub fn mounted(&self, file: &Path, cache: u64) -> Option<Spec> {
        let file = file.to_owned();
        match self {
            Self::Esker(_) => Some(Spec::Image(file, format!("cache={cache}"))),
            Self::Squashfs(_) => Some(Spec::Packed("squashfs", file)),
            Self::Erofs(_) => Some(Spec::Packed("erofs", file)),
            Self::Zstd { .. } | Self::Xz(_) => None,
        }
    }

    /// Whether its cache can be chosen.
    pub const fn has_cache(&self) -> bool {
        matches!(self, Self::Esker(_))
    }

    /// The level, where it is one of ours and nothing else was asked for: it lies on the curve.
    pub fn level(&self) -> Option<u32> {
        match self {
            Self::Esker(words) => match words.as_slice() {
                [_, level] => level.parse().ok(),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The first codec that the `mkfs.erofs` of this machine names among its own; of one that names none, or is not there,
/// the first of all, so that it is told why that fails.
fn erofs_codec() -> &'static str {
    let help = Command::new("mkfs.erofs").arg("--help").stdin(Stdio::null()).output();
    let help = help.map(|help| [help.stdout, help.stderr].concat()).unwrap_or_default();
    let words: Vec<_> = help.split(|byte| !byte.is_ascii_alphanumeric()).collect();
    let has = |codec: &&&str| words.contains(&codec.as_bytes());
    EROFS_CODECS.iter().find(has).unwrap_or(&EROFS_CODECS[0])
}

/// A level, and further options of `esker pack` behind commas.
fn own_words(rest: &str) -> Vec<String> {
    let mut words = rest.split(',').filter(|word| !word.is_empty());
    let level = words.next().into_iter().flat_map(|level| ["-l", level]);
    level.chain(words).map(str::to_owned).collect()
}

fn is_xz_level(word: &str) -> bool {
    matches!(word.strip_suffix('e').unwrap_or(word).as_bytes(), [b'0'..=b'9'])
}

/// In the order of names, so that whoever repeats it packs the same.
fn pipe(packer: &str) -> String {
    format!("set -o pipefail; tar -C \"$1\" --sort=name -cf - . | {packer} >\"$2\"")
}

fn unknown(word: &str) -> Failure {
    let what = format!("nothing that packs: {}", shown(word.as_bytes()));
    Failure::new(Exit::Usage, what, &format!("there are {OPTIONS}"))
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Esker(words) => {
                f.write_str("esker")?;
                words.iter().try_for_each(|word| write!(f, " {word}"))
            }
            Self::Squashfs(level) => write!(f, "squashfs zstd {level}"),
            Self::Erofs(codec) => write!(f, "erofs {codec}"),
            Self::Zstd { level, long: false } => write!(f, "tar, zstd -{level}"),
            Self::Zstd { level, long: true } => write!(f, "tar, zstd -{level} --long=31"),
            Self::Xz(level) => write!(f, "tar, xz -{level}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_what_packs() {
        let shown = |word: &str| Subject::parse(word).map(|it| it.to_string()).unwrap();
        assert_eq!(shown("esker"), "esker");
        assert_eq!(shown("esker:6,--block-size,2M"), "esker -l 6 --block-size 2M");
        assert_eq!(shown("squashfs"), "squashfs zstd 15");
        assert_eq!(shown("zstd-long:19"), "tar, zstd -19 --long=31");
        // Whichever this machine has.
        assert!(EROFS_CODECS.contains(&shown("erofs").strip_prefix("erofs ").unwrap()));
        assert_eq!(shown("erofs:lz4hc"), "erofs lz4hc");
        assert_eq!(shown("xz:9e"), "tar, xz -9e");
        for word in ["", "zip", "zstd", "zstd:23", "xz:10", "xz:", "erofs:1", "squashfs:x"] {
            assert_eq!(Subject::parse(word).unwrap_err().exit, Exit::Usage, "{word}");
        }
    }

    #[test]
    fn levels_lie_on_the_curve_and_variants_do_not() {
        let level = |word: &str| Subject::parse(word).unwrap().level();
        assert_eq!(level("esker:6"), Some(6));
        assert_eq!(level("esker:6,--unpack,false"), None);
        assert_eq!(level("zstd:3"), None);
        assert_eq!(Subject::usual().iter().filter_map(Subject::level).count(), 10);
    }
}
