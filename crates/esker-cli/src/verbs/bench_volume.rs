//! `esker bench volume`: how much is written to a device, in how many requests, beside other file systems.

use std::path::PathBuf;

use clap::Args;

use super::bench::{Bar, aside, drawn, spare_others};
use super::say;
use crate::bench::section::Section;
use crate::bench::storing::{self, Data, Plan, Report, Subject, Work, dots, table};
use crate::failure::{Exit, Failure, Outcome, shown};
use crate::units::parse_size;

/// The least that all file systems can be put on, in bytes.
const SIZE_MIN: u64 = 512 << 20;

/// Do the same work on several file systems on one device, and count what reaches it.
///
/// Of each act: bytes and requests written and read, flushes, and seconds, from before the mount until
/// after the unmount. The device is a loop device over a file, or one that is named and then written
/// over. Of a volume a second line has what its server asked of the device, in its requests: the
/// kernel cuts long ones, and counts a flush as a write of nothing besides.
#[derive(Args, Debug)]
#[command(after_help = "\
File systems (--on; what is not installed, or not in the kernel, is left out and told):
  esker[:OPTION=VALUE,...]   a volume of ours, with options of `esker mkfs` (esker:block=4K) and,
                             by -o, of `esker mount` (esker:-o=commit=60)
  ext4 xfs btrfs f2fs nilfs2 kernel file systems, as mkfs(8) makes them
  btrfs-zstd f2fs-zstd       the same, compressing everything
  null                       a server that keeps nothing, and writes a block and flushes at each
                             fsync: the least that a file system over FUSE takes (for synced)

Work (WORK; all of the first three, overwrite, both of sqlite and mail where none is named):
  16Kx10 100Kx1000 1Mx100    so many files of this size: made in passes of 4 KiB to each, read,
                             a block of each written anew, removed; synced at the end of each
  SIZExFILES/pass            the same, synced after each pass, and all blocks written anew
  overwrite[:SIZE]           random blocks of a file, one for each 64 KiB of it, synced every 32
  synced[:THREADS]           random blocks of 4 KiB, each synced by itself, by so many threads
  directory:COUNT            so many empty files, listed with their attributes when they are new,
                             and when as many were removed and made among them
  latency                    how long a write of 4 KiB takes at half the rate that is kept up, on a
                             fresh file system, and on one 90 % full and written over five times
  sqlite-wal sqlite-delete   1500 and 200 small transactions (by the program sqlite3)
  mail[:ROUNDS]              a mail server of 1000 messages: in each round one goes, one comes, one
                             is read and added to, one is read; two syncs
  tree:ARCHIVE               an archive is unpacked by tar(1), built with --build, and removed

Examples:
  sudo esker bench volume --svg figures.svg
  sudo esker bench volume 100Kx1000 100Kx1000/pass --on esker --on btrfs-zstd --data half
  sudo esker bench volume tree:redis-7.0.15.tar --build 'make -j2' --on esker --on ext4
  sudo esker bench volume synced synced:8 --on esker --on ext4 --on btrfs --flush-delay 100
  sudo esker bench volume --device /dev/nvme1n1 --erase --json > figures.json")]
pub struct BenchVolume {
    /// What to do
    works: Vec<String>,
    /// A file system; repeat for more [default: all]
    #[arg(long = "on", value_name = "WHAT")]
    subjects: Vec<String>,
    /// How to build what is in the archive of tree:ARCHIVE, in its directory: a command of the shell
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    /// What is written: tiled (64 bytes over and over in each block), half (half of each block random) or random
    #[arg(long, value_name = "KIND", default_value = "tiled")]
    data: String,
    /// Write over this whole block device
    #[arg(long, value_name = "DEVICE", requires = "erase")]
    device: Option<PathBuf>,
    /// Yes, all that is on --device may go
    #[arg(long, requires = "device")]
    erase: bool,
    /// Size of the loop device, 512M at least
    #[arg(long, value_name = "SIZE", default_value = "4G", conflicts_with = "device")]
    size: String,
    /// The file behind the loop device is in memory, and waits so many microseconds at each flush; not with --device
    /// or --images
    #[arg(long, value_name = "MICROSECONDS", conflicts_with_all = ["device", "images"])]
    flush_delay: Option<u64>,
    /// Where the (sparse) file behind the loop device is made
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    images: PathBuf,
    /// Where to make mount points
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Also draw bytes and requests of each
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also write the tables into a Markdown file, in place of those of an earlier run with this
    /// title; all other text in it stays
    #[arg(long, value_name = "FILE", requires = "title")]
    markdown: Option<PathBuf>,
    /// The section of --markdown
    #[arg(long, value_name = "TITLE", requires = "markdown")]
    title: Option<String>,
}

impl BenchVolume {
    /// Measures and prints.
    pub fn run(&self) -> Outcome {
        let plan = self.plan()?;
        spare_others(self.svg.as_deref())?;
        let named = self.markdown.as_deref().zip(self.title.as_deref());
        let section = named.map(|(path, title)| Section::new(path, title)).transpose()?;
        let mut bar = Bar::new();
        let report = aside(|| storing::run(&plan, &mut bar));
        bar.finish();
        let report = report?;
        self.show(&report, section.as_ref())?;
        if report.is_complete {
            return Ok(());
        }
        // Told already, on standard error and in the report.
        Err(Failure::new(Exit::Failed, "", ""))
    }

    fn plan(&self) -> Outcome<Plan> {
        for path in [&self.scratch, &self.images] {
            if !path.is_dir() {
                return Err(Failure::at(Exit::Usage, "no such directory", path, "name one"));
            }
        }
        let size = parse_size(&self.size, 0).ok().filter(|size| *size >= SIZE_MIN);
        let size = size.ok_or_else(|| {
            let what = format!("not a size of a device: {}", shown(self.size.as_bytes()));
            Failure::new(Exit::Usage, what, "give at least 512M, as in --size 4G")
        })?;
        let subjects = match self.subjects.as_slice() {
            [] => Subject::usual(),
            words => words.iter().map(|word| Subject::parse(word)).collect::<Outcome<_>>()?,
        };
        let works = match self.works.as_slice() {
            [] => Work::usual(),
            words => words.iter().map(|word| self.work(word)).collect::<Outcome<_>>()?,
        };
        let data = Data::parse(&self.data)?;
        Ok(Plan {
            subjects,
            works,
            data,
            scratch: self.scratch.clone(),
            device: self.device.clone(),
            images: self.images.clone(),
            size,
            slow: self.flush_delay,
            conditions: vec![("data".to_owned(), self.data.clone())],
        })
    }

    fn work(&self, word: &str) -> Outcome<Work> {
        match Work::parse(word)? {
            Work::Tree { archive, .. } if !archive.is_file() => {
                Err(Failure::at(Exit::Usage, "no such archive", &archive, ""))
            }
            Work::Tree { archive, .. } => Ok(Work::Tree { archive, build: self.build.clone() }),
            work => Ok(work),
        }
    }

    /// The figures were hard to come by: they are printed whatever becomes of the file.
    fn show(&self, report: &Report, section: Option<&Section>) -> Outcome {
        let tables = table::markdown(report);
        match self.json {
            true => say(&format!("{:#}", table::json(report))),
            false => say(tables.trim_end()),
        }
        drawn(self.svg.as_deref(), || dots::svg(report))?;
        section.map_or(Ok(()), |section| section.write(&tables))
    }
}
