//! Long commits, in segments as long as those of volumes: parts take whole requests of the device, fill segments, and
//! have no superblocks between them; and whatever is damaged of one hides nothing that came after.

use esker::store::View as _;
use esker::{Attr, Ino, Kind};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::lying::{Lying, Op, Write};
use esker_proof::world::inside::root_attr;
use esker_stone::Codec;
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;
use esker_volume::limits::ASTRAY_LEN;
use esker_volume::part::{LOG, MAGIC, PartHead};
use esker_volume::rows::Numbers;
use esker_volume::{Damage, Error, Sink, Source, Volume};

/// The largest request of many a device.
const LARGEST: u64 = 512 << 10;
const CHUNK: usize = 256 << 10;
/// Bytes of a commit: more than two segments have, and nothing round.
const LEN: u64 = (20 << 20) + 77_777;

/// So many segments that nothing is settled.
fn long(unit: u32) -> Shape {
    let (size, segment_len) = (576 << 20, 8 << 20);
    let (recent_len, table_len, block_len) = (16 << 20, 1 << 20, 32 << 10);
    let name = "long segments";
    Shape {
        name,
        size,
        segment_len,
        unit,
        block_len,
        codec: Codec::None,
        recent_len,
        table_len,
        ..SHAPES[0]
    }
}

/// A new file of bytes that do not compress.
struct Long(Ino);

impl Long {
    fn chunks(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let mut chance = Chance::new(self.0.0);
        (0..LEN).step_by(CHUNK).map(move |at| {
            let len = (LEN - at).min(CHUNK as u64) as usize;
            let words = (0..len.div_ceil(8)).flat_map(|_| chance.below(u64::MAX).to_le_bytes());
            (at, words.take(len).collect())
        })
    }
}

impl Source for Long {
    fn tell(&self, to: &mut dyn Sink) -> Result<(), Error> {
        let attr = Attr { kind: Kind::File, nlink: 1, size: LEN, ..root_attr() };
        to.inode(Inode { ino: self.0, attr, inline: Vec::new() });
        // Its size is how many names it has.
        let root = Attr { size: self.0.0 - 1, ..root_attr() };
        to.inode(Inode { ino: Ino::ROOT, attr: root, inline: Vec::new() });
        let (ino, seq, name) = (self.0, self.0.0, format!("file {}", self.0.0).into_bytes());
        to.name(Named { dir: Ino::ROOT, name, ino, kind: Kind::File, seq })?;
        for (at, bytes) in self.chunks() {
            to.bytes(ino, at, &bytes)?;
        }
        let next = self.0.0 + 1;
        to.numbers(Numbers { next_ino: next, inodes: self.0.0, next_place: next });
        Ok(())
    }
}

/// The files of so many commits, and nothing else, are what was written.
fn shows(volume: &Volume<&Lying>, commits: u64) -> bool {
    let mut bytes = vec![0; CHUNK];
    let mut holds = |ino| {
        Long(ino).chunks().all(|(at, wanted)| {
            let len = volume.read(ino, at, &mut bytes);
            len == Ok(wanted.len()) && bytes[..wanted.len()] == wanted[..]
        })
    };
    (0..commits).all(|number| holds(Ino(2 + number))) && volume.attr(Ino(2 + commits)).is_err()
}

/// What was written of an operation: where, and how much.
fn written(ops: &[Op]) -> impl Iterator<Item = (u64, u64)> {
    ops.iter().filter_map(|op| match op {
        Op::Write(Write { at, bytes }) => Some((*at, bytes.len() as u64)),
        _ => None,
    })
}

#[test]
fn they_take_whole_requests_and_no_superblocks() {
    for unit in [512, 4096] {
        let shape = long(unit);
        let device = shape.fresh(1);
        let volume = shape.open(&*device, true).expect("it opens");
        for number in 0..3 {
            let before = device.done();
            volume.commit(&Long(Ino(2 + number))).expect("room");
            let ops = &device.ops()[before..];
            let bytes: u64 = written(ops).map(|(_, len)| len).sum();
            let requests: u64 = written(ops).map(|(_, len)| len.div_ceil(LARGEST)).sum();
            println!("{unit}: {bytes} bytes in {requests} requests");
            assert!(bytes <= LEN * 102 / 100 + 4096, "{bytes} bytes");
            assert!(requests <= bytes * 105 / 100 / LARGEST + 2, "{requests} requests");
            let homes = 2 * shape.segment_len;
            assert_eq!(written(ops).filter(|(at, _)| *at < homes).count(), 0, "superblocks");
        }
        assert!(shows(&shape.open(&*device, false).expect("it opens"), 3));
        assert_eq!(volume.check(), []);
    }
}

/// Where parts of the log lie, and the numbers of their commits.
fn parts(device: &Lying) -> Vec<(u64, u64)> {
    let parts = device.ops().into_iter().filter_map(|op| {
        let Op::Write(Write { at, bytes }) = op else { return None };
        let head = bytes.starts_with(&MAGIC).then(|| PartHead::parse(&bytes, &[7; 16]));
        let head = head.flatten().filter(|head| head.kind == LOG)?;
        Some((at, head.sequence))
    });
    parts.collect()
}

/// A bit turned round in the head of any part, or as much lost as one write takes that goes astray, is missed; but of
/// the last commit of a volume that was not closed nothing says that it was safe.
#[test]
fn nothing_hides_what_came_after() {
    let shape = long(4096);
    let (size, mut missed) = (shape.segment_len, 0);
    for close in [false, true] {
        let device = shape.fresh(1);
        let volume = shape.open(&*device, true).expect("it opens");
        (0..3).for_each(|number| volume.commit(&Long(Ino(2 + number))).expect("room"));
        let (parts, last) = (parts(&device), volume.sequence());
        if close {
            volume.close().expect("it closes");
        }
        drop(volume);
        assert!(parts.len() > 60, "{}", parts.len());
        let mut chance = Chance::new(1);
        for &(at, sequence) in &parts {
            let (mut rotten, mut wiped) = (device.medium(), device.medium());
            rotten.rot(at * 8 + chance.below(PartHead::SIZE as u64 * 8));
            wiped.write(at, &vec![0; ASTRAY_LEN.min(size - at % size) as usize]);
            for medium in [rotten, wiped] {
                let device = shape.device(medium);
                let opened = shape.open(&device, false);
                if sequence == last && !close {
                    let found = opened.expect("it opens").sequence();
                    assert_eq!(found, last - 1, "the part at {at}");
                } else {
                    let lost = Some(Error::Damaged(Damage::LostCommit));
                    assert_eq!(opened.err(), lost, "the part at {at} of commit {sequence}");
                    missed += 1;
                }
            }
        }
    }
    println!("{missed} parts were missed");
}
