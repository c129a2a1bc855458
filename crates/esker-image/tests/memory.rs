//! Packing takes no more memory for more files: what is known of each lies in scratch files, and a few bytes of it are
//! on the heap. Every byte of the heap is counted, so this is the only test of this program.

use std::alloc::System;
use std::fs::File;
use std::io;

use cap::Cap;
use esker::{Kind, Time};
use esker_image::pack::{Incoming, Meta, NodeId, Options, Packer, Scratch, Times};
use esker_stone::{Codec, Setting};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes of the heap for each file more: it was 37, and some 425 with everything in memory. A number that finds a file
/// by its name and one that finds its piece by its hash take 8 bytes each, in tables of which a half may be free.
const EACH_MAX: usize = 48;
/// Files, at first and then.
const FEW: u32 = 120_000;
const MANY: u32 = 600_000;
/// Files in a directory.
const BESIDE: u32 = 500;

/// A file that nobody else sees.
fn nameless() -> io::Result<File> {
    let name = std::env::temp_dir().join(format!("esker-memory-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&name)?;
    std::fs::remove_file(name)?;
    Ok(file)
}

fn scratch() -> io::Result<Box<dyn Scratch>> {
    Ok(Box::new(nameless()?))
}

/// Files of which no two have the same name, time or content, and every other one an attribute and times of its own.
fn pack(files: u32) -> u64 {
    // Short blocks, so that both times they are full.
    let options = Options {
        times: Times::All,
        block_len: 64 << 10,
        sharing: None,
        pages: Setting::new(Codec::Zstd, 1),
        ..Options::level(6, 1, 1 << 30)
    };
    let root = Meta::new(Kind::Directory, 0o755);
    let output = nameless().unwrap();
    let mut packer = Packer::with_scratch(output, root, options, &scratch).unwrap();
    let mut dir = NodeId::ROOT;
    for number in 0..files {
        if number % BESIDE == 0 {
            let name = format!("directory {number}");
            let own = Meta::new(Kind::Directory, 0o755);
            dir = packer.make(NodeId::ROOT, name.as_bytes(), own).unwrap();
        }
        let mut meta = Meta::new(Kind::File, 0o644);
        meta.mtime = Time { secs: number.into(), nanos: number };
        if number % 2 == 0 {
            meta.others = Some(Box::new([Time { secs: 1, nanos: number }; 3]));
            meta.xattrs = vec![(b"user.number".to_vec(), number.to_string().into_bytes())];
        }
        let name = format!("a file with a name that is not short {number}");
        let node = packer.make(dir, name.as_bytes(), meta).unwrap();
        let mut file = Incoming::default();
        packer.data(&mut file, &number.to_le_bytes()).unwrap();
        packer.end(node, file).unwrap();
    }
    let (_, packed) = packer.finish().unwrap();
    packed.statistics.files
}

#[test]
fn a_file_takes_a_few_bytes_of_memory_until_the_end() {
    let mut most = [0; 2];
    for (files, most) in [FEW, MANY].into_iter().zip(&mut most) {
        assert_eq!(pack(files), u64::from(files));
        *most = ALLOCATOR.max_allocated();
    }
    let each = (most[1] - most[0]) / (MANY - FEW) as usize;
    assert!(each <= EACH_MAX, "{each} bytes for each file");
}
