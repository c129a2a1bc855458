//! A `posix::Fs` as a world. What Linux decides before it asks a file system (who follows which symlink, what an
//! open handle allows) is played here, in the order in which Linux does it.
//!
//! Above: [`super::World`]. Below: `esker::posix`, as any program sees it; permissions are its own affair
//! (`checked` is false). Invariant: after [`World::tree`] nothing is held any more.

mod asks;
mod calls;
mod look;
mod open;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use esker::memory::{Base, Home};
use esker::posix::{Caller, Fs};
use esker::store::Store;
use esker::{Cursor, Error, Ino, Kind, Time};

use super::{Outcome, Seen, World};
use crate::model::Model;
use crate::script::generate::SLOTS;
use crate::script::{Op, Step, User};

/// A home that can say whether it is in order.
pub trait Checked: Store {
    /// What is not. Nothing is held from outside.
    fn findings(&self) -> Vec<String>;
}

impl Checked for Model {
    fn findings(&self) -> Vec<String> {
        self.check(0)
    }
}

impl<B: Base> Checked for Home<B> {
    fn findings(&self) -> Vec<String> {
        let mut findings: Vec<_> =
            self.check().iter().map(|finding| format!("{finding:?}")).collect();
        match self.orphans() {
            Ok(orphans) if orphans.is_empty() => {}
            other => findings.push(format!("orphans: {other:?}")),
        }
        findings
    }
}

/// An open file or directory.
#[derive(Clone, Copy)]
struct Handle {
    ino: Ino,
    kind: Kind,
    read: bool,
    write: bool,
    append: bool,
    /// Made with O_TMPFILE and O_EXCL: must not get a name.
    nameless: bool,
    opener: User,
    cursor: Cursor,
}

/// A file system in this process.
pub struct Inside<S> {
    name: String,
    fs: Fs<S>,
    clock: Arc<AtomicI64>,
    slots: [Option<Handle>; SLOTS as usize],
    umasks: [u16; User::ALL.len()],
    hardlinks_protected: bool,
    regular_protected: bool,
    fifos_protected: bool,
}

/// A day in 2023, far from every time that scripts set.
const EPOCH: i64 = 1_700_000_000;

impl<S: Checked> Inside<S> {
    /// A file system over this home, whose root belongs to root.
    pub fn new(name: &str, home: S) -> Self {
        let clock = Arc::new(AtomicI64::new(EPOCH));
        Self::by_clock(name, home, clock)
    }

    fn by_clock(name: &str, home: S, clock: Arc<AtomicI64>) -> Self {
        let ticks = clock.clone();
        let now = move || Time { secs: ticks.load(Ordering::Relaxed), nanos: 7 };
        let protected = |what: &str| {
            let value = std::fs::read_to_string(format!("/proc/sys/fs/protected_{what}"));
            value.is_ok_and(|value| value.trim() != "0")
        };
        Self {
            name: name.to_owned(),
            fs: Fs::new(home, now),
            clock,
            slots: Default::default(),
            umasks: [0o22; User::ALL.len()],
            hardlinks_protected: protected("hardlinks"),
            regular_protected: protected("regular"),
            fifos_protected: protected("fifos"),
        }
    }

    /// The file system itself.
    pub fn fs(&self) -> &Fs<S> {
        &self.fs
    }

    /// The same people at the same time in another home. Nothing is open there.
    pub fn moved<T: Checked>(mut self, name: &str, home: T) -> Inside<T> {
        (0..SLOTS).for_each(|slot| self.close(slot));
        Inside { umasks: self.umasks, ..Inside::by_clock(name, home, self.clock) }
    }

    fn umask(&mut self, user: User) -> &mut u16 {
        let index = User::ALL.iter().position(|&one| one == user).unwrap_or(0);
        &mut self.umasks[index]
    }

    fn slot(&self, slot: u8) -> Result<Handle, Error> {
        self.slots.get(usize::from(slot)).copied().flatten().ok_or(Error::BadHandle)
    }

    /// What a step does that was refused by the home of another world: a slot is let go of before it is filled.
    pub fn refused(&mut self, step: &Step) {
        if let Op::Open { slot, .. } | Op::Tmpfile { slot, .. } = &step.op {
            self.close(*slot);
        }
    }

    fn close(&mut self, slot: u8) {
        if let Some(handle) = self.slots[usize::from(slot)].take() {
            self.fs.forget(handle.ino, 1);
        }
    }
}

fn caller(user: User) -> Caller<'static> {
    let (uid, gid, groups) = user.ids();
    Caller { uid, gid, groups, privileged: user == User::Root, checked: false }
}

impl<S: Checked> World for Inside<S> {
    fn name(&self) -> &str {
        &self.name
    }

    /// One second later.
    fn now(&mut self) -> Time {
        let secs = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        Time { secs, nanos: 0 }
    }

    fn run(&mut self, step: &Step) -> Outcome {
        self.call(step.user, &step.op).map_err(Error::errno)
    }

    fn tree(&mut self) -> Result<Vec<Seen>, String> {
        for slot in 0..SLOTS {
            self.close(slot);
        }
        let seen = look::tree(&self.fs)?;
        match &self.fs.store().findings()[..] {
            [] => Ok(seen),
            findings => Err(findings.join("; ")),
        }
    }
}

/// The root directory of every world: owned by root, open to all, old.
#[must_use]
pub fn root_attr() -> esker::Attr {
    let born = Time { secs: EPOCH, nanos: 0 };
    esker::Attr::new(Kind::Directory, 0o1777, 0, 0, Ino::ROOT, born)
}
