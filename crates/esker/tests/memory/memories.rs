//! Memories that fail.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::ground::{Heap, Memory};
use esker::{Error, Result};

/// Grows in the smallest steps, fails to grow at every so-manieth call, and never past a limit.
pub struct Liar {
    heap: Heap,
    calls: Rc<Cell<u64>>,
    nth: u64,
    limit: u64,
    once: bool,
    released: AtomicU64,
}

impl Liar {
    pub fn new(nth: u64, limit: u64) -> Self {
        let (calls, released) = (Rc::default(), AtomicU64::new(0));
        Self { heap: Heap::new(), calls, nth, limit, once: false, released }
    }
}

impl Liar {
    /// Bytes that were released so far.
    pub fn released(&self) -> u64 {
        self.released.load(Ordering::Relaxed)
    }

    /// How often it was to grow.
    pub fn counter(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.calls)
    }

    /// Fails to grow at this call, and at those right behind it, which ask for less.
    pub fn once(nth: u64) -> Self {
        Self { once: true, ..Self::new(nth, u64::MAX) }
    }
}

impl Memory for Liar {
    fn size(&self) -> u64 {
        self.heap.size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        let call = self.calls.get() + 1;
        self.calls.set(call);
        let fails = if self.once {
            (self.nth..self.nth + 16).contains(&call)
        } else {
            call.is_multiple_of(self.nth)
        };
        if size > self.limit || fails {
            return Err(Error::NoSpace);
        }
        self.heap.grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.heap.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.heap.write(at, source)
    }

    /// What is released turns to rubbish, to show who goes on reading it.
    fn release(&self, at: u64, len: u64) {
        self.released.fetch_add(len, Ordering::Relaxed);
        let _ = self.heap.write(at, &vec![0xdd; len as usize]);
    }
}

/// Refuses to be written when told to.
#[derive(Default)]
pub struct Broken {
    heap: Heap,
    fails: std::sync::atomic::AtomicBool,
}

impl Broken {
    pub fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }
}

impl Memory for Broken {
    fn size(&self) -> u64 {
        self.heap.size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        self.heap.grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.heap.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(Error::Corrupt);
        }
        self.heap.write(at, source)
    }
}
