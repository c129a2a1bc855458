//! Something to measure: brought up for the run, gone after it.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::statfs;

use crate::failure::{Exit, Failure, Outcome};

/// What kernels answer to statfs(2) for a FUSE mount.
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;
/// A mount that has not come up or gone down by then never will.
const PATIENCE: Duration = Duration::from_secs(20);

/// A target as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// `mem:` with further mount options: Esker, mounted.
    Memory(String),
    /// `null:`: a server that does nothing, mounted with the same options: the bound.
    Null(String),
    /// `tmpfs:`: the kernel's memory file system.
    Tmpfs,
    /// `ext4:`, `xfs:`, `btrfs:`: a kernel file system on a loop device in RAM.
    Loop(String),
    /// A directory that is there already.
    Directory(PathBuf),
}

impl Spec {
    /// From a word of the command line.
    pub fn parse(word: &str) -> Outcome<Self> {
        let spec = match word.split_once(':') {
            Some(("mem", options)) => Self::Memory(options.to_owned()),
            Some(("null", options)) => Self::Null(options.to_owned()),
            Some(("tmpfs", "")) => Self::Tmpfs,
            Some((kind @ ("ext4" | "xfs" | "btrfs"), "")) => Self::Loop(kind.to_owned()),
            _ if Path::new(word).is_dir() => Self::Directory(PathBuf::from(word)),
            _ => {
                return Err(Failure::new(
                    Exit::Usage,
                    format!("no such target: {word}"),
                    "name a directory, or mem: null: tmpfs: ext4: xfs: btrfs:",
                ));
            }
        };
        Ok(spec)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(options) if options.is_empty() => f.write_str("esker"),
            Self::Memory(options) => write!(f, "esker,{options}"),
            Self::Null(options) if options.is_empty() => f.write_str("null"),
            Self::Null(options) => write!(f, "null,{options}"),
            Self::Tmpfs => f.write_str("tmpfs"),
            Self::Loop(kind) => write!(f, "{kind}-loop"),
            Self::Directory(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A target that is up.
pub struct Target {
    name: String,
    path: PathBuf,
    daemon: Option<Child>,
    mounted: bool,
    image: Option<PathBuf>,
}

impl Target {
    /// Brings it up at `path`, which is ours.
    pub fn start(spec: &Spec, path: &Path) -> Outcome<Self> {
        let mut target = Self {
            name: spec.to_string(),
            path: path.to_owned(),
            daemon: None,
            mounted: false,
            image: None,
        };
        if let Spec::Directory(directory) = spec {
            target.path = directory.join(format!("esker-bench-{}", std::process::id()));
        }
        fs::create_dir_all(&target.path).map_err(|error| {
            Failure::at(Exit::Failed, &format!("cannot write ({error})"), &target.path, "")
        })?;
        match spec {
            Spec::Memory(options) => target.serve("mount", &["-f", "mem:"], options)?,
            Spec::Null(options) => target.serve("null-server", &[], options)?,
            Spec::Tmpfs => target.mount(&["-t", "tmpfs", "-o", "size=90%", "tmpfs"])?,
            Spec::Loop(kind) => target.mount_image(kind)?,
            Spec::Directory(_) => {}
        }
        Ok(target)
    }

    /// As tables have it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where to work.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Memory that its daemon holds, in bytes; nothing for what has no daemon of ours.
    pub fn resident(&self) -> Option<u64> {
        let pid = self.daemon.as_ref()?.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
    }

    /// It has a daemon of ours that remembers what it is given.
    pub fn remembers(&self) -> bool {
        self.daemon.is_some() && !self.name.starts_with("null")
    }

    /// It is the server that does nothing.
    pub fn is_null(&self) -> bool {
        self.name.starts_with("null")
    }

    /// Takes it down, and says so if that failed.
    pub fn stop(mut self) -> Outcome {
        self.take_down().map_err(|error| {
            let what = format!("cannot take down {} ({error})", self.name);
            Failure::at(Exit::Failed, &what, &self.path, "unmount it by hand")
        })
    }

    fn serve(&mut self, verb: &str, before: &[&str], options: &str) -> Outcome {
        let program = std::env::current_exe().map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot find this program again: {error}"), "")
        })?;
        let mut command = Command::new(program);
        command.arg(verb).args(before).arg(&self.path).stdin(Stdio::null());
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        let child = command.spawn().map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot start a server: {error}"), "")
        })?;
        self.daemon = Some(child);
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            #[allow(clippy::useless_conversion, reason = "the field's type depends on the target")]
            let up =
                statfs(&self.path).is_ok_and(|stat| i64::from(stat.f_type) == FUSE_SUPER_MAGIC);
            if up {
                self.mounted = true;
                return Ok(());
            }
            let ended = self.daemon.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() {
                break;
            }
            sleep(Duration::from_millis(5));
        }
        let what = format!("{} did not come up", self.name);
        Err(Failure::at(Exit::Failed, &what, &self.path, "see its message above"))
    }

    fn mount(&mut self, arguments: &[&str]) -> Outcome {
        run("mount", arguments.iter().map(Path::new).chain([self.path.as_path()]))?;
        self.mounted = true;
        Ok(())
    }

    /// A file system on an image in RAM, through a loop device that mount(8) makes and umount(8) frees.
    fn mount_image(&mut self, kind: &str) -> Outcome {
        let image = PathBuf::from(format!("/dev/shm/esker-bench-{}-{kind}", std::process::id()));
        let sparse = fs::File::create_new(&image).and_then(|file| file.set_len(16 << 30));
        sparse.map_err(|error| {
            Failure::at(Exit::Failed, &format!("cannot make an image ({error})"), &image, "")
        })?;
        self.image = Some(image.clone());
        run(&format!("mkfs.{kind}"), [Path::new("-q"), &image])?;
        self.mount(&["-o", "loop", &image.to_string_lossy()])
    }

    fn take_down(&mut self) -> io::Result<()> {
        if self.mounted {
            // A mount that is still busy a moment after the last close is let go of lazily.
            let plain = Command::new("umount").arg(&self.path).stderr(Stdio::null()).status()?;
            if !plain.success() {
                Command::new("umount").arg("-l").arg(&self.path).status()?;
            }
            self.mounted = false;
        }
        if let Some(mut child) = self.daemon.take() {
            let begin = Instant::now();
            while child.try_wait()?.is_none() {
                if begin.elapsed() > PATIENCE {
                    child.kill()?;
                }
                sleep(Duration::from_millis(5));
            }
        }
        if let Some(image) = self.image.take() {
            fs::remove_file(image)?;
        }
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // After `stop` there is nothing left to do; on the way out of a failure this is all we can.
        let _ = self.take_down();
    }
}

fn run<'a>(program: &str, arguments: impl IntoIterator<Item = &'a Path>) -> Outcome {
    let output = Command::new(program).args(arguments).output().map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot run {program}: {error}"), "install it")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(Exit::Failed, format!("{program} failed: {}", said.trim()), ""))
}
