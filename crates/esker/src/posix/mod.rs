//! POSIX, once, for every home.
//!
//! Above: doors and programs call [`Fs`]. Below: only [`crate::store`]. Every call reads through a
//! [`View`], decides, and commits at most one bounded batch; the verb is the file.
//! Invariant: a call that changes something holds the locks ([`locks`]) of every inode that it names
//! from its last look until its commit.

mod access;
mod acl;
mod attrs;
mod beneath;
mod caller;
mod create;
mod flags;
mod holds;
mod io;
mod limit;
mod link;
mod list;
mod locks;
mod lookup;
mod remove;
mod rename;
mod space;
mod walk;
mod xattr;

use alloc::boxed::Box;

pub use access::Access;
pub use attrs::{SetAttr, SetTime};
pub use beneath::{Last, Make};
pub use caller::Caller;
pub use create::New;
pub use io::OpenFlags;
pub use list::Dirent;
pub use rename::RenameFlags;
pub use space::Allocate;
pub use xattr::XattrMode;

use crate::attr::{Attr, Kind, Time};
use crate::error::{Error, Result};
use crate::ground::Clock;
use crate::ids::Ino;
use crate::store::{Batch, Change, Store, View};
use holds::Holds;
use locks::Locks;

/// A file system over one home.
///
/// *Holds*: calls that answer with a [`Node`] hold its inode once more on the caller's behalf; [`Fs::forget`]
/// lets go. An inode without names lives until its last hold goes. A kernel's lookup count is
/// such a number of holds, and so is a library's open file.
pub struct Fs<S> {
    store: S,
    clock: Box<dyn Clock + Send + Sync>,
    /// Time stands still.
    still: Option<Time>,
    locks: Locks,
    holds: Holds,
    generation: u64,
}

/// An inode and its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub ino: Ino,
    /// Its attributes.
    pub attr: Attr,
}

impl<S> Fs<S> {
    /// A file system over `store`, which tells the time by `clock`.
    pub fn new(store: S, clock: impl Clock + Send + Sync + 'static) -> Self {
        let born = clock.now();
        let generation = (born.secs.cast_unsigned() << 30) ^ u64::from(born.nanos);
        Self {
            store,
            clock: Box::new(clock),
            still: None,
            locks: Locks::new(),
            holds: Holds::new(),
            generation: generation & 0xffff_ffff,
        }
    }

    /// The home.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The generation of every inode of this instance: inode numbers are never reused within it, and another
    /// instance has another generation.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Runs `f` on the home while nobody else reads or changes the inode: for whoever moves what a home holds from one
    /// of its places to another, which no call may notice.
    pub fn alone<R>(&self, ino: Ino, f: impl FnOnce(&S) -> R) -> R {
        let _inode = self.locks.write(ino);
        f(&self.store)
    }

    /// Runs `f` on the home while no call is under way that reads a file or changes anything: for whoever puts another
    /// state in the place of the one that is there.
    pub fn alone_with_all<R>(&self, f: impl FnOnce(&S) -> R) -> R {
        let _all = self.locks.all();
        f(&self.store)
    }

    /// From now on every call happens at this time; without one, when the clock says. For a program whose time stands
    /// still for a while, and whose clock costs more to look at than a file.
    pub fn stand_still(&mut self, at: Option<Time>) {
        self.still = at;
    }

    /// The time, as the clock tells it unless it stands still.
    #[inline]
    pub fn now(&self) -> Time {
        match self.still {
            Some(time) => time,
            None => {
                // Taken apart, or else the other one would be copied to where this one comes.
                let Time { secs, nanos } = self.clock.now();
                Time { secs, nanos }
            }
        }
    }
}

impl<S: View> Fs<S> {
    /// The attributes of a directory that names can be looked up in.
    fn directory(&self, dir: Ino) -> Result<Attr> {
        let found = self.store.attr(dir);
        // Not taken out: to move it costs more than to look at it.
        match &found {
            Ok(attr) if attr.kind != Kind::Directory => Err(Error::NotDirectory),
            _ => found,
        }
    }
}

impl<S: Store> Fs<S> {
    /// One name fewer leads to `node`: it goes with the last one, unless it is held.
    fn drop_name<'a>(&self, batch: &mut Batch<'a>, node: &Node, now: Time) {
        let names =
            if node.attr.kind == Kind::Directory { 0 } else { node.attr.nlink.saturating_sub(1) };
        if names == 0 && !self.holds.mark_orphan(node.ino) {
            batch.push(Change::Drop { ino: node.ino });
        } else {
            let attr = Attr { nlink: names, ctime: now, ..node.attr };
            batch.push(Change::Set { ino: node.ino, attr });
        }
    }

    /// Commits a change of one inode's attributes alone.
    fn set(&self, ino: Ino, attr: Attr) -> Result<()> {
        let mut batch = Batch::new();
        batch.push(Change::Set { ino, attr });
        self.store.commit(&batch)
    }
}
