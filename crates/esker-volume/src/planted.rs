//! Every finding of a check, planted: a sound volume with one thing wrong in it has that finding.

use std::sync::{Arc, Mutex, PoisonError};

use esker::{Attr, Ino, Kind, Time};
use esker_stone::cache::Cache;
use esker_stone::rows::extents::BlockName;
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;
use esker_stone::{Codec, Setting};

use crate::check::Finding;
use crate::commit::{Sink, Source};
use crate::device::{Device, Fault, Geometry};
use crate::error::Result;
use crate::mkfs::{Making, make};
use crate::recovery::open;
use crate::rows::Numbers;
use crate::scrub::Scrubbing;
use crate::volume::{Options, Volume};

const SIZE: usize = 4 << 20;
const DIR: Ino = Ino(2);
const FILE: Ino = Ino(3);
const LEN: usize = 5000;

struct Ram(Mutex<Vec<u8>>);

impl Ram {
    fn with(&self, at: u64, len: usize, f: impl FnOnce(&mut [u8])) -> crate::device::Result<()> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f(bytes.get_mut(at as usize..at as usize + len).ok_or(Fault::OutOfRange)?);
        Ok(())
    }
}

impl Device for Ram {
    fn geometry(&self) -> Geometry {
        Geometry { size: SIZE as u64, unit: 4096, zones: None }
    }

    fn read(&self, at: u64, target: &mut [u8]) -> crate::device::Result<()> {
        self.with(at, target.len(), |bytes| target.copy_from_slice(bytes))
    }

    fn write(&self, at: u64, source: &[u8]) -> crate::device::Result<()> {
        self.with(at, source.len(), |bytes| bytes.copy_from_slice(source))
    }

    fn flush(&self) -> crate::device::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> crate::device::Result<()> {
        Ok(())
    }
}

fn attr(kind: Kind, nlink: u32, size: u64) -> Attr {
    let born = Time { secs: 1_700_000_000, nanos: 0 };
    Attr { nlink, size, ..Attr::new(kind, 0o755, 0, 0, Ino::ROOT, born) }
}

/// A directory and a file in the root directory.
struct Few;

impl Source for Few {
    fn tell(&self, to: &mut dyn Sink) -> Result<()> {
        let inode = |ino, attr| Inode { ino, attr, inline: Vec::new() };
        to.inode(inode(Ino::ROOT, attr(Kind::Directory, 3, 2)));
        to.inode(inode(DIR, attr(Kind::Directory, 2, 0)));
        to.inode(inode(FILE, attr(Kind::File, 1, LEN as u64)));
        for (name, ino, kind, seq) in
            [(b"d", DIR, Kind::Directory, 10), (b"f", FILE, Kind::File, 11)]
        {
            to.name(Named { dir: Ino::ROOT, name: name.to_vec(), ino, kind, seq })?;
        }
        to.bytes(FILE, 0, &[7; LEN])?;
        to.numbers(Numbers { next_ino: 4, inodes: 3, next_place: 12 });
        Ok(())
    }
}

fn sound() -> Volume<Ram> {
    let device = Ram(Mutex::new(vec![0; SIZE]));
    let making = Making {
        segment_len: 128 << 10,
        block_len: 32 << 10,
        setting: Setting::new(Codec::None, 0),
        copies: 1,
        reserve: 0,
        label: [0; 32],
        uuid: [1; 16],
        root: attr(Kind::Directory, 2, 0),
        born: 0,
    };
    make(&device, &making).expect("a volume");
    let cache: Arc<Cache> = Cache::new(1 << 20);
    let options = Options { write: true, ..Options::new(cache) };
    let volume = open(device, options).expect("it opens");
    volume.commit(&Few).expect("a commit");
    volume
}

/// The block that the file has.
fn block(volume: &Volume<Ram>) -> BlockName {
    let state = volume.state();
    *state.recent.blocks.keys().next().expect("a block")
}

fn change(volume: &Volume<Ram>, ino: Ino, f: impl FnOnce(&mut Attr)) {
    let mut state = volume.state_mut();
    let row = state.recent.inodes.get_mut(&ino).and_then(Option::as_mut).expect("an inode");
    f(&mut row.attr);
}

/// Turns bytes of a segment round.
fn rot(volume: &Volume<Ram>, segment: u64, at: u64, len: u64) {
    let place = volume.place(volume.segments().find(segment).expect("a segment")) + at;
    let turn = |bytes: &mut [u8]| bytes.iter_mut().for_each(|byte| *byte = !*byte);
    volume.device.with(place, len as usize, turn).expect("on the device");
}

type Plant = fn(&Volume<Ram>);

const PLANTS: &[(&str, Plant)] = &[
    ("listing", |volume| drop(volume.state_mut().recent.inodes.insert(Ino::ROOT, None))),
    ("dangling", |volume| drop(volume.state_mut().recent.inodes.insert(FILE, None))),
    ("parent", |volume| change(volume, DIR, |attr| attr.parent = FILE)),
    ("links", |volume| change(volume, FILE, |attr| attr.nlink = 2)),
    ("entries", |volume| change(volume, Ino::ROOT, |attr| attr.size = 5)),
    ("lost", |volume| {
        let mut state = volume.state_mut();
        state.recent.names.insert((Ino::ROOT, b"f".to_vec()), None);
        state.recent.places.insert((Ino::ROOT, 11), None);
    }),
    ("inodes", |volume| volume.state_mut().numbers.inodes = 9),
    ("number", |volume| volume.state_mut().numbers.next_ino = 3),
    ("content", |volume| {
        let mut state = volume.state_mut();
        let runs = state.recent.extents.get_mut(&FILE).expect("runs");
        let run = runs.at(0).expect("a run");
        runs.put(crate::recent::Run { len: 2 * run.len, ..run });
    }),
    ("block", |volume| {
        let block = block(volume);
        let at = volume.state().recent.blocks[&block].at;
        rot(volume, block.segment, at, 1);
    }),
    ("references", |volume| {
        let block = block(volume);
        *volume.state_mut().recent.refs.entry(block).or_default() += 1;
    }),
    ("live", |volume| {
        let segment = block(volume).segment;
        let mut segments = volume.segments_mut();
        let live = segments.live(segment);
        segments.set_live(segment, live + 1).expect("a segment");
    }),
    ("table", |volume| {
        let mut log = volume.log();
        volume.settle(&mut log).expect("settled");
        let table = volume.state().tables[0].top.page;
        rot(volume, table.segment, table.at, table.stored.into());
    }),
    ("log", |volume| {
        let log = volume.log();
        let (segment, at) = (log.superblock.log_segment, log.superblock.log_at);
        drop(log);
        rot(volume, segment, at + 8, 1);
    }),
    ("kept", |volume| {
        let block = block(volume);
        let mut state = volume.state_mut();
        state.recent.refs.insert(block, crate::rows::Refs::kept(block, 9).bytes);
        state.recent.extents.remove(&FILE);
    }),
    ("within", |volume| {
        let block = block(volume);
        volume.create_snapshot("one").expect("a snapshot");
        volume.state_mut().recent.refs.insert(block, 0);
    }),
    // Kept, but for earlier snapshots alone.
    ("within", |volume| {
        let block = block(volume);
        volume.create_snapshot("one").expect("a snapshot");
        let mut state = volume.state_mut();
        let since = state.snapshots[0].sequence;
        state.recent.refs.insert(block, crate::rows::Refs::kept(block, since).bytes);
        state.recent.inodes.insert(FILE, None);
    }),
];

/// A finding without a plant does not compile here.
const fn name(finding: &Finding) -> &'static str {
    match finding {
        Finding::Listing(..) => "listing",
        Finding::Dangling(..) => "dangling",
        Finding::Parent(..) => "parent",
        Finding::Links(..) => "links",
        Finding::Entries(..) => "entries",
        Finding::Lost(..) => "lost",
        Finding::Inodes => "inodes",
        Finding::Number(..) => "number",
        Finding::Content(..) => "content",
        Finding::Block(..) => "block",
        Finding::References(..) => "references",
        Finding::Live(..) => "live",
        Finding::Table(..) => "table",
        Finding::Log(..) => "log",
        Finding::Kept(..) => "kept",
        Finding::Deltas => "deltas",
        Finding::Within(..) => "within",
    }
}

#[test]
fn what_is_planted_is_found() {
    assert_eq!(sound().check(), []);
    let done = sound().scrub(&Scrubbing::all(&|_| true)).expect("a moment is kept");
    assert!(done.is_sound(), "{done:?}");
    for (wanted, plant) in PLANTS {
        let volume = sound();
        plant(&volume);
        let mut found = volume.check();
        let looked = volume.scrub(&Scrubbing { mend: false, ..Scrubbing::all(&|_| true) });
        found.extend(looked.expect("a moment is kept").findings);
        let told: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|finding| name(finding) == *wanted), "{wanted}: {told:?}");
        assert!(told.iter().all(|text| !text.is_empty()));
    }
}
