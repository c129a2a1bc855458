//! Doing what is measured: each act of a work, below a directory.
//!
//! Above: [`super::cost`]. Below: `work` says what, [`data`](super::data) gives the bytes. Invariant: the same calls
//! with the same bytes on every file system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::{fdatasync, fstatfs, statvfs, syncfs};

use super::super::stop;
use super::super::workloads::tree;
use super::data::{BLOCK, Data, WRITES_A_SYNC, next};
use super::latency::{Latency, Writer};
use super::mail::{self, Mail};
use super::work::{Act, ROW, SYNCS, Work, writes};
use crate::failure::shown;

/// What statfs(2) says of a file system that a server serves.
const FUSE_MAGIC: i64 = 0x6573_5546;
/// Blocks of each thread's file of which some are synced by themselves.
const SYNCED_BLOCKS: u64 = 1024;
/// Names of a directory that are removed and made from one sync to the next.
const NAMES_A_SYNC: u64 = 10_000;

/// What an act can tell of itself.
pub struct Done {
    /// How often all was asked to be safe.
    pub syncs: u64,
    /// Bytes that are taken.
    pub used: u64,
    /// What writes took, where that was looked at.
    pub latency: Option<Latency>,
}

/// Does an act of a work below `dir`.
pub fn run(work: &Work, act: Act, data: Data, dir: &Path) -> io::Result<Done> {
    let mut doer = Doer { dir, data, root: File::open(dir)?, syncs: 0, latency: None };
    match work {
        Work::Files { blocks, count, each_pass } => {
            doer.files(act, *blocks, *count, *each_pass)?;
        }
        Work::Overwrite { blocks } => doer.overwrite(act, *blocks)?,
        Work::Synced { threads } => doer.synced(act, *threads)?,
        Work::Latency => doer.paced(act)?,
        Work::Directory { count } => doer.directory(act, *count)?,
        Work::Sqlite { wal } => doer.sqlite(act, *wal)?,
        Work::Mail { rounds } => doer.mail(act, *rounds)?,
        Work::Tree { archive, build } => doer.tree(act, archive, build.as_deref())?,
    }
    let stat = statvfs(dir)?;
    let used = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize);
    Ok(Done { syncs: doer.syncs, used, latency: doer.latency })
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
        syncfs(&self.root)?;
        // Linux before 6.18 does not tell a server of that: it is told here, and has nothing more to do if it was.
        if fstatfs(&self.root)?.f_type == FUSE_MAGIC {
            self.root.sync_all()?;
        }
        Ok(())
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
            // Who keeps nothing does not have what was prepared.
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(false).open(self.file(thread))?;
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
                        self.sync()?;
                    }
                }
            }
            _ => {
                let mut found = 0;
                for entry in fs::read_dir(self.dir)? {
                    stop::check()?;
                    let entry = entry?;
                    entry.metadata()?;
                    // ext4 has that in every root.
                    found += u64::from(entry.file_name() != "lost+found");
                }
                if found != count {
                    return Err(io::Error::other(format!("{found} names, not {count}")));
                }
                return Ok(());
            }
        }
        self.sync()
    }

    fn mail(&mut self, act: Act, rounds: u64) -> io::Result<()> {
        let mut mail = Mail::new(self.dir, self.data);
        if act == Act::Prepare {
            mail.begin()?;
            return self.sync();
        }
        self.syncs += mail::SYNCS_A_ROUND * rounds;
        mail.serve(rounds)
    }

    fn tree(&mut self, act: Act, archive: &Path, build: Option<&str>) -> io::Result<()> {
        let top = self.dir.join("tree");
        match act {
            Act::Unpack => {
                fs::create_dir(&top)?;
                tree::unpack(archive, &top)?;
            }
            Act::Build => tree::build(&top, build.unwrap_or_default())?,
            _ => fs::remove_dir_all(&top)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All acts in a plain directory.
    #[test]
    fn works_do_what_they_say() {
        let dir = std::env::temp_dir().join(format!("esker-work-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let work = Work::parse("8Kx3/pass").unwrap();
        let done = |act| run(&work, act, Data::Half, &dir).map(|done| done.syncs);
        assert_eq!(done(Act::Create).unwrap(), 2);
        assert_eq!(done(Act::Read).unwrap(), 0);
        assert_eq!(done(Act::Update).unwrap(), 2);
        assert!(done(Act::Read).unwrap_err().to_string().contains("other bytes"));
        assert_eq!(done(Act::Delete).unwrap(), 1);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        let work = Work::parse("overwrite:4M").unwrap();
        run(&work, Act::Prepare, Data::Random, &dir).unwrap();
        assert_eq!(run(&work, Act::Overwrite, Data::Random, &dir).unwrap().syncs, 3);
        fs::remove_file(dir.join("file")).unwrap();
        let work = Work::parse("directory:30").unwrap();
        for act in work.acts() {
            run(&work, act, Data::Random, &dir).unwrap();
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 30, "{act}");
        }
        let archive = dir.with_extension("tar");
        let mut tar = Command::new("tar");
        assert!(
            tar.arg("-C").arg(&dir).arg("-cf").arg(&archive).arg(".").status().unwrap().success()
        );
        let build = Some("echo built > built".to_owned());
        let work = Work::Tree { archive: archive.clone(), build };
        let names = || fs::read_dir(dir.join("tree")).map_or(0, Iterator::count);
        let counts = work.acts().into_iter().map(|act| {
            run(&work, act, Data::Random, &dir).unwrap();
            names()
        });
        assert_eq!(counts.collect::<Vec<_>>(), [30, 31, 0]);
        fs::remove_file(archive).unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }
}
