//! `esker bench flash`: what a volume does to flash in the long run.

use std::path::PathBuf;

use clap::Args;
use esker_stone::Setting;
use esker_volume::limits;

use super::bench::{Bar, aside};
use super::say;
use crate::bench::flash::{self, Plan, Report, What, steady, table, wear};
use crate::bench::section::Section;
use crate::failure::{Exit, Failure, Outcome, shown};
use crate::units::{parse_size, ram, size_shown};
use crate::volumes::{is_block_len, setting};

/// The least device that overwriting is tried on, in bytes: less has no room for what is kept back.
const SIZE_MIN: u64 = 16 << 20;
/// The device that wears, in bytes.
const WORN_SIZE: u64 = 8 << 20;
/// How full it is, in hundredths, and how much of that is never written again.
const WORN: [(steady::Access, u64, u64); 4] = [
    (steady::Access::Uniform, 80, 0),
    (steady::Access::Skewed, 80, 0),
    (steady::Access::Uniform, 80, 80),
    (steady::Access::Uniform, 50, 90),
];

/// Simulate what a volume does to flash in the long run, over a device in memory.
///
/// There is no clock in it: every run gives the same figures, whatever else the machine does.
#[derive(Args, Debug)]
#[command(after_help = "\
What (all where none is named):
  steady     random blocks written over until it is the same each time: bytes and requests that
             reach the device, and why
  wear       how often each erase block is begun again: of a device of 8 MiB that is 80 % full,
             where all is written over alike, some of it more often, or most of it never; and of
             one that is half full of what never changes
  inflation  how many bytes of files an erase block holds, beside what SSDFS tells of itself

Examples:
  esker bench flash inflation
  esker bench flash steady --size 1G --passes 6
  esker bench flash wear --times 10000 --json > figures.json")]
pub struct BenchFlash {
    /// What to measure
    what: Vec<String>,
    /// Size of the device that is written over: 16M at least, a quarter of memory at most (steady)
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    size: String,
    /// Bytes of a segment, a power of two; what suits the size where it is not given (steady)
    #[arg(long, value_name = "SIZE")]
    segment: Option<String>,
    /// Bytes of its blocks: 4K, 8K, 16K or 32K (steady)
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    block: String,
    /// How they are compressed, as for mkfs; what is written is random (steady)
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = setting)]
    compress: Setting,
    /// How full it is, of a hundred that it can hold, 95 at most; several with commas (steady)
    #[arg(long, value_delimiter = ',', default_value = "20,80,90", value_name = "N,N",
          value_parser = clap::value_parser!(u64).range(1..=95))]
    full: Vec<u64>,
    /// How often as many blocks are written over as there are; the last time counts (steady)
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    passes: u64,
    /// How often as many bytes are written as the device has (wear)
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    times: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Also write the tables into a Markdown file, in place of those of an earlier run with this
    /// title; all other text in it stays
    #[arg(long, value_name = "FILE", requires = "title")]
    markdown: Option<PathBuf>,
    /// The section of --markdown
    #[arg(long, value_name = "TITLE", requires = "markdown")]
    title: Option<String>,
}

impl BenchFlash {
    /// Measures and prints.
    pub fn run(&self) -> Outcome {
        let plan = self.plan()?;
        let named = self.markdown.as_deref().zip(self.title.as_deref());
        let section = named.map(|(path, title)| Section::new(path, title)).transpose()?;
        let mut bar = Bar::new();
        let mut report = Report::default();
        let done = aside(|| flash::run(&plan, &mut report, &mut bar));
        bar.finish();
        if done.is_err() && report.is_empty() {
            return done;
        }
        // What was measured before something failed took its time, too.
        let tables = table::markdown(&report);
        match self.json {
            true => say(&format!("{:#}", table::json(&report))),
            false => say(tables.trim_end()),
        }
        done?;
        section.map_or(Ok(()), |section| section.write(&tables))
    }

    fn plan(&self) -> Outcome<Plan> {
        let size = parse_size(&self.size, 0).ok();
        let size = size.filter(|size| (SIZE_MIN..=ram() / 4).contains(size)).ok_or_else(|| {
            let what = format!("not a size of a device: {}", shown(self.size.as_bytes()));
            Failure::new(
                Exit::Usage,
                what,
                "give 16M to a quarter of the memory, as in --size 256M",
            )
        })?;
        let all = [What::Steady, What::Wear, What::Inflation];
        let what = match self.what.as_slice() {
            [] => all.to_vec(),
            words => words.iter().map(|word| parse(word)).collect::<Outcome<_>>()?,
        };
        let passes = self.passes;
        let accesses = [steady::Access::Uniform, steady::Access::Skewed];
        let segment = self.segment(size)?;
        let (block, setting) = (self.block()?, self.compress);
        let plan =
            |full, access| steady::Plan { size, segment, block, setting, full, access, passes };
        let steady = self.full.iter().flat_map(|&full| accesses.map(|access| plan(full, access)));
        let (size, times) = (WORN_SIZE, self.times);
        let wear =
            WORN.map(|(access, full, cold)| wear::Plan { size, access, times, cold, full }).into();
        Ok(Plan { what, steady: steady.collect(), wear })
    }

    fn block(&self) -> Outcome<u32> {
        let known = parse_size(&self.block, 0).ok().filter(|&own| is_block_len(own));
        known.map(|own| own as u32).ok_or_else(|| {
            let what = format!("not a size of a block: {}", shown(self.block.as_bytes()));
            Failure::new(Exit::Usage, what, "give 4K, 8K, 16K or 32K")
        })
    }

    /// Bytes of a segment; 0: what suits the size.
    fn segment(&self, size: u64) -> Outcome<u64> {
        let Some(word) = &self.segment else { return Ok(0) };
        let lens = limits::SEGMENT_LEN_MIN..=limits::SEGMENT_LEN_MAX;
        let known = parse_size(word, 0).ok();
        let known = known.filter(|own| own.is_power_of_two() && lens.contains(own));
        let len = known.ok_or_else(|| {
            let what = format!("not a size of a segment: {}", shown(word.as_bytes()));
            Failure::new(Exit::Usage, what, "give a power of two from 128K, as in --segment 1M")
        })?;
        let (least, most) = (limits::SEGMENTS_MIN * len, limits::SEGMENTS_MAX * len);
        if (least..=most).contains(&size) {
            return Ok(len);
        }
        let what = format!(
            "segments of {} are for sizes from {} to {}",
            size_shown(len),
            size_shown(least),
            size_shown(most)
        );
        Err(Failure::new(Exit::Usage, what, "give another --segment or --size"))
    }
}

fn parse(word: &str) -> Outcome<What> {
    match word {
        "steady" => Ok(What::Steady),
        "wear" => Ok(What::Wear),
        "inflation" => Ok(What::Inflation),
        _ => {
            let what = format!("nothing that is measured: {}", shown(word.as_bytes()));
            Err(Failure::new(Exit::Usage, what, "there are steady, wear and inflation"))
        }
    }
}
