//! A stream of a tree, or of what is different between two.
//!
//! Above: the command. Below: `gather`, `differ`. An inode is the same in both by its number, so what was only renamed
//! is not told again. Invariant: in each step words are in an order in which they can be done: what is in a directory
//! leaves before that does, and a directory has its name before what is in it.

use std::collections::{HashMap, HashSet};

use esker::{Flags, Ino, Kind};

use super::differ::{Stopped, Two};
use super::frame::{Frame, Mark};
use super::gather::{Names, Order};
use super::opening::{Moment, Opening};
use super::pieces::Compared;
use super::words::Word;
use super::{Error, FULL, PATH, Result, Step};

/// A tree of which a stream tells.
pub struct Tree<'a> {
    /// What it holds.
    pub view: &'a dyn Compared,
    /// What it is.
    pub moment: Moment,
}

/// Gathers words into frames.
struct Framing<'a> {
    step: Step,
    plain: Vec<u8>,
    mark: Mark,
    give: &'a mut dyn FnMut(Frame) -> Result<()>,
}

impl Framing<'_> {
    fn say(&mut self, step: Step, word: &Word<'_>) -> Result<()> {
        let of = if let Word::Link { of, .. } = word { *of } else { &[] };
        if word.path().len().max(of.len()) > PATH {
            return Err(Error::Source(word.path().to_vec(), esker::Error::NameTooLong));
        }
        if step != self.step {
            self.flush()?;
            self.step = step;
        }
        word.encode(&mut self.plain);
        if self.plain.len() >= FULL { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.plain.is_empty() {
            return Ok(());
        }
        let (number, plain) = (self.mark.frames, std::mem::take(&mut self.plain));
        self.mark = self.mark.after(self.step, &plain);
        (self.give)(Frame { number, step: self.step, plain, chain: self.mark.chain })
    }
}

struct Sending<'a, 'b> {
    now: &'a dyn Compared,
    old: Option<&'a dyn Compared>,
    /// Whether what must be free to be changed is told, and made as it was afterwards.
    frees: bool,
    /// Directories that are in both, and in which names come or go.
    touched: HashSet<Ino>,
    /// Files of which some name comes or goes, with a name that stays, if there is one.
    moved: HashMap<Ino, Option<Vec<u8>>>,
    out: Framing<'b>,
}

/// Gives all frames of a stream of `now`, as it differs from `since`.
///
/// # Errors
/// `Source`; what `give` says.
pub fn send(
    now: &Tree<'_>,
    since: Option<&Tree<'_>>,
    give: &mut dyn FnMut(Frame) -> Result<()>,
) -> Result<()> {
    let names = Names::of(now.view)?;
    let old = since.map(|tree| Names::of(tree.view)).transpose()?;
    let bytes = old.as_ref().map_or(0, |old| old.bytes).saturating_add(names.bytes);
    let moment = |tree: &Tree<'_>, names: &Names| Moment { tree: names.hash, ..tree.moment };
    let base = since.zip(old.as_ref()).map(|(tree, names)| moment(tree, names));
    let opening = Opening::new(&moment(now, &names), base.as_ref(), bytes);
    let plain = opening.encode().to_vec();
    let out = Framing { step: Step::Open, plain, mark: Mark::default(), give };
    let mut sending = Sending::new(now.view, since.map(|tree| tree.view), out);
    sending.all(&names, old.as_ref())?;
    sending.out.say(Step::End, &Word::End)?;
    sending.out.flush()
}

/// Whether two states of a tree show the same.
///
/// # Errors
/// `Source`.
pub fn is_like(now: &dyn Compared, old: &dyn Compared) -> Result<bool> {
    let mut give = |_: Frame| Err(Error::Changed(Vec::new()));
    let (step, mark) = (Step::Open, Mark::default());
    let out = Framing { step, plain: Vec::new(), mark, give: &mut give };
    let mut sending = Sending::new(now, Some(old), out);
    sending.frees = false;
    let (now, old) = (Names::of(now)?, Names::of(old)?);
    match sending.all(&now, Some(&old)).and_then(|()| sending.out.flush()) {
        Err(Error::Changed(_)) => Ok(false),
        done => done.map(|()| true),
    }
}

impl<'a, 'b> Sending<'a, 'b> {
    fn new(now: &'a dyn Compared, old: Option<&'a dyn Compared>, out: Framing<'b>) -> Self {
        let (touched, moved) = (HashSet::new(), HashMap::new());
        Self { now, old, frees: true, touched, moved, out }
    }

    fn all(&mut self, now: &Names, old: Option<&Names>) -> Result<()> {
        if let Some(old) = old {
            self.survey(now, old)?;
            self.clear(now, old)?;
        }
        let known = Known::of(old)?;
        self.place(now, old, &known)?;
        self.fill(now, &known)?;
        self.finish(now, &known)?;
        self.flag(now, &known)
    }

    /// Which names come and go.
    fn survey(&mut self, now: &Names, old: &Names) -> Result<()> {
        for (own, other) in [(old, now), (now, old)] {
            own.walk(Order::First, &mut |met| {
                if !other.has(met.dir, met.child) {
                    if other.has_dir(met.dir) {
                        self.touched.insert(met.dir);
                    }
                    if met.child.kind != Kind::Directory {
                        self.moved.insert(met.child.ino, None);
                    }
                }
                Ok(())
            })?;
        }
        now.walk(Order::First, &mut |met| {
            if let Some(stays) = self.moved.get_mut(&met.child.ino).filter(|own| own.is_none())
                && old.has(met.dir, met.child)
            {
                *stays = Some(met.path.to_vec());
            }
            Ok(())
        })
    }

    /// What is gone goes, and what gets another name is laid aside.
    fn clear(&mut self, now: &Names, old: &Names) -> Result<()> {
        let out = &mut self.out;
        let mut free = |flags: Flags, path: &[u8]| match self.frees && is_fixed(flags) {
            true => out.say(Step::Clear, &Word::Free { path }),
            false => Ok(()),
        };
        free(old.root, &[])?;
        old.inodes(&mut |met| free(met.child.flags, met.path))?;
        let mut lives = HashSet::new();
        now.walk(Order::First, &mut |met| {
            if self.moved.contains_key(&met.child.ino) || met.child.kind == Kind::Directory {
                lives.insert(met.child.ino);
            }
            Ok(())
        })?;
        let mut taken = HashSet::new();
        old.walk(Order::Last, &mut |met| {
            let (path, child) = (met.path, met.child);
            if now.has(met.dir, child) {
                return Ok(());
            }
            let stays = self.moved.get(&child.ino).is_some_and(Option::is_some);
            let ino = child.ino.0;
            if lives.contains(&child.ino) && !stays && taken.insert(ino) {
                return out.say(Step::Clear, &Word::Take { ino, path });
            }
            let dir = child.kind == Kind::Directory;
            out.say(Step::Clear, &Word::Remove { dir, path })
        })
    }

    /// Everything gets its names; further ones last.
    fn place(&mut self, now: &Names, old: Option<&Names>, known: &Known) -> Result<()> {
        let (view, out) = (self.now, &mut self.out);
        let mut first: HashMap<Ino, Vec<u8>> = HashMap::new();
        let mut later: Vec<(Ino, Vec<u8>)> = Vec::new();
        for (ino, stays) in self.moved.drain() {
            first.extend(stays.map(|path| (ino, path)));
        }
        now.walk(Order::First, &mut |met| {
            let (path, child) = (met.path, met.child);
            let ino = child.ino;
            if old.is_some_and(|old| old.has(met.dir, child)) {
                return Ok(());
            }
            if first.contains_key(&ino) {
                later.push((ino, path.to_vec()));
                return Ok(());
            }
            if child.linked {
                first.insert(ino, path.to_vec());
            }
            if known.has(ino) {
                return out.say(Step::Place, &Word::Place { ino: ino.0, path });
            }
            let two = Two { now: view, old: None, ino, path };
            let told = two.make(child.kind, &mut |word| out.say(Step::Place, word));
            told.map_err(|error| stopped(error, path))
        })?;
        for (ino, path) in &later {
            let Some(of) = first.get(ino) else { continue };
            out.say(Step::Place, &Word::Link { of, path })?;
        }
        Ok(())
    }

    /// An inode as it is, beside what it was.
    fn two<'p>(&self, ino: Ino, path: &'p [u8], known: &Known) -> Two<'p>
    where
        'a: 'p,
    {
        Two { now: self.now, old: self.old.filter(|_| known.has(ino)), ino, path }
    }

    /// Files get their bytes, and all but directories their attributes.
    fn fill(&mut self, now: &Names, known: &Known) -> Result<()> {
        now.inodes(&mut |met| {
            let kind = met.child.kind;
            if kind == Kind::Directory {
                return Ok(());
            }
            let two = self.two(met.child.ino, met.path, known);
            let out = &mut self.out;
            let mut tell = |word: &Word<'_>| out.say(Step::Fill, word);
            let bytes = if kind == Kind::File { two.bytes(&mut tell) } else { Ok(false) };
            let told = bytes.and_then(|any| two.meta(any, &mut tell));
            told.map_err(|error| stopped(error, met.path))
        })
    }

    /// Directories get their attributes, the deepest first.
    fn finish(&mut self, now: &Names, known: &Known) -> Result<()> {
        let one = |own: &mut Self, ino: Ino, path: &[u8]| {
            let two = own.two(ino, path, known);
            let anyway = own.touched.contains(&ino);
            let out = &mut own.out;
            let told = two.meta(anyway, &mut |word| out.say(Step::Finish, word));
            told.map_err(|error| stopped(error, path))
        };
        now.walk(Order::Last, &mut |met| match met.child.kind {
            Kind::Directory => one(self, met.child.ino, met.path),
            _ => Ok(()),
        })?;
        one(self, Ino::ROOT, &[])
    }

    /// Flags, of those that have some or had.
    fn flag(&mut self, now: &Names, known: &Known) -> Result<()> {
        let out = &mut self.out;
        let mut one = |ino: Ino, flags: Flags, path: &[u8]| {
            let had = known.flags(ino);
            match flags != had || self.frees && is_fixed(had) {
                true => out.say(Step::Flag, &Word::Flag { flags, path }),
                false => Ok(()),
            }
        };
        now.inodes(&mut |met| one(met.child.ino, met.child.flags, met.path))?;
        one(Ino::ROOT, now.root, &[])
    }
}

/// Whether these forbid change.
const fn is_fixed(flags: Flags) -> bool {
    flags.0 & (Flags::IMMUTABLE.0 | Flags::APPEND.0) != 0
}

fn stopped(error: Stopped, path: &[u8]) -> Error {
    match error {
        Stopped::Source(error) => Error::Source(path.to_vec(), error),
        Stopped::Listener(error) => error,
    }
}

/// Inodes that were there before, with their flags.
struct Known(HashMap<Ino, Flags>);

impl Known {
    fn of(names: Option<&Names>) -> Result<Self> {
        let mut own = HashMap::new();
        if let Some(names) = names {
            own.insert(Ino::ROOT, names.root);
            names.walk(Order::First, &mut |met| {
                own.insert(met.child.ino, met.child.flags);
                Ok(())
            })?;
        }
        Ok(Self(own))
    }

    fn has(&self, ino: Ino) -> bool {
        self.0.contains_key(&ino)
    }

    fn flags(&self, ino: Ino) -> Flags {
        self.0.get(&ino).copied().unwrap_or_default()
    }
}
