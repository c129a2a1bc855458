//! Showing structures as they lie there, a line each, for whoever wants to know what is on a volume.
//!
//! Above: verbs. Below: everything that is read. Invariant: nothing is changed; what cannot be read is a line too.

use std::cmp::Reverse;

use esker::Ino;
use esker_stone::hex;
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::BlockName;

use crate::base::{is_based, origin};
use crate::delta::Delta;
use crate::device::Device;
use crate::error::{Damage, Error, Result};
use crate::limits::{SUPERBLOCK_STEP, SUPERBLOCKS_MAX};
use crate::log::places_behind;
use crate::merge::rows;
use crate::part::{LOG, MOVED, PartHead};
use crate::recent::END;
use crate::segments::Physical;
use crate::superblock::Superblock;
use crate::volume::Volume;

/// A superblock field by field: numbers as such, hashes and names for machines in hexadecimal.
fn shown(superblock: &Superblock) -> String {
    let bytes = superblock.encode();
    let fields = Superblock::FIELDS
        .iter()
        .filter(|(_, name, _)| !matches!(*name, "magic" | "reserved" | "end"));
    let each = fields.map(|&(at, name, len)| {
        let own = &bytes[at..at + len];
        let value = match name {
            "label" => format!("{:?}", String::from_utf8_lossy(own).trim_end_matches('\0')),
            _ if len > 8 => hex(own),
            _ => own.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)).to_string(),
        };
        format!("{name} {value}")
    });
    each.collect::<Vec<_>>().join(", ")
}

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// All superblocks that are whole.
    Superblocks,
    /// All stretches.
    Segments,
    /// The heads of all parts of all segments.
    Parts,
    /// The rows of the part of a commit: its segment, and its offset there.
    Part(u64, u64),
    /// All tables.
    Tables,
    /// The rows of a table.
    Table(usize),
    /// An inode, and where its content lies.
    Inode(Ino),
    /// What is known of a block.
    Block(BlockName),
    /// What lies at an offset of the device.
    At(u64),
}

impl<D: Device> Volume<D> {
    /// Shows it, a line at a time.
    ///
    /// # Errors
    /// What the device says. What is not there is a line.
    pub fn dump(&self, what: What, each: &mut dyn FnMut(String)) -> Result<()> {
        match what {
            What::Superblocks => self.dump_superblocks(each),
            What::Segments => {
                self.stretches().iter().for_each(|row| each(format!("{row:?}")));
                Ok(())
            }
            What::Parts => self.dump_parts(each),
            What::Part(segment, at) => self.dump_part((segment, at), each),
            What::Tables => {
                for (number, table) in self.state().tables.iter().enumerate() {
                    let page = table.top.page;
                    let key = table.key.escape_ascii();
                    let (segment, at, bytes) = (page.segment, page.at, table.bytes);
                    each(format!(
                        "table {number}: segment {segment}, {at}, {bytes} bytes, from {key}"
                    ));
                }
                for table in &self.state().kept {
                    let page = table.top.page;
                    let key = table.key.escape_ascii();
                    let (segment, at, layer) = (page.segment, page.at, table.layer);
                    each(format!(
                        "kept for the snapshot of commit {layer}: segment {segment}, {at}, \
                         from {key}"
                    ));
                }
                Ok(())
            }
            What::Table(number) => {
                let state = self.state();
                if number >= state.tables.len() {
                    each(format!("there is no table {number}"));
                    return Ok(());
                }
                let mut all = Vec::new();
                self.stack(&state).leaves(number, &mut |leaf| rows(leaf, &mut all))?;
                all.iter().for_each(|row| each(format!("{row:?}")));
                Ok(())
            }
            What::Inode(ino) => self.dump_inode(ino, each),
            What::At(at) => self.dump_at(at, each),
            What::Block(block) => self.dump_block(block, each),
        }
    }

    fn dump_block(&self, block: BlockName, each: &mut dyn FnMut(String)) -> Result<()> {
        let state = self.state();
        let stack = self.stack(&state);
        let row = match stack.block_row(block) {
            Err(Error::Damaged(Damage::Block)) => {
                each(format!("there is no block {} of segment {}", block.slot, block.segment));
                return Ok(());
            }
            row => row?,
        };
        let (segment, at) = stack.whereabouts(block, &row)?;
        let place = self.segments().find(segment).map(|physical| self.place(physical) + at);
        let place = place.map(|place| format!(", {place} of the device")).unwrap_or_default();
        each(format!("{row:?}"));
        each(format!(
            "in segment {segment}, at {at}{place}; {} bytes name it",
            stack.refs(block)?.named()
        ));
        Ok(())
    }

    fn dump_superblocks(&self, each: &mut dyn FnMut(String)) -> Result<()> {
        let steps = SUPERBLOCKS_MAX.min(self.shape.segment_room / SUPERBLOCK_STEP);
        for stretch in 0..self.shape.homes() {
            for step in 0..steps {
                let mut bytes = vec![0; SUPERBLOCK_STEP as usize];
                self.device
                    .read(self.place(Physical(stretch)) + step * SUPERBLOCK_STEP, &mut bytes)?;
                if let Ok(found) = Superblock::parse(&bytes) {
                    each(format!("stretch {stretch}, step {step}: {}", shown(&found)));
                }
            }
        }
        Ok(())
    }

    fn head_at(&self, physical: Physical, at: u64) -> Result<Option<PartHead>> {
        if at + u64::from(self.shape.unit) > self.shape.segment_room {
            return Ok(None);
        }
        let mut bytes = vec![0; self.shape.unit as usize];
        self.device.read(self.place(physical) + at, &mut bytes)?;
        let head = PartHead::parse(&bytes, &self.shape.uuid);
        let left = self.shape.segment_room - at;
        Ok(head.filter(|head| head.at == at && (1..=left).contains(&head.len)))
    }

    /// The part behind one that ends here: right there, or at the next page, and what was left in the gap is of an
    /// earlier life.
    fn head_behind(&self, physical: Physical, end: u64) -> Result<Option<PartHead>> {
        let mut heads = Vec::new();
        for at in places_behind(&self.shape, end) {
            heads.extend(self.head_at(physical, at)?);
        }
        let life = |head: &PartHead| (head.segment, head.sequence, Reverse(head.at));
        Ok(heads.into_iter().max_by_key(life))
    }

    fn dump_parts(&self, each: &mut dyn FnMut(String)) -> Result<()> {
        for row in self.stretches() {
            let mut end = 0;
            while let Some(head) = self.head_behind(row.physical, end)? {
                let at = head.at;
                // What a stretch held in an earlier life may still be there behind what it holds now.
                let now = if head.segment == row.number { "" } else { " (earlier)" };
                let what = match head.kind {
                    LOG => "commit",
                    MOVED => "moved",
                    _ => "tables",
                };
                each(format!(
                    "segment {} at {at}{now}: {what} {}, part {}, {} bytes, {} blocks, {:016x}",
                    head.segment, head.sequence, head.part, head.len, head.slots, head.checksum
                ));
                end = at + head.len;
            }
        }
        Ok(())
    }

    fn dump_part(&self, (segment, at): (u64, u64), each: &mut dyn FnMut(String)) -> Result<()> {
        let Some(physical) = self.segments().find(segment) else {
            each(format!("there is no segment {segment}"));
            return Ok(());
        };
        let Some(head) = self.head_at(physical, at)? else {
            each(format!("no part of segment {segment} begins at {at}"));
            return Ok(());
        };
        each(format!("{head:?}"));
        if matches!(head.kind, LOG | MOVED) {
            each(format!("{:#?}", self.rows_of(physical, &head)?));
        }
        Ok(())
    }

    /// The rows of a part of a commit that lies here.
    fn rows_of(&self, physical: Physical, head: &PartHead) -> Result<Delta> {
        let page = head.rows()?;
        let mut stored = vec![0; page.stored as usize];
        self.device.read(self.place(physical) + page.at, &mut stored)?;
        page.verify(&stored)?;
        let mut delta = Delta::default();
        delta.read(&page.open(&stored, &[])?, head.segment)?;
        Ok(delta)
    }

    fn dump_at(&self, place: u64, each: &mut dyn FnMut(String)) -> Result<()> {
        let (number, inside) = (place / self.shape.segment_len, place % self.shape.segment_len);
        let physical = Physical(u32::try_from(number).unwrap_or(u32::MAX));
        let Some(row) = self.segments().get(physical).copied() else {
            each("past the end of the volume".to_owned());
            return Ok(());
        };
        each(format!("{inside} bytes into {row:?}"));
        if physical.0 < self.shape.homes() {
            let at = inside / SUPERBLOCK_STEP * SUPERBLOCK_STEP;
            let mut bytes = vec![0; SUPERBLOCK_STEP as usize];
            self.device.read(self.place(physical) + at, &mut bytes)?;
            match Superblock::parse(&bytes) {
                Ok(found) => each(shown(&found)),
                Err(_) => each("no superblock".to_owned()),
            }
            return Ok(());
        }
        let mut end = 0;
        while let Some(head) = self.head_behind(physical, end)? {
            end = head.at + head.len;
            if end <= inside {
                continue;
            }
            if head.at > inside {
                break;
            }
            each(format!("{} bytes into {head:?}", inside - head.at));
            if head.kind == LOG {
                let blocks = self.rows_of(physical, &head)?.blocks;
                let here =
                    |row: &BlockRow| (row.at..row.at + u64::from(row.stored)).contains(&inside);
                for (name, row) in blocks.iter().filter(|(_, row)| here(row)) {
                    let (segment, slot) = (name.segment, name.slot);
                    each(format!(
                        "{} bytes into block {slot} of segment {segment}",
                        inside - row.at
                    ));
                    each(format!("{row:?}"));
                }
            }
            return Ok(());
        }
        each("nothing was written here".to_owned());
        Ok(())
    }

    fn dump_inode(&self, ino: Ino, each: &mut dyn FnMut(String)) -> Result<()> {
        let state = self.state();
        let stack = self.stack(&state);
        let Some(row) = stack.inode(ino)? else {
            each(format!("there is no inode {}", ino.0));
            return Ok(());
        };
        each(format!("{row:?}"));
        let mut at = 0;
        while at < row.attr.size.min(END) {
            let run = stack.run(ino, at)?;
            if let Some(place) = run.place {
                let (block, offset) = (place.block, place.offset);
                if is_based(block) {
                    let (ino, from) = origin(place)?;
                    let len = run.len;
                    each(format!("{at}: {len} bytes of inode {} of the base, from {from}", ino.0));
                    at = run.end();
                    continue;
                }
                each(format!(
                    "{at}: {} bytes in block {} of segment {}, from {offset}",
                    run.len, block.slot, block.segment
                ));
            }
            at = run.end();
        }
        Ok(())
    }
}
