//! A finger: the leaf where a key was looked for last. Keys that follow each other mostly share
//! one, and then need no way from the root.
//!
//! Above: a home, which keeps one finger for each run of keys that it walks along. Below: node.rs.
//! Invariant: a finger is never believed without proof: that the leaf holds the key, or that the
//! key lies between two of its keys, or behind its last and before the fence that was there when
//! the tree had the shape that it still has.

use super::Tree;
use super::key::KeyBuf;
use super::node::{Node, NodeSlot, Place};
use super::node_mut::NodeMut;
use super::pages::{PageId, Pages};
use super::path::Path;
use super::remove::stays;
use crate::error::{Error, Result};
use crate::ground::short;
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};

/// Who is told the keys and values that go.
pub type Tell<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// A leaf and a slot where a key may be; it is never believed without a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Any page.
    pub leaf: PageId,
    /// Any number.
    pub slot: usize,
}

impl Spot {
    /// Of no key.
    pub const NONE: Self = Self { leaf: PageId(0), slot: usize::MAX };

    /// The slot, if it is in this leaf; or else none that there is.
    #[inline]
    fn slot_in(self, leaf: PageId) -> usize {
        if self.leaf == leaf { self.slot } else { usize::MAX }
    }
}

/// Where a key was. Of one tree only: another's shape may look the same.
#[derive(Clone, Debug)]
pub struct Finger {
    leaf: PageId,
    /// The tree's when the finger was laid; 0 for none's.
    shape: u64,
    /// The least key of the leaf behind,
    fence: KeyBuf,
    /// if there is one.
    fenced: bool,
    /// The tree's `newest` among the keys that came in here.
    newest: Option<(PageId, usize)>,
    /// The slot of the key that was put last, or 0 where that is not known.
    slot: usize,
    /// Where the key was that went last: likely that behind it is there now.
    gone: Spot,
    /// The last removal was elsewhere: the next one will be too.
    missed: bool,
}

impl Finger {
    /// Nowhere yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            leaf: PageId(0),
            shape: 0,
            fence: KeyBuf::new(),
            fenced: false,
            newest: None,
            slot: 0,
            gone: Spot::NONE,
            missed: false,
        }
    }

    /// Where the key that was put last is likely to be.
    #[inline]
    #[must_use]
    pub const fn spot(&self) -> Spot {
        Spot { leaf: self.leaf, slot: self.slot }
    }

    /// Where the key behind the one that went last is likely to be.
    #[inline]
    #[must_use]
    pub const fn gap(&self) -> Spot {
        self.gone
    }
}

impl Default for Finger {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Pages> Tree<P> {
    /// The place of `key` in the finger's leaf, if that is proven to be its leaf.
    #[inline]
    fn point(&self, finger: &Finger, key: &[u8]) -> Result<Option<Place>> {
        if finger.shape != self.shape {
            return Ok(None);
        }
        let bytes = self.pages.get(finger.leaf)?;
        let node = Node::parse(&bytes, 0)?;
        let place = node.find(key)?;
        let proven = match place {
            Ok(_) => true,
            Err(0) => false,
            Err(at) if at < node.count() => true,
            _ => !finger.fenced || short::order(key, &finger.fence).is_lt(),
        };
        Ok(proven.then_some(place))
    }

    /// Lays the finger on the path's leaf.
    fn lay_finger(&self, finger: &mut Finger, path: &Path) -> Result<()> {
        (finger.leaf, finger.shape, finger.fenced) = (path.leaf, self.shape, false);
        for (depth, step) in path.steps().iter().enumerate().rev() {
            let bytes = self.pages.get(step.page)?;
            let node = Node::parse(&bytes, path.level(depth))?;
            if usize::from(step.index) < node.count() {
                node.begin(&mut finger.fence)?;
                node.entry(usize::from(step.index), &mut finger.fence)?;
                finger.fenced = true;
                break;
            }
        }
        Ok(())
    }

    /// As [`get`](Self::get), from the finger if that is right; and whether it was.
    #[inline]
    pub fn get_at<R>(
        &self,
        finger: &Finger,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<(Option<R>, bool)> {
        match self.point(finger, key)? {
            None => Ok((self.get(key, f)?, false)),
            Some(Err(_)) => Ok((None, true)),
            Some(Ok(at)) => {
                let bytes = self.pages.get(finger.leaf)?;
                Ok((Some(f(Node::parse(&bytes, 0)?.value(at)?)), true))
            }
        }
    }

    /// As [`put`](Self::put), and lays the finger there; whether it was right already. With `fresh`, `Corrupt` when the
    /// key is there.
    pub fn put_at(
        &mut self,
        finger: &mut Finger,
        key: &[u8],
        value: &[u8],
        fresh: bool,
    ) -> Result<bool> {
        if key.len() > KEY_LEN_MAX || value.len() > VALUE_LEN_MAX {
            return Err(Error::TooBig);
        }
        self.newest = finger.newest;
        let put = self.put_near(finger, key, value, fresh);
        finger.newest = self.newest;
        put
    }

    fn put_near(
        &mut self,
        finger: &mut Finger,
        key: &[u8],
        value: &[u8],
        fresh: bool,
    ) -> Result<bool> {
        if let Some(place) = self.point(finger, key)? {
            if fresh && place.is_ok() {
                return Err(Error::Corrupt);
            }
            if self.put_in(finger.leaf, place, key, value)? {
                finger.slot = place.unwrap_or_else(|at| at);
                return Ok(true);
            }
        }
        let (mut path, shape) = (Path::at(self.root), self.shape);
        self.find_path(&mut path, key)?;
        let at = self.put_below(&path, key, value, fresh)?;
        finger.slot = if self.shape == shape { at } else { 0 };
        self.follow(finger, &path, shape, key)?;
        Ok(false)
    }

    /// Lays the finger where `key` is after a change: on the path to it from when the tree had
    /// this shape, if it still has.
    fn follow(&self, finger: &mut Finger, path: &Path, shape: u64, key: &[u8]) -> Result<()> {
        if self.shape != shape {
            let mut path = Path::at(self.root);
            self.find_path(&mut path, key)?;
            return self.lay_finger(finger, &path);
        }
        if finger.shape != shape || finger.leaf != path.leaf {
            return self.lay_finger(finger, path);
        }
        Ok(())
    }

    /// Puts an entry into its leaf if that needs no other page.
    fn put_in(&mut self, leaf: PageId, place: Place, key: &[u8], value: &[u8]) -> Result<bool> {
        let mut node = NodeMut::parse(self.pages.edit(leaf)?, 0)?;
        let fits = match place {
            Ok(at) => node.replace(at, value)?,
            Err(at) => node.insert(at, key, value),
        };
        if fits {
            node.save();
            self.newest = place.map_or_else(|at| Some((leaf, at)), |_| self.newest);
        }
        Ok(fits)
    }

    /// As [`remove_at`](Self::remove_at), without the finger, which stays where it is, if a spot that may name any page
    /// is right; without one, if the key follows the one that went last.
    pub fn remove_from(
        &mut self,
        spot: Option<Spot>,
        finger: &mut Finger,
        key: &[u8],
    ) -> Result<Option<bool>> {
        let found = match spot {
            Some(spot) => self.spot_near(spot, finger.gone, key),
            None => self.spot_at(finger.gone, key),
        };
        if let Some(spot) = found
            && self.remove_in(finger, spot)?
        {
            return Ok(Some(false));
        }
        self.remove_at(finger, key)
    }

    /// Removes an entry of a leaf if that stays as it is then.
    fn remove_in(&mut self, finger: &mut Finger, spot: Spot) -> Result<bool> {
        let Spot { leaf, slot: at } = spot;
        let mut node = NodeMut::parse(self.pages.edit(leaf)?, 0)?;
        let (before, less) = (node.used_len(), node.entry_len(at)?);
        let stays = node.count() > 1 && stays(before, before.saturating_sub(less));
        if stays {
            node.remove(at..at + 1)?;
            node.save();
            finger.gone = spot;
        }
        Ok(stays)
    }

    /// As [`remove`](Self::remove), and lays the finger there: whether it was right already, or
    /// nothing if there was no such key.
    pub fn remove_at(&mut self, finger: &mut Finger, key: &[u8]) -> Result<Option<bool>> {
        let place = match finger.missed {
            true => None,
            false => self.point(finger, key)?,
        };
        match place {
            Some(Err(_)) => return Ok(None),
            Some(Ok(slot)) => {
                let spot = Spot { leaf: finger.leaf, slot };
                if self.remove_in(finger, spot)? {
                    return Ok(Some(true));
                }
            }
            None => {}
        }
        let (mut path, shape) = (Path::at(self.root), self.shape);
        self.find_path(&mut path, key)?;
        let removed = self.remove_below(&path, key)?;
        finger.missed = place.is_none() && (finger.leaf, finger.shape) != (path.leaf, shape);
        self.follow(finger, &path, shape, key)?;
        Ok(removed.then_some(place.is_some()))
    }

    /// As [`remove_range`](Self::remove_range), quickly if `from` is in the leaf of the spot or of the finger and what
    /// goes leaves enough of it behind, and more so if nobody is told what goes.
    pub fn remove_range_at(
        &mut self,
        spot: Option<Spot>,
        finger: &mut Finger,
        from: &[u8],
        to: &[u8],
        each: Option<Tell<'_>>,
    ) -> Result<usize> {
        let mut found = spot.and_then(|spot| self.spot_near(spot, finger.gone, from));
        if found.is_none()
            && let Some(Ok(slot)) = self.point(finger, from)?
        {
            found = Some(Spot { leaf: finger.leaf, slot });
        }
        if let Some(Spot { leaf, slot: start }) = found {
            let bytes = self.pages.get(leaf)?;
            let node = Node::parse(&bytes, 0)?;
            // Mostly there is one to go.
            let end = match node.is_before(start + 1, to)? {
                Some(false) => start + 1,
                _ => node.find(to)?.unwrap_or_else(|at| at),
            };
            let before = node.header.used_len();
            let mut left = before;
            for index in start..end {
                left = left.saturating_sub(NodeSlot::SIZE + node.slot(index)?.cell_len());
            }
            if start < end && end < node.count() && stays(before, left) {
                if let Some(each) = each {
                    let mut key = KeyBuf::new();
                    node.begin(&mut key)?;
                    for index in start..end {
                        let value = node.entry(index, &mut key)?;
                        each(&key, value);
                    }
                }
                drop(bytes);
                self.cut(leaf, 0, start..end)?;
                finger.gone = Spot { leaf, slot: start };
                return Ok(end - start);
            }
        }
        let removed = match each {
            Some(each) => self.remove_range(from, to, each)?,
            None => self.remove_range(from, to, |_, _| {})?,
        };
        let mut path = Path::at(self.root);
        self.find_path(&mut path, from)?;
        self.lay_finger(finger, &path)?;
        Ok(removed)
    }

    /// Where a key is, if it is in the leaf of a spot that may name any page; in that leaf another spot is asked too.
    #[inline]
    fn spot_near(&self, Spot { leaf, slot }: Spot, other: Spot, key: &[u8]) -> Option<Spot> {
        let bytes = self.pages.get(leaf).ok()?;
        let guesses = [slot, other.slot_in(leaf)];
        let slot = Node::parse(&bytes, 0).ok()?.find_near(key, guesses).ok()?.ok()?;
        Some(Spot { leaf, slot })
    }

    /// A spot that may name any page, if a key is just there.
    #[inline]
    fn spot_at(&self, spot: Spot, key: &[u8]) -> Option<Spot> {
        let bytes = self.pages.get(spot.leaf).ok()?;
        let found = Node::parse(&bytes, 0).ok()?.find_at(key, [spot.slot]).ok()?;
        found.map(|_| spot)
    }

    /// Where a key is, if it is there. `first` may name any page, or none; it is asked first.
    #[inline]
    fn locate(&self, first: Option<Spot>, key: &[u8]) -> Result<Option<Spot>> {
        if let Some(spot) = first.and_then(|spot| self.spot_near(spot, Spot::NONE, key)) {
            return Ok(Some(spot));
        }
        let leaf = self.leaf(key)?;
        let place = Node::parse(&*self.pages.get(leaf)?, 0)?.find(key)?;
        Ok(place.ok().map(|slot| Spot { leaf, slot }))
    }

    /// As [`get`](Self::get), with the place of the key told too, to be asked `first` the next time. `first` may name
    /// any page, or none; in the same page, `other` is asked too.
    #[inline]
    pub fn get_from<R>(
        &self,
        first: Option<Spot>,
        other: Spot,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<(R, Spot)>> {
        if let Some(Spot { leaf, slot }) = first
            && let Ok(bytes) = self.pages.get(leaf)
            && let Ok(node) = Node::parse(&bytes, 0)
            && let Ok(Ok(slot)) = node.find_near(key, [slot, other.slot_in(leaf)])
        {
            return Ok(Some((f(node.value(slot)?), Spot { leaf, slot })));
        }
        let leaf = self.leaf(key)?;
        let bytes = self.pages.get(leaf)?;
        let node = Node::parse(&bytes, 0)?;
        match node.find_far(key)? {
            Ok(slot) => Ok(Some((f(node.value(slot)?), Spot { leaf, slot }))),
            Err(_) => Ok(None),
        }
    }

    /// As [`edit`](Self::edit); `first` as in [`get_from`](Self::get_from).
    pub fn edit_from<R>(
        &mut self,
        first: Option<Spot>,
        key: &[u8],
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<Option<R>> {
        let Some(Spot { leaf, slot }) = self.locate(first, key)? else { return Ok(None) };
        let value = NodeMut::parse(self.pages.edit(leaf)?, 0)?.into_value(slot)?;
        Ok(Some(f(value)))
    }
}
