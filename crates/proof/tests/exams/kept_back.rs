//! Room that is kept back: because somebody wanted it so, for what was promised, for snapshots and second copies. None
//! of it keeps anybody from writing over what is there, nor from taking away, however full the volume is.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use esker::posix::{Allocate, Caller, Fs, New, XattrMode};
use esker::store::{Store as _, View as _};
use esker::{Error, Ino, Kind, Name, XattrName};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::{Ends, seed};
use esker_proof::lying::ram::Ram;
use esker_proof::place::{clock, noise};
use esker_proof::world::inside::Checked as _;
use esker_proof::world::on_volume::{Above, mount};
use esker_stone::Codec;
use esker_volume::{Change, SnapshotError, make};

const BLOCK: usize = 32 << 10;
/// As `esker mkfs` makes volumes of this size.
const USUAL: Shape = Shape {
    name: "usual",
    size: 32 << 20,
    segment_len: 128 << 10,
    block_len: 8 << 10,
    codec: Codec::Zstd,
    recent_len: 1 << 20,
    table_len: 32 << 10,
    ..SHAPES[0]
};

type Home = Above<Arc<Ram>>;

fn fresh(shape: &Shape) -> Fs<Home> {
    let device = Arc::new(Ram::new(shape.size as usize));
    make(&device, &shape.making()).expect("a volume");
    Fs::new(mount(shape, device).expect("it opens"), clock)
}

fn name(text: &str) -> Name<'_> {
    Name::parse(text.as_bytes()).expect("a name")
}

fn create(fs: &Fs<Home>, path: &str) -> Result<Ino, Error> {
    let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
    let ino = fs.create(&Caller::ROOT, Ino::ROOT, name(path), new)?.ino;
    fs.forget(ino, 1);
    Ok(ino)
}

/// One block of a file, made safe.
fn put(fs: &Fs<Home>, ino: Ino, block: u64, chance: &mut Chance) -> Result<(), Error> {
    fs.write(ino, block * BLOCK as u64, &noise(chance, BLOCK), false)?;
    fs.store().sync()
}

/// A file with as many blocks as there is room for, each made safe by itself; how many.
fn fill(fs: &Fs<Home>, chance: &mut Chance) -> (Ino, u64) {
    let ino = create(fs, "big").expect("room");
    let full = (0..).find(|&block| put(fs, ino, block, chance).is_err());
    (ino, full.expect("it is full at some time"))
}

/// Writes over blocks of a file, each made safe by itself.
fn write_over(fs: &Fs<Home>, (ino, blocks): (Ino, u64), times: u64, chance: &mut Chance) {
    for time in 0..times {
        let block = chance.below(blocks);
        let done = put(fs, ino, block, chance);
        done.unwrap_or_else(|error| panic!("block {block}, the {time}th time: {error}"));
    }
}

fn take_away(fs: &Fs<Home>, path: &str) {
    fs.unlink(&Caller::ROOT, Ino::ROOT, name(path)).expect("unlink always works");
    fs.store().sync().expect("it is written");
}

/// What is kept back makes it cheaper to write over what is there, and never impossible.
#[test]
fn a_volume_with_a_reserve_can_be_written_over_and_emptied() {
    for share in [3, 8, 20] {
        let shape = Shape { reserve: USUAL.size / 100 * share, ..USUAL };
        let (fs, chance) = (fresh(&shape), &mut Chance::new(seed()));
        let total = fs.store().space().total;
        let file = fill(&fs, chance);
        assert!(file.1 * BLOCK as u64 > total * 95 / 100, "{share}: {} of {total}", file.1);
        write_over(&fs, file, 500, chance);
        take_away(&fs, "big");
        assert!(fs.store().space().used < total / 50, "{share}: {:?}", fs.store().space());
        assert_eq!(fs.store().findings(), [""; 0]);
    }
}

/// Many who write at once are not let into the same room: what was taken can be written, and taken away.
#[test]
fn writers_at_once_do_not_have_the_same_room() {
    const WRITERS: u64 = 8;
    let shape = Shape { size: 16 << 20, ..USUAL };
    let (fs, chance) = (fresh(&shape), &mut Chance::new(seed()));
    for round in 0..6 {
        let mut number = 0;
        while fs.store().space().total - fs.store().space().used > 2 << 20 {
            let ino = create(&fs, &format!("f{number}")).expect("room");
            fs.write(ino, 0, &noise(chance, 256 << 10), false).expect("room");
            fs.store().sync().expect("room");
            number += 1;
        }
        let begin = Barrier::new(WRITERS as usize);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let content = noise(chance, 1 << 20);
                let (fs, begin) = (&fs, &begin);
                scope.spawn(move || {
                    begin.wait();
                    let done = create(fs, &format!("t{writer}"))
                        .and_then(|ino| fs.write(ino, 0, &content, false))
                        .and_then(|_| fs.store().sync());
                    assert!(matches!(done, Ok(()) | Err(Error::NoSpace)), "{done:?}");
                });
            }
        });
        let names = (0..number).map(|number| format!("f{number}"));
        for path in names.chain((0..WRITERS).map(|writer| format!("t{writer}"))) {
            let done = fs.unlink(&Caller::ROOT, Ino::ROOT, name(&path));
            assert!(matches!(done, Ok(()) | Err(Error::NotFound)), "{round}: {done:?}");
        }
        fs.store().sync().unwrap_or_else(|error| panic!("{round}: {error}"));
    }
    assert_eq!(fs.store().findings(), [""; 0]);
}

/// What was promised has room when it is wanted, and whatever else fills the volume can be written over until then.
#[test]
fn a_promise_keeps_nobody_from_writing_over() {
    for promised in [1u64 << 20, 4 << 20] {
        let (fs, chance) = (fresh(&USUAL), &mut Chance::new(seed()));
        let ino = create(&fs, "promised").expect("room");
        fs.fallocate(&Caller::ROOT, ino, Allocate::Reserve, 0, promised).expect("room");
        let file = fill(&fs, chance);
        write_over(&fs, file, 400, chance);
        for block in 0..promised / BLOCK as u64 {
            let done = put(&fs, ino, block, chance);
            done.unwrap_or_else(|error| panic!("block {block} of what was promised: {error}"));
            write_over(&fs, file, 2, chance);
        }
        take_away(&fs, "big");
        assert_eq!(fs.store().findings(), [""; 0]);
    }
}

/// With two copies of what is known of files, and with a snapshot of them, taking away works when there is no room.
#[test]
fn two_copies_and_a_snapshot_leave_room_for_taking_away() {
    let shape = Shape { size: 64 << 20, segment_len: 256 << 10, copies: 2, ..USUAL };
    let (fs, chance) = (fresh(&shape), &mut Chance::new(seed()));
    let volume = Arc::clone(fs.store().shared());
    let mut known: Vec<String> = Vec::new();
    let mut refused = 0;
    for step in 0..3000u64 {
        let path = format!("f{}", chance.below(1200));
        if let Some(at) = known.iter().position(|other| *other == path) {
            known.swap_remove(at);
            fs.unlink(&Caller::ROOT, Ino::ROOT, name(&path)).expect("unlink always works");
        }
        let len = 100 + chance.below(130_000) as usize;
        let done = create(&fs, &path).and_then(|ino| {
            known.push(path);
            fs.write(ino, 0, &noise(chance, len), false)
        });
        if done.is_err() || fs.store().write().is_err() {
            refused += 1;
            for _ in 0..10.min(known.len()) {
                let path = known.swap_remove(chance.below(known.len() as u64) as usize);
                fs.unlink(&Caller::ROOT, Ino::ROOT, name(&path)).expect("unlink always works");
            }
            fs.store().write().unwrap_or_else(|error| panic!("step {step}: {error}"));
        }
        if step % 150 == 149 {
            if let Ok(row) = volume.snapshot("kept") {
                volume
                    .delete_snapshot(str::from_utf8(&row.name).expect("a name"))
                    .expect("it goes");
            }
            // There may be no room for what changes behind it.
            match fs.store().create_snapshot("kept") {
                Ok(()) | Err(SnapshotError::NoRoom) => {}
                Err(error) => panic!("step {step}: {error}"),
            }
        }
    }
    assert!(refused > 10, "it was full {refused} times");
    assert_eq!(fs.store().findings(), [""; 0]);
}

/// A file for which room is promised, and one that fills what is left.
fn promised_and_full(fs: &Fs<Home>, promised: u64, chance: &mut Chance) -> (Ino, (Ino, u64)) {
    let ino = create(fs, "promised").expect("room");
    fs.fallocate(&Caller::ROOT, ino, Allocate::Reserve, 0, promised).expect("room");
    let file = fill(fs, chance);
    write_over(fs, file, 100, chance);
    (ino, file)
}

/// Writes what was promised, piece by piece, each made safe by itself; after each of them what is wanted.
fn write_promised(
    fs: &Fs<Home>,
    (ino, promised, piece): (Ino, u64, u64),
    chance: &mut Chance,
    mut then: impl FnMut(&mut Chance),
) {
    for at in (0..promised).step_by(piece as usize) {
        let content = noise(chance, piece as usize);
        let done = fs.write(ino, at, &content, false).and_then(|_| fs.store().sync());
        done.unwrap_or_else(|error| panic!("{piece} bytes at {at} of {promised}: {error}"));
        then(chance);
    }
}

/// Small pieces are told of one by one, and with two copies that takes several times as much. Meanwhile others write
/// over what is there, and take what room they get.
#[test]
fn a_promise_is_kept_in_small_pieces() {
    for (copies, piece) in [(1, 512), (1, 4096), (2, 512), (2, 4096)] {
        let shape = Shape { size: 24 << 20, copies, ..USUAL };
        let (fs, chance) = (fresh(&shape), &mut Chance::new(seed()));
        let promised = 4 << 20;
        let (ino, file) = promised_and_full(&fs, promised, chance);
        let mut end = file.1;
        write_promised(&fs, (ino, promised, piece), chance, |chance| {
            if chance.below(4) == 0 {
                write_over(&fs, file, 1, chance);
            }
            if chance.below(64) == 0 {
                while put(&fs, file.0, end, chance).is_ok() {
                    end += 1;
                }
            }
        });
        assert_eq!(fs.store().findings(), [""; 0]);
    }
}

/// A snapshot is only made where what was promised has room behind it.
#[test]
fn a_snapshot_takes_no_promised_room() {
    for (copies, size, promised) in
        [(1, 16 << 20, 1 << 20), (2, 16 << 20, 1 << 20), (2, 24 << 20, 4 << 20)]
    {
        let shape = Shape { size, copies, ..USUAL };
        let (fs, chance) = (fresh(&shape), &mut Chance::new(seed()));
        let (ino, _) = promised_and_full(&fs, promised, chance);
        match fs.store().create_snapshot("kept") {
            Ok(()) | Err(SnapshotError::NoRoom) => {}
            Err(error) => panic!("{error}"),
        }
        write_promised(&fs, (ino, promised, 4096), chance, |_| ());
        assert_eq!(fs.store().findings(), [""; 0]);
    }
}

/// Makes files and takes them away until it is enough, whether there is room or not.
fn come_and_go(fs: &Fs<Home>, writer: u64, chance: &mut Chance, enough: &AtomicBool) {
    while !enough.load(Relaxed) {
        let len = 4096 << chance.below(9);
        let path = format!("t{writer}");
        let done = create(fs, &path)
            .and_then(|ino| fs.write(ino, 0, &noise(chance, len as usize), false))
            .and_then(|_| fs.store().sync());
        assert!(matches!(done, Ok(()) | Err(Error::NoSpace)), "{done:?}");
        let done = fs.unlink(&Caller::ROOT, Ino::ROOT, name(&path));
        assert!(matches!(done, Ok(()) | Err(Error::NotFound)), "{done:?}");
    }
}

/// Asks for more room than there is until it is enough.
fn ask_in_vain(fs: &Fs<Home>, enough: &AtomicBool) {
    let ino = create(fs, "vain").expect("room for a name");
    while !enough.load(Relaxed) {
        let done = fs.fallocate(&Caller::ROOT, ino, Allocate::Reserve, 0, 6 << 20);
        assert!(matches!(done, Err(Error::NoSpace)), "{done:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Others that write at once take no promised room either, however often they take what is left and give it back.
#[test]
fn a_promise_is_kept_beside_others() {
    let (fs, chance) = (fresh(&USUAL), &mut Chance::new(seed()));
    let enough = AtomicBool::new(false);
    promised_and_full(&fs, 4 << 20, chance);
    take_away(&fs, "promised");
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (fs, enough, mut chance) = (&fs, &enough, Chance::new(seed() + 1 + writer));
            scope.spawn(move || come_and_go(fs, writer, &mut chance, enough));
        }
        scope.spawn(|| ask_in_vain(&fs, &enough));
        let _enough = Ends(&enough);
        let mut kept = 0;
        for round in 0..150 {
            let promised = (3 + chance.below(8)) * (256 << 10);
            let ino = create(&fs, "kept").expect("room for a name");
            match fs.fallocate(&Caller::ROOT, ino, Allocate::Reserve, 0, promised) {
                Ok(()) => {
                    let piece = (ino, promised, 64 << 10);
                    write_promised(&fs, piece, chance, |_| ());
                    kept += 1;
                }
                Err(Error::NoSpace) => {}
                Err(error) => panic!("{round}: {error}"),
            }
            fs.unlink(&Caller::ROOT, Ino::ROOT, name("kept")).expect("it goes");
        }
        assert!(kept > 75, "{kept} of 150");
    });
    assert_eq!(fs.store().findings(), [""; 0]);
}

/// No more is kept back where what was promised needs that room.
#[test]
fn what_is_kept_back_takes_no_promised_room() {
    let (fs, chance) = (fresh(&USUAL), &mut Chance::new(seed()));
    let promised = 4 << 20;
    let (ino, _) = promised_and_full(&fs, promised, chance);
    let keep = |reserve| fs.store().alter(&Change { reserve: Some(reserve), ..Change::default() });
    let refused = keep(2 << 20).map(drop);
    assert!(matches!(refused, Err(esker_volume::Error::Setting(_))), "{refused:?}");
    write_promised(&fs, (ino, promised, 4096), chance, |_| ());
    // Nothing is promised any more, and whoever wants it keeps back what there is.
    keep(2 << 20).expect("it is kept back");
    assert_eq!(fs.store().findings(), [""; 0]);
}

/// What names and attributes take has room in tables as well as in the log, however seldom it is made safe.
#[test]
fn rows_have_room_in_tables_too() {
    for seldom in [40, u64::MAX] {
        let (fs, chance) = (fresh(&USUAL), &mut Chance::new(seed()));
        let key = XattrName::parse(b"user.x").expect("a name");
        let put = |path: &str, value: &[u8]| {
            let ino = create(&fs, path)?;
            fs.setxattr(&Caller::ROOT, ino, key, value, XattrMode::Any, false)
        };
        let mut number = 0;
        while put(&format!("f{number}"), &noise(chance, 3000)).is_ok() {
            number += 1;
            if number % seldom == 0 {
                fs.store().sync().expect("it was taken");
            }
        }
        assert!(number > 3000, "{number}");
        fs.store().sync().expect("it was taken");
        for number in 0..number {
            fs.unlink(&Caller::ROOT, Ino::ROOT, name(&format!("f{number}"))).expect("it goes");
        }
        fs.store().sync().expect("it is written");
        assert_eq!(fs.store().findings(), [""; 0]);
    }
}
