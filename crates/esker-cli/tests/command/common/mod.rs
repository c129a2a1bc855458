//! What the tests of the command share: running it, scratch directories that clean up behind
//! themselves, and pictures of trees to compare.
//!
//! A test that mounts needs root and `/dev/fuse`. Without them it says so and is left out; with
//! `ESKER_CI=1` it fails instead, so that nothing is left out unseen.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod lab;
pub mod picture;
pub mod rich;
pub mod sent;
pub mod tar;
pub mod wasm;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The program under test.
pub const ESKER: &str = env!("CARGO_BIN_EXE_esker");

/// A directory for one test. Dropped, everything mounted in it is unmounted and it is removed.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("esker-cli-{}-{number}", std::process::id());
        let path = fs::canonicalize(std::env::temp_dir()).unwrap().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// A new directory in it.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        path
    }

    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        for line in table.lines().rev() {
            let point = line.split(' ').nth(1).unwrap_or_default();
            if Path::new(point).starts_with(&self.0) {
                let _ = Command::new("umount").args(["-l", point]).status();
            }
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether this test can mount; says so, or fails, where it cannot.
pub fn can_mount() -> bool {
    can("mount (root and /dev/fuse)", is_root() && Path::new("/dev/fuse").exists())
}

/// Whether this test can play other users.
pub fn can_switch_user() -> bool {
    can("become another user (root)", is_root())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn can(what: &str, able: bool) -> bool {
    if !able {
        assert!(std::env::var_os("ESKER_CI").is_none(), "this test must be able to {what}");
        eprintln!("LEFT OUT: this test must be able to {what}");
    }
    able
}

/// Runs `esker`.
pub fn esker<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Output {
    Command::new(ESKER).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs `esker mount mem: DIR` with further arguments, which must work.
pub fn mount(dir: &Path, arguments: &[&str]) {
    let output = command(dir, arguments).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
}

/// `esker mount mem: DIR` with further arguments.
pub fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(ESKER);
    command.args(["mount", "mem:"]).arg(dir).args(arguments).stdin(Stdio::null());
    command
}

/// What a run that went well printed.
#[track_caller]
pub fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", errors(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Bytes that nothing makes shorter, others for another seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let step = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(step).collect()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What it told.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// It failed with this status, in words that hold all of these, and nothing is mounted on `dir`.
#[track_caller]
pub fn refused(output: &Output, status: i32, words: &[&str], dir: &Path) {
    let text = errors(output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    assert!(text.starts_with("esker: "), "{text}");
    assert!(!text.contains("panic"), "{text}");
    for word in words {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    assert!(!is_mounted(dir), "half-mounted after: {text}");
}

/// Something is mounted exactly here.
pub fn is_mounted(dir: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    table.lines().any(|line| line.split(' ').nth(1) == dir.to_str())
}

/// Waits until something holds; for at most ten seconds.
pub fn within_seconds(mut holds: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// The process is alive, and no zombie.
pub fn is_alive(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// A child that is killed at the latest when the test ends.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
