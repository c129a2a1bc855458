//! The rows of an image's layer: inodes, names, attributes, and where the bytes of files came to lie.
//!
//! Above: `packer`, at its end. Below: `numbers`, `tree`, `contents`, and the layer of `esker-stone`. Invariant: rows
//! are read from where they are remembered, one by one, and laid down in the order of their keys.

use std::io::Write;

use esker::{Attr, Flags, Ino, Kind};
use esker_stone::layer::LayerWriter;
use esker_stone::limits::PIECES_MAX;
use esker_stone::root::Statistics;
use esker_stone::rows::extents::{Content, Extent};
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;
use esker_stone::rows::xattrs::Xattr;

use super::data::Data;
use super::numbers::{Directory, Numbers};
use super::spool::Spool;
use super::tree::{Held, NodeRow, Tree};
use super::{Error, Result};

/// A layer on its way.
pub(super) struct Laying<'a, W> {
    pub tree: &'a mut Tree,
    pub data: &'a mut Data<W>,
    pub layer: LayerWriter<Spool>,
}

impl<W: Write> Laying<'_, W> {
    /// Lays down everything that has a number, and counts it.
    pub fn lay(&mut self, numbers: &Numbers, statistics: &mut Statistics) -> Result<()> {
        self.inodes(numbers, statistics)?;
        self.names(numbers, statistics)?;
        self.xattrs(numbers, statistics)?;
        self.extents(numbers)
    }

    fn inodes(&mut self, numbers: &Numbers, statistics: &mut Statistics) -> Result<()> {
        statistics.last_ino = numbers.len() as u64;
        let mut directories = numbers.directories().iter();
        for (ino, id) in numbers.nodes() {
            let node = self.tree.node(id)?;
            let inode = match node.kind() {
                Kind::Directory => {
                    let own = directories.next().ok_or(Error::Stopped)?;
                    self.directory(&node, own, numbers.names(own).len())?
                }
                _ => self.inode(&node, ino)?,
            };
            *match inode.attr.kind {
                Kind::File => &mut statistics.files,
                Kind::Directory => &mut statistics.directories,
                Kind::Symlink => &mut statistics.symlinks,
                _ => &mut statistics.specials,
            } += 1;
            statistics.inodes += 1;
            self.layer.inode(inode)?;
        }
        Ok(())
    }

    fn names(&mut self, numbers: &Numbers, statistics: &mut Statistics) -> Result<()> {
        for directory in numbers.directories() {
            for &number in numbers.names(directory) {
                let row = self.tree.name(number)?;
                let (dir, ino, kind) = (directory.ino(), numbers.ino(&row), row.kind());
                let name = self.tree.word(&row)?;
                self.layer.name(Named { dir, name, ino, kind, seq: 0 })?;
                statistics.names += 1;
            }
        }
        Ok(())
    }

    fn xattrs(&mut self, numbers: &Numbers, statistics: &mut Statistics) -> Result<()> {
        if !self.tree.has_xattrs {
            return Ok(());
        }
        for (ino, id) in numbers.nodes() {
            let node = self.tree.node(id)?;
            for (name, value) in self.tree.beside(&node)?.xattrs {
                self.layer.xattr(Xattr { ino, name, value })?;
                statistics.xattrs += 1;
            }
        }
        Ok(())
    }

    /// Files with the same content: the first has it, the others say that they have the same.
    fn extents(&mut self, numbers: &Numbers) -> Result<()> {
        let mut owners = vec![0u32; self.data.contents().len()];
        for (ino, id) in numbers.nodes() {
            let Held::Content(content, _) = self.tree.node(id)?.holds() else { continue };
            let owner = &mut owners[content as usize];
            if *owner != 0 {
                let content = Content::Same(Ino((*owner).into()));
                self.layer.extent(Extent { ino, start: 0, len: None, content })?;
                continue;
            }
            // There are no more nodes than fit.
            *owner = ino.0 as u32;
            let pieces = self.data.pieces(content)?;
            let (mut start, last) = (0, pieces.len().div_ceil(PIECES_MAX));
            for (number, run) in pieces.chunks(PIECES_MAX).enumerate() {
                let len: u64 = run.iter().map(|piece| piece.len).sum();
                let own = (number + 1 < last).then_some(len);
                let content = Content::Pieces(run.to_vec());
                self.layer.extent(Extent { ino, start, len: own, content })?;
                start += len;
            }
        }
        Ok(())
    }

    fn directory(&mut self, node: &NodeRow, own: &Directory, names: usize) -> Result<Inode> {
        let mut attr = self.attr(node)?;
        (attr.size, attr.nlink) = (names as u64, 2 + own.directories);
        attr.parent = own.parent();
        Ok(Inode { ino: own.ino(), attr, inline: Vec::new() })
    }

    /// Anything but a directory.
    fn inode(&mut self, node: &NodeRow, ino: Ino) -> Result<Inode> {
        let (mut attr, mut inline) = (self.attr(node)?, Vec::new());
        match node.holds() {
            Held::Nothing => {}
            Held::Target(at, len) => {
                inline = self.tree.target(at, len)?;
                attr.size = inline.len() as u64;
            }
            Held::Content(content, len) => {
                attr.size = len;
                attr.blocks = self.data.contents().data(content)?.div_ceil(512);
            }
        }
        Ok(Inode { ino, attr, inline })
    }

    fn attr(&mut self, node: &NodeRow) -> Result<Attr> {
        let mtime = node.mtime();
        let [atime, ctime, btime] = self.tree.beside(node)?.times.unwrap_or([mtime; 3]);
        Ok(Attr {
            kind: node.kind(),
            perm: node.perm(),
            uid: node.uid,
            gid: node.gid,
            nlink: node.links,
            rdev: node.rdev,
            flags: Flags(node.flags),
            size: 0,
            blocks: 0,
            // Only that of a directory is stored.
            parent: Ino(0),
            atime,
            mtime,
            ctime,
            btime,
        })
    }
}
