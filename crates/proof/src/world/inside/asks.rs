//! From operation to `posix::Fs`: extended attributes and everything that only looks.
//!
//! Above: [`super::calls`]. Invariant: a listing goes on where its handle stood, whatever has come and gone meanwhile.

use std::ops::ControlFlow;

use esker::posix::{Access, Caller, XattrMode};
use esker::{Error, Kind, Result, XattrName};

use super::{Checked, Inside, caller, look};
use crate::script::{Op, User, XattrHow};
use crate::world::Answer;

impl<S: Checked> Inside<S> {
    pub(super) fn xattr(&mut self, user: User, op: &Op) -> Result<Answer> {
        let caller = &caller(user);
        match op {
            Op::Setxattr { path, name, value, how, follow } => {
                let name = XattrName::parse(&name.0)?;
                let mode = match how {
                    XattrHow::Any => XattrMode::Any,
                    XattrHow::Create => XattrMode::Create,
                    XattrHow::Replace => XattrMode::Replace,
                };
                self.on(caller, &path.0, *follow, |node| {
                    self.fs.setxattr(caller, node.ino, name, &value.bytes(), mode, false)
                })?;
                Ok(Answer::Nothing)
            }
            Op::Getxattr { path, name, follow } => {
                let name = XattrName::parse(&name.0)?;
                let mut value = Vec::new();
                self.on(caller, &path.0, *follow, |node| {
                    self.fs.getxattr(caller, node.ino, name, &mut value)
                })?;
                Ok(Answer::Bytes(value))
            }
            Op::Removexattr { path, name, follow } => {
                let name = XattrName::parse(&name.0)?;
                self.on(caller, &path.0, *follow, |node| {
                    self.fs.removexattr(caller, node.ino, name)
                })?;
                Ok(Answer::Nothing)
            }
            Op::Listxattr { path, follow } => {
                let mut list = Vec::new();
                self.on(caller, &path.0, *follow, |node| {
                    self.fs.listxattr(caller, node.ino, &mut list)
                })?;
                let names = list.split(|&byte| byte == 0).filter(|name| !name.is_empty());
                Ok(Answer::Names(names.map(|name| (name.to_vec(), Kind::File)).collect()))
            }
            _ => Err(Error::NoSuchCall),
        }
    }

    pub(super) fn look(&mut self, user: User, op: &Op) -> Result<Answer> {
        let caller = &caller(user);
        match op {
            Op::List { path } => {
                let how = crate::script::How { read: true, directory: true, ..Default::default() };
                let handle = self.open(user, &path.0, how, 0)?;
                let names = look::names(&self.fs, caller, handle.ino, false);
                self.fs.forget(handle.ino, 1);
                names
            }
            Op::Next { slot, count } => self.next(caller, *slot, *count),
            Op::Stat { path, follow } => self.on(caller, &path.0, *follow, |node| {
                Ok(Answer::Stat(look::stat(&self.fs.getattr(node.ino)?)))
            }),
            Op::Fstat { slot } => {
                Ok(Answer::Stat(look::stat(&self.fs.getattr(self.slot(*slot)?.ino)?)))
            }
            Op::Readlink { path } => self.on(caller, &path.0, false, |node| {
                let mut target = vec![0; esker::limits::SYMLINK_LEN_MAX];
                let len = self.fs.readlink(node.ino, &mut target)?;
                target.truncate(len);
                Ok(Answer::Bytes(target))
            }),
            Op::Access { path, mask } => {
                let access = Access((mask & 7) as u8);
                self.on(caller, &path.0, true, |node| self.fs.access(caller, node.ino, access))?;
                Ok(Answer::Nothing)
            }
            _ => Err(Error::NoSuchCall),
        }
    }

    /// Goes on with a listing where it stood, whatever has come and gone meanwhile.
    fn next(&mut self, caller: &Caller<'_>, slot: u8, count: u64) -> Result<Answer> {
        let mut handle = self.slot(slot)?;
        let mut names = Vec::new();
        self.fs.readdir(caller, handle.ino, handle.cursor, false, &mut |entry| {
            if names.len() as u64 >= count {
                return ControlFlow::Break(());
            }
            handle.cursor = entry.cursor;
            names.push((entry.name.to_vec(), entry.kind));
            ControlFlow::Continue(())
        })?;
        self.slots[usize::from(slot)] = Some(handle);
        Ok(Answer::Names(names))
    }
}
