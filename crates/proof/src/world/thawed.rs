//! The model, turned to stone in the end, and brought back by the program that people use: its image is mounted, or
//! extracted.
//!
//! Above: `tests/exams/image.rs`. Below: [`super::frozen`] packs, [`super::outside`] looks. Invariant: every step is
//! the model's; only what is seen of the tree in the end came through the program.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use esker::Time;
use esker_image::pack::Options;

use super::frozen::pack;
use super::inside::Inside;
use super::outside::look;
use super::{Outcome, Seen, World};
use crate::model::Model;
use crate::rig::{Mount, run};
use crate::script::Step;

/// How a tree comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is mounted.
    Mount,
    /// It is extracted.
    Extract,
}

/// A model that is seen through the program.
pub struct Thawed {
    inside: Inside<Model>,
    options: Options,
    way: Way,
    room: Rc<Mount>,
}

impl Thawed {
    /// Over this model, packed like this; images and what is extracted lie in `room`.
    #[must_use]
    pub fn new(model: Model, options: Options, way: Way, room: Rc<Mount>) -> Self {
        Self { inside: Inside::new("thawed", model), options, way, room }
    }

    fn brought(&self, image: &Path, target: &Path) -> Result<Vec<Seen>, String> {
        if self.way == Way::Mount {
            return look(Mount::image("thawed", image)?.path());
        }
        let names = [image, target].map(|path| path.to_string_lossy().into_owned());
        run(&["extract", &names[0], "-o", &names[1], "--preserve"])?;
        look(target)
    }
}

impl World for Thawed {
    fn name(&self) -> &str {
        self.inside.name()
    }

    fn now(&mut self) -> Time {
        self.inside.now()
    }

    fn run(&mut self, step: &Step) -> Outcome {
        self.inside.run(step)
    }

    fn tree(&mut self) -> Result<Vec<Seen>, String> {
        let right = self.inside.tree()?;
        let case = self.room.case()?;
        let image = case.join("x.esker");
        let bytes = pack(self.inside.fs().store(), self.options.clone())?;
        fs::write(&image, bytes).map_err(|error| error.to_string())?;
        let mut seen = self.brought(&image, &case.join("tree"))?;
        if self.way == Way::Extract {
            // Nobody can set a ctime: it is when the file came out.
            for seen in &mut seen {
                let same = right.iter().find(|right| right.path == seen.path);
                seen.stat.ctime = same.map_or(seen.stat.ctime, |right| right.stat.ctime);
            }
        }
        let _ = fs::remove_dir_all(case);
        Ok(seen)
    }
}
