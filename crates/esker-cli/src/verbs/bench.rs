//! `esker bench`: how fast is it, beside what else there is?

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::thread;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::bench_flash::BenchFlash;
use super::bench_pack::BenchPack;
use super::bench_volume::BenchVolume;
use super::say;
use crate::bench::picture::is_one;
use crate::bench::report::{self, Report};
use crate::bench::section::Section;
use crate::bench::spec::Spec;
use crate::bench::workloads::{Settings, Workload};
use crate::bench::{self, Plan, Tell, page};
use crate::failure::{Exit, Failure, Outcome, said, shown};
use crate::pack::output::{replace, spare_unlike};
use crate::printed::warn;
use crate::units::{parse_count, parse_size, ram, size_shown};

/// The least to read and write, in bytes: four jobs with a piece of 1 MiB each.
const BYTES_MIN: u64 = 4 << 20;
const FILES_MAX: u64 = 100_000_000;

/// Measure workloads on several file systems side by side.
///
/// Every target runs each workload once a round, one after the other, so that what else happens on
/// the machine happens to all of them. The first target is the one that the others are compared
/// with; the same target twice shows how much of it is noise.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "pack|volume|flash",
    after_help = "\
Targets:
  mem:[OPTIONS]      Esker in memory, mounted (options as for `esker mount -o`)
  vol:[OPTIONS]      a volume on a loop device in RAM, mounted (root)
  null:[OPTIONS]     a server that does nothing, on the same transport: the bound
  lib:               Esker in this process, without a mount
  tmpfs:             the kernel's own memory file system
  ext4: xfs: btrfs:  a kernel file system on a loop device in RAM, as with --loop (root)
  DIRECTORY          whatever is mounted there

Workloads:
  dir      small files in one directory: create, look up, list, stat, remove
  append   4107 bytes at a time, as git writes its packs
  fio      sequential and random reads and writes of 4K, 128K and 1M, 1 and 4 jobs
  tree     unpack --archive, walk, --build; clone --repository
  memory   what the daemon holds for what is stored, and after removing it
  clients  one program, two on the same CPU (and its queue of io_uring), two on two
  library  Esker's own calls on one thread and on two, on lib: only

Packing is measured by `esker bench pack TREE...`, what volumes write by `esker bench volume`, and
what they do to flash in the long run by `esker bench flash`: see their own --help.

What cannot be run is left out and told, the rest runs, and the exit status is 1.

Examples:
  esker bench dir --on null: --on mem: --on tmpfs: --files 1K,10K,100K,1M
  esker bench dir --on null: --on mem: -o transport=ring
  esker bench fio --on mem: --on mem:no_writeback --loop ext4 --bytes 1G
  esker bench library --on lib: --files 1M
  esker bench --rounds 5 --pin 1 --json > figures.json
  esker bench tree --archive redis.tar --build 'make -j2' --html page.html
  esker bench dir --markdown docs/benchmarks/memory.md --title 'Directories'"
)]
pub struct Bench {
    #[command(subcommand)]
    kind: Option<Kind>,
    /// What to run; all where none is named (tree only with --archive or --repository)
    workloads: Vec<String>,
    /// A target; repeat for more [default: null: mem: tmpfs:, and lib: for library]
    #[arg(long = "on", value_name = "TARGET")]
    targets: Vec<String>,
    /// One more target: a kernel file system on a loop device in RAM (ext4, xfs, btrfs; root)
    #[arg(long = "loop", value_name = "KIND,KIND", value_delimiter = ',')]
    loops: Vec<String>,
    /// Options of every mem:, vol: and null: target, as for `esker mount`
    #[arg(short = 'o', value_name = "OPTIONS", default_value = "", hide_default_value = true)]
    options: String,
    /// How often each workload runs on each target
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Files in the directory, several sizes with commas; K and M are thousands and millions
    #[arg(long, value_delimiter = ',', default_value = "1K,10K", value_name = "N,N",
          value_parser = files)]
    files: Vec<u64>,
    /// How much to append, read and write
    #[arg(long, default_value = "100M", value_name = "SIZE")]
    bytes: String,
    /// A tar archive to unpack and walk
    #[arg(long, value_name = "FILE")]
    archive: Option<PathBuf>,
    /// A shell command that builds what the archive held
    #[arg(long, value_name = "COMMAND", requires = "archive")]
    build: Option<String>,
    /// A git repository to clone
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
    /// Run everything, servers included, on this CPU
    #[arg(long, value_name = "CPU")]
    pin: Option<usize>,
    /// Where to make mount points
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
    /// Print JSON, with every sample
    #[arg(long)]
    json: bool,
    /// Also write a page to look at
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also write the tables into a Markdown file, in place of those of an earlier run with this
    /// title; all other text in it stays
    #[arg(long, value_name = "FILE", requires = "title")]
    markdown: Option<PathBuf>,
    /// The section of --markdown
    #[arg(long, value_name = "TITLE", requires = "markdown")]
    title: Option<String>,
}

/// What is measured otherwise than workloads on targets.
#[derive(Subcommand, Debug)]
enum Kind {
    Pack(Box<BenchPack>),
    Volume(Box<BenchVolume>),
    Flash(Box<BenchFlash>),
}

impl Bench {
    /// Whether a failure is told to a machine, too.
    pub fn json(&self) -> bool {
        match &self.kind {
            Some(Kind::Pack(pack)) => pack.json,
            Some(Kind::Volume(volume)) => volume.json,
            Some(Kind::Flash(flash)) => flash.json,
            None => self.json,
        }
    }

    /// Measures and prints.
    pub fn run(&self) -> Outcome {
        match &self.kind {
            Some(Kind::Pack(pack)) => return pack.run(),
            Some(Kind::Volume(volume)) => return volume.run(),
            Some(Kind::Flash(flash)) => return flash.run(),
            None => {}
        }
        let plan = self.plan()?;
        let section = self.section()?;
        self.pinned()?;
        let mut bar = Bar::new();
        let done = aside(|| bench::run(&plan, &mut bar));
        bar.finish();
        let done = done?;
        self.show(&done.report, section.as_ref())?;
        if done.is_complete {
            return Ok(());
        }
        // Told already, on standard error and in the report.
        Err(Failure::new(Exit::Failed, "", ""))
    }

    fn plan(&self) -> Outcome<Plan> {
        let workloads = self.workloads()?;
        let targets = self.targets(&workloads)?;
        for path in self.archive.iter().chain(&self.repository) {
            if !path.exists() {
                return Err(Failure::at(Exit::Usage, "no such file or directory", path, ""));
            }
        }
        if !self.scratch.is_dir() {
            let what = "no such directory for mount points";
            return Err(Failure::at(
                Exit::Usage,
                what,
                &self.scratch,
                "name another with --scratch",
            ));
        }
        let absolute = |path: &Option<PathBuf>| {
            let path = path.as_ref().map(std::path::absolute);
            path.and_then(Result::ok)
        };
        let bytes = self.bytes(&targets)?;
        Ok(Plan {
            conditions: self.conditions(&workloads, bytes),
            workloads,
            targets,
            rounds: self.rounds,
            settings: Settings {
                files: self.files.clone(),
                bytes,
                archive: absolute(&self.archive),
                build: self.build.clone(),
                repository: absolute(&self.repository),
            },
            scratch: self.scratch.clone(),
        })
    }

    fn workloads(&self) -> Outcome<Vec<Workload>> {
        let has_tree = self.archive.is_some() || self.repository.is_some();
        if self.workloads.is_empty() {
            let suits = |workload: &Workload| *workload != Workload::Tree || has_tree;
            return Ok(Workload::ALL.into_iter().filter(suits).collect());
        }
        let named = self.workloads.iter().map(|word| Workload::parse(word));
        let named = named.collect::<Outcome<Vec<_>>>()?;
        if named.contains(&Workload::Tree) && !has_tree {
            let what = "the workload tree has no tree";
            return Err(Failure::new(Exit::Usage, what, "give --archive or --repository"));
        }
        Ok(named)
    }

    fn targets(&self, workloads: &[Workload]) -> Outcome<Vec<Spec>> {
        let mut words: Vec<&str> = self.targets.iter().map(String::as_str).collect();
        if words.is_empty() {
            words.extend(["null:", "mem:", "tmpfs:"]);
            words.extend(workloads.contains(&Workload::Library).then_some("lib:"));
        }
        let named = words.into_iter().map(|word| Spec::parse(word, &self.options));
        named.chain(self.loops.iter().map(|kind| Spec::parse_loop(kind))).collect()
    }

    /// Machines whose memory is filled to the brim measure how they swap, if they live.
    fn bytes(&self, targets: &[Spec]) -> Outcome<u64> {
        let most = if targets.iter().any(Spec::is_in_memory) { ram() / 2 } else { u64::MAX };
        let bytes = parse_size(&self.bytes, ram()).ok();
        let bytes = bytes.filter(|bytes| (BYTES_MIN..=most).contains(bytes));
        bytes.ok_or_else(|| {
            let what = format!("not a size to measure with: {}", shown(self.bytes.as_bytes()));
            let (least, most) = (size_shown(BYTES_MIN), size_shown(most));
            let remedy = format!("give {least} to {most} here, as in --bytes 100M");
            Failure::new(Exit::Usage, what, &remedy)
        })
    }

    /// What is written to is looked at before anything is measured.
    fn section(&self) -> Outcome<Option<Section>> {
        for path in self.html.iter().chain(&self.markdown) {
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            let exists = above.unwrap_or(Path::new(".")).is_dir();
            if !exists || path.is_dir() {
                return Err(Failure::at(Exit::Usage, "cannot be written to", path, "name a file"));
            }
        }
        let named = self.markdown.as_deref().zip(self.title.as_deref());
        named.map(|(path, title)| Section::new(path, title)).transpose()
    }

    /// Servers inherit it.
    fn pinned(&self) -> Outcome {
        let Some(cpu) = self.pin else { return Ok(()) };
        let mut set = CpuSet::new();
        if cpu < CpuSet::MAX_CPU {
            set.set(cpu);
        }
        sched_setaffinity(None, &set).map_err(|error| {
            let why = said(&error.into());
            Failure::new(Exit::Usage, format!("cannot pin to CPU {cpu} ({why})"), "see nproc(1)")
        })
    }

    fn conditions(&self, workloads: &[Workload], bytes: u64) -> Vec<(String, String)> {
        let placement = match self.pin {
            Some(cpu) => format!("client and servers pinned to CPU {cpu}"),
            None => "client and servers as the scheduler places them".to_owned(),
        };
        let rounds = format!("{}, interleaved", self.rounds);
        let figures = "median ± half of lowest to highest".to_owned();
        let ratios =
            "to the first target in each round, median (lowest–highest); above 1 is better";
        let mut facts = vec![
            ("rounds", rounds),
            ("figures", figures),
            ("ratios", ratios.to_owned()),
            ("placement", placement),
        ];
        if workloads.iter().any(|workload| workload.moves_bytes()) {
            facts.push(("bytes", format!("{} a file or job set", size_shown(bytes))));
        }
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The figures were hard to come by: they are printed whatever becomes of the files.
    fn show(&self, report: &Report, section: Option<&Section>) -> Outcome {
        let tables = report::markdown(report);
        if self.json {
            say(&format!("{:#}", report::json(report)));
        } else {
            say(tables.trim_end());
        }
        if let Some(path) = &self.html {
            replace("page", path, page::html(report).as_bytes())?;
        }
        section.map_or(Ok(()), |section| section.write(&tables))
    }
}

/// Does it in another thread: signals go to the first one, which is thus never stuck in a system call.
pub fn aside<T: Send>(work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    let panicked = |_| Err(Failure::new(Exit::Failed, "the benchmark panicked", ""));
    thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(panicked))
}

/// A picture takes the place of another one, and of no other file that holds something.
pub fn spare_others(path: Option<&Path>) -> Outcome {
    let Some(path) = path else { return Ok(()) };
    let is_one = || Ok(read_to_string(path).is_ok_and(|text| is_one(&text)));
    let what = "the file exists already, and is no picture of esker bench";
    spare_unlike(path, is_one, (what, "name another file, or remove it"))
}

/// Writes a picture, if one is wanted.
pub fn drawn(path: Option<&Path>, svg: impl FnOnce() -> String) -> Outcome {
    let Some(path) = path else { return Ok(()) };
    replace("picture", path, svg().as_bytes())
}

/// How far it is; on a terminal only.
pub struct Bar(ProgressBar);

impl Bar {
    /// Nothing done yet.
    pub fn new() -> Self {
        let bar = ProgressBar::new(1);
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// It goes.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Tell for Bar {
    fn step(&mut self, done: usize, all: usize, what: &str) {
        self.0.set_length(all as u64);
        self.0.set_position(done as u64);
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    fn note(&mut self, note: &str) {
        self.0.suspend(|| warn(note));
    }
}

fn files(word: &str) -> Result<u64, String> {
    let count = parse_count(word).filter(|count| (1..=FILES_MAX).contains(count));
    count.ok_or_else(|| "give a number of files from 1 to 100M, as in 10K".to_owned())
}
