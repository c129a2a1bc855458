//! `esker repack`: an image into another one, without unpacking it to disk.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use esker::Kind;
use esker_image::pack::{Meta, Options, Packed};
use esker_image::{Cache, Image};
use esker_volume::stream::OWN;

use super::pack::{Told, tell};
use crate::failure::{Outcome, path_shown};
use crate::images::{self, Opening};
use crate::pack::{
    Again, Bar, Choosing, Gathered, Hooks, Input, Making, Output, Packing, Rewriting, Total, Work,
    cache_of, failure, refuse_too_little, take, take_over,
};
use crate::printed::warn;

/// Pack an image again: at another level, with other blocks, a part of it, in another order, or only
/// with other names' and attributes' pages.
///
/// Nothing is unpacked to disk. With --metadata-only blocks stay as they are stored: owners, times and
/// permissions of a large image are rewritten in a moment.
#[derive(Args)]
#[command(after_help = "\
Orders:
  path           that of the paths (the default)
  kind           files with the same ending beside each other
  size           the smallest first
  explicit:FILE  the files that are named there first, line by line, as a program reads them
With one of the last three, or of a program or a script, like is not drawn to like, and blocks share
no base.

Examples:
  esker repack old.esker -o new.esker -l 9
  esker repack x.esker -o fast.esker --codec lz4 --block-size 256K --order explicit:boot.txt
  esker repack x.esker -o small.esker --script choose.lua
  esker repack x.esker -o docs.esker --filter '+ /usr/' --filter '+ /usr/share/***' --filter '- *'
  esker repack x.esker -o x.esker --force --metadata-only --owner 0:0 --chmod D755,F644

Exit status: 5 if something could not be read; it is named.")]
pub struct Repack {
    /// The image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// The image to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// Copy all blocks as they are stored, and write names and attributes anew
    #[arg(
        long,
        conflicts_with_all = [
            "level", "codec", "block_size", "shared_size", "group_size", "repeats", "unpack",
            "pictures", "category", "exclude", "include", "filter", "filter_from", "filter_by",
            "order_by", "script", "order", "hot",
        ]
    )]
    metadata_only: bool,
    #[command(flatten)]
    hooks: Hooks,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    choosing: Choosing,
    #[command(flatten)]
    rewriting: Rewriting,
    #[command(flatten)]
    opening: Opening,
    /// Tell what was chosen, and what came of it; --json always does
    #[arg(long)]
    explain: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

/// Blocks are copied, and only pages are compressed: that takes the memory of no level.
fn copying(options: Options) -> Options {
    let Options { pages, page_len, times, memory, notes, .. } = options;
    Options { pages, page_len, times, notes, ..Options::level(0, 1, memory) }
}

impl Repack {
    /// Packs.
    pub fn run(&self) -> Outcome {
        let mut options = self.making.options(&self.rewriting)?;
        let cache = match self.hooks.may_order() {
            true => cache_of(&mut options),
            false => images::cache(),
        };
        let image = images::open(&self.image, &self.opening, &cache)?;
        let began = Instant::now();
        let output = Output::new(&self.output, self.force)?;
        // The image may be put in its own place, but not in that of what it needs, which others may need as well.
        let spare = |base: &PathBuf| match self.metadata_only {
            true => output.spares(base),
            false => super::spare(base, &self.output),
        };
        images::files_of(&self.image, &self.opening)[1..].iter().try_for_each(spare)?;
        let lists = self.hooks.files().chain(self.choosing.files());
        lists.into_iter().try_for_each(|list| super::spare(list, &self.output))?;
        if self.metadata_only {
            take_over(&mut options, &image.root().notes);
            options = copying(options);
        }
        let leans = !image.bases().is_empty();
        let (gathered, packed) = self.pack(image, cache, &mut options, &output)?;
        output.keep()?;
        if leans {
            self.warn();
        }
        let told = Told { json: self.json, explain: self.explain, notes: &options.notes };
        tell(&self.output, &gathered, &packed, began, told)
    }

    fn pack(
        &self,
        image: Image,
        cache: Arc<Cache>,
        options: &mut Options,
        output: &Output,
    ) -> Outcome<(Gathered, Packed)> {
        let failed = |error| failure(error, output);
        let mut rules = self.choosing.rules()?;
        if !self.rewriting.plan(&rules)?.changes_nothing() {
            // It is another tree than was received.
            rules.leave_out(OWN);
        }
        let (plan, root) = (self.rewriting.plan(&rules)?, Meta::new(Kind::Directory, 0o755));
        let total = Total::default();
        total.set(image.root().statistics.file_bytes);
        let bar = Bar::new(self.quiet, total);
        let start = |options: &Options| {
            Work::new(output.file()?, root.clone(), options.clone(), output, bar)
        };
        if self.metadata_only {
            let (mut work, out) = (start(options)?, HashSet::new());
            let again = Again { file: &self.image, plan: &plan, out: &out };
            again.adopted(&image, &mut work).map_err(failed)?;
            let (gathered, _, packed) = work.finish().map_err(failed)?;
            return Ok((gathered, packed));
        }
        let mut inputs = vec![Input::of(&self.image, image)];
        // Lists may be of all of the image.
        refuse_too_little(options, output)?;
        let chosen = self.hooks.choose(&mut inputs, &plan, true)?;
        self.hooks.heed(&chosen, options)?;
        let mut work = start(options)?;
        let packing = Packing { cache, volume_bases: &[], plan: &plan, root: &root, output };
        take(inputs, &chosen.first, &packing, &mut work)?;
        let (mut gathered, _, packed) = work.finish().map_err(failed)?;
        gathered.nonsense = chosen.nonsense;
        Ok((gathered, packed))
    }

    /// An image with bases is read only where these are.
    fn warn(&self) {
        let folder = |path: &Path| path.parent().map(|folder| folder.join(".").canonicalize().ok());
        if self.metadata_only && folder(&self.image) != folder(&self.output) {
            let old = path_shown(&self.image);
            warn(&format!("to be read, the new image must lie beside the bases of {old}"));
        }
    }
}
