//! Everything that a view shows, told so that two views of the same tree tell the same, however they number inodes.
//!
//! Above: [`crate::cut`]. Below: the knot. Invariant: an inode is named by when the walk met it first; how much room
//! something takes is nobody's affair.

use std::collections::HashMap;

use esker::limits::FILE_SIZE_MAX;
use esker::store::{Flow, View};
use esker::{Cursor, Ino, Kind, Name, XattrName};
use esker_stone::check::checksum;

use crate::lying::medium::PAGE;

/// Everything that a view shows, as one number.
///
/// # Errors
/// What it refuses, in words.
pub fn print(view: &dyn View) -> Result<u64, String> {
    Ok(checksum(&tell(view)?))
}

/// Names for inodes.
#[derive(Default)]
struct Met(HashMap<Ino, usize>);

impl Met {
    /// The name of an inode, and whether it is new.
    fn name(&mut self, ino: Ino) -> (usize, bool) {
        let next = self.0.len();
        let name = *self.0.entry(ino).or_insert(next);
        (name, name == next)
    }
}

/// Everything that a view shows, in bytes that a person can nearly read.
///
/// # Errors
/// What it refuses, in words.
pub fn tell(view: &dyn View) -> Result<Vec<u8>, String> {
    let (mut told, mut met) = (Vec::new(), Met::default());
    let mut todo = vec![Ino::ROOT];
    met.name(Ino::ROOT);
    tell_inode(view, Ino::ROOT, &mut met, &mut told)?;
    while let Some(dir) = todo.pop() {
        let mut names = Vec::new();
        let listed = view.entries(dir, Cursor::START, false, &mut |listed| {
            names.push((listed.name.bytes().to_vec(), listed.entry));
            Flow::Continue(())
        });
        listed.map_err(|error| format!("listing {dir:?}: {error:?}"))?;
        for (name, entry) in names {
            let parsed = Name::parse(&name).map_err(|error| format!("{error:?}"))?;
            if view.entry(dir, parsed) != Ok(entry) {
                return Err(format!("{} in {dir:?} is listed otherwise", name.escape_ascii()));
            }
            told.extend_from_slice(b"\nname ");
            told.extend_from_slice(&name);
            let (number, new) = met.name(entry.ino);
            told.extend(format!(" {number}").bytes());
            if new {
                tell_inode(view, entry.ino, &mut met, &mut told)?;
            }
            if entry.kind == Kind::Directory {
                todo.push(entry.ino);
            }
        }
    }
    Ok(told)
}

fn tell_inode(view: &dyn View, ino: Ino, met: &mut Met, told: &mut Vec<u8>) -> Result<(), String> {
    let failed = |what: &str, error: esker::Error| format!("{what} of {ino:?}: {error:?}");
    let attr = view.attr(ino).map_err(|error| failed("attributes", error))?;
    // How much room a file takes, and the parent of what is no directory, are everybody's own affair.
    let parent = if attr.kind == Kind::Directory { met.name(attr.parent).0 } else { 0 };
    let attr = esker::Attr { blocks: 0, parent: Ino(parent as u64), ..attr };
    told.extend(format!("\n{attr:?}").bytes());
    let mut names: Vec<Vec<u8>> = Vec::new();
    let listed = view.xattrs(ino, &mut |name| {
        names.push(name.bytes().to_vec());
        Flow::Continue(())
    });
    listed.map_err(|error| failed("attributes' names", error))?;
    for name in names {
        told.extend_from_slice(b"\nattribute ");
        told.extend_from_slice(&name);
        let parsed = XattrName::parse(&name).map_err(|error| failed("a name", error))?;
        view.xattr(ino, parsed, told).map_err(|error| failed("an attribute", error))?;
    }
    if !matches!(attr.kind, Kind::File | Kind::Symlink) {
        return Ok(());
    }
    let (mut at, mut page) = (0, [0; PAGE]);
    while let Some(run) = view.next_data(ino, at).map_err(|error| failed("data", error))? {
        let mut place = run.start() / PAGE as u64 * PAGE as u64;
        while place < run.end() {
            let read = view.read(ino, place, &mut page).map_err(|error| failed("bytes", error))?;
            // Trailing zeros and pages of zeros may be holes for one and data for another.
            let len = page[..read].iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            if len > 0 && place >= at / PAGE as u64 * PAGE as u64 {
                let sum = checksum(&page[..len]);
                told.extend(format!("\n{place}: {len} bytes, {sum:x}").bytes());
            }
            place = (place + PAGE as u64).min(FILE_SIZE_MAX);
        }
        at = place.max(run.end());
    }
    Ok(())
}

/// Lines that only one of the two has.
#[must_use]
pub fn difference(wanted: &[u8], shown: &[u8]) -> String {
    let lines = |told: &[u8]| -> Vec<String> {
        told.split(|&byte| byte == b'\n').map(|line| line.escape_ascii().to_string()).collect()
    };
    let (wanted, shown) = (lines(wanted), lines(shown));
    let only = |mark: char, these: &[String], those: &[String]| -> Vec<String> {
        let lines = these.iter().filter(|line| !those.contains(line));
        lines.map(|line| format!("{mark} {line}")).collect()
    };
    [only('-', &wanted, &shown), only('+', &shown, &wanted)].concat().join("\n")
}
