//! `esker extract`: files out of an image, into a directory or a tar archive.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said, shown};
use crate::images::copy::{Done, How, copy};
use crate::images::{self, Node, Opening, Place, PlaceParser, tar};
use crate::pack::glob;
use crate::units::{parse_size, size_shown};

/// Extract files from an image, into a directory or as a tar archive.
///
/// Nothing outside of the target is ever touched, whatever is in the image or in the target.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker extract x.esker -o dir
  esker extract x.esker:/usr/lib -o dir --pattern '**.so'
  esker extract x.esker --tar - | tar -t
  esker extract x.esker -o dir --preserve     as root: owners, devices, set-id bits, all attributes
  esker extract broken.esker -o dir --salvage

Exit status: 5 if something was not extracted, 6 if the image is damaged; it is named.")]
pub struct Extract {
    /// An image, or a place in one as in x.esker:/usr/bin
    #[arg(value_name = "IMAGE[:/PATH]", value_parser = PlaceParser)]
    place: Place,
    /// The directory to extract into; it is made if it is not there
    #[arg(short, long, value_name = "DIR", required_unless_present = "tar")]
    output: Option<PathBuf>,
    /// Write a tar archive to this file, or - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    tar: Option<PathBuf>,
    /// Only what matches, as the paths in the image are (`**` goes through directories)
    #[arg(short, long, value_name = "PATTERN")]
    pattern: Vec<String>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Go on after what cannot be read or written
    #[arg(long = "continue")]
    go_on: bool,
    /// Take all that can be read out of a damaged image; files with a gap get the ending .damaged
    #[arg(long)]
    salvage: bool,
    /// Keep owner and group
    #[arg(long)]
    preserve_owner: bool,
    /// Keep set-id and sticky bits
    #[arg(long)]
    set_id: bool,
    /// Make devices, pipes and sockets
    #[arg(long)]
    specials: bool,
    /// Set extended attributes of every kind, not only those of users and ACLs
    #[arg(long)]
    all_xattrs: bool,
    /// All of the four
    #[arg(long)]
    preserve: bool,
    /// Stop after this many bytes
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_bytes: Option<u64>,
    /// Stop after this many files
    #[arg(long, value_name = "N")]
    max_files: Option<u64>,
    #[command(flatten)]
    opening: Opening,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

fn size(word: &str) -> Result<u64, String> {
    parse_size(word, 0).map_err(|_| "give bytes, as in 10G".to_owned())
}

impl Extract {
    fn wanted(&self, node: &Node) -> bool {
        let path = node.path.strip_prefix(b"/").unwrap_or(&node.path);
        let matches = |pattern: &String| {
            let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
            glob(pattern.as_bytes(), path)
        };
        self.pattern.is_empty() || self.pattern.iter().any(matches)
    }

    /// Extracts.
    pub fn run(&self) -> Outcome {
        let cache = images::cache();
        let image = match self.salvage {
            true => images::open_damaged(&self.place.image, self.opening.offset, &cache)?,
            false => images::open(&self.place.image, self.opening.offset, &cache)?,
        };
        let start = images::find(&image, &self.place)?;
        let wanted = |node: &Node| self.wanted(node);
        let done = match (&self.tar, &self.output) {
            (Some(file), _) => self.archive(&image, &start, &wanted, file)?,
            (None, Some(target)) => {
                let how = self.how();
                copy(&image, &start, target, &how, &wanted, &mut |_| {}).map_err(|error| {
                    let what = format!("cannot extract ({})", said(&error));
                    Failure::at(Exit::Failed, &what, target, "name a directory")
                })?
            }
            (None, None) => Done::default(),
        };
        self.tell(&done)
    }

    fn how(&self) -> How {
        // There is no way to ask for it without setting it.
        let umask = rustix::process::umask(rustix::fs::Mode::empty());
        rustix::process::umask(umask);
        How {
            owner: self.preserve_owner || self.preserve,
            set_id: self.set_id || self.preserve,
            specials: self.specials || self.preserve,
            all_xattrs: self.all_xattrs || self.preserve,
            force: self.force,
            salvage: self.salvage,
            go_on: self.go_on,
            bytes_max: self.max_bytes.unwrap_or(u64::MAX),
            files_max: self.max_files.unwrap_or(u64::MAX),
            umask: if self.preserve { 0 } else { (umask.bits() & 0o777) as u16 },
        }
    }

    fn archive(
        &self,
        image: &esker_image::Image,
        start: &Node,
        wanted: &dyn Fn(&Node) -> bool,
        file: &PathBuf,
    ) -> Outcome<Done> {
        let failed = |error: io::Error| {
            let what = format!("cannot write the archive ({})", said(&error));
            Failure::at(Exit::Failed, &what, file, "")
        };
        let skipped = if file.as_os_str() == "-" {
            tar::write(image, start, wanted, &mut BufWriter::new(io::stdout().lock()))
        } else {
            let mut options = File::options();
            options.write(true).create_new(!self.force).create(self.force).truncate(self.force);
            let output = options.open(file).map_err(failed)?;
            tar::write(image, start, wanted, &mut BufWriter::new(output))
        };
        let skipped = skipped.map_err(failed)?;
        let mut done = Done::default();
        for (path, error) in skipped {
            done.damaged |= error == esker::Error::Io;
            let why = if error == esker::Error::NotSupported {
                "archives have no sockets".to_owned()
            } else {
                error.to_string()
            };
            done.troubles.push(format!("{}: {why}", shown(&path)));
        }
        Ok(done)
    }

    fn tell(&self, done: &Done) -> Outcome {
        for trouble in &done.troubles {
            eprintln!("esker: {trouble}");
        }
        if self.json {
            let line = json!({
                "files": done.files,
                "bytes": done.bytes,
                "troubles": done.troubles,
            });
            // The archive has standard output to itself.
            if self.tar.as_ref().is_some_and(|file| file.as_os_str() == "-") {
                let _ = writeln!(io::stderr(), "{line}");
            } else {
                say(&line.to_string());
            }
        } else if let Some(target) = &self.output {
            let bytes = size_shown(done.bytes);
            say(&format!("extracted {} things, {bytes}, to {}", done.files, path_shown(target)));
        }
        let exit = match (done.damaged, done.troubles.is_empty()) {
            (_, true) => return Ok(()),
            (true, _) => Exit::Damaged,
            (false, _) => Exit::Partly,
        };
        Err(Failure { exit, text: String::new() })
    }
}
