//! A tar archive given to the packer as it streams by: nothing is unpacked to disk, and no more of a file is held
//! than a piece.
//!
//! Below: `import::tar` reads, and `import::unpack` knows what a path and an entry may say. Invariant: no path is
//! followed through a symbolic link, so every entry lands at the very place that its path says.

use std::io::Read;
use std::path::Path;

use esker::attr::device_number;
use esker::{Kind, Name};
use esker_image::pack::{Error, Incoming, Meta, NodeId};

use super::Plan;
use super::work::Work;
use crate::failure::{Failure, Outcome, shown};
use crate::import::tar::{Archive, Content, Entry, Refusal};
use crate::import::unpack::{explain, kind_shown, meta_of, parts, plain};

/// Bytes that are moved at a time.
const CHUNK: usize = 1 << 20;

/// Why an entry was not taken.
enum Trouble {
    Refused(Refusal),
    Packing(Error),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Tree(error) => Self::Refused(Refusal::new(error.text())),
            error => Self::Packing(error),
        }
    }
}

struct Unpack<'a, 'r> {
    plan: &'a Plan<'a>,
    work: &'a mut Work,
    archive: Archive<Box<dyn Read + 'r>>,
    top: NodeId,
    buffer: Vec<u8>,
}

/// Packs an archive into the directory `top`. `failed` puts a failure of the packer into words.
pub fn unpack(
    input: impl Read,
    from: &Path,
    top: NodeId,
    plan: &Plan<'_>,
    work: &mut Work,
    failed: &dyn Fn(Error) -> Failure,
) -> Outcome {
    let archive = Archive::new(plain(input, from, "pack - -o ...")?);
    let mut unpack = Unpack { plan, work, archive, top, buffer: vec![0; CHUNK] };
    unpack.run().map_err(|trouble| match trouble {
        Trouble::Refused(refusal) => explain(from, &refusal, "nothing was packed"),
        Trouble::Packing(error) => failed(error),
    })
}

impl Unpack<'_, '_> {
    fn run(&mut self) -> Result<(), Trouble> {
        while let Some(entry) = self.archive.next()? {
            self.put(&entry).map_err(|trouble| match trouble {
                Trouble::Refused(refusal) => Trouble::Refused(refusal.of(&entry.path)),
                trouble => trouble,
            })?;
            self.work.tick();
        }
        Ok(self.archive.drain()?)
    }

    /// What the rules leave out goes with all that is in it.
    fn is_wanted(&self, parts: &[Name<'_>], directory: bool) -> bool {
        let names: Vec<&[u8]> = parts.iter().map(|name| name.bytes()).collect();
        (1..=names.len()).all(|len| {
            let path = names[..len].join(&b'/');
            self.plan.rules.take(&path, directory || len < names.len())
        })
    }

    fn meta(&self, entry: &Entry, kind: Kind, device: (u32, u32)) -> Result<Meta, Trouble> {
        let own = meta_of(entry)?;
        Ok(self.plan.rewrite(Meta {
            perm: own.perm,
            uid: own.uid,
            gid: own.gid,
            rdev: device_number(device.0, device.1),
            mtime: own.mtime,
            others: own.atime.map(|atime| Box::new([atime, own.mtime, own.mtime])),
            xattrs: own.xattrs,
            ..Meta::new(kind, 0)
        }))
    }

    fn put(&mut self, entry: &Entry) -> Result<(), Trouble> {
        let parts = parts(&entry.path)?;
        let directory = matches!(entry.content, Content::Directory);
        let Some((last, above)) = parts.split_last() else {
            if !directory {
                return Err(Refusal::new("only a directory can be the root").into());
            }
            let meta = self.meta(entry, Kind::Directory, (0, 0))?;
            self.work.packer.set(self.top, &meta)?;
            return Ok(());
        };
        if !self.is_wanted(&parts, directory) {
            return Ok(());
        }
        let dir = self.enter(above, entry)?;
        let present = self.work.packer.find(dir, last.bytes())?;
        match (&entry.content, present) {
            (Content::Directory, Some((node, Kind::Directory))) => {
                let meta = self.meta(entry, Kind::Directory, (0, 0))?;
                self.work.packer.set(node, &meta)?;
                Ok(())
            }
            (Content::Directory, Some((_, kind))) => {
                let kind = kind_shown(kind);
                let what = format!("it is a directory, but an earlier entry made it a {kind}");
                Err(Refusal::new(what).into())
            }
            (_, Some((_, Kind::Directory))) => {
                let what = "it would replace a directory that an earlier entry made";
                Err(Refusal::new(what).into())
            }
            (Content::HardLink(target), _) => self.link(dir, *last, target),
            _ => self.make(dir, *last, entry),
        }
    }

    /// The directory that `parts` lead to, made where the archive left it out.
    fn enter(&mut self, parts: &[Name<'_>], entry: &Entry) -> Result<NodeId, Trouble> {
        let mut dir = self.top;
        for part in parts {
            dir = match self.work.packer.find(dir, part.bytes())? {
                Some((node, Kind::Directory)) => node,
                Some((_, kind)) => {
                    let part = shown(part.bytes());
                    let what = format!("it lies below {part}, which is a {}", kind_shown(kind));
                    return Err(Refusal::new(what).into());
                }
                None => {
                    let mut meta = Meta::new(Kind::Directory, 0o755);
                    meta.mtime = entry.mtime;
                    self.work.packer.make(dir, part.bytes(), self.plan.rewrite(meta))?
                }
            };
        }
        Ok(dir)
    }

    /// A later entry of the same path replaces an earlier one, as `tar -r` and `tar -u` mean it.
    fn make(&mut self, dir: NodeId, name: Name<'_>, entry: &Entry) -> Result<(), Trouble> {
        let (kind, device) = match &entry.content {
            Content::Directory => (Kind::Directory, (0, 0)),
            Content::Symlink(_) => (Kind::Symlink, (0, 0)),
            Content::CharDevice(major, minor) => (Kind::CharDevice, (*major, *minor)),
            Content::BlockDevice(major, minor) => (Kind::BlockDevice, (*major, *minor)),
            Content::Fifo => (Kind::Fifo, (0, 0)),
            _ => (Kind::File, (0, 0)),
        };
        let meta = self.meta(entry, kind, device)?;
        let node = self.work.packer.make(dir, name.bytes(), meta)?;
        match &entry.content {
            Content::Symlink(target) => self.work.packer.target(node, target)?,
            Content::File(map) => {
                let mut file = Incoming::default();
                let mut at = 0;
                self.work.gathered.slowest.begin(&entry.path);
                for run in &map.runs {
                    let gap = run.at.checked_sub(at);
                    let gap = gap.ok_or_else(|| Refusal::new("its runs of data overlap"))?;
                    self.work.packer.hole(&mut file, gap)?;
                    self.fill(&mut file, run.len)?;
                    at = run.at + run.len;
                }
                self.work.packer.hole(&mut file, map.size.saturating_sub(at))?;
                self.work.packer.end(node, file)?;
                self.work.gathered.slowest.end();
                self.work.gathered.files += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn fill(&mut self, file: &mut Incoming, len: u64) -> Result<(), Trouble> {
        let mut done = 0;
        while done < len {
            let room = usize::try_from(len - done).unwrap_or(usize::MAX).min(CHUNK);
            let count = self.archive.read(&mut self.buffer[..room])?;
            if count == 0 {
                return Err(Refusal::new("the archive is cut short").into());
            }
            self.work.packer.data(file, &self.buffer[..count])?;
            done += count as u64;
            self.work.gathered.bytes += count as u64;
            self.work.tick();
        }
        Ok(())
    }

    fn link(&mut self, dir: NodeId, name: Name<'_>, target: &[u8]) -> Result<(), Trouble> {
        let to = shown(target);
        let outside =
            |_| Refusal::new(format!("it is a hard link to {to}, outside of the archive"));
        let parts = parts(target).map_err(outside)?;
        if !self.is_wanted(&parts, false) {
            let what = format!("it is a hard link to {to}, which was left out");
            return Err(Refusal::new(what).into());
        }
        let mut found = Some((self.top, Kind::Directory));
        for part in parts {
            found = match found {
                Some((above, Kind::Directory)) => self.work.packer.find(above, part.bytes())?,
                _ => None,
            };
        }
        match found {
            None => {
                let what = format!("it is a hard link to {to}, which no earlier entry made");
                Err(Refusal::new(what).into())
            }
            Some((_, Kind::Directory)) => {
                let what = format!("it is a hard link to {to}, which is a directory");
                Err(Refusal::new(what).into())
            }
            Some((node, _)) => {
                let already = self.work.packer.find(dir, name.bytes())?;
                if already.is_none_or(|(present, _)| present != node) {
                    self.work.packer.link(dir, name.bytes(), node)?;
                }
                Ok(())
            }
        }
    }
}
