//! Scripts on a volume that can be written: memory above a volume on a lying device, with commits now and then and
//! mounted again in between, must do to the last errno, listing and second what the model does.

use esker_proof::cut::SHAPES;
use esker_proof::differ::Closely;
use esker_proof::harness::{Hunt, Pair, hunt, run_regressions};
use esker_proof::model::Model;
use esker_proof::script::generate::Profile;
use esker_proof::world::inside::{Inside, root_attr};
use esker_proof::world::layered::Resting;
use esker_proof::world::on_volume::OnVolume;

const HUNT: Hunt = Hunt {
    name: "model beside a volume",
    profile: Profile { steps_max: 60, users: true, cursors: true },
    cases: 150,
    shrinks: 5000,
    closely: Closely::EXACT,
};

/// A commit after every so many steps, mounted again before one of them.
fn living(shape: usize, sync: usize, turn: usize) -> impl FnMut() -> Result<Pair, String> {
    move || {
        let model = Inside::new("model", Model::new(root_attr()));
        let shape = SHAPES[shape];
        let volume = OnVolume::new(shape, shape.fresh(1)).map_err(|error| error.to_string())?;
        let volume = volume.living(sync, turn);
        Ok((Box::new(Resting::new(model, turn)), Box::new(volume)))
    }
}

#[test]
fn a_volume_is_the_model() {
    for (shape, sync, turn) in [(0, 1, 20), (1, 3, 30), (2, 7, 9), (3, 2, 45), (4, 5, 15)] {
        run_regressions(Closely::EXACT, living(shape, sync, turn));
        hunt(HUNT, living(shape, sync, turn));
    }
}

/// Long lives of one tree.
#[test]
fn a_volume_is_the_model_for_long() {
    let profile = Profile { steps_max: 1000, ..HUNT.profile };
    for (shape, sync, turn) in [(1, 10, 500), (2, 50, 300)] {
        hunt(Hunt { profile, cases: 4, name: "long scripts", ..HUNT }, living(shape, sync, turn));
    }
}
