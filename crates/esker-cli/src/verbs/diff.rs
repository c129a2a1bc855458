//! `esker diff`: how two images, or two places in images, differ.

use std::cmp::Ordering;
use std::io::{BufWriter, Write as _};

use clap::Args;
use esker::Kind;
use esker::store::View;
use esker_image::pack::xattrs;
use serde_json::json;

use crate::failure::{Exit, Failure, Outcome};
use crate::images::{self, Node, Opening, Place, PlaceParser, children};
use crate::printed::{Printer, printer};

/// Bytes that are compared at a time.
const CHUNK: usize = 1 << 20;

/// Tell how two images, or two places in images, differ.
///
/// One line for each path: - is only in the first, + only in the second, c has other content,
/// m only other attributes, t is of another type.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker diff old.esker new.esker
  esker diff x.esker:/v1 x.esker:/v2

Exit status: 0 if they are the same, 7 if they differ.")]
pub struct Diff {
    /// An image, or a place in one
    #[arg(value_name = "IMAGE[:/PATH]", value_parser = PlaceParser)]
    old: Place,
    /// Another
    #[arg(value_name = "IMAGE[:/PATH]", value_parser = PlaceParser)]
    new: Place,
    /// Times do not count
    #[arg(long)]
    no_times: bool,
    #[command(flatten)]
    opening: Opening,
    /// Print lines of JSON
    #[arg(long)]
    pub json: bool,
}

/// How something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Gone,
    New,
    Content,
    Attributes,
    Type,
}

impl Change {
    const fn letter(self) -> char {
        match self {
            Self::Gone => '-',
            Self::New => '+',
            Self::Content => 'c',
            Self::Attributes => 'm',
            Self::Type => 't',
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::New => "new",
            Self::Content => "content",
            Self::Attributes => "attributes",
            Self::Type => "type",
        }
    }
}

fn same_bytes(old: (&dyn View, &Node), new: (&dyn View, &Node)) -> esker::Result<bool> {
    let size = old.1.attr.size;
    if size != new.1.attr.size {
        return Ok(false);
    }
    let (mut one, mut other) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    while at < size {
        // Holes on both sides need no look.
        let next = |image: &dyn View, node: &Node| -> esker::Result<u64> {
            Ok(image.next_data(node.ino, at)?.map_or(size, |run| run.start()))
        };
        at = next(old.0, old.1)?.min(next(new.0, new.1)?);
        let count = old.0.read(old.1.ino, at, &mut one)?;
        if new.0.read(new.1.ino, at, &mut other)? != count || one[..count] != other[..count] {
            return Ok(false);
        }
        if count == 0 {
            break;
        }
        at += count as u64;
    }
    Ok(true)
}

struct Comparison<'a> {
    verb: &'a Diff,
    old: &'a dyn View,
    new: &'a dyn View,
    out: BufWriter<Printer>,
    differences: u64,
}

impl Comparison<'_> {
    fn tell(&mut self, path: &[u8], change: Change) {
        self.differences += 1;
        let path = images::inner_shown(path);
        // Nobody need be there to read it.
        let _ = match self.verb.json {
            true => {
                let line = json!({ "path": path, "change": change.word() });
                writeln!(self.out, "{line}")
            }
            false => writeln!(self.out, "{} {path}", change.letter()),
        };
    }

    fn compare(&mut self, old: &Node, new: &Node) -> esker::Result<Option<Change>> {
        let (one, other) = (&old.attr, &new.attr);
        if one.kind != other.kind {
            return Ok(Some(Change::Type));
        }
        let content = match one.kind {
            Kind::File | Kind::Symlink => same_bytes((self.old, old), (self.new, new))?,
            Kind::CharDevice | Kind::BlockDevice => one.rdev == other.rdev,
            _ => true,
        };
        if !content {
            return Ok(Some(Change::Content));
        }
        let owner = (one.perm, one.uid, one.gid, one.flags);
        let same = owner == (other.perm, other.uid, other.gid, other.flags)
            && (self.verb.no_times || one.mtime == other.mtime)
            && xattrs(self.old, old.ino)? == xattrs(self.new, new.ino)?;
        Ok(if same { None } else { Some(Change::Attributes) })
    }

    fn run(&mut self, old: Node, new: Node) -> esker::Result<()> {
        let base = new.path.len();
        let mut pending = vec![(old, new)];
        while let Some((old, new)) = pending.pop() {
            let path = new.path.get(base..).unwrap_or_default().to_vec();
            if let Some(change) = self.compare(&old, &new)? {
                self.tell(&path, change);
            }
            if old.attr.kind != Kind::Directory || new.attr.kind != Kind::Directory {
                continue;
            }
            let mut left = children(self.old, &old)?.into_iter().peekable();
            let mut right = children(self.new, &new)?.into_iter().peekable();
            let mut both = Vec::new();
            loop {
                let order = match (left.peek(), right.peek()) {
                    (None, None) => break,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some(one), Some(other)) => one.name().cmp(other.name()),
                };
                let at = |node: &Node| [&path[..], b"/", node.name()].concat();
                let one = if order.is_le() { left.next() } else { None };
                let other = if order.is_ge() { right.next() } else { None };
                match (one, other) {
                    (Some(one), Some(other)) => both.push((one, other)),
                    (Some(one), None) => self.tell(&at(&one), Change::Gone),
                    (None, Some(other)) => self.tell(&at(&other), Change::New),
                    (None, None) => break,
                }
            }
            pending.extend(both.into_iter().rev());
        }
        Ok(())
    }
}

impl Diff {
    /// Compares.
    pub fn run(&self) -> Outcome {
        let cache = images::cache_for_all();
        let old = images::open_to_read(&self.old.image, &self.opening, &cache)?;
        let new = images::open_to_read(&self.new.image, &self.opening, &cache)?;
        let (one, other) = (images::find(&*old, &self.old)?, images::find(&*new, &self.new)?);
        let out = BufWriter::new(printer());
        let mut comparison = Comparison { verb: self, old: &*old, new: &*new, out, differences: 0 };
        comparison.run(one, other).map_err(|error| {
            Failure::new(Exit::Damaged, format!("cannot compare ({error})"), "`esker check` both")
        })?;
        let _ = comparison.out.flush();
        match comparison.differences {
            0 => Ok(()),
            _ => Err(Failure { exit: Exit::Different, text: String::new() }),
        }
    }
}
