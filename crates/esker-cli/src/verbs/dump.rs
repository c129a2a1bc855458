//! `esker dump`: what lies in a volume, structure by structure.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use esker::Ino;
use esker_stone::rows::extents::BlockName;
use esker_volume::What;
use serde_json::json;

use crate::failure::{Exit, Failure, Outcome, os_shown};
use crate::images::Place;
use crate::printed::printer;
use crate::volumes::base::Given;
use crate::{images, volumes};

/// Show what lies in a volume: any structure, by its name or place.
#[derive(Args)]
#[command(after_help = "\
What can be shown:
  superblocks        all that are whole
  segments           every stretch of the device, and what it is used for
  parts              every part of every segment: commits, tables
  part:SEGMENT:AT    the rows of one part of a commit
  tables             the settled tables
  table:N            the rows of one
  inode:N            an inode, and where its content lies
  block:SEGMENT:SLOT what is known of a block
  at:OFFSET          what lies at an offset of the device, in bytes
  /PATH              the inode that a path leads to

Examples:
  esker dump disk.vol superblocks
  esker dump disk.vol /etc/passwd")]
pub struct Dump {
    /// A volume that is not mounted
    #[arg(value_name = "VOLUME")]
    volume: PathBuf,
    /// See below
    #[arg(value_name = "WHAT", default_value = "superblocks")]
    what: String,
    #[command(flatten)]
    given: Given,
    /// Print lines of JSON
    #[arg(long)]
    pub json: bool,
}

fn parse(word: &str) -> Option<What> {
    let mut parts = word.split(':');
    let (name, first, second) = (parts.next()?, parts.next(), parts.next());
    let number = |part: Option<&str>| part.and_then(|part| part.parse::<u64>().ok());
    let short = |part| number(part).and_then(|number| u32::try_from(number).ok());
    Some(match (name, first, second) {
        ("superblocks", None, _) => What::Superblocks,
        ("segments", None, _) => What::Segments,
        ("parts", None, _) => What::Parts,
        ("tables", None, _) => What::Tables,
        ("part", ..) => What::Part(number(first)?, number(second)?),
        ("table", _, None) => What::Table(short(first)? as usize),
        ("inode", _, None) => What::Inode(Ino(number(first)?)),
        ("at", _, None) => What::At(number(first)?),
        ("block", ..) => What::Block(BlockName { segment: number(first)?, slot: short(second)? }),
        _ => return None,
    })
}

impl Dump {
    /// Shows.
    pub fn run(&self) -> Outcome {
        let volume = volumes::look_over(&self.volume, &self.given.bases)?;
        let what = match self.what.strip_prefix('/') {
            Some(path) => {
                let place = Place { image: self.volume.clone(), path: path.as_bytes().to_vec() };
                What::Inode(images::find(&volume, &place)?.ino)
            }
            None => parse(&self.what).ok_or_else(|| {
                let what = format!("nothing that can be shown: {}", os_shown(self.what.as_ref()));
                Failure::new(Exit::Usage, what, "`esker dump --help` lists what can")
            })?,
        };
        let mut out = std::io::BufWriter::new(printer());
        let done = volume.dump(what, &mut |line| {
            // Whoever closed the pipe has seen enough.
            let _ = match self.json {
                true => writeln!(out, "{}", json!({ "line": line })),
                false => writeln!(out, "{line}"),
            };
        });
        let _ = out.flush();
        done.map_err(|error| volumes::failure(&self.volume, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_named() {
        assert_eq!(parse("superblocks"), Some(What::Superblocks));
        assert_eq!(parse("part:7:4096"), Some(What::Part(7, 4096)));
        assert_eq!(parse("at:4096"), Some(What::At(4096)));
        assert_eq!(parse("inode:3"), Some(What::Inode(Ino(3))));
        assert_eq!(parse("block:3:1"), Some(What::Block(BlockName { segment: 3, slot: 1 })));
        for bad in ["", "at:x", "part", "part:7", "inode:x", "block:1:4294967296", "inodes"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
