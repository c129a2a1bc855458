//! The model, turned to stone in the end: its tree is packed into an image, and the image is what is seen.
//!
//! Above: `tests/exams/image.rs`. Below: [`super::inside`], `esker-image`. Invariant: every step is the model's; only
//! what is seen of the tree in the end comes from the image, through the same POSIX.

use std::io::Cursor;

use esker::store::ReadOnly;
use esker::{Kind, Time};
use esker_image::pack::{Meta, Options, Owns, Packer, Sharing, Times, copy};
use esker_image::{Cache, Depth, Image, verify};
use esker_stone::{Codec, Setting, Start};

use super::inside::{Checked, Inside};
use super::{Outcome, Seen, World};
use crate::model::Model;
use crate::script::Step;

/// Bytes of a block and of a page: small, so that small trees have many.
const BLOCK_LEN: usize = 16 << 10;
const PAGE_LEN: usize = 1 << 10;

impl Checked for ReadOnly<Image> {
    fn findings(&self) -> Vec<String> {
        let report = verify(&self.0, Depth::Plain, &mut |_| {});
        report.findings.iter().map(|finding| format!("{finding:?}")).collect()
    }
}

/// A model that is seen through an image.
pub struct Frozen {
    inside: Inside<Model>,
    options: Options,
}

impl Frozen {
    /// Over this model, packed like this.
    #[must_use]
    pub fn new(model: Model, options: Options) -> Self {
        Self { inside: Inside::new("frozen", model), options }
    }

    fn freeze(&self) -> Result<Image, String> {
        freeze(self.inside.fs().store(), self.options.clone())
    }
}

/// Everything that there is, in small blocks of this codec.
#[must_use]
pub fn small(codec: Setting) -> Options {
    Options {
        data: codec,
        pages: Setting::new(Codec::Zstd, 1),
        block_len: BLOCK_LEN,
        repeats: Some(1024),
        alike: true,
        unpack: Some(usize::MAX),
        words: true,
        pictures: true,
        sharing: Some(Sharing { base_len: BLOCK_LEN, group_len: 4 * BLOCK_LEN }),
        owns: Owns::default(),
        page_len: PAGE_LEN,
        times: Times::All,
        threads: 2,
        memory: 1 << 30,
        notes: Vec::new(),
    }
}

/// What `pack` takes at this level, with all times.
#[must_use]
pub fn at_level(level: usize) -> Options {
    Options { page_len: PAGE_LEN, times: Times::All, ..Options::level(level, 1, 4 << 30) }
}

/// A model as an image.
///
/// # Errors
/// What packing and opening say.
pub fn freeze(model: &Model, options: Options) -> Result<Image, String> {
    let bytes = Box::new(pack(model, options)?);
    let image = Image::open(bytes, Start::Auto, Vec::new(), Cache::new(1 << 20));
    image.map_err(|error| error.to_string())
}

/// The bytes of that image.
///
/// # Errors
/// What packing says.
pub fn pack(model: &Model, options: Options) -> Result<Vec<u8>, String> {
    let root = Meta::new(Kind::Directory, 0);
    let packer = Packer::new(Cursor::new(Vec::new()), root, options);
    let mut packer = packer.map_err(|error| error.to_string())?;
    let packed = copy(model, &mut packer, &mut |_, _| false);
    packed.map_err(|error| error.to_string())?;
    let (output, _) = packer.finish().map_err(|error| error.to_string())?;
    Ok(output.into_inner())
}

impl World for Frozen {
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
        // Lets go of what is held, so that nothing without a name is left.
        self.inside.tree()?;
        Inside::new("image", ReadOnly(self.freeze()?)).tree()
    }
}
