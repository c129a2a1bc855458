//! Packing keeps to the memory that it says it needs at least, with all kinds of data in it. The memory of the whole
//! process is measured, so this is the only test of this program.

#[path = "kit/dice.rs"]
#[allow(dead_code)]
mod dice;

use std::fs::{self, File};
use std::io;

use dice::{Dice, forget_memory, memory};
use esker::Kind;
use esker_image::pack::{Error, Incoming, Meta, NodeId, Options, Packer, Scratch};

/// Bytes of what has much in common, of text, and of what cannot be made smaller: more than a group.
const LENS: [usize; 3] = [34 << 20, 4 << 20, 2 << 20];
/// Bytes of a file.
const FILE_LEN: usize = 1 << 20;
/// What the process may take beside: what the tests themselves have, and what is freed and kept by the system's own
/// allocation.
const BESIDE: u64 = 16 << 20;

fn nameless() -> io::Result<File> {
    let name = std::env::temp_dir().join(format!("esker-needs-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&name)?;
    fs::remove_file(name)?;
    Ok(file)
}

fn scratch() -> io::Result<Box<dyn Scratch>> {
    Ok(Box::new(nameless()?))
}

/// A file of one of three kinds.
fn file(kind: usize, dice: &mut Dice, words: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FILE_LEN + 64);
    while bytes.len() < FILE_LEN {
        match kind {
            0 => {
                let at = dice.below(words.len() - 64);
                bytes.extend_from_slice(&words[at..at + 8 + dice.below(56)]);
                bytes.extend_from_slice(&(dice.roll() as u16).to_le_bytes());
            }
            1 => bytes.extend(format!("let name_{} = {};\n", dice.below(999), dice.0).bytes()),
            _ => bytes.extend_from_slice(&dice.roll().to_le_bytes()),
        }
    }
    bytes
}

fn start(options: Options) -> Result<Packer<File>, Error> {
    let root = Meta::new(Kind::Directory, 0o755);
    Packer::with_scratch(nameless()?, root, options, &scratch)
}

/// The memory that packing took more than there was before.
fn taken(options: Options) -> u64 {
    forget_memory();
    let before = memory();
    let mut packer = start(options).unwrap();
    let mut dice = Dice(0x5eed);
    let words: Vec<u8> = (0..8192).flat_map(|_| dice.roll().to_le_bytes()).collect();
    for (kind, len) in LENS.into_iter().enumerate() {
        for number in 0..len / FILE_LEN {
            let name = format!("{kind} {number}");
            let meta = Meta::new(Kind::File, 0o644);
            let node = packer.make(NodeId::ROOT, name.as_bytes(), meta).unwrap();
            let mut own = Incoming::default();
            packer.data(&mut own, &file(kind, &mut dice, &words)).unwrap();
            packer.end(node, own).unwrap();
        }
    }
    packer.finish().unwrap();
    memory() - before
}

#[test]
fn packing_keeps_to_the_least_memory_that_it_asks_for() {
    for level in [2, 5, 6] {
        let Err(Error::Memory(needed)) = start(Options::level(level, 1, 1 << 20)) else {
            panic!("level {level} needs nothing");
        };
        let taken = taken(Options::level(level, 1, needed));
        eprintln!("level {level}: {} MiB taken of {} MiB", taken >> 20, needed >> 20);
        assert!(taken < needed + BESIDE, "level {level}: {taken} bytes of {needed}");
    }
}
