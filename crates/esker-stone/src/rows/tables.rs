//! Rows of tables: the trees of pages that make up the layers of a volume, in its root.

use super::pages::{self, Child};
use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::limits::LEVELS_MAX;
use crate::root::Top;

const LEVEL: u8 = 14;
const HEIGHT: u8 = 15;
const BYTES: u8 = 16;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// Its layer: the lowest is 0.
    pub layer: u64,
    /// Not greater than its first key, greater than all keys of tables before it in its layer.
    pub key: Vec<u8>,
    /// Its top page.
    pub top: Top,
    /// Bytes that it takes in its segment, with all that belongs to it.
    pub bytes: u64,
}

/// The bytes of a group of tables, which rise by layer and key.
#[must_use]
pub fn encode(rows: &[TableRow], measure: Measure) -> Vec<u8> {
    let mut group = GroupWriter::new(kind::TABLE, rows.len(), measure);
    let child = |row: &TableRow| Child {
        key: row.key.clone(),
        entries: row.top.entries,
        page: row.top.page,
        base: None,
    };
    pages::write(&mut group, &rows.iter().map(child).collect::<Vec<_>>(), 0);
    let mut numbers = |column, number: &dyn Fn(&TableRow) -> u64| {
        group.numbers(column, &rows.iter().map(number).collect::<Vec<_>>());
    };
    numbers(LEVEL, &|row| row.layer);
    numbers(HEIGHT, &|row| row.top.height.into());
    numbers(BYTES, &|row| row.bytes);
    group.page()
}

/// From the bytes of a group.
///
/// # Errors
/// `Damaged`, `Unsupported`.
pub fn decode(plain: &[u8]) -> Result<Vec<TableRow>> {
    let known = [&pages::COLUMNS[..], &[LEVEL, HEIGHT, BYTES]].concat();
    let group = Group::only(plain, kind::TABLE, &known)?;
    let (children, _) = pages::read(&group)?;
    let (layers, heights) = (group.numbers(LEVEL)?, group.numbers(HEIGHT)?);
    let bytes = group.numbers(BYTES)?;
    let mut rows: Vec<TableRow> = Vec::with_capacity(group.count);
    for (row, child) in children.into_iter().enumerate() {
        let height = u8::try_from(heights.get(row)).ok().filter(|&height| height <= LEVELS_MAX);
        let height = height.ok_or(Damage::Range)?;
        let top = Top { page: child.page, height, entries: child.entries };
        let own = TableRow { layer: layers.get(row), key: child.key, top, bytes: bytes.get(row) };
        let before = rows.last().map(|before| (before.layer, &before.key));
        if before.is_some_and(|before| before >= (own.layer, &own.key)) {
            return Err(Damage::Order.into());
        }
        rows.push(own);
    }
    Ok(rows)
}
