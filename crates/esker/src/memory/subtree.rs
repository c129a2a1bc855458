//! One of the home's trees: the keys of every inode of one group. It exists while it has inodes.
//!
//! Neighbours: `home` locks it, `commit` changes it. Invariant: no inodes, no tree, no bytes.

use alloc::boxed::Box;
use core::array;

use super::base::Sheets;
use super::hints::Hints;
use super::keys;
use crate::error::{Error, Result};
use crate::ground::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::ids::Ino;
use crate::store::Flow;
use crate::tree::{Census, Finger, KeptLeaf, PageId, Spot, Tell, Tree};

/// Records whose leaves are remembered: directories, and as many others.
const LEAVES: usize = 8;

/// A tree made when first needed; in lines of the processor's cache of its own, with its lock, so that those
/// who work in one group do not hinder others.
#[repr(align(128))]
pub(super) struct SubTree<P> {
    tree: Option<Tree<P>>,
    /// Groups that inodes are dealt out over, as a power of two.
    groups_shift: u32,
    /// Inodes that live here.
    pub inodes: u64,
    /// It was changed since time passed last.
    busy: bool,
    /// Where keys of each kind came and went last: mostly they follow each other. None without a tree: a home that few
    /// inodes come to, as one for a single sync, is made in no time.
    fingers: Box<[Finger]>,
    /// Names are looked up where the last one came or went.
    in_order: AtomicBool,
    /// Leaves of the records that are asked for again and again, those of directories, and behind
    /// them of what was asked for last, which may be to change it: each the inode's number, cut to
    /// 32 bits, and the page. Not to be believed without a look.
    leaves: [AtomicU64; 2 * LEAVES],
    /// The same for more of them, and for names.
    hints: Hints,
}

fn fingers() -> Box<[Finger]> {
    (0..keys::KINDS).map(|_| Finger::new()).collect()
}

impl<P: Sheets> SubTree<P> {
    /// No inodes yet; one of so many groups.
    pub(super) fn new(groups: usize) -> Self {
        let leaves = array::from_fn(|_| AtomicU64::new(0));
        Self {
            tree: None,
            groups_shift: groups.trailing_zeros(),
            inodes: 0,
            busy: false,
            fingers: Box::default(),
            in_order: AtomicBool::new(true),
            leaves,
            hints: Hints::new(P::HINTS),
        }
    }

    /// No inodes any more, as if it were new.
    pub(super) fn clear(&mut self) {
        (self.tree, self.inodes, self.busy) = (None, 0, false);
        self.fingers = Box::default();
        *self.in_order.get_mut() = true;
        self.forget_leaves();
    }

    /// A tree that is there already.
    pub(super) fn set_tree(&mut self, tree: Tree<P>) {
        self.tree = Some(tree);
        self.fingers = fingers();
    }

    /// The tree, if there is one.
    pub(super) const fn tree(&self) -> Option<&Tree<P>> {
        self.tree.as_ref()
    }

    /// The tree, whose pages and root may be changed to what they were.
    pub(super) fn tree_mut(&mut self) -> Option<&mut Tree<P>> {
        self.forget_leaves();
        self.tree.as_mut()
    }

    /// Whether there is a key that begins like `key` from there on.
    pub(super) fn get_first(&self, key: &[u8]) -> Result<bool> {
        let mut found = false;
        self.scan(key, |first, _| {
            found = first.starts_with(&key[..key.len().min(9)]);
            Flow::Break(())
        })?;
        Ok(found)
    }

    fn forget_leaves(&mut self) {
        self.hints.forget();
        self.leaves.iter_mut().for_each(|leaf| *leaf.get_mut() = 0);
    }

    /// Where keys of this one's kind came and went last, in the tree that there is.
    #[inline]
    fn finger(&self, key: &[u8]) -> Result<&Finger> {
        self.fingers.get(keys::kind(key)).ok_or(Error::Corrupt)
    }

    fn existing(&mut self) -> Result<&mut Tree<P>> {
        self.tree.as_mut().ok_or(Error::Corrupt)
    }

    /// As the tree's.
    #[inline]
    pub(super) fn get<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.tree.as_ref().map_or(Ok(None), |tree| tree.get(key, f))
    }

    /// An inode's record, and the leaf that it was found in.
    #[inline]
    fn record_in<R>(&self, ino: Ino, f: impl FnOnce(&[u8]) -> R) -> Result<Option<(R, Spot)>> {
        let Some(tree) = &self.tree else { return Ok(None) };
        let key = keys::inode(ino);
        if P::HINTS > 0 {
            self.hinted(tree, &key, f)
        } else {
            tree.get_from(self.leaf(ino), Spot::NONE, &key, f)
        }
    }

    /// A key's value, from the leaf that a hint names if it is there; and the leaf.
    #[inline]
    fn hinted<R>(
        &self,
        tree: &Tree<P>,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<(R, Spot)>> {
        let known = self.hints.get(key);
        let found = tree.get_from(known, self.finger(key)?.gap(), key, f)?;
        if let Some((_, spot)) = &found
            && known != Some(*spot)
        {
            self.hints.note(key, *spot);
        }
        Ok(found)
    }

    /// An inode's record, as the tree has it.
    #[inline]
    pub(super) fn get_record<R>(&self, ino: Ino, f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let Some(tree) = &self.tree else { return Ok(None) };
        let key = keys::inode(ino);
        match P::HINTS {
            0 => tree.get(&key, f),
            _ => Ok(self.hinted(tree, &key, f)?.map(|(found, _)| found)),
        }
    }

    /// Whether a key is there that would follow those of its kind that came last.
    pub(super) fn has(&self, key: &[u8]) -> Result<bool> {
        let Some(tree) = &self.tree else { return Ok(false) };
        let (found, _) = tree.get_at(self.finger(key)?, key, |_| ())?;
        Ok(found.is_some())
    }

    /// An inode's record; `directory` tells from what `f` answers whether it is a directory's.
    #[inline]
    pub(super) fn record<R>(
        &self,
        ino: Ino,
        f: impl FnOnce(&[u8]) -> R,
        directory: impl FnOnce(&R) -> bool,
    ) -> Result<Option<R>> {
        let Some((found, spot)) = self.record_in(ino, f)? else { return Ok(None) };
        if P::HINTS > 0 {
            return Ok(Some(found));
        }
        let known = (ino.0 << 32) | u64::from(spot.leaf.0);
        let place = &self.leaf_places(ino)[usize::from(!directory(&found))];
        if place.load(Relaxed) != known {
            place.store(known, Relaxed);
        }
        Ok(Some(found))
    }

    /// Where an inode's leaf may be remembered: a directory's, and another's.
    #[inline]
    fn leaf_places(&self, ino: Ino) -> [&AtomicU64; 2] {
        let place = (ino.0 >> self.groups_shift) as usize % LEAVES;
        [&self.leaves[place], &self.leaves[LEAVES + place]]
    }

    /// The leaf where the inode's record may be.
    #[inline]
    fn leaf(&self, ino: Ino) -> Option<Spot> {
        let known = self.leaf_places(ino).map(|place| place.load(Relaxed));
        let known = known.into_iter().find(|known| known >> 32 == ino.0 & u64::from(u32::MAX));
        known.map(|known| Spot { leaf: PageId(known as u32), slot: usize::MAX })
    }

    /// Changes a record that must be there.
    pub(super) fn edit_record(&mut self, ino: Ino, f: impl FnOnce(&mut [u8])) -> Result<()> {
        let key = keys::inode(ino);
        let known = if P::HINTS > 0 { self.hints.get(&key) } else { self.leaf(ino) };
        self.existing()?.edit_from(known, &key, f)?.ok_or(Error::Corrupt)
    }

    /// A name's value. Whoever makes or removes names in order asks for each before: the finger
    /// knows, and is asked until it is wrong.
    #[inline]
    pub(super) fn name<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let Some(tree) = &self.tree else { return Ok(None) };
        if !self.in_order.load(Relaxed) {
            return match P::HINTS {
                0 => tree.get(key, f),
                _ => Ok(self.hinted(tree, key, f)?.map(|(found, _)| found)),
            };
        }
        let (found, right) = tree.get_at(self.finger(key)?, key, f)?;
        if !right {
            self.in_order.store(false, Relaxed);
        }
        Ok(found)
    }

    /// As the tree's.
    #[inline]
    pub(super) fn floor<R>(
        &self,
        key: &[u8],
        f: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>> {
        self.tree.as_ref().map_or(Ok(None), |tree| tree.floor(key, f))
    }

    /// As the tree's.
    #[inline]
    pub(super) fn scan(&self, from: &[u8], each: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        self.tree.as_ref().map_or(Ok(()), |tree| tree.scan(from, each))
    }

    /// As the tree's.
    #[inline]
    pub(super) fn scan_numbers(
        &self,
        from: &[u8],
        each: impl FnMut(u64, &[u8]) -> Flow,
    ) -> Result<()> {
        self.tree.as_ref().map_or(Ok(()), |tree| tree.scan_numbers(from, each))
    }

    /// As the tree's.
    pub(super) fn keep_leaf(&self, from: &[u8]) -> Result<Option<KeptLeaf>> {
        self.tree.as_ref().map_or(Ok(None), |tree| tree.keep_leaf(from))
    }

    /// As the tree's; `reserve` comes first.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_or(key, value, false)
    }

    /// The same for a key that must not be there.
    pub(super) fn put_new(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_or(key, value, true)
    }

    fn put_or(&mut self, key: &[u8], value: &[u8], fresh: bool) -> Result<()> {
        let tree = self.tree.as_mut().ok_or(Error::Corrupt)?;
        let finger = self.fingers.get_mut(keys::kind(key)).ok_or(Error::Corrupt)?;
        let right = tree.put_at(finger, key, value, fresh)?;
        // What changed where it was found has its hint.
        let moved = fresh || !right || keys::is_name(key);
        if P::HINTS > 0 && moved && (keys::is_name(key) || keys::is_inode(key)) {
            self.hints.widen();
            self.hints.note(key, finger.spot());
        }
        if right && keys::is_name(key) {
            *self.in_order.get_mut() = true;
        }
        Ok(())
    }

    /// Changes a value that must be there.
    pub(super) fn edit<R>(&mut self, key: &[u8], f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        self.existing()?.edit(key, f)?.ok_or(Error::Corrupt)
    }

    /// Removes a key that must be there.
    pub(super) fn remove(&mut self, key: &[u8]) -> Result<()> {
        let tree = self.tree.as_mut().ok_or(Error::Corrupt)?;
        let finger = self.fingers.get_mut(keys::kind(key)).ok_or(Error::Corrupt)?;
        let right = if P::HINTS > 0 {
            let spot = if keys::is_name(key) { self.hints.get(key) } else { None };
            tree.remove_from(spot, finger, key)?
        } else {
            tree.remove_at(finger, key)?
        };
        if right.ok_or(Error::Corrupt)? && keys::is_name(key) {
            *self.in_order.get_mut() = true;
        }
        Ok(())
    }

    /// As the tree's.
    pub(super) fn remove_range(
        &mut self,
        from: &[u8],
        to: &[u8],
        each: Option<Tell<'_>>,
    ) -> Result<usize> {
        let spot = if keys::is_inode(from) { self.hints.get(from) } else { None };
        let Some(tree) = &mut self.tree else { return Ok(0) };
        let finger = self.fingers.get_mut(keys::kind(from)).ok_or(Error::Corrupt)?;
        tree.remove_range_at(spot, finger, from, to, each)
    }

    /// Makes sure of so many puts; a new tree begins on `fresh` pages. With `overdraft` the budget
    /// does not count.
    pub(super) fn reserve(
        &mut self,
        puts: usize,
        overdraft: bool,
        fresh: impl FnOnce() -> P,
    ) -> Result<()> {
        let tree = match &mut self.tree {
            Some(tree) => tree,
            none => {
                let mut pages = fresh();
                pages.overdraft(overdraft);
                pages.begin()?;
                pages.overdraft(false);
                let tree = Tree::new(pages)?;
                self.fingers = fingers();
                none.insert(tree)
            }
        };
        if overdraft {
            tree.pages_mut().overdraft(true);
        }
        let reserved = tree.reserve_puts(puts);
        if overdraft {
            tree.pages_mut().overdraft(false);
        }
        reserved
    }

    /// Pages that so many puts may take.
    pub(super) fn pages_for(&self, puts: usize) -> usize {
        self.tree.as_ref().map_or(0, |tree| tree.pages_for(puts))
    }

    /// After every change, made or given up: a tree without inodes goes, and pages that were
    /// reserved for more than the next usual change will need.
    pub(super) fn settle(&mut self) {
        if self.inodes == 0 && self.tree.take().is_some() {
            // A new tree may have the old one's shape.
            self.fingers = Box::default();
        }
        self.busy = true;
        let Some(tree) = &mut self.tree else { return };
        let levels = tree.levels();
        if tree.pages_mut().settle(levels) {
            self.forget_leaves();
        }
    }

    /// Time has passed; how many bytes of free pages went back, if nothing has changed meanwhile.
    pub(super) fn tick(&mut self) -> u64 {
        let busy = core::mem::take(&mut self.busy);
        let Some(tree) = self.tree.as_mut().filter(|_| !busy) else { return 0 };
        let before = tree.pages().held();
        tree.pages_mut().rest();
        before.saturating_sub(tree.pages().held())
    }

    /// Bytes of pages held.
    pub(super) fn bytes(&self) -> u64 {
        self.tree.as_ref().map_or(0, |tree| tree.pages().held())
    }

    /// Spoils the only page.
    #[cfg(test)]
    pub(super) fn damage(&mut self) {
        let pages = self.existing().expect("there is a tree").pages_mut();
        let page = (0..).map(PageId).find(|&page| pages.get(page).is_ok());
        let mut page = pages.edit(page.expect("a page is in use")).expect("it is");
        page.part(0..crate::limits::PAGE_SIZE).expect("all of it").fill(0xa5);
    }

    /// Walks everything; nothing where there is no tree.
    pub(super) fn check(&self) -> Result<Option<Census>> {
        self.tree.as_ref().map(Tree::check).transpose()
    }
}
