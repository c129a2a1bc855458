//! Names of files, and files without any.

use esker::posix::OpenFlags;
use esker::{Error, Ino};

use crate::explore::{all, both, explore};
use crate::tree::Tree;

const ROOT: Ino = Ino::ROOT;

#[test]
fn two_files_change_places_one_after_the_other() {
    explore(|| {
        let tree = Tree::new();
        let (a, b) = (tree.mkdir(ROOT, "a"), tree.mkdir(ROOT, "b"));
        let (x, y) = (tree.file(a, "x"), tree.file(b, "y"));
        let moved = both(|| tree.rename((a, "x"), (b, "y")), || tree.rename((b, "y"), (a, "x")));
        assert_eq!(moved, (Ok(()), Ok(())));
        match (tree.find(a, "x"), tree.find(b, "y")) {
            (Ok(left), Err(Error::NotFound)) => assert_eq!(left, x),
            (Err(Error::NotFound), Ok(left)) => assert_eq!(left, y),
            found => panic!("{found:?}"),
        }
        tree.end();
    });
}

#[test]
fn exchanges_undo_each_other() {
    explore(|| {
        let tree = Tree::new();
        let (a, b) = (tree.mkdir(ROOT, "a"), tree.mkdir(ROOT, "b"));
        let (x, y) = (tree.file(a, "x"), tree.mkdir(b, "y"));
        let moved =
            both(|| tree.exchange((a, "x"), (b, "y")), || tree.exchange((b, "y"), (a, "x")));
        assert_eq!(moved, (Ok(()), Ok(())));
        assert_eq!((tree.find(a, "x"), tree.find(b, "y")), (Ok(x), Ok(y)));
        tree.end();
    });
}

#[test]
fn a_name_that_is_replaced_is_always_there() {
    explore(|| {
        let tree = Tree::new();
        let dir = tree.mkdir(ROOT, "dir");
        let (new, old) = (tree.file(ROOT, "new"), tree.file(dir, "name"));
        let (moved, found, list) = all(
            || tree.rename((ROOT, "new"), (dir, "name")),
            || tree.find(dir, "name").expect("one of them"),
            || tree.list(dir, true).expect("a listing"),
        );
        assert_eq!(moved, Ok(()));
        assert!([new, old].contains(&found), "{found:?}");
        assert_eq!(list.len(), 1);
        tree.end();
    });
}

#[test]
fn what_is_held_lives_without_a_name() {
    explore(|| {
        let tree = Tree::new();
        let file = tree.file(ROOT, "file");
        tree.write(file, 0, &[1; 2000]).expect("space");
        let (gone, (), found) = all(
            || tree.unlink(ROOT, "file"),
            || {
                let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
                let caller = &esker::posix::Caller::ROOT;
                tree.fs.open(caller, file, flags).expect("it is held");
                tree.write(file, 100, b"here").expect("it is held");
                tree.let_go(file);
            },
            || tree.find(ROOT, "file").map(|found| assert_eq!(tree.read(found).len(), 2000)),
        );
        assert_eq!(gone, Ok(()));
        assert!(matches!(found, Ok(()) | Err(Error::NotFound)), "{found:?}");
        tree.end();
    });
}

#[test]
fn the_last_hold_and_the_last_name_go_at_once() {
    explore(|| {
        let tree = Tree::new();
        let file = tree.file(ROOT, "file");
        let held = tree.find(ROOT, "file").expect("it is there");
        let (gone, (), ()) = all(
            || tree.unlink(ROOT, "file"),
            || {
                tree.let_go(file);
                tree.let_go(held);
            },
            // By its number alone, as a server of exports does.
            || {
                if let Ok(node) = tree.fs.hold(file) {
                    tree.keep(node);
                }
            },
        );
        assert_eq!(gone, Ok(()));
        tree.end();
    });
}

#[test]
fn a_further_name_comes_before_the_last_one_goes_or_not_at_all() {
    explore(|| {
        let tree = Tree::new();
        let dir = tree.mkdir(ROOT, "dir");
        let file = tree.file(ROOT, "file");
        let (linked, gone) = both(|| tree.link(file, dir, "other"), || tree.unlink(ROOT, "file"));
        assert_eq!(gone, Ok(()));
        assert_eq!(tree.find(dir, "other").map(|found| assert_eq!(found, file)), linked);
        let nlink = tree.fs.getattr(file).expect("it is held").nlink;
        match linked {
            Ok(()) => assert_eq!(nlink, 1),
            refused => assert_eq!((refused, nlink), (Err(Error::NotFound), 0)),
        }
        tree.end();
    });
}

#[test]
fn links_and_removals_of_one_file_are_all_counted() {
    explore(|| {
        let tree = Tree::new();
        let (a, b) = (tree.mkdir(ROOT, "a"), tree.mkdir(ROOT, "b"));
        let file = tree.file(ROOT, "file");
        tree.link(file, ROOT, "more").expect("a link");
        let done = all(
            || tree.link(file, a, "x"),
            || tree.link(file, b, "x"),
            || tree.unlink(ROOT, "more"),
        );
        assert_eq!(done, (Ok(()), Ok(()), Ok(())));
        assert_eq!(tree.fs.getattr(file).expect("it is held").nlink, 3);
        tree.end();
    });
}

#[test]
fn a_nameless_file_gets_a_name_while_it_is_let_go_of() {
    explore(|| {
        let tree = Tree::new();
        let file = tree.tmpfile(ROOT);
        let again = tree.fs.hold(file).map(|node| tree.keep(node)).expect("it is held");
        let (linked, (), ()) = all(
            || {
                let linked = tree.link(file, ROOT, "file");
                tree.let_go(again);
                linked
            },
            || tree.let_go(file),
            || tree.write(file, 0, &[5; 1000]).expect("it is held"),
        );
        assert_eq!(linked, Ok(()));
        tree.end();
    });
}

#[test]
fn one_name_is_made_once() {
    explore(|| {
        let tree = Tree::new();
        let file = tree.file(ROOT, "file");
        let done = all(
            || tree.make(ROOT, "name", esker::Kind::File).map(drop),
            || tree.link(file, ROOT, "name"),
            || tree.make(ROOT, "name", esker::Kind::Directory).map(drop),
        );
        let done = [done.0, done.1, done.2];
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{done:?}");
        let refused = done.iter().filter(|done| **done == Err(Error::Exists)).count();
        assert_eq!(refused, 2, "{done:?}");
        tree.end();
    });
}
