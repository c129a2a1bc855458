//! The rows: bytes in one call and in segments, in one file and in ten, at random; names.
//!
//! Invariant: what is read is compared with what was written, outside of what is measured.

use crate::Subject;
use crate::host::row;

const TOTAL: usize = 100_000_000;
const SEGMENT: usize = 1000;
const PAGE: usize = 4096;

fn pattern(len: usize) -> Vec<u8> {
    const BLOCK: usize = 65_521;
    // Two of the largest must fit a module's memory.
    let mut bytes = Vec::with_capacity(len.max(BLOCK));
    bytes.extend((0..BLOCK as u32).map(|index| (index % 251) as u8 ^ (index >> 8) as u8));
    while bytes.len() < len {
        let more = bytes.len().min(len - bytes.len());
        bytes.extend_from_within(..more);
    }
    bytes.truncate(len);
    bytes
}

fn put<S: Subject>(subject: &mut S, name: &str, bytes: &[u8]) {
    let file = subject.open(name, true);
    assert_eq!(subject.write(file, bytes), bytes.len());
    subject.close(file);
}

fn get<S: Subject>(subject: &mut S, name: &str, target: &mut [u8]) {
    let file = subject.open(name, true);
    let len = subject.size(file) as usize;
    subject.seek(file, 0);
    assert_eq!(subject.read(file, &mut target[..len]), len);
    subject.close(file);
}

fn put_segments<S: Subject>(subject: &mut S, bytes: &[u8], segment: usize) {
    let file = subject.open("file", true);
    let done: usize = bytes.chunks(segment).map(|part| subject.write(file, part)).sum();
    subject.close(file);
    assert_eq!(done, bytes.len());
}

fn get_segments<S: Subject>(subject: &mut S, target: &mut [u8], segment: usize) {
    let file = subject.open("file", true);
    let done: usize = target.chunks_mut(segment).map(|part| subject.read(file, part)).sum();
    subject.close(file);
    assert_eq!(done, target.len());
}

fn open_many<S: Subject>(subject: &mut S, count: usize) -> Vec<S::Handle> {
    (0..count).map(|number| subject.open(&format!("file{number}"), true)).collect()
}

fn put_many<S: Subject>(subject: &mut S, bytes: &[u8], count: usize) {
    let files = open_many(subject, count);
    let mut done = 0;
    for (index, part) in bytes.chunks(SEGMENT).enumerate() {
        done += subject.write(files[index % count], part);
    }
    files.into_iter().for_each(|file| subject.close(file));
    assert_eq!(done, bytes.len());
}

fn get_many<S: Subject>(subject: &mut S, target: &mut [u8], count: usize) {
    let files = open_many(subject, count);
    let mut done = 0;
    for (index, part) in target.chunks_mut(SEGMENT).enumerate() {
        done += subject.read(files[index % count], part);
    }
    files.into_iter().for_each(|file| subject.close(file));
    assert_eq!(done, target.len());
}

/// All at once: new, over the old, again in a message of its own, and back.
fn whole<S: Subject>(subject: &mut S) {
    let bytes = pattern(TOTAL);
    put(subject, "other", &bytes[..1000]);
    row("write new, one call", false, || put(subject, "file", &bytes));
    row("overwrite, one call", false, || put(subject, "file", &bytes));
    row("overwrite, one call, new message", true, || put(subject, "file", &bytes));
    let mut target = vec![0; TOTAL];
    row("read, one call", false, || get(subject, "file", &mut target));
    assert!(target == bytes, "other bytes");
    row("truncate to 0", true, || {
        let file = subject.open("file", true);
        subject.truncate(file, 0);
        subject.close(file);
    });
}

fn segments<S: Subject>(subject: &mut S, total: usize) {
    let bytes = pattern(total);
    row("segments: new file", true, || put_segments(subject, &bytes, SEGMENT));
    row("segments: overwrite", false, || put_segments(subject, &bytes, SEGMENT));
    let mut target = vec![0; total];
    row("segments: read", false, || get_segments(subject, &mut target, SEGMENT));
    assert!(target == bytes, "other bytes");
}

fn many_files<S: Subject>(subject: &mut S, total: usize, count: usize) {
    let bytes = pattern(total);
    row("segments of many files: new", true, || put_many(subject, &bytes, count));
    row("segments of many files: overwrite", false, || put_many(subject, &bytes, count));
    let mut target = vec![0; total];
    row("segments of many files: read", false, || get_many(subject, &mut target, count));
    assert!(target == bytes, "other bytes");
}

fn random<S: Subject>(subject: &mut S) {
    let mut bytes = pattern(TOTAL);
    put(subject, "file", &bytes);
    let file = subject.open("file", true);
    let mut seed = 12345_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % (TOTAL as u64 / PAGE as u64) * PAGE as u64
    };
    bytes.reverse();
    row("10k random 4 KiB rewrites", false, || {
        for _ in 0..10_000 {
            subject.seek(file, next());
            subject.write(file, &bytes[..PAGE]);
        }
    });
    let mut target = vec![0; PAGE];
    row("10k random 4 KiB reads", false, || {
        for _ in 0..10_000 {
            subject.seek(file, next());
            subject.read(file, &mut target);
        }
    });
    subject.close(file);
}

fn names<S: Subject>(subject: &mut S, count: usize) {
    subject.mkdir("dir");
    let paths: Vec<String> = (0..count).map(|number| format!("dir/file{number:05}")).collect();
    row("create files of 100 bytes", true, || {
        paths.iter().for_each(|path| put(subject, path, &[7; 100]));
    });
    let some = |index: usize| &paths[index * 7919 % paths.len()];
    row("stat 1000", true, || {
        (0..1000).for_each(|index| assert_eq!(subject.stat(some(index)), 100));
    });
    let mut target = [0; 100];
    row("open, read and close 1000", true, || {
        for index in 0..1000 {
            let file = subject.open(some(index), false);
            assert_eq!(subject.read(file, &mut target), 100);
            subject.close(file);
        }
    });
    row("list", true, || assert_eq!(subject.list("dir"), count as u64));
    row("rename one", true, || subject.rename(&paths[0], "dir/renamed"));
    subject.rename("dir/renamed", &paths[0]);
    row("delete", true, || paths.iter().for_each(|path| subject.unlink(path)));
}

fn footprint<S: Subject>(subject: &mut S) {
    row("empty", true, || ());
    subject.mkdir("dir");
    row("1000 files of 100 bytes", true, || {
        (0..1000).for_each(|number| put(subject, &format!("dir/file{number:05}"), &[7; 100]));
    });
}

fn folders<S: Subject>(subject: &mut S) {
    row("create 1000 directories", true, || {
        (0..1000).for_each(|number| subject.mkdir(&format!("dir{number}")));
    });
}

/// Runs one bench.
pub fn run<S: Subject>(mut subject: S, bench: u32) {
    let subject = &mut subject;
    match bench {
        1 => whole(subject),
        2 => segments(subject, TOTAL),
        3 => many_files(subject, TOTAL, 10),
        4 => random(subject),
        // No cliffs: ten times as much, and far more files.
        11 => many_files(subject, TOTAL / 10, 100),
        12 => segments(subject, 10 * TOTAL),
        13 => many_files(subject, 16 * TOTAL, 100),
        _ if !S::NAMES => {}
        5 => names(subject, 10_000),
        6 => names(subject, 2000),
        7 => names(subject, 1000),
        8 => footprint(subject),
        9 => folders(subject),
        _ => panic!("no such bench"),
    }
}
