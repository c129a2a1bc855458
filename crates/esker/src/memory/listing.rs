//! Walking a directory in the order in which its names came.
//!
//! Neighbours: `view` asks. Invariant: a run of entries is copied out under the directory's
//! sub-tree lock, and looked up and told without it.

use alloc::vec::Vec;

use super::base::Base;
use super::home::Home;
use super::keys::{self, Rest};
use super::record;
use crate::attr::Attr;
use crate::error::{Error, Result};
use crate::ids::{Cursor, Ino};
use crate::name::Name;
use crate::store::{Entry, Flow, Listed};

/// Entries copied out at once, first and at most: who wants few shall not pay for many.
const RUN_LEN: (usize, usize) = (16, 256);

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
                let attr = run.attrs.get(index).copied().flatten();
                // An inode that is gone takes its entry with it.
                if (attrs && attr.is_none()) || each(Listed { name, entry, attr }).is_continue() {
                    continue;
                }
                return Ok(());
            }
            if run.entries.len() < len {
                return Ok(());
            }
            len = (len * 4).min(RUN_LEN.1);
        }
    }

    /// Up to `len` entries behind `after`.
    fn copy_run(&self, dir: Ino, after: Cursor, len: usize, run: &mut Entries) -> Result<()> {
        run.names.clear();
        run.entries.clear();
        let Some(first) = after.0.checked_add(1) else { return Ok(()) };
        let mut failed = None;
        let tree = self.tree(dir);
        tree.scan(&keys::seq(dir, Cursor(first)), |key, value| {
            let seq = match keys::parse(key) {
                Some((owner, Rest::Seq(seq))) if owner == dir => seq,
                _ => return Flow::Break(()),
            };
            match record::listed(seq, value) {
                Ok((entry, name)) => {
                    run.names.extend_from_slice(name);
                    run.entries.push((entry, run.names.len()));
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
                Some((_, tree)) => tree.get(&keys::inode(entry.ino), attr)?.transpose()?,
                None => None,
            };
            run.attrs.push(found);
        }
        Ok(())
    }
}
