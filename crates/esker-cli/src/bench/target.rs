//! Something to measure: brought up for the run, gone after it.
//!
//! Above: `bench::run`. Below: mount(8), mkfs(8), this program again as a server, [`Library`].
//! Invariant: what was brought up is taken down on every way out, a failed start included.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::statfs;
use serde_json::Value;

use super::files::{Kernel, Library};
use super::spec::Spec;
use super::stop;
use crate::failure::{Exit, Failure, Outcome, said, shown};

/// What kernels answer to statfs(2) for a FUSE mount.
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;
/// A mount that has not come up or gone down by then never will.
const PATIENCE: Duration = Duration::from_secs(20);
/// In a second, as /proc counts CPU time on every architecture that Linux still runs on.
const TICKS: u16 = 100;
/// The size of a loop device, in bytes; its image is sparse.
const LOOP_LEN: u64 = 16 << 30;

/// A target that is up.
pub struct Target {
    spec: Spec,
    name: String,
    path: PathBuf,
    daemon: Option<Child>,
    mounted: bool,
    image: Option<PathBuf>,
    /// The loop device over the image, where umount(8) does not free it.
    device: Option<PathBuf>,
    library: Option<Library>,
}

impl Target {
    /// Brings it up at `path`, which is ours; tables call it `name`.
    pub fn start(spec: &Spec, name: &str, path: &Path) -> Outcome<Self> {
        let mut target = Self {
            spec: spec.clone(),
            name: name.to_owned(),
            path: path.to_owned(),
            daemon: None,
            mounted: false,
            image: None,
            device: None,
            library: None,
        };
        if let Spec::Directory(directory) = spec {
            let number = path.file_name().unwrap_or_default().to_string_lossy();
            target.path = directory.join(format!("esker-bench-{}-{number}", std::process::id()));
        }
        fs::create_dir(&target.path).map_err(|error| {
            let what = format!("cannot write ({})", said(&error));
            Failure::at(Exit::Failed, &what, &target.path, "")
        })?;
        match spec {
            Spec::Memory(options) => {
                target.serve(&["mount", "-f", "mem:"].map(OsStr::new), options)?
            }
            Spec::Volume(options) => target.serve_volume(options)?,
            Spec::Null(options) => target.serve(&[OsStr::new("null-server")], options)?,
            Spec::Bare(device) => {
                let words = ["null-server".as_ref(), "--device".as_ref(), device.as_os_str()];
                target.serve(&words, "")?;
            }
            Spec::Library => target.library = Some(Library::new()?),
            Spec::Tmpfs => {
                target.mount(&["-t", "tmpfs", "-o", "nr_inodes=0", "tmpfs"].map(Path::new))?;
            }
            Spec::Loop(kind) => target.mount_image(kind)?,
            Spec::Image(image, options) => {
                let words = ["mount", "-f", "--json"].map(OsStr::new);
                target.serve(&[words.as_slice(), &[image.as_os_str()]].concat(), options)?;
            }
            Spec::Packed(kind, image) => {
                let [first, kind, second, options] = ["-t", kind, "-o", "loop,ro"].map(Path::new);
                target.mount(&[first, kind, second, options, image])?;
            }
            Spec::Device(kind, device, options) => {
                let options = if options.is_empty() { "defaults" } else { options };
                let [first, kind, second, options] = ["-t", kind, "-o", options].map(Path::new);
                target.mount(&[first, kind, second, options, device])?;
            }
            Spec::Slow(wait) => {
                let wait = wait.to_string();
                target.serve(&["slow-server", "--wait", &wait].map(OsStr::new), "")?;
            }
            Spec::Directory(_) => {}
        }
        Ok(target)
    }

    /// As tables have it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How to get at it through the kernel, or else in process.
    pub fn ground(&self) -> Result<Kernel, &Library> {
        self.library.as_ref().map_or_else(|| Ok(Kernel::new(&self.path)), Err)
    }

    /// Whatever a workload of this name left, it could be removed: others can run.
    pub fn is_clean(&self, workload: &str) -> bool {
        let left = fs::symlink_metadata(self.path.join(workload));
        self.library.is_none() && left.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Where its log goes, beside it.
    fn log(&self) -> PathBuf {
        self.path.with_extension("log")
    }

    /// Where what it prints goes.
    fn words(&self) -> PathBuf {
        self.path.with_extension("json")
    }

    /// Memory that its daemon holds, in bytes; nothing for what has no daemon of ours.
    pub fn resident(&self) -> Option<u64> {
        self.told("smaps_rollup", "Rss:")
    }

    /// The same at most so far.
    pub fn most_resident(&self) -> Option<u64> {
        self.told("status", "VmHWM:")
    }

    /// What the kernel tells of its daemon under a name, in bytes.
    fn told(&self, file: &str, name: &str) -> Option<u64> {
        let pid = self.daemon.as_ref()?.id();
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
    }

    /// CPU seconds of its daemon so far, user and system; 0 for what has none of ours.
    pub fn cpu(&self) -> f64 {
        let told = |pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let Some(stat) = self.daemon.as_ref().and_then(|child| told(child.id())) else {
            return 0.0;
        };
        // Behind the name, which may hold anything: the 12th and the 13th word.
        let words = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        let ticks: u32 = words.skip(11).take(2).filter_map(|word| word.parse::<u32>().ok()).sum();
        f64::from(ticks) / f64::from(TICKS)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It keeps what it is given.
    pub const fn remembers(&self) -> bool {
        !matches!(self.spec, Spec::Null(_))
    }

    /// It has a daemon of ours.
    pub const fn is_served(&self) -> bool {
        self.daemon.is_some()
    }

    /// How requests come to its daemon, and whether the kernel gathers writes.
    pub fn terms(&self) -> Option<String> {
        let options = self.spec.options()?;
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.daemon.as_ref()?.id())).ok()?;
        let is_ring = |link: &PathBuf| link.to_string_lossy().contains("io_uring");
        let links = descriptors.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        // A volume has one of its own, for what it writes.
        let own = usize::from(matches!(self.spec, Spec::Volume(_)));
        let rings = links.filter(is_ring).count();
        let way = if rings > own { "io_uring" } else { "the device" };
        let writeback = if options.mount.writeback { "writeback" } else { "no writeback" };
        Some(format!("transport over {way}, {writeback}"))
    }

    /// What its daemon said last, if it is a daemon and has said anything.
    pub fn last_words(&self) -> Option<String> {
        self.daemon.as_ref()?;
        let text = fs::read(self.log()).ok()?;
        let line = text.rsplit(|&byte| byte == b'\n').find(|line| !line.is_empty())?;
        Some(shown(line.strip_prefix(b"esker: ").unwrap_or(line)))
    }

    /// Takes it down, and says so if that failed. What its daemon printed last, where it has one and that is JSON.
    pub fn stop(mut self) -> Outcome<Value> {
        let served = self.is_served();
        self.take_down().map_err(|error| {
            let what = format!("cannot take down {} ({})", self.name, said(&error));
            Failure::at(Exit::Failed, &what, &self.path, "unmount it by hand")
        })?;
        // One without a daemon that was mounted here before has left its own there.
        let text = served.then(|| fs::read_to_string(self.words()).unwrap_or_default());
        let text = text.unwrap_or_default();
        let last = text.lines().next_back().and_then(|line| serde_json::from_str(line).ok());
        Ok(last.unwrap_or_default())
    }

    /// A volume on an image in RAM, through a loop device: what a kernel file system has, too.
    fn serve_volume(&mut self, options: &str) -> Outcome {
        let image = self.make_image("volume")?;
        let told = run("losetup", ["-f", "--show"].map(Path::new).into_iter().chain([&*image]))?;
        let device = PathBuf::from(told.trim());
        self.device = Some(device.clone());
        run(&this_program()?.to_string_lossy(), [Path::new("mkfs"), "--force".as_ref(), &device])?;
        self.serve(&["mount".as_ref(), "-f".as_ref(), device.as_os_str()], options)
    }

    fn serve(&mut self, verb: &[&OsStr], options: &str) -> Outcome {
        let unable = |error: io::Error| {
            let what = format!("cannot start a server: {}", said(&error));
            Failure::new(Exit::Failed, what, "")
        };
        let log = fs::File::create(self.log()).map_err(unable)?;
        let words = fs::File::create(self.words()).map_err(unable)?;
        let mut command = Command::new(this_program()?);
        command.args(verb).arg(&self.path).stdin(Stdio::null()).stdout(words).stderr(log);
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        // Ctrl-C is for us, who then take it down in order.
        let child = self.daemon.insert(command.process_group(0).spawn().map_err(unable)?);
        stop::has_begun(child);
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE && !stop::asked() {
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
        let why = self.last_words().unwrap_or_else(|| "it says nothing".to_owned());
        Err(Failure::new(Exit::Failed, format!("the server did not come up: {why}"), ""))
    }

    fn mount(&mut self, arguments: &[&Path]) -> Outcome {
        run("mount", arguments.iter().copied().chain([self.path.as_path()]))?;
        self.mounted = true;
        Ok(())
    }

    /// A file system on an image in RAM, through a loop device that mount(8) makes and umount(8) frees.
    fn mount_image(&mut self, kind: &str) -> Outcome {
        let image = self.make_image(kind)?;
        run(&format!("mkfs.{kind}"), [Path::new("-q"), &image])?;
        self.mount(&["-o".as_ref(), "loop".as_ref(), image.as_path()])
    }

    fn make_image(&mut self, kind: &str) -> Outcome<PathBuf> {
        if !Path::new("/dev/loop-control").exists() {
            let remedy = "as root, load them: modprobe loop";
            return Err(Failure::new(Exit::Failed, "there are no loop devices", remedy));
        }
        let number = self.path.file_name().unwrap_or_default().to_string_lossy();
        let own = format!("/dev/shm/esker-bench-{}-{kind}-{number}", std::process::id());
        let image = PathBuf::from(own);
        let unable = |error: io::Error| {
            let what = format!("cannot make an image ({})", said(&error));
            Failure::at(Exit::Failed, &what, &image, "")
        };
        let file = fs::File::create_new(&image).map_err(unable)?;
        self.image = Some(image.clone());
        file.set_len(LOOP_LEN).map_err(unable)?;
        Ok(image)
    }

    fn take_down(&mut self) -> io::Result<()> {
        if self.mounted {
            self.unmount()?;
            self.mounted = false;
        }
        if let Some(mut child) = self.daemon.take() {
            let ended = end(&mut child);
            stop::has_ended(&child);
            ended?;
        }
        if let Some(device) = self.device.take() {
            Command::new("losetup").arg("-d").arg(device).status()?;
        }
        if let Some(image) = self.image.take() {
            fs::remove_file(image)?;
        }
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// A mount that is still busy a moment after the last close is let go of lazily.
    fn unmount(&self) -> io::Result<()> {
        let ours = this_program().ok().filter(|_| self.daemon.is_some());
        for options in [&[][..], &["-l"]] {
            let mut command = match &ours {
                Some(program) => Command::new(program),
                None => Command::new("umount"),
            };
            let verb = ours.as_ref().map(|_| "umount");
            command.args(verb).args(options).arg(&self.path).process_group(0);
            if command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
                return Ok(());
            }
        }
        Err(io::Error::other("umount failed"))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // After `stop` there is nothing left to do; on the way out of a failure this is all we can.
        let _ = self.take_down();
    }
}

/// Waits for a server whose mount is gone, or kills it.
fn end(child: &mut Child) -> io::Result<()> {
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill()?;
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Where this program lies, to be run again.
pub fn this_program() -> Outcome<PathBuf> {
    std::env::current_exe().map_err(|error| {
        let what = format!("cannot find this program again: {}", said(&error));
        Failure::new(Exit::Failed, what, "")
    })
}

/// Runs a program to its end; what it printed.
pub fn run<'a>(program: &str, arguments: impl IntoIterator<Item = &'a Path>) -> Outcome<String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| {
        let what = format!("cannot run {program}: {}", said(&error));
        Failure::new(Exit::Failed, what, "install it, or leave this target out")
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let text = shown(text.lines().next().unwrap_or_default().as_bytes());
    let no_device = text.contains("loop device");
    let remedy = if no_device { "as root, load them: modprobe loop" } else { "" };
    Err(Failure::new(Exit::Failed, format!("{program} failed: {text}"), remedy))
}
