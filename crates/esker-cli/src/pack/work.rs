//! An image on its way, and what came of it so far.
//!
//! Above: `inputs`, and whoever reads what is packed: `walk`, `list`, `archive`, `again`. Below: `esker-image`.

use std::fs::File;

use esker_image::pack::{Error, Meta, Options, Packed, Packer};

use super::{Bar, Output, Slowest, failure};
use crate::failure::Outcome;

/// What came of it.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Files so far.
    pub files: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// What could not be read, or changed while it was, each with the reason.
    pub troubles: Vec<String>,
    /// What programs and lists said that made no sense, and was passed over.
    pub nonsense: Vec<String>,
    /// The output is in the tree: nothing was packed.
    pub meets_output: bool,
    /// Which files took the longest.
    pub slowest: Slowest,
}

/// The image on its way.
pub struct Work {
    /// It takes everything in.
    pub packer: Packer<File>,
    /// What came of it so far.
    pub gathered: Gathered,
    /// Who is told of it.
    pub bar: Bar,
}

impl Work {
    /// An image in `file`; what waits, waits beside `output`.
    pub fn new(
        file: File,
        root: Meta,
        options: Options,
        output: &Output,
        bar: Bar,
    ) -> Outcome<Self> {
        let packer = Packer::with_scratch(file, root, options, &|| output.scratch())
            .map_err(|error| failure(error, output))?;
        Ok(Self { packer, gathered: Gathered::default(), bar })
    }

    /// Tells how far it is.
    pub fn tick(&mut self) {
        let now = &self.gathered;
        self.bar.tick(now.files, now.bytes, self.packer.written());
    }

    /// Writes all that is missing.
    pub fn finish(mut self) -> Result<(Gathered, File, Packed), Error> {
        self.gathered.slowest.end();
        let (file, packed) = self.packer.finish()?;
        self.bar.done();
        Ok((self.gathered, file, packed))
    }
}
