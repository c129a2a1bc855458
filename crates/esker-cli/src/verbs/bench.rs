//! `esker bench`: how fast is it, beside what else there is?

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::Args;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::bench::report::{self, Conditions};
use crate::bench::stats::Table;
use crate::bench::target::Spec;
use crate::bench::workloads::{Settings, Workload};
use crate::bench::{self, Plan, page};
use crate::failure::{Exit, Failure, Outcome};
use crate::units::{parse_size, ram, size_shown};

/// Measure workloads on several file systems side by side.
///
/// Every target runs each workload once a round, one after the other, so that what else happens on the
/// machine happens to all of them. The first target is the one that the others are compared with.
#[derive(Args, Debug)]
#[command(after_help = "\
Targets:
  mem:[OPTIONS]      Esker in memory, mounted (options as for `esker mount -o`)
  null:[OPTIONS]     a server that does nothing, on the same transport: the bound
  tmpfs:             the kernel's own memory file system
  ext4: xfs: btrfs:  a kernel file system on a loop device in RAM (root)
  DIRECTORY          whatever is mounted there

Workloads:
  dir      small files in one directory: create, look up, list, stat, remove
  append   4107 bytes at a time, as git writes its packs
  io       sequential and random reads and writes of 4K, 128K and 1M, 1 and 4 jobs
  tree     unpack --archive, walk, --build; clone --repository
  memory   what the daemon holds for what is stored, and after removing it

Examples:
  esker bench dir --on null: --on mem: --on tmpfs:
  esker bench --rounds 5 --pin 1 --json > figures.json
  esker bench tree --archive redis.tar --build 'make -j2' --html page.html")]
pub struct Bench {
    /// What to run; all where none is named (tree only with --archive or --repository)
    workloads: Vec<String>,
    /// A target; repeat for more [default: null: mem: tmpfs:]
    #[arg(long = "on", value_name = "TARGET")]
    targets: Vec<String>,
    /// How often each workload runs on each target
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Files in the directory, several sizes with commas
    #[arg(long, value_delimiter = ',', default_value = "1000,10000", value_name = "N,N",
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
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
    pub json: bool,
    /// Also write a page to look at
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Bench {
    /// Measures and prints.
    pub fn run(&self) -> Outcome {
        let plan = self.plan()?;
        self.pinned()?;
        let loud = std::io::stderr().is_terminal();
        let table = bench::run(&plan, &mut |what| {
            if loud {
                eprintln!("{what}");
            }
        })?;
        self.show(&table, &self.conditions(&plan))
    }

    fn plan(&self) -> Outcome<Plan> {
        let workloads: Vec<Workload> = if self.workloads.is_empty() {
            let has_tree = self.archive.is_some() || self.repository.is_some();
            let suits = |workload: &Workload| *workload != Workload::Tree || has_tree;
            Workload::ALL.into_iter().filter(suits).collect()
        } else {
            self.workloads.iter().map(|word| Workload::parse(word)).collect::<Outcome<_>>()?
        };
        let named: Vec<&str> = self.targets.iter().map(String::as_str).collect();
        let words = if named.is_empty() { vec!["null:", "mem:", "tmpfs:"] } else { named };
        let bytes = parse_size(&self.bytes, ram()).filter(|&bytes| bytes >= 1 << 22);
        let bytes = bytes.ok_or_else(|| {
            let what = format!("not a size to measure with: {}", self.bytes);
            Failure::new(Exit::Usage, what, "give 4M or more, as in --bytes 100M")
        })?;
        for path in self.archive.iter().chain(&self.repository) {
            if !path.exists() {
                return Err(Failure::at(Exit::Usage, "no such file or directory", path, ""));
            }
        }
        let absolute = |path: &Option<PathBuf>| path.as_ref().map(std::path::absolute);
        let found = |path: Option<std::io::Result<PathBuf>>| path.and_then(Result::ok);
        Ok(Plan {
            workloads,
            targets: words.into_iter().map(Spec::parse).collect::<Outcome<_>>()?,
            rounds: self.rounds,
            settings: Settings {
                files: self.files.clone(),
                bytes,
                archive: found(absolute(&self.archive)),
                build: self.build.clone(),
                repository: found(absolute(&self.repository)),
            },
            scratch: self.scratch.clone(),
        })
    }

    /// Servers inherit it.
    fn pinned(&self) -> Outcome {
        let Some(cpu) = self.pin else { return Ok(()) };
        let mut set = CpuSet::new();
        if cpu < CpuSet::MAX_CPU {
            set.set(cpu);
        }
        sched_setaffinity(None, &set).map_err(|error| {
            Failure::new(Exit::Usage, format!("cannot pin to CPU {cpu}: {error}"), "see nproc(1)")
        })
    }

    fn conditions(&self, plan: &Plan) -> Conditions {
        let system = rustix::system::uname();
        let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let placed = match self.pin {
            Some(cpu) => format!("client and servers pinned to CPU {cpu}"),
            None => "client and servers as the scheduler places them".to_owned(),
        };
        let lines = vec![
            format!(
                "esker {}, Linux {}",
                env!("CARGO_PKG_VERSION"),
                system.release().to_string_lossy()
            ),
            format!("{cpus} CPUs usable, {} of memory", size_shown(ram())),
            format!("{} rounds, interleaved; {placed}", plan.rounds),
            format!("{} a file or job set", size_shown(plan.settings.bytes)),
        ];
        Conditions { targets: plan.targets.iter().map(Spec::to_string).collect(), lines }
    }

    fn show(&self, table: &Table, conditions: &Conditions) -> Outcome {
        if let Some(path) = &self.html {
            std::fs::write(path, page::html(table, conditions)).map_err(|error| {
                Failure::at(Exit::Failed, &format!("cannot write the page ({error})"), path, "")
            })?;
        }
        if self.json {
            println!("{:#}", report::json(table, conditions));
        } else {
            print!("{}", report::markdown(table, conditions));
        }
        Ok(())
    }
}
