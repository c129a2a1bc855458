//! A little of everything, and where growth may fail in it: for memories of any kind.
//!
//! Tests of other crates tell it to memories of theirs.

use std::cell::Cell;
use std::rc::Rc;

use esker::ground::Memory;
use esker::memory::{Home, OpenError, Resident, Tuning};
use esker::{Attr, Error, Ino, Kind};

use crate::model::{Model, Word, assert_same, attr, commit, options};

pub const TUNING: Tuning = Tuning { cache_pages: 16, ..Tuning::USUAL };

pub type Embedded<M> = Home<Resident<M>>;

pub fn open<M: Memory>(memory: M) -> Result<Embedded<M>, OpenError> {
    Home::<Resident<M>>::open_with(memory, &options(u64::MAX), &TUNING)
}

/// A little of everything, as batches.
pub fn story() -> Vec<Vec<Word>> {
    let dir = Ino(2);
    let name = |number: u64| format!("file{number}");
    let mut story = vec![vec![
        Word::Make(dir, attr(Kind::Directory, Ino::ROOT, 1)),
        Word::Link(Ino::ROOT, "dir".into(), dir, Kind::Directory),
        Word::Set(Ino::ROOT, Attr { nlink: 3, ..options(0).root }),
    ]];
    for number in 0..40 {
        let ino = Ino(3 + number);
        story.push(vec![
            Word::Make(ino, attr(Kind::File, dir, number)),
            Word::Link(dir, name(number), ino, Kind::File),
            Word::Write(ino, number * 100, vec![7; 300 * number as usize]),
        ]);
    }
    for number in 0..20 {
        let (ino, other) = (Ino(3 + number * 2), Ino(4 + number * 2));
        story.push(vec![Word::Write(ino, 10_000, vec![9; 30_000])]);
        story.push(vec![Word::Share(ino, 0, other, 512, 20_000), Word::Cut(ino, 7_777)]);
        story.push(vec![Word::Xattr(other, "user.a".into(), Some(vec![1; 2000]))]);
        story.push(vec![Word::Unlink(dir, name(number * 2)), Word::Drop(ino)]);
    }
    story
}

/// Growth fails at every point in turn, in a memory whose `nth` growth fails and which tells how many there were: the
/// batch is refused whole, and the next one finds everything in order.
pub fn fails_in_turn(fresh: impl Fn(u64) -> (Box<dyn Memory>, Rc<Cell<u64>>)) {
    let mut refused = 0;
    for nth in 1.. {
        let (memory, calls) = fresh(nth);
        let opened = (0..40).find_map(|_| match open(&memory) {
            Ok(home) => Some(home),
            Err(error) => {
                assert_eq!(error, OpenError::Memory(Error::NoSpace));
                refused += 1;
                None
            }
        });
        let home = opened.expect("growth fails a few times in a row");
        let mut model = Model::new(options(0).root);
        for words in story() {
            let before = model.clone();
            model.apply(&words).unwrap();
            if commit(&home, &words) == Err(Error::NoSpace) {
                refused += 1;
                model = before;
                assert_eq!(home.check(), []);
                model.inodes.keys().for_each(|&ino| assert_same(&home, &model, ino));
                // Growth fails a few times in a row.
                assert!((0..40).any(|_| commit(&home, &words).is_ok()), "refused for ever");
                model.apply(&words).unwrap();
            }
        }
        assert_eq!(home.check(), []);
        model.inodes.keys().for_each(|&ino| assert_same(&home, &model, ino));
        if calls.get() < nth {
            assert!(nth > 4 && refused > nth, "{refused} refused, of {nth} growths");
            return;
        }
    }
}
