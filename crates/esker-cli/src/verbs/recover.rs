//! `esker recover`: what is left of a volume or an image, whatever is damaged.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use esker::store::View;
use esker_stone::superblock::MAGIC;
use esker_volume::device::Device as _;
use esker_volume::recover::{Found, Recovering, recover};
use esker_volume::{Bases, Damage, Error, NoBase, Options};
use serde_json::{Value, json};

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said, shown};
use crate::images::copy::{Done, How, copy};
use crate::images::limits::Limiting;
use crate::images::{self, Opening, Place};
use crate::pack::output::{identity, replace};
use crate::printed::warn;
use crate::progress::{Progress, while_reading};
use crate::units::size_shown;
use crate::volumes::base::Finder;
use crate::volumes::{self, is_volume};

/// Take out what is left of a damaged volume or image, as a last resort.
///
/// The source is only read. Of a volume neither superblock nor root need be there: every part of it says what it is.
/// What has its right name is what it was, byte for byte. A file with a gap is left out, or with --damaged has the
/// ending .damaged; one of which only older rows are left, or that a lost commit may have changed, has the ending
/// .older; what has lost its name is in lost+found under the number of its inode. All of these are named.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker recover disk.vol -o dir
  esker recover /dev/sdx1 -o dir --damaged --report found.txt
  esker recover disk.vol@before -o dir        what a snapshot of it shows
  esker recover disk.vol -o dir --before $(date -d 'yesterday 18:00' +%s)
  esker recover broken.esker -o dir

Exit status: 6 if anything was damaged, lost, or may be older.")]
pub struct Recover {
    /// A volume that is not mounted, a snapshot of one, or an image
    #[arg(value_name = "VOLUME[@NAME]|IMAGE")]
    source: PathBuf,
    /// The directory to put everything into: an empty one, or one that is made
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Also files with gaps, which are zeros, with the ending .damaged
    #[arg(long)]
    damaged: bool,
    /// Of a volume: as it was then, in seconds since 1970, as far as that was not written over
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    before: Option<i64>,
    /// Of a volume: what may be older than it was keeps its name
    #[arg(long)]
    keep_older: bool,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Keep owners, set-id bits, devices and extended attributes of every kind
    #[arg(long)]
    preserve: bool,
    /// Write what was found, and what not, to this file too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    limiting: Limiting,
    #[command(flatten)]
    opening: Opening,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

/// What is left, and what there is to say of it if it is a volume.
type Left = (Box<dyn View>, Option<Found>);

fn paths(all: &[Vec<u8>]) -> Vec<String> {
    all.iter().map(|path| shown(path)).collect()
}

impl Recover {
    /// Recovers.
    pub fn run(&self) -> Outcome {
        let volume = self.snapshot().map_or(&*self.source, |(volume, _)| volume);
        let read = images::files_of(volume, &self.opening);
        if let Some(output) = &self.report {
            super::spare_all(&read, output)?;
        }
        self.has_place()?;
        let (view, found) = self.left()?;
        let start = images::find(&*view, &Place { image: self.source.clone(), path: Vec::new() })?;
        let len = std::fs::metadata(&self.source).map_or(0, |meta| meta.len());
        let umask = rustix::process::umask(rustix::fs::Mode::empty());
        rustix::process::umask(umask);
        let how = How {
            owner: self.preserve,
            set_id: self.preserve,
            specials: self.preserve,
            all_xattrs: self.preserve,
            force: self.force,
            sources: read.iter().filter_map(|file| identity(file)).collect(),
            salvage: self.damaged,
            go_on: true,
            limits: self.limiting.of(if len == 0 { u64::MAX } else { len }),
            umask: if self.preserve { 0 } else { (umask.bits() & 0o777) as u16 },
        };
        let mut bar = Progress::new("recovering", None);
        let mut tick = |done: &Done| bar.tick((done.files, done.bytes), 0);
        let done = copy(&*view, &start, &self.output, &how, &|_| true, &mut tick);
        bar.done();
        let done = done.map_err(|error| {
            let what = format!("cannot write there ({})", said(&error));
            Failure::at(Exit::Failed, &what, &self.output, "name a directory")
        })?;
        self.tell(&done, found.as_ref())?;
        if self.before.is_some() && done.files == 0 {
            let what = "nothing of that time is left, if there was anything yet";
            return Err(Failure::at(Exit::Damaged, what, &self.source, "name a later time"));
        }
        Ok(())
    }

    /// What is there already is not mixed with what is recovered.
    fn has_place(&self) -> Outcome {
        let mut there = std::fs::read_dir(&self.output).into_iter().flatten();
        if self.force || there.next().is_none() {
            return Ok(());
        }
        let remedy = "choose an empty directory, or replace what has the same names with --force";
        Err(Failure::at(Exit::Usage, "there is something in it", &self.output, remedy))
    }

    /// The volume and the snapshot that are meant by `VOLUME@NAME`.
    fn snapshot(&self) -> Option<(&Path, &str)> {
        let (volume, name) = self.source.to_str()?.rsplit_once('@')?;
        let volume = Path::new(volume);
        (!self.source.exists() && volume.exists()).then_some((volume, name))
    }

    /// What is left of whatever it is.
    fn left(&self) -> Outcome<Left> {
        if let Some((volume, name)) = self.snapshot() {
            return self.volume(volume, Some(name.as_bytes().to_vec()));
        }
        let mut head = [0; 16];
        let kind = self.source.metadata().map(|meta| meta.file_type());
        if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_block_device()) {
            let what = "neither a file nor a block device";
            return Err(Failure::at(Exit::Source, what, &self.source, "name one"));
        }
        let read = File::open(&self.source).and_then(|file| file.read_at(&mut head, 0));
        read.map_err(|error| {
            let what = format!("cannot read it ({})", said(&error));
            Failure::at(Exit::Source, &what, &self.source, "name a file or a device")
        })?;
        let image = || -> Outcome<Left> {
            let cache = images::cache_for_all();
            let image = images::open_damaged(&self.source, &self.opening, &cache)?;
            Ok((Box::new(image), None))
        };
        if is_volume(&self.source) {
            return self.volume(&self.source, None);
        }
        match image() {
            Ok(_) if self.before.is_some() || self.keep_older => {
                let what = "an image never changed: it has no --before and no --keep-older";
                Err(Failure::at(Exit::Usage, what, &self.source, "leave them out"))
            }
            Err(failure) if head.starts_with(&MAGIC) => Err(failure),
            Err(_) => self.volume(&self.source, None),
            left => left,
        }
    }

    fn volume(&self, path: &Path, snapshot: Option<Vec<u8>>) -> Outcome<Left> {
        let device = volumes::device(path, false)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let cache = esker_stone::cache::Cache::new(images::CACHE_LEN);
        let finder = Finder::new(path, &self.opening.bases, &cache);
        let bases = Some(Arc::clone(&finder) as Arc<dyn Bases>);
        let options = Options { threads, bases, ..Options::new(cache) };
        let how = Recovering { snapshot, before: self.before, keep_older: self.keep_older };
        let (meter, size) = (device.meter(), device.geometry().size);
        let left = while_reading((&meter, size), || recover(device, options, how));
        let (volume, found) = left.map_err(|error| match error {
            Error::Damaged(Damage::NoVolume) => {
                let what = "nothing of a volume or an image is left here";
                Failure::at(Exit::Damaged, what, path, "")
            }
            Error::Damaged(damage @ Damage::NoSnapshot) => {
                let remedy = "without @NAME what the volume itself shows is taken out";
                Failure::at(Exit::Damaged, damage.text(), &self.source, remedy)
            }
            error => volumes::failure(path, &error),
        })?;
        if let Some((_, false)) = &found.base_image {
            let why = finder.failure(&Error::Base(NoBase::Missing)).text;
            warn(&format!("{why}: what is there alone is lost until then"));
        }
        Ok((Box::new(volume), Some(found)))
    }

    fn tell(&self, done: &Done, found: Option<&Found>) -> Outcome {
        let none = Found::default();
        let own = found.unwrap_or(&none);
        let (older, lost) = (paths(&own.older), paths(&own.lost));
        let mut lines = done.troubles.clone();
        lines.extend(older.iter().map(|path| format!("{path}: may be older than it was")));
        lines.extend(lost.iter().map(|path| format!("{path}: only the name is left")));
        let bare = paths(&own.bare);
        let xattrs = "extended attributes may be lost";
        lines.extend(bare.iter().map(|path| format!("{path}: {xattrs}")));
        let summary = self.summary(done, found);
        if let Some(report) = &self.report {
            let text = lines.iter().fold(summary.clone() + "\n", |text, line| text + line + "\n");
            replace("report", report, text.as_bytes())?;
        }
        lines.iter().for_each(|line| warn(line));
        if self.json {
            let mut all = json!({
                "source": self.source.to_string_lossy(),
                "things": done.files,
                "bytes": done.bytes,
                "damaged": done.troubles,
                "older": older,
                "lost": lost,
                "bare": bare,
            });
            if let (Some(own), Value::Object(all)) = (found, &mut all) {
                all.insert("volume".to_owned(), volume(own));
            }
            say(&all.to_string());
        } else {
            say(&summary);
        }
        if lines.is_empty() && !own.has_gaps() {
            return Ok(());
        }
        let exit = if done.damaged || own.has_gaps() { Exit::Damaged } else { Exit::Partly };
        Err(Failure { exit, text: String::new() })
    }

    fn summary(&self, done: &Done, found: Option<&Found>) -> String {
        let mut text = format!(
            "recovered {} things, {}, to {}",
            done.files,
            size_shown(done.bytes),
            path_shown(&self.output)
        );
        let _ = write!(text, "\n  {} not, or not whole", done.troubles.len());
        let Some(own) = found else { return text };
        let _ = write!(text, ", {} may be older", own.older.len());
        let _ = write!(text, ", {} only a name, {} no name", own.lost.len(), own.nameless);
        let _ = write!(text, "\n  as of commit {}", own.sequence);
        if let Some(time) = own.time {
            let _ = write!(text, ", {}", images::time_shown(esker::Time { secs: time, nanos: 0 }));
        }
        if let Some(lost) = own.lost_commit {
            let _ = write!(text, "; commits up to {lost} are lost in part");
        }
        if own.lost_ranges > 0 {
            let what = "what they held is not there, extended attributes too";
            let _ = write!(text, "\n  {} ranges of tables are lost: {what}", own.lost_ranges);
        }
        let _ = write!(
            text,
            "\n  {} superblocks, {} heads of parts, {} parts made again",
            own.superblocks, own.parts, own.mended
        );
        text
    }
}

/// What was found of a volume, for a machine.
fn volume(own: &Found) -> Value {
    json!({
        "uuid": esker_stone::hex(&own.uuid),
        "commit": own.sequence,
        "time": own.time,
        "base_commit": own.base,
        "base": own.base_image.as_ref().map(|(base, is_there)| {
            let (name, file) = (esker_stone::hex(&base.name), shown(&base.file));
            json!({ "name": name, "file": file, "found": is_there })
        }),
        "lost_commit": own.lost_commit,
        "root": own.root,
        "superblocks": own.superblocks,
        "parts": own.parts,
        "parts_made_again": own.mended,
        "lost_ranges": own.lost_ranges,
        "nameless": own.nameless,
        "unreadable": own.unreadable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_all_sorts() {
        let output = PathBuf::from("out");
        let source = PathBuf::from("x");
        let own = Recover {
            source,
            output,
            damaged: false,
            before: None,
            keep_older: false,
            force: false,
            preserve: false,
            report: None,
            limiting: Limiting::default(),
            opening: Opening::default(),
            json: false,
        };
        let found = Found { sequence: 7, lost_commit: Some(9), nameless: 3, ..Found::default() };
        let text = own.summary(&Done { files: 2, ..Done::default() }, Some(&found));
        for word in ["2 things", "3 no name", "commit 7", "up to 9"] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(!own.summary(&Done::default(), None).contains("commit"));
    }
}
