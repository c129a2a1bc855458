//! A tree out of an image as a cpio archive of the new ASCII kind (`newc`), which the Linux kernel and cpio(1) read.
//!
//! Invariant: of several names of a file the last one has the bytes, as readers of this form expect; every number fits
//! its eight digits, or the thing is refused.

use std::collections::HashMap;
use std::io::{self, Write};

use esker::attr::device_parts;
use esker::store::{Flow, View};
use esker::{Ino, Kind};

use super::{Form, Item, Stop, promised};
use crate::images::{Node, target, walk};

/// Everything is filled up to a multiple of this.
const ALIGN: u64 = 4;
/// And the archive to a multiple of this.
const BLOCK: u64 = 512;

/// Cpio of the kind newc.
pub struct Cpio {
    /// Of files with several names: how many names there are in the archive, and how many were written.
    names: HashMap<Ino, (u32, u32)>,
    /// Their numbers in the archive.
    numbers: HashMap<Ino, u32>,
    last: u32,
    len: u64,
}

impl Cpio {
    /// For what is `wanted` in `start`.
    pub fn new(image: &dyn View, start: &Node, wanted: &dyn Fn(&Node) -> bool) -> Self {
        let mut names: HashMap<Ino, (u32, u32)> = HashMap::new();
        let mut each = |node: &Node| {
            let several = node.attr.nlink > 1 && node.attr.kind != Kind::Directory;
            if several && wanted(node) {
                names.entry(node.ino).or_default().0 += 1;
            }
            Flow::Continue(())
        };
        // What cannot be listed is told when it is written.
        walk(image, start.clone(), &mut each, &mut |_, _| {});
        Self { names, numbers: HashMap::new(), last: 0, len: 0 }
    }

    fn number(&mut self, ino: Ino) -> Result<u32, Stop> {
        if let Some(&number) = self.numbers.get(&ino) {
            return Ok(number);
        }
        self.last = self.last.checked_add(1).ok_or(Stop::Refused("too many for a cpio archive"))?;
        if self.names.contains_key(&ino) {
            self.numbers.insert(ino, self.last);
        }
        Ok(self.last)
    }

    fn bytes(&mut self, bytes: &[u8], output: &mut dyn Write) -> io::Result<()> {
        self.len += bytes.len() as u64;
        output.write_all(bytes)
    }

    fn fill(&mut self, align: u64, output: &mut dyn Write) -> io::Result<()> {
        let rest = (align - self.len % align) % align;
        self.bytes(&[0; BLOCK as usize][..rest as usize], output)
    }

    /// A head: the numbers from c_ino on, but for the length of the name and the sum behind it, of no use here.
    fn head(&mut self, own: [u32; 11], name: &[u8], output: &mut dyn Write) -> io::Result<()> {
        let mut text = String::from("070701");
        let name_len = name.len() as u32 + 1;
        for number in own.into_iter().chain([name_len, 0]) {
            text += &format!("{number:08X}");
        }
        self.bytes(text.as_bytes(), output)?;
        self.bytes(name, output)?;
        self.bytes(&[0], output)?;
        self.fill(ALIGN, output)
    }
}

impl Form for Cpio {
    fn put(&mut self, item: &Item<'_>, output: &mut dyn Write) -> Result<(), Stop> {
        let attr = &item.node.attr;
        let link = match attr.kind {
            Kind::Symlink => target(item.image, item.node)?.into_encoded_bytes(),
            _ => Vec::new(),
        };
        let size = if attr.kind == Kind::File { attr.size } else { link.len() as u64 };
        let size = u32::try_from(size)
            .map_err(|_| Stop::Refused("files in cpio archives are shorter than 4 GiB"))?;
        let number = self.number(item.node.ino)?;
        let (all, nth) = match self.names.get_mut(&item.node.ino) {
            Some((all, written)) => {
                *written += 1;
                (*all, *written)
            }
            None => (if attr.kind == Kind::Directory { attr.nlink } else { 1 }, u32::MAX),
        };
        let own_size = if nth >= all { size } else { 0 };
        let (major, minor) = match attr.kind {
            Kind::CharDevice | Kind::BlockDevice => device_parts(attr.rdev),
            _ => (0, 0),
        };
        let mtime = u32::try_from(attr.mtime.secs.max(0)).unwrap_or(u32::MAX);
        let ids = [number, attr.mode(), attr.uid, attr.gid, all];
        let own = [ids[0], ids[1], ids[2], ids[3], ids[4], mtime, own_size, 0, 0, major, minor];
        self.head(own, item.name, output)?;
        if own_size > 0 && attr.kind == Kind::File {
            promised(item.image, item.node.ino, (0, own_size.into()), output)?;
            self.len += u64::from(own_size);
        } else if own_size > 0 {
            self.bytes(&link, output)?;
        }
        Ok(self.fill(ALIGN, output)?)
    }

    fn end(&mut self, output: &mut dyn Write) -> io::Result<()> {
        self.head([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], b"TRAILER!!!", output)?;
        self.fill(BLOCK, output)
    }
}
