//! What a daemon does beside serving: it sees to it that memory which is not needed any more goes back.
//!
//! Above: `serve`. Below: `esker_host`. The home gives its own pages back; what it has from the global
//! allocator (tables of what the kernel holds, small trees) that one keeps for later.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use esker::posix::Fs;
use esker::store::View;

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(1);
/// So many inodes fewer are worth it.
const FEWER: u64 = 4096;

/// Starts it; it ends with the file system. Without a thread for it, memory goes back later.
pub fn start<S: View + Send + Sync + 'static>(fs: &Arc<Fs<S>>) {
    let fs = Arc::downgrade(fs);
    let thread = thread::Builder::new().name("esker-house".to_owned());
    drop(thread.spawn(move || keep_house(&fs)));
}

fn keep_house<S: View>(fs: &Weak<Fs<S>>) {
    let mut most = 0;
    loop {
        thread::sleep(PERIOD);
        let Some(inodes) = fs.upgrade().map(|fs| fs.statfs().inodes) else { return };
        if worth(&mut most, inodes) {
            esker_host::give_back();
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
    fn fewer_inodes_are_worth_it_once() {
        let mut most = 0;
        let counts = [(100_000, false), (90_000, false), (87_000, true), (87_000, false)];
        let more = [(1_000_000, false), (900_000, false), (4_000, true), (1, false)];
        for (inodes, expected) in counts.into_iter().chain(more) {
            assert_eq!(worth(&mut most, inodes), expected, "{inodes}");
        }
    }
}
