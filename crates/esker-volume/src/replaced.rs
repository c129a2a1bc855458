//! What a volume shows otherwise once it has gone back, for whoever remembers what it showed, as a kernel does.
//!
//! Above: `home`. Below: `differences`. Invariant: what is not told of is the same before and afterwards.

use std::collections::BTreeSet;

use esker::{Ino, Kind};
use esker_stone::rows::inodes::Inode;

use crate::changes::links;
use crate::device::Device;
use crate::differences::{Difference, Moment, differences};
use crate::error::Result;
use crate::merge::Row;
use crate::snapshots::SnapshotError;
use crate::stack::Stack;
use crate::volume::Volume;

/// What is not the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Names, with their directories, that lead elsewhere or nowhere, and all names of `files`.
    pub names: BTreeSet<(Ino, Vec<u8>)>,
    /// Inodes of which anything is not the same, also those that are there no more.
    pub inodes: BTreeSet<Ino>,
    /// Files among them that were written, cut or given other times: whoever has one open means another one.
    pub files: BTreeSet<Ino>,
}

/// Whether a file has become another one; that it was read is nothing.
fn is_another(before: &Inode, after: &Inode) -> bool {
    let mut before = before.clone();
    before.attr.atime = after.attr.atime;
    before != *after
}

impl Replaced {
    fn add(&mut self, told: Difference) {
        let Difference { before, after } = told;
        if let (Some(Row::Inode(before)), Some(Row::Inode(after))) = (&before, &after)
            && before.attr.kind == Kind::File
            && is_another(before, after)
        {
            self.files.insert(after.ino);
        }
        for row in [before, after].into_iter().flatten() {
            match row {
                Row::Inode(row) => drop(self.inodes.insert(row.ino)),
                Row::Xattr(row) => drop(self.inodes.insert(row.ino)),
                Row::Extent(row) => {
                    self.inodes.insert(row.ino);
                    self.files.insert(row.ino);
                }
                Row::Name(row) => drop(self.names.insert((row.dir, row.name))),
                _ => {}
            }
        }
    }

    fn between<D: Device>(now: &Stack<'_, D>, then: &Stack<'_, D>) -> Result<Self> {
        let mut found = Self::default();
        differences(now, then, &mut |told| {
            found.add(told);
            Ok(())
        })?;
        let names = links(then, &found.files)?;
        found.names.extend(names.into_values().flatten());
        Ok(found)
    }
}

impl<D: Device> Volume<D> {
    /// What would not be the same, were this snapshot gone back to. Nothing is committed meanwhile.
    ///
    /// # Errors
    /// `Missing`; what looking meets.
    pub(crate) fn replaced_by(&self, name: &str) -> std::result::Result<Replaced, SnapshotError> {
        self.with_both((Moment::Now, Moment::Snapshot(name)), Replaced::between)
    }
}
