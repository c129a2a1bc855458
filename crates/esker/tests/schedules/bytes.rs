//! Content, and the space it takes.

use esker::posix::{Caller, SetAttr};
use esker::{Error, Ino};

use crate::explore::{all, both, explore};
use crate::tree::Tree;

const ROOT: Ino = Ino::ROOT;

fn truncate(tree: &Tree, ino: Ino, len: u64) {
    let set = SetAttr { size: Some(len), ..SetAttr::default() };
    tree.fs.setattr(&Caller::ROOT, ino, &set).expect("it can be cut");
}

fn written(mut bytes: Vec<u8>, at: usize, source: &[u8]) -> Vec<u8> {
    bytes.resize(bytes.len().max(at + source.len()), 0);
    bytes[at..at + source.len()].copy_from_slice(source);
    bytes
}

fn cut(mut bytes: Vec<u8>, len: usize) -> Vec<u8> {
    bytes.resize(len, 0);
    bytes
}

#[test]
fn a_read_sees_whole_writes() {
    explore(|| {
        let tree = Tree::new();
        let file = tree.file(ROOT, "file");
        let old = vec![1; 3000];
        tree.write(file, 0, &old).expect("space");
        let new = [2; 2700];
        let (read, (), ()) = all(
            || tree.read(file),
            || tree.write(file, 1000, &new).expect("space"),
            || truncate(&tree, file, 500),
        );
        let writes = written(old.clone(), 1000, &new);
        let ends = [cut(writes.clone(), 500), written(cut(old.clone(), 500), 1000, &new)];
        assert!(ends.contains(&tree.read(file)), "what is left is neither order's");
        let before = [old.clone(), writes, cut(old, 500)];
        assert!(before.contains(&read) || ends.contains(&read), "a read in the middle of a change");
        tree.end();
    });
}

#[test]
fn appends_in_a_small_file_are_whole() {
    explore(|| {
        let tree = Tree::new();
        let file = tree.file(ROOT, "file");
        let (read, (), ()) = all(
            || tree.read(file),
            || tree.write(file, 0, &[1; 300]).expect("space"),
            || tree.write(file, 200, &[2; 600]).expect("space"),
        );
        let (one, two) = (written(vec![], 0, &[1; 300]), written(vec![], 200, &[2; 600]));
        let ends = [written(one.clone(), 200, &[2; 600]), written(two.clone(), 0, &[1; 300])];
        assert!(ends.contains(&tree.read(file)));
        assert!(read.is_empty() || read == one || read == two || ends.contains(&read));
        tree.end();
    });
}

#[test]
fn shared_space_parts_when_it_is_written() {
    explore(|| {
        let tree = Tree::new();
        let dir = tree.mkdir(ROOT, "dir");
        let (one, two) = (tree.file(ROOT, "one"), tree.file(dir, "two"));
        let old = vec![1; 2048];
        tree.write(one, 0, &old).expect("space");
        let copied = tree.fs.copy_range(&Caller::ROOT, (one, 0), (two, 0), 2048);
        assert_eq!(copied, Ok(2048));
        let (new, newer) = ([2; 700], [3; 600]);
        let ((), (), gone) = all(
            || tree.write(one, 100, &new).expect("space"),
            || tree.write(two, 600, &newer).expect("space"),
            || {
                let three = tree.file(ROOT, "three");
                let copied = tree.fs.copy_range(&Caller::ROOT, (two, 0), (three, 0), 2048);
                assert_eq!(copied, Ok(2048));
                let bytes = tree.read(three);
                tree.unlink(ROOT, "three").expect("it is there");
                tree.let_go(three);
                bytes
            },
        );
        assert_eq!(tree.read(one), written(old.clone(), 100, &new));
        assert_eq!(tree.read(two), written(old.clone(), 600, &newer));
        assert!(gone == old || gone == written(old, 600, &newer));
        tree.end();
    });
}

#[test]
fn copies_in_both_directions_do_not_wait_for_each_other() {
    explore(|| {
        let tree = Tree::new();
        let (one, two) = (tree.file(ROOT, "one"), tree.file(tree.mkdir(ROOT, "dir"), "two"));
        tree.write(one, 0, &[1; 1024]).expect("space");
        tree.write(two, 0, &[2; 1024]).expect("space");
        let copy = |from, to| tree.fs.copy_range(&Caller::ROOT, (from, 0), (to, 0), 1024);
        assert_eq!(both(|| copy(one, two), || copy(two, one)), (Ok(1024), Ok(1024)));
        let bytes = tree.read(one);
        assert!(bytes == [1; 1024] || bytes == [2; 1024]);
        assert_eq!(tree.read(two), bytes);
        tree.end();
    });
}

#[test]
fn whoever_finds_no_space_changes_nothing() {
    explore(|| {
        // Little more than the trees need.
        let tree = Tree::of_size(200 << 10);
        let dir = tree.mkdir(ROOT, "dir");
        let files = [tree.file(ROOT, "one"), tree.file(dir, "two")];
        let write = |index: usize| tree.write(files[index], 0, &vec![7; 90 << 10]);
        let (one, two, three) = all(
            || write(0),
            || write(1),
            || match tree.make(dir, "three", esker::Kind::File) {
                Ok(_) => tree.unlink(dir, "three"),
                refused => refused.map(drop),
            },
        );
        for (file, outcome) in files.into_iter().zip([one, two]) {
            let size = tree.fs.getattr(file).expect("it is held").size;
            match outcome {
                Ok(()) => assert_eq!(size, 90 << 10),
                refused => assert_eq!((refused, size), (Err(Error::NoSpace), 0)),
            }
        }
        assert!(one.is_ok() || two.is_ok(), "there is space for one: {one:?}, {two:?}");
        assert!(matches!(three, Ok(()) | Err(Error::NoSpace)), "{three:?}");
        tree.end();
    });
}
