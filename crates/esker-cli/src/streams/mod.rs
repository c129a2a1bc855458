//! Streams for verbs: what is wrong with one in words, and the targets that take one.
//!
//! Above: `verbs::send`, `verbs::receive`. Below: `esker-volume`. Invariant: a target that cannot take a stream is left
//! as it was.

mod directory;
mod image;
mod keeper;
mod onto;
mod volume;

use std::io::Read;
use std::path::{Path, PathBuf};

use esker::Error as Refusal;
use esker_stone::hex;
use esker_volume::stream::{Came, Error, Frames, Mark, Opening, Received, received};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Outcome, path_shown, said, shown};
use crate::volumes::is_volume;
use directory::Directory;

/// What came of receiving.
pub struct Done {
    /// What the stream is of.
    pub opening: Opening,
    /// Whether it was there before.
    pub came: Came,
    /// What the target could not be given, and how much that is, now and before.
    pub left_out: (Vec<String>, u64),
}

/// What takes a stream.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Volume,
    Directory,
    /// One that is to be made.
    Image,
}

fn kind(target: &Path) -> Outcome<Kind> {
    let usage = |what, remedy| Err(Failure::at(Exit::Usage, what, target, remedy));
    let is_image = target.extension().is_some_and(|ending| ending == "esker");
    if target.is_dir() {
        return Ok(Kind::Directory);
    }
    if is_volume(target) {
        return Ok(Kind::Volume);
    }
    match target.symlink_metadata() {
        Err(_) if is_image => Ok(Kind::Image),
        Err(_) => usage(
            "there is no such target",
            "make a directory or a volume, or give an image a name that ends with .esker",
        ),
        Ok(_) if is_image => usage(
            "there is an image already",
            "name another one, and this with --base if the stream is a difference from it",
        ),
        Ok(_) => usage("neither a directory nor a volume", "`esker mkfs` makes a volume"),
    }
}

/// Receives a stream into whatever the target is.
pub fn receive(
    target: &Path,
    base: Option<&Path>,
    stream: &Path,
    input: impl Read,
) -> Outcome<Done> {
    let kind = kind(target)?;
    if base.is_some() && kind != Kind::Image {
        let what = "--base is for images that are to be made";
        return Err(Failure::new(Exit::Usage, what, "leave it out"));
    }
    let paths = Paths { stream, target };
    match kind {
        Kind::Image => image::receive(&paths, base, input),
        Kind::Volume => volume::receive(&paths, &mut Frames::new(input)),
        Kind::Directory => into_directory(&paths, &mut Frames::new(input)),
    }
}

fn into_directory<R: Read>(paths: &Paths<'_>, frames: &mut Frames<R>) -> Outcome<Done> {
    let target = paths.target;
    let mut into = open(target)?;
    let is_ours = into.lock().map_err(|error| {
        let what = format!("cannot lock the directory ({})", said(&error));
        Failure::at(Exit::Failed, &what, target, "")
    })?;
    if !is_ours {
        return Err(at_work(target));
    }
    let failed = |error| paths.failure(error);
    let came = esker_volume::stream::receive(frames, &mut into, &mut ()).map_err(failed)?;
    let state = known(&mut into, target)?.ok_or_else(|| paths.failure(Error::State))?;
    let opening = state.opening().map_err(failed)?;
    let left_out = (std::mem::take(&mut into.left_out.0), state.left_out);
    Ok(Done { opening, came, left_out })
}

/// Somebody else makes something of a stream here.
fn at_work(target: &Path) -> Failure {
    let what = "another `esker receive` is at work here";
    Failure::at(Exit::Failed, what, target, "wait until it is done")
}

/// What a target knows of what it received.
pub fn have(target: &Path) -> Outcome<Option<Received>> {
    match kind(target)? {
        Kind::Directory => known(&mut open(target)?, target),
        Kind::Volume => volume::have(target),
        Kind::Image => {
            let part = image::part(target);
            if part.exists() { volume::have(&part) } else { Ok(None) }
        }
    }
}

fn open(target: &Path) -> Outcome<Directory> {
    Directory::open(target).map_err(|error| {
        let what = format!("cannot open the directory ({})", said(&error));
        Failure::at(Exit::Failed, &what, target, "")
    })
}

fn known(into: &mut Directory, target: &Path) -> Outcome<Option<Received>> {
    let paths = Paths { stream: target, target };
    received(into).map_err(|error| paths.failure(error))
}

/// What a stream is of, for a machine.
pub fn json(opening: &Opening, mark: Option<&Mark>) -> Value {
    let (of, base) = (opening.moment(), opening.base());
    json!({
        "snapshot": of.called(),
        "uuid": hex(&of.uuid),
        "commit": of.sequence,
        "since": base.map(|base| base.called()),
        "frames": mark.map(|mark| mark.frames),
    })
}

/// Where a stream comes from, and where it goes.
pub struct Paths<'a> {
    pub stream: &'a Path,
    pub target: &'a Path,
}

impl Paths<'_> {
    /// What is wrong, for a person.
    pub fn failure(&self, error: Error) -> Failure {
        let what = error.to_string();
        let stream = |exit, remedy| Failure::at(exit, &what, self.stream, remedy);
        let target = |exit, remedy| Failure::at(exit, &what, self.target, remedy);
        match error {
            Error::Read(_) => stream(Exit::Source, ""),
            Error::Write(_) => stream(Exit::Failed, ""),
            Error::NoStream => stream(Exit::Source, "`esker send` makes one"),
            Error::Version(_) => stream(Exit::Source, "take a newer esker"),
            Error::Cut => {
                let remedy = "what came is kept: give it whole again, or what `esker send --from` \
                              gives with what `esker receive --have` tells";
                stream(Exit::Source, remedy)
            }
            Error::Damaged(_) => {
                stream(Exit::Damaged, "what came before is kept: get it again, and go on with that")
            }
            Error::Gap(_) => stream(Exit::Failed, "give what `esker receive --have` asks for"),
            Error::OtherStream => stream(Exit::Failed, "give the one that was begun"),
            Error::NeedsBase(_) => {
                target(Exit::Failed, "receive that first, or name an image of it with --base")
            }
            Error::OtherBase(_) => target(Exit::Failed, "send what changed since what it holds"),
            Error::Halfway(_) => {
                let remedy = "receive the rest of that first, or, where there is none any more, go \
                              back with `esker snapshot rollback`, or begin with a new target";
                target(Exit::Failed, remedy)
            }
            Error::NotEmpty => target(Exit::Failed, "choose something empty"),
            Error::State => target(Exit::Damaged, "receive it anew elsewhere"),
            Error::Copied(_) => target(Exit::Failed, "receive all of it anew elsewhere"),
            Error::Forgotten(_) => {
                let remedy = "its snapshot, which is to be kept until the next stream came, is \
                              gone or another one: receive all of it anew elsewhere";
                target(Exit::Failed, remedy)
            }
            Error::More => {
                stream(Exit::Source, "what this one tells of is there: give the next one alone")
            }
            other => self.failure_at(other, &what),
        }
    }

    /// The same where a path is known.
    fn failure_at(&self, error: Error, what: &str) -> Failure {
        let below = |path: &[u8], of: &Path| -> PathBuf {
            use std::os::unix::ffi::OsStrExt as _;
            if path.is_empty() { of.into() } else { of.join(std::ffi::OsStr::from_bytes(path)) }
        };
        match error {
            Error::Source(path, Refusal::NameTooLong) => {
                let remedy = "make the tree less deep: a path of 64K is the longest that is sent";
                Failure::at(Exit::Failed, what, &below(&path, self.stream), remedy)
            }
            Error::Source(path, _) => {
                let place = below(&path, self.stream);
                Failure::at(Exit::Damaged, what, &place, "`esker check` tells more")
            }
            Error::Target(path, refusal) => {
                let remedy = match refusal {
                    Refusal::NoSpace if is_volume(self.target) => {
                        "make it larger with `esker resize`, and give the stream again"
                    }
                    Refusal::NoSpace => "make room, and give the stream again",
                    Refusal::NotPermitted => "run as root",
                    _ => "",
                };
                Failure::at(Exit::Failed, what, &below(&path, self.target), remedy)
            }
            Error::Changed(path) => {
                let remedy = if is_volume(self.target) {
                    "`esker snapshot rollback` makes it what was received last"
                } else {
                    "make it as it was, or receive all of it anew elsewhere"
                };
                Failure::at(Exit::Failed, what, &below(&path, self.target), remedy)
            }
            Error::InTheWay(path) => {
                let remedy = "take it away, and give the stream again";
                Failure::at(Exit::Failed, what, &below(&path, self.target), remedy)
            }
            _ => Failure::at(Exit::Failed, what, self.target, ""),
        }
    }
}

/// What was left out, for a person.
pub fn left_out(done: &Done, target: &Path) -> Outcome {
    let (some, count) = &done.left_out;
    if *count == 0 {
        return Ok(());
    }
    let more = match (some.len(), count.saturating_sub(some.len() as u64)) {
        (0, more) => format!("{more} when it was received"),
        (_, 0) => String::new(),
        (_, more) => format!(", and {more} more"),
    };
    let what = format!("left out in {}: {}{more}", path_shown(target), some.join(", "));
    Err(Failure::new(Exit::Partly, what, ""))
}

/// A word for a token that is none.
pub fn token(word: &str) -> Result<Mark, String> {
    Mark::parse(word).ok_or_else(|| {
        format!("{}: give what `esker receive --have` prints", shown(word.as_bytes()))
    })
}
