//! How two moments of a volume differ, row by row. Tables that both have are passed over.
//!
//! Above: `changes`, whoever sends what changed. Below: `merge`, `snapshots`. Invariant: a row that only one of the
//! moments has, or that is another one, is told once, in the order of keys; rows of places and blocks never are.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};

use esker_stone::key::kind;

use crate::device::Device;
use crate::error::Result;
use crate::merge::{Fresh, Row, rows};
use crate::settle::range;
use crate::snapshots::{SnapshotError, place};
use crate::stack::{Stack, State};
use crate::volume::Volume;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment<'a> {
    /// The snapshot of this name.
    Snapshot(&'a str),
    /// The volume as it is.
    Now,
}

/// A row that is not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// As it was; `None`: it was not there.
    pub before: Option<Row>,
    /// As it is then; `None`: it is there no more.
    pub after: Option<Row>,
}

/// Rows of the tree from some tables, in the order of their keys, one table in memory.
pub(crate) struct Rows<'a, 'b, D> {
    stack: &'b Stack<'a, D>,
    tables: std::vec::IntoIter<usize>,
    kinds: std::ops::RangeInclusive<u8>,
    ready: VecDeque<(Vec<u8>, Row)>,
}

impl<'a, 'b, D: Device> Rows<'a, 'b, D> {
    /// Those of some kinds that lie in tables that are not among `others`.
    pub fn new(
        stack: &'b Stack<'a, D>,
        kinds: std::ops::RangeInclusive<u8>,
        others: &BTreeSet<(u64, u64)>,
    ) -> Self {
        let state = stack.state;
        let wanted = |&at: &usize| {
            let keys = range(state, at);
            let first = keys.from.first().copied().unwrap_or(0);
            let last = keys.to.as_deref().and_then(<[u8]>::first).copied().unwrap_or(u8::MAX);
            let shared = state.tables.get(at).is_some_and(|table| others.contains(&place(table)));
            first <= *kinds.end() && last >= *kinds.start() && !shared
        };
        let tables: Vec<_> = (0..state.tables.len().max(1)).filter(wanted).collect();
        Self { stack, tables: tables.into_iter(), kinds, ready: VecDeque::new() }
    }

    /// The next one.
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        while self.ready.is_empty() {
            let Some(table) = self.tables.next() else { return Ok(None) };
            let mut below = Vec::new();
            self.stack.leaves(table, &mut |leaf| match self.kinds.contains(&leaf.kind()) {
                true => rows(leaf, &mut below),
                false => Ok(()),
            })?;
            let (keys, state) = (range(self.stack.state, table), self.stack.state);
            let below = Fresh::new(&state.settling).over(below, &keys)?;
            let all = Fresh::new(&state.recent).over(below, &keys)?;
            let own = all.into_iter().filter(|row| self.kinds.contains(&row.kind()));
            self.ready.extend(own.map(|row| (row.key(), row)));
        }
        Ok(self.ready.pop_front())
    }
}

/// Tables of both that nothing that came since touches.
fn shared(one: &State, other: &State) -> BTreeSet<(u64, u64)> {
    let untouched = |state: &State| -> BTreeSet<_> {
        let came = state.news().map(Fresh::new);
        let still = |at: &usize| !came.iter().any(|own| own.touches(&range(state, *at)));
        let all = (0..state.tables.len()).filter(still);
        all.filter_map(|at| state.tables.get(at)).map(place).collect()
    };
    untouched(one).intersection(&untouched(other)).copied().collect()
}

/// Tells every row that is not the same, as long as `each` has no error.
pub(crate) fn differences<D: Device>(
    one: &Stack<'_, D>,
    other: &Stack<'_, D>,
    each: &mut dyn FnMut(Difference) -> Result<()>,
) -> Result<()> {
    let kinds = kind::INODE..=kind::EXTENT;
    let both = shared(one.state, other.state);
    let mut old = Rows::new(one, kinds.clone(), &both);
    let mut new = Rows::new(other, kinds, &both);
    let (mut before, mut after) = (old.next()?, new.next()?);
    loop {
        let order = match (&before, &after) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((one, _)), Some((other, _))) => one.cmp(other),
        };
        let gone = if order.is_le() { std::mem::replace(&mut before, old.next()?) } else { None };
        let came = if order.is_ge() { std::mem::replace(&mut after, new.next()?) } else { None };
        let told = Difference { before: gone.map(|(_, row)| row), after: came.map(|(_, row)| row) };
        let is_place = |row: &Option<Row>| matches!(row, Some(Row::Place(_)));
        let skip = is_place(&told.before) || is_place(&told.after);
        if told.before != told.after && !skip {
            each(told)?;
        }
    }
}

impl<D: Device> Volume<D> {
    /// The tables of a moment.
    pub(crate) fn seen_at(
        &self,
        state: &State,
        moment: Moment<'_>,
    ) -> std::result::Result<Option<State>, SnapshotError> {
        let Moment::Snapshot(name) = moment else { return Ok(None) };
        let found = state.snapshots.iter().find(|row| row.name == name.as_bytes());
        Ok(Some(state.seen_by(found.ok_or(SnapshotError::Missing)?)))
    }

    /// Looks at two moments at once. Nothing is committed meanwhile.
    pub(crate) fn with_both<R>(
        &self,
        (one, other): (Moment<'_>, Moment<'_>),
        look: impl FnOnce(&Stack<'_, D>, &Stack<'_, D>) -> Result<R>,
    ) -> std::result::Result<R, SnapshotError> {
        let index = self.state();
        let (one, other) = (self.seen_at(&index, one)?, self.seen_at(&index, other)?);
        let stack = |seen| Stack { volume: self, state: seen, index: &index };
        let old = stack(one.as_ref().unwrap_or(&index));
        Ok(look(&old, &stack(other.as_ref().unwrap_or(&index)))?)
    }

    /// Tells every row of inodes, names, extended attributes and stretches that is not the same at two moments, in the
    /// order of keys, as long as `each` has no error. Rows of stretches may be cut otherwise and say the same. Nothing
    /// is committed meanwhile.
    ///
    /// # Errors
    /// `Missing`; what looking meets; those of `each`.
    pub fn differences(
        &self,
        moments: (Moment<'_>, Moment<'_>),
        each: &mut dyn FnMut(Difference) -> Result<()>,
    ) -> std::result::Result<(), SnapshotError> {
        self.with_both(moments, |one, other| differences(one, other, each))
    }
}
