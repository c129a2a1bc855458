//! `esker report`: where the bytes of an image went, or how a volume is used, as a page for a browser.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use esker::Ino;
use esker::store::View as _;

use crate::failure::{Exit, Failure, Outcome};
use crate::images::{self, Node, Opening};
use crate::pack::output::{replace, spare_unlike};
use crate::printed::printer;
use crate::report::{BEGINNING, Costs, page, volume};
use crate::volumes;

/// Write a page about where the bytes of an image went, or how the segments of a volume are used.
///
/// It is one file that needs nothing else. Of an image: treemaps of what the files have and of what is
/// stored for them, kinds of data, blocks, the costliest files, and those that have the same content.
/// Of a volume: a map of its segments, how much of them is needed, and how worn they are.
#[derive(Args)]
#[command(after_help = "\
Each stored byte is charged once: what a block takes is shared out among the bytes of it that files
name, but for zeros in a row, and what several names share among these. What lies in the inodes, as
content of up to some hundred bytes does, costs no block and is not told.

Examples:
  esker report tree.esker -o tree.html
  esker report disk.vol -o disk.html")]
pub struct Report {
    /// The image, or a volume that nobody has mounted to be written
    #[arg(value_name = "IMAGE|VOLUME")]
    image: PathBuf,
    /// The page to write, in place of an earlier one; `-`: to standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the output whatever it is
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    opening: Opening,
}

impl Report {
    /// Writes it.
    pub fn run(&self) -> Outcome {
        if !self.is_printed() {
            super::spare_all(&images::files_of(&self.image, &self.opening), &self.output)?;
            self.spare_others()?;
        }
        let name = self.image.file_name().unwrap_or_default().to_string_lossy();
        if volumes::is_volume(&self.image) {
            let volume = volumes::look_over(&self.image, &self.opening.bases)?;
            return self.write(&volume::page(&name, &volume));
        }
        let image = images::open(&self.image, &self.opening, &images::cache())?;
        let damaged = |error| images::failure(&self.image, error);
        let attr = image.attr(Ino::ROOT);
        let attr =
            attr.map_err(|error| images::unreadable(&self.image, "its root directory", error))?;
        let root = Node { path: Vec::new(), ino: Ino::ROOT, attr, depth: 0 };
        let costs = Costs::of(&image, root).map_err(damaged)?;
        self.write(&page(&name, &image, &costs))?;
        if costs.troubles.is_empty() {
            return Ok(());
        }
        Err(Failure { exit: Exit::Damaged, text: costs.troubles.join("\n") })
    }

    /// A page takes the place of another page, and of no other file that holds something.
    fn spare_others(&self) -> Outcome {
        let is_one = || {
            let mut head = [0; BEGINNING.len()];
            let read = File::open(&self.output).and_then(|mut file| file.read_exact(&mut head));
            Ok(self.force || read.is_ok() && head == *BEGINNING.as_bytes())
        };
        let what = "the output exists already, and is no page of esker report";
        spare_unlike(&self.output, is_one, (what, "--force replaces it"))
    }

    fn is_printed(&self) -> bool {
        self.output.as_os_str() == "-"
    }

    fn write(&self, page: &str) -> Outcome {
        if !self.is_printed() {
            return replace("page", &self.output, page.as_bytes());
        }
        // Kept, if it fails.
        let _ = printer().write_all(page.as_bytes());
        Ok(())
    }
}
