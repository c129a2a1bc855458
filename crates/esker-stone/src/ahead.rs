//! Blocks decoded before they are asked for, by threads of their own, when they are asked for in a row.
//!
//! Above: homes at rest say which block is used. Beside: `cache`, in which a block waits for its reader. Large
//! files are read block by block, and so are many small ones in the order in which they were packed: so blocks are
//! watched, not files. Invariant: at most as many blocks as there are threads are decoded ahead at a time, and nobody
//! waits for them.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::cache::locked;

/// Readers that are told apart.
const STREAMS: usize = 8;
/// Blocks that must have been used in a row.
const ROW_LEN: u32 = 3;
/// Blocks that wait to be decoded.
const WAITING_MAX: usize = 16;

/// What a thread does once.
pub type Job = Box<dyn FnOnce() + Send>;

/// Threads that decode ahead.
pub struct Readers {
    jobs: SyncSender<Job>,
    count: u32,
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = locked(jobs).recv();
        let Ok(job) = job else { return };
        // What cannot be decoded is told to whoever asks for it.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    }
}

impl Readers {
    /// So many threads, or as many as the system has. They end when this goes.
    #[must_use]
    pub fn start(count: usize) -> Self {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let started = (0..count).filter(|_| {
            let receiver = Arc::clone(&receiver);
            let thread = thread::Builder::new().name("esker-ahead".to_owned());
            thread.spawn(move || work(&receiver)).is_ok()
        });
        let count = started.count() as u32;
        Self { jobs: sender, count }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Has something decoded, unless too much is waiting already.
    pub fn ask(&self, job: Job) -> bool {
        self.jobs.try_send(job).is_ok()
    }
}

/// Somebody who uses blocks in a row.
#[derive(Clone, Copy, Default)]
struct Stream {
    segment: u64,
    /// The block that was used last.
    slot: u32,
    /// How many were used in a row.
    row: u32,
    /// Up to here blocks were asked for.
    asked: u32,
    /// When it was last seen.
    tick: u64,
}

/// The readers of one home.
#[derive(Default)]
pub struct Streams {
    streams: [Stream; STREAMS],
    tick: u64,
}

impl Streams {
    /// A block is used: which ones behind it are to be decoded, at most `window` of them.
    pub fn used(&mut self, segment: u64, slot: u32, window: u32) -> std::ops::Range<u32> {
        self.tick += 1;
        let tick = self.tick;
        let known = self.streams.iter_mut().find(|stream| {
            let ahead = slot.wrapping_sub(stream.slot);
            // Requests of one reader overtake each other.
            let near = ahead <= 2 || (stream.row > 0 && stream.slot.wrapping_sub(slot) <= 1);
            stream.tick > 0 && stream.segment == segment && near
        });
        let Some(stream) = known else {
            if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.tick) {
                *oldest = Stream { segment, slot, row: 0, asked: slot.saturating_add(1), tick };
            }
            return 0..0;
        };
        stream.tick = tick;
        if slot.wrapping_sub(stream.slot) > 2 || slot == stream.slot {
            return 0..0;
        }
        stream.row += 1;
        stream.slot = slot;
        if stream.row + 1 < ROW_LEN {
            return 0..0;
        }
        let from = stream.asked.max(slot.saturating_add(1));
        // Few at first: it may end soon.
        let until = slot.saturating_add(1).saturating_add(window.min(stream.row));
        stream.asked = until.max(from);
        from..stream.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_among_others() {
        let mut streams = Streams::default();
        let mut asked = Vec::new();
        for slot in 10..30 {
            asked.extend(streams.used(3, slot, 4));
            // Again, somebody else in a row, and somebody who jumps about.
            assert!(streams.used(3, slot, 4).is_empty());
            streams.used(3, 1000 + slot, 4);
            streams.used(4, slot * 7919 % 1000 + 5000, 4);
        }
        assert_eq!(asked, (13..34).collect::<Vec<_>>(), "each once, in order");
        assert!((0..100).all(|step| streams.used(5, step * 10, 4).is_empty()));
        assert!(streams.used(3, u32::MAX, 4).is_empty());
        assert!(streams.used(3, 0, 4).is_empty());
    }

    #[test]
    fn what_waits_is_bounded_and_threads_end() {
        let readers = Readers::start(2);
        let (sender, done) = std::sync::mpsc::channel();
        let gate = Arc::new(Mutex::new(()));
        let held = locked(&gate);
        let mut taken = 0;
        for _ in 0..100 {
            let (sender, gate) = (sender.clone(), Arc::clone(&gate));
            taken += usize::from(readers.ask(Box::new(move || {
                drop(locked(&gate));
                sender.send(()).unwrap();
            })));
        }
        assert!((WAITING_MAX..=WAITING_MAX + 2).contains(&taken), "{taken}");
        readers.ask(Box::new(|| panic!("a job that fails")));
        drop((held, readers, sender));
        assert_eq!(done.iter().count(), taken);
    }
}
