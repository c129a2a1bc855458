//! A tree out of an image as a tar archive of the pax kind, which GNU tar, bsdtar and Python read.
//!
//! Invariant: holes stay holes.

use std::io::{self, Write};

use esker::Kind;
use esker::attr::device_parts;
use esker::store::View;
use esker_image::pack::xattrs;

use super::{Form, Item, Stop, promised};
use crate::images::Node;

const BLOCK: u64 = 512;
/// The most that a field of eleven octal digits holds.
const OCTAL_MAX: u64 = 0o777_7777_7777;

/// Tar, with extended headers where they are needed.
#[derive(Debug, Default)]
pub struct Tar;

impl Form for Tar {
    fn put(&mut self, item: &Item<'_>, output: &mut dyn Write) -> Result<(), Stop> {
        entry(item.image, item.node, item.name, item.first, output)
    }

    fn end(&mut self, output: &mut dyn Write) -> io::Result<()> {
        output.write_all(&[0; 2 * BLOCK as usize])
    }
}

/// Records of an extended header.
#[derive(Default)]
struct Records(Vec<u8>);

impl Records {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        // The length counts itself.
        let rest = key.len() + value.len() + 3;
        let mut len = rest + 1;
        while len != rest + len.to_string().len() {
            len = rest + len.to_string().len();
        }
        self.0.extend(len.to_string().bytes());
        self.0.push(b' ');
        self.0.extend_from_slice(key);
        self.0.push(b'=');
        self.0.extend_from_slice(value);
        self.0.push(b'\n');
    }
}

/// A header's fields.
struct Header<'a> {
    name: &'a [u8],
    link: &'a [u8],
    kind: u8,
    mode: u64,
    ids: (u64, u64),
    size: u64,
    mtime: u64,
    device: (u64, u64),
}

impl Header<'_> {
    fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        let mut bytes = [0; BLOCK as usize];
        let mut put = |at: usize, len: usize, value: &[u8]| {
            let len = len.min(value.len());
            bytes[at..at + len].copy_from_slice(&value[..len]);
        };
        let octal = |value: u64, digits: usize| format!("{value:0digits$o}\0").into_bytes();
        put(0, 100, self.name);
        put(100, 8, &octal(self.mode, 7));
        put(108, 8, &octal(self.ids.0.min(0o777_7777), 7));
        put(116, 8, &octal(self.ids.1.min(0o777_7777), 7));
        put(124, 12, &octal(self.size.min(OCTAL_MAX), 11));
        put(136, 12, &octal(self.mtime.min(OCTAL_MAX), 11));
        put(148, 8, b"        ");
        put(156, 1, &[self.kind]);
        put(157, 100, self.link);
        put(257, 8, b"ustar\x0000");
        put(329, 8, &octal(self.device.0, 7));
        put(337, 8, &octal(self.device.1, 7));
        let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
        bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        output.write_all(&bytes)
    }

    /// With an extended header in front, where there are records.
    fn write_with(&self, records: &Records, output: &mut dyn Write) -> io::Result<()> {
        if !records.0.is_empty() {
            let size = records.0.len() as u64;
            let (name, link, device) = (&b"././@PaxHeader"[..], &b""[..], (0, 0));
            let above = Header { name, link, kind: b'x', mode: 0o644, size, device, ..*self };
            above.write(output)?;
            output.write_all(&records.0)?;
            pad(size, output)?;
        }
        self.write(output)
    }
}

fn pad(len: u64, output: &mut dyn Write) -> io::Result<()> {
    let rest = (BLOCK - len % BLOCK) % BLOCK;
    output.write_all(&[0; BLOCK as usize][..rest as usize])
}

/// A file's runs of data, and the map of them that stands in front of a sparse file's bytes.
struct Sparse {
    runs: Vec<(u64, u64)>,
    map: Vec<u8>,
}

fn sparse(image: &dyn View, node: &Node) -> Result<Option<Sparse>, Stop> {
    if node.attr.kind != Kind::File || node.attr.blocks >= node.attr.size.div_ceil(512) {
        return Ok(None);
    }
    let (mut runs, mut at) = (Vec::new(), 0);
    while let Some(run) = image.next_data(node.ino, at)? {
        match runs.last_mut() {
            Some((start, len)) if *start + *len == run.start() => *len += run.len(),
            _ => runs.push((run.start(), run.len())),
        }
        at = run.end();
    }
    if at < node.attr.size {
        runs.push((node.attr.size, 0));
    }
    let mut map = format!("{}\n", runs.len());
    for (start, len) in &runs {
        map += &format!("{start}\n{len}\n");
    }
    let mut map = map.into_bytes();
    map.resize(map.len().next_multiple_of(BLOCK as usize), 0);
    Ok(Some(Sparse { runs, map }))
}

fn records(image: &dyn View, node: &Node, name: &[u8], size: u64) -> Result<Records, Stop> {
    let attr = &node.attr;
    let mut records = Records::default();
    if name.len() > 100 || !name.is_ascii() {
        records.push(b"path", name);
    }
    if attr.mtime.nanos > 0 || attr.mtime.secs < 0 || attr.mtime.secs.unsigned_abs() > OCTAL_MAX {
        // Of a time before 1970 the fraction counts backward.
        let (secs, nanos) = (attr.mtime.secs, attr.mtime.nanos);
        let text = match (secs < 0, nanos) {
            (true, 1..) => match secs + 1 {
                0 => format!("-0.{:09}", 1_000_000_000 - nanos),
                whole => format!("{whole}.{:09}", 1_000_000_000 - nanos),
            },
            _ => format!("{secs}.{nanos:09}"),
        };
        records.push(b"mtime", text.as_bytes());
    }
    for (key, id) in [(&b"uid"[..], attr.uid), (b"gid", attr.gid)] {
        if id > 0o777_7777 {
            records.push(key, id.to_string().as_bytes());
        }
    }
    if size > OCTAL_MAX {
        records.push(b"size", size.to_string().as_bytes());
    }
    for (name, value) in xattrs(image, node.ino)? {
        records.push(&[b"SCHILY.xattr.", &name[..]].concat(), &value);
    }
    Ok(records)
}

/// The type of a thing, and where it leads.
fn kind(image: &dyn View, node: &Node, first: Option<&[u8]>) -> Result<(u8, Vec<u8>), Stop> {
    if let Some(first) = first {
        return Ok((b'1', first.to_vec()));
    }
    let kind = match node.attr.kind {
        Kind::File => b'0',
        Kind::Symlink => {
            return Ok((b'2', crate::images::target(image, node)?.into_encoded_bytes()));
        }
        Kind::CharDevice => b'3',
        Kind::BlockDevice => b'4',
        Kind::Directory => b'5',
        Kind::Fifo => b'6',
        // There is no type for sockets.
        Kind::Socket => return Err(Stop::Refused("tar archives have no sockets")),
    };
    Ok((kind, Vec::new()))
}

fn entry(
    image: &dyn View,
    node: &Node,
    below: &[u8],
    first: Option<&[u8]>,
    output: &mut dyn Write,
) -> Result<(), Stop> {
    let attr = &node.attr;
    let mut name = below.to_vec();
    if attr.kind == Kind::Directory {
        name.push(b'/');
    }
    let sparse = if first.is_some() { None } else { sparse(image, node)? };
    let data: u64 = match &sparse {
        Some(sparse) => {
            sparse.map.len() as u64 + sparse.runs.iter().map(|(_, len)| len).sum::<u64>()
        }
        None if attr.kind == Kind::File && first.is_none() => attr.size,
        None => 0,
    };
    // What can fail for the image's sake comes before what is written.
    let (kind, link) = kind(image, node, first)?;
    let mut records = records(image, node, &name, data)?;
    if link.len() > 100 || !link.is_ascii() {
        records.push(b"linkpath", &link);
    }
    if sparse.is_some() {
        records.push(b"GNU.sparse.major", b"1");
        records.push(b"GNU.sparse.minor", b"0");
        records.push(b"GNU.sparse.name", &name);
        records.push(b"GNU.sparse.realsize", attr.size.to_string().as_bytes());
    }
    let device = matches!(attr.kind, Kind::CharDevice | Kind::BlockDevice) && first.is_none();
    let (major, minor) = device_parts(attr.rdev);
    let own = Header {
        name: &name,
        link: &link,
        kind,
        mode: attr.perm.into(),
        ids: (attr.uid.into(), attr.gid.into()),
        size: data,
        mtime: attr.mtime.secs.max(0).unsigned_abs(),
        device: if device { (major.into(), minor.into()) } else { (0, 0) },
    };
    own.write_with(&records, output)?;
    if data == 0 {
        return Ok(());
    }
    let runs = match &sparse {
        Some(sparse) => {
            output.write_all(&sparse.map)?;
            &sparse.runs[..]
        }
        None => &[(0, attr.size)],
    };
    for &(start, len) in runs {
        promised(image, node.ino, (start, start + len), output)?;
    }
    Ok(pad(data, output)?)
}
