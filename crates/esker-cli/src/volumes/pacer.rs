//! Reading at no more than some rate, until somebody says stop; and how much was read.
//!
//! Above: `care`. Invariant: who waits for its turn sees within a moment that it is to stop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest sleep at a time.
const NAP: Duration = Duration::from_millis(50);

/// Says when what is read next may be read.
pub struct Pacer {
    rate: Option<u64>,
    /// When the next read may begin.
    next: Mutex<Instant>,
    read: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl Pacer {
    /// So many bytes a second, until `stop` is set.
    pub fn new(rate: Option<u64>, stop: Arc<AtomicBool>) -> Self {
        Self { rate, next: Mutex::new(Instant::now()), read: AtomicU64::new(0), stop }
    }

    /// Bytes that were read.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Somebody wants no more.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Waits until so many bytes may be read; whether they still are to be.
    pub fn pace(&self, len: usize) -> bool {
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        if let Some(rate) = self.rate.filter(|_| len > 0) {
            let own = Duration::from_secs_f64(len as f64 / rate as f64);
            let begin = {
                let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
                let begin = (*next).max(Instant::now());
                *next = begin + own;
                begin
            };
            while !self.is_stopped() && Instant::now() < begin {
                thread::sleep(begin.saturating_duration_since(Instant::now()).min(NAP));
            }
        }
        !self.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_stopped_waits_no_more() {
        let pacer = Pacer::new(Some(1), Arc::default());
        assert!(pacer.pace(1 << 40));
        pacer.stop();
        // Without that it would be the year 36812.
        assert!(!pacer.pace(1));
        assert_eq!(pacer.read(), (1 << 40) + 1);
    }
}
