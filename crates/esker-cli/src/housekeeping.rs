//! What a daemon does beside serving: it sees to it that memory which is not needed any more goes back.
//!
//! Above: `serve`. Below: `esker_host`. The home is told that time passes, and gives its own pages back; what it has
//! from the global allocator (tables of what the kernel holds, small trees) that one keeps for later.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use esker::posix::Fs;
use esker::store::Store;
use esker_image::Cache;

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(1);
/// So often nobody must have asked for anything of an image.
const IDLE_PERIODS: u32 = 20;
/// So many inodes fewer are worth it,
const FEWER: u64 = 4096;
/// or so many bytes of pages that small trees had at hand.
const PAGES: u64 = 256 << 10;

/// Starts it; it ends with the file system. Without a thread for it, memory goes back later.
pub fn start<S: Store + Send + Sync + 'static>(fs: &Arc<Fs<S>>) {
    let fs = Arc::downgrade(fs);
    let thread = thread::Builder::new().name("esker-house".to_owned());
    drop(thread.spawn(move || keep_house(&fs)));
}

/// Starts it for what is decoded of images: kept while somebody reads, and for a while behind that.
pub fn start_cache(cache: &Arc<Cache>) {
    let cache = Arc::downgrade(cache);
    let thread = thread::Builder::new().name("esker-house".to_owned());
    drop(thread.spawn(move || keep_cache(&cache)));
}

fn keep_cache(cache: &Weak<Cache>) {
    let mut idle = Idle::default();
    loop {
        thread::sleep(PERIOD);
        let Some(cache) = cache.upgrade() else { return };
        let usage = cache.usage();
        if idle.long_enough(usage.hits + usage.misses) && usage.bytes > 0 {
            cache.clear();
            esker_host::give_back();
        }
    }
}

/// How long nobody has asked for anything.
#[derive(Default)]
struct Idle {
    asked: u64,
    periods: u32,
}

impl Idle {
    /// Told each period how often anybody ever asked: whether nobody has for long, once.
    const fn long_enough(&mut self, asked: u64) -> bool {
        self.periods = if asked == self.asked { self.periods.saturating_add(1) } else { 0 };
        self.asked = asked;
        self.periods == IDLE_PERIODS
    }
}

fn keep_house<S: Store>(fs: &Weak<Fs<S>>) {
    let (mut most, mut freed) = (0, 0);
    loop {
        thread::sleep(PERIOD);
        let Some(fs) = fs.upgrade() else { return };
        // A home that can give nothing back still serves.
        freed += fs.tick().unwrap_or(0);
        let inodes = fs.statfs().inodes;
        drop(fs);
        if worth(&mut most, inodes) || freed >= PAGES {
            esker_host::give_back();
            freed = 0;
        }
    }
}

/// Whether there are now an eighth fewer inodes than the most there were since it was last so.
fn worth(most: &mut u64, inodes: u64) -> bool {
    *most = inodes.max(*most);
    let fewer = *most - inodes;
    let worth = fewer >= FEWER && fewer >= *most / 8;
    if worth {
        *most = inodes;
    }
    worth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asks_for_goes_once() {
        let mut idle = Idle::default();
        let mut told =
            |asked, periods: u32| (0..periods).filter(|_| idle.long_enough(asked)).count();
        assert_eq!(told(5, IDLE_PERIODS), 0, "it was asked for just now");
        assert_eq!(told(6, IDLE_PERIODS), 0);
        assert_eq!(told(6, 100 * IDLE_PERIODS), 1);
        assert_eq!(told(7, IDLE_PERIODS + 1), 1);
    }

    #[test]
    fn fewer_inodes_are_worth_it_once() {
        let mut most = 0;
        let counts = [(100_000, false), (90_000, false), (87_000, true), (87_000, false)];
        let more = [(1_000_000, false), (900_000, false), (4_000, true), (1, false)];
        for (inodes, expected) in counts.into_iter().chain(more) {
            assert_eq!(worth(&mut most, inodes), expected, "{inodes}");
        }
    }
}
