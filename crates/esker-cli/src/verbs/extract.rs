//! `esker extract`: files out of an image, into a directory or an archive.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use esker::Ino;
use esker::store::{Flow, View};
use serde_json::json;

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::images::archive::{self, Choice, Cpio, Form, Stop, Tar, Zip};
use crate::images::copy::{Done, How, copy};
use crate::images::limits::{Limiting, Limits};
use crate::images::{self, Node, Opening, Place, PlaceParser, walk};
use crate::pack::output::identity;
use crate::pack::{Output, glob};
use crate::printed::warn;
use crate::progress::Progress;
use crate::units::size_shown;
use crate::volumes::{is_volume, snapshots};

/// Extract files from an image, into a directory or as a tar, cpio or zip archive.
///
/// Nothing outside of the target is ever touched, whatever is in the image or in the target. Tar keeps
/// everything but sockets. Cpio (newc) has no extended attributes, no holes and no files of 4 GiB and
/// more; zip has neither, nor devices, pipes, sockets, and of hard links copies.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker extract x.esker -o dir
  esker extract x.esker:/usr/lib -o dir --pattern '**.so'
  esker extract x.esker -o dir --pattern etc --pattern '**.conf'
  esker extract x.esker --tar - | tar -t
  esker extract x.esker --cpio - | gzip >initrd.img
  esker extract x.esker -o dir --preserve     as root: owners, devices, set-id bits, all attributes
  esker extract broken.esker -o dir --salvage

Exit status: 5 if something was not extracted, 6 if the image is damaged; it is named.")]
pub struct Extract {
    /// An image, or a place in one as in x.esker:/usr/bin
    #[arg(value_name = "IMAGE[:/PATH]", value_parser = PlaceParser)]
    place: Place,
    /// The directory to extract into; it is made if it is not there
    #[arg(short, long, value_name = "DIR", required_unless_present = "archive")]
    output: Option<PathBuf>,
    /// Write a tar archive to this file, or - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "output", group = "archive")]
    tar: Option<PathBuf>,
    /// Write a cpio archive (newc) to this file, or - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "output", group = "archive")]
    cpio: Option<PathBuf>,
    /// Write a zip archive to this file, or - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "output", group = "archive")]
    zip: Option<PathBuf>,
    /// Only what matches, as the paths in the image are (`**` goes through directories); of a directory that
    /// matches everything
    #[arg(short, long, value_name = "PATTERN")]
    pattern: Vec<String>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Go on after what cannot be read or written
    #[arg(long = "continue")]
    go_on: bool,
    /// Take all that can be read out of a damaged image; files with a gap get the ending .damaged
    #[arg(long)]
    salvage: bool,
    /// Keep owner and group
    #[arg(long)]
    preserve_owner: bool,
    /// Keep set-id and sticky bits
    #[arg(long)]
    set_id: bool,
    /// Make devices, pipes and sockets
    #[arg(long)]
    specials: bool,
    /// Set extended attributes of every kind, not only those of users and ACLs
    #[arg(long)]
    all_xattrs: bool,
    /// All of the four
    #[arg(long)]
    preserve: bool,
    #[command(flatten)]
    limiting: Limiting,
    #[command(flatten)]
    opening: Opening,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

/// Why an archive has no end, for a person.
fn stopped(stop: Stop, file: &Path) -> Failure {
    match stop {
        Stop::Output(error) => {
            let what = format!("cannot write the archive ({})", said(&error));
            Failure::at(Exit::Failed, &what, file, "")
        }
        Stop::Limit(what) | Stop::Refused(what) => Failure::at(Exit::Failed, what, file, ""),
        Stop::Image(_) | Stop::Broken => {
            let what = "a file of the image cannot be read to its end, so there is no archive";
            Failure::at(Exit::Damaged, what, file, "--continue leaves such files out")
        }
    }
}

/// What the patterns choose.
struct Chosen<'a> {
    patterns: &'a [String],
    /// Directories in which something is chosen.
    above: HashSet<Ino>,
}

impl<'a> Chosen<'a> {
    fn new(image: &dyn View, start: &Node, patterns: &'a [String]) -> Self {
        let mut chosen = Self { patterns, above: HashSet::new() };
        let (mut open, mut above) = (Vec::new(), HashSet::new());
        let mut each = |node: &Node| {
            open.truncate(node.depth);
            if chosen.matches(node) {
                above.extend(open.iter().copied());
            }
            open.push(node.ino);
            Flow::Continue(())
        };
        if !patterns.is_empty() {
            // What cannot be listed is told when it is extracted.
            walk(image, start.clone(), &mut each, &mut |_, _| {});
        }
        chosen.above = above;
        chosen
    }

    /// Whether it matches, or a directory that it is in.
    fn matches(&self, node: &Node) -> bool {
        let path = node.path.strip_prefix(b"/").unwrap_or(&node.path);
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut heads = ends.chain([path.len()]).map(|end| &path[..end]);
        heads.any(|head| self.patterns.iter().any(|pattern| glob(bare(pattern), head)))
    }

    fn has(&self, node: &Node) -> bool {
        self.patterns.is_empty() || self.above.contains(&node.ino) || self.matches(node)
    }
}

/// A pattern without `/` in front and behind.
fn bare(pattern: &str) -> &[u8] {
    pattern.trim_matches('/').as_bytes()
}

impl Extract {
    /// Extracts.
    pub fn run(&self) -> Outcome {
        let cache = images::cache_for_all();
        let path = &self.place.image;
        let image: Box<dyn View> = match self.salvage && !is_volume(path) {
            true => {
                let image = images::open_damaged(path, &self.opening, &cache)?;
                images::has_room(path, &image)?;
                Box::new(image)
            }
            false => images::open_to_read(path, &self.opening, &cache)?,
        };
        let image = &*image;
        let start = images::find(image, &self.place)?;
        let chosen = Chosen::new(image, &start, &self.pattern);
        if !chosen.has(&start) {
            let what = "nothing in the image matches";
            let remedy = "patterns are of whole paths: `**.conf`, `etc/*`, `usr/lib`";
            return Err(Failure::at(Exit::Failed, what, &self.place.image, remedy));
        }
        let wanted = |node: &Node| chosen.has(node);
        if let Some(file) = self.archive().filter(|_| !self.to_standard_output()) {
            super::spare_all(&self.sources(), file)?;
        }
        let done = match (self.archive(), &self.output) {
            (Some(file), _) => self.archived(image, &start, &wanted, file)?,
            (None, Some(target)) => {
                let how = self.how();
                let mut bar = Progress::new("extracting", None);
                let mut tick = |done: &Done| bar.tick((done.files, done.bytes), 0);
                copy(image, &start, target, &how, &wanted, &mut tick).map_err(|error| {
                    let what = format!("cannot extract ({})", said(&error));
                    Failure::at(Exit::Failed, &what, target, "name a directory")
                })?
            }
            (None, None) => Done::default(),
        };
        self.tell(&done)
    }

    /// The archive to write.
    fn archive(&self) -> Option<&Path> {
        [&self.tar, &self.cpio, &self.zip].into_iter().flatten().next().map(PathBuf::as_path)
    }

    /// The files that are read.
    fn sources(&self) -> Vec<PathBuf> {
        let path = &self.place.image;
        let file = snapshots::named(path).map_or_else(|| path.clone(), |(volume, _)| volume);
        images::files_of(&file, &self.opening)
    }

    fn to_standard_output(&self) -> bool {
        self.archive().is_some_and(|file| file.as_os_str() == "-")
    }

    fn limits(&self) -> Limits {
        // A device has no length: its size is no measure of what is in it anyway.
        let len = std::fs::metadata(&self.place.image).map_or(0, |meta| meta.len());
        self.limiting.of(if len == 0 { u64::MAX } else { len })
    }

    fn how(&self) -> How {
        // There is no way to ask for it without setting it.
        let umask = rustix::process::umask(rustix::fs::Mode::empty());
        rustix::process::umask(umask);
        How {
            owner: self.preserve_owner || self.preserve,
            set_id: self.set_id || self.preserve,
            specials: self.specials || self.preserve,
            all_xattrs: self.all_xattrs || self.preserve,
            force: self.force,
            sources: self.sources().iter().filter_map(|file| identity(file)).collect(),
            salvage: self.salvage,
            go_on: self.go_on,
            limits: self.limits(),
            umask: if self.preserve { 0 } else { (umask.bits() & 0o777) as u16 },
        }
    }

    fn archived(
        &self,
        image: &dyn View,
        start: &Node,
        wanted: &dyn Fn(&Node) -> bool,
        file: &Path,
    ) -> Outcome<Done> {
        let mut form: Box<dyn Form> = match (&self.cpio, &self.zip) {
            (Some(_), _) => Box::new(Cpio::new(image, start, wanted)),
            (_, Some(_)) => Box::new(Zip::default()),
            _ => Box::new(Tar),
        };
        let choice = Choice { wanted, go_on: self.go_on || self.salvage, limits: self.limits() };
        let mut write = |output: &mut dyn Write| {
            let mut output = BufWriter::new(output);
            archive::write(image, start, &choice, &mut *form, &mut output)
                .map_err(|stop| stopped(stop, file))
        };
        let (skipped, files) = match file.metadata() {
            _ if self.to_standard_output() => write(&mut io::stdout().lock())?,
            // A pipe, say, or a tape.
            Ok(meta) if !meta.is_file() && !meta.is_dir() => {
                let opened = File::options().write(true).open(file);
                write(&mut opened.map_err(|error| stopped(error.into(), file))?)?
            }
            _ => {
                let output = Output::of("archive", file, self.force)?;
                let written = write(&mut output.file()?)?;
                output.keep()?;
                written
            }
        };
        let mut done = Done { files, ..Done::default() };
        for (path, stop) in skipped {
            let why = match stop {
                Stop::Image(error) => {
                    done.damaged |= error == esker::Error::Io;
                    error.to_string()
                }
                Stop::Refused(why) | Stop::Limit(why) => why.to_owned(),
                Stop::Output(error) => said(&error),
                Stop::Broken => "cannot be read to its end".to_owned(),
            };
            done.troubles.push(format!("{}: {why}", images::inner_shown(&path)));
        }
        Ok(done)
    }

    fn tell(&self, done: &Done) -> Outcome {
        for trouble in &done.troubles {
            warn(trouble);
        }
        if self.json {
            let line = json!({
                "files": done.files,
                "bytes": done.bytes,
                "troubles": done.troubles,
            });
            // The archive has standard output to itself.
            if self.to_standard_output() {
                let _ = writeln!(io::stderr(), "{line}");
            } else {
                say(&line.to_string());
            }
        } else if let Some(target) = &self.output {
            let bytes = size_shown(done.bytes);
            say(&format!("extracted {} things, {bytes}, to {}", done.files, path_shown(target)));
        }
        let exit = match (done.damaged, done.troubles.is_empty()) {
            (_, true) => return Ok(()),
            (true, _) => Exit::Damaged,
            (false, _) => Exit::Partly,
        };
        Err(Failure { exit, text: String::new() })
    }
}
