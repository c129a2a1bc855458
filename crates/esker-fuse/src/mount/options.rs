//! Mount options, as `-o` takes them.

use std::fmt;
use std::time::Duration;

use rustix::mount::MountFlags;

use crate::convert::Timeouts;
use crate::door::DoorOptions;
use crate::negotiate::Terms;
use crate::session::SessionOptions;

/// Everything about a mount that is not about what is in it. `default_permissions` is always on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// `ro`: nothing can be changed.
    pub read_only: bool,
    /// `allow_other`: other users may use the mount, as its permission bits let them.
    pub allow_other: bool,
    /// `nosuid`: set-id bits are not honoured.
    pub no_suid: bool,
    /// `nodev`: device nodes are not honoured.
    pub no_dev: bool,
    /// `noexec`: nothing can be executed.
    pub no_exec: bool,
    /// `noatime`: reading does not move atime.
    pub no_atime: bool,
    /// `sync`: every write(2) is an fsync(2).
    pub sync: bool,
    /// `dirsync`: every change of a directory is an fsync(2) of it.
    pub dir_sync: bool,
    /// `fsname=NAME`: the source in the mount table; `esker` if not given.
    pub fsname: Option<String>,
    /// What is mounted lies on the block device that is the source: where root mounts, the kernel then passes
    /// syncfs(2) on, and waits at unmounting until all is written.
    pub block: bool,
    /// `nonempty`: mount on a directory that has entries.
    pub nonempty: bool,
    /// `auto_unmount`: fusermount3 unmounts if this process dies (some versions only together with
    /// `allow_other`).
    pub auto_unmount: bool,
    /// `clear_stale`: take away a mount here whose server has died.
    pub clear_stale: bool,
    /// `writeback`, `nowriteback`: gather small writes in the kernel.
    pub writeback: bool,
    /// `noxattr`: no extended attributes and ACLs, and a request less for each new file.
    pub no_xattr: bool,
    /// `threads=N`: workers.
    pub threads: Option<usize>,
    /// Whether answers wait for a device, as those of volumes do: then there are more workers.
    pub waits: bool,
    /// What is mounted never changes: reading a file needs no request to open it, and none to close it.
    pub frozen: bool,
    /// What is mounted does not say when files were born: nobody needs to ask for it.
    pub no_births: bool,
    /// How requests come.
    pub way: Way,
    /// `max_background=N`: requests under way that nobody waits for.
    pub background_max: u16,
    /// `entry_timeout=`, `attr_timeout=`, `negative_timeout=` in seconds.
    pub timeouts: Timeouts,
}

impl Default for MountOptions {
    fn default() -> Self {
        let terms = Terms::default();
        Self {
            read_only: false,
            allow_other: false,
            no_suid: false,
            no_dev: false,
            no_exec: false,
            no_atime: false,
            sync: false,
            dir_sync: false,
            fsname: None,
            block: false,
            nonempty: false,
            auto_unmount: false,
            clear_stale: false,
            writeback: terms.writeback,
            no_xattr: false,
            threads: None,
            waits: false,
            frozen: false,
            no_births: false,
            way: Way::Auto,
            background_max: terms.background_max,
            timeouts: Timeouts::default(),
        }
    }
}

/// How requests come and answers go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Over io_uring where the kernel offers that and lets us, else through the device.
    #[default]
    Auto,
    /// read(2) and write(2) on the device.
    Device,
    /// io_uring, or not at all.
    Ring,
}

impl Way {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "device" => Some(Self::Device),
            "ring" => Some(Self::Ring),
            _ => None,
        }
    }
}

/// An option that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The option as it was given.
    pub option: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option {:?}: {}", self.option, self.reason)
    }
}

impl std::error::Error for OptionError {}

impl MountOptions {
    /// Takes the options of one `-o`: words between commas; `\,` and `\\` are a comma and a
    /// backslash in a word. Returns those that are not about mounting, for whoever knows them. A
    /// later option wins.
    ///
    /// # Errors
    /// [`OptionError`] naming the option.
    pub fn parse(&mut self, text: &str) -> Result<Vec<String>, OptionError> {
        let mut unknown = Vec::new();
        for option in words(text) {
            let (word, value) = match option.split_once('=') {
                Some((word, value)) => (word, Some(value)),
                None => (option.as_str(), None),
            };
            let wrong = |reason| OptionError { option: option.clone(), reason };
            let known = match value {
                None => self.take_word(word).map_err(wrong)?,
                Some(value) => self.take_value(word, value).map_err(wrong)?,
            };
            if !known {
                unknown.push(option);
            }
        }
        Ok(unknown)
    }

    fn take_word(&mut self, word: &str) -> Result<bool, &'static str> {
        match word {
            "ro" | "rw" => self.read_only = word == "ro",
            "suid" | "nosuid" => self.no_suid = word == "nosuid",
            "dev" | "nodev" => self.no_dev = word == "nodev",
            "exec" | "noexec" => self.no_exec = word == "noexec",
            "atime" | "relatime" | "noatime" => self.no_atime = word == "noatime",
            "sync" | "async" => self.sync = word == "sync",
            "dirsync" => self.dir_sync = true,
            "allow_other" => self.allow_other = true,
            "nonempty" => self.nonempty = true,
            "auto_unmount" => self.auto_unmount = true,
            "clear_stale" => self.clear_stale = true,
            "writeback" | "nowriteback" => self.writeback = word == "writeback",
            "xattr" | "noxattr" => self.no_xattr = word == "noxattr",
            "default_permissions" | "defaults" => {}
            "strictatime" => return Err("not offered; reading moves atime as relatime does"),
            "allow_root" => return Err("not offered; allow_other and permission bits do more"),
            "fsname" | "threads" | "transport" | "max_background" | "entry_timeout"
            | "attr_timeout" | "negative_timeout" => return Err("takes a value, as in NAME=VALUE"),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_value(&mut self, word: &str, value: &str) -> Result<bool, &'static str> {
        match word {
            "fsname" if value.is_empty() || value.contains('\0') => return Err("not a name"),
            "fsname" => self.fsname = Some(value.to_owned()),
            "threads" => {
                self.threads = Some(number(value, 1..=64, "not a number from 1 to 64")? as usize)
            }
            "max_background" => {
                self.background_max =
                    number(value, 1..=65_535, "not a number from 1 to 65535")? as u16
            }
            "entry_timeout" => self.timeouts.entry = seconds(value)?,
            "attr_timeout" => self.timeouts.attr = seconds(value)?,
            "negative_timeout" => self.timeouts.negative = seconds(value)?,
            "transport" => self.way = Way::parse(value).ok_or("auto, device or ring")?,
            "subtype" => return Err("the type of the mount is always fuse.esker"),
            "ro"
            | "rw"
            | "suid"
            | "nosuid"
            | "dev"
            | "nodev"
            | "exec"
            | "noexec"
            | "atime"
            | "relatime"
            | "noatime"
            | "sync"
            | "async"
            | "dirsync"
            | "allow_other"
            | "nonempty"
            | "auto_unmount"
            | "clear_stale"
            | "writeback"
            | "nowriteback"
            | "xattr"
            | "noxattr"
            | "default_permissions" => return Err("takes no value"),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The source in the mount table.
    #[must_use]
    pub fn source(&self) -> &str {
        self.fsname.as_deref().unwrap_or("esker")
    }

    /// What the door should do.
    #[must_use]
    pub const fn door(&self) -> DoorOptions {
        DoorOptions {
            timeouts: self.timeouts,
            xattrs: !self.no_xattr,
            atime: !(self.no_atime || self.read_only),
            writeback: self.writeback,
            frozen: self.frozen,
            no_births: self.no_births,
        }
    }

    /// What the session should do.
    #[must_use]
    pub const fn session(&self) -> SessionOptions {
        let terms =
            Terms { writeback: self.writeback, background_max: self.background_max, ring: false };
        SessionOptions { terms, threads: self.threads, waits: self.waits }
    }

    pub(super) fn mount_flags(&self) -> MountFlags {
        let flags = [
            (self.read_only, MountFlags::RDONLY),
            (self.no_suid, MountFlags::NOSUID),
            (self.no_dev, MountFlags::NODEV),
            (self.no_exec, MountFlags::NOEXEC),
            (self.no_atime, MountFlags::NOATIME),
            (self.sync, MountFlags::SYNCHRONOUS),
            (self.dir_sync, MountFlags::DIRSYNC),
        ];
        flags.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag).collect()
    }
}

/// The words between commas; `\,` and `\\` are a comma and a backslash in a word.
#[must_use]
pub fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let last = words.last_mut().expect("there is always one");
        match letter {
            ',' => words.push(String::new()),
            '\\' => last.push(letters.next().unwrap_or('\\')),
            _ => last.push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn number(
    value: &str,
    range: std::ops::RangeInclusive<u32>,
    why: &'static str,
) -> Result<u32, &'static str> {
    value.parse().ok().filter(|number| range.contains(number)).ok_or(why)
}

fn seconds(value: &str) -> Result<Duration, &'static str> {
    let seconds: f64 = value.parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|length| length.as_secs() <= u64::from(u32::MAX))
        .ok_or("not a number of seconds from 0 to 4294967295")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_or_handed_back() {
        let mut options = MountOptions::default();
        let unknown = options.parse(r"ro,size=1G,fsname=a\,b\\c,threads=2,,nodev").unwrap();
        assert_eq!(unknown, ["size=1G"]);
        assert!(options.read_only && options.no_dev && !options.no_suid);
        assert_eq!(options.fsname.as_deref(), Some(r"a,b\c"));
        assert_eq!(options.threads, Some(2));
        assert_eq!(options.parse("rw,attr_timeout=0.5").unwrap(), [""; 0]);
        assert!(!options.read_only);
        assert_eq!(options.timeouts.attr, Duration::from_millis(500));
    }

    #[test]
    fn a_bad_option_is_named() {
        for bad in [
            "threads=0",
            "threads=many",
            "attr_timeout=-1",
            "attr_timeout=inf",
            "ro=1",
            "fsname",
            "fsname=",
            "subtype=x",
            "max_background=65536",
            "entry_timeout=1e20",
        ] {
            let error = MountOptions::default().parse(bad).unwrap_err();
            assert_eq!(error.option, bad);
        }
    }
}
