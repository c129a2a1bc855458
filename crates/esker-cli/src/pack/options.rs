//! What a user can say about the image that is made: how it is compressed, what is left out, and which attributes are
//! rewritten. `pack` and `repack` share it.
//!
//! Above: `verbs`. Below: the packer's options, `filter`, `walk`. Invariant: an option says one thing, and each can be
//! given by itself.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use clap::Args;
use esker::Time;
use esker_image::Cache;
use esker_image::pack::{self, LEVEL, LEVELS, Options, Own, Owns, SHARING, Sharing, Times};
use esker_stone::limits::BLOCK_LEN_MAX;
use esker_stone::{Codec, Setting};

use super::walk::Perms;
use super::{Output, PATIENCE, Plan, Rules, failure, read_list};
use crate::failure::{Exit, Failure, Outcome, said};
use crate::units::{mappable, parse_size, ram, size_shown};

/// The smallest block.
const BLOCK_LEN_MIN: u64 = 4096;
/// The same of one kind of data: a unit fits in.
const OWN_BLOCK_LEN_MIN: u64 = 64 << 10;
/// The largest group.
const GROUP_LEN_MAX: u64 = 1 << 32;
/// The smallest and the largest page.
const PAGE_LENS: (u64, u64) = (512, 256 << 10);

/// The longest stream that can be told of.
const STREAM_LEN_MAX: u64 = 1 << 30;

/// Under which names an image keeps how its data was packed.
const LEVEL_NOTE: &str = "level";
const OPTIONS_NOTE: &str = "options";

/// How the image is compressed.
#[derive(Args)]
pub struct Making {
    /// How hard to try: 0 (quick) to 9 (small)
    #[arg(short, long, value_name = "N", default_value_t = LEVEL as u8,
          value_parser = clap::value_parser!(u8).range(0..=LEVELS as i64 - 1))]
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
    /// How much plain data the blocks of a group may all refer to where it pays, as in 2M; 0: blocks
    /// stand alone
    #[arg(long, value_name = "SIZE")]
    shared_size: Option<String>,
    /// How much plain data refers to the same, as in 32M
    #[arg(long, value_name = "SIZE")]
    group_size: Option<String>,
    /// The shortest stretch that is looked for in everything before, as in 1K; 0: none
    #[arg(long, value_name = "SIZE")]
    repeats: Option<String>,
    /// How much of names and attributes is compressed together, as in 32K
    #[arg(long, value_name = "SIZE")]
    page_size: Option<String>,
    /// The most memory to use, as in 512M, and never more than `ulimit -v` allows [default: half of the machine's]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// How many threads compress [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Whether streams in files of gzip, zip and others are stored as the text that is in them, where that is smaller,
    /// and made again when read: all, none, or those up to a length [default: 4K at levels 5 and 6, true from 7 on]
    #[arg(long, value_name = "true|false|SIZE")]
    unpack: Option<String>,
    /// Whether pictures of JPEG are stored as what is in their blocks, and their codes made again when read [default:
    /// true from level 7 on]
    #[arg(long, value_name = "true|false")]
    pictures: Option<bool>,
    /// Treat one kind of data in its own way, as in text:codec=xz:9,block=16M or usual:order=path; any number of them.
    /// Keys: codec=CODEC[:LEVEL] as in --codec, block=SIZE (64K and more), order=path (as it comes) or order=alike
    /// (like beside like, as the level has it). Kinds: usual, packed (what is compressed already), sound, hot, text,
    /// streams (what is in those that are unpacked), code
    #[arg(long, value_name = "KIND:KEY=VALUE[,...]")]
    category: Vec<String>,
}

/// What is taken in.
#[derive(Args)]
pub struct Choosing {
    /// Leave out what matches
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Take in what matches, whatever --exclude says
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// A rule `- PATTERN` or `+ PATTERN`; the first that matches decides
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    filter: Vec<String>,
    /// Rules from a file, line by line, behind those of --filter; empty lines and those with a # in front do not count
    #[arg(long, value_name = "FILE")]
    filter_from: Vec<PathBuf>,
}

impl Choosing {
    /// The files in which rules are.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.filter_from.iter().map(PathBuf::as_path)
    }
}

/// Which attributes are rewritten.
#[derive(Args)]
pub struct Rewriting {
    /// Give everything this owner and group; either may be left out, as in 0: or :100
    #[arg(long, value_name = "UID:GID", value_parser = owner)]
    owner: Option<(Option<u32>, Option<u32>)>,
    /// Give everything this time, in seconds since 1970. Without it, SOURCE_DATE_EPOCH is the latest time that
    /// anything has
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    time: Option<i64>,
    /// Take these permission bits away, as in 022
    #[arg(long, value_name = "OCTAL", value_parser = octal)]
    umask: Option<u16>,
    /// Give everything these permissions, or directories and files different ones, as in D755,F644
    #[arg(long, value_name = "OCTAL", value_parser = perms)]
    chmod: Option<Perms>,
    /// Keep the times of the last read, of the last change of attributes and of birth too
    #[arg(long)]
    all_times: bool,
    /// Leave out extended attributes, ACLs and capabilities
    #[arg(long)]
    no_xattrs: bool,
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

fn owner(word: &str) -> Result<(Option<u32>, Option<u32>), String> {
    let id = |text: &str| match text {
        "" => Some(None),
        text => text.parse().ok().map(Some),
    };
    let (uid, gid) = word.split_once(':').unwrap_or((word, ""));
    let ids = id(uid).zip(id(gid)).filter(|ids| *ids != (None, None));
    ids.ok_or_else(|| "write it as 0:0, 0: or :0".to_owned())
}

fn octal(word: &str) -> Result<u16, String> {
    let bits = u16::from_str_radix(word, 8).ok().filter(|&bits| bits <= 0o7777);
    bits.ok_or_else(|| "write octal permissions, as in 022".to_owned())
}

fn perms(word: &str) -> Result<Perms, String> {
    let mut perms = Perms::default();
    for part in word.split(',') {
        let (which, bits) = match part.as_bytes().first() {
            Some(b'D' | b'F') => part.split_at(1),
            _ => ("", part),
        };
        let bits = Some(octal(bits)?);
        if which != "F" {
            perms.directories = bits;
        }
        if which != "D" {
            perms.files = bits;
        }
    }
    Ok(perms)
}

fn usage(text: String, remedy: &str) -> Failure {
    Failure::new(Exit::Usage, text, remedy)
}

/// A size within bounds.
fn size(what: &str, text: Option<&String>, (least, most): (u64, u64)) -> Outcome<Option<u64>> {
    let Some(text) = text else { return Ok(None) };
    match parse_size(text, ram()) {
        Ok(bytes) if (least..=most).contains(&bytes) => Ok(Some(bytes)),
        _ => Err(usage(
            format!("bad --{what}: {text}"),
            &format!("give {} to {}, as in 8M", size_shown(least), size_shown(most)),
        )),
    }
}

/// The longest stream that is unpacked.
fn longest(word: &str) -> Outcome<Option<usize>> {
    match word {
        "true" => Ok(Some(usize::MAX)),
        "false" => Ok(None),
        // Within what a machine word holds.
        size => match parse_size(size, ram()) {
            Ok(bytes @ 1..=STREAM_LEN_MAX) => Ok(Some(bytes as usize)),
            _ => Err(usage(
                format!("bad --unpack: {word}"),
                "say true, false, or the length of the longest stream, as in 12K",
            )),
        },
    }
}

/// What a word says of one kind of data. What comes later wins.
fn own(mut owns: Owns, word: &str, alike: bool) -> Outcome<Owns> {
    let remedy = "write it as text:codec=zstd:19,block=8M,order=path, each of the three or some";
    let bad = |why: &str| usage(format!("bad --category: {word}: {why}"), remedy);
    let (name, rest) = word.split_once(':').ok_or_else(|| bad("it says nothing"))?;
    let (mut said, mut in_order) = (Own::default(), None);
    for part in rest.split(',') {
        match part.split_once('=') {
            Some(("codec", codec)) => said.setting = Some(setting(codec).map_err(|why| bad(&why))?),
            Some(("block", len)) => {
                let bounds = (OWN_BLOCK_LEN_MIN, BLOCK_LEN_MAX as u64);
                let len = size("category", Some(&len.to_owned()), bounds)?;
                said.block_len = len.map(|len| len as usize);
            }
            Some(("order", "path")) => in_order = Some(true),
            Some(("order", "alike")) if alike => in_order = Some(false),
            Some(("order", "alike")) => return Err(bad("at this level like is not drawn to like")),
            _ => return Err(bad("known are codec=, block=, order=path and order=alike")),
        }
    }
    let known = owns.say(name, |own| {
        own.setting = said.setting.or(own.setting);
        own.block_len = said.block_len.or(own.block_len);
        own.in_order = in_order.unwrap_or(own.in_order);
    });
    let names = || Owns::NAMES.map(|(name, _)| name).join(", ");
    if known { Ok(owns) } else { Err(bad(&format!("kinds are {}", names()))) }
}

/// A cache where files come from all over what is packed: a block that was given up would be decoded for each of them
/// again. It has half of the memory, if that leaves enough to pack with.
pub fn cache_of(options: &mut Options) -> Arc<Cache> {
    let (_, least) = memory_least(options);
    let share = (options.memory / 2).min(options.memory.saturating_sub(least));
    options.memory -= share;
    Cache::new(usize::try_from(share).unwrap_or(usize::MAX))
}

/// The least memory that packing takes, as long as it is not known whether somebody gives an order: at least, and at
/// most.
fn memory_least(options: &Options) -> (u64, u64) {
    let mut ordered = options.clone();
    ordered.keep_order();
    let [one, other] = [options, &ordered].map(Options::memory_least);
    (one.min(other), one.max(other))
}

/// Whether there is memory to pack with, before anybody is asked and an archive has gone by.
pub fn refuse_too_little(options: &Options, output: &Output) -> Outcome {
    let (least, _) = memory_least(options);
    if options.memory < least { Err(failure(pack::Error::Memory(least), output)) } else { Ok(()) }
}

/// Refuses what is said of kinds of data that changes nothing; `hot`: some is wanted first.
pub fn refuse_in_vain(options: &Options, hot: bool) -> Outcome {
    if !hot && options.owns.says("hot") {
        let what = "--category hot: has no effect: nothing is wanted first".to_owned();
        return Err(usage(what, "leave it out, or name what is with --hot"));
    }
    let Some((name, why)) = options.owns.in_vain(options) else { return Ok(()) };
    let what = format!("--category {name}: has no effect: {why}");
    Err(usage(what, "leave it out, or choose another level; `esker pack --help` lists them"))
}

/// Lets the image keep what was asked for besides.
pub fn remember(options: &mut Options, words: &[String]) {
    if words.is_empty() {
        return;
    }
    let words = words.join(" ").into_bytes();
    let known = options.notes.iter_mut().find(|(name, _)| name == OPTIONS_NOTE.as_bytes());
    match known {
        Some((_, said)) => said.extend([b" ", &words[..]].concat()),
        None => options.notes.push((OPTIONS_NOTE.as_bytes().to_vec(), words)),
    }
}

/// Lets an image whose blocks are those of another keep how these were packed.
pub fn take_over(options: &mut Options, old: &[(Vec<u8>, Vec<u8>)]) {
    let names = [LEVEL_NOTE, OPTIONS_NOTE].map(str::as_bytes);
    let is_taken = |(name, _): &&(Vec<u8>, Vec<u8>)| names.contains(&&name[..]);
    options.notes.retain(|note| !is_taken(&note));
    options.notes.extend(old.iter().filter(is_taken).cloned());
}

impl Making {
    /// For the packer.
    pub fn options(&self, rewriting: &Rewriting) -> Outcome<Options> {
        let threads = self
            .threads
            .map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
        let memory = size("memory", self.memory.as_ref(), (1 << 20, u64::MAX))?;
        let blocks = (BLOCK_LEN_MIN, BLOCK_LEN_MAX as u64);
        let block = size("block-size", self.block_size.as_ref(), blocks)?;
        let page = size("page-size", self.page_size.as_ref(), PAGE_LENS)?;
        let memory = memory.unwrap_or(ram() / 2).min(mappable());
        let mut options = Options::level(self.level.into(), threads, memory);
        if let Some(codec) = self.codec {
            options.data = codec;
        }
        if let Some(codec) = self.meta_codec {
            options.pages = codec;
        }
        // Both are within what a machine word holds.
        if let Some(block) = block {
            options.block_len = block as usize;
        }
        if let Some(least) = size("repeats", self.repeats.as_ref(), (0, 1 << 20))? {
            options.repeats = (least > 0).then_some(least as usize);
        }
        let shared = size("shared-size", self.shared_size.as_ref(), (0, BLOCK_LEN_MAX as u64))?;
        let group = size("group-size", self.group_size.as_ref(), (BLOCK_LEN_MIN, GROUP_LEN_MAX))?;
        if shared.or(group).is_some() {
            let usual = options.sharing.unwrap_or(SHARING);
            let base_len = shared.map_or(usual.base_len, |shared| shared as usize);
            let group_len = group.map_or(usual.group_len, |group| group as usize);
            if base_len >= group_len {
                let [base, group] = [base_len, group_len].map(|len| size_shown(len as u64));
                let what =
                    format!("a base of {base} leaves nothing of a group of {group} beside it");
                return Err(usage(what, "give a smaller --shared-size, or a larger --group-size"));
            }
            options.sharing = (base_len > 0).then_some(Sharing { base_len, group_len });
        }
        if let Some(word) = &self.unpack {
            options.unpack = longest(word)?;
        }
        options.pictures = self.pictures.unwrap_or(options.pictures);
        if let Some(page) = page {
            options.page_len = page as usize;
        }
        for word in &self.category {
            options.owns = own(options.owns, word, options.alike)?;
        }
        if rewriting.all_times {
            options.times = Times::All;
        }
        options.notes = self.notes();
        Ok(options)
    }

    /// What the image keeps: who made it, and what of what was asked for its bytes depend on.
    fn notes(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut said = Vec::new();
        let mut say = |name: &str, value: Option<String>| {
            said.extend(value.map(|value| format!("--{name} {value}")));
        };
        say("codec", self.codec.map(|codec| codec.to_string()));
        say("meta-codec", self.meta_codec.map(|codec| codec.to_string()));
        say("block-size", self.block_size.clone());
        say("shared-size", self.shared_size.clone());
        say("group-size", self.group_size.clone());
        say("repeats", self.repeats.clone());
        say("page-size", self.page_size.clone());
        say("unpack", self.unpack.clone());
        say("pictures", self.pictures.map(|pictures| pictures.to_string()));
        for category in &self.category {
            say("category", Some(category.clone()));
        }
        let note = |name: &str, value: String| (name.as_bytes().to_vec(), value.into_bytes());
        let packer = concat!("esker ", env!("CARGO_PKG_VERSION")).to_owned();
        let mut notes = vec![note("packer", packer), note(LEVEL_NOTE, self.level.to_string())];
        if !said.is_empty() {
            notes.push(note(OPTIONS_NOTE, said.join(" ")));
        }
        notes
    }
}

impl Choosing {
    /// In their order.
    pub fn rules(&self) -> Outcome<Rules> {
        let mut rules = Rules::default();
        let mut filters = self.filter.clone();
        for file in &self.filter_from {
            let text = read_list(file, PATIENCE).and_then(|text| {
                String::from_utf8(text).map_err(|error| Error::new(ErrorKind::InvalidData, error))
            });
            let text = text.map_err(|error| {
                let what = format!("cannot read the rules ({})", said(&error));
                Failure::at(Exit::Source, &what, file, "name a file with a rule on each line")
            })?;
            let lines = text.lines().map(str::trim_start);
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            filters.extend(lines.map(str::to_owned));
        }
        let filters = filters.iter().map(|rule| (None, rule));
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
}

impl Rewriting {
    /// With everything else that a plan says.
    pub fn plan<'a>(&self, rules: &'a Rules) -> Outcome<Plan<'a>> {
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => Some(text.parse().map_err(|_| {
                usage(format!("SOURCE_DATE_EPOCH is no number: {text}"), "give seconds since 1970")
            })?),
            Err(_) => None,
        };
        let time = |secs| Time { secs, nanos: 0 };
        Ok(Plan {
            owner: self.owner.unwrap_or_default(),
            time: self.time.map(time),
            time_max: epoch.map(time).filter(|_| self.time.is_none()),
            umask: self.umask.unwrap_or(0),
            perms: self.chmod.unwrap_or_default(),
            no_xattrs: self.no_xattrs,
            births: self.all_times && self.time.is_none(),
            ..Plan::plain(rules)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_said_twice_the_last_counts() {
        let all = |words: &[&str]| {
            let said = words.iter().map(|word| word.to_string());
            said.fold(Owns::default(), |owns, word| own(owns, &word, true).ok().unwrap())
        };
        let both = ["text:order=path,block=1M", "text:order=alike"];
        assert_eq!(all(&both), all(&["text:block=1M"]));
        assert_ne!(all(&["text:order=path"]), Owns::default());
        assert_eq!(all(&["text:codec=lz4", "text:codec=zstd:3"]), all(&["text:codec=zstd:3"]));
    }

    #[test]
    fn owners_and_permissions_are_read() {
        assert_eq!(owner("1:2"), Ok((Some(1), Some(2))));
        assert_eq!((owner("1"), owner(":2")), (Ok((Some(1), None)), Ok((None, Some(2)))));
        assert!(owner(":").is_err() && owner("root").is_err());
        let both = |directories, files| Ok(Perms { directories, files });
        assert_eq!(perms("D755,F644"), both(Some(0o755), Some(0o644)));
        assert_eq!(perms("700"), both(Some(0o700), Some(0o700)));
        assert_eq!(perms("F4755"), both(None, Some(0o4755)));
        assert!(perms("D").is_err() && perms("u+x").is_err());
    }
}
