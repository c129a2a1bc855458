//! The bytes of one file of the model: pages by number, absent ones read as zero.
//!
//! Invariant: no page holds a non-zero byte at or behind `size`, so growing needs no clearing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use esker::Span;

/// In bytes. The model's own choice; homes may cut their holes elsewhere.
pub const PAGE: u64 = 4096;
type Page = [u8; PAGE as usize];

/// Sparse bytes, cheap to clone.
#[derive(Clone, Default)]
pub struct Content {
    size: u64,
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Content {
    /// In bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How many pages hold data.
    pub fn page_count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Bytes from `at`; how many there were.
    pub fn read(&self, at: u64, target: &mut [u8]) -> usize {
        let len = self.size.saturating_sub(at).min(target.len() as u64) as usize;
        for (number, within, part) in touched(at, len) {
            match self.pages.get(&number) {
                Some(page) => target[part].copy_from_slice(&page[within]),
                None => target[part].fill(0),
            }
        }
        len
    }

    /// Puts bytes at `at`; `size` rises if they end behind it.
    pub fn write(&mut self, at: u64, source: &[u8]) {
        for (number, within, part) in touched(at, source.len()) {
            let page = self.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(page)[within].copy_from_slice(&source[part]);
        }
        if !source.is_empty() {
            self.size = self.size.max(at + source.len() as u64);
        }
    }

    /// `size` becomes `len`; what lies behind is gone.
    pub fn cut(&mut self, len: u64) {
        if len < self.size {
            self.clear(len, u64::MAX);
        }
        self.size = len;
    }

    /// The span reads as zero; `size` stays.
    pub fn punch(&mut self, span: Span) {
        self.clear(span.start(), span.end());
    }

    /// `len` bytes of `source` from `from` become those here from `at`.
    pub fn share(&mut self, source: &Self, from: u64, at: u64, len: u64) {
        self.clear(at, at + len);
        let mut place = from;
        while let Some(run) = source.next_data(place) {
            let end = run.end().min(from + len);
            if run.start() >= end {
                break;
            }
            let mut bytes = vec![0; (end - run.start()) as usize];
            source.read(run.start(), &mut bytes);
            self.write(at + (run.start() - from), &bytes);
            place = end;
        }
        if len > 0 {
            self.size = self.size.max(at + len);
        }
    }

    /// The first run of pages that hold data, at or behind `at` and before the end.
    pub fn next_data(&self, at: u64) -> Option<Span> {
        if at >= self.size {
            return None;
        }
        let (&first, _) = self.pages.range(at / PAGE..).next()?;
        let mut behind = first + 1;
        while self.pages.contains_key(&behind) {
            behind += 1;
        }
        let start = at.max(first * PAGE);
        let end = behind.saturating_mul(PAGE).min(self.size);
        if start < end { Span::new(start, end) } else { None }
    }

    fn clear(&mut self, start: u64, end: u64) {
        let touched: Vec<u64> =
            self.pages.range(start / PAGE..end.div_ceil(PAGE)).map(|(&number, _)| number).collect();
        for number in touched {
            let base = number * PAGE;
            let from = start.saturating_sub(base) as usize;
            let to = end.saturating_sub(base).min(PAGE) as usize;
            if from == 0 && to == PAGE as usize {
                self.pages.remove(&number);
            } else if let Some(page) = self.pages.get_mut(&number) {
                Arc::make_mut(page)[from..to].fill(0);
            }
        }
    }
}

/// The pages that so many bytes from `at` on touch: which, what of it, and which of the bytes.
fn touched(at: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let place = at + done as u64;
        let (begin, within) = (done, (place % PAGE) as usize);
        let part = (len - done).min(PAGE as usize - within);
        done += part;
        (part > 0).then_some((place / PAGE, within..within + part, begin..done))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_does_not_come_back() {
        let mut content = Content::default();
        content.write(0, &[7; 10_000]);
        content.cut(5000);
        content.cut(10_000);
        let mut bytes = [1; 10_000];
        assert_eq!(content.read(0, &mut bytes), 10_000);
        assert!(bytes[..5000].iter().all(|&byte| byte == 7));
        assert!(bytes[5000..].iter().all(|&byte| byte == 0));
        assert_eq!(content.next_data(8192), None);
    }

    #[test]
    fn sizes_up_to_the_last_offset() {
        let mut content = Content::default();
        content.write(i64::MAX as u64 - 3, b"end");
        assert_eq!(content.size(), i64::MAX as u64);
        assert_eq!(content.page_count(), 1);
        let run = content.next_data(0).unwrap();
        assert_eq!(run.end(), i64::MAX as u64);
        content.cut(0);
        assert_eq!(content.page_count(), 0);
    }

    #[test]
    fn shared_holes_stay_holes() {
        let mut source = Content::default();
        source.write(PAGE, &[1; 10]);
        source.cut(4 * PAGE);
        let mut target = Content::default();
        target.write(0, &[9; 3 * PAGE as usize]);
        target.share(&source, 0, 10, 4 * PAGE);
        let mut bytes = vec![0; 5 * PAGE as usize];
        assert_eq!(target.read(0, &mut bytes), 4 * PAGE as usize + 10);
        assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), 20);
    }
}
