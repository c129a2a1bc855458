//! Listing a directory.

use core::ops::ControlFlow;

use super::{Access, Caller, Fs};
use crate::attr::{Attr, Kind};
use crate::error::{Error, Result};
use crate::ids::{Cursor, Ino};
use crate::store::{Flow, Listed, Store, View};

/// An entry as readdir(3) has it, `.` and `..` included.
#[derive(Clone, Copy, Debug)]
pub struct Dirent<'a> {
    /// 1 to 255 bytes.
    pub name: &'a [u8],
    /// Where it leads.
    pub ino: Ino,
    /// To what.
    pub kind: Kind,
    /// Go on from here for what lies behind.
    pub cursor: Cursor,
    /// The attributes, where they were asked for; never with `.` and `..`.
    pub attr: Option<Attr>,
}

impl<S: View> Fs<S> {
    /// Lists what lies behind `after`, oldest entry first, until `each` breaks. A cursor stays good while
    /// others create and remove. With `attrs`, every entry for which `each` went on is held, but `.` and `..`.
    ///
    /// # Errors
    /// `NotDirectory`, `AccessDenied`, `NotFound` for a removed directory.
    pub fn peek_dir(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Dirent<'_>) -> Flow,
    ) -> Result<()> {
        // While entries are to be held their names must not go.
        let _dir = attrs.then(|| self.locks.read(dir));
        let attr = self.directory(dir)?;
        self.may(caller, dir, &attr, Access::READ)?;
        if attr.nlink == 0 {
            return Err(Error::NotFound);
        }
        for (cursor, name, ino) in
            [(Cursor::DOT, &b"."[..], dir), (Cursor::DOT_DOT, b"..", attr.parent)]
        {
            let dot = Dirent { name, ino, kind: Kind::Directory, cursor, attr: None };
            if after < cursor && each(dot).is_break() {
                return Ok(());
            }
        }
        self.store.entries(dir, after.max(Cursor::DOT_DOT), attrs, &mut |listed| {
            self.list_one(listed, each)
        })
    }

    fn list_one(&self, listed: Listed<'_>, each: &mut dyn FnMut(Dirent<'_>) -> Flow) -> Flow {
        let Listed { name, entry, .. } = listed;
        let (name, ino, kind, cursor) = (name.bytes(), entry.ino, entry.kind, entry.seq);
        // Nothing is not copied: it is as long as attributes are.
        let Some(attr) = listed.attr else {
            return each(Dirent { name, ino, kind, cursor, attr: None });
        };
        each(Dirent { name, ino, kind, cursor, attr: Some(attr) })?;
        self.holds.add(ino);
        ControlFlow::Continue(())
    }
}

impl<S: Store> Fs<S> {
    /// readdir(3): as [`Fs::peek_dir`], and moves the directory's atime.
    ///
    /// # Errors
    /// As [`Fs::peek_dir`].
    pub fn readdir(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Dirent<'_>) -> Flow,
    ) -> Result<()> {
        self.peek_dir(caller, dir, after, attrs, each)?;
        if after == Cursor::START {
            let _ = self.touch(dir, &self.getattr(dir)?, self.now());
        }
        Ok(())
    }
}
