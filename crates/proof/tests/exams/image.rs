//! Scripts whose tree is packed at the end: what an image shows is what the model has, to the last name, byte, hole and
//! nanosecond; and the image finds itself in order. Some scripts begin with files of every kind that packing tells from
//! others, and change them.

#[path = "../../../esker-image/tests/kit/files.rs"]
#[allow(dead_code, reason = "it is for others too")]
mod files;

use std::rc::Rc;

use esker::store::{Batch, Change, Store as _};
use esker::{Attr, Ino, Kind, Name};
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
    frozen_from(Model::new(root_attr()), options)
}

fn frozen_from(begin: Model, options: Options) -> impl FnMut() -> Result<Pair, String> {
    move || {
        let frozen = Frozen::new(begin.copy(), options.clone());
        Ok((Box::new(Inside::new("model", begin.copy())), Box::new(frozen)))
    }
}

/// A model with files of every kind, four of them under the names that scripts use.
fn with_every_kind() -> Model {
    let model = Model::new(root_attr());
    let named = |name: String| match &name[..] {
        "short.gz" => "a".to_owned(),
        "grey.jpg" => "b".to_owned(),
        "arm64 0" => "c".to_owned(),
        "text 1.c" => "d".to_owned(),
        _ => name,
    };
    for file in files::few_kinds() {
        let (name, ino) = (named(file.name), model.next_ino(Ino::ROOT, Kind::File));
        let attr = Attr::new(Kind::File, 0o666, 0, 0, Ino::ROOT, root_attr().mtime);
        let name = Name::parse(name.as_bytes()).expect("a name");
        let mut batch = Batch::new();
        batch.push(Change::Make { ino, attr });
        batch.push(Change::Link { dir: Ino::ROOT, name, ino, kind: Kind::File });
        batch.push(Change::Write { ino, at: 0, source: &file.bytes });
        model.commit(&batch).expect("a file more");
    }
    model
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
    let thawed = |begin: &Model, options: &Options, way| -> Result<Pair, String> {
        let thawed = Thawed::new(begin.copy(), options.clone(), way, Rc::clone(&room));
        Ok((Box::new(Inside::new("model", begin.copy())), Box::new(thawed)))
    };
    let (empty, rich) = (Model::new(root_attr()), with_every_kind());
    for way in [Way::Mount, Way::Extract] {
        // Looking at what was extracted reads it.
        let closely = Closely { atime: way == Way::Mount, ..CLOSELY };
        let usual = Hunt { shrinks: 200, closely, ..HUNT };
        let pair = || thawed(&empty, &small(Setting::new(Codec::Zstd, 1)), way);
        run_regressions(closely, pair);
        hunt(Hunt { cases: 100, ..usual }, pair);
        for level in 0..LEVELS {
            hunt(Hunt { cases: 3, ..usual }, || thawed(&rich, &at_level(level), way));
        }
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
fn with_files_of_every_kind_too() {
    hunt(
        Hunt { cases: 60, ..HUNT },
        frozen_from(with_every_kind(), small(Setting::new(Codec::Zstd, 1))),
    );
    for level in 0..LEVELS {
        hunt(Hunt { cases: 10, ..HUNT }, frozen_from(with_every_kind(), at_level(level)));
    }
}

#[test]
fn after_long_scripts_too() {
    let profile = Profile { steps_max: 1500, ..HUNT.profile };
    hunt(Hunt { profile, cases: 20, ..HUNT }, frozen(small(Setting::new(Codec::Zstd, 1))));
}
