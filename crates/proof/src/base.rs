//! A base for volumes under proof: what scripts have left in the model, which never changes.
//!
//! Above: [`crate::cut`], tests. Below: the model. Invariant: it is the same each time, and holds files that are too
//! long to be kept in their inodes, under names that scripts use.

use std::sync::{Arc, OnceLock};

use esker::store::View;
use esker::{Ino, Kind};
use esker_volume::{Base, Bases, Below};

use crate::harness::sample;
use crate::model::Model;
use crate::script::generate::Profile;
use crate::world::World as _;
use crate::world::inside::{Inside, root_attr};

const PROFILE: Profile = Profile { steps_max: 60, users: true, cursors: false };
/// How many files are to be longer than what is kept in inodes.
const LONG: usize = 6;

/// What the base is called.
pub const NAME: [u8; 32] = [0xba; 32];

/// Files that are longer than what is kept in inodes.
#[must_use]
pub fn long_files(model: &Model) -> Vec<Ino> {
    let is_long = |ino: &Ino| {
        model.attr(*ino).is_ok_and(|attr| attr.kind == Kind::File && attr.size > 512)
            && model.next_data(*ino, 0).is_ok_and(|run| run.is_some())
    };
    (1..=model.last_ino().0).map(Ino).filter(is_long).collect()
}

/// What it holds.
///
/// # Panics
/// When the model contradicts itself.
pub fn model() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| {
        let mut inside = Inside::new("base", Model::new(root_attr()));
        for seed in 0..500 {
            for step in &sample(PROFILE, seed).0 {
                inside.now();
                let _ = inside.run(step);
            }
            inside.tree().expect("the model is sound");
            if long_files(inside.fs().store()).len() >= LONG {
                break;
            }
        }
        inside.fs().store().copy()
    })
}

/// It as a base.
#[must_use]
pub fn below() -> Below {
    let base = Base { name: NAME, file: b"/base".to_vec() };
    Below { base, view: Arc::new(model().copy()) }
}

/// Knows where it is.
pub struct Known;

impl Bases for Known {
    fn find(&self, base: &Base) -> Option<Below> {
        (base.name == NAME).then(below)
    }
}
