//! Recipes: what it takes to make a block of text that lies in other blocks.
//!
//! Above: `rest`, whoever reads blocks, and whoever packs. Below: `deflate`. Invariant: what is made is as long as the
//! block says and no longer, whatever the recipe says; it needs no block that is made itself.

use crate::column::{put_varint, take_varint, unzigzag, zigzag};
use crate::deflate;
use crate::error::{Damage, Result};
use crate::limits::{BLOCK_LEN_MAX, RECIPE_STEPS_MAX, RECIPE_TEXT_MAX};

/// Bytes as they are: how many, and they.
const RAW: u8 = 0;
/// Blocks of a stream of deflate.
const RUN: u8 = 1;

/// Text that a recipe takes: a stretch of the plain bytes of a block in the same segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingredient {
    /// The block.
    pub slot: u32,
    /// Where it begins there.
    pub offset: u32,
    /// How long it is.
    pub len: u32,
}

/// What it takes to make a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe<'a> {
    /// Where the text lies, one stretch behind the other.
    pub text: Vec<Ingredient>,
    steps: &'a [u8],
}

/// Steps of a recipe, as they are gathered.
#[derive(Clone, Debug, Default)]
pub struct Steps(Vec<u8>);

impl Steps {
    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.push(RAW);
            put_varint(bytes.len() as u64, &mut self.0);
            self.0.extend_from_slice(bytes);
        }
    }

    /// A run, whose text comes behind that of the steps before.
    pub fn run(&mut self, run: &deflate::Run) {
        self.0.push(RUN);
        self.0.extend_from_slice(&run.description);
    }

    /// Their bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// None at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of the recipe that takes this text.
    #[must_use]
    pub fn recipe(&self, text: &[Ingredient]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() + 8 * text.len() + 4);
        put_varint(text.len() as u64, &mut bytes);
        let mut slot = 0;
        for part in text {
            put_varint(zigzag(i64::from(part.slot) - slot), &mut bytes);
            put_varint(part.offset.into(), &mut bytes);
            put_varint(part.len.into(), &mut bytes);
            slot = part.slot.into();
        }
        bytes.extend_from_slice(&self.0);
        bytes
    }
}

impl<'a> Recipe<'a> {
    /// Of its bytes.
    ///
    /// # Errors
    /// `Undecodable`, `Range`.
    pub fn parse(mut bytes: &'a [u8]) -> Result<Self> {
        let count = take_varint(&mut bytes)?;
        let (mut text, mut slot, mut len) = (Vec::new(), 0i64, 0);
        // Each takes three bytes at least.
        if count > bytes.len() as u64 / 3 {
            return Err(Damage::Undecodable.into());
        }
        for _ in 0..count {
            let mut next = || take_varint(&mut bytes);
            let (gap, offset, own) = (unzigzag(next()?), next()?, next()?);
            slot = slot.checked_add(gap).ok_or(Damage::Range)?;
            len += own.min(RECIPE_TEXT_MAX as u64 + 1);
            if len > RECIPE_TEXT_MAX as u64 || offset.saturating_add(own) > BLOCK_LEN_MAX as u64 {
                return Err(Damage::Range.into());
            }
            let slot = u32::try_from(slot).map_err(|_| Damage::Range)?;
            text.push(Ingredient { slot, offset: offset as u32, len: own as u32 });
        }
        Ok(Self { text, steps: bytes })
    }

    /// Makes a block of `len` bytes of this text.
    ///
    /// # Errors
    /// `Undecodable`.
    pub fn make(&self, mut text: &[u8], len: usize) -> Result<Vec<u8>> {
        let (mut steps, mut made, mut count) = (self.steps, Vec::new(), 0);
        while let Some((&kind, rest)) = steps.split_first() {
            steps = rest;
            count += 1;
            let step = match kind {
                RAW => {
                    let own = usize::try_from(take_varint(&mut steps)?).unwrap_or(usize::MAX);
                    let (own, rest) = steps.split_at_checked(own).ok_or(Damage::Undecodable)?;
                    steps = rest;
                    own.to_vec()
                }
                RUN => deflate::rebuild(&mut steps, &mut text).ok_or(Damage::Undecodable)?,
                _ => return Err(Damage::Undecodable.into()),
            };
            if step.len() > len - made.len() || count > RECIPE_STEPS_MAX {
                return Err(Damage::Undecodable.into());
            }
            made.extend(step);
        }
        if made.len() == len && text.is_empty() {
            Ok(made)
        } else {
            Err(Damage::Undecodable.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_is_read_as_it_was_written() {
        let text = [(7, 0, 100), (3, 1 << 20, 5), (u32::MAX, 1, 1)]
            .map(|(slot, offset, len)| Ingredient { slot, offset, len });
        let mut steps = Steps::default();
        steps.raw(b"head");
        steps.raw(b"");
        steps.raw(b"tail");
        let bytes = steps.recipe(&text);
        let recipe = Recipe::parse(&bytes).unwrap();
        assert_eq!(recipe.text, text);
        assert!(recipe.make(&[], 7).is_err() && recipe.make(&[], 9).is_err());
        assert!(recipe.make(b"left over", 8).is_err());
        assert_eq!(recipe.make(&[], 8).unwrap(), b"headtail");
    }

    #[test]
    fn a_hostile_recipe_is_refused() {
        let long = Ingredient { slot: 0, offset: 0, len: RECIPE_TEXT_MAX as u32 };
        let recipe = |text: &[Ingredient]| Steps::default().recipe(text);
        assert!(Recipe::parse(&recipe(&[long])).is_ok());
        assert!(Recipe::parse(&recipe(&[long, long])).is_err(), "too much text");
        let behind = Ingredient { offset: u32::MAX, ..long };
        assert!(Recipe::parse(&recipe(&[behind])).is_err(), "behind the end of any block");
        assert!(Recipe::parse(&[0xff, 0xff, 0xff, 0x7f, 0]).is_err(), "many, and none there");
        assert!(Recipe::parse(&[]).is_err());
        let many = [RAW, 1, b'x'].repeat(RECIPE_STEPS_MAX + 1);
        let many = Recipe { text: Vec::new(), steps: &many };
        assert!(many.make(&[], RECIPE_STEPS_MAX + 1).is_err(), "too many steps");
    }
}
