//! Packing what is in an image again: with other attributes, a part of it, in another order, or with its blocks as they
//! are stored.
//!
//! Above: `inputs`, `verbs::repack`. Below: `esker-image`. Invariant: nothing is unpacked to disk; what cannot be read
//! is named and left out.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use esker::Kind;
use esker::store::View;
use esker_image::Image;
use esker_image::pack::{
    Error, Guide, Meta, NodeId, Packer, Waiting, copy_adopted, copy_into, copy_names,
};

use super::inputs::First;
use super::work::{Gathered, Work};
use super::{Bar, Plan};
use crate::failure::{path_shown, shown};
use crate::images::exactly;

/// What an image, or whatever else shows a tree, is packed of and how.
#[derive(Clone, Copy)]
pub struct Again<'a> {
    /// The file that it is in.
    pub file: &'a Path,
    /// What is left out, and which attributes are rewritten.
    pub plan: &'a Plan<'a>,
    /// What is left out besides.
    pub out: &'a HashSet<Vec<u8>>,
}

struct Copier<'a> {
    again: Again<'a>,
    gathered: &'a mut Gathered,
    bar: &'a mut Bar,
}

impl Guide<File> for Copier<'_> {
    fn rewrite(&self, path: &[u8], meta: Meta) -> Option<Meta> {
        let below = path.strip_prefix(b"/").unwrap_or(path);
        let Again { plan, out, .. } = self.again;
        let taken = || plan.rules.take(below, meta.kind == Kind::Directory);
        let wanted = path.is_empty() || !out.contains(below) && taken();
        wanted.then(|| plan.rewrite(meta))
    }

    fn trouble(&mut self, path: &[u8], error: esker::Error) -> bool {
        let file = path_shown(self.again.file);
        self.gathered.troubles.push(format!("{file}:{}: {error}", shown(path)));
        true
    }

    fn tick(&mut self, path: &[u8], bytes: u64, packer: &Packer<File>) {
        if bytes == 0 {
            self.gathered.files += 1;
            self.gathered.slowest.begin(path);
        }
        self.gathered.bytes += bytes;
        self.bar.tick(self.gathered.files, self.gathered.bytes, packer.written());
    }
}

impl Again<'_> {
    /// Packs with a guide.
    fn guided<T>(
        self,
        work: &mut Work,
        pack: impl FnOnce(&mut Packer<File>, &mut Copier<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Work { packer, gathered, bar } = work;
        let done = pack(packer, &mut Copier { again: self, gathered, bar });
        gathered.slowest.end();
        done
    }

    /// All of it, into the directory `top`.
    pub fn all(self, view: &dyn View, top: NodeId, work: &mut Work) -> Result<(), Error> {
        self.guided(work, |packer, guide| copy_into(view, top, packer, guide))
    }

    /// All of an image, whose blocks stay as they are stored.
    pub fn adopted(self, image: &Image, work: &mut Work) -> Result<(), Error> {
        self.guided(work, |packer, guide| copy_adopted(image, packer, guide))
    }

    /// All but the bytes of files.
    pub fn names(self, view: &dyn View, top: NodeId, work: &mut Work) -> Result<Waiting, Error> {
        self.guided(work, |packer, guide| copy_names(view, top, packer, guide))
    }

    /// The bytes of one of these.
    pub fn first(
        self,
        view: &dyn View,
        file: &First,
        waiting: &mut Waiting,
        work: &mut Work,
    ) -> Result<(), Error> {
        // What is damaged was told.
        let Ok((ino, _)) = exactly(view, &file.path) else { return Ok(()) };
        self.guided(work, |packer, guide| waiting.take(ino, file.hot, view, packer, guide))
    }

    /// The bytes of all others.
    pub fn rest(self, view: &dyn View, waiting: Waiting, work: &mut Work) -> Result<(), Error> {
        self.guided(work, |packer, guide| waiting.rest(view, packer, guide))
    }
}
