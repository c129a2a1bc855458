//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use esker::Time;
use esker::ground::Clock;

/// The operating system's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let now = SystemTime::now();
        let seconds = |secs: u64| i64::try_from(secs).unwrap_or(i64::MAX);
        match now.duration_since(UNIX_EPOCH) {
            Ok(since) => Time { secs: seconds(since.as_secs()), nanos: since.subsec_nanos() },
            // A clock set before 1970: the nanoseconds still count forward.
            Err(error) => {
                let before = error.duration();
                let part = before.subsec_nanos();
                let borrow = u32::from(part > 0);
                Time {
                    secs: -seconds(before.as_secs()) - i64::from(borrow),
                    nanos: borrow * 1_000_000_000 - part,
                }
            }
        }
    }
}
