//! Scratch files that fail, or lie: what is packed is right, or the packer says that it cannot go on, and does not.

mod kit;

use std::io::{self, Cursor as Output};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use esker::Kind;
use esker_image::pack::{Error, Incoming, LEVELS, Meta, NodeId, Options, Packer, Result, Scratch};
use esker_stone::{Codec, ReadAt};

use kit::{Sample, few_kinds, noise, options};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Writing, or reading, fails.
    Failing,
    /// One bit of what is written, or read, is another one.
    Flipped,
    /// Other bytes are written in their place, or those of the sector before are read.
    Elsewhere,
    /// The file is shorter than what was written.
    Short,
}

/// The fault, and at which write or read of all it comes; these are counted.
struct Script {
    fault: Fault,
    write: u64,
    read: u64,
    writes: AtomicU64,
    reads: AtomicU64,
}

impl Script {
    fn new(fault: Fault, write: u64, read: u64) -> Arc<Self> {
        let counter = || AtomicU64::new(0);
        Arc::new(Self { fault, write, read, writes: counter(), reads: counter() })
    }

    fn counts(&self) -> (u64, u64) {
        (self.writes.load(Ordering::Relaxed), self.reads.load(Ordering::Relaxed))
    }
}

/// A scratch file in memory, to which that happens.
struct Lying {
    bytes: Mutex<Vec<u8>>,
    script: Arc<Script>,
}

impl Lying {
    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NO_ROOM: i32 = 28;

impl ReadAt for Lying {
    fn size(&self) -> esker_stone::Result<u64> {
        self.bytes().size()
    }

    fn read_at(&self, at: u64, target: &mut [u8]) -> esker_stone::Result<()> {
        let now = self.script.reads.fetch_add(1, Ordering::Relaxed) == self.script.read;
        let bytes = self.bytes();
        match self.script.fault {
            Fault::Failing if now => return Err(io::Error::from_raw_os_error(NO_ROOM).into()),
            Fault::Elsewhere if now => bytes.read_at(at.saturating_sub(4096), target)?,
            Fault::Short if now => bytes[..at as usize].read_at(at, target)?,
            _ => bytes.read_at(at, target)?,
        }
        if now && self.script.fault == Fault::Flipped {
            target[target.len() / 2] ^= 4;
        }
        Ok(())
    }
}

impl Scratch for Lying {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let now = self.script.writes.fetch_add(1, Ordering::Relaxed) == self.script.write;
        let mut own = bytes.to_vec();
        match self.script.fault {
            Fault::Failing if now => return Err(io::Error::from_raw_os_error(NO_ROOM)),
            Fault::Flipped if now => own[bytes.len() / 3] ^= 1,
            Fault::Elsewhere if now => own.fill(7),
            Fault::Short if now => own.clear(),
            _ => {}
        }
        self.bytes().write_at(at, &own)
    }

    fn memory(&self) -> u64 {
        self.bytes().len() as u64
    }
}

/// A tree of which more must be remembered than is kept in memory: long names, and bytes that come again; and files of
/// every kind.
fn pack(options: &Options, script: &Arc<Script>) -> Result<Vec<u8>> {
    let scratch = || -> io::Result<Box<dyn Scratch>> {
        Ok(Box::new(Lying { bytes: Mutex::default(), script: Arc::clone(script) }))
    };
    let root = Meta::new(Kind::Directory, 0o755);
    let output = Output::new(Vec::new());
    let mut packer = Packer::with_scratch(output, root, options.clone(), &scratch)?;
    let all = fill(&mut packer);
    if let Err(error) = all {
        // Whatever is asked of it then.
        let mut file = Incoming::default();
        assert!(matches!(packer.data(&mut file, b"more"), Err(Error::Stopped)), "{error}");
        assert!(matches!(packer.find(NodeId::ROOT, b"any"), Err(Error::Stopped)), "{error}");
        assert!(matches!(packer.finish(), Err(Error::Stopped)), "{error}");
        return Err(error);
    }
    packer.finish().map(|(output, _)| output.into_inner())
}

fn fill(packer: &mut Packer<Output<Vec<u8>>>) -> Result<()> {
    let bytes = noise(5, 400_000);
    for number in 0..12_000usize {
        let name = format!("{number:0>220}");
        let node = packer.make(NodeId::ROOT, name.as_bytes(), Meta::new(Kind::File, 0o644))?;
        if number % 500 == 0 {
            let mut file = Incoming::default();
            packer.data(&mut file, &noise(number as u64 + 9, 10_000))?;
            packer.data(&mut file, &bytes[number * 5..][..50_000])?;
            packer.end(node, file)?;
        }
    }
    for Sample { name, bytes, .. } in few_kinds() {
        let node = packer.make(NodeId::ROOT, name.as_bytes(), Meta::new(Kind::File, 0o644))?;
        let mut file = Incoming::default();
        packer.data(&mut file, &bytes)?;
        packer.end(node, file)?;
    }
    Ok(())
}

/// Spoils writes and reads at places in fifths of all, in every way; what comes of it is right, or refused: how often.
fn spoil(options: &Options, places: Range<u64>) -> usize {
    let sound = Script::new(Fault::Failing, u64::MAX, u64::MAX);
    let right = pack(options, &sound).unwrap();
    let (writes, reads) = sound.counts();
    assert!(writes > 100 && reads > 300, "{writes} and {reads}");
    let mut refused = 0;
    for fault in [Fault::Failing, Fault::Flipped, Fault::Elsewhere, Fault::Short] {
        for place in places.clone() {
            let at = |count: u64| count * place / 5 + place;
            for (write, read) in [(at(writes), u64::MAX), (u64::MAX, at(reads))] {
                match pack(options, &Script::new(fault, write, read)) {
                    Ok(found) => assert!(found == right, "{fault:?} {write} {read}"),
                    Err(Error::Output(error)) => {
                        assert_eq!(error.raw_os_error(), Some(NO_ROOM));
                        assert_eq!(fault, Fault::Failing);
                        refused += 1;
                    }
                    Err(Error::Scratch) => {
                        assert_ne!(fault, Fault::Failing);
                        refused += 1;
                    }
                    Err(error) => panic!("{fault:?} {write} {read}: {error}"),
                }
            }
        }
    }
    refused
}

#[test]
fn a_scratch_file_that_fails_or_lies_spoils_no_image() {
    // What was spoiled is not always wanted again.
    for options in [Options { alike: false, ..options(Codec::Lz4, 1) }, options(Codec::Zstd, 1)] {
        let refused = spoil(&options, 0..5);
        assert!(refused > 20, "{refused}");
    }
    for level in 0..LEVELS {
        let place = level as u64 % 5;
        let refused = spoil(&Options::level(level, 2, 4 << 30), place..place + 1);
        assert!(refused > 2, "level {level}: {refused}");
    }
}
