//! Huge pages for what the core has from the global allocator.
//!
//! Below: madvise(2), whose failure changes nothing but speed and what is given back.

use core::iter;

use esker::ground::Lender;
use rustix::mm::{Advice, madvise};

/// The operating system as a [`Lender`].
#[derive(Debug)]
pub(crate) struct HugePages;

impl HugePages {
    /// Advice on the whole pages in a range.
    ///
    /// # Safety
    /// If the advice lets bytes change, these must be the caller's to change.
    unsafe fn advise(start: *const u8, len: usize, advice: Advice) {
        let page = rustix::param::page_size();
        let skipped = start.addr().wrapping_neg() % page;
        let len = len.saturating_sub(skipped) / page * page;
        if len > 0 {
            // SAFETY: the caller's promise; the kernel answers an error where nothing is mapped.
            let _ = unsafe { madvise(start.wrapping_add(skipped).cast_mut().cast(), len, advice) };
        }
    }
}

/// Gives the whole pages of a buffer back to the operating system, until it is next written to. What
/// it held is gone.
pub fn release(buffer: &mut [u8]) {
    HugePages.release(&mut iter::once(buffer));
}

impl Lender for HugePages {
    fn huge(&self, start: *const u8, len: usize, wanted: bool) {
        let advice = if wanted { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: this advice is about what is below the bytes, and lets none of them change.
        unsafe { Self::advise(start, len, advice) }
    }

    fn release(&self, pieces: &mut dyn Iterator<Item = &mut [u8]>) {
        // Every call interrupts all threads of the process to forget where pages were.
        let mut pieces = pieces.peekable();
        while let Some(first) = pieces.next() {
            let (start, mut len) = (first.as_ptr(), first.len());
            while let Some(next) = pieces.next_if(|next| next.as_ptr() == start.wrapping_add(len)) {
                len += next.len();
            }
            // SAFETY: the bytes are borrowed alone, one piece behind the other; what they turn to, zeros or what
            // a file holds, are bytes as well.
            unsafe { Self::advise(start, len, Advice::LinuxDontNeed) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_back_whole_pages_and_nothing_else() {
        let mut bytes = vec![7; 4 << 20];
        HugePages.huge(bytes.as_ptr(), bytes.len(), true);
        let end = bytes.len() - 100;
        let (one, other) = bytes[100..end].split_at_mut(70_001);
        HugePages.release(&mut [one, other].into_iter());
        // What was taken back comes again as zeros.
        let edge = rustix::param::page_size();
        assert!(bytes[100 + edge..end - edge].iter().all(|&byte| byte == 0));
        assert!(bytes[..100].iter().chain(&bytes[end..]).all(|&byte| byte == 7));
        HugePages.huge(bytes.as_ptr(), bytes.len(), false);
        HugePages.release(&mut iter::empty());
        release(&mut []);
    }
}
