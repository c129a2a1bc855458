//! All that a program can do with files, in a sound home and in one that is not: no answer matters, only that there is
//! one.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use esker::ground::{Heap, Memory};
use esker::posix::{Allocate, Caller, XattrMode};
use esker::store::{Store as _, View as _};
use esker::{Ino, Kind, Time, XattrName};
use esker_embedded::{Backing, Fd, Files, Lock, Open, Whence};

use crate::kit::Counted;

const ME: Caller<'static> = Caller::ROOT;

fn xattr(name: &[u8]) -> XattrName<'_> {
    XattrName::parse(name).unwrap()
}

/// An answer that does not matter.
fn any<R>(_: R) {}

/// A little of everything, and so many files.
pub fn story<M: Memory>(files: &mut Files<M>, count: usize) {
    files.make_dirs(Fd::ROOT, b"dir/sub/deep").unwrap();
    for number in 0..count {
        let long = "x".repeat(if count > 100 { 180 } else { number });
        let name = [format!("file{number}"), format!("dir/{number}{long}")];
        let file = files.open(Fd::ROOT, name[usize::from(number > 9)].as_bytes(), Open::CREATE);
        let file = file.unwrap();
        let len = if count > 100 { 10 } else { number * 300 };
        files.write(file, &vec![number as u8; len]).unwrap();
        let ino = files.ino(file).unwrap();
        match number % 8 {
            1 => any(files.write_at(file, 100_000, &[9; 5000]).unwrap()),
            2 => files.set_size_limit(file, Some(200_000)).unwrap(),
            3 => {
                let value = vec![1; number % 40 * 50];
                files
                    .fs()
                    .setxattr(&ME, ino, xattr(b"user.a"), &value, XattrMode::Any, false)
                    .unwrap();
            }
            4 => {
                let link = format!("dir/sub/link{number}");
                files
                    .link(
                        Fd::ROOT,
                        name[usize::from(number > 9)].as_bytes(),
                        Fd::ROOT,
                        link.as_bytes(),
                    )
                    .unwrap();
            }
            5 => files
                .symlink(b"../file1", Fd::ROOT, format!("dir/sub/to{number}").as_bytes())
                .unwrap(),
            6 => files.fs().fallocate(&ME, ino, Allocate::Reserve, 0, 20_000).unwrap(),
            _ => {}
        }
        files.close(file).unwrap();
    }
    let [first, second] = [b"file1", b"file2"].map(|name| {
        let file = files.open(Fd::ROOT, name, Open::WRITE).unwrap();
        files.ino(file).unwrap()
    });
    files.fs().copy_range(&ME, (first, 100_000), (second, 4096), 5000).unwrap();
    files.fs().fallocate(&ME, first, Allocate::Punch, 101_000, 2000).unwrap();
    // Nobody closes it: it is left behind.
    let open = files.open(Fd::ROOT, b"gone", Open::CREATE).unwrap();
    files.write(open, &[3; 9000]).unwrap();
    files.unlink(Fd::ROOT, b"gone").unwrap();
}

pub fn set_kept_size<M: Memory>(files: &mut Files<M>, path: &[u8], value: &[u8]) {
    let file = files.open(Fd::ROOT, path, Open::WRITE).unwrap();
    let ino = files.ino(file).unwrap();
    let name = xattr(b"trusted.esker.mounted_size");
    files.fs().setxattr(&ME, ino, name, value, XattrMode::Any, false).unwrap();
    files.close(file).unwrap();
}

/// All that is found on the way down, each directory once; no more than `most`.
fn walk<M: Memory>(files: &mut Files<M>, most: u64) -> Vec<(Vec<u8>, Kind)> {
    let (mut found, mut met) = (Vec::new(), BTreeSet::new());
    let mut left = vec![b".".to_vec()];
    let mut count = 0;
    while let Some(dir) = left.pop() {
        let before = left.len();
        let listed = files.list(Fd::ROOT, &dir, &mut |entry| {
            count += 1;
            assert!(count <= most, "more entries than fit: a loop");
            let name = entry.name;
            assert!(!name.is_empty() && name.len() <= 255 && !name.contains(&b'/'), "{name:?}");
            assert!(name != b"." && name != b"..");
            let path = [&dir[..], b"/", name].concat();
            if entry.kind == Kind::Directory && met.insert(entry.ino) && left.len() < 1000 {
                left.push(path.clone());
            }
            if found.len() < 2000 {
                found.push((path, entry.kind));
            }
            ControlFlow::Continue(())
        });
        // What a program hears that lists a directory as long as there is more.
        if listed.is_ok() && before < 3 {
            list_on(files, &dir, most);
        }
    }
    found
}

fn list_on<M: Memory>(files: &mut Files<M>, dir: &[u8], most: u64) {
    let Ok(fd) = files.open(Fd::ROOT, dir, Open { directory: true, ..Open::READ }) else { return };
    for count in 0.. {
        assert!(count <= most + 2, "a cursor that does not rise");
        let mut some = false;
        let told = files.list_next(fd, &mut |_| {
            some = true;
            ControlFlow::Break(())
        });
        if told.is_err() || !some {
            break;
        }
    }
    any(files.close(fd));
}

/// Where there is data: runs that rise, no more than there is room for.
fn holes<M: Memory>(files: &Files<M>, ino: Ino, most: u64) {
    let (mut at, mut count) = (0, 0);
    while let Ok(Some(span)) = files.fs().store().next_data(ino, at) {
        assert!(span.start() >= at && span.end() > at, "{span:?} from {at}");
        count += 1;
        assert!(count <= most, "more runs than fit");
        at = span.end();
    }
}

/// Everything that can be asked about a path.
fn ask<M: Memory>(files: &mut Files<M>, path: &[u8], most: u64) {
    let mut bytes = [0; 5000];
    let _ = files.stat_path(Fd::ROOT, path, false);
    let _ = files.readlink(Fd::ROOT, path, &mut bytes);
    let Ok(file) = files.open(Fd::ROOT, path, Open::READ) else { return };
    let _ = files.read(file, &mut bytes);
    let _ = files.read_at(file, 20_000, &mut bytes);
    let _ = files.seek(file, -100, Whence::End);
    let _ = files.read(file, &mut bytes);
    let _ = files.size_limit(file);
    let _ = files.stat(file);
    if let Ok(ino) = files.ino(file) {
        holes(files, ino, most);
        let mut names = Vec::new();
        let _ = files.fs().listxattr(&ME, ino, &mut names);
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()).take(10) {
            let mut value = Vec::new();
            let _ = files.fs().getxattr(&ME, ino, xattr(name), &mut value);
            assert!(value.len() <= 65_536, "{} bytes of an attribute", value.len());
        }
    }
    let _ = files.close(file);
}

/// Some of what can be done with a file.
fn change<M: Memory>(files: &mut Files<M>, path: &[u8], number: usize) {
    let at = Time { secs: 7, nanos: 0 };
    let Ok(file) = files.open(Fd::ROOT, path, Open::WRITE) else { return };
    let ino = files.ino(file).unwrap();
    // Twice, the second time as quickly as it goes.
    let _ = files.write(file, &[5; 700]);
    let _ = files.write(file, &[5; 700]);
    let _ = files.write_at(file, 30_000, &[6; 9000]);
    let _ = files.lock(file, Some(Lock::Exclusive));
    let _ = files.set_times(file, Some(at), None);
    match number % 7 {
        0 => any(files.set_len(file, 1234)),
        1 => any(files.set_len(file, 1 << 40)),
        2 => any(files.reserve(file, 0, 100_000)),
        3 => any(files.set_size_limit(file, Some(5000))),
        4 => any(files.fs().fallocate(&ME, ino, Allocate::Punch, 100, 9000)),
        5 => any(files.fs().copy_range(&ME, (ino, 0), (ino, 60_000), 3000)),
        _ => {
            let name = xattr(b"user.new");
            let _ = files.fs().setxattr(&ME, ino, name, &[1; 3000], XattrMode::Any, false);
        }
    }
    let _ = files.close(file);
}

/// Everything that a mounted file is there for.
pub fn use_mounted<M: Memory>(files: &mut Files<M>, path: &[u8]) {
    ask(files, path, 100);
    for number in 0..4 {
        change(files, path, number);
    }
    let append = Open { append: true, ..Open::READ };
    let Ok(file) = files.open(Fd::ROOT, path, append) else { return };
    let _ = files.set_len(file, 3);
    let _ = files.write(file, &[8; 10_000]);
    let _ = files.close(file);
    let _ = files.store_mounted(Fd::ROOT, path);
    let _ = files.init_mounted(Fd::ROOT, path);
    let Ok(memory) = files.unmount(Fd::ROOT, path) else { return };
    let _ = files.mount(Fd::ROOT, path, memory, Backing::Kept);
}

/// Everything, in a memory of so many bytes.
pub fn use_all<M: Memory>(files: &mut Files<M>, size: u64) {
    // Nothing that is told of takes less than this.
    let most = size / 8;
    let store = files.fs().store();
    let findings = store.check();
    assert!(findings.len() as u64 <= most, "{} findings", findings.len());
    let _ = store.orphans();
    for ino in 0..20 {
        let _ = store.attr(Ino(ino));
    }
    let found = walk(files, most);
    let step = found.len() / 150 + 1;
    for (path, _) in found.iter().step_by(step) {
        ask(files, path, most);
    }
    for (number, (path, kind)) in found.iter().step_by(step * 2).enumerate() {
        if *kind != Kind::Directory {
            change(files, path, number);
        }
        let new = format!("dir/new{number}");
        match number % 5 {
            0 => any(files.rename(Fd::ROOT, path, Fd::ROOT, new.as_bytes())),
            1 => any(files.link(Fd::ROOT, path, Fd::ROOT, new.as_bytes())),
            2 => any(files.unlink(Fd::ROOT, path)),
            3 => any(files.mkdir(Fd::ROOT, new.as_bytes())),
            _ => any(files.symlink(b"nowhere", Fd::ROOT, new.as_bytes())),
        }
    }
    // Directories to where the way up is asked for.
    let _ = files.rename(Fd::ROOT, b"dir/sub", Fd::ROOT, b"moved");
    let _ = files.rename(Fd::ROOT, b"moved", Fd::ROOT, b"dir/sub/deep/again");
    let _ = files.rename(Fd::ROOT, b"dir", Fd::ROOT, b"moved/deep/dir");
    let own = Box::new(Counted::new(Heap::new()));
    if files.mount(Fd::ROOT, b"mounted", own, Backing::Kept).is_ok() {
        use_mounted(files, b"mounted");
    }
    let _ = files.fs().store().drop_left_behind();
    let _ = files.fs().store().tick();
    let _ = files.sync();
    let _ = files.space();
    for dir in [&b"moved"[..], b"dir"] {
        let _ = files.remove_all(Fd::ROOT, dir);
    }
    files.fs().store().check();
}
