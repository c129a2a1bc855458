//! An image as the target of a stream: a volume beside it takes the stream, and is packed when it is whole.
//!
//! Above: `streams`. Below: the verbs `mkfs` and `pack` in processes of their own. Invariant: the image has its name
//! when it is whole; until then the volume knows how far it is, and goes on from there.

use std::ffi::OsString;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use esker_volume::stream::{Error, Frame, Frames, Mark, Opening};

use super::volume;
use super::{Done, Paths};
use crate::failure::{Exit, Failure, Outcome, said};

/// Bytes of the volume for each inode, at most.
const INODE_LEN: u64 = 4096;
/// Bytes of the volume for whatever else.
const MORE: u64 = 256 << 20;
/// Bytes of the first frame, at most.
const FIRST_MAX: u64 = 64 << 10;

/// The volume that an image is made from.
pub fn part(image: &Path) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(".part");
    PathBuf::from(name)
}

/// What a stream is of, and the stream from its beginning.
fn peek<R: Read>(mut input: R) -> Result<(Opening, impl Read), Error> {
    let mut read = Vec::new();
    let mut tee = Tee { input: (&mut input).take(FIRST_MAX), read: &mut read };
    let first: Frame = Frames::new(&mut tee).next(&Mark::default())?;
    let opening = Opening::decode(&first.plain).ok_or(Error::Damaged(0))?;
    Ok((opening, Cursor::new(read).chain(input)))
}

/// Remembers what was read.
struct Tee<'a, R> {
    input: R,
    read: &'a mut Vec<u8>,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(target)?;
        self.read.extend_from_slice(&target[..count]);
        Ok(count)
    }
}

/// Runs another verb.
fn run(words: &[&std::ffi::OsStr]) -> Outcome {
    let failed = |error: &std::io::Error| {
        let what = format!("cannot start esker ({})", said(error));
        Failure::new(Exit::Failed, what, "")
    };
    let own = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Command::new(own);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    match command.status().map_err(|error| failed(&error))?.code() {
        Some(0) => Ok(()),
        // It said itself what is wrong.
        _ => Err(Failure { exit: Exit::Failed, text: String::new() }),
    }
}

/// As large as a file beside it can become, or not much less.
fn room(part: &Path) -> u64 {
    let folder = part.parent().filter(|folder| !folder.as_os_str().is_empty());
    let found = rustix::fs::statvfs(folder.unwrap_or_else(|| Path::new(".")));
    found.map_or(u64::MAX, |found| found.f_blocks.saturating_mul(found.f_frsize)).max(MORE)
}

/// Makes the volume, with what the base holds. What of it is not used takes no room.
fn make(part: &Path, opening: &Opening, base: Option<&Path>) -> Outcome {
    let inodes = opening.moment().inodes.saturating_mul(INODE_LEN);
    let size = opening.bytes.saturating_mul(2).saturating_add(inodes).saturating_add(MORE);
    let size = OsString::from(size.min(room(part)).to_string());
    let mut words = vec!["mkfs".as_ref(), part.as_os_str(), "--size".as_ref(), size.as_os_str()];
    words.extend(base.iter().flat_map(|base| ["--from".as_ref(), base.as_os_str()]));
    run(&words)
}

/// Receives, and packs in the end.
pub fn receive(paths: &Paths<'_>, base: Option<&Path>, input: impl Read) -> Outcome<Done> {
    let part = part(paths.target);
    let (opening, input) = peek(input).map_err(|error| paths.failure(error))?;
    let is_new = !part.exists();
    if is_new {
        if let (Some(since), None) = (opening.base(), base) {
            return Err(paths.failure(Error::NeedsBase(Box::new(since))));
        }
        make(&part, &opening, base)?;
    }
    let inner = Paths { stream: paths.stream, target: &part };
    let done = volume::receive(&inner, &mut Frames::new(input));
    if done.is_err() && is_new && !has_begun(&part, &opening) {
        // It is of no use.
        let _ = std::fs::remove_file(&part);
    }
    let done = done?;
    let mut source = OsString::from(&part);
    source.push("@");
    source.push(done.opening.moment().called());
    run(&["pack".as_ref(), &source, "-o".as_ref(), paths.target.as_os_str()])?;
    std::fs::remove_file(&part).map_err(|error| {
        let what = format!("the image is made; cannot remove its volume ({})", said(&error));
        Failure::at(Exit::Failed, &what, &part, "remove it")
    })?;
    Ok(done)
}

/// Whether the volume holds some of this.
fn has_begun(part: &Path, opening: &Opening) -> bool {
    let known = volume::have(part).ok().flatten();
    known.is_some_and(|known| known.opening == opening.encode())
}
