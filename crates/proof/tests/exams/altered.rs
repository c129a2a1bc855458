//! Volumes that get another size, name and setting: cut at every operation of the device they are what they were, or
//! what they were to become, and hold what they held.

use std::sync::Arc;

use esker_proof::chance::Chance;
use esker_proof::cut::{History, SHAPES, Shape, goes_on};
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::medium::{Medium, PAGE};
use esker_proof::lying::states::{Dose, Replay};
use esker_proof::script::generate::Profile;
use esker_proof::told::print;
use esker_stone::{Codec, Setting};
use esker_volume::{Change, Error};

const PROFILE: Profile = Profile { steps_max: 50, users: true, cursors: false };
const DOSE: Dose = Dose { subsets: 2, torn: 3, garbage: 2 };

/// The same bytes at the beginning of a larger device.
fn larger(medium: &Medium, size: u64) -> Medium {
    let (mut all, mut page) = (Medium::new(size), vec![0; PAGE]);
    for at in (0..medium.size()).step_by(PAGE) {
        medium.read(at, &mut page);
        all.write(at, &page);
    }
    all
}

fn change(shape: &Shape) -> Change {
    Change {
        size: Some(shape.size * 2 + 5),
        label: Some([b'n'; 32]),
        reserve: Some(shape.segment_len),
        setting: Some(Setting::new(Codec::Zstd, 5)),
    }
}

/// What a state holds, and whether it is of the new shape.
fn look(shape: &Shape, medium: Medium) -> Result<(u64, bool), String> {
    let volume = shape.open(shape.device(medium), false).map_err(|error| format!("{error:?}"))?;
    let findings = volume.check();
    if !findings.is_empty() {
        return Err(format!("check finds {findings:?}"));
    }
    let (now, wanted) = (volume.shape(), change(shape));
    let (setting, label) = (now.setting(), now.label);
    let is_new = now.size == shape.size * 2;
    let fits = if is_new {
        Some(label) == wanted.label
            && Some(now.reserve) == wanted.reserve
            && Some(setting) == wanted.setting
    } else {
        now.size == shape.size
            && label == [0; 32]
            && now.reserve == 0
            && setting.codec == shape.codec
    };
    if !fits {
        return Err(format!("half of it: {now:?}"));
    }
    if volume.stretches().len() as u64 * shape.segment_len != now.size {
        return Err("stretches are missing".into());
    }
    Ok((print(&volume)?, is_new))
}

#[test]
fn what_is_altered_survives_every_cut() {
    for shape in &SHAPES {
        let mut states = 0;
        for number in 0..from_env("ESKER_CASES", 6) {
            let seed = seed().wrapping_add(number);
            let script = sample(PROFILE, seed);
            let history = History::run(shape, &script, seed, 3);
            let medium = larger(&history.medium(shape), shape.size * 2);
            let (told, _) = look(shape, medium.clone()).unwrap();
            let device = Arc::new(shape.device(medium.clone()));
            let volume = shape.open(Arc::clone(&device), true).unwrap();
            volume.alter(&change(shape)).unwrap();
            let mut replay = Replay::new(medium, shape.zones.map(|zones| zones.len), false);
            let (mut chance, mut new) = (Chance::new(seed), 0);
            for op in &device.ops() {
                replay.step(op);
                replay.states(DOSE, &mut chance, &mut |state| {
                    let found = look(shape, state).unwrap_or_else(|why| {
                        panic!("{}, seed {seed:#x}: {why}", shape.name);
                    });
                    assert_eq!(found.0, told, "{}, seed {seed:#x}: other files", shape.name);
                    (states, new) = (states + 1, new + u32::from(found.1));
                });
            }
            assert!(new > 0, "{}: nothing became new", shape.name);
            let end = shape.device(device.medium());
            assert_eq!(look(shape, end.medium()), Ok((told, true)), "{}", shape.name);
            goes_on(shape, &end).unwrap();
        }
        println!("{}: {states} states", shape.name);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let shape = &SHAPES[0];
    let device = shape.fresh(1);
    let before = device.medium().print(0, shape.size);
    let wrong = [
        Change { size: Some(shape.size / 2), ..Change::default() },
        Change { size: Some(shape.size * 2), ..Change::default() },
        Change { reserve: Some(shape.size / 2 + 1), ..Change::default() },
    ];
    for change in wrong {
        let volume = shape.open(Arc::clone(&device), true).unwrap();
        assert!(matches!(volume.alter(&change), Err(Error::Setting(_))), "{change:?}");
    }
    let volume = shape.open(Arc::clone(&device), false).unwrap();
    assert!(matches!(volume.alter(&Change::default()), Err(Error::ReadOnly)));
    assert_eq!(device.medium().print(0, shape.size), before);
}
