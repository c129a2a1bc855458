//! Chance from a seed, numbers and bytes that hurt, and what the tests that use them are told and measure.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// After so long without an end somebody waits for himself.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// A small generator of random numbers.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.roll() >> 11) as usize % limit.max(1)
    }

    /// A number that hurts in the place of `was`.
    pub fn number(&mut self, was: u64) -> u64 {
        match self.below(9) {
            0 => 0,
            1 => was.wrapping_add(1),
            2 => was.wrapping_sub(1),
            3 => u64::MAX >> self.below(64),
            4 => 1 << self.below(64),
            5 => (1 << self.below(64)) - 1,
            6 => was.wrapping_mul(2),
            7 => was ^ (1 << self.below(64)),
            _ => self.roll() >> self.below(64),
        }
    }

    pub fn short(&mut self, was: u32) -> u32 {
        self.number(was.into()) as u32
    }

    /// Bytes that hurt where numbers are expected.
    pub fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(7) {
                0 => bytes[at] = self.roll() as u8,
                1 => bytes[at] ^= 1 << self.below(8),
                2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                3 => {
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].fill(0xff);
                }
                4 => bytes.truncate(at),
                5 => {
                    let from = self.below(bytes.len());
                    let end = (from + self.below(40)).min(bytes.len());
                    bytes.extend_from_within(from..end);
                }
                _ => {
                    let other = self.below(bytes.len());
                    bytes.swap(at, other);
                }
            }
        }
    }
}

/// Ends everything, and tells the seed, when what begins with it takes no end.
pub struct Watch(Arc<Mutex<(u64, Instant)>>);

impl Watch {
    pub fn new(seed: u64) -> Self {
        let watch = Arc::new(Mutex::new((seed, Instant::now())));
        let now = Arc::clone(&watch);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let (seed, since) = *now.lock().unwrap();
                if since.elapsed() > WAIT_MAX {
                    eprintln!("seed {seed:#x}: it waits for ever");
                    std::process::exit(101);
                }
            }
        });
        Self(watch)
    }

    /// The next one begins.
    pub fn next(&self, seed: u64) {
        *self.0.lock().unwrap() = (seed, Instant::now());
    }
}

/// From here on the process has never had more memory than it has now.
pub fn forget_memory() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// The most memory that this process ever had.
pub fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// A number that the environment gives.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
