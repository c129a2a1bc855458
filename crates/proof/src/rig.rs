//! Mounts for tests: the kernel's tmpfs, and Esker through the binary that people use.
//!
//! Above: the tests. Invariant: what was mounted here is unmounted here, and what was started is ended, by its
//! own id, whatever fails in between.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Whether tests may mount. In CI (`ESKER_CI=1`) they must.
///
/// # Panics
/// In CI, when they may not.
#[must_use]
pub fn may_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    let lacks = match (root, Path::new("/dev/fuse").exists()) {
        (true, true) => return true,
        (false, _) => "not root",
        (_, false) => "no /dev/fuse",
    };
    assert!(std::env::var("ESKER_CI").as_deref() != Ok("1"), "in CI every test must run: {lacks}");
    eprintln!("SKIPPED: {lacks}; run as root on a kernel with FUSE to have this tested");
    false
}

/// A directory of its own under the system's temporary directory, removed when it goes if it is empty by then.
#[derive(Debug)]
pub struct Place(PathBuf);

impl Place {
    /// # Errors
    /// What the system says.
    pub fn new(name: &str) -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let path = std::env::temp_dir().join(format!("esker-proof-{name}-{process}-{count}"));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Where.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// A mounted file system.
#[derive(Debug)]
pub struct Mount {
    place: Place,
    daemon: Option<Child>,
    cases: AtomicU32,
    volume: Option<Volume>,
}

/// A volume in a file, which goes with its mount.
#[derive(Debug)]
struct Volume {
    file: PathBuf,
    options: String,
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Mount {
    /// A fresh tmpfs.
    ///
    /// # Errors
    /// What mount(2) says.
    pub fn tmpfs(name: &str) -> Result<Self, String> {
        let place = Place::new(name)?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        let data = c"mode=1777,size=1g,nr_inodes=0";
        mount("tmpfs", place.path(), "tmpfs", flags, data)
            .map_err(|errno| format!("no tmpfs on {}: {errno}", place.path().display()))?;
        Ok(Self { place, daemon: None, cases: AtomicU32::new(0), volume: None })
    }

    /// A fresh Esker in memory, with these options besides the usual (`size=256m`, say).
    ///
    /// # Errors
    /// In words, when the program cannot be built or does not mount.
    pub fn esker(name: &str, options: &str) -> Result<Self, String> {
        let place = Place::new(name)?;
        let daemon = start("mem:", place.path(), options)?;
        Ok(Self { place, daemon: Some(daemon), cases: AtomicU32::new(0), volume: None })
    }

    /// A fresh volume of this size in a file, with these options besides the usual.
    ///
    /// # Errors
    /// In words, when it cannot be made or mounted.
    pub fn volume(name: &str, size: &str, options: &str) -> Result<Self, String> {
        let place = Place::new(name)?;
        let file = place.path().with_extension("vol");
        let options = options.to_owned();
        let volume = Volume { file, options };
        let file = volume.file.to_string_lossy().into_owned();
        run(&["mkfs", &file, "--size", size])?;
        let daemon = start(&file, place.path(), &volume.options)?;
        let cases = AtomicU32::new(0);
        let mut mount = Self { place, daemon: Some(daemon), cases, volume: Some(volume) };
        mount.open_to_all()?;
        Ok(mount)
    }

    /// An image.
    ///
    /// # Errors
    /// In words, when it does not mount.
    pub fn image(name: &str, image: &Path) -> Result<Self, String> {
        let place = Place::new(name)?;
        let daemon = start(&image.to_string_lossy(), place.path(), "")?;
        Ok(Self { place, daemon: Some(daemon), cases: AtomicU32::new(0), volume: None })
    }

    fn open_to_all(&mut self) -> Result<(), String> {
        let mode = Mode::from_raw_mode(0o1777);
        let opened = rustix::fs::chmodat(CWD, self.path(), mode, AtFlags::empty());
        opened.map_err(|errno| format!("chmod: {errno}"))
    }

    /// Unmounts a volume, or what is left when its server was killed.
    ///
    /// # Errors
    /// In words.
    pub fn leave(&mut self) -> Result<(), String> {
        let path = self.place.path().to_owned();
        unmount(&path, UnmountFlags::empty()).map_err(|errno| format!("unmounting: {errno}"))?;
        let Some(mut daemon) = self.daemon.take() else { return Ok(()) };
        daemon.wait().map(drop).map_err(|error| format!("the daemon: {error}"))
    }

    /// Mounts a volume again that was left.
    ///
    /// # Errors
    /// In words.
    pub fn mount_again(&mut self) -> Result<(), String> {
        let volume = self.volume.as_ref().ok_or("no volume")?;
        let file = volume.file.to_string_lossy().into_owned();
        self.daemon = Some(start(&file, self.place.path(), &volume.options)?);
        Ok(())
    }

    /// The file that a volume lies in.
    #[must_use]
    pub fn source(&self) -> Option<String> {
        self.volume.as_ref().map(|volume| volume.file.to_string_lossy().into_owned())
    }

    /// Checks a volume that was left.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn check(&self) -> Result<(), String> {
        let volume = self.volume.as_ref().ok_or("no volume")?;
        run(&["check", &volume.file.to_string_lossy()])
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// A fresh directory in it, open to all, its times long ago.
    ///
    /// # Errors
    /// What the system says.
    pub fn case(&self) -> Result<PathBuf, String> {
        let number = self.cases.fetch_add(1, Ordering::Relaxed);
        let path = self.path().join(format!("case{number}"));
        let make = || -> rustix::io::Result<()> {
            rustix::fs::mkdirat(CWD, &path, Mode::from_raw_mode(0o777))?;
            rustix::fs::chownat(CWD, &path, Some(Uid::ROOT), Some(Gid::ROOT), AtFlags::empty())?;
            rustix::fs::chmodat(CWD, &path, Mode::from_raw_mode(0o1777), AtFlags::empty())?;
            let old = Timespec { tv_sec: 1_000, tv_nsec: 0 };
            let times = Timestamps { last_access: old, last_modification: old };
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())
        };
        make().map_err(|errno| format!("{}: {errno}", path.display()))?;
        Ok(path)
    }

    /// The daemon behind it.
    #[must_use]
    pub fn daemon_id(&self) -> Option<u32> {
        self.daemon.as_ref().map(Child::id)
    }

    /// Bytes of memory that the daemon has resident.
    #[must_use]
    pub fn daemon_resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/statm", self.daemon_id()?)).ok()?;
        let pages: u64 = status.split(' ').nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }

    /// Kills the daemon as `kill -9` does; the mount point is left as it is.
    pub fn kill_daemon(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let path = self.place.path().to_owned();
        if unmount(&path, UnmountFlags::empty()).is_err() {
            let _ = unmount(&path, UnmountFlags::DETACH);
        }
        if let Some(mut daemon) = self.daemon.take() {
            let until = Instant::now() + Duration::from_secs(10);
            while Instant::now() < until {
                if matches!(daemon.try_wait(), Ok(Some(_)) | Err(_)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            eprintln!("the daemon of {} did not go by itself", path.display());
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Runs a verb to its end.
///
/// # Errors
/// What it says, when it fails.
pub fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(program()?).args(words).output();
    let output = output.map_err(|error| format!("{words:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let told = [output.stdout, output.stderr].concat();
    Err(format!("{words:?}: {}", String::from_utf8_lossy(&told)))
}

fn start(source: &str, place: &Path, options: &str) -> Result<Child, String> {
    let program = program()?;
    // A volume keeps its root directory as it is.
    let root = if source == "mem:" { "mode=1777" } else { "" };
    // The mode that all mounts of this run are in; what a test asks for counts more.
    let mode = std::env::var("ESKER_OPTIONS").unwrap_or_default();
    let options = ["allow_other,nodev,nosuid", root, &mode, options]
        .into_iter()
        .filter(|part| !part.is_empty());
    let options = options.collect::<Vec<_>>().join(",");
    let mut command = Command::new(program);
    command.args(["mount", "-f", "-o", &options, source]).arg(place).stdin(Stdio::null());
    let told = || format!("{command:?}");
    let told = told();
    let mut daemon = command.spawn().map_err(|error| format!("{told}: {error}"))?;
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if is_mounted(place) && std::fs::metadata(place).is_ok() {
            return Ok(daemon);
        }
        if let Ok(Some(status)) = daemon.try_wait() {
            return Err(format!("{told}: {status}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = daemon.kill();
    let _ = daemon.wait();
    Err(format!("{told}: not mounted after 20 s"))
}

/// Whether something is mounted exactly there.
#[must_use]
pub fn is_mounted(place: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let place = place.to_string_lossy();
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(&*place))
}

/// The `esker` binary: `ESKER_BIN`, or built once with the cargo that runs the tests, in the same profile.
///
/// # Errors
/// In words, when it cannot be built.
pub fn program() -> Result<&'static Path, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(build).as_deref().map_err(Clone::clone)
}

fn build() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os("ESKER_BIN") {
        return Ok(program.into());
    }
    // The tests lie in <target>/<profile>/deps.
    let test = std::env::current_exe().map_err(|error| error.to_string())?;
    let profile = test.parent().and_then(Path::parent).ok_or("no target directory")?;
    let target = profile.parent().ok_or("no target directory")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "-p", "esker-cli", "--bin", "esker", "--target-dir"]);
    cargo.arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.file_name().is_some_and(|name| name == "release") {
        cargo.arg("--release");
    }
    let status = cargo.status().map_err(|error| format!("{cargo:?}: {error}"))?;
    if status.success() { Ok(profile.join("esker")) } else { Err(format!("{cargo:?}: {status}")) }
}
