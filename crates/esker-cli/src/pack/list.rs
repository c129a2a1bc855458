//! Packing what a list of paths names, as find(1) writes it: each path itself, under its path, with the directories
//! above it. What is in a directory comes along only if it is in the list too.
//!
//! Above: `verbs::pack`. Below: `walk`. Invariant: as everywhere nothing is followed, and a path with `..` is refused.

use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::io::{BufRead, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use esker::Kind;
use esker_image::pack::{Error, NodeId};
use rustix::io::Errno;

use super::Plan;
use super::walk::{Links, Root, Trouble, Walk};
use super::work::Work;
use crate::failure::shown;
use crate::import::source;

/// The longest line that is taken for a path.
const LINE_LEN_MAX: u64 = 1 << 20;

/// So much of a line is told.
const LINE_SHOWN_LEN: usize = 1 << 10;

/// Packs what `list` names below `root`, into the root directory. Paths end at `end`.
pub fn gather_list(
    root: &Path,
    mut list: impl BufRead,
    end: u8,
    plan: &Plan<'_>,
    work: &mut Work,
) -> Result<std::io::Result<()>, Error> {
    let out = HashSet::new();
    let (tree, mut links) = (Root { path: root, top: NodeId::ROOT, plan, out: &out }, Links::new());
    let mut walk = Walk::new(&tree, &mut links, work, true)?;
    let top = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    let mut line = Vec::new();
    loop {
        line.clear();
        match list.by_ref().take(LINE_LEN_MAX).read_until(end, &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return Ok(Err(error)),
        }
        if line.last() == Some(&end) {
            line.pop();
        }
        match below(&line, &top) {
            Some(path) => walk.named(path)?,
            None => walk.refuse(&line, "a path in the list is not below what is packed"),
        }
        walk.work.tick();
    }
    Ok(Ok(()))
}

/// The path of a line below the top, which an absolute one begins with.
fn below<'a>(line: &'a [u8], top: &Path) -> Option<&'a [u8]> {
    if line.first() != Some(&b'/') {
        return Some(line);
    }
    let path = Path::new(OsStr::from_bytes(line)).strip_prefix(top).ok()?;
    Some(path.as_os_str().as_bytes())
}

impl Walk<'_> {
    /// Leaves out what one line names.
    fn refuse(&mut self, line: &[u8], why: &str) {
        let more = if line.len() > LINE_SHOWN_LEN { "…" } else { "" };
        let told = shown(&line[..line.len().min(LINE_SHOWN_LEN)]);
        self.work.gathered.troubles.push(format!("{told}{more}: {why}"));
    }

    /// Takes what one line names.
    pub(super) fn named(&mut self, line: &[u8]) -> Result<(), Error> {
        let parts = line.split(|&byte| byte == b'/');
        let parts: Vec<_> = parts.filter(|part| !part.is_empty() && *part != b".").collect();
        let Some((last, above)) = parts.split_last() else { return Ok(()) };
        let known = |part: &&[u8], index: usize| {
            self.levels.get(index + 1).is_some_and(|level| level.name.as_bytes() == *part)
        };
        let same = (0..above.len()).take_while(|&index| known(&above[index], index)).count();
        self.leave(same + 1);
        if parts.contains(&&b".."[..]) {
            self.refuse(line, "a path in the list goes up by `..`");
            return Ok(());
        }
        for part in above.iter().skip(same).chain([last]) {
            let Ok(name) = CString::new(*part) else { continue };
            self.path.push(source::os(&name));
            let depth = self.levels.len();
            let taken = self.step(&name);
            let entered = taken.is_ok() && self.levels.len() > depth;
            self.note(taken)?;
            if !entered {
                self.path.pop();
                break;
            }
        }
        Ok(())
    }

    /// One name further: a directory is entered, anything else is taken unless it was before.
    pub(super) fn step(&mut self, name: &CString) -> Result<(), Trouble> {
        let Some(level) = self.levels.last() else { return Err(Errno::NOENT.into()) };
        match self.work.packer.find(level.node, name.as_bytes())? {
            Some((node, Kind::Directory)) => {
                let (fd, stat) = source::open_directory(&level.source, name)?;
                self.enter_again(name, fd, &stat, node)
            }
            Some(_) => Ok(()),
            None => self.take(name),
        }
    }
}
