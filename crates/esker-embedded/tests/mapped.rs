//! A file mapped into memory: it outlives the process, whenever that is killed, and nobody else gets in between.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use esker::ground::{Heap, Memory, Undo};
use esker::{Kind, Result, Time};
use esker_embedded::{Fd, Files, Open};
use esker_host::MappedFile;

const SIZE_MAX: u64 = 1 << 30;
/// Where the child finds the file, and at which write it dies.
const PATH: &str = "ESKER_MAPPED_PATH";
const LAST: &str = "ESKER_MAPPED_LAST";
const STEPS: u64 = 120;

fn now() -> Time {
    Time { secs: 5, nanos: 0 }
}

/// One call, the `step`th of a story.
fn call<M: Memory>(files: &mut Files<M>, open: &mut Fd, step: u64) -> Result<()> {
    let round = step / 8;
    let name = format!("file{round}");
    let bytes = vec![step as u8 + 1; 700 * step as usize];
    match step % 8 {
        0 => *open = files.open(Fd::ROOT, name.as_bytes(), Open::CREATE)?,
        // In its record, as small files are.
        1 if step % 16 == 1 => assert_eq!(files.write(*open, &[step as u8; 300])?, 300),
        3 => files.set_len(*open, 300 * step)?,
        5 => files.close(*open)?,
        6 => {
            let kept = format!("kept{}", round % 5);
            files.rename(Fd::ROOT, name.as_bytes(), Fd::ROOT, kept.as_bytes())?;
        }
        7 if round % 3 == 2 => files.unlink(Fd::ROOT, format!("kept{}", round % 5).as_bytes())?,
        7 => files.mkdir(Fd::ROOT, format!("dir{round}").as_bytes())?,
        _ => assert_eq!(files.write(*open, &bytes)?, bytes.len()),
    }
    Ok(())
}

/// Every name with what it leads to.
fn dump<M: Memory>(files: &mut Files<M>) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut names = Vec::new();
    let each = &mut |entry: esker::posix::Dirent<'_>| {
        names.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.kind));
        ControlFlow::Continue(())
    };
    files.list(Fd::ROOT, b".", each).unwrap();
    let mut content = |(name, kind): (String, Kind)| {
        if kind == Kind::Directory {
            return (name, None);
        }
        let file = files.open(Fd::ROOT, name.as_bytes(), Open::READ).unwrap();
        let mut bytes = vec![0; files.stat(file).unwrap().size as usize];
        assert_eq!(files.read(file, &mut bytes), Ok(bytes.len()));
        files.close(file).unwrap();
        (name, Some(bytes))
    };
    names.into_iter().map(&mut content).collect()
}

/// What there is after so many calls.
fn expected(calls: u64) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut files = Files::open_memory(Heap::new(), now).unwrap();
    let mut open = Fd::ROOT;
    (0..calls).for_each(|step| call(&mut files, &mut open, step).unwrap());
    dump(&mut files)
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = format!("esker-mapped-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

static WRITES: AtomicU64 = AtomicU64::new(0);

/// Kills the process half-way through a write.
struct Deadly(MappedFile, u64);

impl Memory for Deadly {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        self.0.grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.0.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        if WRITES.fetch_add(1, Relaxed) + 1 < self.1 {
            return self.0.write(at, source);
        }
        self.0.write(at, &source[..source.len() / 2])?;
        let this = rustix::process::getpid();
        rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
        unreachable!("killed")
    }
}

/// What dies in the test below; as a test of its own it does nothing.
#[test]
fn child() {
    let (Ok(path), Ok(last)) = (std::env::var(PATH), std::env::var(LAST)) else { return };
    let last = last.parse().unwrap();
    let map = |name: &str| Deadly(MappedFile::open(Path::new(name), SIZE_MAX).unwrap(), last);
    let undo = Undo::open(map(&path), map(&format!("{path}.undo"))).unwrap();
    let mut files = Files::open_memory(undo, now).unwrap();
    let mut open = Fd::ROOT;
    for step in 0..STEPS {
        call(&mut files, &mut open, step).unwrap();
        std::fs::write(format!("{path}.calls"), (step + 1).to_string()).unwrap();
    }
}

/// Runs the child until it dies at write `last`; how many calls returned, or nothing if it lived.
fn life(path: &Path, last: u64) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture"]).env(PATH, path).env(LAST, last.to_string());
    let status = child.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    let calls = std::fs::read_to_string(path.with_extension("calls"));
    let calls = calls.map_or(0, |calls| calls.parse().unwrap_or(0));
    (!status.success()).then_some(calls)
}

/// Killed at one write after the other: what a returned call did is there, and of the one under way all or nothing.
#[test]
fn a_killed_process_leaves_the_state_before_or_after_its_call() {
    let dir = Folder::new("killed");
    let (mut last, mut lives) = (1, 0);
    loop {
        let path = dir.0.join(last.to_string());
        let Some(calls) = life(&path, last) else { break };
        lives += 1;
        let memory = MappedFile::open_whole(&path, SIZE_MAX).unwrap();
        let mut files = Files::open_memory(memory, now).unwrap();
        assert_eq!(files.fs().store().check(), []);
        let found = dump(&mut files);
        let same = found == expected(calls) || found == expected(calls + 1);
        assert!(same, "killed at write {last}, in call {calls}: {:?}", found.keys());
        drop(files);
        std::fs::remove_file(&path).unwrap();
        last += 1 + last / 20;
    }
    assert!(lives > 60, "{lives} lives");
}

/// Opens what was just closed. A process that another test starts right then has all that is open here, and so the
/// lock, until it runs its own program.
fn again<T>(open: impl Fn() -> std::io::Result<T>) -> std::io::Result<T> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match open() {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::yield_now();
            }
            opened => return opened,
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let dir = Folder::new("wrong");
    let path = dir.0.join("home");
    let mut files =
        Files::open_memory(MappedFile::open_whole(&path, 1 << 20).unwrap(), now).unwrap();
    let busy = MappedFile::open_whole(&path, 1 << 20).err().map(|error| error.kind());
    assert_eq!(busy, Some(ErrorKind::WouldBlock), "somebody else has it");
    let file = files.open(Fd::ROOT, b"large", Open::CREATE).unwrap();
    assert_eq!(files.write(file, &vec![1; 2 << 20]), Err(esker::Error::NoSpace));
    assert_eq!(files.write(file, &[1; 5000]), Ok(5000));
    drop(files);
    let short = again(|| MappedFile::open(&path, 1 << 16)).err().map(|error| error.kind());
    assert_eq!(short, Some(ErrorKind::FileTooLarge));
    let mut files =
        Files::open_memory(again(|| MappedFile::open_whole(&path, 1 << 20)).unwrap(), now).unwrap();
    assert_eq!(files.stat_path(Fd::ROOT, b"large", true).unwrap().size, 5000);
    drop(files);
    std::fs::write(dir.0.join("home.undo"), [7; 100]).unwrap();
    let other = again(|| MappedFile::open_whole(&path, 1 << 20)).err().map(|error| error.kind());
    assert_eq!(other, Some(ErrorKind::InvalidData), "a log that is none");
}
