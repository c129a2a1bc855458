//! `esker pack`: a tree into one file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use esker::{Kind, Time};
use esker_image::pack::{
    Error, LEVEL, LEVELS, Meta, NodeId, Options, Packed, Packer, Times, copy_into,
};
use esker_stone::limits::BLOCK_LEN_MAX;
use esker_stone::superblock::MAGIC;
use esker_stone::{Codec, Setting, hex};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said, shown};
use crate::images::{self, Begin};
use crate::pack::{Gathered, Output, Plan, Rules, gather, unpack};
use crate::units::{parse_size, ram, size_shown};

/// Quicker work shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// The smallest block.
const BLOCK_LEN_MIN: u64 = 4096;

/// Pack a tree into an image: one compressed file that is mounted, searched and extracted.
///
/// The tree is a directory, a tar archive (plain or gzip, also from standard input), or another image.
/// The same tree with the same options makes the same bytes, on any machine and with any number of
/// threads. The output appears whole or not at all.
#[derive(Args)]
#[command(after_help = "\
Levels:
  0  as it is            5  zstd 12, 8M blocks
  1  lz4, 1M blocks      6  zstd 19, 8M blocks (the default)
  2  zstd 1, 1M blocks   7  zstd 22, 16M blocks
  3  zstd 3, 2M blocks   8  xz 9, 16M blocks
  4  zstd 7, 4M blocks   9  xz 9, 64M blocks

Patterns of --exclude, --include and --filter are those of rsync(1): the first that matches decides;
* and ? stop at a /, ** does not; a / in front means the top of the tree, a / behind directories.

Examples:
  esker pack ./tree -o tree.esker
  esker pack / -o root.esker --one-file-system --exclude /tmp/ --exclude '*.o'
  esker pack old new -o both.esker         two trees, side by side
  xz -dc linux.tar.xz | esker pack - -o linux.esker
  esker pack old.esker -o new.esker -l 9   packed again, without unpacking to disk
  esker pack ./v2 -o v2.esker --base v1.esker
  esker pack ./tree -o tree.esker --level 9 --memory 4G
  SOURCE_DATE_EPOCH=0 esker pack ./tree -o tree.esker --owner 0:0

Exit status: 5 if something could not be read, or changed meanwhile; it is named.")]
pub struct Pack {
    /// What to pack: directories, tar archives (- for standard input), images; several stand side by side in
    /// the image, under their names
    #[arg(value_name = "DIR|TAR|IMAGE", required = true)]
    inputs: Vec<PathBuf>,
    /// The image to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Store only what is not in this image; the new one cannot be read without it. It is looked for beside the
    /// new one, by its file name
    #[arg(long, value_name = "IMAGE")]
    base: Vec<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// How hard to try: 0 (quick) to 9 (small)
    #[arg(short, long, value_name = "N", default_value_t = LEVEL as u8,
          value_parser = clap::value_parser!(u8).range(0..LEVELS as i64))]
    level: u8,
    /// Compress with none, lz4, zstd, xz or brotli, at its own level as in zstd:12
    #[arg(long, value_name = "CODEC[:LEVEL]", value_parser = setting)]
    codec: Option<Setting>,
    /// Compress names and attributes in another way than bytes
    #[arg(long, value_name = "CODEC[:LEVEL]", value_parser = setting)]
    meta_codec: Option<Setting>,
    /// How much is compressed together, as in 4M
    #[arg(long, value_name = "SIZE")]
    block_size: Option<String>,
    /// The most memory to use, as in 512M [default: half of the machine's]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// How many threads compress [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Leave out what matches
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Take in what matches, whatever --exclude says
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// A rule `- PATTERN` or `+ PATTERN`; the first that matches decides
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    filter: Vec<String>,
    /// Do not go into other file systems
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Give everything this owner and group
    #[arg(long, value_name = "UID:GID", value_parser = owner)]
    owner: Option<(u32, u32)>,
    /// Give everything this time, in seconds since 1970
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    time: Option<i64>,
    /// Take these permission bits away, as in 022
    #[arg(long, value_name = "OCTAL", value_parser = octal)]
    umask: Option<u16>,
    /// Keep the times of the last read and of the last change of attributes too
    #[arg(long)]
    all_times: bool,
    /// Leave out extended attributes, ACLs and capabilities
    #[arg(long)]
    no_xattrs: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

fn setting(word: &str) -> Result<Setting, String> {
    let (name, level) = word.split_once(':').map_or((word, None), |(name, l)| (name, Some(l)));
    let codec = Codec::named(name).ok_or("known are none, lz4, zstd, xz and brotli")?;
    let (least, most) = codec.levels();
    let usual = match codec {
        Codec::Zstd => 19,
        _ => most,
    };
    let level = level.map_or(Ok(usual), str::parse).map_err(|_| "the level is no number")?;
    if (least..=most).contains(&level) {
        return Ok(Setting::new(codec, level));
    }
    Err(format!("levels of {name} go from {least} to {most}"))
}

fn owner(word: &str) -> Result<(u32, u32), String> {
    let ids =
        word.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    ids.ok_or_else(|| "write it as 0:0".to_owned())
}

fn octal(word: &str) -> Result<u16, String> {
    let bits = u16::from_str_radix(word, 8).ok().filter(|&bits| bits <= 0o7777);
    bits.ok_or_else(|| "write octal permissions, as in 022".to_owned())
}

fn usage(text: String, remedy: &str) -> Failure {
    Failure::new(Exit::Usage, text, remedy)
}

impl Pack {
    /// Packs.
    pub fn run(&self) -> Outcome {
        let (options, rules) = (self.options()?, self.rules()?);
        for input in self.inputs.iter().filter(|input| input.as_os_str() != "-") {
            std::fs::metadata(input).map_err(|error| unreadable(input, &error))?;
        }
        let began = Instant::now();
        let output = Output::new(&self.output, self.force)?;
        let (gathered, packed) = self.pack(&output, options, &rules)?;
        output.keep()?;
        self.tell(&gathered, &packed, began.elapsed());
        if gathered.troubles.is_empty() {
            return Ok(());
        }
        Err(Failure { exit: Exit::Partly, text: String::new() })
    }

    fn options(&self) -> Outcome<Options> {
        let threads = self
            .threads
            .map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
        let size = |what: &str, text: &Option<String>, least: u64, most: u64| match text {
            None => Ok(None),
            Some(text) => match parse_size(text, ram()) {
                Ok(bytes) if (least..=most).contains(&bytes) => Ok(Some(bytes)),
                _ => Err(usage(
                    format!("bad --{what}: {text}"),
                    &format!("give {} to {}, as in 8M", size_shown(least), size_shown(most)),
                )),
            },
        };
        let memory = size("memory", &self.memory, 1 << 20, u64::MAX)?;
        let block = size("block-size", &self.block_size, BLOCK_LEN_MIN, BLOCK_LEN_MAX as u64)?;
        let memory = memory.unwrap_or(ram() / 2);
        let mut options = Options::level(self.level.into(), threads, memory);
        if let Some(codec) = self.codec {
            options.data = codec;
        }
        if let Some(codec) = self.meta_codec {
            options.pages = codec;
        }
        if let Some(block) = block {
            options.block_len = usize::try_from(block).unwrap_or(BLOCK_LEN_MAX);
        }
        if self.all_times {
            options.times = Times::All;
        }
        options.notes =
            vec![(b"packer".to_vec(), concat!("esker ", env!("CARGO_PKG_VERSION")).into())];
        Ok(options)
    }

    fn rules(&self) -> Outcome<Rules> {
        let mut rules = Rules::default();
        let filters = self.filter.iter().map(|rule| (None, rule));
        let includes = self.include.iter().map(|pattern| (Some(true), pattern));
        let excludes = self.exclude.iter().map(|pattern| (Some(false), pattern));
        for (include, text) in filters.chain(includes).chain(excludes) {
            let added = match include {
                None => rules.push(text),
                Some(include) => rules.add(include, text),
            };
            added.map_err(|why| usage(format!("bad pattern: {why}"), ""))?;
        }
        Ok(rules)
    }

    /// The time that everything gets, and the latest that anything may have.
    fn epoch(&self) -> Outcome<Option<Time>> {
        let given = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => Some(text.parse().map_err(|_| {
                usage(format!("SOURCE_DATE_EPOCH is no number: {text}"), "give seconds since 1970")
            })?),
            Err(_) => None,
        };
        Ok(self.time.or(given).map(|secs| Time { secs, nanos: 0 }))
    }

    fn pack(
        &self,
        output: &Output,
        options: Options,
        rules: &Rules,
    ) -> Outcome<(Gathered, Packed)> {
        let failed = |error: Error| failure(error, output);
        let time = self.epoch()?;
        let plan = Plan {
            rules,
            one_file_system: self.one_file_system,
            owner: (self.owner.map(|own| own.0), self.owner.map(|own| own.1)),
            time,
            umask: self.umask.unwrap_or(0),
            no_xattrs: self.no_xattrs,
            output: output.folder(),
        };
        let mut root = Meta::new(Kind::Directory, 0o755);
        root.mtime = time.unwrap_or_default();
        let mut packer = Packer::new(output.file()?, root.clone(), options).map_err(failed)?;
        for base in &self.base {
            self.lean_on(base, &mut packer)?.map_err(failed)?;
        }
        let mut bar = Bar::new(self.quiet);
        let mut all = Gathered::default();
        for input in &self.inputs {
            let node = match &self.inputs[..] {
                [_] => NodeId::ROOT,
                _ => self.beside(input, &root, &mut packer)?.map_err(failed)?,
            };
            let before = (all.files, all.bytes);
            let mut tick = |now: &Gathered, packer: &Packer<File>| {
                bar.tick(before.0 + now.files, before.1 + now.bytes, packer.written());
            };
            let found = take(input, node, &plan, &mut packer, &failed, &mut tick)?;
            if found.meets_output {
                let what = "the output lies inside of what is packed";
                let remedy = "write it elsewhere with -o";
                return Err(Failure::at(Exit::Usage, what, &self.output, remedy));
            }
            all.files += found.files;
            all.bytes += found.bytes;
            all.troubles.extend(found.troubles);
        }
        let (_, packed) = packer.finish().map_err(failed)?;
        bar.done();
        Ok((all, packed))
    }

    /// Takes an image as a base.
    fn lean_on(&self, base: &Path, packer: &mut Packer<File>) -> Outcome<Result<(), Error>> {
        let image = images::open(base, Begin::default(), &images::cache())?;
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
            eprintln!("esker: to be read, the image must lie beside its base, {base}");
        }
        let file = base.file_name().map_or(&b""[..], OsStr::as_encoded_bytes);
        Ok(packer.base(&image, file))
    }

    /// The directory for one of several inputs.
    fn beside(
        &self,
        input: &Path,
        root: &Meta,
        packer: &mut Packer<File>,
    ) -> Outcome<Result<NodeId, Error>> {
        let name = input.canonicalize().ok();
        let name = name.as_ref().and_then(|path| path.file_name());
        let name = name.map_or(&b"root"[..], OsStr::as_encoded_bytes);
        if packer.find(NodeId::ROOT, name).is_some() {
            let what = "two inputs have the same name";
            return Err(Failure::at(Exit::Usage, what, input, "rename one of them"));
        }
        Ok(packer.make(NodeId::ROOT, name, root.clone()))
    }

    fn tell(&self, gathered: &Gathered, packed: &Packed, took: Duration) {
        for trouble in &gathered.troubles {
            eprintln!("esker: {trouble}");
        }
        let own = &packed.statistics;
        if self.json {
            let line = json!({
                "image": self.output.to_string_lossy(),
                "name": hex(&packed.name),
                "size": packed.size,
                "files": own.files,
                "directories": own.directories,
                "symlinks": own.symlinks,
                "specials": own.specials,
                "bytes": own.file_bytes,
                "duplicate_bytes": packed.saved,
                "data": packed.data,
                "metadata": packed.metadata,
                "seconds": took.as_secs_f64(),
                "troubles": gathered.troubles,
            });
            return say(&line.to_string());
        }
        let ratio = own.file_bytes as f64 / packed.size.max(1) as f64;
        let mut text = format!(
            "packed {}: {} in {} files and {} directories became {} (1 : {ratio:.1})",
            path_shown(&self.output),
            size_shown(own.file_bytes),
            own.files,
            own.directories,
            size_shown(packed.size),
        );
        text += &format!(
            "\n  {} were there twice; names and attributes take {}; {:.1} s",
            size_shown(packed.saved),
            size_shown(packed.metadata),
            took.as_secs_f64(),
        );
        say(&format!("{text}\n  {}", hex(&packed.name)));
    }
}

fn unreadable(input: &Path, error: &std::io::Error) -> Failure {
    let what = format!("cannot read what is to be packed ({})", said(error));
    Failure::at(Exit::Source, &what, input, "give a directory, a tar archive or an image")
}

/// Packs one input, whatever it is.
fn take(
    input: &Path,
    node: NodeId,
    plan: &Plan<'_>,
    packer: &mut Packer<File>,
    failed: &dyn Fn(Error) -> Failure,
    tick: &mut dyn FnMut(&Gathered, &Packer<File>),
) -> Outcome<Gathered> {
    if input.as_os_str() == "-" {
        return unpack(std::io::stdin().lock(), input, node, plan, packer, failed, tick);
    }
    if input.is_dir() {
        return gather(input, node, plan, packer, tick).map_err(failed);
    }
    let file = File::open(input).map_err(|error| unreadable(input, &error))?;
    if !is_image(&file) {
        return unpack(file, input, node, plan, packer, failed, tick);
    }
    let image = images::open(input, Begin::default(), &images::cache())?;
    let mut gathered = Gathered::default();
    let mut trouble = |path: &[u8], error: esker::Error| {
        gathered.troubles.push(format!("{}:{}: {error}", path_shown(input), shown(path)));
        true
    };
    let rewrite = |path: &[u8], meta: Meta| {
        let below = path.strip_prefix(b"/").unwrap_or(path);
        let wanted = path.is_empty() || plan.rules.take(below, meta.kind == Kind::Directory);
        wanted.then(|| plan.rewrite(meta))
    };
    copy_into(&image, node, packer, &rewrite, &mut trouble).map_err(failed)?;
    Ok(gathered)
}

fn is_image(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut magic, 0).is_ok() && magic == MAGIC
}

/// Why packing failed, for a person.
pub fn failure(error: Error, output: &Output) -> Failure {
    match error {
        Error::Output(error) => output.failure(&error),
        Error::Memory(needed) => usage(
            format!("too little memory allowed: at least {} are needed", size_shown(needed)),
            "give more with --memory, or take a lower --level or a smaller --block-size",
        ),
        error => Failure::new(Exit::Failed, error.to_string(), ""),
    }
}

/// How far it is, on a terminal, when it takes longer.
struct Bar {
    began: Instant,
    shown: Option<ProgressBar>,
    quiet: bool,
    calls: u32,
}

impl Bar {
    fn new(quiet: bool) -> Self {
        let quiet = quiet || !std::io::stderr().is_terminal();
        Self { began: Instant::now(), shown: None, quiet, calls: 0 }
    }

    fn tick(&mut self, files: u64, bytes: u64, written: u64) {
        self.calls = self.calls.wrapping_add(1);
        if self.quiet || !self.calls.is_multiple_of(16) || self.began.elapsed() < PATIENCE {
            return;
        }
        let bar = self.shown.get_or_insert_with(|| {
            let template = "packing {spinner} {bytes} {bytes_per_sec} {msg}";
            let style = ProgressStyle::with_template(template);
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = style { bar.with_style(style) } else { bar }
        });
        bar.set_position(bytes);
        bar.set_message(format!("{files} files, {} written", size_shown(written)));
    }

    fn done(&mut self) {
        if let Some(bar) = self.shown.take() {
            bar.finish_and_clear();
        }
    }
}
