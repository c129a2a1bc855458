//! A tar archive put into a file system. The archive may be hostile: its paths lead nowhere but
//! down.
//!
//! Above: `import`. Below: `tar` reads, `fill` makes. Invariant: no path is followed through a
//! symbolic link, so every entry lands below the root at the very place that its path says.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use esker::posix::Fs;
use esker::store::Store;
use esker::{Error, Ino, Kind, Name, Time};

use super::fill::{Filler, Meta, Unfinished, remedy};
use super::tar::{Archive, Content, Entry, Refusal};
use super::{Filled, acl};
use crate::failure::{Exit, Failure, Outcome, path_shown, shown};
use crate::progress::Progress;

/// Bytes that are moved at a time.
const CHUNK: usize = 1 << 20;
/// The longest path of an entry, in bytes: sixteen times what Linux takes in one call. Each level of
/// it may become a directory.
const PATH_LEN_MAX: usize = 64 << 10;

/// Counts what passes.
struct Counted<R> {
    input: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(target)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

/// Fills `fs` from an archive, compressed with gzip or not. `from` is for messages.
pub fn unpack<S: Store>(
    fs: &Fs<S>,
    input: impl Read,
    from: &Path,
    progress: Progress,
) -> Outcome<Filled> {
    let count = Rc::new(Cell::new(0));
    let plain = plain(Counted { input, count: count.clone() }, from, "mount --from - ...")?;
    let failure = |refusal: Refusal| explain(from, &refusal, "nothing is left of it");
    let mut unpacker = Unpacker {
        filler: Filler::new(fs),
        archive: Archive::new(plain),
        buffer: vec![0; CHUNK].into_boxed_slice(),
        parent: None,
        count,
        progress,
    };
    unpacker.run().map_err(failure)?;
    let tally = unpacker.filler.close().map_err(|error| failure(unfinished(error)))?;
    Ok(Filled { tally, skipped: Vec::new() })
}

/// The archive without its compression, which may be gzip; of any other, what to pipe through, into `esker` and
/// `verb`.
pub fn plain<'a>(input: impl Read + 'a, from: &Path, verb: &str) -> Outcome<Box<dyn Read + 'a>> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let failure = |refusal: Refusal| explain(from, &refusal, "");
    let head = peek(&mut input).map_err(failure)?;
    match head.as_slice() {
        [] => Err(failure(Refusal::new("the archive is empty"))),
        [0x1f, 0x8b, ..] => Ok(Box::new(flate2::bufread::MultiGzDecoder::new(input))),
        head => {
            if let Some(program) = foreign(head) {
                let what = format!("the archive is compressed with {program}");
                let remedy = format!("pipe it: {program} -dc {} | esker {verb}", path_shown(from));
                return Err(Failure::at(Exit::Source, &what, from, &remedy));
            }
            Ok(Box::new(input))
        }
    }
}

/// The first bytes, left in the buffer.
fn peek<R: Read>(input: &mut BufReader<R>) -> Result<Vec<u8>, Refusal> {
    let head = input
        .fill_buf()
        .map_err(|error| Refusal::new(format!("the archive cannot be read: {error}")))?;
    Ok(head[..head.len().min(8)].to_vec())
}

/// The program for a compression that we do not undo ourselves.
fn foreign(head: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 5] = [
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh", "bzip2"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"LZIP", "lzip"),
    ];
    known.iter().find(|(magic, _)| head.starts_with(magic)).map(|&(_, program)| program)
}

/// Why an archive was refused, and what did not happen because of it.
pub fn explain(from: &Path, refusal: &Refusal, then: &str) -> Failure {
    let from = if from == Path::new("-") { "standard input".to_owned() } else { path_shown(from) };
    let what = match &refusal.entry {
        Some(entry) => format!("refused archive: {from}: entry {}: {}", shown(entry), refusal.what),
        None => format!("refused archive: {from}: {}", refusal.what),
    };
    Failure::new(Exit::Source, what, then)
}

/// A refusal by the file system, in words.
fn refused(error: Error) -> Refusal {
    Refusal::new(format!("it does not fit in ({error}): {}", remedy(error)))
}

fn unfinished(error: Unfinished) -> Refusal {
    match error {
        Unfinished::Refused(error) => refused(error),
        Unfinished::Xattr(name, error) => {
            Refusal::new(format!("its extended attribute {} is refused ({error})", shown(&name)))
        }
        Unfinished::Times(error) => {
            Refusal::new(format!("the times of a directory are refused ({error})"))
        }
        Unfinished::Flags(path, error) => refused(error).of(&path),
    }
}

struct Unpacker<'a, S, R> {
    filler: Filler<'a, S>,
    archive: Archive<R>,
    buffer: Box<[u8]>,
    /// The directory of the entry before, which most entries share.
    parent: Option<(Vec<u8>, Ino)>,
    count: Rc<Cell<u64>>,
    progress: Progress,
}

impl<S: Store, R: Read> Unpacker<'_, S, R> {
    fn run(&mut self) -> Result<(), Refusal> {
        while let Some(entry) = self.archive.next()? {
            self.put(&entry).map_err(|refusal| refusal.of(&entry.path))?;
            self.progress.tick(self.filler.tally.seen(), self.count.get());
        }
        self.archive.drain()
    }

    /// Makes one entry.
    fn put(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let parts = parts(&entry.path)?;
        let meta = meta_of(entry)?;
        let Some((last, above)) = parts.split_last() else {
            return match entry.content {
                Content::Directory => {
                    self.filler.finish_early(Ino::ROOT, &entry.path, &meta).map_err(unfinished)
                }
                _ => Err(Refusal::new("only a directory can be the root")),
            };
        };
        let dir = self.enter(above, entry.mtime)?;
        match &entry.content {
            Content::Directory => self.directory(dir, *last, &entry.path, &meta),
            Content::HardLink(target) => self.hard_link(dir, *last, target),
            _ => {
                self.vacate(dir, *last)?;
                let (ino, kind) = self.leaf(dir, *last, entry)?;
                self.filler.finish(ino, kind, &entry.path, &meta).map_err(unfinished)
            }
        }
    }

    /// The directory that `parts` lead to, made where the archive left it out.
    fn enter(&mut self, parts: &[Name<'_>], time: Time) -> Result<Ino, Refusal> {
        let path = joined(parts);
        if let Some((known, ino)) = &self.parent
            && *known == path
        {
            return Ok(*ino);
        }
        let mut dir = Ino::ROOT;
        for (depth, part) in parts.iter().enumerate() {
            dir = match self.filler.find(dir, *part).map_err(refused)? {
                Some((ino, Kind::Directory)) => ino,
                Some((_, kind)) => {
                    let above = shown(&joined(&parts[..=depth]));
                    let what = format!("it lies below {above}, which is a {}", kind_shown(kind));
                    return Err(Refusal::new(what));
                }
                None => {
                    let made = self.filler.make(dir, *part, Kind::Directory, (0, 0));
                    let made = made.map_err(refused)?;
                    let meta = Meta { perm: 0o755, mtime: time, ..Meta::default() };
                    self.filler.finish_early(made, &[], &meta).map_err(unfinished)?;
                    made
                }
            };
        }
        self.parent = Some((path, dir));
        Ok(dir)
    }

    fn directory(
        &mut self,
        dir: Ino,
        name: Name<'_>,
        path: &[u8],
        meta: &Meta,
    ) -> Result<(), Refusal> {
        let ino = match self.filler.find(dir, name).map_err(refused)? {
            Some((ino, Kind::Directory)) => ino,
            Some((_, kind)) => {
                let kind = kind_shown(kind);
                let what = format!("it is a directory, but an earlier entry made it a {kind}");
                return Err(Refusal::new(what));
            }
            None => self.filler.make(dir, name, Kind::Directory, (0, 0)).map_err(refused)?,
        };
        self.filler.finish_early(ino, path, meta).map_err(unfinished)
    }

    fn hard_link(&mut self, dir: Ino, name: Name<'_>, target: &[u8]) -> Result<(), Refusal> {
        let to = shown(target);
        let parts = parts(target).map_err(|Refusal { what, .. }| {
            Refusal::new(format!("it is a hard link to {to}, outside of the archive ({what})"))
        })?;
        let mut found = Some((Ino::ROOT, Kind::Directory));
        for part in parts {
            found = match found {
                Some((above, Kind::Directory)) => self.filler.find(above, part).map_err(refused)?,
                _ => None,
            };
        }
        match found {
            None => {
                Err(Refusal::new(format!("it is a hard link to {to}, which no earlier entry made")))
            }
            Some((_, Kind::Directory)) => {
                Err(Refusal::new(format!("it is a hard link to {to}, which is a directory")))
            }
            Some((ino, _)) => {
                let already = self.filler.find(dir, name).map_err(refused)?;
                if already.is_some_and(|(present, _)| present == ino) {
                    return Ok(());
                }
                self.vacate(dir, name)?;
                self.filler.link(ino, dir, name).map_err(refused)
            }
        }
    }

    /// A later entry of the same path replaces an earlier one, as `tar -r` and `tar -u` mean it.
    fn vacate(&mut self, dir: Ino, name: Name<'_>) -> Result<(), Refusal> {
        match self.filler.find(dir, name).map_err(refused)? {
            None => Ok(()),
            Some((_, Kind::Directory)) => {
                Err(Refusal::new("it would replace a directory that an earlier entry made"))
            }
            Some(_) => self.filler.unlink(dir, name).map_err(refused),
        }
    }

    fn leaf(&mut self, dir: Ino, name: Name<'_>, entry: &Entry) -> Result<(Ino, Kind), Refusal> {
        let (kind, device) = match &entry.content {
            Content::Symlink(target) => {
                if target.is_empty() || target.contains(&0) {
                    return Err(Refusal::new("it is a symbolic link without a proper target"));
                }
                let ino = self.filler.symlink(dir, name, target).map_err(refused)?;
                return Ok((ino, Kind::Symlink));
            }
            Content::CharDevice(major, minor) => (Kind::CharDevice, (*major, *minor)),
            Content::BlockDevice(major, minor) => (Kind::BlockDevice, (*major, *minor)),
            Content::Fifo => (Kind::Fifo, (0, 0)),
            _ => (Kind::File, (0, 0)),
        };
        let ino = self.filler.make(dir, name, kind, device).map_err(refused)?;
        if let Content::File(map) = &entry.content {
            for run in &map.runs {
                self.fill(ino, run.at, run.len)?;
            }
            if map.runs.last().map_or(0, |run| run.at + run.len) < map.size {
                self.filler.resize(ino, map.size).map_err(refused)?;
            }
        }
        Ok((ino, kind))
    }

    /// Moves `len` bytes from the archive into a file.
    fn fill(&mut self, ino: Ino, at: u64, len: u64) -> Result<(), Refusal> {
        let mut done = 0;
        while done < len {
            let room = usize::try_from(len - done).unwrap_or(usize::MAX).min(CHUNK);
            let mut full = 0;
            while full < room {
                full += match self.archive.read(&mut self.buffer[full..room])? {
                    0 => return Err(Refusal::new("the archive is cut short")),
                    count => count,
                };
            }
            self.filler.write(ino, at + done, &self.buffer[..full]).map_err(refused)?;
            self.progress.tick(self.filler.tally.seen(), self.count.get());
            done += full as u64;
        }
        Ok(())
    }
}

/// A path's names from the root down; refuses all that could lead elsewhere.
pub fn parts(path: &[u8]) -> Result<Vec<Name<'_>>, Refusal> {
    if path.is_empty() {
        return Err(Refusal::new("its path is empty"));
    }
    if path.starts_with(b"/") {
        return Err(Refusal::new("its path is absolute"));
    }
    if path.len() > PATH_LEN_MAX {
        return Err(Refusal::new(format!("a path is longer than {PATH_LEN_MAX} bytes")));
    }
    let mut names = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(Refusal::new("its path leads upwards (..)")),
            part => names.push(Name::parse(part).map_err(|error| match error {
                Error::NameTooLong => Refusal::new("a name in its path is longer than 255 bytes"),
                _ => Refusal::new("a name in its path has a NUL byte"),
            })?),
        }
    }
    Ok(names)
}

fn joined(parts: &[Name<'_>]) -> Vec<u8> {
    let names: Vec<&[u8]> = parts.iter().map(|name| name.bytes()).collect();
    names.join(&b'/')
}

/// A kind in words.
pub const fn kind_shown(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symbolic link",
        Kind::Fifo => "named pipe",
        Kind::Socket => "socket",
        Kind::CharDevice | Kind::BlockDevice => "device",
    }
}

/// The attributes of an entry.
pub fn meta_of(entry: &Entry) -> Result<Meta, Refusal> {
    let mut xattrs = entry.xattrs.clone();
    for (text, name) in entry.acls.iter().zip(acl::NAMES) {
        let Some(text) = text else { continue };
        let value = acl::encode(text).ok_or_else(|| {
            Refusal::new(format!("its ACL makes no sense on this machine: {}", shown(text)))
        })?;
        xattrs.retain(|(known, _)| known != name);
        xattrs.push((name.to_vec(), value));
    }
    Ok(Meta {
        perm: entry.perm,
        uid: entry.uid,
        gid: entry.gid,
        atime: entry.atime,
        mtime: entry.mtime,
        xattrs,
        flags: esker::Flags::default(),
    })
}
