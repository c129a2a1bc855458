//! Rows of nothing but numbers: what a volume counts, moves and keeps in order.

use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};

/// The numbers of a row.
pub trait NumberRow<const N: usize>: Sized {
    /// The kind of their group.
    const KIND: u8;
    /// How many numbers, from the first, tell rows apart: they rise.
    const KEYS: usize;

    /// As numbers, each a column from 1 on.
    fn numbers(&self) -> [u64; N];

    /// From its numbers.
    ///
    /// # Errors
    /// `Range`.
    fn from_numbers(numbers: [u64; N]) -> Result<Self>;
}

/// The bytes of a group of rows, which rise.
#[must_use]
pub fn encode<const N: usize, R: NumberRow<N>>(rows: &[R], measure: Measure) -> Vec<u8> {
    let mut group = GroupWriter::new(R::KIND, rows.len(), measure);
    let rows: Vec<_> = rows.iter().map(NumberRow::numbers).collect();
    for column in 0..N {
        let values: Vec<_> = rows.iter().map(|row| row[column]).collect();
        group.numbers(column as u8 + 1, &values);
    }
    group.page()
}

/// From the bytes of a group.
///
/// # Errors
/// `Damaged`, `Unsupported`.
pub fn decode<const N: usize, R: NumberRow<N>>(plain: &[u8]) -> Result<Vec<R>> {
    let known: [u8; N] = core::array::from_fn(|column| column as u8 + 1);
    let group = Group::only(plain, R::KIND, &known)?;
    let columns = known.map(|column| group.numbers(column));
    let mut rows: Vec<[u64; N]> = vec![[0; N]; group.count];
    for (index, column) in columns.into_iter().enumerate() {
        let column = column?;
        for (row, numbers) in rows.iter_mut().enumerate() {
            numbers[index] = column.get(row);
        }
    }
    if rows.windows(2).any(|two| two[0][..R::KEYS] >= two[1][..R::KEYS]) {
        return Err(Damage::Order.into());
    }
    rows.into_iter().map(R::from_numbers).collect()
}
