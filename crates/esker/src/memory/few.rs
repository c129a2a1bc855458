//! Lists that are mostly short: on the stack, on the heap only when they grow.
//!
//! Neighbours: everything that plans a commit; a usual one allocates nothing. Invariant: a [`Few`]
//! lies in one piece, either in `near` or, once it was longer, in `far`; a [`Row`] fills `near`
//! first.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut, Index, IndexMut};

/// A list of small things that lies in one piece.
#[derive(Clone, Debug)]
pub(super) struct Few<T, const N: usize> {
    near: [T; N],
    len: usize,
    far: Vec<T>,
}

impl<T: Copy + Default, const N: usize> Default for Few<T, N> {
    #[inline]
    fn default() -> Self {
        Self { near: [T::default(); N], len: 0, far: Vec::new() }
    }
}

impl<T: Copy + Default, const N: usize> Few<T, N> {
    #[inline]
    pub(super) fn push(&mut self, item: T) {
        if self.far.is_empty() {
            if let Some(place) = self.near.get_mut(self.len) {
                *place = item;
                self.len += 1;
                return;
            }
            self.far.extend_from_slice(&self.near[..self.len]);
        }
        self.far.push(item);
    }

    /// Keeps the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.far.truncate(len);
    }
}

impl<T: Copy + Default, const N: usize> Extend<T> for Few<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T: Copy + Default, const N: usize> FromIterator<T> for Few<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::default();
        few.extend(items);
        few
    }
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        if self.far.is_empty() { &self.near[..self.len] } else { &self.far }
    }
}

impl<T, const N: usize> DerefMut for Few<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        if self.far.is_empty() { &mut self.near[..self.len] } else { &mut self.far }
    }
}

/// A list of anything; its places on the stack cost nothing until they are taken.
#[derive(Debug)]
pub(super) struct Row<T, const N: usize> {
    near: [Option<T>; N],
    len: usize,
    far: Vec<T>,
}

impl<T, const N: usize> Row<T, N> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        // One by one: a constant would be copied here with all its bytes.
        Self { near: core::array::from_fn(|_| None), len: 0, far: Vec::new() }
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        match self.near.get_mut(self.len) {
            Some(place) => *place = Some(item),
            None => self.far.push(item),
        }
        self.len += 1;
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|index| &self[index])
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.near[..self.len.min(N)].iter_mut().flatten().chain(&mut self.far)
    }
}

impl<T, const N: usize> Index<usize> for Row<T, N> {
    type Output = T;
    #[inline]
    fn index(&self, index: usize) -> &T {
        match self.near.get(index) {
            Some(place) => place.as_ref().expect("an index of this row"),
            None => &self.far[index - N],
        }
    }
}

impl<T, const N: usize> IndexMut<usize> for Row<T, N> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        match self.near.get_mut(index) {
            Some(place) => place.as_mut().expect("an index of this row"),
            None => &mut self.far[index - N],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_past_the_stack() {
        let (mut few, mut row) = (Few::<u32, 3>::default(), Row::<u32, 3>::new());
        for number in 0..10 {
            assert_eq!((few.len(), row.len()), (number as usize, number as usize));
            few.push(number);
            row.push(number);
            row[number as usize] += 100;
            assert!(few.iter().copied().eq(0..=number));
            assert!(row.iter().copied().eq(100..=100 + number));
        }
        row.iter_mut().for_each(|number| *number = 0);
        assert!(row.iter().all(|&number| number == 0) && row[9] == 0);
        few.truncate(2);
        assert_eq!(*few, [0, 1]);
        few.extend([7, 8]);
        assert_eq!(*few, [0, 1, 7, 8]);
    }
}
