//! Copying into and out of memory that others may copy into and out of at the same time.
//!
//! Every access to the shared side is a relaxed atomic access of one aligned word, whatever the
//! range, so that racing copies are defined: they yield a mixture of bytes, and nothing worse.
//! Bytes of a word that lie outside the range are never changed, even for a moment.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a word.
pub const WORD: usize = size_of::<u64>();
/// Words copied in one step of the inner loop.
const STEP: usize = 8;

/// A range of bytes in words: some bytes of the first, whole words, some bytes of the last.
struct Parts {
    /// The first whole word.
    word: usize,
    /// Bytes before it.
    head: usize,
    /// Bytes in whole words.
    body: usize,
}

impl Parts {
    fn of(at: usize, len: usize) -> Self {
        let head = at.wrapping_neg() % WORD;
        let head = head.min(len);
        Self { word: (at + head) / WORD, head, body: (len - head) / WORD * WORD }
    }
}

/// Copies out of `words`, from byte `at` on. The range lies within the words.
pub fn read(words: &[AtomicU64], at: usize, target: &mut [u8]) {
    let parts = Parts::of(at, target.len());
    let (head, rest) = target.split_at_mut(parts.head);
    let (body, tail) = rest.split_at_mut(parts.body);
    read_edge(words, at, head);
    let source = &words[parts.word..parts.word + body.len() / WORD];
    let mut sources = source.chunks_exact(STEP);
    let mut targets = body.chunks_exact_mut(STEP * WORD);
    for (source, target) in sources.by_ref().zip(targets.by_ref()) {
        for index in 0..STEP {
            let word = source[index].load(Relaxed).to_ne_bytes();
            target[index * WORD..(index + 1) * WORD].copy_from_slice(&word);
        }
    }
    let targets = targets.into_remainder().chunks_exact_mut(WORD);
    for (source, target) in sources.remainder().iter().zip(targets) {
        target.copy_from_slice(&source.load(Relaxed).to_ne_bytes());
    }
    read_edge(words, at + parts.head + parts.body, tail);
}

/// Copies into `words`, from byte `at` on. The range lies within the words.
pub fn write(words: &[AtomicU64], at: usize, source: &[u8]) {
    let parts = Parts::of(at, source.len());
    let (head, rest) = source.split_at(parts.head);
    let (body, tail) = rest.split_at(parts.body);
    write_edge(words, at, head);
    let target = &words[parts.word..parts.word + body.len() / WORD];
    let mut targets = target.chunks_exact(STEP);
    let mut sources = body.chunks_exact(STEP * WORD);
    for (target, source) in targets.by_ref().zip(sources.by_ref()) {
        for index in 0..STEP {
            let bytes = &source[index * WORD..(index + 1) * WORD];
            target[index].store(word_of(bytes), Relaxed);
        }
    }
    let sources = sources.remainder().chunks_exact(WORD);
    for (target, source) in targets.remainder().iter().zip(sources) {
        target.store(word_of(source), Relaxed);
    }
    write_edge(words, at + parts.head + parts.body, tail);
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// Some bytes of one word.
fn read_edge(words: &[AtomicU64], at: usize, target: &mut [u8]) {
    if !target.is_empty() {
        let word = words[at / WORD].load(Relaxed).to_ne_bytes();
        target.copy_from_slice(&word[at % WORD..at % WORD + target.len()]);
    }
}

fn write_edge(words: &[AtomicU64], at: usize, source: &[u8]) {
    if source.is_empty() {
        return;
    }
    let change = |word: u64| {
        let mut bytes = word.to_ne_bytes();
        bytes[at % WORD..at % WORD + source.len()].copy_from_slice(source);
        Some(u64::from_ne_bytes(bytes))
    };
    // The closure always answers, so this always succeeds.
    let _ = words[at / WORD].fetch_update(Relaxed, Relaxed, change);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every start and length around a few words: what is in the range is copied, what is not
    /// stays.
    #[test]
    fn copies_exactly_the_range() {
        const LEN: usize = 20 * WORD;
        for at in 0..2 * WORD {
            for len in 0..LEN - at {
                let words: Vec<AtomicU64> =
                    (0..LEN / WORD).map(|_| AtomicU64::new(u64::MAX)).collect();
                let source: Vec<u8> = (0..len).map(|index| index as u8).collect();
                write(&words, at, &source);
                let mut all = [0; LEN];
                read(&words, 0, &mut all);
                assert!(all[..at].iter().chain(&all[at + len..]).all(|&byte| byte == u8::MAX));
                assert_eq!(all[at..at + len], source);
                let mut again = vec![0; len];
                read(&words, at, &mut again);
                assert_eq!(again, source);
            }
        }
    }

    /// Writers of neighbouring bytes of the same words do not undo each other.
    #[test]
    fn neighbours_keep_their_bytes() {
        let words: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for byte in 0..4_usize {
                let words = &words;
                scope.spawn(move || {
                    for round in 0..20_000_usize {
                        let value = [round as u8; 3];
                        write(words, 5 + 3 * byte, &value);
                        let mut back = [0; 3];
                        read(words, 5 + 3 * byte, &mut back);
                        assert_eq!(back, value);
                    }
                });
            }
        });
    }
}
