//! The operations of fsx, each done to the file and to its shadow.
//!
//! Above: [`super::run`]. Invariant: after each operation file and shadow should hold the same.

use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::{Run, map, open};
use crate::script::fill;

/// One operation, at a place.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are those of the system calls")]
pub enum Work {
    Read {
        at: u64,
        len: u64,
    },
    Write {
        at: u64,
        len: u64,
        seed: u64,
    },
    MapRead {
        at: u64,
        len: u64,
    },
    MapWrite {
        at: u64,
        len: u64,
        seed: u64,
        flush: bool,
    },
    Truncate {
        len: u64,
    },
    Punch {
        at: u64,
        len: u64,
    },
    Zero {
        at: u64,
        len: u64,
        keep: bool,
    },
    Reserve {
        at: u64,
        len: u64,
        keep: bool,
    },
    /// From the other file, or within this one.
    Copy {
        from: u64,
        at: u64,
        len: u64,
        other: bool,
    },
    Seek {
        at: u64,
    },
    Sync {
        data_only: bool,
    },
    /// Close, open, and compare everything.
    Reopen,
}

impl Work {
    /// Names of the kinds, in the order of [`Work::kind`].
    pub const KINDS: [&'static str; 12] = [
        "read", "write", "mapread", "mapwrite", "truncate", "punch", "zero", "reserve", "copy",
        "seek", "sync", "reopen",
    ];

    pub(super) const fn kind(&self) -> usize {
        match self {
            Self::Read { .. } => 0,
            Self::Write { .. } => 1,
            Self::MapRead { .. } => 2,
            Self::MapWrite { .. } => 3,
            Self::Truncate { .. } => 4,
            Self::Punch { .. } => 5,
            Self::Zero { .. } => 6,
            Self::Reserve { .. } => 7,
            Self::Copy { .. } => 8,
            Self::Seek { .. } => 9,
            Self::Sync { .. } => 10,
            Self::Reopen => 11,
        }
    }
}

fn told(what: &str) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{what}: {error}")
}

fn same(what: &str, at: u64, found: &[u8], wanted: &[u8]) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    if found.len() != wanted.len() {
        return Err(format!("{what} at {at}: {} bytes, not {}", found.len(), wanted.len()));
    }
    let pairs = || found.iter().zip(wanted);
    let first = pairs().position(|(one, other)| one != other).unwrap_or(0);
    let wrong = pairs().filter(|(one, other)| one != other).count();
    Err(format!(
        "{what} at {at}: {wrong} bytes are wrong, the first at {:#x}: {:#04x}, not {:#04x}",
        at + first as u64,
        found[first],
        wanted[first]
    ))
}

impl Run {
    pub(super) fn choose(&mut self) -> (usize, Work) {
        let chance = &mut self.chance;
        let which = chance.below(2) as usize;
        let size = self.files[which].bytes.len() as u64;
        let len = 1 + chance.below(self.len_max);
        let at = chance.below(self.size_max - 1);
        let len = len.min(self.size_max - at);
        // Where something can be found.
        let inner = chance.below(size + 1);
        let inner_len = len.min(size - inner);
        let flag = chance.below(2) == 0;
        let seed = chance.number() & 0xff;
        let work = match chance.below(100) {
            0..20 => Work::Read { at: inner, len },
            20..42 => Work::Write { at, len, seed },
            42..52 if inner_len > 0 => Work::MapRead { at: inner, len: inner_len },
            52..64 => Work::MapWrite { at, len, seed, flush: flag },
            64..71 => Work::Truncate { len: at },
            71..77 => Work::Punch { at, len },
            77..82 => Work::Zero { at, len, keep: flag },
            82..86 => Work::Reserve { at, len, keep: flag },
            86..93 => {
                let from = chance.below(self.files[which].bytes.len() as u64 + 1);
                Work::Copy { from, at, len, other: flag }
            }
            93..96 => Work::Seek { at: inner },
            96..98 => Work::Sync { data_only: flag },
            98 => Work::Reopen,
            _ => Work::Read { at, len },
        };
        (which, work)
    }

    pub(super) fn work(&mut self, which: usize, work: Work) -> Result<(), String> {
        match work {
            Work::Read { at, len } => self.read(which, at, len),
            Work::Write { at, len, seed } => {
                let bytes = fill(seed, at, len as usize);
                self.files[which].file.write_all_at(&bytes, at).map_err(told("write"))?;
                self.put(which, at, &bytes);
                Ok(())
            }
            Work::MapRead { at, len } => {
                let one = &self.files[which];
                let wanted = &one.bytes[at as usize..(at + len) as usize];
                let mut outcome = Ok(());
                map::read(&one.file, at, len as usize, |found| {
                    outcome = same("mmap read", at, found, wanted);
                })?;
                outcome
            }
            Work::MapWrite { at, len, seed, flush } => {
                let end = at + len;
                if end > self.files[which].bytes.len() as u64 {
                    self.cut(which, end)?;
                }
                let bytes = fill(seed, at, len as usize);
                map::write(&self.files[which].file, at, &bytes, flush)?;
                self.put(which, at, &bytes);
                Ok(())
            }
            Work::Truncate { len } => self.cut(which, len),
            Work::Punch { .. } | Work::Zero { .. } | Work::Reserve { .. } => {
                self.allocate(which, work)
            }
            Work::Copy { from, at, len, other } => self.copy(which, from, at, len, other),
            Work::Seek { at } => self.seek(which, at),
            Work::Sync { data_only } => {
                let file = &self.files[which].file;
                if data_only { file.sync_data() } else { file.sync_all() }.map_err(told("fsync"))
            }
            Work::Reopen => {
                let reopened = open(&self.files[which].path, false)?;
                self.files[which].file = reopened;
                let size = self.files[which].file.metadata().map_err(told("fstat"))?.len();
                let wanted = self.files[which].bytes.len() as u64;
                if size != wanted {
                    return Err(format!("the size is {size}, not {wanted}"));
                }
                self.read(which, 0, wanted + 1)
            }
        }
    }

    fn read(&self, which: usize, at: u64, len: u64) -> Result<(), String> {
        let one = &self.files[which];
        let mut found = vec![0xee; len as usize];
        let mut count = 0;
        // Short reads are allowed; the end of the file is not reached early.
        loop {
            let more = one.file.read_at(&mut found[count..], at + count as u64);
            let more = more.map_err(told("read"))?;
            count += more;
            if more == 0 || count == found.len() {
                break;
            }
        }
        let size = one.bytes.len();
        let start = (at as usize).min(size);
        let wanted = &one.bytes[start..(start + len as usize).min(size)];
        same("read", at, &found[..count], wanted)
    }

    fn put(&mut self, which: usize, at: u64, bytes: &[u8]) {
        let shadow = &mut self.files[which].bytes;
        let end = at as usize + bytes.len();
        if end > shadow.len() {
            shadow.resize(end, 0);
        }
        shadow[at as usize..end].copy_from_slice(bytes);
    }

    fn cut(&mut self, which: usize, len: u64) -> Result<(), String> {
        self.files[which].file.set_len(len).map_err(told("ftruncate"))?;
        self.files[which].bytes.resize(len as usize, 0);
        Ok(())
    }

    fn allocate(&mut self, which: usize, work: Work) -> Result<(), String> {
        let keep_size = FallocateFlags::KEEP_SIZE;
        let (at, len, flags, keep, clears) = match work {
            Work::Punch { at, len } => (at, len, FallocateFlags::PUNCH_HOLE, true, true),
            Work::Zero { at, len, keep } => (at, len, FallocateFlags::ZERO_RANGE, keep, true),
            Work::Reserve { at, len, keep } => (at, len, FallocateFlags::empty(), keep, false),
            _ => return Ok(()),
        };
        let name = Work::KINDS[work.kind()];
        if self.refused.contains(&name) {
            return Ok(());
        }
        let flags = if keep { flags | keep_size } else { flags };
        match rustix::fs::fallocate(&self.files[which].file, flags, at, len) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP) => {
                eprintln!("{name} is not supported here and left out");
                self.refused.push(name);
                return Ok(());
            }
            Err(errno) => return Err(format!("fallocate: {errno}")),
        }
        let shadow = &mut self.files[which].bytes;
        let end = (at + len) as usize;
        if clears {
            let size = shadow.len();
            shadow[(at as usize).min(size)..end.min(size)].fill(0);
        }
        if !keep && end > shadow.len() {
            shadow.resize(end, 0);
        }
        Ok(())
    }

    fn copy(
        &mut self,
        which: usize,
        from: u64,
        at: u64,
        len: u64,
        other: bool,
    ) -> Result<(), String> {
        let source = if other { 1 - which } else { which };
        let size = self.files[source].bytes.len() as u64;
        let from = from.min(size);
        let len = len.min(size - from);
        let overlap = source == which && from < at + len && at < from + len;
        if len == 0 || overlap {
            return Ok(());
        }
        let (mut left, mut from_now, mut at_now) = (len as usize, from, at);
        while left > 0 {
            let (input, output) = (&self.files[source].file, &self.files[which].file);
            let (from, at) = (Some(&mut from_now), Some(&mut at_now));
            match rustix::fs::copy_file_range(input, from, output, at, left) {
                Ok(0) => return Err(format!("copy_file_range: {left} bytes left behind")),
                Ok(count) => left -= count,
                Err(errno) => return Err(format!("copy_file_range: {errno}")),
            }
        }
        let bytes = self.files[source].bytes[from as usize..(from + len) as usize].to_vec();
        self.put(which, at, &bytes);
        Ok(())
    }

    /// What is told to be hole must be zero; holes need not be told.
    fn seek(&self, which: usize, at: u64) -> Result<(), String> {
        let one = &self.files[which];
        let size = one.bytes.len() as u64;
        let until = match rustix::fs::seek(&one.file, SeekFrom::Data(at)) {
            Ok(data) if data >= at && data < size => data,
            Err(Errno::NXIO) => size.max(at),
            other => return Err(format!("SEEK_DATA from {at} of {size}: {other:?}")),
        };
        let hole = &one.bytes[(at.min(size)) as usize..(until.min(size)) as usize];
        if let Some(byte) = hole.iter().position(|&byte| byte != 0) {
            return Err(format!(
                "SEEK_DATA from {at} passes over the data at {}",
                at + byte as u64
            ));
        }
        match rustix::fs::seek(&one.file, SeekFrom::Hole(at)) {
            Ok(hole) if hole >= at && hole <= size => Ok(()),
            Err(Errno::NXIO) if at >= size => Ok(()),
            other => Err(format!("SEEK_HOLE from {at} of {size}: {other:?}")),
        }
    }
}
