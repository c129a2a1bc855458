//! Scripts over what earlier steps left: a memory home over the model itself must do to the last errno, listing and
//! second what the model does alone; one over an image of it too, but for the order of names.

use esker::store::View;
use esker_image::Image;
use esker_proof::differ::Closely;
use esker_proof::harness::{Hunt, Pair, hunt, run_regressions};
use esker_proof::model::Model;
use esker_proof::script::generate::Profile;
use esker_proof::world::frozen::{freeze, small};
use esker_proof::world::inside::{Inside, root_attr};
use esker_proof::world::layered::{Filled, Layered, Resting};
use esker_stone::{Codec, Setting};

const HUNT: Hunt = Hunt {
    name: "model beside an overlay",
    profile: Profile { steps_max: 60, users: true, cursors: true },
    cases: 1000,
    shrinks: 10_000,
    closely: Closely::EXACT,
};

/// An image lists names in the order of their bytes.
const BY_NAME: Closely = Closely { order: false, ..Closely::EXACT };

fn pair<L: View + 'static>(
    turn: usize,
    settle: fn(&Model) -> Result<(L, esker::Ino), String>,
) -> Result<Pair, String> {
    let model = Inside::new("model", Model::new(root_attr()));
    Ok((Box::new(Resting::new(model, turn)), Box::new(Layered::new(turn, settle))))
}

fn over_model(turn: usize) -> impl FnMut() -> Result<Pair, String> {
    move || pair(turn, |model| Ok((model.copy(), model.last_ino())))
}

fn over_image(turn: usize) -> impl FnMut() -> Result<Pair, String> {
    fn settle(model: &Model) -> Result<(Image, esker::Ino), String> {
        let image = freeze(model, small(Setting::new(Codec::Lz4, 1)))?;
        let last = esker::Ino(image.root().statistics.last_ino);
        Ok((image, last))
    }
    move || pair(turn, settle)
}

#[test]
fn an_overlay_over_nothing_is_the_model() {
    run_regressions(Closely::EXACT, over_model(0));
    hunt(HUNT, over_model(0));
}

#[test]
fn an_overlay_over_earlier_steps_is_the_model() {
    for turn in [8, 20, 35] {
        run_regressions(Closely::EXACT, over_model(turn));
        hunt(HUNT, over_model(turn));
    }
}

#[test]
fn an_overlay_over_an_image_is_the_model() {
    let profile = Profile { cursors: false, ..HUNT.profile };
    for turn in [0, 12, 30] {
        run_regressions(BY_NAME, over_image(turn));
        let name = "model beside an overlay over an image";
        hunt(Hunt { name, profile, cases: 400, closely: BY_NAME, ..HUNT }, over_image(turn));
    }
}

/// While it is used all of it is moved up, and in the end nothing is asked of what was below.
#[test]
fn an_overlay_that_fills_is_the_model() {
    let pair = |turn: usize, each| {
        move || -> Result<Pair, String> {
            let model = Inside::new("model", Model::new(root_attr()));
            Ok((Box::new(Resting::new(model, turn)), Box::new(Filled::new(turn, each))))
        }
    };
    for (turn, each) in [(0, 1), (15, 1), (25, 3), (30, 0)] {
        run_regressions(Closely::EXACT, pair(turn, each));
        let name = "model beside an overlay that fills";
        hunt(Hunt { name, cases: 500, ..HUNT }, pair(turn, each));
    }
}

/// Long lives of one tree, above and below.
#[test]
fn an_overlay_is_the_model_for_long() {
    let profile = Profile { steps_max: 1500, ..HUNT.profile };
    for turn in [100, 700] {
        hunt(Hunt { profile, cases: 20, name: "long scripts", ..HUNT }, over_model(turn));
    }
}
