//! The root: one page from which the settled layer, the segments and the counters hang.
//!
//! Above: `settle` writes it, `recovery` reads it. Invariant: a root that was read names every segment once,
//! and its tables rise.

use esker_stone::key::kind;
use esker_stone::rows::numbers;
use esker_stone::rows::tables::{self, TableRow};
use esker_stone::{Measure, Unsupported, groups};

use crate::error::{Damage, Result};
use crate::rows::{Counter, Orphan, counter};
use crate::segments::{Segment, Segments};
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
    for rows in segments.rows().chunks(ROWS) {
        plain.extend(numbers::encode(rows, measure));
    }
    let orphans: Vec<_> = state.orphans.iter().map(|&ino| Orphan(ino)).collect();
    for rows in orphans.chunks(ROWS) {
        plain.extend(numbers::encode(rows, measure));
    }
    let next = Counter { number: counter::NEXT_SEGMENT, value: segments.next_number() };
    let [ino, inodes, place] = state.numbers.counters();
    let counters = [ino, inodes, next, place];
    plain.extend(numbers::encode(&counters, measure));
    plain
}

/// From its plain bytes, of a volume with so many segments.
///
/// # Errors
/// `Root`, `Segment`; `Stone`.
pub fn decode(plain: &[u8], count: u32) -> Result<(State, Segments)> {
    let mut state = State::default();
    let mut rows: Vec<Segment> = Vec::new();
    let mut next = 0;
    for (kind, bytes) in groups(plain)? {
        match kind {
            kind::TABLE => state.tables.extend(tables::decode(bytes)?),
            kind::SEGMENT => rows.extend(numbers::decode::<5, Segment>(bytes)?),
            kind::ORPHAN => {
                state.orphans.extend(numbers::decode::<1, Orphan>(bytes)?.iter().map(|row| row.0));
            }
            kind::COUNTER => {
                for row in numbers::decode::<2, Counter>(bytes)? {
                    match row.number {
                        counter::NEXT_SEGMENT => next = row.value,
                        _ => state.numbers.take(&row),
                    }
                }
            }
            OPTIONAL.. => {}
            _ => return Err(esker_stone::Error::from(Unsupported::Group(kind)).into()),
        }
    }
    let rises =
        |two: &[TableRow]| two[0].layer == 0 && two[1].layer == 0 && two[0].key < two[1].key;
    if !state.tables.windows(2).all(rises) {
        return Err(Damage::Root.into());
    }
    Ok((state, Segments::from_rows(rows, count, next)?))
}
