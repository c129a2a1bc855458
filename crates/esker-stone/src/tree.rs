//! Trees of pages: built once from their leaves up, searched from their top down.
//!
//! Above: `layer` and homes. Below: `rows::pages`. Invariant: every inner page holds the level and as many
//! entries as the page above says, so no walk down is longer than the height and no count lies.

use std::io::Write;
use std::sync::Arc;
use std::thread;

use crate::codec::Setting;
use crate::error::{Damage, Result};
use crate::group::Measure;
use crate::limits::FAN_OUT;
use crate::page::{PageRef, Sealed};
use crate::root::Top;
use crate::rows::pages::{Child, Inner};
use crate::superblock::ROOTS;

/// A leaf before it is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// What its rows are: pages share bases only with their own kind.
    pub kind: u8,
    /// Not greater than its first key, greater than all keys before.
    pub key: Vec<u8>,
    /// How many rows it has.
    pub entries: u64,
    /// Its plain bytes.
    pub plain: Vec<u8>,
}

/// How pages are written.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    /// The codec of pages.
    pub setting: Setting,
    /// How many threads may compress.
    pub threads: usize,
}

/// Which segments pages are laid down in.
#[derive(Clone, Copy)]
struct Ground {
    leaves: u64,
    inner: u64,
    /// Where the first byte that is built lies in its segment.
    from: u64,
}

impl Ground {
    const fn inner(self, before: &[u8]) -> (u64, u64) {
        (self.inner, self.from + before.len() as u64)
    }
}

impl Writing {
    /// How to choose between forms of columns.
    #[must_use]
    pub fn measure(&self) -> Measure {
        match self.setting.codec {
            crate::codec::Codec::None => Measure::Raw,
            _ => Measure::Packed,
        }
    }

    /// Compresses `leaves` into the end of `target`, which is segment `segment`, and all pages above them into
    /// the end of `roots`, which is `target` too if that is `None`.
    ///
    /// # Errors
    /// What the codec says.
    pub fn build(
        &self,
        leaves: &[Leaf],
        segment: u64,
        target: Option<&mut Vec<u8>>,
        roots: &mut Vec<u8>,
    ) -> Result<Top> {
        let ground = Ground { leaves: segment, inner: ROOTS, from: 0 };
        self.build_on(leaves, ground, target, roots)
    }

    /// Compresses `leaves` and all pages above them into the end of `target`, whose first byte lies at offset `from`
    /// of segment `segment`.
    ///
    /// # Errors
    /// What the codec says.
    pub fn build_in(
        &self,
        leaves: &[Leaf],
        (segment, from): (u64, u64),
        target: &mut Vec<u8>,
    ) -> Result<Top> {
        self.build_on(leaves, Ground { leaves: segment, inner: segment, from }, None, target)
    }

    fn build_on(
        &self,
        leaves: &[Leaf],
        ground: Ground,
        mut target: Option<&mut Vec<u8>>,
        roots: &mut Vec<u8>,
    ) -> Result<Top> {
        let mut children = Vec::with_capacity(leaves.len());
        for table in leaves.chunks(FAN_OUT) {
            let bytes = target.as_deref_mut().unwrap_or(roots);
            let at = bytes.len() as u64;
            self.lay(table, (ground.leaves, ground.from + at), bytes, &mut children)?;
        }
        self.raise(children, ground, roots)
    }

    /// Compresses the leaves of one table into `target`, which is at this place: how many bytes that were.
    fn lay(
        &self,
        table: &[Leaf],
        (segment, from): (u64, u64),
        target: &mut impl Write,
        children: &mut Vec<Child>,
    ) -> Result<u64> {
        let mut at = from;
        for (leaf, (sealed, base)) in table.iter().zip(self.seal(table)?) {
            let page = PageRef::new((segment, at), &sealed);
            target.write_all(&sealed.stored)?;
            at += sealed.stored.len() as u64;
            let base = base.filter(|_| sealed.based);
            let (key, entries) = (leaf.key.clone(), leaf.entries);
            children.push(Child { key, entries, page, base });
        }
        Ok(at - from)
    }

    /// Compresses all pages above these into the end of `roots`.
    fn raise(&self, mut children: Vec<Child>, ground: Ground, roots: &mut Vec<u8>) -> Result<Top> {
        let mut height = 0;
        while children.len() > 1 {
            let mut above = Vec::with_capacity(children.len().div_ceil(FAN_OUT));
            for group in children.chunks(FAN_OUT) {
                let plain = Inner::encode(group, height, self.measure());
                let sealed = Sealed::new(&plain, &[], self.setting)?;
                let page = PageRef::new(ground.inner(roots), &sealed);
                roots.extend_from_slice(&sealed.stored);
                let key = group.first().map(|child| child.key.clone()).unwrap_or_default();
                let entries =
                    group.iter().fold(0, |sum: u64, child| sum.saturating_add(child.entries));
                above.push(Child { key, entries, page, base: None });
            }
            children = above;
            height += 1;
        }
        let top = children.pop().ok_or(Damage::Tree)?;
        Ok(Top { page: top.page, height, entries: top.entries })
    }

    /// The leaves of one table, compressed in parallel, each with the number of the base that it was
    /// offered: the first leaf of its kind in the table.
    fn seal(&self, table: &[Leaf]) -> Result<Vec<(Sealed, Option<u16>)>> {
        let offered = |row: usize| {
            let first = table.iter().position(|leaf| leaf.kind == table[row].kind);
            first.filter(|&first| first < row)
        };
        let seal = |row: usize| -> Result<(Sealed, Option<u16>)> {
            let base = offered(row);
            let bytes = base.map_or(&[][..], |base| &table[base].plain);
            let sealed = Sealed::new(&table[row].plain, bytes, self.setting)?;
            Ok((sealed, base.map(|base| base as u16)))
        };
        let threads = self.threads.clamp(1, table.len().max(1));
        let run = |from: usize| (from..table.len()).step_by(threads).map(seal).collect();
        let parts: Vec<Result<Vec<_>>> = if threads == 1 {
            vec![run(0)]
        } else {
            thread::scope(|scope| {
                let started: Vec<_> =
                    (0..threads).map(|from| scope.spawn(move || run(from))).collect();
                started
                    .into_iter()
                    .map(|one| one.join().unwrap_or(Err(Damage::Tree.into())))
                    .collect()
            })
        };
        let mut parts: Vec<_> =
            parts.into_iter().map(|part| part.map(Vec::into_iter)).collect::<Result<Vec<_>>>()?;
        Ok((0..table.len()).filter_map(|row| parts[row % threads].next()).collect())
    }
}

/// A tree that is built while its leaves come: no more of them wait than make a table.
#[derive(Debug)]
pub(crate) struct Growing<W> {
    writing: Writing,
    segment: u64,
    waiting: Vec<Leaf>,
    children: Vec<Child>,
    /// Where leaves go, and how many bytes of them are there.
    target: W,
    len: u64,
}

impl<W: Write> Growing<W> {
    /// None yet; leaves will be the whole of this segment.
    pub const fn new(writing: Writing, segment: u64, target: W) -> Self {
        Self { writing, segment, waiting: Vec::new(), children: Vec::new(), target, len: 0 }
    }

    /// One more.
    pub fn push(&mut self, leaf: Leaf) -> Result<()> {
        self.waiting.push(leaf);
        if self.waiting.len() < FAN_OUT { Ok(()) } else { self.lay() }
    }

    fn lay(&mut self) -> Result<()> {
        let (table, place) = (std::mem::take(&mut self.waiting), (self.segment, self.len));
        self.len += self.writing.lay(&table, place, &mut self.target, &mut self.children)?;
        Ok(())
    }

    /// The tree, with its pages above the leaves at the end of `roots`; and where the leaves are.
    pub fn finish(mut self, roots: &mut Vec<u8>) -> Result<(Top, W)> {
        self.lay()?;
        let ground = Ground { leaves: self.segment, inner: ROOTS, from: 0 };
        Ok((self.writing.raise(self.children, ground, roots)?, self.target))
    }
}

/// Who loads inner pages.
pub trait Pages {
    /// An inner page.
    ///
    /// # Errors
    /// Whatever reading it meets.
    fn inner(&self, page: &PageRef) -> Result<Arc<Inner>>;
}

/// A leaf that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The leaf.
    pub page: PageRef,
    /// Its base.
    pub base: Option<PageRef>,
    /// How many entries lie before it.
    pub before: u64,
    /// How many it has.
    pub entries: u64,
}

/// What to look for.
#[derive(Clone, Copy, Debug)]
enum Wanted<'a> {
    Key(&'a [u8]),
    Rank(u64),
}

impl Top {
    /// The leaf that would hold `key`.
    ///
    /// # Errors
    /// Whatever reading meets.
    pub fn leaf_with_key(&self, key: &[u8], pages: &impl Pages) -> Result<Found> {
        self.walk(Wanted::Key(key), pages)?.ok_or_else(|| Damage::Tree.into())
    }

    /// The leaf that holds the entry with this rank among all; `None` behind the last.
    ///
    /// # Errors
    /// Whatever reading meets.
    pub fn leaf_with_rank(&self, rank: u64, pages: &impl Pages) -> Result<Option<Found>> {
        if rank >= self.entries {
            return Ok(None);
        }
        self.walk(Wanted::Rank(rank), pages)
    }

    fn walk(&self, mut wanted: Wanted<'_>, pages: &impl Pages) -> Result<Option<Found>> {
        let mut found = Found { page: self.page, base: None, before: 0, entries: self.entries };
        for level in (0..self.height).rev() {
            let inner = pages.inner(&found.page)?;
            if inner.level != level || inner.all_entries() != found.entries {
                return Err(Damage::Tree.into());
            }
            let child = match wanted {
                Wanted::Key(key) => Some(inner.with_key(key)),
                Wanted::Rank(rank) => inner.with_rank(rank),
            };
            let Some(child) = child else { return Ok(None) };
            if let Wanted::Rank(rank) = wanted {
                wanted = Wanted::Rank(rank - inner.before(child));
            }
            let (page, base) = inner.page(child).ok_or(Damage::Tree)?;
            let before = found.before + inner.before(child);
            found = Found { page, base, before, entries: inner.entries(child) };
        }
        Ok(Some(found))
    }
}
