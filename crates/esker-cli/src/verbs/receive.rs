//! `esker receive`: what a stream tells of, in a volume, a directory or an image.

use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::path::{Path, PathBuf};

use clap::Args;
use esker_volume::stream::{Came, Frames, Mark, verify};
use serde_json::json;

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::streams::{self, Paths};

/// Make what a stream tells of: in a volume, a directory, or an image that is new.
///
/// The target is empty, or holds the snapshot that the stream is a difference from. It knows how far it is: a stream
/// that was cut short is given again, whole or from there on. A volume has a snapshot of the same name then. What the
/// target knows is in /.esker-received in it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker receive other.vol monday.stream        into an empty volume
  esker receive other.vol tuesday.stream       then what changed since
  esker receive /backup/d monday.stream        into a directory
  esker receive monday.esker monday.stream     into an image that is new
  esker receive tuesday.esker tuesday.stream --base monday.esker
  esker receive --verify monday.stream         only look whether all of it is right
  esker receive other.vol --have               a token for `esker send --from`")]
pub struct Receive {
    /// A volume that is not mounted, a directory, or an image to be made, whose name ends with .esker
    #[arg(value_name = "TARGET", required_unless_present = "verify")]
    target: Option<PathBuf>,
    /// The stream [default: standard input]
    #[arg(value_name = "FILE", conflicts_with = "have")]
    file: Option<PathBuf>,
    /// Only check this stream (- for standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "have", "base"])]
    verify: Option<PathBuf>,
    /// Tell how far the target is
    #[arg(long)]
    have: bool,
    /// The image that the stream is a difference from, where the target is an image
    #[arg(long, value_name = "IMAGE")]
    base: Option<PathBuf>,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

fn input(path: &Path) -> Outcome<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(stdin().lock()));
    }
    let file = File::open(path).map_err(|error| {
        let what = format!("cannot read the stream ({})", said(&error));
        Failure::at(Exit::Source, &what, path, "give a file that `esker send` made")
    })?;
    Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
}

impl Receive {
    /// Receives it.
    pub fn run(&self) -> Outcome {
        if let Some(file) = &self.verify {
            return self.verify(file);
        }
        let target = self.target.as_deref().unwrap_or_else(|| Path::new("."));
        if self.have {
            return self.tell_have(target);
        }
        let stream = self.file.as_deref().unwrap_or_else(|| Path::new("-"));
        let done = streams::receive(target, self.base.as_deref(), stream, input(stream)?)?;
        let of = done.opening.moment();
        if self.json {
            let mut line = streams::json(&done.opening, None);
            line["already"] = (done.came == Came::Already).into();
            line["left_out"] = done.left_out.1.into();
            say(&line.to_string());
        } else {
            let word = if done.came == Came::Already { "was there already" } else { "received" };
            say(&format!("{word}: {of}: {}", path_shown(target)));
        }
        streams::left_out(&done, target)
    }

    fn verify(&self, file: &Path) -> Outcome {
        let paths = Paths { stream: file, target: file };
        let checked = verify(&mut Frames::new(input(file)?));
        let (opening, mark) = checked.map_err(|error| paths.failure(error))?;
        if self.json {
            say(&streams::json(&opening, Some(&mark)).to_string());
            return Ok(());
        }
        let since =
            opening.base().map_or(String::new(), |base| format!(" since {}", base.called()));
        say(&format!("whole: {}{since}, in {} frames", opening.moment(), mark.frames));
        Ok(())
    }

    fn tell_have(&self, target: &Path) -> Outcome {
        let known = streams::have(target)?;
        let mark = known.as_ref().map_or_else(Mark::default, |known| known.mark());
        if self.json {
            let opening = known.as_ref().and_then(|known| known.opening().ok());
            let line = json!({
                "token": mark.to_string(),
                "whole": known.as_ref().is_some_and(|known| known.whole == 1),
                "of": opening.map(|opening| streams::json(&opening, None)),
            });
            say(&line.to_string());
        } else {
            say(&mark.to_string());
        }
        Ok(())
    }
}
