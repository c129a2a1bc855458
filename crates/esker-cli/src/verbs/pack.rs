//! `esker pack`: a tree into one file.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use esker::Kind;
use esker_image::pack::{Error, Meta, Options, Packed, Packer};
use esker_volume::stream::OWN;

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::images::{self, Opening};
use crate::pack::{
    Bar, Choosing, First, Gathered, Hooks, Input, Making, Output, Packing, Plan, Rewriting, Total,
    Work, cache_of, described, explained, failure, gather_list, inputs, is_image, lay_open,
    refuse_too_little, take, unreadable, words,
};
use crate::printed::warn;
use crate::volumes;

/// Pack a tree into an image: one compressed file that is mounted, searched and extracted.
///
/// The tree is a directory, a tar archive (plain or gzip, also from standard input), another image, or a volume
/// that is not mounted for writing.
/// The same tree with the same options makes the same bytes, on any machine and with any number of
/// threads. The output appears whole or not at all.
#[derive(Args)]
#[command(after_help = "\
Levels:
  0  as it is, 1M blocks 5  zstd 12
  1  lz4, 1M blocks      6  zstd 18 (the default)
  2  zstd 1, 1M blocks   7  xz 6, 8M blocks
  3  zstd 3              8  xz 9, 16M blocks
  4  zstd 6, 8M blocks   9  xz 9, 64M blocks

Blocks have 2M where nothing else is said, at level 6 3M. From level 1 on, what was there before is
stored once, wherever it begins: stretches of 1 or 2 KiB and more. From level 4 on, what is alike
comes together (all bytes wait in a file without a name beside the output until everything is read),
and text is told in words. At levels 5 and 6 the blocks of each 32M share a base of 3M from all
parts of these, so that they are small to read and know what large ones would, unless they have
little in common and a trial says that it does not pay; then, and at other levels, they are alone.
What is compressed already is found out and stored; from level 2 on WAVE and AIFF sound
is predicted. At levels 4 and 7 to 9 code in ELF, PE and Mach-O files lies apart, and calls are told
by what they call. From level 5 on, what is in files of gzip, zip and PNG and in packs of git is
stored as text, and they are made of it again bit by bit: streams of up to 4K at levels 5 and 6, all
from 7 on. From level 7 on, so are pictures of JPEG of what is in their blocks.

Patterns of --exclude, --include and --filter are those of rsync(1): the first that matches decides;
* and ? stop at a /, ** does not; x/*** is x and all that is in it; a / in front means the top of
the tree, a / behind directories. What is left out goes with all that is in it.

Programs, scripts and lists that choose are asked about everything before it is packed. Of several
inputs paths begin with the names under which these stand in the image, and an order is one of all
files. A tar archive then waits in a file without a name beside the output.

Examples:
  esker pack ./tree -o tree.esker
  esker pack / -o root.esker --one-file-system --exclude /tmp/ --exclude '*.o'
  esker pack old new -o both.esker         two trees, side by side
  xz -dc linux.tar.xz | esker pack - -o linux.esker
  esker pack old.esker -o new.esker -l 9   packed again, without unpacking to disk
  esker pack ./v2 -o v2.esker --base v1.esker
  find src -name '*.c' -print0 | esker pack --files-from - -0 -o sources.esker
  esker pack ./tree -o tree.esker --level 9 --memory 4G
  esker pack ./tree -o tree.esker --category text:codec=xz:9,block=16M
  esker pack ./tree -o tree.esker --filter-by ./choose.py --order explicit:first.txt
  zcat linux.tar.gz | esker pack - -o linux.esker --script choose.lua
  esker pack old new -o both.esker --order-by ./order.py
  SOURCE_DATE_EPOCH=0 esker pack ./tree -o tree.esker --owner 0:0

Exit status: 5 if something could not be read, or changed meanwhile; it is named.")]
pub struct Pack {
    /// What to pack: directories, tar archives (- for standard input), images, volumes; several stand side by
    /// side in the image, under their names
    #[arg(value_name = "DIR|TAR|IMAGE|VOLUME", required_unless_present = "files_from")]
    pub inputs: Vec<PathBuf>,
    /// The image to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Store only what is not in this image, which has no base itself; the new one cannot be read without it. It is
    /// found beside the new one, whatever its name is there; any number of them
    #[arg(long, value_name = "IMAGE")]
    pub base: Vec<PathBuf>,
    /// Where the image is that a volume among these lies on, if it is neither where it was nor beside the volume
    #[arg(long, value_name = "IMAGE")]
    pub volume_base: Vec<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    choosing: Choosing,
    #[command(flatten)]
    rewriting: Rewriting,
    #[command(flatten)]
    hooks: Hooks,
    /// Pack what this file names, or - for standard input, line by line and under its paths below DIR, or below the
    /// working directory, which whole paths begin with; a directory in the list stands for itself and not for what is
    /// in it
    #[arg(long, value_name = "FILE", conflicts_with = "one_file_system")]
    files_from: Option<PathBuf>,
    /// Paths in --files-from end with a zero byte, as find -print0 writes them
    #[arg(short = '0', long, requires = "files_from")]
    null: bool,
    /// Do not go into other file systems
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Tell what was chosen, and what came of it; --json always does
    #[arg(long)]
    explain: bool,
    /// Keep what `esker receive` knows in the root: only it says so, of what nobody has changed
    #[arg(long, hide = true)]
    received: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

impl Pack {
    /// Packs.
    pub fn run(&self) -> Outcome {
        let mut options = self.making.options(&self.rewriting)?;
        let mut rules = self.choosing.rules()?;
        if !self.received {
            // What was received may have been changed since, and nothing would show it.
            rules.leave_out(OWN);
        }
        self.check()?;
        let mut inputs = inputs(&self.inputs)?;
        let began = Instant::now();
        let output = Output::new(&self.output, self.force)?;
        let mut plan = self.rewriting.plan(&rules)?;
        plan.one_file_system = self.one_file_system;
        plan.output = output.folder().filter(|_| self.files_from.is_none());
        self.spare_what_is_read()?;
        let has_blocks = self.inputs.iter().any(|input| !input.is_dir());
        let cache = match self.hooks.may_order() && has_blocks {
            true => cache_of(&mut options),
            false => images::cache(),
        };
        let mut root = plan.rewrite(Meta::new(Kind::Directory, 0o755));
        root.mtime = plan.time.or(plan.time_max).unwrap_or_default();
        let volume_bases = &self.volume_base;
        let packing = Packing { cache, volume_bases, plan: &plan, root: &root, output: &output };
        if !self.hooks.is_empty() {
            refuse_too_little(&options, &output)?;
            lay_open(&mut inputs, &options, &packing, self.quiet)?;
        }
        let mut chosen = self.hooks.choose(&mut inputs, &plan, false)?;
        self.hooks.heed(&chosen, &mut options)?;
        let notes = options.notes.clone();
        let (mut gathered, packed) = self.pack(inputs, &chosen.first, options, &packing)?;
        gathered.nonsense = std::mem::take(&mut chosen.nonsense);
        output.keep()?;
        let told = Told { json: self.json, explain: self.explain, notes: &notes };
        tell(&self.output, &gathered, &packed, began, told)
    }

    /// Whether what is to be packed is there, and goes together.
    fn check(&self) -> Outcome {
        if self.files_from.is_some() {
            let usage = |what, remedy: &str| Err(Failure::new(Exit::Usage, what, remedy));
            if self.inputs.len() > 1 {
                let what = "--files-from takes one directory at most";
                return usage(what, "give the one that its paths are below");
            }
            if !self.hooks.is_empty() {
                let what = "--files-from says itself what is packed, so nothing else can choose";
                let others = "--filter-by, --order-by, --script, --order and --hot";
                return usage(what, &format!("leave it out, or {others}"));
            }
        }
        for input in self.inputs.iter().filter(|input| input.as_os_str() != "-") {
            let snapshot = volumes::snapshots::named(input);
            let file = snapshot.as_ref().map_or(input.as_path(), |(volume, _)| volume.as_path());
            let meta = std::fs::metadata(file).map_err(|error| unreadable(input, &error))?;
            if self.files_from.is_some() && !meta.is_dir() {
                let what = "not a directory, and paths of --files-from are below one";
                return Err(Failure::at(Exit::Usage, what, input, "give a directory"));
            }
        }
        Ok(())
    }

    /// An image that is packed anew may be put in its own place, and nothing else that is read.
    fn spare_what_is_read(&self) -> Outcome {
        for input in self.inputs.iter().filter(|input| input.is_file()) {
            let files = images::files_of(input, &Opening::default());
            super::spare_all(&files[1..], &self.output)?;
        }
        let lists = self.hooks.files().chain(self.choosing.files());
        lists
            .chain(self.files_from.as_deref())
            .try_for_each(|list| super::spare(list, &self.output))
    }

    fn pack(
        &self,
        inputs: Vec<Input<'_>>,
        first: &[First],
        options: Options,
        packing: &Packing<'_>,
    ) -> Outcome<(Gathered, Packed)> {
        let output = packing.output;
        let failed = |error: Error| failure(error, output);
        let total = Total::default();
        let bar = Bar::new(self.quiet, total.clone());
        let is_seen = bar.is_seen();
        let mut work = Work::new(output.file()?, packing.root.clone(), options, output, bar)?;
        for base in &self.base {
            output.spares(base)?;
            self.lean_on(base, &mut work.packer)?.map_err(failed)?;
        }
        if is_seen && self.files_from.is_none() {
            self.count(&total, packing.plan);
        }
        match &self.files_from {
            Some(list) => self.listed(list, packing.plan, &mut work, &failed)?,
            None => take(inputs, first, packing, &mut work)?,
        }
        let (gathered, _, packed) = work.finish().map_err(failed)?;
        Ok((gathered, packed))
    }

    /// How much there is to do, as far as that can be known beforehand.
    fn count(&self, total: &Total, plan: &Plan<'_>) {
        if self.inputs.iter().all(|input| input.is_dir()) {
            return total.count(self.inputs.clone(), plan.rules);
        }
        if let [input] = &self.inputs[..]
            && let Ok(file) = File::open(input)
            && is_image(&file)
            && let Ok(image) = images::open(input, &Opening::default(), &images::cache())
        {
            total.set(image.root().statistics.file_bytes);
        }
    }

    /// Packs what a list names.
    fn listed(
        &self,
        list: &Path,
        plan: &Plan<'_>,
        work: &mut Work,
        failed: &dyn Fn(Error) -> Failure,
    ) -> Outcome {
        let unread = |error: std::io::Error| {
            let what = format!("cannot read the list ({})", said(&error));
            Failure::at(
                Exit::Source,
                &what,
                list,
                "give a file with paths, or - for standard input",
            )
        };
        let root = self.inputs.first().map_or(Path::new("."), PathBuf::as_path);
        let end = if self.null { 0 } else { b'\n' };
        let listed = match list.as_os_str().as_encoded_bytes() {
            b"-" => gather_list(root, std::io::stdin().lock(), end, plan, work),
            _ => {
                let file = std::io::BufReader::new(File::open(list).map_err(unread)?);
                gather_list(root, file, end, plan, work)
            }
        };
        listed.map_err(failed)?.map_err(unread)
    }

    /// Takes an image as a base.
    fn lean_on(&self, base: &Path, packer: &mut Packer<File>) -> Outcome<Result<(), Error>> {
        let image = images::open(base, &Opening::default(), &images::cache())?;
        if !image.bases().is_empty() {
            let what = "a base that has a base itself";
            return Err(Failure::at(Exit::Usage, what, base, "give the first one"));
        }
        let beside = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
        let same = |one: PathBuf, other: PathBuf| {
            let real = |path: PathBuf| path.join(".").canonicalize().ok();
            real(one) == real(other)
        };
        if !same(beside(base), beside(&self.output)) {
            let base = path_shown(base);
            warn(&format!("to be read, the image must lie beside its base, {base}"));
        }
        let file = base.file_name().map_or(&b""[..], OsStr::as_encoded_bytes);
        Ok(packer.base(&image, file))
    }
}

/// How it is told what came of it.
pub struct Told<'a> {
    /// For a machine: all of it.
    pub json: bool,
    /// What was chosen besides.
    pub explain: bool,
    /// What the image says of itself.
    pub notes: &'a [(Vec<u8>, Vec<u8>)],
}

/// Tells what came of it.
pub fn tell(
    image: &Path,
    gathered: &Gathered,
    packed: &Packed,
    began: Instant,
    told: Told<'_>,
) -> Outcome {
    for trouble in &gathered.troubles {
        warn(trouble);
    }
    if told.json {
        say(&described(image, gathered, packed, began.elapsed(), told.notes));
    } else {
        say(&words(image, gathered, packed, began.elapsed()));
        if told.explain {
            say(&explained(packed, told.notes));
        }
    }
    if gathered.troubles.is_empty() {
        return Ok(());
    }
    Err(Failure { exit: Exit::Partly, text: String::new() })
}
