//! What one program sees: its descriptors, arguments, environment, and the directories that it was given.
//!
//! Neighbours: the functions of WASI, a group a file, are all methods of it. Invariant: a program reaches nothing in
//! the home but what lies beneath a directory that it was given.

use alloc::sync::Arc;

use esker::posix::{Caller, Fs};
use esker::store::Store;
use esker::{Ino, Kind};

use crate::strings::Strings;
use crate::table::{Descriptor, Table, What};
use crate::{Errno, Result, Rights, World};

pub(crate) const ME: Caller<'static> = Caller::ROOT;

/// One program over one home.
pub struct Context<S: Store, W> {
    pub(crate) fs: Arc<Fs<S>>,
    pub(crate) world: W,
    pub(crate) table: Table,
    pub(crate) args: Strings,
    pub(crate) env: Strings,
    /// Reading moves the time of the last read.
    pub(crate) atime: bool,
}

impl<S: Store, W: World> Context<S, W> {
    /// A program without arguments, environment or directories.
    pub fn new(fs: Arc<Fs<S>>, world: W) -> Self {
        let (args, env) = (Strings::default(), Strings::default());
        Self { fs, world, table: Table::new(), args, env, atime: true }
    }

    /// Adds an argument; the first is the program's name.
    ///
    /// # Errors
    /// `Invalid` with a NUL in it, `TooBig` past 4 GiB.
    pub fn arg(&mut self, word: &[u8]) -> Result {
        self.args.push(&[word])
    }

    /// Adds a variable of the environment.
    ///
    /// # Errors
    /// `Invalid` with a NUL in it, or a `=` in the name; `TooBig` past 4 GiB.
    pub fn env(&mut self, name: &[u8], value: &[u8]) -> Result {
        if name.is_empty() || name.contains(&b'=') {
            return Err(Errno::Invalid);
        }
        self.env.push(&[name, b"=", value])
    }

    /// Gives the program a directory of the home, by its path there, under a name.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`; `Invalid` with a NUL in the name, `TooManyFiles`.
    pub fn give(&mut self, path: &[u8], name: &[u8]) -> Result {
        if name.contains(&0) || u32::try_from(name.len()).is_err() {
            return Err(Errno::Invalid);
        }
        let node = self.fs.walk(&ME, Ino::ROOT, path, true)?;
        if node.attr.kind != Kind::Directory {
            self.fs.forget(node.ino, 1);
            return Err(Errno::NotDirectory);
        }
        let (base, inheriting) = (Rights::DIRECTORY, Rights::ALL);
        let given = Descriptor::new(What::Directory, node.ino, base, inheriting, 0);
        self.add(Descriptor { given: Some(name.into()), ..given }).map(drop)
    }

    /// Reading leaves the time of the last read alone: for a home where that would be kept, and is not wanted.
    pub fn leave_atime(&mut self) {
        self.atime = false;
    }

    /// The file system.
    pub const fn fs(&self) -> &Arc<Fs<S>> {
        &self.fs
    }

    /// What is around the program.
    pub const fn world(&mut self) -> &mut W {
        &mut self.world
    }

    pub(crate) fn add(&mut self, descriptor: Descriptor) -> Result<u32> {
        self.table.add(descriptor).map_err(|(errno, descriptor)| {
            self.let_go(&descriptor);
            errno
        })
    }
}

impl<S: Store, W> Context<S, W> {
    /// Nobody uses what a descriptor led to any more. Space taken ahead goes back if it can.
    pub(crate) fn let_go(&self, descriptor: &Descriptor) {
        let Some(ino) = descriptor.inode() else { return };
        if descriptor.written {
            let _ = self.fs.trim(ino);
        }
        self.fs.forget(ino, 1);
    }
}

/// Everything is closed.
impl<S: Store, W> Drop for Context<S, W> {
    fn drop(&mut self) {
        let mut table = core::mem::replace(&mut self.table, Table::new());
        table.drain().for_each(|descriptor| self.let_go(&descriptor));
    }
}
