//! A memory that stable-fs wrote, with anything in it. That crate gives up on what is damaged with a panic, which in a
//! canister undoes the upgrade, and takes as much of the heap as a damaged length says; what is copied ends all the
//! same, and nothing of ours panics.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use esker::ground::Heap;
use esker_embedded::import;
use ic_stable_structures::memory_manager::MemoryManager;
use ic_stable_structures::{Memory, VectorMemory};
use stable_fs::fs::{ChunkType, FdStat, FileSystem, OpenFlags, SrcBuf};
use stable_fs::storage::Storage as _;
use stable_fs::storage::stable::StableStorage;

use crate::kit::{Counted, hunt, open};
use crate::spoil::number;

const PAGE: usize = 4096;
/// Pages of 64 KiB in one piece of a managed memory.
const BUCKET: u16 = 4;
/// Calls that a file system of stable-fs may make of its memory: a hole that is long takes as long to read.
const CALLS_MAX: u64 = 300_000;
const FOR_LONG: &str = "stable-fs reads for long";

/// A memory that ends whoever reads it for too long.
#[derive(Clone)]
struct Source {
    memory: VectorMemory,
    calls: Rc<Cell<u64>>,
}

impl Source {
    fn new(bytes: Vec<u8>) -> Self {
        Self { memory: Rc::new(RefCell::new(bytes)), calls: Rc::default() }
    }
}

impl Memory for Source {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn grow(&self, pages: u64) -> i64 {
        if pages < 1000 { self.memory.grow(pages) } else { -1 }
    }

    fn read(&self, at: u64, target: &mut [u8]) {
        self.calls.set(self.calls.get() + 1);
        assert!(self.calls.get() < CALLS_MAX, "{FOR_LONG}");
        self.memory.read(at, target);
    }

    fn write(&self, at: u64, source: &[u8]) {
        self.memory.write(at, source);
    }
}

fn file_system(memory: Source, kind: ChunkType) -> FileSystem {
    let manager = MemoryManager::init_with_bucket_size(memory, BUCKET);
    let mut storage = StableStorage::new_with_memory_manager(&manager, 0..10);
    storage.set_chunk_type(kind);
    FileSystem::new(Box::new(storage)).unwrap()
}

/// What a canister left.
fn earlier_life(kind: ChunkType) -> Vec<u8> {
    let memory = Source::new(Vec::new());
    let mut fs = file_system(memory.clone(), kind);
    let root = fs.root_fd();
    for dir in ["a", "a/b", "a/b/c", "d"] {
        fs.mkdir(root, dir, FdStat::default(), 19).unwrap();
    }
    for number in 0..40 {
        let path = format!("{}file{number}", ["", "a/", "a/b/", "d/"][number % 4]);
        let fd = fs.open(root, &path, FdStat::default(), OpenFlags::CREATE, 17).unwrap();
        let bytes = vec![number as u8 + 1; number * number * 20];
        fs.write_vec(fd, &[SrcBuf { buf: bytes.as_ptr(), len: bytes.len() }]).unwrap();
        fs.close(fd).unwrap();
    }
    let linked = fs.create_hard_link(root, "a/b/file2", root, "d/link").unwrap();
    fs.close(linked).unwrap();
    memory.memory.borrow().clone()
}

/// Who panicked last, and about what.
fn listen() -> Rc<RefCell<String>> {
    thread_local! {
        static HEARD: Rc<RefCell<String>> = Rc::default();
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let file = info.location().map_or("", |location| location.file());
        HEARD.with(|heard| *heard.borrow_mut() = format!("{file}: {info}"));
        // What stable-fs gives up on is not news.
        if file.starts_with("crates/") && !info.to_string().contains(FOR_LONG) {
            before(info);
        }
    }));
    HEARD.with(Rc::clone)
}

#[test]
fn what_stable_fs_wrote_can_hold_anything() {
    let lives = [ChunkType::V1, ChunkType::V2].map(|kind| (kind, earlier_life(kind)));
    let heard = listen();
    let (mut given_up, mut long) = (0, 0);
    let (cases, copied) = hunt("files of stable-fs", 60, |chance| {
        let (kind, life) = &lives[chance.below(2) as usize];
        let mut bytes = life.clone();
        // Pages that hold something, but for the manager's own.
        let full = |page: &usize| bytes[page * PAGE..][..PAGE].iter().any(|&byte| byte != 0);
        let pages: Vec<usize> = (16..bytes.len() / PAGE).filter(full).collect();
        for _ in 0..=chance.below(4) {
            let at = chance.pick(&pages).unwrap() * PAGE + chance.below(PAGE as u64 - 8) as usize;
            let was = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            match chance.below(3) {
                0 => bytes[at] = chance.next() as u8,
                1 => bytes[at] ^= 1 << chance.below(8),
                _ => bytes[at..at + 8].copy_from_slice(&number(chance, was).to_le_bytes()),
            }
        }
        let to = Counted::new(Heap::new());
        let mut files = open(&to).unwrap();
        let done = catch_unwind(AssertUnwindSafe(|| {
            import(&mut file_system(Source::new(bytes), *kind), &mut files).is_ok()
        }));
        assert_eq!(files.fs().store().check(), [], "what was copied is sound");
        done.unwrap_or_else(|_| {
            let heard = heard.borrow().clone();
            let theirs = !heard.starts_with("crates/");
            long += u64::from(heard.contains(FOR_LONG));
            given_up += u64::from(theirs);
            assert!(theirs || heard.contains(FOR_LONG), "{heard}");
            false
        })
    });
    println!("stable-fs gave up on {given_up} of {cases}, and read {long} for long");
    assert!(cases < 20 || copied * 4 > cases, "{copied} of {cases} could be copied");
}
