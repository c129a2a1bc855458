//! Listing a directory.

use core::ops::ControlFlow;

use esker::Cursor;
use esker::posix::Dirent as Entry;
use esker::store::Store;

use crate::context::{Context, ME};
use crate::layouts::{Dirent, filetype};
use crate::{Guest, Result, Rights, World};

/// Copies as much as there is room for; whether that was all.
fn fill(target: &mut [u8], used: &mut usize, source: &[u8]) -> bool {
    let room = &mut target[*used..];
    let len = source.len().min(room.len());
    room[..len].copy_from_slice(&source[..len]);
    *used += len;
    len == source.len()
}

impl<S: Store, W: World> Context<S, W> {
    /// Entries behind the one whose `cookie` this is, from the first with 0; the last one is cut off where the buffer
    /// ends. A cookie stays good while names come and go. How many bytes there were, to `used`: fewer than the buffer
    /// has when there are no more.
    ///
    /// # Errors
    /// `NotDirectory`, `NotCapable`; `NotFound` for a directory that was removed.
    pub fn fd_readdir<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        at: u32,
        len: u32,
        cookie: u64,
        used: u32,
    ) -> Result {
        guest.bytes_mut(used, 4)?;
        let dir = self.table.get(fd)?.directory(Rights::FD_READDIR)?;
        let target = guest.bytes_mut(at, len)?;
        let mut done = 0;
        let each = &mut |entry: Entry<'_>| {
            let head = Dirent {
                next: entry.cursor.0,
                ino: entry.ino.0,
                name_len: entry.name.len() as u32,
                filetype: filetype::of(entry.kind),
                gap: [0; 3],
            };
            let whole =
                fill(target, &mut done, &head.encode()) && fill(target, &mut done, entry.name);
            if whole { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        match self.atime {
            true => self.fs.readdir(&ME, dir, Cursor(cookie), false, each),
            false => self.fs.peek_dir(&ME, dir, Cursor(cookie), false, each),
        }?;
        guest.put_u32(used, done as u32)
    }
}
