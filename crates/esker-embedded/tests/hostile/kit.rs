//! Memories that count who calls them, an allocator that counts, and the loop over cases.

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cap::Cap;
use esker::ground::{Heap, Memory, Region};
use esker::memory::OpenError;
use esker::{Result, Time};
use esker_embedded::{Files, Settings};

use crate::chance::Chance;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes on the heap at most, beside what there was before: the memories themselves are some MiB, and what is copied at
/// once takes 256 KiB.
const HEAP_MAX: usize = 48 << 20;
/// A memory grows by so much at most, as a canister's that is nearly full.
const MORE: u64 = 8 << 20;
/// Calls of a memory before somebody is thought to go round in circles: so many, and so many for each page.
const CALLS: u64 = 100_000;
const CALLS_PER_PAGE: u64 = 300;

/// The most calls that any memory has seen.
pub static CALLS_MAX: AtomicU64 = AtomicU64::new(0);

pub fn now() -> Time {
    Time { secs: 5, nanos: 0 }
}

pub fn open<M: Memory>(memory: M) -> Result<Files<M>, OpenError> {
    let settings = Settings { cache_pages: 16, ..Settings::default() };
    Files::open_memory_with(memory, now, &settings)
}

pub fn bytes_of(memory: &Heap) -> Vec<u8> {
    let mut bytes = vec![0; memory.size() as usize];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

pub fn memory_of(bytes: &[u8]) -> Heap {
    let memory = Heap::new();
    memory.grow(bytes.len() as u64).unwrap();
    memory.write(0, bytes).unwrap();
    memory
}

/// Panics when it is called without end.
pub struct Counted<M> {
    memory: Region<M>,
    calls: AtomicU64,
    calls_max: u64,
}

impl<M: Memory> Counted<M> {
    pub fn new(memory: M) -> Self {
        let size = memory.size();
        let calls_max = CALLS + size / 4096 * CALLS_PER_PAGE;
        let memory = Region::new(memory, 0, size + MORE).unwrap();
        Self { memory, calls: AtomicU64::new(0), calls_max }
    }

    fn count(&self) {
        let calls = self.calls.fetch_add(1, Relaxed);
        CALLS_MAX.fetch_max(calls, Relaxed);
        assert!(calls < self.calls_max, "it does not end");
    }
}

impl<M: Memory> Memory for Counted<M> {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        self.count();
        self.memory.grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.count();
        self.memory.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.count();
        self.memory.write(at, source)
    }
}

/// As many bytes as nobody may take, and more than anybody has taken so far.
pub fn too_many() -> usize {
    HEAP_MAX.max(ALLOCATOR.max_allocated() - ALLOCATOR.allocated()) + 1
}

/// Runs it, which must not take more of the heap than it may at any time.
pub fn bounded<R>(f: impl FnOnce() -> R) -> R {
    let before = ALLOCATOR.allocated();
    let known = ALLOCATOR.max_allocated();
    let done = f();
    let most = ALLOCATOR.max_allocated();
    // The most that there ever was tells of this only if it is more than before.
    assert!(most == known || most < before + HEAP_MAX, "{} bytes of heap", most - before);
    done
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// One kind at a time, lest they are counted for each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seeds that once found something, of one kind or another: they are tried first.
const KNOWN: &[u64] = &[7_006_024, 8_002_150, 9_001_144, 77_026_813, 77_030_549];

/// Tries so many cases, or for so long; how many there were, and how many of them did something.
pub fn hunt(what: &str, usual: u64, mut case: impl FnMut(&mut Chance) -> bool) -> (u64, u64) {
    let _alone = alone();
    let given = from_env("ESKER_SEED");
    let (first, known) = (given.unwrap_or(1), if given.is_none() { KNOWN } else { &[] });
    let until = from_env("ESKER_FUZZ_SECONDS").map(Duration::from_secs);
    let cases = from_env("ESKER_CASES").unwrap_or(usual);
    let (begun, mut tried, mut done) = (Instant::now(), 0, 0);
    while until.map_or(tried < cases, |until| begun.elapsed() < until) {
        let seed = known.get(tried as usize).copied().unwrap_or(first + tried);
        let mut chance = Chance::new(seed);
        // A case that goes round in circles without a call of its memory is told of here before.
        if std::env::var_os("ESKER_FUZZ_TELL").is_some() {
            eprintln!("{what}, seed {seed}");
        }
        let ended = catch_unwind(AssertUnwindSafe(|| case(&mut chance)));
        let Ok(did) = ended else { panic!("{what}: ESKER_SEED={seed} ESKER_CASES=1") };
        tried += 1;
        done += u64::from(did);
    }
    let (most, calls) = (ALLOCATOR.max_allocated() >> 20, CALLS_MAX.load(Relaxed));
    println!("{what}: {tried} from seed {first}, {done} used; {most} MiB of heap, {calls} calls");
    (tried, done)
}
