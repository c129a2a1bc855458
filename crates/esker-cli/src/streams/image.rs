//! An image as the target of a stream: a volume beside it takes the stream, and is packed when it is whole.
//!
//! Above: `streams`. Below: the verbs `mkfs` and `pack` in processes of their own. Invariant: the image has its name
//! when it is whole, and the volume has its own when it holds all of the base; until then nothing of it is trusted.
//! Whoever makes one holds a lock, and so does what was started for that, as long as it runs.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use esker_volume::stream::{Error, Frame, Frames, Mark, Opening, opened};
use rustix::fs::FlockOperation;
use rustix::io::FdFlags;

use super::volume;
use super::{Done, Paths, at_work};
use crate::failure::{Exit, Failure, Outcome, said};
use crate::images::{self, Begin};
use crate::volumes::is_volume;

/// Bytes of the volume for each inode, at most.
const INODE_LEN: u64 = 4096;
/// Bytes of the volume for whatever else.
const MORE: u64 = 256 << 20;
/// Bytes of the first frame, at most.
const FIRST_MAX: u64 = 64 << 10;

/// A file beside the image.
fn beside(image: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(ending);
    PathBuf::from(name)
}

/// The volume that an image is made from.
pub fn part(image: &Path) -> PathBuf {
    beside(image, ".part")
}

/// What a stream is of, and the stream from its beginning.
fn peek<R: Read>(mut input: R) -> Result<(Opening, impl Read), Error> {
    let mut read = Vec::new();
    let mut tee = Tee { input: (&mut input).take(FIRST_MAX), read: &mut read };
    let first: Frame = Frames::new(&mut tee).next(&Mark::default())?;
    let opening = opened(&first)?;
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

/// A lock on the making of an image, which whatever is started meanwhile holds, too.
struct Lock(PathBuf, #[expect(dead_code, reason = "it is locked as long as it is open")] File);

impl Lock {
    fn take(image: &Path) -> Outcome<Self> {
        let path = beside(image, ".part.lock");
        let failed = |error: std::io::Error| {
            let what = format!("cannot make a file beside the image ({})", said(&error));
            Failure::at(Exit::Failed, &what, &path, "")
        };
        loop {
            let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(at_work(image)),
                locked => locked.map_err(|errno| failed(errno.into()))?,
            }
            rustix::io::fcntl_setfd(&file, FdFlags::empty())
                .map_err(|errno| failed(errno.into()))?;
            // Whoever had it may have taken it away meanwhile: then others see another one.
            if file.metadata().is_ok_and(|own| crate::verbs::is_same(&own, &path)) {
                return Ok(Self(path, file));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // One that stays is of no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs another verb. It says itself what is wrong.
fn run(words: &[&OsStr]) -> Outcome {
    let failed = |error: &std::io::Error| {
        let what = format!("cannot start esker ({})", said(error));
        Failure::new(Exit::Failed, what, "")
    };
    let own = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Command::new(own);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    // Times are what they were.
    command.env_remove("SOURCE_DATE_EPOCH");
    let exit = match command.status().map_err(|error| failed(&error))?.code() {
        Some(0) => return Ok(()),
        Some(2) => Exit::Usage,
        Some(4) => Exit::Source,
        Some(5) => Exit::Partly,
        Some(6) => Exit::Damaged,
        _ => Exit::Failed,
    };
    Err(Failure { exit, text: String::new() })
}

/// As large as a file beside it can become, or not much less.
fn room(part: &Path) -> u64 {
    let folder = part.parent().filter(|folder| !folder.as_os_str().is_empty());
    let found = rustix::fs::statvfs(folder.unwrap_or_else(|| Path::new(".")));
    found.map_or(u64::MAX, |found| found.f_blocks.saturating_mul(found.f_frsize)).max(MORE)
}

/// Makes the volume, with what the base holds. What of it is not used takes no room. It has its name when it is safe.
fn make(part: &Path, opening: &Opening, base: Option<&Path>) -> Outcome {
    let mut new = OsString::from(part);
    new.push(".new");
    let new = Path::new(&new);
    let failed = |error: std::io::Error| {
        let what = format!("cannot make the volume for the image ({})", said(&error));
        Failure::at(Exit::Failed, &what, part, "")
    };
    match std::fs::remove_file(new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let known = base.map(|base| received_by(base, opening)).transpose()?;
    let inodes = opening.moment().inodes.saturating_mul(INODE_LEN);
    let size = opening.bytes.saturating_mul(2).saturating_add(inodes).saturating_add(MORE);
    let size = OsString::from(size.min(room(part)).to_string());
    let mut words = vec!["mkfs".as_ref(), new.as_os_str(), "--size".as_ref(), size.as_os_str()];
    words.extend(base.iter().flat_map(|base| ["--from".as_ref(), base.as_os_str()]));
    run(&words)?;
    if let Some(known) = known {
        volume::adopt(new, &known)?;
    }
    let named = std::fs::rename(new, part).and_then(|()| {
        let folder = part.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
    });
    named.map_err(failed)
}

/// What an image says that it was made of, which must be what the stream begins from.
fn received_by(base: &Path, opening: &Opening) -> Outcome<esker_volume::stream::Received> {
    if is_volume(base) || !images::is_image(base, Begin::default()) {
        let what = "what --base names is no image";
        let remedy = "name one that `esker receive` made";
        return Err(Failure::at(Exit::Usage, what, base, remedy));
    }
    let image = images::open(base, &images::Opening::default(), &images::cache())?;
    let known = volume::known(&image, base)?.filter(|known| known.whole == 1);
    let Some(known) = known else {
        let what = "the image of --base does not know what it holds";
        let remedy = "name one that `esker receive` made";
        return Err(Failure::at(Exit::Failed, what, base, remedy));
    };
    let paths = Paths { stream: base, target: base };
    let has = known.opening().map_err(|error| paths.failure(error))?.moment();
    match opening.base() {
        Some(since) if since.is(&has) => Ok(known),
        Some(since) => Err(paths.failure(Error::OtherBase(Box::new([has, since])))),
        None => {
            let what = "the stream is of all, and needs no base";
            Err(Failure::at(Exit::Usage, what, base, "leave out --base"))
        }
    }
}

/// Receives, and packs in the end.
pub fn receive(paths: &Paths<'_>, base: Option<&Path>, input: impl Read) -> Outcome<Done> {
    let _lock = Lock::take(paths.target)?;
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
    let mut frames = Frames::new(input);
    let done = volume::receive(&inner, &mut frames);
    if done.is_err() && is_new && !has_begun(&part, &opening) {
        // It is of no use.
        let _ = std::fs::remove_file(&part);
    }
    let done = done?;
    let mut source = OsString::from(&part);
    source.push("@");
    source.push(done.opening.moment().called());
    let words = ["pack", "--received", "-o"].map(OsStr::new);
    run(&[words[0], words[1], &source, words[2], paths.target.as_os_str()])?;
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
