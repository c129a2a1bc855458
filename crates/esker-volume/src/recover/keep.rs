//! Keeping: which snapshots stay when all tables are written again. Theirs stay as they are, so a snapshot stays if
//! each of its tables can be read.
//!
//! Above: `repair`. Below: `base` reads tables, `prove` blocks. Invariant: of a snapshot that is kept every row is
//! there.

use std::collections::{BTreeMap, BTreeSet};

use esker_stone::rows::extents::BlockName;
use esker_stone::rows::snapshots::SnapshotRow;
use esker_stone::rows::tables::TableRow;

use super::base::Walk;
use super::prove::Proving;
use super::{Mended, Places};
use crate::base::is_based;
use crate::device::Device;
use crate::merge::Row;
use crate::recent::runs;
use crate::snapshots::{Shared, is_shared, place};
use crate::stack::State;

/// What a table of snapshots names.
type Named = BTreeSet<BlockName>;

/// What became of snapshots.
#[derive(Default)]
pub(super) struct Keeping {
    /// Those that stay, the oldest first.
    pub rows: Vec<SnapshotRow>,
    /// Names of those that are lost.
    pub gone: Vec<Vec<u8>>,
    /// Names of those that stay though bytes of their files are lost.
    pub hurt: Vec<Vec<u8>>,
    /// Tables that only they have, and since which of them.
    pub tables: Vec<TableRow>,
    pub since: BTreeMap<(u64, u64), u64>,
    /// Blocks that they name.
    pub blocks: Named,
}

/// What a table names; `None`: it cannot be read.
fn named<D: Device>(device: &Mended<D>, places: &Places, table: &TableRow) -> Option<Named> {
    let mut walk = Walk::new(device, places);
    walk.tables(std::slice::from_ref(table));
    if !walk.lost.is_empty() {
        return None;
    }
    let mut blocks = Named::new();
    for row in walk.rows {
        let Row::Extent(row) = row else { continue };
        let all = runs(&row).ok()?;
        let named = all.iter().filter_map(|run| run.place).map(|place| place.block);
        blocks.extend(named.filter(|&block| !is_based(block)));
    }
    Some(blocks)
}

/// Looks at all snapshots of a state; those of which bytes are lost stay unless `whole`.
pub(super) fn keep<D: Device>(
    state: &State,
    (device, places): (&Mended<D>, &Places),
    proving: &mut Proving<'_, Mended<D>>,
    whole: bool,
) -> Keeping {
    let mut known: BTreeMap<(u64, u64), Option<Named>> = BTreeMap::new();
    let mut own = Keeping::default();
    for row in &state.snapshots {
        let seen = state.seen_by(row);
        let mut blocks = Named::new();
        let mut read = !seen.tables.is_empty();
        for table in seen.tables.iter().filter(|table| is_shared(table)) {
            let found = known.entry(place(table)).or_insert_with(|| named(device, places, table));
            match found {
                Some(found) => blocks.extend(found.iter().copied()),
                None => read = false,
            }
        }
        let right = blocks.iter().all(|&block| proving.plain(block).is_some());
        if !read || (whole && !right) {
            own.gone.push(row.name.clone());
            continue;
        }
        if !right {
            own.hurt.push(row.name.clone());
        }
        own.rows.push(row.clone());
        own.blocks.extend(blocks);
    }
    own.tables(state);
    own
}

impl Keeping {
    /// All settled tables are replaced by others.
    fn tables(&mut self, state: &State) {
        let then = State {
            tables: state.tables.clone(),
            kept: state.kept.clone(),
            since: state.since.clone(),
            snapshots: self.rows.clone(),
            ..State::default()
        };
        let mut old = Vec::new();
        let mut shared = Shared::of(&then, &mut old);
        then.tables.iter().for_each(|table| shared.replaced(table, &mut old));
        shared.sort();
        (self.tables, self.since) = (shared.kept, shared.since);
    }
}
