//! Accounts of space in a tree of pages.
//!
//! Neighbours: `memory::pairs` has the contract. Invariant: keys are the two numbers in big-endian order, values
//! the number in little-endian order, or nothing for 0.

use crate::error::{Error, Result};
use crate::ground::Memory;
use crate::memory::pairs::{Key, Pairs};
use crate::tree::Tree;

use super::pages::ResidentPages;

/// A map of pairs in a tree.
pub struct TreePairs<M>(pub Tree<ResidentPages<M>>);

type Bytes = [u8; 16];

fn bytes(key: Key) -> Bytes {
    ((u128::from(key.0) << 64) | u128::from(key.1)).to_be_bytes()
}

fn parse(key: &[u8], value: &[u8]) -> Result<(Key, u32)> {
    let key = u128::from_be_bytes(key.try_into().map_err(|_| Error::Corrupt)?);
    let value = match value {
        [] => 0,
        bytes => u32::from_le_bytes(bytes.try_into().map_err(|_| Error::Corrupt)?),
    };
    Ok((((key >> 64) as u64, key as u64), value))
}

/// What was found where it was looked for: in damaged pages it may lie on the other side, and whoever goes on from
/// there would come to no end.
fn on_its_side(
    found: Option<(Key, u32)>,
    is: impl FnOnce(Key) -> bool,
) -> Result<Option<(Key, u32)>> {
    match found {
        Some((key, _)) if !is(key) => Err(Error::Corrupt),
        found => Ok(found),
    }
}

impl<M: Memory> Pairs for TreePairs<M> {
    fn put(&mut self, key: Key, value: u32) -> Result<()> {
        match value {
            0 => self.0.put(&bytes(key), &[]),
            value => self.0.put(&bytes(key), &value.to_le_bytes()),
        }
    }

    fn take(&mut self, key: Key) -> Result<bool> {
        self.0.remove(&bytes(key))
    }

    fn floor(&self, key: Key) -> Result<Option<(Key, u32)>> {
        let found = self.0.floor(&bytes(key), parse)?.transpose()?;
        on_its_side(found, |found| found <= key)
    }

    fn ceiling(&self, key: Key) -> Result<Option<(Key, u32)>> {
        let mut found = Ok(None);
        self.0.scan(&bytes(key), |key, value| {
            found = parse(key, value).map(Some);
            core::ops::ControlFlow::Break(())
        })?;
        on_its_side(found?, |found| found >= key)
    }

    fn pages_for(&self, puts: usize) -> usize {
        self.0.pages_for(puts)
    }
}
