//! Serving file systems: made and filled, or opened; mounted, until somebody unmounts them or says stop.
//!
//! Above: `verbs::mount`. Below: `homes`, the core, the door. Invariant: whatever fails before the
//! mount answers leaves nothing mounted; whatever ends us afterwards unmounts first.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use esker::posix::Fs;
use esker::store::{ReadOnly, Store};
use esker_fuse::mount::{MountError, Mounted, examine};
use esker_fuse::{Control, Door, Running, SessionError, converse, mount};
use esker_host::SystemClock;
use esker_volume::Snapped;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::homes::Images;
use crate::import::{self, Filled};
use crate::options::Options;
use crate::printed::printer;
use crate::profile::{self, Desk, Profiled};
use crate::sandbox::Needs;
use crate::stats::Server;
use crate::volumes::Writable;
use crate::{filling, fitting, homes, housekeeping, log, mounts, printed, sandbox, volumes};

/// What to serve.
pub struct Plan<'a> {
    /// Mount points, each with what is to be there.
    pub mounts: Vec<(&'a Path, HomePlan<'a>)>,
    /// How.
    pub options: &'a Options,
    /// Images that others may have as their base.
    pub bases: &'a [PathBuf],
    /// A machine reads standard output: it is told when all answer, and when each is over.
    pub says: bool,
}

/// The home of what is served.
pub enum HomePlan<'a> {
    /// Memory, filled with something or not.
    Memory(Option<import::Request<'a>>),
    /// An image.
    Image(&'a Path),
    /// An image, and the file that is to say what of it was read.
    Profiled(&'a Path, &'a Path),
    /// Memory that an image is moved to while it is used.
    Lazy(&'a Path),
    /// Memory for what changes, above an image.
    Overlay(&'a Path),
    /// A volume.
    Volume(&'a Path),
    /// A snapshot of a volume, which is named behind it.
    Snapshot(&'a Path),
}

/// File systems that are mounted and answer.
pub struct Served {
    mounts: Vec<Serving>,
    /// About each mount, for a machine.
    pub reports: Vec<Value>,
    /// Where nothing but images is served, rights are given up.
    confined: Option<Needs>,
}

/// One of them.
struct Attached {
    running: Running,
    mounted: Arc<Mounted>,
    report: Value,
    finish: Option<Finish>,
}

/// One that ends as all others do.
struct Serving {
    running: Running,
    mounted: Arc<Mounted>,
    ending: Arc<Ending>,
}

impl Attached {
    fn ready(self, says: bool) -> Serving {
        let says = says.then(|| self.report["mounted"].clone());
        let ending = Arc::new(Ending { finish: self.finish, says, done: Mutex::default() });
        Serving { running: self.running, mounted: self.mounted, ending }
    }
}

/// Writes what is left when nobody asks any more, and says what it came to, if that is wanted.
type Finish = Box<dyn Fn(bool) -> Outcome<Value> + Send + Sync>;

/// What is left to do when nobody asks any more. It is done and told once: a signal and an unmount may come together.
struct Ending {
    finish: Option<Finish>,
    /// Where it was mounted, if a machine wants to know that it is over.
    says: Option<Value>,
    done: Mutex<Option<Outcome>>,
}

impl Ending {
    /// Does it, unless it was done; what became of it. `gone`: it is not mounted any more.
    fn run(&self, gone: bool) -> Outcome {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.get_or_insert_with(|| self.once(gone)).clone()
    }

    fn once(&self, gone: bool) -> Outcome {
        let says = self.says.as_ref().filter(|_| gone);
        let ended = self.finish.as_ref().map(|finish| finish(says.is_some())).transpose();
        if let Some(place) = says {
            let line = match &ended {
                Ok(stats) => json!({ "unmounted": place, "stats": stats }),
                Err(failure) => json!({ "unmounted": place, "error": failure.text }),
            };
            // Kept, if it fails.
            let _ = writeln!(printer(), "{line}");
        }
        ended.map(drop)
    }
}

/// For a machine: about one mount as it is, about several in a row.
pub fn one_or_all(reports: &[Value]) -> Value {
    match reports {
        [one] => one.clone(),
        all => json!(all),
    }
}

/// A home that is ready, and waits for its mount point.
type Ready<'a> = Box<dyn FnOnce(&Path) -> Outcome<Attached> + 'a>;

/// Makes and fills, or opens; and mounts. `detach` is called before mounting.
pub fn start(plan: &Plan<'_>, detach: impl FnOnce() -> Outcome) -> Outcome<Served> {
    let began = Instant::now();
    let volumes = plan
        .mounts
        .iter()
        .any(|(_, home)| matches!(home, HomePlan::Volume(_) | HomePlan::Snapshot(_)));
    fitting::check(plan.options, volumes)?;
    let mut dirs: Vec<PathBuf> = Vec::new();
    for (dir, _) in &plan.mounts {
        let dir = examine(dir, &plan.options.mount).map_err(|error| mounts::failure(&error))?;
        if dirs.contains(&dir) {
            let what = "two file systems for one mount point";
            return Err(Failure::at(Exit::Usage, what, &dir, "give each its own"));
        }
        dirs.push(dir);
    }
    let images = Images::new(plan.options, plan.bases);
    let ready = plan.mounts.iter().map(|(_, home)| prepare(home, &images));
    let ready = ready.collect::<Outcome<Vec<_>>>()?;
    detach()?;
    // From here on a signal must not end us half-way: it is taken up again when the mounts answer.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot take signals: {error}"), ""))?;
    let mut mounts = Vec::new();
    let mut reports = Vec::new();
    for (dir, ready) in dirs.iter().zip(ready) {
        let mut attached = ready(dir)?;
        attached.report["seconds"] = json!(began.elapsed().as_secs_f64());
        reports.push(attached.report.clone());
        mounts.push(attached);
    }
    images.keep_house();
    if plan.says {
        // Before anybody says that it is over. Kept, if it fails.
        let _ = writeln!(printer(), "{}", one_or_all(&reports));
    }
    let mounts: Vec<_> = mounts.into_iter().map(|one| one.ready(plan.says)).collect();
    let ends = mounts.iter().map(|one| (Arc::clone(&one.mounted), Arc::clone(&one.ending)));
    obey(signals, ends.collect())?;
    let mut homes = plan.mounts.iter().map(|(_, home)| home);
    let confined = (homes.clone().all(HomePlan::only_decodes) && !plan.options.no_sandbox)
        .then_some(match homes.all(|home| matches!(home, HomePlan::Image(_))) {
            true => Needs::Kept(plan.options.cache),
            false => Needs::Memory,
        });
    Ok(Served { mounts, reports, confined })
}

impl HomePlan<'_> {
    /// Whether nothing is opened, started or written any more once it is mounted.
    const fn only_decodes(&self) -> bool {
        matches!(self, Self::Image(_) | Self::Lazy(_) | Self::Overlay(_))
    }
}

/// Makes and fills, or opens.
fn prepare<'a>(home: &'a HomePlan<'a>, images: &'a Images<'a>) -> Outcome<Ready<'a>> {
    let options = images.options;
    Ok(match home {
        HomePlan::Memory(from) => {
            let (home, size) = homes::memory(options)?;
            let fs = Fs::new(home, SystemClock);
            let fill = |from| homes::fill(&fs, from, options);
            let filled = from.as_ref().map(fill).transpose()?;
            filled.iter().for_each(Filled::warn);
            let fs = Arc::new(fs);
            Box::new(move |dir| {
                housekeeping::start(&fs);
                let filled = filled.as_ref().map(Filled::json);
                attach(fs, dir, options, json!({ "size": size, "filled": filled }))
            })
        }
        HomePlan::Image(path) => {
            let image = images.open(path)?;
            Box::new(move |dir| {
                let size = image.rest().superblock().size;
                let about = json!({ "size": size, "image": path.to_string_lossy() });
                let options = homes::as_image(path, &image, options);
                let fs = Arc::new(Fs::new(ReadOnly(image), SystemClock));
                attach(fs, dir, &options, about)
            })
        }
        HomePlan::Profiled(path, file) => profiled(path, file, images)?,
        HomePlan::Lazy(path) => {
            let (fs, size) = images.lazy(path)?;
            let fs = Arc::new(fs);
            Box::new(move |dir| {
                housekeeping::start(&fs);
                let about = json!({ "size": size, "filling": path.to_string_lossy() });
                let attached = attach(Arc::clone(&fs), dir, options, about)?;
                filling::start(&fs, path)?;
                Ok(attached)
            })
        }
        HomePlan::Overlay(path) => {
            let (fs, size) = images.overlay(path)?;
            let fs = Arc::new(fs);
            Box::new(move |dir| {
                housekeeping::start(&fs);
                let image = path.to_string_lossy();
                let about = json!({ "size": size, "image": image, "overlay": true });
                attach(fs, dir, &homes::as_overlay(path, options), about)
            })
        }
        HomePlan::Volume(path) => volume(path, options)?,
        HomePlan::Snapshot(path) => snapshot(path, options)?,
    })
}

/// Opens an image of which is written what was read of it when it is unmounted.
fn profiled<'a>(path: &'a Path, file: &'a Path, images: &'a Images<'a>) -> Outcome<Ready<'a>> {
    let image = images.open(path)?;
    // Better now than when it is too late.
    let file = profile::examine(file).map_err(|error| profile::unable(file, &error))?;
    profile::spare_others(&image, &file)?;
    Ok(Box::new(move |dir| {
        if dir.canonicalize().is_ok_and(|dir| file.starts_with(dir)) {
            let what = "the profile cannot be where the image is mounted";
            return Err(Failure::at(Exit::Usage, what, &file, "name a file elsewhere"));
        }
        let size = image.rest().superblock().size;
        let about = json!({ "size": size, "image": path.to_string_lossy() });
        let options = homes::as_image(path, &image, images.options);
        let fs = Arc::new(Fs::new(ReadOnly(Profiled::new(image)), SystemClock));
        let desk = Desk { fs: Arc::downgrade(&fs), file: file.clone() };
        let about = (about, Some(Arc::new(desk) as Arc<dyn Control>));
        let attached = attach_with(Arc::clone(&fs), dir, &options, about)?;
        let finish: Finish = Box::new(move |_| {
            let broken = fs.store().0.write(&file)?;
            if broken > 0 {
                log::tell(&format!(
                    "the profile {} leaves out {broken} files with a line break in their paths",
                    path_shown(&file)
                ));
            }
            Ok(Value::Null)
        });
        Ok(Attached { finish: Some(finish), ..attached })
    }))
}

/// Opens a volume, to be written or only to be read.
fn volume<'a>(path: &'a Path, options: &'a Options) -> Outcome<Ready<'a>> {
    let options = homes::as_volume(path, options);
    let about = |size: u64| json!({ "size": size, "volume": path.to_string_lossy() });
    if options.mount.read_only {
        let opening = volumes::opening(path, false, &options);
        let volume = volumes::open_over(path, &options.bases, opening)?;
        volumes::tell_damage(path, &volume);
        let about = about(volume.shape().size);
        if options.snapshots {
            let volume = Arc::new(volume);
            let shown = volumes::shown::beside(path, Arc::clone(&volume), volume)?;
            let fs = Arc::new(Fs::new(ReadOnly(shown), SystemClock));
            return Ok(Box::new(move |dir| attach(fs, dir, &options, about)));
        }
        let fs = Arc::new(Fs::new(ReadOnly(volume), SystemClock));
        return Ok(Box::new(move |dir| attach(fs, dir, &options, about)));
    }
    let fs = volumes::writable(path, &options)?;
    let shown = options.snapshots.then(|| volumes::shown::live(path, &fs)).transpose()?;
    // By its whole path it is found from anywhere.
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    Ok(Box::new(move |dir| {
        let name = path_shown(&whole);
        volumes::writer::start(&fs, options.commit_age(), name.clone())?;
        let about = about(fs.store().volume().shape().size);
        let besides = Arc::new(Besides {
            fs: Arc::downgrade(&fs),
            volume: whole.clone(),
            options: options.clone(),
            mounts: Mutex::default(),
        });
        let shows = Arc::clone(&besides);
        let show = move |name: &str, dir: &Path| shows.show(name, dir);
        let desk = volumes::desk::Desk::open(&fs, &whole, Box::new(show));
        let control: Arc<dyn Control> = Arc::clone(&desk) as _;
        let about = (about, Some(control));
        let attached = match shown {
            Some(shown) => attach_with(Arc::new(shown), dir, &options, about)?,
            None => attach_with(Arc::clone(&fs), dir, &options, about)?,
        };
        let finish: Finish = Box::new(move |told| {
            desk.close();
            besides.close();
            if volumes::writer::finish(&fs, &name) {
                let stats = told.then(|| volumes::report::stats_of_mount(&whole, &fs));
                return Ok(stats.unwrap_or_default());
            }
            let what = "not everything that changed could be written";
            Err(Failure::new(Exit::Failed, what, "`esker check` tells more"))
        });
        Ok(Attached { finish: Some(finish), ..attached })
    }))
}

/// Snapshots of a volume that is served, mounted in other places by its server: they go with it.
struct Besides {
    fs: Weak<Writable>,
    volume: PathBuf,
    options: Options,
    mounts: Mutex<Vec<Weak<Mounted>>>,
}

impl Besides {
    fn mounts(&self) -> MutexGuard<'_, Vec<Weak<Mounted>>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Mounts one, to be read.
    fn show(&self, name: &str, dir: &Path) -> Outcome<Value> {
        let gone = || Failure::at(Exit::Failed, "not mounted any more", &self.volume, "");
        let volume = Arc::clone(self.fs.upgrade().ok_or_else(gone)?.store().shared());
        let size = volume.shape().size;
        let snapshot = Snapped::new(volume, name)
            .map_err(|error| volumes::snapshots::refused(&self.volume, name, error))?;
        let source = format!("{}@{name}", self.volume.display());
        let mut options = self.options.clone();
        options.mount.read_only = true;
        options.mount.block = false;
        options.mount.fsname = Some(source.clone());
        let about = json!({ "size": size, "volume": source });
        let fs = Arc::new(Fs::new(ReadOnly(snapshot), SystemClock));
        let Attached { running, mounted, report, .. } = attach(fs, dir, &options, about)?;
        self.mounts().push(Arc::downgrade(&mounted));
        let thread = thread::Builder::new().name("esker-snapshot".to_owned()).spawn(move || {
            let _ = running.join();
            drop(mounted);
        });
        thread.map(|_| report).map_err(|error| Failure::no_thread(&error))
    }

    /// Takes all away, lazily what is in use.
    fn close(&self) {
        for mounted in std::mem::take(&mut *self.mounts()).iter().filter_map(Weak::upgrade) {
            let _ = mounted.detach();
        }
    }
}

/// Opens a volume to be read, for one of its snapshots.
fn snapshot<'a>(path: &'a Path, options: &'a Options) -> Outcome<Ready<'a>> {
    if options.snapshots {
        let what = "mount option snapshots is not for a snapshot";
        return Err(Failure::new(Exit::Usage, what, "mount the volume: it shows all of them"));
    }
    let missing = || Failure::at(Exit::Source, "no snapshot of a volume", path, "");
    let (volume, name) = volumes::snapshots::named(path).ok_or_else(missing)?;
    let mut options = homes::as_volume(&volume, options);
    options.mount.read_only = true;
    options.mount.block = false;
    if !options.named {
        options.mount.fsname = Some(path.to_string_lossy().into_owned());
    }
    let opening = volumes::opening(&volume, false, &options);
    let snapshot = volumes::snapshots::open(&volume, &name, (&options.bases, opening))?;
    volumes::tell_damage(&volume, snapshot.volume());
    Ok(Box::new(move |dir| {
        let size = snapshot.volume().shape().size;
        let about = json!({ "size": size, "volume": path.to_string_lossy() });
        attach(Arc::new(Fs::new(ReadOnly(snapshot), SystemClock)), dir, &options, about)
    }))
}

impl Served {
    /// Serves until all are unmounted.
    pub fn wait(self) -> Outcome {
        if let Some(needs) = self.confined {
            self.confine(needs);
        }
        let mut outcome = Ok(());
        for attached in self.mounts {
            let ended = attached.running.join();
            // Nothing is mounted any more, unless the device failed under us.
            drop(attached.mounted);
            if let Err(failure) = attached.ending.run(ended.is_ok()) {
                outcome = Err(failure);
            }
            if let Err(error) = ended {
                let what = format!("the connection to the kernel failed: {error}");
                log::tell(&what);
                outcome = Err(Failure::new(Exit::Failed, what, "mount again"));
            }
        }
        outcome
    }

    /// Gives up the rights that serving does not need. Where that cannot be, it serves without, and says so.
    fn confine(&self, needs: Needs) {
        let prepared = self.mounts.iter().try_for_each(|one| one.mounted.prepare_to_part());
        let confined = prepared
            .map_err(|error| error.to_string())
            .and_then(|()| sandbox::confine(needs).map_err(|error| error.to_string()));
        if let Err(error) = confined {
            log::tell(&format!("serves with all its rights, as it cannot give them up: {error}"));
        }
    }
}

/// Mounts what is ready, and returns when the kernel and we have agreed: from then on whoever asks the mount is
/// answered. We never ask it ourselves: a thread of ours that waits for an answer of ours, when we are killed,
/// cannot die, and while it lives the kernel does not know that nobody will answer.
fn attach<S>(fs: Arc<Fs<S>>, dir: &Path, options: &Options, about: Value) -> Outcome<Attached>
where
    S: Store + Send + Sync + 'static,
{
    attach_with(fs, dir, options, (about, None))
}

/// The same, with somebody who answers what is asked of the server itself.
fn attach_with<S>(
    fs: Arc<Fs<S>>,
    dir: &Path,
    options: &Options,
    (about, desk): (Value, Option<Arc<dyn Control>>),
) -> Outcome<Attached>
where
    S: Store + Send + Sync + 'static,
{
    let (device, mounted) = mount(dir, &options.mount).map_err(|error| mounts::failure(&error))?;
    let unable = |error: &SessionError| {
        let what = format!("cannot serve the kernel: {error}");
        let remedy = match error {
            // The kernel gives the same device the same superblock, as long as anybody needs that.
            SessionError::Io(own) if own.kind() == ErrorKind::PermissionDenied => {
                "nothing was mounted; if a program still has something of a dead mount of this \
                 device open, end it, or mount with -o fsname=NAME"
            }
            _ => "nothing was mounted",
        };
        Failure::at(Exit::Failed, &what, dir, remedy)
    };
    let door = Door::new(Arc::clone(&fs), options.mount.door());
    let server = Server::open(&fs, door.latencies(), options.mount.source().to_string(), desk);
    let door = Arc::new(door.with_control(server));
    let running = converse(device, door, &options.mount).map_err(|error| unable(&error))?;
    let mounted = Arc::new(mounted);
    let mut report = about;
    report["mounted"] = json!(mounted.dir().to_string_lossy());
    report["source"] = json!(options.mount.source());
    report["pid"] = json!(std::process::id());
    Ok(Attached { running, mounted, report, finish: None })
}

/// A thread that unmounts all and ends the process at the first signal, lazily what is in use.
fn obey(mut signals: Signals, ends: Vec<(Arc<Mounted>, Arc<Ending>)>) -> Outcome {
    let thread = thread::Builder::new().name("esker-signals".to_owned()).spawn(move || {
        if signals.forever().next().is_none() {
            return;
        }
        let mut exit = 0;
        let several = ends.len() > 1;
        for (mounted, ending) in &ends {
            let gone = match mounted.unmount() {
                Err(MountError::Busy { .. }) => mounted.detach(),
                // One of several that was unmounted before.
                Err(MountError::NotMounted { .. }) if several => Ok(()),
                answer => answer,
            };
            if let Err(error) = &gone {
                log::tell(&format!("cannot unmount: {error}"));
                exit = Exit::Failed as i32;
            }
            if let Err(failure) = ending.run(gone.is_ok()) {
                log::tell(&failure.text);
                exit = Exit::Failed as i32;
            }
        }
        if printed::outcome(Ok(())).is_err() {
            exit = Exit::Failed as i32;
        }
        // The file systems end with us, so their memory need not be taken apart first.
        std::process::exit(exit)
    });
    thread.map(drop).map_err(|error| Failure::no_thread(&error))
}
