//! `esker repack`: an image into another one, without unpacking it to disk.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use esker::{Ino, Kind};
use esker_image::pack::{Meta, NodeId, Options, Packed, Packer};
use esker_image::{Cache, Image};
use esker_volume::stream::OWN;

use super::pack::{Told, tell};
use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::images::{self, Opening};
use crate::pack::{
    Again, Bar, Choosing, Gathered, Making, NAMED_BEFORE, NOT_THERE, OnBad, Order, Output,
    Rewriting, Total, again, each_in, failure, kind_word, no_file, refuse_in_vain, take_over,
};

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

Examples:
  esker repack old.esker -o new.esker -l 9
  esker repack x.esker -o fast.esker --codec lz4 --block-size 256K --order explicit:boot.txt
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
            "pictures", "category", "exclude", "include", "filter", "filter_from", "order", "hot",
        ]
    )]
    metadata_only: bool,
    /// In which order the bytes of files come: path, kind, size or explicit:FILE
    #[arg(long, value_name = "ORDER", default_value = "path")]
    order: String,
    /// Files that are wanted first, as `esker mount --profile` writes them: they come first, in blocks of their own
    #[arg(long, value_name = "FILE", conflicts_with = "order")]
    hot: Option<PathBuf>,
    /// What to do when a list names what is not in the image: stop, or tell it and go on
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_bad_answer: OnBad,
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

/// The file that has this path, which has no `/` in front, if an order can name it; none where that cannot be read. The
/// error is why not.
fn file(image: &Image, path: &[u8]) -> Result<Option<Ino>, String> {
    match images::exactly(image, path) {
        Ok((ino, Kind::File)) => Ok(Some(ino)),
        Ok((_, kind)) => Err(no_file(kind_word(kind))),
        // What is damaged is told when it is packed.
        Err(esker::Error::Io) => Ok(None),
        Err(_) => Err(NOT_THERE.to_owned()),
    }
}

impl Repack {
    /// Packs.
    pub fn run(&self) -> Outcome {
        let (mut order, list) = self.order()?;
        let mut options = self.making.options(&self.rewriting)?;
        refuse_in_vain(&options, self.hot.is_some())?;
        let cache = match (&order, list) {
            (Order::Path, None) => images::cache(),
            // Files come from all over the image: a block that was given up would be decoded for each of them again.
            _ => {
                let share = options.memory / 2;
                options.memory -= share;
                Cache::new(usize::try_from(share).unwrap_or(usize::MAX))
            }
        };
        let image = images::open(&self.image, &self.opening, &cache)?;
        let mut nonsense = Vec::new();
        if let Some(list) = list {
            (order, nonsense) = self.listed(list, &image)?;
        }
        let began = Instant::now();
        let output = Output::new(&self.output, self.force)?;
        // The image may be put in its own place, but not in that of what it needs, which others may need as well.
        let spare = |base: &PathBuf| match self.metadata_only {
            true => output.spares(base),
            false => super::spare(base, &self.output),
        };
        images::files_of(&self.image, &self.opening)[1..].iter().try_for_each(spare)?;
        list.map_or(Ok(()), |list| super::spare(list, &self.output))?;
        if self.metadata_only {
            take_over(&mut options, &image.root().notes);
        }
        let notes = options.notes.clone();
        let (mut gathered, packed) = self.pack(&image, &order, options, &output)?;
        gathered.nonsense = nonsense;
        output.keep()?;
        self.warn(&image);
        let told = Told { json: self.json, explain: self.explain, notes: &notes };
        tell(&self.output, &gathered, &packed, began, told)
    }

    /// The order; of one that a file lists, that file.
    fn order(&self) -> Outcome<(Order, Option<&Path>)> {
        if let Some(hot) = &self.hot {
            return Ok((Order::default(), Some(hot)));
        }
        match self.order.split_once(':').unwrap_or((&self.order, "")) {
            ("path", "") => Ok((Order::Path, None)),
            ("kind", "") => Ok((Order::Kind, None)),
            ("size", "") => Ok((Order::Size, None)),
            ("explicit" | "list", file) if !file.is_empty() => {
                Ok((Order::default(), Some(Path::new(file))))
            }
            _ => {
                let what = format!("bad --order: {}", self.order);
                Err(Failure::new(Exit::Usage, what, "known are path, kind, size and explicit:FILE"))
            }
        }
    }

    /// The order of a list, and what of it made no sense.
    fn listed(&self, list: &Path, image: &Image) -> Outcome<(Order, Vec<String>)> {
        let (mut places, mut named) = (HashMap::new(), HashSet::new());
        let nonsense = each_in(list, self.on_bad_answer, |path| {
            if named.contains(path) {
                return Err(NAMED_BEFORE.to_owned());
            }
            if let Some(ino) = file(image, path)? {
                // Under another name it may have been named before.
                places.entry(ino).or_insert(named.len() as u64);
            }
            named.insert(path.to_vec());
            Ok(())
        })?;
        Ok((Order::Listed(places), nonsense))
    }

    fn pack(
        &self,
        image: &Image,
        order: &Order,
        options: Options,
        output: &Output,
    ) -> Outcome<(Gathered, Packed)> {
        let failed = |error| failure(error, output);
        let mut rules = self.choosing.rules()?;
        if !self.rewriting.plan(&rules)?.changes_nothing() {
            // It is another tree than was received.
            rules.leave_out(OWN);
        }
        let plan = self.rewriting.plan(&rules)?;
        let total = Total::default();
        total.set(image.root().statistics.file_bytes);
        let mut bar = Bar::new(self.quiet, total);
        let root = Meta::new(Kind::Directory, 0o755);
        let mut packer = Packer::with_scratch(output.file()?, root, options, &|| output.scratch())
            .map_err(failed)?;
        let mut tick = |now: &Gathered, packer: &Packer<File>| {
            bar.tick(now.files, now.bytes, packer.written());
        };
        let what = Again {
            view: image,
            file: &self.image,
            top: NodeId::ROOT,
            plan: &plan,
            order,
            adopt: self.metadata_only.then_some(image),
            hot: self.hot.is_some(),
        };
        let gathered = again(&what, &mut packer, &mut tick).map_err(failed)?;
        let (_, packed) = packer.finish().map_err(failed)?;
        bar.done();
        Ok((gathered, packed))
    }

    /// An image with bases is read only where these are.
    fn warn(&self, image: &Image) {
        let folder = |path: &Path| path.parent().map(|folder| folder.join(".").canonicalize().ok());
        if self.metadata_only
            && !image.bases().is_empty()
            && folder(&self.image) != folder(&self.output)
        {
            let old = path_shown(&self.image);
            eprintln!("esker: to be read, the new image must lie beside the bases of {old}");
        }
    }
}
