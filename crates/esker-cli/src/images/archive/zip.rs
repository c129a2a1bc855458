//! A tree out of an image as a zip archive, with deflate, owners and permissions of Unix, and ZIP64 where it is needed.
//!
//! Invariant: the output is never gone back in, so it may be a pipe: lengths and sum follow the bytes of a file.

use std::io::{self, Write};

use esker::{Attr, Kind};
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::{Form, Item, Stop, promised};
use crate::images::{date, target};

/// Lengths in front of a file's bytes have 32 bits or 64; deflate makes nothing longer by more than this margin.
const LARGE: u64 = 0xf000_0000;
/// This, and the true number is in the ZIP64 field.
const ELSEWHERE: u32 = u32::MAX;
const SUM_FOLLOWS: u16 = 1 << 3;
const UTF8: u16 = 1 << 11;
const DEFLATED: u16 = 8;
/// Made by version 4.5 on Unix.
const MADE_BY: u16 = 3 << 8 | 45;

/// What stands in the directory at the end of the archive.
struct Entry {
    name: Vec<u8>,
    extra: Vec<u8>,
    flags: u16,
    method: u16,
    dos: [u16; 2],
    crc: u32,
    lens: [u64; 2],
    mode: u32,
    at: u64,
}

/// Zip.
#[derive(Default)]
pub struct Zip {
    entries: Vec<Entry>,
    len: u64,
}

/// Counts what goes through.
struct Counting<'a> {
    output: &'a mut dyn Write,
    count: u64,
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.output.write(bytes)?;
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Sums what goes through.
struct Summing<W> {
    output: W,
    crc: Crc,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.output.write(bytes)?;
        self.crc.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Numbers, the lowest byte first.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn shorts(mut self, numbers: &[u16]) -> Self {
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self
    }

    fn words(mut self, numbers: &[u32]) -> Self {
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self
    }

    fn longs(mut self, numbers: &[u64]) -> Self {
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self
    }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(ELSEWHERE)
}

/// Time and date as DOS has them, from 1980 to 2107, two seconds exact.
fn dos(attr: &Attr) -> [u16; 2] {
    let (year, [month, day, hour, minute, second]) = date(attr.mtime);
    match year {
        ..1980 => [0, 1 << 5 | 1],
        2108.. => [u16::MAX, 127 << 9 | 12 << 5 | 31],
        year => [
            (hour << 11 | minute << 5 | (second / 2)) as u16,
            ((year as i64 - 1980) << 9 | month << 5 | day) as u16,
        ],
    }
}

/// The time to the second, and the owner.
fn extra(attr: &Attr) -> Vec<u8> {
    let mut bytes = Bytes::default();
    if let Ok(secs) = i32::try_from(attr.mtime.secs) {
        bytes = bytes.shorts(&[0x5455, 5]);
        bytes.0.push(1);
        bytes = bytes.words(&[secs.cast_unsigned()]);
    }
    bytes = bytes.shorts(&[0x7875, 11]);
    bytes.0.extend([1, 4]);
    bytes = bytes.words(&[attr.uid]);
    bytes.0.push(4);
    bytes.words(&[attr.gid]).0
}

impl Entry {
    const fn needs(&self, large: bool) -> u16 {
        if large { 45 } else { 20 }
    }

    /// What stands in front of its bytes.
    fn head(&self, large: bool) -> Vec<u8> {
        let lens = if large { [ELSEWHERE; 2] } else { self.lens.map(narrow) };
        let wide = Bytes::default().shorts(&[1, 16]).longs(&[0, 0]).0;
        let extra = if large { [&wide[..], &self.extra].concat() } else { self.extra.clone() };
        let head = Bytes::default().words(&[0x0403_4b50]);
        let head = head.shorts(&[self.needs(large), self.flags, self.method]);
        let head = head.shorts(&self.dos).words(&[self.crc, lens[0], lens[1]]);
        let head = head.shorts(&[self.name.len() as u16, extra.len() as u16]);
        [&head.0[..], &self.name, &extra].concat()
    }

    /// What stands in the directory.
    fn row(&self) -> Vec<u8> {
        let mut wide = Bytes::default();
        // The plain length comes first here.
        for number in [self.lens[1], self.lens[0], self.at] {
            if number >= u64::from(ELSEWHERE) {
                wide = wide.longs(&[number]);
            }
        }
        let large = !wide.0.is_empty();
        let mut extra = self.extra.clone();
        if large {
            let head = Bytes::default().shorts(&[1, wide.0.len() as u16]).0;
            extra = [&head[..], &wide.0, &extra].concat();
        }
        let row = Bytes::default().words(&[0x0201_4b50]);
        let row = row.shorts(&[MADE_BY, self.needs(large), self.flags, self.method]);
        let row = row.shorts(&self.dos);
        let row = row.words(&[self.crc, narrow(self.lens[0]), narrow(self.lens[1])]);
        let row = row.shorts(&[self.name.len() as u16, extra.len() as u16, 0, 0, 0]);
        let directory = if self.name.ends_with(b"/") { 0x10 } else { 0 };
        let row = row.words(&[self.mode << 16 | directory, narrow(self.at)]);
        [&row.0[..], &self.name, &extra].concat()
    }
}

impl Zip {
    fn bytes(&mut self, bytes: &[u8], output: &mut dyn Write) -> io::Result<()> {
        self.len += bytes.len() as u64;
        output.write_all(bytes)
    }

    /// A file's bytes, and behind them what they came to.
    fn file(
        &mut self,
        item: &Item<'_>,
        entry: &mut Entry,
        output: &mut dyn Write,
    ) -> Result<(), Stop> {
        let large = item.node.attr.size >= LARGE;
        (entry.flags, entry.method) = (entry.flags | SUM_FOLLOWS, DEFLATED);
        self.bytes(&entry.head(large), output)?;
        let counted = {
            let counting = Counting { output: &mut *output, count: 0 };
            let encoder = DeflateEncoder::new(counting, Compression::default());
            let mut summing = Summing { output: encoder, crc: Crc::new() };
            promised(item.image, item.node.ino, (0, item.node.attr.size), &mut summing)?;
            entry.crc = summing.crc.sum();
            summing.output.finish()?.count
        };
        entry.lens = [counted, item.node.attr.size];
        self.len += counted;
        let behind = Bytes::default().words(&[0x0807_4b50, entry.crc]);
        let behind = match large {
            true => behind.longs(&entry.lens),
            false => behind.words(&entry.lens.map(narrow)),
        };
        Ok(self.bytes(&behind.0, output)?)
    }
}

impl Form for Zip {
    fn put(&mut self, item: &Item<'_>, output: &mut dyn Write) -> Result<(), Stop> {
        let attr = &item.node.attr;
        let (mut name, mut link) = (item.name.to_vec(), Vec::new());
        match attr.kind {
            // Where the walk began needs no name.
            Kind::Directory if name == b"." => return Ok(()),
            Kind::Directory => name.push(b'/'),
            Kind::Symlink => link = target(item.image, item.node)?.into_encoded_bytes(),
            Kind::File => {}
            _ => return Err(Stop::Refused("zip archives have no devices, pipes and sockets")),
        }
        if name.len() > u16::MAX as usize {
            return Err(Stop::Refused("paths in zip archives are shorter than 64 KiB"));
        }
        let mut crc = Crc::new();
        crc.update(&link);
        let mut entry = Entry {
            flags: if str::from_utf8(&name).is_ok() { UTF8 } else { 0 },
            name,
            extra: extra(attr),
            method: 0,
            dos: dos(attr),
            crc: crc.sum(),
            lens: [link.len() as u64; 2],
            mode: attr.mode(),
            at: self.len,
        };
        if attr.kind == Kind::File && attr.size > 0 {
            self.file(item, &mut entry, output)?;
        } else {
            self.bytes(&entry.head(false), output)?;
            self.bytes(&link, output)?;
        }
        self.entries.push(entry);
        Ok(())
    }

    fn end(&mut self, output: &mut dyn Write) -> io::Result<()> {
        let (at, count) = (self.len, self.entries.len() as u64);
        for entry in std::mem::take(&mut self.entries) {
            self.bytes(&entry.row(), output)?;
        }
        let (len, end) = (self.len - at, self.len);
        if count >= u64::from(u16::MAX) || at >= u64::from(ELSEWHERE) || len >= u64::from(ELSEWHERE)
        {
            let wide = Bytes::default().words(&[0x0606_4b50]).longs(&[44]);
            let wide = wide.shorts(&[MADE_BY, 45]).words(&[0, 0]).longs(&[count, count, len, at]);
            let wide = wide.words(&[0x0706_4b50, 0]).longs(&[end]).words(&[1]);
            self.bytes(&wide.0, output)?;
        }
        let short = u16::try_from(count).unwrap_or(u16::MAX);
        let last = Bytes::default().words(&[0x0605_4b50]).shorts(&[0, 0, short, short]);
        let last = last.words(&[narrow(len), narrow(at)]).shorts(&[0]);
        self.bytes(&last.0, output)
    }
}
