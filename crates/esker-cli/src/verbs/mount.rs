//! `esker mount`: bring up a file system on a directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::say;
use crate::failure::{Exit, Failure, Outcome, os_shown, path_shown, said, shown};
use crate::images::is_image;
use crate::options::Options;
use crate::printed::{outcome, warn};
use crate::remount::{Request, remount};
use crate::serve::{self, HomePlan, Plan, one_or_all};
use crate::units::{ram, size_shown};
use crate::volumes::is_volume;
use crate::volumes::snapshots::named;
use crate::{background, import, log};

/// Mount a file system on a directory.
///
/// Goes to the background and returns when the mount answers. What a file system in memory holds lives
/// in that process, and is gone when it is unmounted; an image stays as it is, and with --overlay
/// what is changed above it is in memory too. A volume keeps what changes: whatever fsync(2), `esker
/// sync` and `esker umount` have answered for survives a loss of power.
#[derive(Args)]
#[command(after_help = "\
Options of -o, with commas between them:
  size=SIZE          the most it may hold in memory, bookkeeping included: bytes with K, M, G or
                     T, or a share of the memory of the machine, as in 25%    [default: 50%]
  file_size=SIZE     the largest file                                         [default: no limit]
  uid=N gid=N        owner and group of the root directory                    [default: yours]
  mode=OCTAL         permissions of the root directory                        [default: 755]
  umask=OCTAL        permissions to take from it
  cache=SIZE         what is kept of what was decoded of images, of all together, while somebody
                     reads them; of a volume, three fifths of it are for its tables
                                                                              [default: 256M]
  offset=BYTES       where an image begins in its file                        [default: auto]
  base=IMAGE         as --base
  commit=SECONDS     how old changes of a volume become before they are written [default: 5]
  dirty=SIZE         how many bytes of changes wait for that in memory at most  [default: 128M]
  compress=CODEC     how what is new in a volume is compressed: none, lz4, zstd, zstd:LEVEL
                                                          [default: as `esker mkfs` was told]
  discard nodiscard  give back what a volume needs no more, below it, or not
                                                          [default: of a file, not of a device]
  dedup nodedup      look whether what is written was written before, and then name that once more,
                     or not; copies by copy_file_range(2) are always shared [default: dedup]
  deltas nodeltas    store what is written over something that it resembles, and that is in memory,
                     as what differs from that, where blocks are of zstd, or not  [default: deltas]
  placement=HOW      tell the device of a volume what stays as long as what else: by its write
                     streams, by lifetimes, or none; auto: by streams, if it has some
                                                                             [default: auto]
  snapshots          show the snapshots of a volume in DIR/.snapshots, by name, to be read; DIR does
                     not list it
  overlay            as --overlay
  no_sandbox         let the process that serves images keep its rights; otherwise it opens no file,
                     starts no program and connects to nothing once it serves (not with --profile)
  ro rw              refuse changes, or not
  allow_other        let other users in (users other than root need user_allow_other in
                     /etc/fuse.conf)
  nosuid nodev noexec noatime sync dirsync
                     as for mount(8)
  nonempty           mount over a directory that has entries
  clear_stale        take away a dead mount of Esker that is in the way
  auto_unmount       have fusermount3 unmount if this process dies (some versions of it can only
                     with allow_other)
  writeback no_writeback
                     gather small writes in the kernel, or not                [default: writeback]
  noxattr            no extended attributes and ACLs
  fsname=NAME        the source that mount(8) and df(1) show                  [default: mem:]
  threads=N          how many serve the kernel   [default: one per CPU, at most 4; 8 of a volume]
  transport=WAY      device, ring (io_uring, Linux 6.14 with enable_uring) or auto [default: auto]
  max_background=N entry_timeout=S attr_timeout=S negative_timeout=S
                     for those who measure
  remount            change ro, nosuid, nodev, noexec, sync of what is mounted there, or take them
                     back with rw, suid, dev, exec, async; what is not named stays
  default_permissions is always on: the kernel checks permissions.

With fuse3 installed and esker in /usr/local/bin or /usr/bin (the PATH of mount(8)'s helper; `make
install` puts it there), mount(8) and fstab know it as fuse.esker:
  mount -t fuse.esker -o size=2G mem: /mnt/x
  mount -o remount,ro /mnt/x

Examples:
  esker mount mem: /mnt/x
  esker mount mem: /mnt/x -o size=2G,mode=1777,allow_other
  esker mount mem: /mnt/x --from ~/project
  esker mount tree.esker /mnt/t -o cache=64M
  esker mount a.esker /mnt/a b.esker /mnt/b one process, one cache
  esker mount new.esker /mnt/n --base /old/old.esker
  esker mount tree.esker /mnt/t --overlay   an image that can be changed, until it is unmounted
  esker mount disk.vol /mnt/d               a volume, which `esker mkfs` made
  esker mount disk.vol /mnt/d -o snapshots  the same, and its snapshots in /mnt/d/.snapshots
  esker mount disk.vol@before /mnt/b        a snapshot of it, to be read
  esker mount mem: /mnt/x --from linux-6.12.tar.gz
  esker mount mem: /mnt/x --from tree.esker there at once; when all of it is in memory, the image is
                                            not needed any more
  xz -dc linux-6.12.tar.xz | esker mount mem: /mnt/x --from -
  esker mount mem: /mnt/x -f --json         in the foreground; Ctrl-C unmounts")]
pub struct Mount {
    /// What to mount: `mem:`, an empty file system in memory, an image, or a volume
    #[arg(value_name = "SOURCE", value_parser = SourceParser)]
    source: Source,
    /// Where: an empty directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Further images, each with its directory: one process serves all, with one cache
    #[arg(value_name = "IMAGE DIR")]
    more: Vec<PathBuf>,
    /// Mount options, see below; may be repeated
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<OsString>,
    /// Fill it first: a directory, a tar archive (plain or gzip), or - for an archive on standard
    /// input. An image is there at once, and moves to memory meanwhile
    #[arg(long, value_name = "TREE|TAR|IMAGE")]
    from: Option<PathBuf>,
    /// Leave out, with a warning each, what cannot be read in the directory of --from
    #[arg(long, requires = "from")]
    skip_unreadable: bool,
    /// Let an image be changed: what changes is in memory, and the image stays as it is
    #[arg(long)]
    overlay: bool,
    /// An image that another, or a volume, has as its base, where it is not beside that; may be repeated
    #[arg(long, value_name = "IMAGE")]
    base: Vec<PathBuf>,
    /// Write the paths of the files of an image that are read, in the order of their first reads, when it is unmounted:
    /// `esker pack --hot` and `esker repack --hot` put these first. `esker umount` returns when it is written,
    /// umount(8) before. It takes the place of an earlier profile of the image, and of nothing else. Not with
    /// --overlay, nor of several images
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "overlay", "more"])]
    profile: Option<PathBuf>,
    /// Stay in the foreground; SIGINT and SIGTERM unmount
    #[arg(short, long)]
    foreground: bool,
    /// Append trouble to this file, not to the system log
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Print one line of JSON about the result; with -f also one for each mount when it is over, with the statistics
    /// of a volume that was written
    #[arg(long)]
    pub json: bool,
    #[arg(long = &background::COPY[2..], hide = true)]
    copy: bool,
    #[arg(long = &BY_MOUNT8[2..], hide = true)]
    by_mount8: bool,
}

/// The hidden argument that says who asks.
pub const BY_MOUNT8: &str = "--by-mount8";

/// What can be mounted.
#[derive(Clone, Debug)]
enum Source {
    /// An empty file system in memory.
    Memory,
    /// An image, or a volume.
    Image(PathBuf),
}

/// For clap.
#[derive(Clone)]
struct SourceParser;

impl clap::builder::TypedValueParser for SourceParser {
    type Value = Source;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        word: &OsStr,
    ) -> Result<Source, clap::Error> {
        if word == "mem:" {
            return Ok(Source::Memory);
        }
        let path = PathBuf::from(word);
        let wrong = |text: String| {
            let kind = clap::error::ErrorKind::ValueValidation;
            Err(clap::Error::raw(kind, text + "\n").with_cmd(command))
        };
        if word == "mem" && !path.exists() {
            return wrong("write mem: with a colon".to_owned());
        }
        if word.as_encoded_bytes().ends_with(b":") {
            return wrong(format!(
                "only mem:, images and volumes can be mounted, not {}",
                os_shown(word)
            ));
        }
        Ok(Source::Image(path))
    }
}

impl Mount {
    /// Mounts; in the foreground returns only when it is unmounted again.
    pub fn run(&self) -> Outcome {
        let mut options = Options::parse(&self.options, ram())?;
        options.overlay |= self.overlay;
        options.bases.extend(self.base.iter().cloned());
        if let (Source::Image(_), Some(_)) = (&self.source, &self.from) {
            let remedy = "an image stays as it is: mount mem: and give the image to --from";
            return Err(Failure::new(Exit::Usage, "--from is only for mem:", remedy));
        }
        if options.remount {
            return self.remount();
        }
        if let (Source::Memory, true) = (&self.source, options.overlay) {
            let remedy = "mem: can be changed anyway";
            return Err(Failure::new(Exit::Usage, "--overlay is only for images", remedy));
        }
        let is_image = |path: &Path| !is_volume(path) && named(path).is_none();
        let image = matches!(&self.source, Source::Image(path) if is_image(path));
        if self.profile.is_some() && (!image || options.overlay) {
            let remedy = "mount an image without -o overlay";
            return Err(Failure::new(Exit::Usage, "--profile is only for images", remedy));
        }
        if let (Source::Image(image), Some(profile)) = (&self.source, &self.profile) {
            super::spare(image, profile)?;
        }
        self.check_more()?;
        if self.copy {
            return self.serve_in_background(&options);
        }
        if self.foreground {
            return self.serve_in_foreground(&options);
        }
        let line = background::start()?;
        if self.json {
            say(&line);
        } else {
            let report: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
            told_all(&report, &self.dir).iter().for_each(|line| say(line));
        }
        Ok(())
    }

    fn remount(&self) -> Outcome {
        let others = [
            (self.from.is_some(), "--from"),
            (self.skip_unreadable, "--skip-unreadable"),
            (self.overlay, "--overlay"),
            (!self.base.is_empty(), "--base"),
            (self.profile.is_some(), "--profile"),
            (!self.more.is_empty(), "several images"),
            (self.foreground, "--foreground"),
            (self.log.is_some(), "--log"),
        ];
        let others = others.iter().filter(|(given, _)| *given).map(|&(_, other)| other).collect();
        let (dir, by_mount8) = (self.dir.as_path(), self.by_mount8);
        let now = remount(&Request { dir, options: &self.options, others, by_mount8 })?;
        if self.json {
            let place = now.dir.to_string_lossy();
            say(&json!({ "remounted": place, "options": now.options }).to_string());
        } else {
            let options = shown(now.options.join(",").as_bytes());
            say(&format!("remounted {}: {options}", path_shown(&now.dir)));
        }
        Ok(())
    }

    fn plan<'a>(&'a self, options: &'a Options) -> Plan<'a> {
        let first = match &self.source {
            Source::Image(path) if is_volume(path) => HomePlan::Volume(path),
            Source::Image(path) if named(path).is_some() => HomePlan::Snapshot(path),
            Source::Image(path) if options.overlay => HomePlan::Overlay(path),
            Source::Image(path) => match &self.profile {
                Some(file) => HomePlan::Profiled(path, file),
                None => HomePlan::Image(path),
            },
            Source::Memory
                if self.from.as_ref().is_some_and(|from| is_image(from, options.offset)) =>
            {
                HomePlan::Lazy(self.from.as_deref().unwrap_or(Path::new("")))
            }
            Source::Memory => {
                let skip_unreadable = self.skip_unreadable;
                let from = self.from.as_deref();
                HomePlan::Memory(from.map(|from| import::Request { from, skip_unreadable }))
            }
        };
        let mut mounts = vec![(self.dir.as_path(), first)];
        for pair in self.more.chunks_exact(2) {
            let image = match options.overlay {
                _ if is_volume(&pair[0]) => HomePlan::Volume(&pair[0]),
                _ if named(&pair[0]).is_some() => HomePlan::Snapshot(&pair[0]),
                true => HomePlan::Overlay(&pair[0]),
                false => HomePlan::Image(&pair[0]),
            };
            mounts.push((&pair[1], image));
        }
        let says = self.foreground && self.json;
        Plan { mounts, options, bases: &options.bases, says }
    }

    /// Only images come in numbers, each with its directory.
    fn check_more(&self) -> Outcome {
        let memory = |path: &PathBuf| path.as_os_str() == "mem:";
        let usage = |what: &str, remedy| Err(Failure::new(Exit::Usage, what, remedy));
        if !self.more.len().is_multiple_of(2) {
            return usage("a directory is missing", "give each image its directory behind it");
        }
        if self.more.is_empty() {
            return Ok(());
        }
        if matches!(self.source, Source::Memory) || self.more.iter().step_by(2).any(memory) {
            return usage("only images can be mounted together", "mount mem: by itself");
        }
        Ok(())
    }

    fn serve_in_foreground(&self, options: &Options) -> Outcome {
        match self.open_log()? {
            Some(file) => log::begin(log::Sink::File(file)),
            None => log::begin(log::Sink::Terminal),
        }
        let served = serve::start(&self.plan(options), || Ok(()))?;
        if !self.json && std::io::stderr().is_terminal() {
            for line in told_all(&one_or_all(&served.reports), &self.dir) {
                warn(&format!("{line} (Ctrl-C does too)"));
            }
        }
        served.wait()?;
        // What is in memory need not be taken apart first; what could not be printed is told by that.
        std::process::exit(outcome(Ok(())).map_or_else(|failure| failure.exit as i32, |()| 0))
    }

    /// The copy of this program that [`background::start`] has started.
    fn serve_in_background(&self, options: &Options) -> Outcome {
        let log = self.open_log()?;
        let unusable = |error: std::io::Error| {
            Failure::new(Exit::Failed, format!("cannot use the log file: {error}"), "")
        };
        match log.as_ref().map(File::try_clone).transpose().map_err(unusable)? {
            Some(file) => log::begin(log::Sink::File(file)),
            None => log::begin(log::Sink::system()),
        }
        background::tie()?;
        let served = serve::start(&self.plan(options), background::detach)?;
        // Nobody waits for us any more: then nobody wants the mount either, and dropping it
        // unmounts.
        background::ready(&one_or_all(&served.reports).to_string(), log.as_ref()).map_err(
            |error| {
                Failure::new(
                    Exit::Failed,
                    format!("cannot tell that the mount answers: {error}"),
                    "",
                )
            },
        )?;
        let ended = served.wait();
        std::process::exit(ended.map_or_else(|failure| failure.exit as i32, |()| 0))
    }

    fn open_log(&self) -> Outcome<Option<File>> {
        let Some(path) = &self.log else { return Ok(None) };
        let file = File::options().append(true).create(true).open(path).map_err(|error| {
            let what = format!("cannot write the log ({})", said(&error));
            Failure::at(Exit::Failed, &what, path, "name a file that can be written with --log")
        })?;
        Ok(Some(file))
    }
}

/// For a person, a line each.
fn told_all(report: &Value, dir: &Path) -> Vec<String> {
    match report.as_array() {
        Some(all) => all.iter().map(|one| told(one, dir)).collect(),
        None => vec![told(report, dir)],
    }
}

/// What a person wants to know about a new mount.
fn told(report: &Value, dir: &Path) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let place = report["mounted"]
        .as_str()
        .map_or_else(|| os_shown(dir.as_os_str()), |place| shown(place.as_bytes()));
    let size = size_shown(number(&report["size"]));
    let mut text = match report["image"].as_str() {
        Some(image) if report["overlay"] == true => {
            let image = shown(image.as_bytes());
            format!("mounted {place}, the image {image} with up to {size} of changes in memory")
        }
        Some(image) => format!("mounted {place}, the image {}, {size}", shown(image.as_bytes())),
        None if report["volume"].is_string() => {
            let volume = report["volume"].as_str().unwrap_or_default();
            format!("mounted {place}, the volume {}, {size}", shown(volume.as_bytes()))
        }
        None => format!("mounted {place}, up to {size}"),
    };
    if let Some(filled) = report["filled"].as_object() {
        let things = ["files", "directories", "symlinks", "specials"];
        let count: u64 = things.iter().map(|&thing| number(&filled[thing])).sum();
        let bytes = size_shown(number(&filled["bytes"]));
        let seconds = report["seconds"].as_f64().unwrap_or(0.0);
        text += &format!(", filled with {count} files and directories, {bytes}, in {seconds:.1} s");
    }
    if let Some(image) = report["filling"].as_str() {
        text += &format!(", and fills it from {}", shown(image.as_bytes()));
    }
    let plain = place.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte));
    let quote = if plain { "" } else { "'" };
    text + &format!("; `esker umount {quote}{place}{quote}` unmounts it")
}
