//! Rows of snapshots: what a volume was like at a moment that has a name, in its root.

use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::rows::extents::BlockName;
use crate::strings::Strings;

const NUMBERS: [u8; 7] = [1, 2, 3, 4, 5, 6, 7];
const NAME: u8 = 8;
const COLUMNS: [u8; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
/// Longest name, in bytes.
pub const NAME_MAX: usize = 64;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRow {
    /// The last commit that it has.
    pub sequence: u64,
    /// When it was made: seconds since 1970.
    pub time: i64,
    /// No inode that it has has this number or one above it.
    pub next_ino: u64,
    /// How many inodes it has.
    pub inodes: u64,
    /// No name that it has has this place in its directory's listing or one above it.
    pub next_place: u64,
    /// Blocks whose names are before this one were there.
    pub blocks: BlockName,
    /// What it is called.
    pub name: Vec<u8>,
}

/// Whether a snapshot may be called so: 1 to 64 letters, digits and `._:-`.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"._:-".contains(byte);
    (1..=NAME_MAX).contains(&name.len()) && name.iter().all(fits)
}

impl SnapshotRow {
    fn numbers(&self) -> [u64; 7] {
        let (segment, slot) = (self.blocks.segment, self.blocks.slot.into());
        let time = self.time.cast_unsigned();
        [self.sequence, time, self.next_ino, self.inodes, self.next_place, segment, slot]
    }
}

/// The bytes of a group of snapshots, which rise by their sequence.
#[must_use]
pub fn encode(rows: &[SnapshotRow], measure: Measure) -> Vec<u8> {
    let mut group = GroupWriter::new(kind::SNAPSHOT, rows.len(), measure);
    for (at, column) in NUMBERS.into_iter().enumerate() {
        group.numbers(column, &rows.iter().map(|row| row.numbers()[at]).collect::<Vec<_>>());
    }
    let mut names = Strings::default();
    rows.iter().for_each(|row| names.push(&row.name));
    names.write(&mut group, NAME);
    group.page()
}

/// From the bytes of a group.
///
/// # Errors
/// `Damaged`, `Unsupported`.
pub fn decode(plain: &[u8]) -> Result<Vec<SnapshotRow>> {
    let group = Group::only(plain, kind::SNAPSHOT, &COLUMNS)?;
    let names = Strings::read(&group, NAME, NAME_MAX)?;
    let columns = NUMBERS.map(|column| group.numbers(column));
    let mut numbers = vec![[0; 7]; group.count];
    for (index, column) in columns.into_iter().enumerate() {
        let column = column?;
        numbers.iter_mut().enumerate().for_each(|(row, own)| own[index] = column.get(row));
    }
    if numbers.windows(2).any(|two| two[0][0] >= two[1][0]) {
        return Err(Damage::Order.into());
    }
    let row = |([sequence, time, next_ino, inodes, next_place, segment, slot], name): (
        [u64; 7],
        &[u8],
    )| {
        let slot = u32::try_from(slot).map_err(|_| Damage::Range)?;
        if !is_name(name) {
            return Err(Damage::Name.into());
        }
        let blocks = BlockName { segment, slot };
        let (time, name) = (u64::cast_signed(time), name.to_vec());
        Ok(SnapshotRow { sequence, time, next_ino, inodes, next_place, blocks, name })
    };
    numbers.into_iter().zip(names.iter()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_read_as_they_were_written() {
        let row = |sequence, time, name: &[u8]| SnapshotRow {
            sequence,
            time,
            next_ino: 9,
            inodes: 4,
            next_place: 77,
            blocks: BlockName { segment: 3, slot: 12 },
            name: name.to_vec(),
        };
        let rows = [row(1, -5, b"one"), row(2, 1 << 40, b"on:2026-11-22")];
        let measure = Measure::Raw;
        assert_eq!(decode(&encode(&rows, measure)).expect("rows"), rows);
        for wrong in [[row(2, 0, b"a"), row(2, 0, b"b")], [row(1, 0, b"a"), row(2, 0, b"a/b")]] {
            assert!(decode(&encode(&wrong, measure)).is_err());
        }
        assert!(is_name(&[b'x'; 64]) && !is_name(&[b'x'; 65]) && !is_name(b""));
    }
}
