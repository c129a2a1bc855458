//! What is done to a file system to see what it writes.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::{fdatasync, statvfs, syncfs};

use super::super::stop;
use super::data::{BLOCK, Data, WRITES_A_SYNC, next};
use super::latency::{Latency, Writer};
use crate::failure::{Exit, Failure, Outcome, shown};
use crate::units::{parse_count, parse_size, size_shown};

/// An overwriting has one write for so many bytes of the file.
const BYTES_A_WRITE: u64 = 64 << 10;
/// Transactions of a database, without and with a journal that is deleted each time.
const TRANSACTIONS: [u32; 2] = [1500, 200];
/// A database's rows, in bytes.
const ROW: u32 = 100;
/// Blocks that are synced by themselves, and of how many each thread's file is.
const SYNCS: u64 = 4000;
const SYNCED_BLOCKS: u64 = 1024;
const THREADS_MAX: u64 = 64;
/// Names of a directory that are removed and made from one sync to the next.
const NAMES_A_SYNC: u64 = 10_000;
const FILES_MAX: u64 = 1_000_000;
const SIZE_MAX: u64 = 1 << 40;

/// What is done, in acts that are counted each by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// So many files of so many blocks: made in passes of a block to each, read, one block or all of each
    /// written anew, removed. Synced at the end, or after each pass.
    Files { blocks: u64, count: u64, each_pass: bool },
    /// Blocks at random places of a file of so many blocks, synced every [`WRITES_A_SYNC`].
    Overwrite { blocks: u64 },
    /// Blocks at random places of files, one for each of so many threads, each synced by itself.
    Synced { threads: u64 },
    /// Blocks of a file written over at a steady pace, on a fresh file system and on one that is full and old.
    Latency,
    /// A directory of so many files, listed when it is new, and when as many were removed and made in it.
    Directory { count: u64 },
    /// Small transactions of SQLite, with a write-ahead log or a journal.
    Sqlite { wal: bool },
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
    Transact,
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

/// What an act can tell of itself.
pub struct Done {
    /// How often all was asked to be safe.
    pub syncs: u64,
    /// Bytes that are taken.
    pub used: u64,
    /// What writes took, where that was looked at.
    pub latency: Option<Latency>,
}

impl Work {
    /// From a word of the command line.
    pub fn parse(word: &str) -> Outcome<Self> {
        let parsed = match word {
            "sqlite-wal" => Some(Self::Sqlite { wal: true }),
            "sqlite-delete" => Some(Self::Sqlite { wal: false }),
            "synced" => Some(Self::Synced { threads: 1 }),
            "latency" => Some(Self::Latency),
            "overwrite" => Some(Self::Overwrite { blocks: (512 << 20) / BLOCK as u64 }),
            _ => Self::sized(word),
        };
        parsed.ok_or_else(|| {
            let what = format!("no such work: {}", shown(word.as_bytes()));
            let remedy = "give SIZExFILES as in 16Kx10, SIZExFILES/pass, overwrite[:SIZE], \
                          synced[:THREADS], latency, directory:COUNT, sqlite-wal or \
                          sqlite-delete; sizes in whole blocks of 4K";
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

    /// Does it below `dir`.
    pub fn run(&self, act: Act, data: Data, dir: &Path) -> io::Result<Done> {
        let mut doer = Doer { dir, data, root: File::open(dir)?, syncs: 0, latency: None };
        match self {
            Self::Files { blocks, count, each_pass } => {
                doer.files(act, *blocks, *count, *each_pass)?;
            }
            Self::Overwrite { blocks } => doer.overwrite(act, *blocks)?,
            Self::Synced { threads } => doer.synced(act, *threads)?,
            Self::Latency => doer.paced(act)?,
            Self::Directory { count } => doer.directory(act, *count)?,
            Self::Sqlite { wal } => doer.sqlite(act, *wal)?,
        }
        let stat = statvfs(dir)?;
        let used = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize);
        Ok(Done { syncs: doer.syncs, used, latency: doer.latency })
    }
}

const fn writes(blocks: u64) -> u64 {
    (blocks * BLOCK as u64).div_ceil(BYTES_A_WRITE)
}

/// A work on its way.
struct Doer<'a> {
    dir: &'a Path,
    data: Data,
    root: File,
    syncs: u64,
    latency: Option<Latency>,
}

impl Doer<'_> {
    fn files(&mut self, act: Act, blocks: u64, count: u64, each_pass: bool) -> io::Result<()> {
        match act {
            Act::Create => self.passes(blocks, count, each_pass, |doer, pass, file| {
                let mut block = [0; BLOCK];
                doer.data.block(pass * count + file, &mut block);
                let path = doer.file(file);
                OpenOptions::new().append(true).create(true).open(path)?.write_all(&block)
            }),
            Act::Update => {
                let passes = if each_pass { blocks } else { 1 };
                self.passes(passes, count, each_pass, |doer, pass, file| {
                    let mut block = [0; BLOCK];
                    doer.data.block((blocks + pass) * count + file, &mut block);
                    let file = OpenOptions::new().write(true).open(doer.file(file))?;
                    file.write_all_at(&block, pass * BLOCK as u64)
                })
            }
            Act::Read => (0..count).try_for_each(|number| self.read(number, blocks, count)),
            _ => {
                (0..count).try_for_each(|number| fs::remove_file(self.file(number)))?;
                self.sync()
            }
        }
    }

    fn passes(
        &mut self,
        passes: u64,
        count: u64,
        each_pass: bool,
        mut write: impl FnMut(&Self, u64, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        for pass in 0..passes {
            stop::check()?;
            (0..count).try_for_each(|file| write(self, pass, file))?;
            if each_pass || pass + 1 == passes {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// Reads a file whole, and sees that it holds what was written.
    fn read(&self, number: u64, blocks: u64, count: u64) -> io::Result<()> {
        stop::check()?;
        let mut file = File::open(self.file(number))?;
        let (mut known, mut found) = ([0; BLOCK], [0; BLOCK]);
        for pass in 0..blocks {
            self.data.block(pass * count + number, &mut known);
            file.read_exact(&mut found)?;
            if found != known {
                return Err(io::Error::other("it holds other bytes than were written"));
            }
        }
        Ok(())
    }

    fn file(&self, number: u64) -> std::path::PathBuf {
        self.dir.join(format!("file{number}"))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        Ok(syncfs(&self.root)?)
    }

    fn overwrite(&mut self, act: Act, blocks: u64) -> io::Result<()> {
        if act == Act::Prepare {
            self.data.fill(&mut File::create_new(self.dir.join("file"))?, 0..blocks)?;
            return self.sync();
        }
        let mut block = [0; BLOCK];
        let file = OpenOptions::new().write(true).open(self.dir.join("file"))?;
        let mut state = blocks;
        for number in 1..=writes(blocks) {
            self.data.block(blocks + number, &mut block);
            file.write_all_at(&block, next(&mut state) % blocks * BLOCK as u64)?;
            if number % WRITES_A_SYNC == 0 {
                stop::check()?;
                fdatasync(&file)?;
                self.syncs += 1;
            }
        }
        self.sync()
    }

    fn synced(&mut self, act: Act, threads: u64) -> io::Result<()> {
        if act == Act::Prepare {
            for thread in 0..threads {
                let own = thread * SYNCED_BLOCKS..(thread + 1) * SYNCED_BLOCKS;
                self.data.fill(&mut File::create_new(self.file(thread))?, own)?;
            }
            return self.sync();
        }
        let each = SYNCS / threads;
        let one = |thread: u64| -> io::Result<()> {
            let file = OpenOptions::new().write(true).open(self.file(thread))?;
            let (mut state, mut block) = (thread + 1, [0; BLOCK]);
            for number in 0..each {
                self.data.block((1 << 32) + thread * each + number, &mut block);
                file.write_all_at(&block, next(&mut state) % SYNCED_BLOCKS * BLOCK as u64)?;
                stop::check()?;
                fdatasync(&file)?;
            }
            Ok(())
        };
        thread::scope(|scope| -> io::Result<()> {
            let one = &one;
            let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || one(number))).collect();
            let panicked = |_| Err(io::Error::other("a thread panicked"));
            all.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
        })?;
        self.syncs += each * threads;
        Ok(())
    }

    fn paced(&mut self, act: Act) -> io::Result<()> {
        let path = self.dir.join("file");
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        let mut writer = Writer::new(&file, self.data)?;
        match act {
            Act::Prepare => writer.begin()?,
            Act::Age => writer.age()?,
            _ => self.latency = Some(writer.measure()?),
        }
        self.syncs += writer.syncs;
        Ok(())
    }

    fn directory(&mut self, act: Act, count: u64) -> io::Result<()> {
        match act {
            Act::Create => (0..count).try_for_each(|number| {
                stop::check()?;
                File::create_new(self.file(number)).map(drop)
            })?,
            Act::Churn => {
                // One number for each name that is there now.
                let (mut there, mut chance) = ((0..count).collect::<Vec<_>>(), count);
                for number in count..2 * count {
                    stop::check()?;
                    let at = (next(&mut chance) % count) as usize;
                    fs::remove_file(self.file(std::mem::replace(&mut there[at], number)))?;
                    File::create_new(self.file(number))?;
                    if number.is_multiple_of(NAMES_A_SYNC) {
                        self.syncs += 1;
                        syncfs(&self.root)?;
                    }
                }
            }
            _ => {
                let mut found = 0;
                for entry in fs::read_dir(self.dir)? {
                    stop::check()?;
                    entry?.metadata()?;
                    found += 1;
                }
                if found != count {
                    return Err(io::Error::other(format!("{found} names, not {count}")));
                }
                return Ok(());
            }
        }
        self.sync()
    }

    fn sqlite(&mut self, act: Act, wal: bool) -> io::Result<()> {
        let journal = if wal { "WAL" } else { "DELETE" };
        let mut words = format!("PRAGMA journal_mode={journal};PRAGMA synchronous=FULL;\n");
        if act == Act::Prepare {
            words.push_str("CREATE TABLE t(id INTEGER PRIMARY KEY, row BLOB);\n");
        } else {
            let row = format!("INSERT INTO t(row) VALUES(randomblob({ROW}));\n");
            let transactions = Work::Sqlite { wal }.transactions();
            words.extend((0..transactions).map(|_| row.as_str()));
        }
        let path = self.dir.with_extension("sql");
        fs::write(&path, words)?;
        let mut command = Command::new("sqlite3");
        command.arg("-batch").arg("-bail").arg(self.dir.join("base")).stdin(File::open(path)?);
        let output = stop::run(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
        if !output.status.success() {
            let text = shown(output.stderr.split(|&byte| byte == b'\n').next().unwrap_or_default());
            return Err(io::Error::other(format!("sqlite3 failed: {text}")));
        }
        self.sync()
    }
}

impl Act {
    /// It has figures of its own.
    pub fn is_told(self) -> bool {
        !matches!(self, Self::Prepare | Self::Age | Self::Churn)
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
        ];
        for word in bad {
            assert_eq!(Work::parse(word).unwrap_err().exit, Exit::Usage, "{word}");
        }
    }

    /// All acts in a plain directory.
    #[test]
    fn works_do_what_they_say() {
        let dir = std::env::temp_dir().join(format!("esker-work-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let work = Work::parse("8Kx3/pass").unwrap();
        let run = |act| work.run(act, Data::Half, &dir).map(|done| done.syncs);
        assert_eq!(run(Act::Create).unwrap(), 2);
        assert_eq!(run(Act::Read).unwrap(), 0);
        assert_eq!(run(Act::Update).unwrap(), 2);
        assert!(run(Act::Read).unwrap_err().to_string().contains("other bytes"));
        assert_eq!(run(Act::Delete).unwrap(), 1);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        let work = Work::parse("overwrite:4M").unwrap();
        work.run(Act::Prepare, Data::Random, &dir).unwrap();
        assert_eq!(work.run(Act::Overwrite, Data::Random, &dir).unwrap().syncs, 3);
        fs::remove_file(dir.join("file")).unwrap();
        let work = Work::parse("directory:30").unwrap();
        for act in work.acts() {
            work.run(act, Data::Random, &dir).unwrap();
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 30, "{act}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
