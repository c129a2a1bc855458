//! Many threads in one home, each with inodes of its own, as the locks above see to.

use std::sync::atomic::{AtomicBool, Ordering};

use esker::ground::Heap;
use esker::store::{Flow, Store, View};
use esker::{Attr, Cursor, Ino, Kind, Time};

use crate::chance::{Chance, offset};
use crate::model::{Model, Word, assert_same, attr, commit, start};

/// Writers in directories of their own, all sharing one file's space, while readers walk
/// everything.
#[test]
fn threads_do_not_disturb_each_other() {
    let (home, mut model) = start(Heap::new(), 1 << 40);
    let make = |model: &mut Model, kind, name: String| {
        let ino = home.next_ino(Ino::ROOT, kind);
        let made = Attr::new(kind, 0o755, 0, 0, Ino::ROOT, Time::default());
        let root = model.inodes[&Ino::ROOT].attr;
        let nlink = root.nlink + u32::from(kind == Kind::Directory);
        let words = [
            Word::Make(ino, made),
            Word::Link(Ino::ROOT, name, ino, kind),
            Word::Set(Ino::ROOT, Attr { nlink, ..root }),
        ];
        commit(&home, &words).unwrap();
        model.apply(&words).unwrap();
        ino
    };
    let dirs: Vec<Ino> =
        (0..4).map(|index| make(&mut model, Kind::Directory, format!("d{index}"))).collect();
    let common: Vec<Ino> =
        (0..4).map(|index| make(&mut model, Kind::File, format!("f{index}"))).collect();
    let bytes = Chance::new(5).bytes(90_000);
    commit(&home, &[Word::Write(common[0], 0, bytes.clone())]).unwrap();
    for &copy in &common[1..] {
        commit(&home, &[Word::Share(common[0], 0, copy, 0, 90_000)]).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let home = &home;
        let threads: Vec<_> = dirs
            .iter()
            .zip(&common)
            .enumerate()
            .map(|(index, (&dir, &file))| scope.spawn(move || work(home, dir, file, index as u64)))
            .collect();
        let walker = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for &dir in &dirs {
                    let mut after = Cursor::START;
                    home.entries(dir, Cursor::START, true, &mut |listed| {
                        assert!(listed.entry.seq > after);
                        after = listed.entry.seq;
                        Flow::Continue(())
                    })
                    .unwrap();
                }
            }
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, Ordering::Relaxed);
        walker.join().unwrap();
    });
    assert_eq!(home.check(), []);
}

/// One directory and one file that shares its space with others', against a model of its own.
fn work(home: &esker::memory::Home<Heap>, dir: Ino, shared: Ino, seed: u64) {
    let mut chance = Chance::new(seed + 77);
    let mut model = Model::default();
    let no_attr = home.attr(dir).unwrap();
    model
        .apply(&[Word::Make(dir, no_attr), Word::Make(shared, home.attr(shared).unwrap())])
        .unwrap();
    let bytes = crate::model::read_all(home, shared);
    model.apply(&[Word::Write(shared, 0, bytes)]).unwrap();
    let mut files = vec![shared];
    for round in 0..1500_u64 {
        let ino = files[chance.below(files.len() as u64) as usize];
        let at = offset(&mut chance, 5000).min(100_000);
        let words = match chance.below(8) {
            0 => {
                let ino = home.next_ino(dir, Kind::File);
                files.push(ino);
                let made = Word::Make(ino, attr(Kind::File, dir, round));
                vec![made, Word::Link(dir, format!("file{round}"), ino, Kind::File)]
            }
            1 if files.len() > 3 => {
                let ino = files.swap_remove(1);
                let entries = &model.inodes[&dir].entries;
                let name = entries.values().find(|entry| entry.1 == ino).unwrap().0.clone();
                vec![Word::Unlink(dir, name), Word::Drop(ino)]
            }
            2 => vec![Word::Punch(ino, at, at + 3000)],
            3 => vec![Word::Cut(ino, at)],
            4 => {
                let size = model.inodes[&shared].bytes.len() as u64;
                let target = files[files.len() - 1];
                if target == shared {
                    vec![]
                } else {
                    vec![Word::Share(shared, 0, target, 0, size)]
                }
            }
            _ => {
                let len = chance.below(9000) as usize;
                vec![Word::Write(ino, at, chance.bytes(len))]
            }
        };
        commit(home, &words).unwrap();
        model.apply(&words).unwrap();
        if round % 50 == 0 {
            model.inodes.keys().for_each(|&ino| assert_same(home, &model, ino));
        }
    }
    model.inodes.keys().for_each(|&ino| assert_same(home, &model, ino));
}
