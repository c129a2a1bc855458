//! What is done to a file system to see what it writes: its words, its acts, and what it amounts to.

use std::fmt;
use std::path::PathBuf;

use super::data::BLOCK;
use super::mail;
use crate::failure::{Exit, Failure, Outcome, shown};
use crate::units::{parse_count, parse_size, size_shown};

/// An overwriting has one write for so many bytes of the file.
const BYTES_A_WRITE: u64 = 64 << 10;
/// Transactions of a database, without and with a journal that is deleted each time.
const TRANSACTIONS: [u32; 2] = [1500, 200];
/// A database's rows, in bytes.
pub(super) const ROW: u32 = 100;
/// Blocks that are synced by themselves.
pub(super) const SYNCS: u64 = 4000;
const THREADS_MAX: u64 = 64;
const FILES_MAX: u64 = 1_000_000;
/// Rounds of a mail server, where nobody says how many.
const ROUNDS: u64 = 1000;
const SIZE_MAX: u64 = 1 << 40;

/// What is done, in acts that are counted each by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// So many files of so many blocks: made in passes of a block to each, read, one block or all of each
    /// written anew, removed. Synced at the end, or after each pass.
    Files { blocks: u64, count: u64, each_pass: bool },
    /// Blocks at random places of a file of so many blocks, synced every 32.
    Overwrite { blocks: u64 },
    /// Blocks at random places of files, one for each of so many threads, each synced by itself.
    Synced { threads: u64 },
    /// Blocks of a file written over at a steady pace, on a fresh file system and on one that is full and old.
    Latency,
    /// A directory of so many files, listed when it is new, and when as many were removed and made in it.
    Directory { count: u64 },
    /// Small transactions of SQLite, with a write-ahead log or a journal.
    Sqlite { wal: bool },
    /// So many rounds of a mail server: messages come, are read, added to and removed, two syncs in each.
    Mail { rounds: u64 },
    /// An archive is unpacked, what was in it built by a command if one is given, and all removed.
    Tree { archive: PathBuf, build: Option<String> },
}

/// A part of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// What must be there first; it is not told.
    Prepare,
    Create,
    Read,
    Update,
    Delete,
    Overwrite,
    Sync,
    Serve,
    Transact,
    Unpack,
    Build,
    /// Listing, with the attributes of each, what is new.
    List,
    /// Removing and making again; it is not told.
    Churn,
    /// Listing what is old.
    ListOld,
    /// Writing at a pace, on what is fresh.
    Fresh,
    /// Filling it and writing it over for long; it is not told.
    Age,
    /// Writing at a pace, on what is full and old.
    Aged,
}

impl Work {
    /// From a word of the command line.
    pub fn parse(word: &str) -> Outcome<Self> {
        let parsed = match word {
            "sqlite-wal" => Some(Self::Sqlite { wal: true }),
            "sqlite-delete" => Some(Self::Sqlite { wal: false }),
            "synced" => Some(Self::Synced { threads: 1 }),
            "latency" => Some(Self::Latency),
            "mail" => Some(Self::Mail { rounds: ROUNDS }),
            "overwrite" => Some(Self::Overwrite { blocks: (512 << 20) / BLOCK as u64 }),
            _ => Self::sized(word),
        };
        parsed.ok_or_else(|| {
            let what = format!("no such work: {}", shown(word.as_bytes()));
            let remedy = "give SIZExFILES as in 16Kx10, SIZExFILES/pass, overwrite[:SIZE], \
                          synced[:THREADS], latency, directory:COUNT, mail[:ROUNDS], \
                          tree:ARCHIVE, sqlite-wal or sqlite-delete; sizes in whole blocks of 4K";
            Failure::new(Exit::Usage, what, remedy)
        })
    }

    fn sized(word: &str) -> Option<Self> {
        let blocks = |size: &str| {
            let size = parse_size(size, SIZE_MAX).ok()?;
            let whole = size > 0 && size <= SIZE_MAX && size.is_multiple_of(BLOCK as u64);
            whole.then_some(size / BLOCK as u64)
        };
        if let Some(threads) = word.strip_prefix("synced:") {
            let threads =
                parse_count(threads).filter(|threads| (1..=THREADS_MAX).contains(threads))?;
            return Some(Self::Synced { threads });
        }
        if let Some(count) = word.strip_prefix("directory:") {
            let count = parse_count(count).filter(|count| (1..=FILES_MAX).contains(count))?;
            return Some(Self::Directory { count });
        }
        if let Some(rounds) = word.strip_prefix("mail:") {
            let rounds = parse_count(rounds).filter(|count| (1..=FILES_MAX).contains(count))?;
            return Some(Self::Mail { rounds });
        }
        if let Some(archive) = word.strip_prefix("tree:").filter(|path| !path.is_empty()) {
            return Some(Self::Tree { archive: archive.into(), build: None });
        }
        if let Some(size) = word.strip_prefix("overwrite:") {
            return Some(Self::Overwrite { blocks: blocks(size)? });
        }
        let (files, each_pass) = match word.strip_suffix("/pass") {
            Some(files) => (files, true),
            None => (word, false),
        };
        let (size, count) = files.split_once('x')?;
        let count = parse_count(count).filter(|count| (1..=FILES_MAX).contains(count))?;
        Some(Self::Files { blocks: blocks(size)?, count, each_pass })
    }

    /// Those that are done where none is named.
    pub fn usual() -> Vec<Self> {
        let files = |size: u64, count, each_pass| {
            let blocks = size / BLOCK as u64;
            Self::Files { blocks, count, each_pass }
        };
        let sizes = [(16 << 10, 10), (100 << 10, 1000), (1 << 20, 100)];
        let files =
            sizes.map(|(size, count)| [files(size, count, false), files(size, count, true)]);
        let others = [
            Self::Overwrite { blocks: (512 << 20) / BLOCK as u64 },
            Self::Sqlite { wal: true },
            Self::Sqlite { wal: false },
            Self::Mail { rounds: ROUNDS },
        ];
        files.into_iter().flatten().chain(others).collect()
    }

    /// What is counted by itself, in this order.
    pub fn acts(&self) -> Vec<Act> {
        match self {
            Self::Files { .. } => vec![Act::Create, Act::Read, Act::Update, Act::Delete],
            Self::Overwrite { .. } => vec![Act::Prepare, Act::Overwrite],
            Self::Synced { .. } => vec![Act::Prepare, Act::Sync],
            Self::Latency => vec![Act::Prepare, Act::Fresh, Act::Age, Act::Aged],
            Self::Directory { .. } => vec![Act::Create, Act::List, Act::Churn, Act::ListOld],
            Self::Sqlite { .. } => vec![Act::Prepare, Act::Transact],
            Self::Mail { .. } => vec![Act::Prepare, Act::Serve],
            Self::Tree { build: None, .. } => vec![Act::Unpack, Act::Delete],
            Self::Tree { .. } => vec![Act::Unpack, Act::Build, Act::Delete],
        }
    }

    /// Bytes that are written by whoever does it, in this act.
    pub fn logical(&self, act: Act) -> u64 {
        let block = BLOCK as u64;
        match (self, act) {
            (Self::Files { blocks, count, .. }, Act::Create) => blocks * count * block,
            (Self::Files { blocks, count, each_pass }, Act::Update) => {
                if *each_pass {
                    blocks * count * block
                } else {
                    count * block
                }
            }
            (Self::Overwrite { blocks }, Act::Overwrite) => writes(*blocks) * block,
            (Self::Synced { threads }, Act::Sync) => SYNCS / threads * threads * block,
            (Self::Mail { rounds }, Act::Serve) => mail::written(*rounds),
            (Self::Sqlite { .. }, Act::Transact) => u64::from(ROW) * self.transactions(),
            _ => 0,
        }
    }

    /// Of a database.
    pub fn transactions(&self) -> u64 {
        match self {
            Self::Sqlite { wal } => u64::from(TRANSACTIONS[usize::from(!wal)]),
            _ => 0,
        }
    }
}

/// Writes of an overwriting of a file of so many blocks.
pub(super) const fn writes(blocks: u64) -> u64 {
    (blocks * BLOCK as u64).div_ceil(BYTES_A_WRITE)
}

impl Act {
    /// It has figures of its own.
    pub fn is_told(self) -> bool {
        !matches!(self, Self::Prepare | Self::Age | Self::Churn)
    }

    /// It is about what is read; what it writes is not its own.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::List | Self::ListOld)
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prepare => "prepare",
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Overwrite => "overwrite",
            Self::Sync => "sync",
            Self::Serve => "serve",
            Self::Unpack => "unpack",
            Self::Build => "build",
            Self::Fresh => "fresh",
            Self::Age => "age",
            Self::Aged => "full and old",
            Self::Transact => "transact",
            Self::List => "list",
            Self::Churn => "churn",
            Self::ListOld => "list when old",
        })
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |blocks: u64| size_shown(blocks * BLOCK as u64);
        match self {
            Self::Files { blocks, count, each_pass } => {
                let when = if *each_pass { "each pass" } else { "each act" };
                write!(f, "{count} files of {}, synced after {when}", size(*blocks))
            }
            Self::Overwrite { blocks } => {
                let writes = writes(*blocks);
                write!(f, "{writes} blocks of a file of {}, synced every 32", size(*blocks))
            }
            Self::Synced { threads } => {
                let who = if *threads == 1 { "thread" } else { "threads" };
                write!(f, "{threads} {who}, each block of 4 KiB synced by itself")
            }
            Self::Latency => {
                f.write_str("Blocks of 4 KiB at half the rate that can be kept up, synced every 32")
            }
            Self::Directory { count } => write!(f, "A directory of {count} empty files"),
            Self::Sqlite { wal } => {
                let journal = if *wal { "a write-ahead log" } else { "a rollback journal" };
                write!(f, "{} transactions of SQLite with {journal}", self.transactions())
            }
            Self::Mail { rounds } => {
                write!(f, "{rounds} rounds of a mail server, two syncs in each")
            }
            Self::Tree { archive, build } => {
                let name = archive.file_name().unwrap_or_default().to_string_lossy();
                write!(f, "The tree of {name}")?;
                build.as_ref().map_or(Ok(()), |build| write!(f, ", built by {build}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_works() {
        let parse = |word: &str| Work::parse(word).unwrap();
        let known = Work::Files { blocks: 25, count: 1000, each_pass: true };
        assert_eq!(parse("100Kx1000/pass"), known);
        assert_eq!(known.logical(Act::Create), 102_400_000);
        assert_eq!(known.logical(Act::Update), 102_400_000);
        assert_eq!(parse("16Kx10").logical(Act::Update), 40_960);
        assert_eq!(parse("overwrite").logical(Act::Overwrite), 8192 * 4096);
        assert_eq!(parse("overwrite:1M"), Work::Overwrite { blocks: 256 });
        assert_eq!(parse("synced:8"), Work::Synced { threads: 8 });
        assert_eq!(parse("directory:1M"), Work::Directory { count: 1_000_000 });
        assert_eq!(parse("sqlite-wal").transactions(), 1500);
        assert_eq!(parse("mail"), parse("mail:1000"));
        let tree = Work::Tree { archive: "a.tar".into(), build: None };
        assert_eq!(parse("tree:a.tar"), tree);
        assert_eq!(tree.acts(), [Act::Unpack, Act::Delete]);
        let bad = [
            "",
            "x",
            "16Kx",
            "x10",
            "5x1",
            "16Kx0",
            "16K",
            "overwrite:",
            "sqlite",
            "4Kx2M",
            "synced:0",
            "directory:0",
            "mail:0",
            "tree:",
        ];
        for word in bad {
            assert_eq!(Work::parse(word).unwrap_err().exit, Exit::Usage, "{word}");
        }
    }
}
