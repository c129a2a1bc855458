//! Anything against anything, drawn anew for each schedule.

use esker::posix::{Caller, SetAttr};
use esker::{Ino, Kind, Result};
use shuttle::rand::{Rng, thread_rng};

use crate::explore::{all, explore};
use crate::tree::Tree;

const CALLS: usize = 3;
const NAMES: [&str; 3] = ["a", "b", "c"];

#[test]
fn any_calls_leave_a_sound_home() {
    explore(|| {
        let tree = Tree::new();
        let a = tree.mkdir(Ino::ROOT, "a");
        let b = tree.mkdir(a, "b");
        let file = tree.file(b, "c");
        tree.write(file, 0, &[1; 1500]).expect("space");
        tree.link(file, Ino::ROOT, "c").expect("a link");
        let dirs = [Ino::ROOT, a, b];
        let work = || {
            for _ in 0..CALLS {
                // The answer may be any; what it leaves behind must be right.
                let _ = call(&tree, dirs);
            }
        };
        all(work, work, work);
        tree.end();
    });
}

fn call(tree: &Tree, dirs: [Ino; 3]) -> Result<()> {
    let draw = |count: usize| thread_rng().gen_range(0..count);
    let (dir, name) = (dirs[draw(3)], NAMES[draw(3)]);
    let (to_dir, to_name) = (dirs[draw(3)], NAMES[draw(3)]);
    match draw(12) {
        0 => tree.make(dir, name, Kind::File).map(drop),
        1 => tree.make(dir, name, Kind::Directory).map(drop),
        2 => tree.unlink(dir, name),
        3 => tree.rmdir(dir, name),
        4 => tree.link(tree.find(dir, name)?, to_dir, to_name),
        5..8 => tree.rename((dir, name), (to_dir, to_name)),
        8 => tree.exchange((dir, name), (to_dir, to_name)),
        9 => tree.write(tree.find(dir, name)?, 400, &[2; 700]),
        10 => {
            let set = SetAttr { size: Some(100), ..SetAttr::default() };
            tree.fs.setattr(&Caller::ROOT, tree.find(dir, name)?, &set).map(drop)
        }
        _ => {
            let found = tree.find(dir, name)?;
            tree.let_go(found);
            tree.list(dir, true).map(drop)
        }
    }
}
