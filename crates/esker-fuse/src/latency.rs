//! How long answers took, as the server saw it: for each kind of operation a histogram, always on.
//!
//! Above: `door` notes, verbs ask. Invariant: noting takes a few instructions and no lock; a percentile that is told is
//! never below the true one, and at most a quarter above it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::request::Op;

/// Buckets for each power of two.
const STEPS: usize = 4;
/// Powers of two of nanoseconds: up to 18 minutes; what takes longer counts as that.
const POWERS: usize = 40;
const BUCKETS: usize = STEPS * POWERS;

/// Kinds of operations that are told apart.
pub const KINDS: [&str; 16] = [
    "lookup", "getattr", "setattr", "read", "write", "fsync", "open", "release", "create",
    "remove", "rename", "link", "readdir", "xattr", "statfs", "other",
];

/// Which of [`KINDS`] it is; `None`: nobody waits for it, or it asks about the server itself.
const fn kind(op: &Op<'_>) -> Option<usize> {
    Some(match op {
        Op::Lookup { .. } => 0,
        Op::Getattr { .. } | Op::Statx => 1,
        Op::Setattr(_) => 2,
        Op::Read { .. } | Op::Readlink => 3,
        Op::Write { .. } => 4,
        Op::Fsync { .. } | Op::Fsyncdir | Op::Syncfs => 5,
        Op::Open { .. } => 6,
        Op::Release { .. } => 7,
        Op::Create { .. } | Op::Tmpfile { .. } | Op::Mknod { .. } | Op::Mkdir { .. } => 8,
        Op::Unlink { .. } | Op::Rmdir { .. } => 9,
        Op::Rename { .. } => 10,
        Op::Link { .. } | Op::Symlink { .. } => 11,
        Op::Readdir { .. } | Op::Readdirplus { .. } => 12,
        Op::Setxattr { .. }
        | Op::Getxattr { .. }
        | Op::Listxattr { .. }
        | Op::Removexattr { .. } => 13,
        Op::Statfs => 14,
        Op::Fallocate { .. }
        | Op::SeekData { .. }
        | Op::SeekHole { .. }
        | Op::CopyFileRange { .. } => 15,
        _ => return None,
    })
}

/// The bucket of a time, in nanoseconds.
const fn bucket(nanos: u64) -> usize {
    if nanos < STEPS as u64 {
        return nanos as usize;
    }
    let power = nanos.ilog2() as usize;
    let step = (nanos >> (power - 2)) as usize & (STEPS - 1);
    let at = (power - 1) * STEPS + step;
    if at < BUCKETS { at } else { BUCKETS - 1 }
}

/// The longest time of a bucket, in nanoseconds.
const fn longest(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (power, step) = (bucket / STEPS + 1, bucket % STEPS);
    ((STEPS + step + 1) as u64) << (power - 2)
}

/// Of one kind.
struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
    longest: AtomicU64,
}

/// What is told of one kind of operation. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Its name.
    pub name: &'static str,
    /// How many there were.
    pub count: u64,
    /// What all of them took together.
    pub sum: u64,
    /// Half of them took no longer, and 90, 99 and 99.9 percent.
    pub percentiles: [u64; 4],
    /// The longest.
    pub longest: u64,
}

/// Of these shares in thousandths percentiles are told.
const SHARES: [u64; 4] = [500, 900, 990, 999];

impl Histogram {
    const fn new() -> Self {
        let buckets = [const { AtomicU64::new(0) }; BUCKETS];
        Self { buckets, nanos: AtomicU64::new(0), longest: AtomicU64::new(0) }
    }

    fn note(&self, nanos: u64) {
        self.buckets[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        if self.longest.load(Ordering::Relaxed) < nanos {
            self.longest.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    fn told(&self, name: &'static str) -> Told {
        let counts = self.buckets.each_ref().map(|count| count.load(Ordering::Relaxed));
        let count = counts.iter().sum::<u64>();
        let most = self.longest.load(Ordering::Relaxed);
        let percentiles = SHARES.map(|share| {
            let wanted = (count * share).div_ceil(1000);
            let mut seen = 0;
            let found = counts.iter().position(|own| {
                seen += own;
                seen >= wanted
            });
            found.map_or(0, longest).min(most)
        });
        Told { name, count, sum: self.nanos.load(Ordering::Relaxed), percentiles, longest: most }
    }
}

/// Of all kinds.
pub struct Latencies([Histogram; KINDS.len()]);

impl Default for Latencies {
    fn default() -> Self {
        Self([const { Histogram::new() }; KINDS.len()])
    }
}

impl Latencies {
    /// An operation took so long.
    pub(crate) fn note(&self, op: &Op<'_>, took: Duration) {
        if let Some(kind) = kind(op) {
            self.0[kind].note(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Of each kind that there was.
    #[must_use]
    pub fn told(&self) -> Vec<Told> {
        let all = self.0.iter().zip(KINDS).map(|(own, name)| own.told(name));
        all.filter(|told| told.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_it_says() {
        let mut before = 0;
        for nanos in (0..100_000).chain((17..50).flat_map(|power| [(1 << power) - 1, 1 << power])) {
            let own = bucket(nanos);
            assert!(own >= before || nanos < 100_000, "{nanos}");
            before = own;
            if own < BUCKETS - 1 {
                assert!(nanos <= longest(own), "{nanos} in {own}");
                assert!(longest(own) <= nanos + nanos / 4 + 1, "{nanos} in {own}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_what_was_noted() {
        let all = Latencies::default();
        for micros in 1..=1000 {
            all.note(&Op::Statfs, Duration::from_micros(micros));
        }
        all.note(&Op::Destroy, Duration::from_secs(1));
        let told = all.told();
        assert_eq!(told.len(), 1, "{told:?}");
        let Told { name, count, sum, percentiles, longest } = told[0];
        assert_eq!((name, count, sum, longest), ("statfs", 1000, 500_500_000, 1_000_000));
        for (told, share) in percentiles.into_iter().zip(SHARES) {
            let right = share * 1000;
            assert!((right..=right + right / 4).contains(&told), "{share}: {told}");
        }
    }
}
