//! Blocks that are told in words: section by section where a few bytes are wanted, or as a whole.
//!
//! Above: `image`. Below: `esker-stone`, its cache between. Invariant: what is kept of a block that has sections is its
//! form, which is half as long as its plain bytes, and the sections that were read.

use std::sync::Arc;

use esker_stone::cache::What;
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::BlockName;
use esker_stone::{Damage, Error, Result, Words};

use super::image::{Image, whole_or_head};

/// What a section was told from, its words and its own form where these are another's: as long as somebody has them,
/// they stay in the cache.
pub(super) type Held = Option<(Arc<Words>, Option<Arc<Vec<u8>>>)>;

impl Image {
    /// A section of a block, of which more may be wanted.
    pub(super) fn told_section(
        &self,
        name: BlockName,
        row: &BlockRow,
        number: usize,
        held: &mut Held,
    ) -> Result<Vec<u8>> {
        let (place, len) = row.section(number).ok_or(Damage::Reference)?;
        let mut plain = vec![0; len];
        if let Some(words) = self.words_of_base(row)? {
            let form = self.form(name, row, &words, place.end)?;
            let text = form.get(place).ok_or(Damage::Undecodable)?;
            words.read_other(text, &[], &mut plain)?;
            *held = Some((words, Some(form)));
        } else {
            // Who leans on it wants all of it.
            let whole = self.is_leaned_on(name).then_some(row.words as usize);
            let words = match whole.map(|whole| self.words(name, row, whole)) {
                // What lies before the damage can be read all the same.
                None | Some(Err(Error::Damaged(_))) => self.words(name, row, place.end)?,
                Some(words) => words?,
            };
            words.read_section(place, &mut plain)?;
            *held = Some((words, None));
        }
        Ok(plain)
    }

    /// Reads all of a block's form, from which its sections are told.
    pub(super) fn load_form(&self, name: BlockName, row: &BlockRow) -> Result<()> {
        let whole = row.words as usize;
        match self.words_of_base(row)? {
            Some(words) => self.form(name, row, &words, whole).map(drop),
            None => self.words(name, row, whole).map(drop),
        }
    }

    /// All plain bytes of a block.
    pub(super) fn told(&self, name: BlockName, row: &BlockRow) -> Result<Vec<u8>> {
        let (mut plain, whole) = (vec![0; row.plain as usize], row.words as usize);
        if let Some(words) = self.words_of_base(row)? {
            let known = self.cache().peek::<Vec<u8>>(self.block_key(name, What::Form));
            let form = match known.filter(|form| form.len() == whole) {
                Some(form) => form,
                None => self.rest().form(name, row, words.form())?.into(),
            };
            words.read_other(&form, &row.sections, &mut plain)?;
            return Ok(plain);
        }
        let known = self.cache().peek::<Words>(self.block_key(name, What::Words));
        let words = match known.filter(|words| words.form().len() == whole) {
            Some(words) => words,
            None if self.is_leaned_on(name) => self.words(name, row, whole)?,
            None => Arc::new(Words::parse(self.rest().form(name, row, &[])?)?),
        };
        words.read(&row.sections, &mut plain)?;
        Ok(plain)
    }

    /// Whether the next block has this one as its base: its words will be wanted again then.
    fn is_leaned_on(&self, name: BlockName) -> bool {
        let next = BlockName { slot: name.slot.wrapping_add(1), ..name };
        self.block_row(next).is_ok_and(|next| next.base == Some(name))
    }

    /// The words of a block's base, and its form; `None`: it has no base.
    fn words_of_base(&self, row: &BlockRow) -> Result<Option<Arc<Words>>> {
        let Some((origin, name, base)) = self.base_row(row)? else { return Ok(None) };
        if base.words == 0 {
            return Err(Damage::Undecodable.into());
        }
        origin.watch_base(name, What::Words);
        let words = origin.words(name, &base, base.words as usize);
        words
            .inspect_err(|error| origin.tell(name.segment, name.slot.into(), "block", error))
            .map(Some)
    }

    /// The words of a block that has its own, and its form up to `end` at least.
    fn words(&self, name: BlockName, row: &BlockRow, end: usize) -> Result<Arc<Words>> {
        let load = |known: Option<_>| {
            self.make_room(row.words as usize);
            let read = |len| self.rest().form_head(name, row, &[], len);
            Words::parse(whole_or_head(known.is_some(), end, row.words as usize, read)?)
        };
        let key = self.block_key(name, What::Words);
        self.cache().get(key, |words: &Words| words.form().len() >= end, load)
    }

    /// The form of a block that has these words from its base, up to `end` at least.
    fn form(
        &self,
        name: BlockName,
        row: &BlockRow,
        words: &Words,
        end: usize,
    ) -> Result<Arc<Vec<u8>>> {
        let load = |known: Option<_>| {
            self.make_room(row.words as usize);
            let read = |len| self.rest().form_head(name, row, words.form(), len);
            whole_or_head(known.is_some(), end, row.words as usize, read)
        };
        self.cache().get(self.block_key(name, What::Form), |form: &Vec<u8>| form.len() >= end, load)
    }
}
