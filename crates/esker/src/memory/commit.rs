//! Carrying out a plan, whole or not at all.
//!
//! 1. plan: claim space, work out every key that changes (`plan` and its verbs);
//! 2. move bytes to hidden places, without a lock;
//! 3. lock the sub-trees in order and reserve their pages: the last thing that can fail;
//! 4. move bytes that readers can see (before 3 when nothing needs to be reserved);
//! 5. apply, unlock, let go of space that was given up.
//!
//! Neighbours: `space` takes back what a plan claimed or drops. Invariant: an error before step 4
//! leaves no trace, and one behind it breaks the home for good: it answers reads, and `Io` to
//! changes.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use super::base::{Base, Sheets};
use super::extents::{self, Extent, Step};
use super::few::{Few, Row};
use super::free::Runs;
use super::home::Home;
use super::keys::{self, Rest};
use super::plan::{Job, Ledger, Move, Plan, Staged, StagedName, StagedXattr, ceil};
use super::record::{self, Record};
use super::subtree::SubTree;
use crate::attr::Kind;
use crate::error::{Error, Result};
use crate::ground::Memory;
use crate::ground::sync::WriteGuard;
use crate::ids::Ino;
use crate::limits::{GRANULE, XATTR_PIECE_LEN};
use crate::store::{Batch, Change, Entry};
use crate::tree::Tell;

/// Bytes copied at once.
const COPY_LEN: u64 = 64 << 10;
/// How far changes that take as much as they give (a rename) may overdraw the budget, in bytes.
const OVERDRAFT_MAX: u64 = 1 << 20;

/// The sub-trees that a plan changes in rising order, each with how many puts it needs.
#[derive(Default)]
struct Targets {
    groups: Few<(usize, usize), 4>,
    total: usize,
}

impl Targets {
    fn new<B: Base>(plan: &Plan<'_, '_, B>) -> Self {
        let mut targets = Self::default();
        for staged in plan.inodes.iter().filter(|staged| staged.stored || !staged.dropped) {
            let mut puts = usize::from(staged.inline_changed);
            if !staged.window.untouched() {
                let steps = staged.window.difference();
                puts += steps.filter(|step| matches!(step, Step::Put(_))).count();
            }
            puts += usize::from(B::LASTING && staged.becomes_orphan());
            targets.add::<B>(staged.ino, if staged.dropped { 0 } else { puts });
        }
        for name in plan.names.iter() {
            targets.add::<B>(name.dir, if name.now.is_some() { 2 } else { 0 });
        }
        for xattr in &plan.xattrs {
            let pieces = xattr.value.map_or(0, |value| value.len() / XATTR_PIECE_LEN + 1);
            targets.add::<B>(xattr.ino, pieces);
        }
        if B::GROUPS > 1 {
            targets.groups.sort_unstable();
        }
        targets
    }

    fn add<B: Base>(&mut self, ino: Ino, puts: usize) {
        let group = keys::group(ino, B::GROUPS);
        self.total += puts;
        match self.groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, known)) => *known += puts,
            None => self.groups.push((group, puts)),
        }
    }
}

/// The sub-trees of a commit, locked in order.
struct Locked<'h, P: Sheets> {
    trees: Row<(usize, WriteGuard<'h, SubTree<P>>), 4>,
    groups: usize,
}

impl<P: Sheets> Locked<'_, P> {
    fn of(&mut self, ino: Ino) -> Result<&mut SubTree<P>> {
        let group = keys::group(ino, self.groups);
        let found = self.trees.iter_mut().find(|(locked, _)| *locked == group);
        found.map(|(_, tree)| &mut **tree).ok_or(Error::Corrupt)
    }
}

impl<P: Sheets> Drop for Locked<'_, P> {
    fn drop(&mut self) {
        self.trees.iter_mut().for_each(|(_, tree)| tree.settle());
    }
}

/// A commit on its way. Whoever does not take it off leaves a broken home behind.
struct Underway<'h, B: Base> {
    home: &'h Home<B>,
    /// Whether what came so far can be given up without a trace.
    whole: bool,
}

impl<B: Base> Drop for Underway<'_, B> {
    fn drop(&mut self) {
        if !self.whole {
            self.home.broken.store(true, Ordering::Release);
        }
    }
}

impl<B: Base> Home<B> {
    pub(super) fn apply(&self, batch: &Batch<'_>) -> Result<()> {
        self.drop_left_behind()?;
        self.carry(self.may_overdraw(batch), |plan| {
            batch.changes().try_for_each(|change| plan.add(change))
        })
    }

    /// Lets go of what was claimed ahead of a file's writes.
    pub(super) fn give_back(&self, ino: Ino) -> Result<()> {
        if B::LASTING && !self.reaches_past_end(ino)? {
            return Ok(());
        }
        self.carry(true, |plan| plan.trim(ino))
    }

    /// Whether the file has space behind its end.
    fn reaches_past_end(&self, ino: Ino) -> Result<bool> {
        let (own, size) = self.record(ino, |record| (record.own, record.size))?;
        Ok(own > 0 && extents::reaches(&self.tree(ino), ino, ceil(size))?)
    }

    /// Works out a plan and carries it out, or gives it up.
    fn carry<'a>(
        &self,
        overdraft: bool,
        work_out: impl FnOnce(&mut Plan<'_, 'a, B>) -> Result<()>,
    ) -> Result<()> {
        if self.broken.load(Ordering::Acquire) {
            return Err(Error::Io);
        }
        let mut underway = Underway { home: self, whole: true };
        let mut turn = B::begin(self)?;
        underway.whole = false;
        let mut plan = Plan::new(self, overdraft);
        let planned = work_out(&mut plan);
        let mut point_of_no_return = false;
        let done = planned
            .and_then(|()| plan.carry_out(&mut point_of_no_return))
            .and_then(|()| self.wind_up(&plan, &mut point_of_no_return, &mut turn));
        if let Err(error) = done {
            // What is in the memory itself can be had again from there, whatever was changed here.
            let undone = !B::LASTING && point_of_no_return
                || B::give_up(self, &plan.ledger, &mut turn).is_ok();
            if point_of_no_return || !undone {
                return Err(Error::Io);
            }
            underway.whole = true;
            return Err(error);
        }
        underway.whole = true;
        Ok(())
    }

    /// Gives a file without content its first bytes, within its record, as a batch would that writes them and leaves
    /// its other attributes alone; `false`, and nothing has happened, in a home that is broken.
    pub(super) fn fill(
        &self,
        ino: Ino,
        record: &Record,
        content: &[u8],
        turn: &mut B::Turn<'_>,
    ) -> Result<bool> {
        if self.broken.load(Ordering::Acquire) {
            return Ok(false);
        }
        let mut underway = Underway { home: self, whole: false };
        if let Err(error) = self.put_content(ino, record, content) {
            underway.whole = B::give_up(self, &Ledger::default(), turn).is_ok();
            return Err(if underway.whole { error } else { Error::Io });
        }
        B::touched(self, turn, ino, Some(record));
        if B::finish(self, turn).is_err() {
            let _ = B::give_up(self, &Ledger::default(), turn);
            return Err(Error::Io);
        }
        underway.whole = true;
        Ok(true)
    }

    fn put_content(&self, ino: Ino, record: &Record, content: &[u8]) -> Result<()> {
        let mut value = Vec::with_capacity(Record::SIZE + content.len());
        value.extend_from_slice(&record.encode());
        value.extend_from_slice(content);
        let mut tree = self.trees[keys::group(ino, B::GROUPS)].write();
        let put = (self.space.provide(tree.pages_for(1), false))
            .and_then(|()| tree.reserve(1, false, || self.space.base.pages(&self.budget)))
            .and_then(|()| tree.put(&keys::inode(ino), &value));
        tree.settle();
        drop(tree);
        put.and_then(|()| self.space.settle())
    }

    /// After everything was applied.
    fn wind_up(
        &self,
        plan: &Plan<'_, '_, B>,
        point_of_no_return: &mut bool,
        turn: &mut B::Turn<'_>,
    ) -> Result<()> {
        self.space.let_go(&plan.ledger.drops)?;
        if B::LASTING {
            for staged in plan.inodes.iter() {
                let left = (!staged.dropped).then_some(&staged.record);
                B::touched(self, turn, staged.ino, left);
            }
            let directory = |entry: &Option<Entry>| {
                entry.as_ref().is_some_and(|entry| entry.kind == Kind::Directory)
            };
            for name in plan.names.iter().filter(|name| directory(&name.stored)) {
                B::renamed(self, name.dir, name.name.bytes());
            }
            self.space.settle()?;
            *point_of_no_return = true;
        }
        B::finish(self, turn)
    }

    /// A full home can still be emptied, and names can be moved in it.
    fn may_overdraw(&self, batch: &Batch<'_>) -> bool {
        let (mut shrinks, mut links, mut unlinks) = (true, 0, 0);
        for change in batch.changes() {
            match change {
                Change::Link { .. } => links += 1,
                Change::Unlink { .. } => unlinks += 1,
                Change::Set { .. } | Change::Drop { .. } => {}
                Change::Cut { .. } | Change::Punch { .. } | Change::Xattr { value: None, .. } => {}
                _ => shrinks = false,
            }
        }
        let little = || self.budget.used() < self.budget.total().saturating_add(OVERDRAFT_MAX);
        shrinks && (links == 0 || (links <= unlinks && little()))
    }
}

impl<'h, B: Base> Plan<'h, '_, B> {
    fn carry_out(&mut self, point_of_no_return: &mut bool) -> Result<()> {
        let jobs = &self.jobs;
        let visible = jobs.iter().position(|job| job.visible).unwrap_or(jobs.len());
        let rest = || jobs.iter().skip(visible);
        self.run(jobs.iter().take(visible))?;
        let targets = Targets::new(self);
        let early = targets.total == 0;
        if early && visible < jobs.len() {
            *point_of_no_return = true;
            self.run(rest())?;
        }
        let overdraft = self.overdraft || self.only_fills();
        let mut locked = Self::lock(self.home, &targets, overdraft)?;
        *point_of_no_return |= !B::LASTING || visible < jobs.len();
        if !early {
            self.run(rest())?;
        }
        let mut drops = core::mem::take(&mut self.ledger.drops);
        for staged in self.inodes.iter().filter(|staged| staged.stored || !staged.dropped) {
            apply_inode(self.home, locked.of(staged.ino)?, staged, &mut drops)?;
        }
        self.ledger.drops = drops;
        let lives = |ino| self.inodes.iter().any(|staged| staged.ino == ino && !staged.dropped);
        for name in self.names.iter().filter(|name| lives(name.dir)) {
            apply_name(locked.of(name.dir)?, name)?;
        }
        for xattr in self.xattrs.iter().filter(|xattr| lives(xattr.ino)) {
            apply_xattr(locked.of(xattr.ino)?, xattr)?;
        }
        Ok(())
    }

    /// Locks the sub-trees in order and makes sure of their pages.
    fn lock(home: &'h Home<B>, targets: &Targets, overdraft: bool) -> Result<Locked<'h, B::Pages>> {
        let mut locked = Locked { trees: Row::new(), groups: B::GROUPS };
        for &(group, _) in &*targets.groups {
            locked.trees.push((group, home.trees[group].write()));
        }
        for ((_, tree), &(_, puts)) in locked.trees.iter_mut().zip(&*targets.groups) {
            if puts > 0 {
                home.space.provide(tree.pages_for(puts), overdraft)?;
                tree.reserve(puts, overdraft, || home.space.base.pages(&home.budget))?;
            }
        }
        Ok(locked)
    }

    fn run<'j>(&self, jobs: impl Iterator<Item = &'j Job<'j>>) -> Result<()> {
        const ZEROS: [u8; GRANULE as usize] = [0; GRANULE as usize];
        let memory = self.home.memory();
        let mut buffer = Vec::new();
        for job in jobs {
            match &job.bytes {
                Move::Fill { to, source } => memory.write(*to, source)?,
                Move::FillOwn { to, source } => memory.write(*to, source)?,
                Move::Zero { to, len } => memory.write(*to, &ZEROS[..*len as usize])?,
                Move::Copy { from, to, len } => {
                    let mut done = 0;
                    while done < *len {
                        let part = (len - done).min(COPY_LEN);
                        buffer.resize(part as usize, 0);
                        memory.read(from + done, &mut buffer)?;
                        memory.write(to + done, &buffer)?;
                        done += part;
                    }
                }
            }
        }
        Ok(())
    }
}

fn apply_inode<B: Base>(
    home: &Home<B>,
    tree: &mut SubTree<B::Pages>,
    staged: &Staged,
    drops: &mut Runs,
) -> Result<()> {
    let ino = staged.ino;
    let mut failed = Ok(());
    let mut collect = |key: &[u8], value: &[u8]| {
        if let (true, Some((_, Rest::Extent(start)))) = (staged.window.wiped, keys::parse(key)) {
            match Extent::decode(start, value) {
                Ok(extent) => drops.push(extent.run()),
                Err(error) => failed = Err(error),
            }
        }
    };
    if staged.dropped {
        // The record is the first of its keys.
        let behind = keys::first(Ino(ino.0.saturating_add(1)));
        let each = staged.window.wiped.then_some(&mut collect as Tell<'_>);
        tree.remove_range(&keys::inode(ino), &behind, each)?;
        if B::LASTING && staged.orphan {
            tree.remove(&keys::orphan(ino))?;
        }
        tree.inodes = tree.inodes.saturating_sub(1);
        home.count_out(staged.ino);
        return failed;
    }
    if staged.window.wiped {
        tree.remove_range(&keys::extent(ino, 0), &keys::extents_end(ino), Some(&mut collect))?;
        failed?;
    }
    for step in staged.window.difference() {
        match step {
            Step::Remove(start) => tree.remove(&keys::extent(ino, start))?,
            Step::Put(extent) => tree.put(&keys::extent(ino, extent.start), &extent.encode())?,
            Step::Edit(extent) => {
                let key = keys::extent(ino, extent.start);
                tree.edit(&key, |value| overwrite(value, &extent.encode()))??;
            }
        }
    }
    apply_record(tree, staged)?;
    if B::LASTING {
        match (staged.orphan, staged.record.nlink == 0) {
            (false, true) => tree.put(&keys::orphan(ino), &[])?,
            (true, false) => tree.remove(&keys::orphan(ino))?,
            _ => {}
        }
    }
    if !staged.stored {
        tree.inodes += 1;
        home.count_in(staged.ino);
    }
    Ok(())
}

fn apply_record<P: Sheets>(tree: &mut SubTree<P>, staged: &Staged) -> Result<()> {
    let key = keys::inode(staged.ino);
    if !staged.inline_changed || staged.inline.is_none() {
        return match staged.changed {
            true => tree.edit_record(staged.ino, |value| staged.record.change(value)),
            false => Ok(()),
        };
    }
    let head = staged.record.encode();
    let mut put = |value: &[u8]| match staged.stored {
        true => tree.put(&key, value),
        false => tree.put_new(&key, value),
    };
    match &staged.inline {
        Some(content) if !content.is_empty() => {
            let mut value = Vec::with_capacity(head.len() + content.len());
            value.extend_from_slice(&head);
            value.extend_from_slice(content);
            put(&value)
        }
        _ => put(&head),
    }
}

fn apply_name<P: Sheets>(tree: &mut SubTree<P>, staged: &StagedName<'_>) -> Result<()> {
    keys::with_name(staged.dir, staged.name.bytes(), |key| apply_key(tree, staged, key))
}

fn apply_key<P: Sheets>(tree: &mut SubTree<P>, staged: &StagedName<'_>, key: &[u8]) -> Result<()> {
    let (dir, name) = (staged.dir, staged.name.bytes());
    let stays = staged.stored.map(|entry| entry.seq) == staged.now.map(|entry| entry.seq);
    if let Some(stored) = staged.stored
        && !stays
    {
        tree.remove(&keys::seq(dir, stored.seq))?;
    }
    let Some(now) = staged.now else {
        return if staged.stored.is_some() { tree.remove(key) } else { Ok(()) };
    };
    let value = record::name_value(&now);
    let head = record::seq_value(&now);
    match staged.stored {
        Some(_) => tree.edit(key, |stored| overwrite(stored, &value))??,
        None => tree.put(key, &value)?,
    }
    if stays {
        let edit =
            |stored: &mut [u8]| overwrite(stored.get_mut(..head.len()).unwrap_or_default(), &head);
        return tree.edit(&keys::seq(dir, now.seq), edit)?;
    }
    record::with_listed(&now, name, |value| tree.put(&keys::seq(dir, now.seq), value))
}

/// Writes a value over one that is as long; one that is not was never ours.
fn overwrite(stored: &mut [u8], value: &[u8]) -> Result<()> {
    if stored.len() != value.len() {
        return Err(Error::Corrupt);
    }
    stored.copy_from_slice(value);
    Ok(())
}

fn apply_xattr<P: Sheets>(tree: &mut SubTree<P>, staged: &StagedXattr<'_>) -> Result<()> {
    let (ino, name) = (staged.ino, staged.name.bytes());
    let mut pieces = 0;
    if let Some(value) = staged.value {
        for piece in value.chunks(XATTR_PIECE_LEN) {
            tree.put(&keys::xattr(ino, name, pieces), piece)?;
            pieces += 1;
        }
        if value.is_empty() {
            tree.put(&keys::xattr(ino, name, 0), &[])?;
            pieces = 1;
        }
    }
    let (from, to) = (keys::xattr(ino, name, pieces), keys::xattr(ino, name, u16::from(u8::MAX)));
    tree.remove_range(&from, &to, None)?;
    Ok(())
}
