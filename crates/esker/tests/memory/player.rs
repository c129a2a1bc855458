//! Random batches, taken by a home and by the model, which agree after each, or the home has refused it whole.
//!
//! Tests of other crates play over memories of theirs with it.

use std::collections::BTreeSet;
use std::rc::Rc;

use esker::ground::{Heap, Memory};
use esker::limits::PAGE_SIZE;
use esker::memory::{Base, Home, Options, Resident, Tuning};
use esker::store::Store;
use esker::{Attr, Error, Ino, Kind};

use crate::chance::{Chance, offset};
use crate::model::{Model, Word, assert_same, attr, commit, options, start};

/// Most inodes alive at once.
const INODES: usize = 30;
/// Largest file, in bytes.
const SIZE: u64 = 120_000;

/// A home and the model.
pub struct Player<B: Base> {
    pub home: Home<B>,
    model: Model,
    chance: Chance,
    refused: u64,
    ticks: bool,
    /// As it was when last compared.
    known: Model,
}

impl<B: Base> Player<B> {
    /// From where both begin.
    pub fn new((home, model): (Home<B>, Model), seed: u64) -> Self {
        println!("seed {seed}");
        let ticks = seed.is_multiple_of(2);
        let (chance, known) = (Chance::new(seed), Model::default());
        Self { home, model, chance, refused: 0, ticks, known }
    }

    /// Another home in the place of this, once that is gone: `open` finds it where that one was. What had no names
    /// goes.
    pub fn reopen(self, open: impl FnOnce() -> Home<B>) -> Self {
        let Self { home, model, chance, refused, ticks, known } = self;
        drop(home);
        let home = open();
        let mut player = Self { home, model, chance, refused, ticks, known };
        while !player.home.orphans().unwrap().is_empty() {
            player.home.drop_left_behind().unwrap();
        }
        player.model.inodes.retain(|_, inode| inode.attr.nlink > 0);
        player
    }

    fn some(&mut self, fits: impl Fn(&Attr) -> bool) -> Option<Ino> {
        let all = self.model.inodes.iter();
        let fitting: Vec<Ino> =
            all.filter(|(_, inode)| fits(&inode.attr)).map(|(&ino, _)| ino).collect();
        self.chance.pick(&fitting)
    }

    fn file(&mut self) -> Option<Ino> {
        self.some(|attr| matches!(attr.kind, Kind::File | Kind::Symlink))
    }

    fn name(&mut self) -> String {
        let len = match self.chance.below(8) {
            0 => 255,
            1 => 100,
            _ => 6,
        };
        format!("{:0len$}", self.chance.below(12))
    }

    fn names_of(&self, ino: Ino) -> Vec<(Ino, String)> {
        let mut names = Vec::new();
        for (&dir, inode) in &self.model.inodes {
            let all = inode.entries.values().filter(|entry| entry.1 == ino);
            names.extend(all.map(|entry| (dir, entry.0.clone())));
        }
        names
    }

    /// Words for an attribute change of a directory that gains or loses sub-directories.
    fn adjust(&self, ino: Ino, by: i32) -> Word {
        let attr = self.model.inodes[&ino].attr;
        Word::Set(ino, Attr { nlink: attr.nlink.wrapping_add_signed(by), ..attr })
    }

    /// A new inode under a new name, or without one.
    fn create(&mut self) -> Option<Vec<Word>> {
        let dir = self.some(|attr| attr.kind == Kind::Directory && attr.nlink > 0)?;
        let kinds = [Kind::File, Kind::File, Kind::Symlink, Kind::Directory, Kind::CharDevice];
        let kind = self.chance.pick(&kinds)?;
        let ino = self.home.next_ino(dir, kind);
        let name = self.name();
        let mut made = attr(kind, dir, self.chance.below(1000));
        let mut words = Vec::new();
        if self.chance.one_in(5) || self.model.inodes[&dir].entries.values().any(|e| e.0 == name) {
            made.nlink = 0;
            words.push(Word::Make(ino, made));
        } else {
            words.push(Word::Make(ino, made));
            words.push(Word::Link(dir, name, ino, kind));
            words.extend((kind == Kind::Directory).then(|| self.adjust(dir, 1)));
        }
        if kind == Kind::File && self.chance.one_in(2) {
            let len = offset(&mut self.chance, 0);
            words.push(Word::Write(ino, 0, self.chance.bytes(len as usize)));
        }
        Some(words)
    }

    /// Another name for a file, in the place of whatever file has it now.
    fn link(&mut self) -> Option<Vec<Word>> {
        let dir = self.some(|attr| attr.kind == Kind::Directory && attr.nlink > 0)?;
        let ino = self.some(|attr| attr.kind != Kind::Directory)?;
        let name = self.name();
        let old = self.model.inodes[&dir].entries.values().find(|entry| entry.0 == name);
        let old = old.map(|entry| (entry.1, entry.2));
        let kind = self.model.inodes[&ino].attr.kind;
        let mut words = vec![Word::Link(dir, name, ino, kind)];
        match old {
            Some((_, Kind::Directory)) => return None,
            Some((old, _)) if old == ino => {}
            Some((old, _)) => words.extend([self.adjust(ino, 1), self.adjust(old, -1)]),
            None => words.push(self.adjust(ino, 1)),
        }
        Some(words)
    }

    /// A name goes, and perhaps its inode.
    fn unlink(&mut self) -> Option<Vec<Word>> {
        let ino = self.some(|attr| attr.nlink > 0)?;
        let names = self.names_of(ino);
        let (dir, name) = names.first()?.clone();
        let inode = &self.model.inodes[&ino];
        let mut words = vec![Word::Unlink(dir, name)];
        if inode.attr.kind == Kind::Directory {
            if !inode.entries.is_empty() {
                return None;
            }
            words.extend([self.adjust(dir, -1), Word::Drop(ino)]);
        } else if names.len() == 1 && self.chance.one_in(2) {
            words.push(Word::Drop(ino));
        } else {
            words.push(self.adjust(ino, -1));
        }
        Some(words)
    }

    /// A name moves; what it replaces goes.
    fn rename(&mut self) -> Option<Vec<Word>> {
        let ino = self.some(|attr| attr.nlink > 0 && attr.kind != Kind::Directory)?;
        let (dir, name) = self.names_of(ino).first()?.clone();
        let to = self.some(|attr| attr.kind == Kind::Directory && attr.nlink > 0)?;
        let new = self.name();
        let taken = self.model.inodes[&to].entries.values().any(|entry| entry.0 == new);
        let kind = self.model.inodes[&ino].attr.kind;
        (!taken).then(|| vec![Word::Link(to, new, ino, kind), Word::Unlink(dir, name)])
    }

    fn orphan(&mut self) -> Option<Vec<Word>> {
        let ino = self.some(|attr| attr.nlink == 0)?;
        Some(vec![Word::Drop(ino)])
    }

    fn content(&mut self) -> Option<Word> {
        let ino = self.file()?;
        let size = self.model.inodes[&ino].bytes.len() as u64;
        let at = offset(&mut self.chance, size).min(SIZE);
        let len = offset(&mut self.chance, 2000).min(SIZE - at);
        Some(match self.chance.below(14) {
            0..5 => Word::Write(ino, at, self.chance.bytes(len as usize)),
            5 => Word::Write(ino, size.min(SIZE), self.chance.bytes(700)),
            6 if self.chance.one_in(3) => Word::Cut(ino, size),
            6 | 7 => Word::Cut(ino, at),
            8 | 9 => Word::Punch(ino, at, at + len),
            10 => Word::Reserve(ino, at, at + len),
            11 | 12 => self.share(ino)?,
            _ => {
                let name = format!("user.{}", self.chance.below(4));
                let len = offset(&mut self.chance, 0).min(65536) as usize;
                let value = (!self.chance.one_in(4)).then(|| self.chance.bytes(len));
                Word::Xattr(ino, name, value)
            }
        })
    }

    fn share(&mut self, ino: Ino) -> Option<Word> {
        let source = self.file()?;
        let size = self.model.inodes[&source].bytes.len() as u64;
        let from = offset(&mut self.chance, size / 2).min(size);
        let len = match self.chance.below(2) {
            0 => size - from,
            _ => offset(&mut self.chance, size / 3).min(size - from),
        };
        let at = offset(&mut self.chance, from).min(SIZE);
        // As often as not equally aligned.
        let at = if self.chance.one_in(3) { at } else { at / 512 * 512 + from % 512 };
        let overlap = source == ino && from < at + len && at < from + len;
        (!overlap && at + len <= SIZE * 2).then_some(Word::Share(source, from, ino, at, len))
    }

    /// Something with names, then content of any files; now and then a last word that must fail.
    fn batch(&mut self) -> Vec<Word> {
        let few = self.model.inodes.len() < INODES;
        let structure = match self.chance.below(9) {
            0 | 1 if few => self.create(),
            2 => self.link(),
            3 => self.unlink(),
            4 => self.rename(),
            5 if self.chance.one_in(2) => self.orphan(),
            _ => None,
        };
        let mut words = structure.unwrap_or_default();
        let dropped: BTreeSet<Ino> = words.iter().filter_map(dropped).collect();
        for _ in 0..self.chance.below(4) {
            // Later words build on earlier ones: sizes are those of the model so far.
            let mut ahead = self.model.clone();
            if words.len() < 7 && ahead.apply(&words).is_ok() {
                let now = std::mem::replace(&mut self.model, ahead);
                words.extend(self.content().filter(|word| !touches(word, &dropped)));
                self.model = now;
            }
        }
        if self.chance.one_in(20) {
            words.push(Word::Unlink(Ino::ROOT, "never there".into()));
        }
        words
    }

    pub fn round(&mut self) {
        let words = self.batch();
        let mut next = self.model.clone();
        let expected = next.apply(&words);
        // In half of the games time passes, and what was freed rests for a while.
        if self.chance.below(4) == 0 && self.ticks {
            self.home.tick().unwrap();
        }
        let result = commit(&self.home, &words);
        match (result, expected) {
            (Err(Error::NoSpace), _) => self.refused += 1,
            _ => assert_eq!(result, expected, "{words:?}"),
        }
        if result.is_ok() {
            self.model = next;
        }
    }

    /// Everything, or what changed since the last time.
    pub fn compare(&mut self, all: bool) {
        for (&ino, inode) in &self.model.inodes {
            let known = self.known.inodes.get(&ino).is_some_and(|known| Rc::ptr_eq(known, inode));
            if all || !known {
                assert_same(&self.home, &self.model, ino);
            }
        }
        self.known = self.model.clone();
        assert_eq!(self.home.check(), []);
        let orphans = self.model.inodes.iter().filter(|(_, inode)| inode.attr.nlink == 0);
        let orphans: BTreeSet<Ino> = orphans.map(|(&ino, _)| ino).collect();
        assert_eq!(self.home.orphans().unwrap().into_iter().collect::<BTreeSet<_>>(), orphans);
    }

    /// Everything goes, leaves first, and so does all space.
    pub fn empty(mut self, empty: u64) {
        while let Some(ino) = self
            .model
            .inodes
            .keys()
            .copied()
            .find(|&ino| ino != Ino::ROOT && self.model.inodes[&ino].entries.is_empty())
        {
            let attr = self.model.inodes[&ino].attr;
            let mut gone: Vec<Word> = Vec::new();
            for (dir, name) in self.names_of(ino) {
                gone.push(Word::Unlink(dir, name));
                if attr.kind == Kind::Directory {
                    gone.push(self.adjust(dir, -1));
                }
            }
            gone.push(Word::Drop(ino));
            for words in gone.chunks(8) {
                assert_eq!(commit(&self.home, words), Ok(()), "a home can always be emptied");
                self.model.apply(words).unwrap();
            }
        }
        self.compare(true);
        let usage = self.home.usage();
        assert_eq!(usage.data, 0);
        // Free pages are kept at hand, few of them; none where time has passed without a change.
        let kept = if B::LASTING { 100 * PAGE_SIZE as u64 } else { 0 };
        let least = if self.ticks { PAGE_SIZE as u64 } else { empty };
        assert!((least..=empty + kept).contains(&usage.used), "{usage:?}");
    }
}

fn dropped(word: &Word) -> Option<Ino> {
    if let Word::Drop(ino) = word { Some(*ino) } else { None }
}

fn touches(word: &Word, inos: &BTreeSet<Ino>) -> bool {
    match word {
        Word::Share(source, _, ino, ..) => inos.contains(source) || inos.contains(ino),
        Word::Write(ino, ..) | Word::Cut(ino, _) | Word::Xattr(ino, ..) => inos.contains(ino),
        Word::Punch(ino, ..) | Word::Reserve(ino, ..) => inos.contains(ino),
        _ => false,
    }
}

/// Plays so many batches and compares after some; how many were refused.
pub fn play_on<B: Base>(start: (Home<B>, Model), seed: u64, rounds: u32, every: u32) -> u64 {
    let mut player = Player::new(start, seed);
    let empty = player.home.usage().used;
    for round in 0..rounds {
        player.round();
        if round % every == 0 {
            player.compare(round % 64 == 0);
        }
    }
    player.compare(true);
    let refused = player.refused;
    player.empty(empty);
    refused
}

/// Plays so many batches, and an upgrade after each: everything is found again from the bytes that `memory` gives anew.
pub fn play_anew<M: Memory>(memory: impl Fn() -> M, seed: u64, rounds: u32) {
    let open = || Home::<Resident<M>>::open(memory(), &options(u64::MAX)).unwrap();
    let mut player = Player::new((open(), Model::new(options(0).root)), seed);
    let empty = player.home.usage().used;
    for round in 0..rounds {
        player.round();
        player = player.reopen(open);
        player.compare(round % 32 == 0);
    }
    player.empty(empty);
}

/// Plays so many batches in each of some homes, each made of the one before it: every one is as if it were new.
pub fn play_again(seed: u64, homes: u64, rounds: u32) {
    let (mut start, new) = (start(Heap::new(), 1_000_000), start(Heap::new(), 1_000_000).0);
    for number in 0..homes {
        let mut player = Player::new(start, seed * homes + number);
        (0..rounds).for_each(|_| player.round());
        player.compare(true);
        let options = options(1_000_000);
        let again = player.home.again(|| Ok(Heap::new()), &options).unwrap();
        assert_eq!(again.usage(), new.usage());
        start = (again, Model::new(options.root));
    }
    let numbers = |home: &Home<Heap>| {
        [Kind::File, Kind::Directory].map(|kind| home.next_ino(Ino::ROOT, kind))
    };
    assert_eq!(numbers(&start.0), numbers(&new));
    assert_eq!(start.0.check(), []);
}

/// Where random batches begin: at `ESKER_SEED`, to replay or to search on.
pub fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("ESKER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    first..first + 4
}

/// A home that lies in its memory as a whole, with so many pages at hand.
pub fn embedded<M: Memory>(memory: M, size_max: u64, cache: usize) -> (Home<Resident<M>>, Model) {
    let options = options(size_max);
    tuned(memory, &options, &Tuning { cache_pages: cache, ..Tuning::USUAL })
}

/// The same, used otherwise.
pub fn tuned<M: Memory>(
    memory: M,
    options: &Options,
    tuning: &Tuning,
) -> (Home<Resident<M>>, Model) {
    let home = Home::<Resident<M>>::open_with(memory, options, tuning).unwrap();
    (home, Model::new(options.root))
}
