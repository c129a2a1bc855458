//! An archive as a sequence of entries: headers, long names and pax records put together.
//!
//! Invariant: at any time the input stands at a known distance from the next header (`body` and
//! `padding`), whatever the caller did with the bytes of the entry before.

use std::io::{self, Read};

use esker::Time;

use super::Refusal;
use super::header::{BLOCK, Header, sparse_more};
use super::pax::{Records, decimal};
use super::sparse::{self, Map, Said};

/// The longest name, or set of records, that is taken: far more than Linux can hold.
const EXTRA_LEN_MAX: u64 = 16 << 20;
/// How much may follow the mark of the end, in bytes: far more than the padding of any program.
const TRAIL_LEN_MAX: u64 = 16 << 20;
/// Most stretches of data in one sparse file.
const RUNS_MAX: usize = 1 << 20;

/// What an entry is.
#[derive(Debug)]
pub enum Content {
    /// A directory.
    Directory,
    /// A file; its bytes come from [`Archive::read`], run after run.
    File(Map),
    /// Another name of an earlier entry.
    HardLink(Vec<u8>),
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// A character device, major and minor number.
    CharDevice(u32, u32),
    /// A block device, major and minor number.
    BlockDevice(u32, u32),
    /// A named pipe.
    Fifo,
}

/// One entry.
#[derive(Debug)]
pub struct Entry {
    /// Its path as the archive has it: nothing about it has been checked.
    pub path: Vec<u8>,
    /// What it is.
    pub content: Content,
    /// Permission bits.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of content.
    pub mtime: Time,
    /// Last read, where the archive says so.
    pub atime: Option<Time>,
    /// Extended attributes, name and value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The ACLs in words, access and default, where there are any.
    pub acls: [Option<Vec<u8>>; 2],
}

/// A tar archive being read.
pub struct Archive<R> {
    input: R,
    body: u64,
    padding: u64,
    global: Records,
    /// The entry that was told last, for messages about what should have followed it.
    last: Option<Vec<u8>>,
}

/// What stood before a header and belongs to its entry.
#[derive(Default)]
struct Before {
    records: Records,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

impl Before {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.path.is_none() && self.link.is_none()
    }
}

fn cut_short() -> Refusal {
    Refusal::new("the archive is cut short")
}

fn refused(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => cut_short(),
        _ => Refusal::new(format!("the archive cannot be read: {error}")),
    }
}

impl<R: Read> Archive<R> {
    /// Begins at the first header.
    pub fn new(input: R) -> Self {
        Self { input, body: 0, padding: 0, global: Records::default(), last: None }
    }

    /// The next entry; `None` at the mark of the end. What was not read of the entry before is
    /// skipped.
    pub fn next(&mut self) -> Result<Option<Entry>, Refusal> {
        let last = self.last.take();
        let entry = self.following().map_err(|refusal| match &last {
            Some(last) if refusal.entry.is_none() => {
                Refusal::new(format!("{} (behind this entry)", refusal.what)).of(last)
            }
            _ => refusal,
        })?;
        self.last = entry.as_ref().map(|entry| entry.path.clone());
        Ok(entry)
    }

    fn following(&mut self) -> Result<Option<Entry>, Refusal> {
        let mut before = Before::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else {
                if !before.is_empty() {
                    return Err(Refusal::new("the archive ends where an entry should follow"));
                }
                return Ok(None);
            };
            let named = before.path.clone().unwrap_or_else(|| header.path());
            match header.flag() {
                b'x' | b'X' => {
                    let bytes = self.extra(&header).map_err(|refusal| refusal.of(&named))?;
                    before.records.extend(&bytes).map_err(|refusal| refusal.of(&named))?;
                }
                b'g' => {
                    let bytes = self.extra(&header)?;
                    self.global.extend(&bytes)?;
                }
                b'L' => before.path = Some(until_nul(self.extra(&header)?)),
                b'K' => before.link = Some(until_nul(self.extra(&header)?)),
                b'V' => self.enter(header.size()?),
                _ => {
                    let path = self.path_of(&header, &before);
                    let entry = self.entry(&header, &before, path.clone());
                    return entry.map(Some).map_err(|refusal| refusal.of(&path));
                }
            }
        }
    }

    /// Bytes of the entry that [`Archive::next`] told last; 0 at their end.
    pub fn read(&mut self, target: &mut [u8]) -> Result<usize, Refusal> {
        let len = target.len().min(usize::try_from(self.body).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(0);
        }
        loop {
            match self.input.read(&mut target[..len]) {
                Ok(0) => return Err(cut_short()),
                Ok(count) => {
                    self.body -= count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(refused(&error)),
            }
        }
    }

    /// Reads to the end of the input, so that a program that writes into our pipe is not cut off,
    /// and a compressed archive is checked to its last byte. An input that does not end is refused.
    pub fn drain(&mut self) -> Result<(), Refusal> {
        let mut trail = self.input.by_ref().take(TRAIL_LEN_MAX + 1);
        let len = io::copy(&mut trail, &mut io::sink()).map_err(|error| refused(&error))?;
        if len <= TRAIL_LEN_MAX {
            return Ok(());
        }
        let mib = TRAIL_LEN_MAX >> 20;
        Err(Refusal::new(format!("more than {mib} MiB follow the mark of its end (zeros)")))
    }

    fn enter(&mut self, size: u64) {
        let block = BLOCK as u64;
        self.body = size;
        self.padding = (block - size % block) % block;
    }

    fn skip(&mut self) -> Result<(), Refusal> {
        // Added as u128: a size near 2^64 must not wrap.
        let mut rest = u128::from(self.body) + u128::from(self.padding);
        while rest > 0 {
            let part = u64::try_from(rest).unwrap_or(u64::MAX);
            let copied = io::copy(&mut self.input.by_ref().take(part), &mut io::sink());
            let copied = copied.map_err(|error| refused(&error))?;
            if copied < part {
                return Err(cut_short());
            }
            rest -= u128::from(part);
        }
        (self.body, self.padding) = (0, 0);
        Ok(())
    }

    fn block(&mut self) -> Result<[u8; BLOCK], Refusal> {
        let mut block = [0; BLOCK];
        self.input.read_exact(&mut block).map_err(|error| refused(&error))?;
        Ok(block)
    }

    fn header(&mut self) -> Result<Option<Header>, Refusal> {
        Header::parse(&self.block()?)
    }

    /// The body of a header that only says more about the next one.
    fn extra(&mut self, header: &Header) -> Result<Vec<u8>, Refusal> {
        let size = header.size()?;
        if size > EXTRA_LEN_MAX {
            return Err(Refusal::new("its extended header is absurdly long"));
        }
        self.enter(size);
        let mut bytes = Vec::new();
        let taken = self.input.by_ref().take(size).read_to_end(&mut bytes);
        let taken = taken.map_err(|error| refused(&error))? as u64;
        self.body -= taken;
        if taken < size { Err(cut_short()) } else { Ok(bytes) }
    }

    fn path_of(&self, header: &Header, before: &Before) -> Vec<u8> {
        let get =
            |key| before.records.get(key).or_else(|| self.global.get(key)).map(<[u8]>::to_vec);
        let path = get("GNU.sparse.name").or_else(|| get("path")).or_else(|| before.path.clone());
        path.unwrap_or_else(|| header.path())
    }

    /// Puts together what was said about one entry.
    fn entry(&mut self, header: &Header, before: &Before, path: Vec<u8>) -> Result<Entry, Refusal> {
        let records = &before.records;
        let number = |key| match records.number(key)? {
            Some(number) => Ok(Some(number)),
            None => self.global.number(key),
        };
        let size = match number("size")? {
            Some(size) => size,
            None => header.size()?,
        };
        let (uid, gid) = (number("uid")?, number("gid")?);
        let owner = |said: Option<u64>, plain: i128, field: &str| {
            let id = u32::try_from(said.map_or(plain, i128::from)).ok();
            let id = id.filter(|&id| id != u32::MAX);
            id.ok_or_else(|| Refusal::new(format!("its {field} is no number that Linux knows")))
        };
        let mtime = match records.time("mtime")? {
            Some(time) => time,
            None => Time { secs: header.mtime()?, nanos: 0 },
        };
        let acl = |key| records.get(key).map(<[u8]>::to_vec);
        let content = self.content(header, before, &path, size)?;
        Ok(Entry {
            path,
            content,
            perm: header.perm()?,
            uid: owner(uid, header.uid()?, "owner")?,
            gid: owner(gid, header.gid()?, "group")?,
            mtime,
            atime: records.time("atime")?,
            xattrs: records.xattrs(),
            acls: [acl("SCHILY.acl.access"), acl("SCHILY.acl.default")],
        })
    }

    fn content(
        &mut self,
        header: &Header,
        before: &Before,
        path: &[u8],
        size: u64,
    ) -> Result<Content, Refusal> {
        let link = before.records.get("linkpath").map(<[u8]>::to_vec);
        let link = link.or_else(|| before.link.clone()).unwrap_or_else(|| header.link());
        Ok(match header.flag() {
            // Before there was a flag for it, a directory was a name with a slash at its end.
            b'0' | 0 | b'7' if path.ends_with(b"/") && size == 0 => Content::Directory,
            b'0' | 0 | b'7' => self.file(&before.records, size)?,
            b'S' => self.old_sparse(header, size)?,
            b'1' => {
                // Only pax archives store the bytes with each name; elsewhere the size is a mere
                // note.
                self.enter(if before.records.is_empty() { 0 } else { size });
                Content::HardLink(link)
            }
            b'2' => Content::Symlink(link),
            b'3' => header.device().map(|(major, minor)| Content::CharDevice(major, minor))?,
            b'4' => header.device().map(|(major, minor)| Content::BlockDevice(major, minor))?,
            b'5' => Content::Directory,
            b'D' => {
                self.enter(size);
                Content::Directory
            }
            b'6' => Content::Fifo,
            b'M' => {
                return Err(Refusal::new("it goes on from another volume: join the volumes first"));
            }
            flag => {
                let flag = crate::failure::shown(&[flag]);
                return Err(Refusal::new(format!("it is of a kind that is not known ({flag})")));
            }
        })
    }

    /// A file, with holes if the records say so.
    fn file(&mut self, records: &Records, stored: u64) -> Result<Content, Refusal> {
        self.enter(stored);
        Ok(Content::File(match sparse::said(records)? {
            Said::Nothing => Map::whole(stored),
            Said::Map(size, pairs) => Map::new(size, &pairs, stored)?,
            Said::InBody(size) => {
                let pairs = self.map_in_body()?;
                Map::new(size, &pairs, self.body)?
            }
        }))
    }

    /// Numbers in lines, in whole blocks before the data: how many pairs, then the pairs.
    fn map_in_body(&mut self) -> Result<Vec<(u64, u64)>, Refusal> {
        let broken = || Refusal::new("its map of holes is broken");
        let mut numbers: Vec<u64> = Vec::new();
        let mut line = Vec::new();
        let mut count = None;
        while count.is_none_or(|count: usize| numbers.len() < count) {
            if self.body < BLOCK as u64 {
                return Err(broken());
            }
            let block = self.block()?;
            self.body -= BLOCK as u64;
            for byte in block {
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                let number = decimal(&line).ok_or_else(broken)?;
                line.clear();
                match count {
                    None => {
                        let pairs = usize::try_from(number).ok().filter(|&pairs| pairs <= RUNS_MAX);
                        count = Some(2 * pairs.ok_or_else(broken)?);
                    }
                    Some(_) => numbers.push(number),
                }
                if count == Some(numbers.len()) {
                    break;
                }
            }
            if line.len() > 20 && count != Some(numbers.len()) {
                return Err(broken());
            }
        }
        sparse::pairs(&numbers)
    }

    /// A sparse file as GNU tar wrote it before pax.
    fn old_sparse(&mut self, header: &Header, stored: u64) -> Result<Content, Refusal> {
        let mut map = header.sparse()?;
        while map.more {
            let (further, more) = sparse_more(&self.block()?)?;
            map.runs.extend(further);
            map.more = more;
            if map.runs.len() > RUNS_MAX {
                return Err(Refusal::new("its map of holes is absurdly long"));
            }
        }
        self.enter(stored);
        Map::new(map.size, &map.runs, stored).map(Content::File)
    }
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    bytes.truncate(len);
    bytes
}
