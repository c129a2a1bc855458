//! `esker bench pack`: how small for how much work, beside what else packs trees, and how fast it reads.

use std::path::PathBuf;

use clap::Args;

use super::bench::{Bar, aside, drawn, spare_others};
use super::say;
use crate::bench::packing::{self, Given, Plan, Report, Subject, curve, table};
use crate::bench::section::Section;
use crate::failure::{Exit, Failure, Outcome, shown};

/// Pack trees at all levels and with what else is installed, and read what was packed.
///
/// Of each: stored bytes, CPU seconds, seconds and most memory of packing; then, mounted with empty
/// caches, the time of all names with attributes, of random reads of 4 KiB over all bytes (with a cache
/// too small for the tree, too), and of everything once and once more, with the CPU seconds of who
/// asks and of the server.
#[derive(Args, Debug)]
#[command(after_help = "\
What packs (--with; what is not installed is left out and told):
  esker[:LEVEL[,OPTION...]]  an image of ours, with further options of `esker pack`: as those of
                             esker:3,--unpack=true
  squashfs[:LEVEL]           mksquashfs, zstd in blocks of 1 MiB
  erofs[:CODEC]              mkfs.erofs in clusters of 1 MiB, with the first that it has of lzma,
                             zstd, deflate, lz4hc and lz4
  zstd:LEVEL                 tar | zstd, two threads; nothing to mount
  zstd-long:LEVEL            the same with a window of 2 GiB
  xz:LEVEL[e]                tar | xz

`scripts/bench-pack-data.sh` of Esker's sources makes the trees that its figures are of.

Examples:
  sudo esker bench pack /data/set --svg curve.svg
  esker bench pack ./tree --with esker:3 --with esker:6 --with zstd:19 --rounds 0 --json
  sudo esker bench pack a b --images /data/images --markdown figures.md --title 'Trees, packed'
  esker bench pack /data/set --given 'set:another=33570000,0.69*zstd-long:19' --svg curve.svg")]
pub struct BenchPack {
    /// Trees, each measured on its own
    #[arg(required = true, value_name = "TREE")]
    trees: Vec<PathBuf>,
    /// What packs; repeat for more [default: esker at each level, squashfs, erofs, zstd:3,
    /// zstd-long:19]
    #[arg(long = "with", value_name = "WHAT")]
    subjects: Vec<String>,
    /// Figures from elsewhere to be shown beside, as TREE:NAME=BYTES,CPU-SECONDS; or with how many
    /// times the CPU seconds of something that packs here, as in `,0.7*zstd-long:19`
    #[arg(long, value_name = "FIGURES")]
    given: Vec<String>,
    /// How often everything is read; 0: nothing is
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    rounds: u32,
    /// Random reads of each round
    #[arg(long, default_value_t = 400,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    reads: u32,
    /// Where to make mount points and images
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
    /// Keep images in this directory, and use those that are there, with what they cost
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Print JSON, with every round
    #[arg(long)]
    pub json: bool,
    /// Also draw stored bytes against CPU seconds
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

impl BenchPack {
    /// Measures and prints.
    pub fn run(&self) -> Outcome {
        let plan = self.plan()?;
        spare_others(self.svg.as_deref())?;
        let named = self.markdown.as_deref().zip(self.title.as_deref());
        let section = named.map(|(path, title)| Section::new(path, title)).transpose()?;
        let mut bar = Bar::new();
        let report = aside(|| packing::run(&plan, &mut bar));
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
        let directories = self.trees.iter().chain([&self.scratch]).chain(&self.images);
        for path in directories {
            if !path.is_dir() {
                return Err(Failure::at(Exit::Usage, "no such directory", path, "name one"));
            }
        }
        let subjects = match self.subjects.as_slice() {
            [] => Subject::usual(),
            words => words.iter().map(|word| Subject::parse(word)).collect::<Outcome<_>>()?,
        };
        let given = self.given.iter().map(|word| given(word)).collect::<Outcome<_>>()?;
        let rounds = format!("{}, each of all that was packed", self.rounds);
        let conditions =
            [("rounds of reading", rounds), ("random reads a round", self.reads.to_string())];
        Ok(Plan {
            trees: self.trees.clone(),
            subjects,
            given,
            reads: self.reads as usize,
            rounds: self.rounds as usize,
            scratch: self.scratch.clone(),
            images: self.images.clone(),
            conditions: conditions.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        })
    }

    /// The figures were hard to come by: they are printed whatever becomes of the files.
    fn show(&self, report: &Report, section: Option<&Section>) -> Outcome {
        let tables = table::markdown(report);
        match self.json {
            true => say(&format!("{:#}", table::json(report))),
            false => say(tables.trim_end()),
        }
        drawn(self.svg.as_deref(), || curve::svg(report))?;
        section.map_or(Ok(()), |section| section.write(&tables))
    }
}

fn given(word: &str) -> Outcome<Given> {
    let parse = || {
        let (tree, rest) = word.split_once(':')?;
        let (name, figures) = rest.rsplit_once('=')?;
        let (stored, cpu) = figures.split_once(',')?;
        let (cpu, of) = match cpu.split_once('*') {
            Some((cpu, of)) => (cpu, Some(Subject::parse(of).ok()?)),
            None => (cpu, None),
        };
        let (stored, cpu) = (stored.parse().ok()?, cpu.parse().ok()?);
        let fits = !name.is_empty() && f64::is_finite(cpu) && cpu >= 0.0;
        fits.then(|| Given { tree: tree.to_owned(), name: name.to_owned(), stored, cpu, of })
    };
    parse().ok_or_else(|| {
        let what = format!("no figures: {}", shown(word.as_bytes()));
        Failure::new(Exit::Usage, what, "give TREE:NAME=BYTES,CPU-SECONDS[*WHAT]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_from_elsewhere_are_read() {
        let known = given("versions:DwarFS -l7=33570000,158.5").unwrap();
        assert_eq!((known.tree.as_str(), known.name.as_str()), ("versions", "DwarFS -l7"));
        assert_eq!((known.stored, known.cpu), (33_570_000, 158.5));
        let scaled = given("a:b=5,0.5*zstd:3").unwrap();
        assert_eq!(scaled.of, Some(Subject::parse("zstd:3").unwrap()));
        for bad in [
            "",
            "x",
            "a:b=1,2*",
            "a:b=1,2*zip",
            "a:b",
            "a:b=1",
            "a:=1,2",
            "a:b=-1,2",
            "a:b=1,nan",
            "a:b=1,-2",
        ] {
            assert_eq!(given(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }
}
