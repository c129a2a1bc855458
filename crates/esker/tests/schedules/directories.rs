//! Directories that move, come and go.

use esker::{Error, Ino, Kind, Result};

use crate::explore::{all, both, explore};
use crate::tree::Tree;

const ROOT: Ino = Ino::ROOT;

/// A directory in each of the root's `parents`, and one in each of those: no two calls that move one of
/// them into another's innermost have an inode in common.
fn branches<const N: usize>(tree: &Tree, parents: [&str; N]) -> [(Ino, Ino); N] {
    parents.map(|name| {
        let parent = tree.mkdir(ROOT, name);
        (parent, tree.mkdir(tree.mkdir(parent, name), "in"))
    })
}

#[test]
fn two_directories_do_not_end_up_in_each_other() {
    explore(|| {
        let tree = Tree::new();
        let [(p, a), (q, b)] = branches(&tree, ["a", "b"]);
        let moved = both(|| tree.rename((p, "a"), (b, "a")), || tree.rename((q, "b"), (a, "b")));
        let fair = [(Ok(()), Err(Error::Invalid)), (Err(Error::Invalid), Ok(()))];
        assert!(fair.contains(&moved), "{moved:?}");
        tree.end();
    });
}

#[test]
fn three_directories_do_not_make_a_ring() {
    explore(|| {
        let tree = Tree::new();
        let [(p, a), (q, b), (r, c)] = branches(&tree, ["a", "b", "c"]);
        let moved = all(
            || tree.rename((p, "a"), (b, "a")),
            || tree.rename((q, "b"), (c, "b")),
            || tree.rename((r, "c"), (a, "c")),
        );
        let moved = [moved.0, moved.1, moved.2];
        let refused = moved.iter().filter(|moved| **moved == Err(Error::Invalid)).count();
        let done = moved.iter().filter(|moved| moved.is_ok()).count();
        assert_eq!((done, refused), (2, 1), "{moved:?}");
        tree.end();
    });
}

#[test]
fn nor_do_they_by_exchange() {
    explore(|| {
        let tree = Tree::new();
        let [(p, a), (q, b)] = branches(&tree, ["a", "b"]);
        let leaf = tree.mkdir(b, "leaf");
        let moved =
            both(|| tree.rename((q, "b"), (a, "b")), || tree.exchange((p, "a"), (b, "leaf")));
        let fair = [(Ok(()), Err(Error::Invalid)), (Err(Error::Invalid), Ok(()))];
        assert!(fair.contains(&moved), "{moved:?}");
        let parent = tree.fs.getattr(leaf).expect("it is held").parent;
        assert_eq!(parent, if moved.0.is_ok() { b } else { p });
        tree.end();
    });
}

#[test]
fn a_name_moves_within_a_directory_that_moves_itself() {
    explore(|| {
        let tree = Tree::new();
        let old = tree.mkdir(ROOT, "old");
        let dir = tree.mkdir(tree.mkdir(old, "moves"), "dir");
        tree.mkdir(dir, "sub");
        tree.file(dir, "file");
        let (renamed, swapped, moved) = all(
            || tree.rename((dir, "sub"), (dir, "new")),
            || tree.rename((dir, "file"), (dir, "file2")),
            || {
                tree.rename((old, "moves"), (ROOT, "moves")).and_then(|()| {
                    tree.let_go(old);
                    tree.rmdir(ROOT, "old")
                })
            },
        );
        assert_eq!((renamed, swapped, moved), (Ok(()), Ok(()), Ok(())));
        tree.end();
    });
}

#[test]
fn a_file_does_not_replace_a_directory_that_others_move() {
    explore(|| {
        let tree = Tree::new();
        let place = tree.mkdir(ROOT, "place");
        let old = tree.mkdir(place, "old");
        let dir = tree.mkdir(tree.mkdir(old, "moves"), "dir");
        tree.mkdir(dir, "sub");
        tree.mkdir(ROOT, "other");
        tree.file(dir, "file");
        let (renamed, moved) = both(
            || tree.rename((dir, "file"), (ROOT, "other")),
            || {
                tree.rename((old, "moves"), (place, "moves")).and_then(|()| {
                    tree.let_go(old);
                    tree.rmdir(place, "old")
                })
            },
        );
        assert_eq!((renamed, moved), (Err(Error::IsDirectory), Ok(())));
        tree.end();
    });
}

#[test]
fn the_way_up_is_always_there() {
    explore(|| {
        let tree = Tree::new();
        let old = tree.mkdir(ROOT, "old");
        let dir = tree.mkdir(old, "dir");
        let (parent, moved) = both(
            || tree.fs.hold_parent(dir).map(|node| tree.keep(node)),
            || {
                tree.rename((old, "dir"), (ROOT, "dir")).and_then(|()| {
                    tree.let_go(old);
                    tree.rmdir(ROOT, "old")
                })
            },
        );
        assert!(parent.is_ok(), "{parent:?}");
        assert_eq!(moved, Ok(()));
        tree.end();
    });
}

/// Of two who fill a directory and one between them who removes it, either both have their way or that one.
fn is_gone_or_full(outcome: (Result<()>, Result<()>, Result<()>)) {
    match outcome {
        (Err(Error::NotFound), Ok(()), Err(Error::NotFound)) => {}
        (Ok(()), Err(Error::NotEmpty), Ok(())) => {}
        _ => panic!("{outcome:?}"),
    }
}

#[test]
fn a_directory_is_removed_or_filled() {
    explore(|| {
        let tree = Tree::new();
        let dir = tree.mkdir(ROOT, "dir");
        let outcome = all(
            || tree.make(dir, "file", Kind::File).map(drop),
            || tree.rmdir(ROOT, "dir"),
            || tree.make(dir, "sub", Kind::Directory).map(drop),
        );
        is_gone_or_full(outcome);
        tree.end();
    });
}

#[test]
fn a_directory_is_removed_or_moved_into() {
    explore(|| {
        let tree = Tree::new();
        let dir = tree.mkdir(ROOT, "dir");
        tree.mkdir(ROOT, "other");
        tree.file(ROOT, "file");
        let outcome = all(
            || tree.rename((ROOT, "other"), (dir, "other")),
            || tree.rmdir(ROOT, "dir"),
            || tree.rename((ROOT, "file"), (dir, "file")),
        );
        is_gone_or_full(outcome);
        tree.end();
    });
}

#[test]
fn a_listing_has_whatever_stays() {
    explore(|| {
        let tree = Tree::new();
        let dir = tree.mkdir(ROOT, "dir");
        let [_, b, _] = ["a", "b", "c"].map(|name| tree.file(dir, name));
        let (with, without, ()) = all(
            || tree.list(dir, true).expect("a listing"),
            || tree.list(dir, false).expect("a listing"),
            || {
                tree.let_go(b);
                tree.unlink(dir, "b").expect("it is there");
                tree.file(dir, "d");
                tree.rename((dir, "c"), (dir, "e")).expect("it is there");
                tree.mkdir(dir, "f");
            },
        );
        let states = ["abc", "ac", "acd", "ade", "adef"];
        for listing in [with, without] {
            let names: String = listing.iter().map(|(name, _)| name.as_str()).collect();
            assert!(states.contains(&names.as_str()), "{names}");
        }
        tree.end();
    });
}
