//! Walking a directory in the order in which its names came.
//!
//! Neighbours: `view` asks. Invariant: a run of entries is copied out under the directory's
//! sub-tree lock, or its leaf kept as it is, and looked up and told without it.

use alloc::vec::Vec;

use super::base::Base;
use super::home::Home;
use super::keys;
use super::record;
use crate::attr::Attr;
use crate::error::{Error, Result};
use crate::ground::short;
use crate::ids::{Cursor, Ino};
use crate::name::Name;
use crate::store::{Entry, Flow, Listed};
use crate::tree::Pages;

/// Entries copied out at once, first and at most: who wants few shall not pay for many.
const RUN_LEN: (usize, usize) = (16, 256);

/// Bytes of names for which room is made at once.
const NAMES_MORE: usize = 2048;

/// An entry and its name from the listing.
#[inline]
fn listed(seq: Cursor, value: &[u8]) -> Result<(Entry, Name<'_>)> {
    let (entry, name) = record::listed(seq, value)?;
    Ok((entry, Name::parse(name).map_err(|_| Error::Corrupt)?))
}

/// Entries copied out.
#[derive(Default)]
struct Entries {
    names: Vec<u8>,
    /// Each with the end of its name.
    entries: Vec<(Entry, usize)>,
    attrs: Vec<Option<Attr>>,
}

impl<B: Base> Home<B> {
    pub(super) fn list(
        &self,
        dir: Ino,
        mut after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        if B::Pages::KEEPS && !attrs {
            return self.list_leaves(dir, after, each);
        }
        let mut run = Entries::default();
        let mut len = RUN_LEN.0;
        loop {
            self.copy_run(dir, after, len, &mut run)?;
            if attrs {
                self.look_up(&mut run)?;
            }
            let mut start = 0;
            for (index, &(entry, end)) in run.entries.iter().enumerate() {
                let name = Name::parse(&run.names[start..end]).map_err(|_| Error::Corrupt)?;
                start = end;
                after = entry.seq;
                // Nothing is not copied: it is as long as attributes are.
                let flow = match run.attrs.get(index) {
                    _ if !attrs => each(Listed { name, entry, attr: None }),
                    Some(&Some(attr)) => each(Listed { name, entry, attr: Some(attr) }),
                    // An inode that is gone takes its entry with it.
                    _ => Flow::Continue(()),
                };
                if flow.is_break() {
                    return Ok(());
                }
            }
            if run.entries.len() < len {
                return Ok(());
            }
            len = (len * 4).min(RUN_LEN.1);
        }
    }

    /// Lists from leaves that stay as they are while each of their entries is told.
    fn list_leaves(
        &self,
        dir: Ino,
        mut after: Cursor,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        let mut failed = None;
        let mut tell = |seq, value: &[u8]| match listed(seq, value) {
            Ok((entry, name)) => each(Listed { name, entry, attr: None }),
            Err(error) => {
                failed = Some(error);
                Flow::Break(())
            }
        };
        let (mut more, mut found) = (true, false);
        while more && let Some(first) = after.0.checked_add(1) {
            let from = keys::seq(dir, Cursor(first));
            let Some(leaf) = self.tree(dir).keep_leaf(&from)? else { break };
            more = leaf.numbers(&from, |seq, value| {
                after = Cursor(seq);
                tell(after, value)
            })?;
            found |= after.0 >= first;
        }
        if !found && self.tree(dir).get(&keys::inode(dir), |_| ())?.is_none() {
            return Err(Error::NotFound);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Up to `len` entries behind `after`.
    fn copy_run(&self, dir: Ino, after: Cursor, len: usize, run: &mut Entries) -> Result<()> {
        run.entries.clear();
        let mut end = 0;
        let Some(first) = after.0.checked_add(1) else { return Ok(()) };
        let mut failed = None;
        let tree = self.tree(dir);
        tree.scan_numbers(&keys::seq(dir, Cursor(first)), |seq, value| {
            match record::listed(Cursor(seq), value) {
                Ok((entry, name)) => {
                    let start = end;
                    end += name.len();
                    if run.names.len() < end {
                        run.names.resize(end + NAMES_MORE, 0);
                    }
                    short::copy(&mut run.names[start..end], name);
                    run.entries.push((entry, end));
                }
                Err(error) => failed = Some(error),
            }
            let more = failed.is_none() && run.entries.len() < len;
            if more { Flow::Continue(()) } else { Flow::Break(()) }
        })?;
        if run.entries.is_empty() && tree.get(&keys::inode(dir), |_| ())?.is_none() {
            return Err(Error::NotFound);
        }
        failed.map_or(Ok(()), Err)
    }

    /// The attributes of all entries, with one lock for neighbours of the same group.
    fn look_up(&self, run: &mut Entries) -> Result<()> {
        run.attrs.clear();
        let mut tree = None;
        for (entry, _) in &run.entries {
            let group = keys::group(entry.ino, B::GROUPS);
            if tree.as_ref().is_none_or(|&(held, _)| held != group) {
                // The old lock goes before the new one comes.
                drop(tree.take());
                tree = Some((group, self.tree(entry.ino)));
            }
            let attr = |value: &[u8]| record::record(value)?.attr();
            let found = match &tree {
                Some((_, tree)) => tree.get_record(entry.ino, attr)?.transpose()?,
                None => None,
            };
            run.attrs.push(found);
        }
        Ok(())
    }
}
