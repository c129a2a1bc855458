//! Every finding of a check, planted: a sound volume with one thing wrong in it has that finding.

use std::sync::{Arc, Mutex, PoisonError};

use esker::store::{Entry, Flow, Listed, Space, View};
use esker::{Attr, Cursor, Ino, Kind, Name, Span, Time, XattrName};
use esker_stone::Setting;
use esker_stone::cache::Cache;
use esker_stone::rows::extents::{BlockName, Place};
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;

use crate::check::Finding;
use crate::commit::{Sink, Source};
use crate::device::{Device, Fault, Geometry};
use crate::error::Result;
use crate::mkfs::{Making, make};
use crate::recent::{Run, Runs};
use crate::recovery::open;
use crate::rows::Numbers;
use crate::scrub::Scrubbing;
use crate::superblock::Superblock;
use crate::volume::{Options, Volume};

const SIZE: usize = 4 << 20;
const DIR: Ino = Ino(2);
const FILE: Ino = Ino(3);
const LEN: usize = 5000;

pub(crate) struct Ram(Mutex<Vec<u8>>);

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

pub(crate) fn attr(kind: Kind, nlink: u32, size: u64) -> Attr {
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

/// A volume that is made with other features than it would be.
pub(crate) fn empty(features: impl FnOnce(u64) -> u64) -> Volume<Ram> {
    let device = Ram(Mutex::new(vec![0; SIZE]));
    let making = Making {
        segment_len: 128 << 10,
        block_len: 32 << 10,
        setting: Setting::PLAIN,
        copies: 1,
        reserve: 0,
        label: [0; 32],
        uuid: [1; 16],
        root: attr(Kind::Directory, 2, 0),
        born: 0,
    };
    make(&device, &making).expect("a volume");
    let sealed = |bytes: &mut [u8]| {
        let made = Superblock::parse(bytes).expect("a superblock");
        let incompatible = features(made.incompatible);
        bytes.copy_from_slice(&Superblock { incompatible, ..made }.sealed());
    };
    device.with(0, Superblock::SIZE, sealed).expect("on the device");
    let cache: Arc<Cache> = Cache::new(1 << 20);
    let options = Options { write: true, ..Options::new(cache) };
    open(device, options).expect("it opens")
}

fn sound() -> Volume<Ram> {
    let volume = empty(|made| made);
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

/// A base with one file.
struct Flat;

const BASED: Ino = Ino(2);
const BASED_LEN: u64 = 5000;

/// The byte of that file that is at this place.
const fn byte(at: u64) -> u8 {
    (at % 251) as u8
}

impl View for Flat {
    fn attr(&self, ino: Ino) -> esker::Result<Attr> {
        match ino {
            Ino::ROOT => Ok(attr(Kind::Directory, 2, 1)),
            BASED => Ok(attr(Kind::File, 1, BASED_LEN)),
            _ => Err(esker::Error::NotFound),
        }
    }

    fn entry(&self, _: Ino, _: Name<'_>) -> esker::Result<Entry> {
        Err(esker::Error::NotFound)
    }

    fn entries(
        &self,
        _: Ino,
        _: Cursor,
        _: bool,
        _: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> esker::Result<()> {
        Ok(())
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> esker::Result<usize> {
        if ino != BASED {
            return Err(esker::Error::Invalid);
        }
        let len = BASED_LEN.saturating_sub(at).min(target.len() as u64) as usize;
        (at..).zip(&mut target[..len]).for_each(|(at, to)| *to = byte(at));
        Ok(len)
    }

    fn next_data(&self, _: Ino, _: u64) -> esker::Result<Option<Span>> {
        Ok(None)
    }

    fn xattr(&self, _: Ino, _: XattrName<'_>, _: &mut Vec<u8>) -> esker::Result<()> {
        Err(esker::Error::NoData)
    }

    fn xattrs(&self, _: Ino, _: &mut dyn FnMut(XattrName<'_>) -> Flow) -> esker::Result<()> {
        Ok(())
    }

    fn space(&self) -> Space {
        Space { total: 0, used: 0, inodes: 2 }
    }
}

/// The file's bytes are said to be so many of the base, from this place on.
fn based(place: Place, len: u64, is_there: bool) -> Volume<Ram> {
    let mut volume = sound();
    if is_there {
        volume.below = Some(Arc::new(Flat));
    }
    let mut runs = Runs::default();
    runs.put(Run { start: 0, len, place: Some(place) });
    change(&volume, FILE, |attr| attr.size = len);
    volume.state_mut().recent.extents.insert(FILE, runs);
    volume
}

fn tells_of_content(volume: &Volume<Ram>) -> bool {
    let found = volume.check();
    found.iter().any(|finding| matches!(finding, Finding::Content(FILE, _)))
}

/// Whatever rows say of the base, a byte that is read is the one that lies there; and what is not there is found.
#[test]
fn rows_that_lie_about_the_base_are_found() {
    let named = |segment, slot, offset| Place { block: BlockName { segment, slot }, offset };
    let own = |ino: Ino| (1 << 48) | ino.0;
    let right = based(named(own(BASED), 0, 1000), BASED_LEN - 1000, true);
    assert!(!tells_of_content(&right));
    let mut bytes = vec![0; 4000];
    assert_eq!(right.read(FILE, 0, &mut bytes), Ok(4000));
    assert!((1000..).zip(&bytes).all(|(at, &found)| found == byte(at)));
    let lies = [
        (named(own(BASED), 0, 1000), BASED_LEN - 999, true),
        (named(own(BASED), 0, 0), 1 << 40, true),
        (named(own(BASED), 0, u32::MAX), 100, true),
        (named(own(BASED), u32::MAX, u32::MAX), 100, true),
        (named(own(BASED), u32::MAX, 0), u64::MAX >> 2, true),
        (named(own(Ino(3)), 0, 0), 100, true),
        (named(own(Ino(0)), 0, 0), 100, true),
        (named(own(Ino::ROOT), 0, 0), 1, true),
        (named(own(Ino((1 << 48) - 1)), 0, 0), 100, true),
        (named((2 << 48) | BASED.0, 0, 0), 100, true),
        (named(u64::MAX, 0, 0), 100, true),
        (named(own(BASED), 0, 0), 100, false),
    ];
    for (place, len, is_there) in lies {
        let volume = based(place, len, is_there);
        assert!(tells_of_content(&volume), "{place:?}, {len}");
        let begin = u64::from(place.block.slot) * (64 << 20) + u64::from(place.offset);
        for at in (0..len.min(6000)).step_by(500).chain([len - 1, len, u64::MAX - 9]) {
            let read = volume.read(FILE, at, &mut bytes[..500]).unwrap_or(0);
            let right = (begin + at.min(1 << 50)..).zip(&bytes[..read]);
            assert!({ right }.all(|(at, &found)| found == byte(at)), "{place:?}, {len}, {at}");
        }
        // Whoever goes on is told, or not; nothing else happens.
        let _ = volume.create_snapshot("one");
        let _ = volume.settle(&mut volume.log());
        let _ = volume.changes_since("one", None);
        let _ = volume.commit(&Few);
        let _ = volume.rollback("one");
        let _ = volume.delete_snapshot("one");
        let _ = volume.scrub(&Scrubbing::all(&|_| true));
        let _ = volume.check();
    }
}
