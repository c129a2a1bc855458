//! The time of day.

use esker::Time;
use esker::ground::Clock;

/// The operating system's clock, in nanoseconds.
///
/// On Linux the one that the kernel stamps its own files with, which moves with the timer's tick.
/// A kernel that keeps the times of a mounted file itself (writeback) uses it too, and a finer one
/// here would let a file's time step back by up to a tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(target_os = "linux")]
impl Clock for SystemClock {
    fn now(&self) -> Time {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        // The kernel keeps nanoseconds below 10^9.
        Time { secs: now.tv_sec, nanos: u32::try_from(now.tv_nsec).unwrap_or(0) }
    }
}

#[cfg(not(target_os = "linux"))]
impl Clock for SystemClock {
    fn now(&self) -> Time {
        use std::time::{SystemTime, UNIX_EPOCH};
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
