//! Mount options: the comma-separated words behind `-o`, parsed once.
//!
//! Above: `verbs::mount` takes an [`Options`]. Below: the door parses the words about mounting,
//! this file those about what is mounted; `near` finds what an unknown word was meant to be.
//! Invariant: an [`Options`] that exists makes sense as a whole; nobody checks it again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use esker::limits::FILE_SIZE_MAX;
use esker_fuse::MountOptions;
use esker_stone::Setting;
use esker_volume::device::Wish;

use crate::failure::{Exit, Failure, Outcome, os_shown, shown};
use crate::images::{Begin, start};
use crate::near::nearest;
use crate::units::{BadSize, parse_size, size_shown};
use crate::volumes::setting;

/// Everything that `-o` may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What the door takes.
    pub mount: MountOptions,
    /// `uid=`: owner of the root directory.
    pub uid: Option<u32>,
    /// `gid=`: group of the root directory.
    pub gid: Option<u32>,
    /// `mode=`: permissions of the root directory.
    pub mode: Option<u16>,
    /// `umask=`: what is taken from them.
    pub umask: Option<u16>,
    /// `size=`: most bytes that the file system may hold, bookkeeping included.
    pub size: Option<u64>,
    /// `file_size=`: the largest file, in bytes.
    pub file_size: u64,
    /// `cache=`: bytes that an image's mount keeps of what it decoded.
    pub cache: u64,
    /// `offset=`: where an image begins in its file.
    pub offset: Begin,
    /// `commit=`: seconds after which what changed in a volume is written.
    pub commit: Option<u32>,
    /// `dirty=`: bytes of changes in memory, at most, before they are written to a volume.
    pub dirty: Option<u64>,
    /// `base=`: images that what is mounted may lie on; any number of them.
    pub bases: Vec<PathBuf>,
    /// `compress=`: how what is new in a volume is compressed.
    pub compress: Option<Setting>,
    /// `discard`, `nodiscard`: whether what a volume needs no more is given back below it.
    pub discard: Option<bool>,
    /// `dedup`, `nodedup`: whether what is written to a volume is looked for in it.
    pub dedup: Option<bool>,
    /// `deltas`, `nodeltas`: whether what is written over something that it resembles is stored as what differs.
    pub deltas: Option<bool>,
    /// `placement=`: how a device is told what stays as long as what else.
    pub placement: Option<Wish>,
    /// `overlay`: changes of an image go to memory.
    pub overlay: bool,
    /// `snapshots`: those of a volume are shown in its root directory.
    pub snapshots: bool,
    /// `no_sandbox`: what serves images keeps its rights.
    pub no_sandbox: bool,
    /// `fsname=` was given.
    pub named: bool,
    /// `atime` or `relatime` was given.
    pub atime: bool,
    /// `remount`: only change how what is mounted may be used.
    pub remount: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mount: MountOptions { fsname: Some("mem:".to_owned()), ..MountOptions::default() },
            uid: None,
            gid: None,
            mode: None,
            umask: None,
            size: None,
            file_size: FILE_SIZE_MAX,
            cache: CACHE_LEN,
            offset: Begin(None),
            commit: None,
            dirty: None,
            bases: Vec::new(),
            compress: None,
            discard: None,
            dedup: None,
            deltas: None,
            placement: None,
            overlay: false,
            snapshots: false,
            no_sandbox: false,
            named: false,
            atime: false,
            remount: false,
        }
    }
}

/// Bytes that an image's mount keeps of what it decoded, unless said otherwise.
const CACHE_LEN: u64 = 256 << 20;

/// Seconds after which what changed in a volume is written, unless said otherwise.
const COMMIT_SECS: u32 = 5;
/// Bytes of changes in memory, unless said otherwise.
pub const DIRTY_LEN: u64 = 128 << 20;

/// Every word that is understood, for whoever slipped on one.
pub const WORDS: &[&str] = &[
    "ro",
    "rw",
    "allow_other",
    "default_permissions",
    "uid=",
    "gid=",
    "umask=",
    "mode=",
    "size=",
    "file_size=",
    "cache=",
    "offset=",
    "base=",
    "commit=",
    "dirty=",
    "compress=",
    "discard",
    "nodiscard",
    "dedup",
    "nodedup",
    "deltas",
    "nodeltas",
    "placement=",
    "overlay",
    "snapshots",
    "no_sandbox",
    "nosuid",
    "suid",
    "nodev",
    "dev",
    "noexec",
    "exec",
    "noatime",
    "relatime",
    "atime",
    "sync",
    "async",
    "dirsync",
    "fsname=",
    "writeback",
    "no_writeback",
    "nonempty",
    "auto_unmount",
    "clear_stale",
    "noxattr",
    "xattr",
    "threads=",
    "transport=",
    "max_background=",
    "entry_timeout=",
    "attr_timeout=",
    "negative_timeout=",
    "remount",
    "defaults",
];

/// The smallest file system that has room for anything, in bytes.
pub const SIZE_MIN: u64 = 1 << 20;
/// The smallest cache.
const CACHE_LEN_MIN: u64 = 1 << 20;
/// The least that may change before it is written: what one request can, and what holding it takes.
const DIRTY_LEN_MIN: u64 = 16 << 20;

impl Options {
    /// Parses what stood behind each `-o`. `ram` is what `%` counts from, in bytes. Later words
    /// win.
    pub fn parse(lists: &[OsString], ram: u64) -> Outcome<Self> {
        let mut options = Self::default();
        for list in lists {
            let text = list.to_str().ok_or_else(|| {
                usage(format!("mount options are not UTF-8: {}", os_shown(list)), "")
            })?;
            let ours = options.mount.parse(text).map_err(|error| {
                usage(format!("bad mount option: {}", shown(error.option.as_bytes())), error.reason)
            })?;
            options.named |= text.split(',').any(|word| word.starts_with("fsname="));
            options.atime |= text.split(',').any(|word| matches!(word, "atime" | "relatime"));
            for word in ours {
                options.take(&word, ram)?;
            }
        }
        Ok(options)
    }

    /// One word that is not about mounting.
    fn take(&mut self, word: &str, ram: u64) -> Outcome {
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (word, None),
        };
        match (key, value) {
            ("no_writeback", None) => self.mount.writeback = false,
            ("uid", Some(value)) => self.uid = Some(number(key, value)?),
            ("gid", Some(value)) => self.gid = Some(number(key, value)?),
            ("mode", Some(value)) => self.mode = Some(octal(key, value, 0o7777)?),
            ("umask", Some(value)) => self.umask = Some(octal(key, value, 0o777)?),
            ("size", Some(value)) => self.size = Some(size(key, value, ram, SIZE_MIN)?),
            ("file_size", Some(value)) => {
                self.file_size = size(key, value, ram, 1)?.min(FILE_SIZE_MAX);
            }
            ("cache", Some(value)) => self.cache = budget(key, value, ram, CACHE_LEN_MIN)?,
            ("offset", Some(value)) => {
                self.offset = start(value).map_err(|why| bad(key, value, &why))?;
            }
            ("base", Some(value)) => self.bases.push(value.into()),
            ("commit", Some(value)) => {
                let secs = value.parse().ok().filter(|&secs| secs > 0);
                let secs =
                    secs.ok_or_else(|| bad(key, value, "give a number of seconds, from 1"))?;
                self.commit = Some(secs);
            }
            ("dirty", Some(value)) => {
                self.dirty = Some(budget(key, value, ram, DIRTY_LEN_MIN)?);
            }
            ("compress", Some(value)) => {
                self.compress = Some(setting(value).map_err(|why| bad(key, value, &why))?);
            }
            ("discard", None) => self.discard = Some(true),
            ("nodiscard", None) => self.discard = Some(false),
            ("dedup", None) => self.dedup = Some(true),
            ("nodedup", None) => self.dedup = Some(false),
            ("deltas", None) => self.deltas = Some(true),
            ("nodeltas", None) => self.deltas = Some(false),
            ("placement", Some(value)) => self.placement = Some(wish(key, value)?),
            ("overlay", None) => self.overlay = true,
            ("snapshots", None) => self.snapshots = true,
            ("no_sandbox", None) => self.no_sandbox = true,
            ("remount", None) => self.remount = true,
            _ if for_mount(key) => {}
            (key, value) => return Err(unknown(key, value.is_some())),
        }
        Ok(())
    }

    /// Permissions of the root directory: `mode=` (else those given, else 0755; with only `umask=`,
    /// 0777) without the bits of `umask=`.
    pub fn root_perm(&self, given: Option<u16>) -> u16 {
        let umask = self.umask.unwrap_or(0);
        let fallback = if self.umask.is_some() { 0o777 } else { 0o755 };
        self.mode.or(given).unwrap_or(fallback) & !umask
    }

    /// How old changes of a volume become before they are written.
    pub fn commit_age(&self) -> Duration {
        Duration::from_secs(self.commit.unwrap_or(COMMIT_SECS).into())
    }

    /// [`Options::size`], or what tmpfs takes: half of the memory of the machine.
    pub fn size_or_half(&self, ram: u64) -> u64 {
        self.size.unwrap_or((ram / 2).max(SIZE_MIN))
    }
}

/// How a device is told of streams.
fn wish(key: &str, value: &str) -> Outcome<Wish> {
    match value {
        "auto" => Ok(Wish::Auto),
        "streams" => Ok(Wish::Streams),
        "lifetimes" => Ok(Wish::Lifetimes),
        "none" => Ok(Wish::Nothing),
        _ => Err(bad(key, value, "give auto, streams, lifetimes or none")),
    }
}

/// What mount(8) keeps for itself in fstab, or repeats from the mount table when it remounts.
pub fn for_mount(key: &str) -> bool {
    const TABLE: [&str; 5] = ["user_id", "group_id", "rootmode", "max_read", "blksize"];
    const FSTAB: [&str; 6] = ["auto", "noauto", "nofail", "_netdev", "user", "users"];
    TABLE.contains(&key) || FSTAB.contains(&key) || key.starts_with("x-") || key.starts_with("X-")
}

fn usage(text: String, remedy: &str) -> Failure {
    Failure::new(Exit::Usage, text, remedy)
}

fn bad(key: &str, value: &str, remedy: &str) -> Failure {
    usage(format!("bad mount option: {key}={}", shown(value.as_bytes())), remedy)
}

/// Names what is not known, or known only with (or without) a value, and what may have been meant.
fn unknown(key: &str, with_value: bool) -> Failure {
    let name = shown(key.as_bytes());
    let plain = WORDS.contains(&name.as_str());
    let valued = WORDS.contains(&format!("{name}=").as_str());
    if plain && with_value {
        return usage(format!("mount option takes no value: {name}"), "write it without `=`");
    }
    if valued && !with_value {
        return usage(
            format!("mount option needs a value: {name}"),
            &format!("write {name}=VALUE"),
        );
    }
    let list = "`esker mount --help` lists what is known";
    match nearest(&name, WORDS) {
        Some(near) => usage(format!("unknown mount option: {name} (did you mean {near}?)"), list),
        None => usage(format!("unknown mount option: {name}"), list),
    }
}

/// A user or group number; 2^32-1 means "nobody in particular" to the kernel.
fn number(key: &str, value: &str) -> Outcome<u32> {
    let parsed = value.parse().ok().filter(|&number| number != u32::MAX);
    parsed.ok_or_else(|| bad(key, value, "give a number below 4294967295, as `id -u` prints it"))
}

fn octal(key: &str, value: &str, max: u16) -> Outcome<u16> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = u16::from_str_radix(value, 8).ok().filter(|&bits| digits && bits <= max);
    parsed
        .ok_or_else(|| bad(key, value, &format!("give octal permissions up to {max:o}, as in 755")))
}

fn size(key: &str, value: &str, ram: u64, min: u64) -> Outcome<u64> {
    let remedy = "give bytes with K, M, G or T, or a share of the memory, as in 512M or 25%";
    match parse_size(value, ram) {
        Ok(bytes) if bytes >= min => Ok(bytes),
        Ok(_) => Err(bad(key, value, &format!("too small, the least is {min} bytes"))),
        Err(BadSize::TooLarge) => Err(bad(key, value, "too large, 64 bits cannot count that")),
        Err(BadSize::MoreThanAll) => Err(bad(key, value, "more than all of the memory, 100%")),
        Err(BadSize::Unclear) => Err(bad(key, value, remedy)),
    }
}

/// Memory that is used up to that: of more than there is nobody would be told before there is none left.
fn budget(key: &str, value: &str, ram: u64, min: u64) -> Outcome<u64> {
    let bytes = size(key, value, ram, min)?;
    if bytes <= ram.max(min) {
        return Ok(bytes);
    }
    Err(bad(key, value, &format!("more than this machine has, {}", size_shown(ram))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAM: u64 = 8 << 30;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(&[text.into()], RAM).map_err(|failure| failure.text)
    }

    #[test]
    fn nothing_given_is_the_default() {
        assert_eq!(parse("").unwrap(), Options::default());
        assert_eq!(parse("rw,defaults,default_permissions").unwrap(), Options::default());
        assert_eq!(Options::default().size_or_half(RAM), RAM / 2);
    }

    #[test]
    fn every_word_in_the_list_is_understood() {
        for word in WORDS {
            let text = match *word {
                "fsname=" => "fsname=x".to_owned(),
                "size=" | "cache=" | "dirty=" => format!("{word}64M"),
                "transport=" => "transport=device".to_owned(),
                "compress=" => "compress=zstd:7".to_owned(),
                "placement=" => "placement=streams".to_owned(),
                word if word.ends_with('=') => format!("{word}7"),
                word => word.to_owned(),
            };
            parse(&text).unwrap_or_else(|text| panic!("{word}: {text}"));
        }
    }

    #[test]
    fn sizes_have_units_and_shares() {
        assert_eq!(parse("size=2097152").unwrap().size, Some(2 << 20));
        assert_eq!(parse("size=2m,file_size=1G").unwrap().size, Some(2 << 20));
        assert_eq!(parse("size=25%").unwrap().size, Some(RAM / 4));
        assert_eq!(parse("file_size=8589934592T").unwrap_err().matches("file_size").count(), 1);
        for (bad, why) in [
            ("size=", "give bytes"),
            ("size=1X", "give bytes"),
            ("size=-1", "give bytes"),
            ("size=1.5G", "give bytes"),
            ("size=1", "too small"),
            ("size=0", "too small"),
            ("size=17000000T", "too large"),
            ("size=200%", "more than all"),
            ("cache=9G", "more than this machine has, 8.0 GiB"),
            ("dirty=8589934593", "more than this machine has"),
        ] {
            let text = parse(bad).unwrap_err();
            assert!(text.contains(bad) && text.contains(why), "{text}");
        }
    }

    #[test]
    fn the_root_directory_takes_mode_and_umask() {
        assert_eq!(parse("").unwrap().root_perm(None), 0o755);
        assert_eq!(parse("").unwrap().root_perm(Some(0o700)), 0o700);
        assert_eq!(parse("umask=027").unwrap().root_perm(None), 0o750);
        assert_eq!(parse("mode=1777").unwrap().root_perm(Some(0o700)), 0o1777);
        assert_eq!(parse("mode=1777,umask=022").unwrap().root_perm(None), 0o1755);
        for bad in
            ["mode=8", "mode=10000", "mode=", "umask=7777", "mode=+7", "uid=root", "gid=4294967295"]
        {
            assert!(parse(bad).unwrap_err().contains(bad), "{bad}");
        }
    }

    #[test]
    fn an_unknown_word_is_named_with_the_nearest() {
        let text = parse("alow_other").unwrap_err();
        assert!(
            text.starts_with("unknown mount option: alow_other (did you mean allow_other?): "),
            "{text}"
        );
        assert!(
            parse("szie=1G").unwrap_err().contains("(did you mean size=?): `esker mount --help`")
        );
        assert!(!parse("quux").unwrap_err().contains("did you mean"));
        assert!(parse("ro=1").unwrap_err().contains("bad mount option: ro=1: takes no value"));
        assert!(parse("no_writeback=1").unwrap_err().contains("takes no value"));
        assert!(parse("size").unwrap_err().contains("needs a value: size"));
        assert!(parse("fsname=").unwrap_err().contains("fsname"));
        assert!(parse("threads=0").is_err() && parse("threads=65").is_err());
    }

    #[test]
    fn a_name_may_hold_commas() {
        let options = parse(r"fsname=a\,b\\,ro").unwrap();
        assert_eq!(options.mount.source(), r"a,b\");
        assert!(options.mount.read_only);
        let odd = std::os::unix::ffi::OsStringExt::from_vec(b"fsname=\xff".to_vec());
        assert!(Options::parse(&[odd], RAM).unwrap_err().text.contains("\\xff"));
    }

    #[test]
    fn the_last_word_wins() {
        let options = Options::parse(&["ro,nosuid,size=2M".into(), "rw,suid,size=4M".into()], RAM);
        let options = options.unwrap();
        assert!(!options.mount.read_only && !options.mount.no_suid);
        assert_eq!(options.size, Some(4 << 20));
        assert!(!parse("no_writeback").unwrap().mount.writeback);
    }
}
