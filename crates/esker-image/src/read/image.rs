//! An image, opened: entries found in its layer, bytes found in its blocks.
//!
//! Above: `view` and `verify`. Below: `esker-stone`, its cache between. Invariant: what a lookup answers
//! was checked on its way in, and hangs together: a reference that leads nowhere is damage, never a
//! panic or a wrong answer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use esker::{Attr, Ino, Kind};
use esker_stone::ahead::Streams;
use esker_stone::cache::{Cache, Kept, Key, What, locked};
use esker_stone::key::{self, kind};
use esker_stone::limits::{BLOCK_LEN_MAX, LEVELS_MAX, UNIT_LEN};
use esker_stone::root::{Root, Top};
use esker_stone::rows::blocks::{BlockRow, Blocks, ORIGIN_SEGMENT_MASK};
use esker_stone::rows::extents::{BlockName, Content, Extents, Piece, Place};
use esker_stone::rows::inodes::Inodes;
use esker_stone::rows::names::Names;
use esker_stone::rows::pages::Inner;
use esker_stone::rows::xattrs::Xattrs;
use esker_stone::superblock::DATA;
use esker_stone::tree::{Found, Pages};
use esker_stone::{
    Damage, Error, PageRef, ReadAt, Recipe, Rest, Result, Start, Teller, Unsupported, hash,
};

use super::told::Held;
use super::wanted::{Target, Wanted};

/// Where the bytes of images come from.
pub type Source = Box<dyn ReadAt>;

/// Blocks that are looked at for their bases.
const BASES_LOOK: u32 = 4096;
/// Least bytes that a block is decoded to at a time.
const HEAD_LEN: usize = 256 * 1024;

/// An image, opened.
pub struct Image {
    rest: Arc<Rest<Source>>,
    bases: Arc<[Arc<Image>]>,
    cache: Arc<Cache>,
    number: u64,
    watch: Arc<Watch>,
}

/// What is noticed while an image is read.
#[derive(Default)]
struct Watch {
    /// The block that was used last, and one more; 0: none.
    last: AtomicU64,
    /// The base that was decoded last, and one more; 0: none.
    base: AtomicU64,
    streams: Mutex<Streams>,
    teller: Teller,
}

/// A block as a number that is not 0.
fn mark(name: BlockName) -> u64 {
    name.segment.wrapping_shl(33) ^ (u64::from(name.slot) + 1)
}

/// A page taken apart.
pub(crate) trait Page: Kept + Sized {
    /// From its plain bytes.
    fn decode(plain: &[u8]) -> Result<Self>;
    /// How many rows it has.
    fn rows(&self) -> usize;
}

macro_rules! pages {
    ($($page:ty),*) => {$(
        impl Page for $page {
            fn decode(plain: &[u8]) -> Result<Self> {
                Self::decode(plain)
            }
            fn rows(&self) -> usize {
                self.len()
            }
        }
    )*};
}
pages!(Inodes, Names, Xattrs, Extents, Blocks, Inner);

/// All bytes of something that has `whole`, or its beginning up to `end` at least, read up to where `read` is told.
pub(super) fn whole_or_head(
    known: bool,
    end: usize,
    whole: usize,
    read: impl Fn(usize) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    // Half of it or more, or asked again: then all of it, or a walk through it would decode its beginning again and
    // again.
    if known || end > whole / 2 {
        match read(whole) {
            // What lies before the damage can be read all the same.
            Err(Error::Damaged(_)) if end < whole => {}
            loaded => return loaded,
        }
    }
    read(end.next_multiple_of(HEAD_LEN).min(whole))
}

impl Pages for Image {
    fn inner(&self, page: &PageRef) -> Result<Arc<Inner>> {
        self.page(page, None)
    }
}

/// A stretch of a file with what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where it begins in the file.
    pub start: u64,
    /// Its pieces, each with its length.
    pub pieces: Vec<Piece>,
}

impl Image {
    /// Opens an image. `bases` are those that it names, in their order.
    ///
    /// # Errors
    /// What reading meets; `Unsupported` for a base that is missing or is another one.
    pub fn open(
        source: Source,
        start: Start,
        bases: Vec<Arc<Self>>,
        cache: Arc<Cache>,
    ) -> Result<Self> {
        Self::with(Rest::open(source, start)?, bases, cache)
    }

    /// Of what was opened before.
    ///
    /// # Errors
    /// `Unsupported` for a base that is missing or is another one.
    pub fn with(mut rest: Rest<Source>, bases: Vec<Arc<Self>>, cache: Arc<Cache>) -> Result<Self> {
        for (index, wanted) in rest.root().bases.iter().enumerate() {
            let right = bases.get(index).is_some_and(|base| base.name() == wanted.name);
            if !right {
                return Err(Unsupported::Base(index as u16 + 1).into());
            }
        }
        let number = cache.number();
        rest.use_rooms(Arc::clone(cache.rooms()));
        Ok(Self { rest: Arc::new(rest), bases: bases.into(), cache, number, watch: Arc::default() })
    }

    /// From now on `teller` hears of everything that is damaged, once, here and in the bases.
    pub fn tell_damage(&self, teller: impl Fn(&str) + Clone + Send + Sync + 'static) {
        for base in &*self.bases {
            base.tell_damage(teller.clone());
        }
        self.watch.teller.tell_to(teller);
    }

    /// Tells of damage, once for each place.
    pub(super) fn tell(&self, segment: u64, number: u64, what: &'static str, error: &Error) {
        self.watch.teller.tell(what, segment, number, error);
    }

    /// The same image for a thread that decodes ahead.
    fn handle(&self) -> Self {
        Self {
            rest: Arc::clone(&self.rest),
            bases: Arc::clone(&self.bases),
            cache: Arc::clone(&self.cache),
            number: self.number,
            watch: Arc::clone(&self.watch),
        }
    }

    /// The image's name: the hash that everything in it hangs from.
    #[must_use]
    pub fn name(&self) -> esker_stone::Hash {
        self.rest.superblock().image_name()
    }

    /// The image as it lies there.
    #[must_use]
    pub fn rest(&self) -> &Rest<Source> {
        &self.rest
    }

    /// The root page.
    #[must_use]
    pub fn root(&self) -> &Root {
        self.rest.root()
    }

    /// The cache that it keeps things in.
    #[must_use]
    pub const fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The base images that it was opened with.
    #[must_use]
    pub fn bases(&self) -> &[Arc<Self>] {
        &self.bases
    }

    fn layer(&self) -> &Top {
        &self.root().layer
    }

    fn key(&self, page: &PageRef, what: What) -> Key {
        Key { image: self.number, what, segment: page.segment, number: page.at }
    }

    /// The plain bytes of a page.
    pub(crate) fn plain(&self, page: &PageRef, base: Option<&PageRef>) -> Result<Vec<u8>> {
        let base = match base {
            None => None,
            Some(base) => {
                let load = |_| self.rest.page(base, &[]);
                Some(self.cache.get(self.key(base, What::Plain), |_: &Vec<u8>| true, load)?)
            }
        };
        self.rest.page(page, base.as_deref().map_or(&[], Vec::as_slice))
    }

    pub(crate) fn page<T: Page>(&self, page: &PageRef, base: Option<&PageRef>) -> Result<Arc<T>> {
        let load = |_| {
            let decoded = self.plain(page, base).and_then(|plain| T::decode(&plain));
            decoded.inspect_err(|error| self.tell(page.segment, page.at, "the page at", error))
        };
        self.cache.get(self.key(page, What::Page), |_: &T| true, load)
    }

    /// A leaf, with as many rows as the page above says.
    pub(crate) fn leaf<T: Page>(&self, found: &Found) -> Result<Arc<T>> {
        let leaf: Arc<T> = self.page(&found.page, found.base.as_ref())?;
        if leaf.rows() as u64 == found.entries { Ok(leaf) } else { Err(Damage::Count.into()) }
    }

    /// The leaf of this kind that would hold the key.
    pub(crate) fn leaf_at<T: Page>(&self, key: &[u8]) -> Result<(Found, Arc<T>)> {
        let found = self.layer().leaf_with_key(key, self)?;
        let leaf = self.leaf(&found)?;
        Ok((found, leaf))
    }

    /// The ranks that entries of a kind have in the layer.
    fn section(&self, kind: u8) -> core::ops::Range<u64> {
        let own = &self.root().statistics;
        let names = own.inodes;
        let xattrs = names.saturating_add(own.names);
        let extents = xattrs.saturating_add(own.xattrs);
        match kind {
            kind::INODE => 0..names,
            kind::NAME => names..xattrs,
            kind::XATTR => xattrs..extents,
            _ => extents..self.layer().entries,
        }
    }

    /// The first entry of a kind that is not before `key`: its leaf, and its row there, which `bound` finds.
    pub(crate) fn lower<T: Page>(
        &self,
        kind: u8,
        key: &[u8],
        bound: impl Fn(&T) -> usize,
    ) -> Result<Option<(Found, Arc<T>, usize)>> {
        let section = self.section(kind);
        let mut found = Some(self.layer().leaf_with_key(key, self)?);
        if found.as_ref().is_some_and(|found| found.before < section.start) {
            found = self.layer().leaf_with_rank(section.start, self)?;
        }
        while let Some(at) = found.filter(|found| section.contains(&found.before)) {
            let page = self.leaf::<T>(&at)?;
            let row = bound(&page);
            if row < page.rows() {
                return Ok(Some((at, page, row)));
            }
            found = self.leaf_behind(&at)?;
        }
        Ok(None)
    }

    /// The leaf behind one.
    fn leaf_behind(&self, found: &Found) -> Result<Option<Found>> {
        self.layer().leaf_with_rank(found.before.saturating_add(found.entries), self)
    }

    /// The leaf with the entry of this rank, if that is of this kind.
    pub(crate) fn leaf_of_rank<T: Page>(
        &self,
        kind: u8,
        rank: u64,
    ) -> Result<Option<(Found, Arc<T>)>> {
        if !self.section(kind).contains(&rank) {
            return Ok(None);
        }
        let Some(found) = self.layer().leaf_with_rank(rank, self)? else { return Ok(None) };
        let leaf = self.leaf(&found)?;
        Ok(Some((found, leaf)))
    }

    /// The page that holds an inode, and its row there; `None`: there is no such inode.
    pub(crate) fn inode(&self, ino: Ino) -> Result<Option<(Arc<Inodes>, usize)>> {
        if ino.0 == 0 || ino.0 > self.root().statistics.last_ino {
            return Ok(None);
        }
        let (_, page) = self.leaf_at::<Inodes>(&key::inode(ino))?;
        Ok(page.find(ino).map(|row| (page, row)))
    }

    /// An inode's attributes.
    ///
    /// # Errors
    /// What reading meets.
    pub fn attributes(&self, ino: Ino) -> Result<Option<Attr>> {
        match self.inode(ino)? {
            Some((page, row)) => Ok(Some(page.attr_at(row)?)),
            None => Ok(None),
        }
    }

    /// The stretch of a file that holds byte `at`, which lies before the end. A file that has the content
    /// of another answers with the other's.
    ///
    /// # Errors
    /// What reading meets.
    pub fn stretch(&self, ino: Ino, size: u64, at: u64) -> Result<Stretch> {
        let row = self.extent(ino, at)?;
        let (ino, row) = match row.content {
            Content::Same(other) => {
                let attr = self.attributes(other)?.ok_or(Damage::Reference)?;
                if attr.kind != Kind::File || attr.size != size {
                    return Err(Damage::Reference.into());
                }
                (other, self.extent(other, at)?)
            }
            Content::Pieces(_) => (ino, row),
        };
        let Content::Pieces(mut pieces) = row.content else {
            return Err(Damage::Reference.into());
        };
        let end = match row.len {
            Some(len) => row.start.checked_add(len).filter(|&end| end <= size),
            None => Some(size),
        };
        let room = end.and_then(|end| end.checked_sub(row.start)).ok_or(Damage::Extents)?;
        let known: u64 = pieces.iter().rev().skip(1).map(|piece| piece.len).sum();
        let rest = room.checked_sub(known).filter(|&rest| rest > 0).ok_or(Damage::Extents)?;
        let last = pieces.last_mut().ok_or(Damage::Extents)?;
        last.len = rest;
        // A stretch that ends before the byte would be a gap, and a walk that goes nowhere.
        if at < row.start || at - row.start >= room || row.ino != ino {
            return Err(Damage::Extents.into());
        }
        Ok(Stretch { start: row.start, pieces })
    }

    /// Whether a file's content lies in its inode.
    ///
    /// # Errors
    /// What reading meets.
    pub fn is_inline(&self, ino: Ino) -> Result<bool> {
        Ok(self.inode(ino)?.is_some_and(|(page, row)| !page.inline_at(row).is_empty()))
    }

    /// Where a stretch of a file is stored, piece by piece, if all of that is in blocks of this image.
    ///
    /// # Errors
    /// What reading meets.
    pub fn places(&self, ino: Ino, size: u64, at: u64, len: u64) -> Result<Option<Vec<Piece>>> {
        if self.is_inline(ino)? {
            return Ok(None);
        }
        let (mut found, mut next, end) = (Vec::new(), at, at.saturating_add(len).min(size));
        while next < end {
            let stretch = self.stretch(ino, size, next)?;
            let mut start = stretch.start;
            for piece in stretch.pieces {
                let behind = start + piece.len;
                if next < behind && next < end {
                    let skip = next - start;
                    let part = end.min(behind) - next;
                    let own = |place: &Place| place.block.segment <= ORIGIN_SEGMENT_MASK;
                    let Some(place) = piece.place.filter(own) else { return Ok(None) };
                    let offset = u32::try_from(u64::from(place.offset) + skip);
                    let offset = offset.map_err(|_| Damage::Reference)?;
                    found.push(Piece { len: part, place: Some(Place { offset, ..place }) });
                    next += part;
                }
                start = behind;
            }
        }
        Ok(Some(found))
    }

    fn extent(&self, ino: Ino, at: u64) -> Result<esker_stone::rows::extents::Extent> {
        let (_, page) = self.leaf_at::<Extents>(&key::extent(ino, at))?;
        page.row(page.holding(ino, at).ok_or(Damage::Extents)?)
    }

    /// The image that a block lies in.
    pub(crate) fn origin(&self, name: BlockName) -> Result<&Self> {
        match name.segment >> ORIGIN_SEGMENT_MASK.count_ones() {
            0 => Ok(self),
            origin => {
                let base = usize::try_from(origin - 1).ok().and_then(|n| self.bases.get(n));
                Ok(base.ok_or(Damage::Reference)?)
            }
        }
    }

    /// What is known of a block of this image.
    ///
    /// # Errors
    /// What reading meets.
    pub fn block_row(&self, name: BlockName) -> Result<BlockRow> {
        let segment = name.segment & ORIGIN_SEGMENT_MASK;
        let index = self.root().indexes.iter().find(|(number, _)| *number == segment);
        let (_, top) = index.ok_or(Damage::Reference)?;
        if top.height > LEVELS_MAX {
            return Err(Damage::Tree.into());
        }
        let found = top.leaf_with_key(&key::slot(name.slot), self)?;
        let leaf: Arc<Blocks> = self.leaf(&found)?;
        Ok(leaf.find(name.slot).ok_or(Damage::Reference)?.clone())
    }

    /// What is known of all blocks of this image, in their order.
    ///
    /// # Errors
    /// What reading meets.
    pub fn block_rows(&self) -> Result<Vec<BlockRow>> {
        let Some((segment, top)) = self.root().indexes.first() else { return Ok(Vec::new()) };
        let slots = 0..u32::try_from(top.entries).map_err(|_| Damage::Count)?;
        slots.map(|slot| self.block_row(BlockName { segment: *segment, slot })).collect()
    }

    /// Fills `target` with the plain bytes of a block, from `from` on.
    ///
    /// # Errors
    /// What reading meets.
    pub fn fill(&self, name: BlockName, from: usize, target: &mut [u8]) -> Result<()> {
        self.fill_all(name, &mut [(from, target)])
    }

    /// The same of several stretches of one. What takes long to decode is decoded once.
    fn fill_all(&self, name: BlockName, targets: &mut [Target<'_>]) -> Result<()> {
        let origin = self.origin(name)?;
        let own = BlockName { segment: name.segment & ORIGIN_SEGMENT_MASK, ..name };
        origin.watch(own);
        let filled = origin.fill_own(own, targets);
        filled.inspect_err(|error| origin.tell(own.segment, own.slot.into(), "block", error))
    }

    /// All of these.
    pub(super) fn fill_wanted(&self, wanted: Wanted<'_>) -> Result<()> {
        wanted.blocks().try_for_each(|(block, mut targets)| self.fill_all(block, &mut targets))
    }

    fn fill_own(&self, name: BlockName, targets: &mut [Target<'_>]) -> Result<()> {
        let until = targets.iter().try_fold(0, |most: usize, (from, target)| {
            Some(most.max(from.checked_add(target.len())?))
        });
        let until = until.ok_or(Damage::Reference)?;
        if !self.cache.holds(&self.block_key(name, What::Block)) {
            let row = self.block_row(name)?;
            if row.is_plain() || !row.sections.is_empty() {
                let mut held = None;
                let each = |(from, target): &mut Target<'_>| {
                    self.fill_by_units((name, &row), *from, target, &mut held)
                };
                return targets.iter_mut().try_for_each(each);
            }
        }
        let block = self.load_block(name, until)?;
        for (from, target) in targets {
            let end = *from + target.len();
            target.copy_from_slice(block.get(*from..end).ok_or(Damage::Reference)?);
        }
        Ok(())
    }

    /// The same of a block that is stored as it is, or is told section by section: a few bytes of it need no more than
    /// the unit, or the section, that they are in.
    fn fill_by_units(
        &self,
        (name, row): (BlockName, &BlockRow),
        mut from: usize,
        mut target: &mut [u8],
        held: &mut Held,
    ) -> Result<()> {
        while !target.is_empty() {
            let (unit, at) = (from / UNIT_LEN, from % UNIT_LEN);
            let number = u64::from(name.slot) << 32 | unit as u64;
            let key = Key { number, ..self.block_key(name, What::Unit) };
            let load = |_| match row.words {
                0 => self.rest.unit(name, row, unit),
                _ => self.told_section(name, row, unit, held),
            };
            let bytes = self.cache.get(key, |_: &Vec<u8>| true, load)?;
            let part = bytes.get(at..).filter(|part| !part.is_empty()).ok_or(Damage::Reference)?;
            let (own, rest) = target.split_at_mut(part.len().min(target.len()));
            own.copy_from_slice(&part[..own.len()]);
            from += own.len();
            target = rest;
        }
        Ok(())
    }

    /// A base is wanted, and may not be here yet. Whoever wants two of them will want others: where all of them take
    /// little of the cache, they are decoded meanwhile, or each of them would be waited for by itself.
    pub(super) fn watch_base(&self, name: BlockName, what: What) {
        let Some(readers) = self.cache.readers() else { return };
        if self.cache.holds(&self.block_key(name, what)) {
            return;
        }
        let mark = mark(name);
        let last = self.watch.base.swap(mark, Ordering::Relaxed);
        if last != 0 && last != mark {
            let image = self.handle();
            readers.ask(Box::new(move || image.load_bases()));
        }
    }

    /// Decodes what blocks of this image have as their base, if all of that fits into a quarter of the cache.
    fn load_bases(&self) {
        let (mut bases, mut room) = (BTreeMap::new(), self.cache.limit() / 4);
        for slot in 0..BASES_LOOK {
            let Ok(row) = self.block_row(BlockName { segment: DATA, slot }) else { break };
            let Some(base) = row.base.filter(|base| base.segment == DATA) else { continue };
            if bases.contains_key(&base.slot) {
                continue;
            }
            let Ok(own) = self.block_row(base) else { continue };
            let Some(left) = room.checked_sub(own.plain as usize) else { return };
            room = left;
            bases.insert(base.slot, own);
        }
        for (slot, row) in bases {
            let name = BlockName { segment: DATA, slot };
            let _ = match row.words {
                0 => self.load_block(name, row.plain as usize).map(drop),
                _ => self.load_form(name, &row),
            };
        }
    }

    /// A block is used: those that are likely to be next are decoded meanwhile.
    fn watch(&self, name: BlockName) {
        let Some(readers) = self.cache.readers() else { return };
        let mark = mark(name);
        if self.watch.last.swap(mark, Ordering::Relaxed) == mark {
            return;
        }
        let block_len = self.root().statistics.block_len.max(1);
        // What is decoded ahead takes a quarter of the cache at most.
        let room = self.cache.limit() as u64 / 4 / block_len;
        let window = u32::try_from(room).unwrap_or(u32::MAX).min(readers.count());
        let behind = locked(&self.watch.streams).used(name.segment, name.slot, window);
        for slot in behind {
            let next = BlockName { slot, ..name };
            let image = self.handle();
            readers.ask(Box::new(move || image.load_ahead(next)));
        }
    }

    /// Decodes a block, if there is one. What is wrong with it is told to whoever asks for it.
    fn load_ahead(&self, name: BlockName) {
        let Ok(row) = self.block_row(name) else { return };
        if row.is_plain() {
            // It comes as quickly from the system.
            return;
        }
        let _ = match row.sections[..] {
            [] => self.load_block(name, row.plain as usize).map(drop),
            // Each is told when it is wanted.
            _ => self.load_form(name, &row),
        };
    }

    fn load_block(&self, name: BlockName, end: usize) -> Result<Arc<Vec<u8>>> {
        let key = self.block_key(name, What::Block);
        let load = |known: Option<Arc<Vec<u8>>>| {
            let row = self.block_row(name)?;
            let whole = row.plain as usize;
            self.make_room(whole);
            if end > whole {
                return Err(Damage::Reference.into());
            }
            // These are made as a whole.
            if row.recipe > 0 || row.words > 0 {
                return self.whole(name, &row);
            }
            let base = self.base_of(&row)?;
            let base = base.as_deref().map_or(&[][..], Vec::as_slice);
            let read = |len| self.rest.block_head(name, &row, base, len);
            whole_or_head(known.is_some(), end, whole, read)
        };
        self.cache.get(key, |plain: &Vec<u8>| plain.len() >= end, load)
    }

    /// Something `whole` bytes long is about to be decoded, or its beginning: if it is one of the long ones, those
    /// behind it will find room.
    pub(super) fn make_room(&self, whole: usize) {
        let len = self.root().statistics.block_len.min(BLOCK_LEN_MAX as u64) as usize;
        if whole > len / 5 * 4 {
            self.cache.make_room(len);
        }
    }

    /// All plain bytes of a block, as they are read without a cache.
    pub(crate) fn whole(&self, name: BlockName, row: &BlockRow) -> Result<Vec<u8>> {
        if row.recipe > 0 {
            return self.made(name, row);
        }
        if row.words > 0 {
            return self.told(name, row);
        }
        let base = self.base_of(row)?;
        self.rest.block(name, row, base.as_deref().map_or(&[], Vec::as_slice))
    }

    /// The plain bytes of a block that is made of text in others. They are compared with their hash whenever they are
    /// made: what made them when they were packed may have been another program.
    fn made(&self, name: BlockName, row: &BlockRow) -> Result<Vec<u8>> {
        let recipe = self.rest.recipe(name, row)?;
        let recipe = Recipe::parse(&recipe)?;
        let mut text = vec![0; recipe.text.iter().map(|part| part.len as usize).sum()];
        let (mut wanted, mut rest) = (Wanted::default(), &mut text[..]);
        for part in &recipe.text {
            let (target, behind) = rest.split_at_mut(part.len as usize);
            wanted.add(BlockName { slot: part.slot, ..name }, (part.offset as usize, target));
            rest = behind;
            if wanted.is_full() {
                self.fill_text(name, std::mem::take(&mut wanted))?;
            }
        }
        self.fill_text(name, wanted)?;
        let plain = recipe.make(&text, row.plain as usize)?;
        if row.hash == Some(hash(&plain)) { Ok(plain) } else { Err(Damage::Hash.into()) }
    }

    /// Fills text of a block that is made.
    fn fill_text(&self, name: BlockName, wanted: Wanted<'_>) -> Result<()> {
        for (from, mut targets) in wanted.blocks() {
            // It may have a base, which needs no other block: nothing waits for itself.
            if from.slot >= name.slot || self.block_row(from)?.recipe > 0 {
                return Err(Damage::BaseOfBase.into());
            }
            self.fill_own(from, &mut targets)?;
        }
        Ok(())
    }

    pub(super) fn block_key(&self, name: BlockName, what: What) -> Key {
        Key { image: self.number, what, segment: name.segment, number: name.slot.into() }
    }

    /// The image that a block's base lies in, its name there, and what is known of it.
    pub(super) fn base_row(&self, row: &BlockRow) -> Result<Option<(&Self, BlockName, BlockRow)>> {
        let Some(base) = row.base else { return Ok(None) };
        let origin = self.origin(base)?;
        let own = BlockName { segment: base.segment & ORIGIN_SEGMENT_MASK, ..base };
        let base_row = origin.block_row(own)?;
        if base_row.base.is_some() || base_row.recipe > 0 {
            return Err(Damage::BaseOfBase.into());
        }
        Ok(Some((origin, own, base_row)))
    }

    /// The plain bytes of a block's base.
    pub(crate) fn base_of(&self, row: &BlockRow) -> Result<Option<Arc<Vec<u8>>>> {
        let Some((origin, own, base_row)) = self.base_row(row)? else { return Ok(None) };
        if base_row.words > 0 {
            return Err(Damage::Undecodable.into());
        }
        // It is read for many others: it says nothing about what is next.
        origin.watch_base(own, What::Block);
        let block = origin.load_block(own, base_row.plain as usize);
        block
            .inspect_err(|error| origin.tell(own.segment, own.slot.into(), "block", error))
            .map(Some)
    }
}
