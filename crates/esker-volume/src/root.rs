//! The root: one page from which the settled layer, the segments and the counters hang.
//!
//! Above: `settle` writes it, `recovery` reads it. Invariant: a root that was read names every segment once,
//! and its tables rise.

use std::collections::BTreeSet;

use esker_stone::key::kind;
use esker_stone::rows::snapshots::{self, SnapshotRow};
use esker_stone::rows::tables::{self, TableRow};
use esker_stone::rows::{bases, numbers};
use esker_stone::{Measure, Unsupported, groups};

use crate::error::{Damage, Result};
use crate::limits::{BASE_PATH_MAX, SNAPSHOTS_MAX};
use crate::rows::{Counter, Orphan, Since, counter};
use crate::rules::{Made, Rule};
use crate::segments::{Segment, Segments};
use crate::snapshots::place;
use crate::stack::State;

/// Rows of one group.
const ROWS: usize = 2048;
/// Groups of kinds from here on may be passed over.
const OPTIONAL: u8 = 128;

/// Its plain bytes.
#[must_use]
pub fn encode(state: &State, segments: &Segments, measure: Measure) -> Vec<u8> {
    let mut plain = Vec::new();
    for rows in state.tables.chunks(ROWS) {
        plain.extend(tables::encode(rows, measure));
    }
    for rows in state.kept.chunks(ROWS) {
        plain.extend(tables::encode(rows, measure));
    }
    for rows in state.snapshots.chunks(ROWS) {
        plain.extend(snapshots::encode(rows, measure));
    }
    let since: Vec<_> = state.since.iter().map(|(&place, &first)| Since { place, first }).collect();
    for rows in since.chunks(ROWS) {
        plain.extend(numbers::encode(rows, measure));
    }
    for rows in segments.rows().chunks(ROWS) {
        plain.extend(numbers::encode(rows, measure));
    }
    let orphans: Vec<_> = state.orphans.iter().map(|&ino| Orphan(ino)).collect();
    for rows in orphans.chunks(ROWS) {
        plain.extend(numbers::encode(rows, measure));
    }
    let next = Counter { number: counter::NEXT_SEGMENT, value: segments.next_number() };
    let [ino, inodes, place] = state.numbers.counters();
    let mut counters = vec![ino, inodes, next, place];
    if state.sweeping {
        counters.push(Counter { number: counter::SWEEPING, value: 1 });
    }
    if state.deltas > 0 {
        counters.push(Counter { number: counter::DELTAS, value: state.deltas });
    }
    if state.scrubbed > 0 {
        counters.push(Counter { number: counter::SCRUBBED, value: state.scrubbed });
    }
    if state.rules.largest() > 0 {
        counters.push(Counter { number: counter::LARGEST, value: state.rules.largest() });
    }
    if let Some(base) = &state.base {
        plain.extend(bases::encode(std::slice::from_ref(base), measure));
    }
    let rules: Vec<_> = state.rules.iter().copied().collect();
    if !rules.is_empty() {
        plain.extend(numbers::encode(&rules, measure));
    }
    let made = state.made.iter().map(|(&sequence, &occasion)| Made { sequence, occasion });
    for rows in made.collect::<Vec<_>>().chunks(ROWS) {
        plain.extend(numbers::encode(rows, measure));
    }
    plain.extend(numbers::encode(&counters, measure));
    plain
}

/// From its plain bytes, of a volume with so many segments.
///
/// # Errors
/// `Root`, `Segment`, `Snapshots`; `Stone`.
pub fn decode(plain: &[u8], count: u32) -> Result<(State, Segments)> {
    let mut state = State::default();
    let mut rows: Vec<Segment> = Vec::new();
    let mut next = 0;
    for (kind, bytes) in groups(plain)? {
        match kind {
            kind::TABLE => state.tables.extend(tables::decode(bytes)?),
            kind::SNAPSHOT => state.snapshots.extend(snapshots::decode(bytes)?),
            kind::SINCE => {
                let since = numbers::decode::<3, Since>(bytes)?;
                state.since.extend(since.iter().map(|row| (row.place, row.first)));
            }
            kind::SEGMENT => rows.extend(numbers::decode::<5, Segment>(bytes)?),
            kind::ORPHAN => {
                state.orphans.extend(numbers::decode::<1, Orphan>(bytes)?.iter().map(|row| row.0));
            }
            kind::BASE => match (&bases::decode(bytes, BASE_PATH_MAX)?[..], &state.base) {
                ([base], None) => state.base = Some(base.clone()),
                _ => return Err(Damage::Root.into()),
            },
            kind::RULE => {
                for rule in numbers::decode::<3, Rule>(bytes)? {
                    state.rules.add(rule).map_err(|_| Damage::Snapshots)?;
                }
            }
            kind::MADE => {
                let made = numbers::decode::<2, Made>(bytes)?;
                state.made.extend(made.iter().map(|row| (row.sequence, row.occasion)));
            }
            kind::COUNTER => {
                for row in numbers::decode::<2, Counter>(bytes)? {
                    match row.number {
                        counter::NEXT_SEGMENT => next = row.value,
                        counter::SWEEPING => state.sweeping = row.value != 0,
                        counter::DELTAS => state.deltas = row.value,
                        counter::SCRUBBED => state.scrubbed = row.value,
                        counter::LARGEST => state.rules.set_largest(row.value),
                        _ => state.numbers.take(&row),
                    }
                }
            }
            OPTIONAL.. => {}
            _ => return Err(esker_stone::Error::from(Unsupported::Group(kind)).into()),
        }
    }
    let rises = |two: &[TableRow]| (two[0].layer, &two[0].key) < (two[1].layer, &two[1].key);
    if !state.tables.windows(2).all(rises) {
        return Err(Damage::Root.into());
    }
    let live = state.tables.partition_point(|table| table.layer == 0);
    state.kept = state.tables.split_off(live);
    check_snapshots(&state)?;
    Ok((state, Segments::from_rows(rows, count, next)?))
}

/// Snapshots are told apart, and tables that are not of the settled layer are of snapshots that there are.
fn check_snapshots(state: &State) -> Result<()> {
    let rises =
        |two: &[SnapshotRow]| two[0].sequence < two[1].sequence && two[0].blocks <= two[1].blocks;
    let all = &state.snapshots;
    let names: BTreeSet<_> = all.iter().map(|row| &row.name).collect();
    let known = |sequence: u64| all.binary_search_by_key(&sequence, |row| row.sequence).is_ok();
    let belongs = |table: &TableRow| {
        let first = state.since.get(&place(table));
        known(table.layer) && first.is_some_and(|&first| known(first) && first <= table.layer)
    };
    let sound = all.windows(2).all(rises)
        && all.len() <= SNAPSHOTS_MAX
        && names.len() == all.len()
        && state.kept.iter().all(belongs)
        && state.since.values().all(|&first| known(first))
        && state.made.keys().all(|&sequence| known(sequence))
        && state.rules.check().is_ok();
    if sound { Ok(()) } else { Err(Damage::Snapshots.into()) }
}

#[cfg(test)]
mod tests {
    use esker_stone::Measure;
    use esker_stone::rows::extents::BlockName;
    use esker_stone::{Codec, PageRef, root::Top};

    use super::*;
    use crate::error::Error;

    fn snapshot(sequence: u64, segment: u64, name: &[u8]) -> SnapshotRow {
        let blocks = BlockName { segment, slot: 0 };
        let name = name.to_vec();
        SnapshotRow { sequence, time: 0, next_ino: 2, inodes: 1, next_place: 1, blocks, name }
    }

    fn table(layer: u64, at: u64) -> TableRow {
        let page = PageRef {
            segment: 3,
            at,
            codec: Codec::None,
            stored: 100,
            plain: 100,
            checksum: 1,
            hash: [0; 32],
        };
        let top = Top { page, height: 0, entries: 1 };
        TableRow { layer, key: vec![1, 0], top, bytes: 4096 }
    }

    fn read(state: &State) -> Result<State> {
        let plain = encode(state, &Segments::new(16, 2), Measure::Raw);
        decode(&plain, 16).map(|(state, _)| state)
    }

    /// What a root says of snapshots that cannot be is an error, each of it.
    #[test]
    fn snapshots_that_make_no_sense_are_refused() {
        let sound = State {
            tables: vec![table(0, 0)],
            kept: vec![table(4, 8192)],
            since: [((3, 0), 9), ((3, 8192), 4)].into(),
            snapshots: vec![snapshot(4, 5, b"one"), snapshot(9, 5, b"two")],
            ..State::default()
        };
        let found = read(&sound).expect("it is sound");
        assert_eq!(found.snapshots, sound.snapshots);
        let refused = |change: &dyn Fn(&mut State)| {
            let mut state = sound.clone();
            change(&mut state);
            read(&state).err() == Some(Error::Damaged(Damage::Snapshots))
        };
        assert!(refused(&|state| state.snapshots[1].blocks.segment = 4), "blocks fall");
        assert!(refused(&|state| state.snapshots[1].name = b"one".to_vec()), "two of a name");
        assert!(refused(&|state| state.kept[0].layer = 5), "a table of no snapshot");
        assert!(refused(&|state| _ = state.since.insert((3, 8192), 9)), "it ends first");
        assert!(refused(&|state| _ = state.since.remove(&(3, 8192))), "of none at all");
        assert!(refused(&|state| _ = state.since.insert((3, 0), 5)), "since no snapshot");
        let hour = crate::rules::Occasion::Hour;
        assert!(refused(&|state| _ = state.made.insert(5, hour)), "no snapshot was made");
        assert!(!refused(&|state| _ = state.made.insert(4, hour)));
        let rule = "every hour keep 24".parse().expect("a rule");
        assert!(!refused(&|state| state.rules.add(rule).expect("no other one")));
        let fewer = |state: &mut State| {
            state.rules.add(rule).expect("no other one");
            state.rules.set_largest(23);
        };
        assert!(refused(&fewer), "rules that contradict each other");
    }
}
