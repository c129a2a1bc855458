//! A tree out of an image as an archive: one walk in the order of names, with a bounded buffer.
//!
//! Above: `verbs::extract`. Below: one file per form. Invariant: what the image cannot give is left out and named
//! before anything of it is written; what goes wrong in the middle of a thing ends the archive, which promised it.

mod cpio;
mod tar;
mod zip;

use std::collections::HashMap;
use std::io::{self, Write};

use esker::store::{Flow, View};
use esker::{Ino, Kind};

use super::limits::{Limits, TOO_DEEP, TOO_MANY};
use super::walk::{Node, walk};
pub use cpio::Cpio;
pub use tar::Tar;
pub use zip::Zip;

/// Bytes that are moved at a time.
const CHUNK: usize = 1 << 20;

/// What is not in the archive, each with the reason.
pub type Skipped = Vec<(Vec<u8>, Stop)>;

/// Why something is not in the archive, or the archive has no end.
#[derive(Debug)]
pub enum Stop {
    /// The image cannot give it.
    Image(esker::Error),
    /// The archive cannot hold it.
    Refused(&'static str),
    /// The output cannot be written.
    Output(io::Error),
    /// The image cannot give it to its end, and the archive has its beginning.
    Broken,
    /// There is more than was allowed.
    Limit(&'static str),
}

impl From<esker::Error> for Stop {
    fn from(error: esker::Error) -> Self {
        Self::Image(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// One thing for an archive.
pub struct Item<'a> {
    pub image: &'a dyn View,
    pub node: &'a Node,
    /// Its path in the archive, without a `/` in front or behind; `.`: where the walk began.
    pub name: &'a [u8],
    /// The path of an earlier thing that is the same inode.
    pub first: Option<&'a [u8]>,
}

/// A form of archives.
pub trait Form {
    /// Writes one thing.
    fn put(&mut self, item: &Item<'_>, output: &mut dyn Write) -> Result<(), Stop>;
    /// Writes what follows the last.
    fn end(&mut self, output: &mut dyn Write) -> io::Result<()>;
}

/// What to write, and how.
pub struct Choice<'a> {
    /// Only this.
    pub wanted: &'a dyn Fn(&Node) -> bool,
    /// Go on after a file that cannot be read to its end: each is read once before it is written.
    pub go_on: bool,
    /// How much; of bytes, those of the archive.
    pub limits: Limits,
}

/// An output that takes so many bytes and no more.
struct Limited<'a> {
    output: &'a mut dyn Write,
    left: u64,
    too_long: &'static str,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::QuotaExceeded, self.too_long))?;
        self.output.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Writes everything in `start` that is wanted. Answers with what was left out, and how many things there are.
///
/// # Errors
/// What ended the archive in the middle.
pub fn write(
    image: &dyn View,
    start: &Node,
    choice: &Choice<'_>,
    form: &mut dyn Form,
    output: &mut dyn Write,
) -> Result<(Skipped, u64), Stop> {
    let Limits { bytes, too_long, files, depth } = choice.limits;
    let output = &mut Limited { output, left: bytes, too_long };
    let mut known: HashMap<Ino, Vec<u8>> = HashMap::new();
    let (mut skipped, mut failed, mut count) = (Skipped::new(), None, 0);
    let base = start.path.len();
    let mut each = |node: &Node| {
        let directory = node.attr.kind == Kind::Directory;
        if failed.is_some() {
            return Flow::Break(());
        }
        if !(choice.wanted)(node) {
            return Flow::Continue(());
        }
        if node.depth > depth {
            // Its own children come too, and are not named each.
            if node.depth == depth + 1 {
                skipped.push((node.path.clone(), Stop::Limit(TOO_DEEP)));
            }
            return Flow::Continue(());
        }
        if count >= files {
            failed = Some(Stop::Limit(TOO_MANY));
            return Flow::Break(());
        }
        let name = if node.depth == 0 && directory { b"." } else { below(node, base) };
        let first = known.get(&node.ino).map(Vec::as_slice);
        let readable = match choice.go_on && first.is_none() && node.attr.kind == Kind::File {
            true => content(image, node.ino, (0, node.attr.size), &mut io::sink()),
            false => Ok(()),
        };
        let item = Item { image, node, name, first };
        match readable.and_then(|()| form.put(&item, output)) {
            Ok(()) => {
                count += 1;
                if node.attr.nlink > 1 && !directory {
                    known.entry(node.ino).or_insert_with(|| name.to_vec());
                }
            }
            Err(stop @ (Stop::Output(_) | Stop::Broken)) => {
                failed = Some(stop);
                return Flow::Break(());
            }
            Err(stop) => skipped.push((node.path.clone(), stop)),
        }
        Flow::Continue(())
    };
    let mut lost = Skipped::new();
    let trouble = &mut |node: &Node, error| lost.push((node.path.clone(), Stop::Image(error)));
    walk(image, start.clone(), &mut each, trouble);
    skipped.extend(lost);
    if let Some(stop) = failed {
        return Err(stop);
    }
    form.end(output)?;
    output.flush()?;
    Ok((skipped, count))
}

fn below(node: &Node, base: usize) -> &[u8] {
    node.path.get(base + 1..).filter(|path| !path.is_empty()).unwrap_or_else(|| node.name())
}

/// Bytes of a file, from and to. What cannot be read is a failure of the whole archive: its length is promised already.
fn content(
    image: &dyn View,
    ino: Ino,
    (mut at, end): (u64, u64),
    output: &mut dyn Write,
) -> Result<(), Stop> {
    let mut buffer = vec![0; CHUNK.min(usize::try_from(end - at).unwrap_or(CHUNK))];
    while at < end {
        let room = usize::try_from(end - at).unwrap_or(CHUNK).min(buffer.len());
        let count = match image.read(ino, at, &mut buffer[..room])? {
            0 => return Err(esker::Error::Io.into()),
            count => count,
        };
        output.write_all(&buffer[..count])?;
        at += count as u64;
    }
    Ok(())
}

/// As [`content`], where the length is promised already.
fn promised(
    image: &dyn View,
    ino: Ino,
    span: (u64, u64),
    output: &mut dyn Write,
) -> Result<(), Stop> {
    content(image, ino, span, output).map_err(|stop| match stop {
        Stop::Output(error) => Stop::Output(error),
        _ => Stop::Broken,
    })
}
