//! Scripts whose tree is packed at the end: what an image shows is what the model has, to the last name, byte, hole and
//! nanosecond; and the image finds itself in order.

use std::rc::Rc;

use esker_image::pack::{LEVELS, Options};
use esker_proof::differ::Closely;
use esker_proof::harness::{Hunt, Pair, hunt, run_regressions};
use esker_proof::model::Model;
use esker_proof::rig::{Mount, may_mount};
use esker_proof::script::generate::Profile;
use esker_proof::world::frozen::{Frozen, at_level, small};
use esker_proof::world::inside::{Inside, root_attr};
use esker_proof::world::thawed::{Thawed, Way};
use esker_stone::{Codec, Setting};

/// An image lists names in the order of their bytes.
const CLOSELY: Closely = Closely { order: false, ..Closely::EXACT };

const HUNT: Hunt = Hunt {
    name: "model beside its image",
    profile: Profile { steps_max: 60, users: true, cursors: true },
    cases: 1000,
    shrinks: 5000,
    closely: CLOSELY,
};

fn frozen(options: Options) -> impl FnMut() -> Result<Pair, String> {
    move || {
        let frozen = Frozen::new(Model::new(root_attr()), options.clone());
        Ok((Box::new(Inside::new("model", Model::new(root_attr()))), Box::new(frozen)))
    }
}

#[test]
fn an_image_shows_what_was_packed() {
    run_regressions(CLOSELY, frozen(small(Setting::new(Codec::Zstd, 1))));
    hunt(HUNT, frozen(small(Setting::new(Codec::Zstd, 1))));
}

/// Through the door of the kernel, and by `extract`.
#[test]
fn a_mount_and_an_extraction_bring_it_back() {
    if !may_mount() {
        return;
    }
    let room = Rc::new(Mount::tmpfs("room").expect("tmpfs"));
    for way in [Way::Mount, Way::Extract] {
        let pair = || -> Result<Pair, String> {
            let options = small(Setting::new(Codec::Zstd, 1));
            let thawed = Thawed::new(Model::new(root_attr()), options, way, Rc::clone(&room));
            Ok((Box::new(Inside::new("model", Model::new(root_attr()))), Box::new(thawed)))
        };
        // Looking at what was extracted reads it.
        let closely = Closely { atime: way == Way::Mount, ..CLOSELY };
        run_regressions(closely, pair);
        hunt(Hunt { cases: 100, shrinks: 200, closely, ..HUNT }, pair);
    }
}

#[test]
fn with_the_other_codecs_too() {
    for (codec, level) in [(Codec::None, 0), (Codec::Lz4, 1), (Codec::Xz, 1), (Codec::Brotli, 2)] {
        hunt(Hunt { cases: 50, ..HUNT }, frozen(small(Setting::new(codec, level))));
    }
}

#[test]
fn at_every_level_too() {
    for level in 0..LEVELS {
        hunt(Hunt { cases: 20, ..HUNT }, frozen(at_level(level)));
    }
}

#[test]
fn after_long_scripts_too() {
    let profile = Profile { steps_max: 1500, ..HUNT.profile };
    hunt(Hunt { profile, cases: 20, ..HUNT }, frozen(small(Setting::new(Codec::Zstd, 1))));
}
