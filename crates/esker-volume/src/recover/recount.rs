//! Recounting: a tree of which only inodes, names and content are believed, with everything that a volume counts.
//!
//! Above: `repair`. Invariant: what is counted here is what `check` counts.

use std::collections::{BTreeMap, BTreeSet};

use esker::{Ino, Kind};
use esker_stone::rows::extents::BlockName;

use crate::base::is_based;
use crate::recent::Recent;

/// Names that lead to each inode, and how many entries, and directories among them, each directory has.
#[derive(Default)]
struct Names {
    leading: BTreeMap<Ino, u32>,
    entries: BTreeMap<Ino, (u64, u32)>,
}

impl Names {
    fn of(recent: &Recent) -> Self {
        let mut own = Self::default();
        for row in recent.names.values().flatten() {
            *own.leading.entry(row.ino).or_default() += 1;
            let (all, dirs) = own.entries.entry(row.dir).or_default();
            *all += 1;
            *dirs += u32::from(row.kind == Kind::Directory);
        }
        own
    }
}

/// Numbers of names and entries become those that there are; what has no name, and what is of nothing, goes.
pub(super) fn links(recent: &mut Recent) {
    let names = Names::of(recent);
    for row in recent.inodes.values_mut().flatten() {
        let (entries, dirs) = names.entries.get(&row.ino).copied().unwrap_or_default();
        let leading = names.leading.get(&row.ino).copied().unwrap_or(0);
        let attr = &mut row.attr;
        match attr.kind {
            Kind::Directory if leading > 0 || row.ino == Ino::ROOT => {
                (attr.size, attr.nlink) = (entries, dirs.saturating_add(2));
            }
            _ => attr.nlink = leading,
        }
        if row.ino == Ino::ROOT {
            attr.parent = Ino::ROOT;
        }
    }
    let is_named = |ino: Ino| ino == Ino::ROOT || names.leading.contains_key(&ino);
    recent.inodes.retain(|&ino, row| row.is_some() && is_named(ino));
    let known: BTreeSet<Ino> = recent.inodes.keys().copied().collect();
    recent.xattrs.retain(|(ino, _), value| value.is_some() && known.contains(ino));
    recent.extents.retain(|ino, _| known.contains(ino));
}

/// How many bytes of files name each block.
pub(super) fn references(recent: &Recent) -> BTreeMap<BlockName, u64> {
    let mut refs: BTreeMap<BlockName, u64> = BTreeMap::new();
    for run in recent.extents.values().flat_map(|runs| runs.iter()) {
        if let Some(place) = run.place.filter(|place| !is_based(place.block)) {
            let bytes = refs.entry(place.block).or_default();
            *bytes = bytes.saturating_add(run.len);
        }
    }
    refs
}

/// Bytes of the rows, about, as they take room in tables.
pub(super) fn weight(recent: &Recent) -> u64 {
    let inodes = recent.inodes.values().flatten().map(|row| 100 + row.inline.len() as u64);
    let names = recent.names.keys().map(|(_, name)| 80 + 2 * name.len() as u64);
    let xattrs = recent.xattrs.iter();
    let xattrs = xattrs.map(|((_, name), value)| {
        20 + name.len() as u64 + value.as_ref().map_or(0, |value| value.len() as u64)
    });
    let runs = recent.extents.values().map(|runs| 20 + 32 * runs.iter().count() as u64);
    let blocks = 100 * (recent.blocks.len() + recent.moves.len()) as u64;
    inodes.chain(names).chain(xattrs).chain(runs).fold(blocks, u64::saturating_add)
}
