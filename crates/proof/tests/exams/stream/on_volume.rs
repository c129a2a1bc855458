//! Streams into volumes as the command receives them: power goes, snapshots go, and volumes are copies.

use std::sync::Arc;

use esker::Kind;
use esker::posix::Fs;
use esker::store::View;
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::seed;
use esker_proof::lying::Lying;
use esker_proof::lying::states::{Dose, Replay};
use esker_proof::world::on_volume::mount;
use esker_volume::stream::{Came, Error, Frames, Received, Target as _, receive, received};
use esker_volume::{Snapped, SnapshotError};

use super::keeper::{self, Snapshots};
use super::{Source, clock, memory, onto, same, take, taken};

/// Received into a volume, with its snapshot, as the command does.
fn into_volume(
    shape: &Shape,
    device: &Arc<Lying>,
    stream: &[u8],
) -> Result<Came, (Error, Option<SnapshotError>)> {
    let fs = Fs::new(mount(shape, Arc::clone(device)).expect("it opens"), clock);
    let mut keeper = Snapshots::of(&fs);
    let came = receive(&mut Frames::new(stream), &mut keeper::onto(&fs), &mut keeper);
    came.map_err(|error| (error, keeper.refused.take().map(|refused| refused.1)))
}

/// What a snapshot shows, in a volume that checks clean.
fn shows(shape: &Shape, device: &Arc<Lying>, name: &str, view: &dyn View, what: &str) {
    let volume = Arc::new(shape.open(Arc::clone(device), false).expect("it opens"));
    assert_eq!(volume.check(), [], "{what}");
    let snapped = Snapped::new(Arc::clone(&volume), name).expect("a snapshot");
    same(view, &snapped, what);
    same(view, &*volume, what);
}

/// Power goes at every operation of the device under a volume that receives: given again, the stream goes on, and the
/// snapshot in the end is that of the source.
#[test]
fn power_that_goes_while_it_is_received() {
    const DOSE: Dose = Dose { subsets: 1, torn: 1, garbage: 1 };
    let source = Source::random(&SHAPES[2], seed());
    for shape in &SHAPES[..3] {
        let mut medium = shape.fresh(1).medium();
        let streams = [("one", true, &source.one), ("two", false, &source.two)];
        for (name, whole, view) in streams {
            let stream = source.stream(whole);
            let device = Arc::new(shape.device(medium.clone()));
            let came = into_volume(shape, &device, &stream).expect("received");
            assert_eq!(came, Came::Whole);
            let what = format!("{name} on {}", shape.name);
            shows(shape, &device, name, view, &what);
            let (mut replay, mut chance) = (Replay::new(medium, None, false), Chance::new(3));
            let (mut states, mut already) = (0, 0);
            for op in &device.ops() {
                replay.step(op);
                replay.states(DOSE, &mut chance, &mut |state| {
                    let device = Arc::new(shape.device(state));
                    let came = into_volume(shape, &device, &stream);
                    let came = came.unwrap_or_else(|error| panic!("{what}: {error:?}"));
                    (states, already) = (states + 1, already + u32::from(came == Came::Already));
                    shows(shape, &device, name, view, &what);
                });
            }
            assert!(already > 0 && states > already, "{what}: {states} states, {already} whole");
            println!("{what}: {states} states, {already} whole");
            medium = device.medium();
        }
    }
}

/// A volume whose snapshot of what was received is gone, or another one, takes no difference, and makes no other.
#[test]
fn a_snapshot_that_is_gone_is_missed() {
    let shape = &SHAPES[2];
    let source = Source::random(shape, seed());
    let (whole, since) = (source.stream(true), source.stream(false));
    let device = shape.fresh(1);
    assert_eq!(into_volume(shape, &device, &whole).expect("received"), Came::Whole);
    let change = |device: &Arc<Lying>, name: &[u8]| {
        let fs = Fs::new(mount(shape, Arc::clone(device)).expect("it opens"), clock);
        onto(&fs).make(name, Kind::File, 0).expect("made");
        fs.sync().expect("safe");
    };
    let snapshots = |device: &Arc<Lying>, names: &[(&str, bool)]| {
        let volume = shape.open(Arc::clone(device), true).expect("it opens");
        for (name, makes) in names {
            let done =
                if *makes { volume.create_snapshot(name) } else { volume.delete_snapshot(name) };
            done.expect("done");
        }
    };
    let copy = || Arc::new(shape.device(device.medium()));
    // Gone, but nothing was changed since.
    let gone = copy();
    snapshots(&gone, &[("one", false)]);
    assert_eq!(into_volume(shape, &gone, &whole).expect("there"), Came::Already);
    shows(shape, &gone, "one", &source.one, "made again");
    // Changed, then gone, or made anew of what was changed.
    for names in [&[("one", false)][..], &[("one", false), ("one", true)]] {
        let other = copy();
        change(&other, b"mine");
        snapshots(&other, names);
        for stream in [&whole, &since] {
            let came = into_volume(shape, &other, stream);
            assert!(matches!(came, Err((Error::Forgotten(_), None))), "{came:?}");
        }
    }
    let changed = copy();
    change(&changed, b"mine");
    let came = into_volume(shape, &changed, &since);
    assert!(matches!(came, Err((Error::Changed(_), None))), "{came:?}");
    // What cannot go on goes back to what was received last.
    let back = copy();
    let came = into_volume(shape, &back, &since[..since.len() - 1]);
    assert!(matches!(came, Err((Error::Cut, None))), "{came:?}");
    let volume = shape.open(Arc::clone(&back), true).expect("it opens");
    volume.rollback("one").expect("it goes back");
    drop(volume);
    assert_eq!(into_volume(shape, &back, &whole).expect("there"), Came::Already);
    assert_eq!(into_volume(shape, &back, &since).expect("received"), Came::Whole);
    shows(shape, &back, "two", &source.two, "after it went back");
    // A snapshot of somebody else under the name that is to come, before it begins and halfway.
    let halfway = copy();
    let came = into_volume(shape, &halfway, &since[..since.len() - 1]);
    assert!(matches!(came, Err((Error::Cut, None))), "{came:?}");
    for device in [copy(), halfway] {
        snapshots(&device, &[("two", true)]);
        let came = into_volume(shape, &device, &since);
        assert!(matches!(came, Err((_, Some(SnapshotError::Exists)))), "{came:?}");
        snapshots(&device, &[("two", false)]);
        assert_eq!(into_volume(shape, &device, &since).expect("received"), Came::Whole);
        shows(shape, &device, "two", &source.two, "after that went");
    }
}

/// What one volume knows is nothing in another one that holds a copy of it.
#[test]
fn a_copy_is_not_what_received() {
    let source = Source::random(&SHAPES[2], seed());
    let fs = memory();
    taken(&fs, &source.stream(true));
    let mut target = onto(&fs);
    let state = received(&mut target).expect("it knows").expect("it received");
    target.keep(&Received { home: [1; 16], ..state }.sealed()).expect("kept");
    for whole in [true, false] {
        let came = take(&mut onto(&fs), &source.stream(whole));
        assert!(matches!(came, Err(Error::Copied(_))), "{came:?}");
    }
    let forged = Received { frames: u64::MAX, whole: 0, ..state };
    onto(&fs).keep(&forged.sealed()).expect("kept");
    assert!(matches!(received(&mut onto(&fs)), Err(Error::State)));
}
