//! What keeps its bytes: pages that are shared until somebody changes them, so that a copy costs next to nothing.
//!
//! Above: [`super::Lying`]. Invariant: a copy never sees what is written to another.

use std::sync::{Arc, LazyLock};

use esker_stone::check::checksum;

/// Bytes of a page.
pub const PAGE: usize = 4096;

type Page = [u8; PAGE];

/// What nobody wrote to yet, of all of them: whether a page is this one is told without looking at its bytes.
static ZEROS: LazyLock<Arc<Page>> = LazyLock::new(|| Arc::new([0; PAGE]));

fn is_zero(page: &Arc<Page>) -> bool {
    Arc::ptr_eq(page, &ZEROS) || **page == **ZEROS
}

/// Bytes from 0 on, zero at first.
#[derive(Clone)]
pub struct Medium(Vec<Arc<Page>>);

impl Medium {
    /// So many bytes; a multiple of [`PAGE`].
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self(vec![Arc::clone(&ZEROS); size as usize / PAGE])
    }

    /// In bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        (self.0.len() * PAGE) as u64
    }

    /// Fills `target` from `at` on.
    pub fn read(&self, at: u64, target: &mut [u8]) {
        let mut done = 0;
        while done < target.len() {
            let place = at as usize + done;
            let within = place % PAGE;
            let len = (PAGE - within).min(target.len() - done);
            target[done..done + len].copy_from_slice(&self.0[place / PAGE][within..within + len]);
            done += len;
        }
    }

    /// Puts `source` at `at`.
    pub fn write(&mut self, at: u64, source: &[u8]) {
        let mut done = 0;
        while done < source.len() {
            let place = at as usize + done;
            let within = place % PAGE;
            let len = (PAGE - within).min(source.len() - done);
            let page = &mut self.0[place / PAGE];
            match <&Page>::try_from(&source[done..done + len]) {
                Ok(whole) => *page = Arc::new(*whole),
                Err(_) => {
                    Arc::make_mut(page)[within..within + len]
                        .copy_from_slice(&source[done..done + len]);
                }
            }
            done += len;
        }
    }

    /// A number that tells the pages of this range from others.
    #[must_use]
    pub fn print(&self, at: u64, len: u64) -> u64 {
        let (from, to) = (at as usize / PAGE, (at + len) as usize);
        let pages = self.0[from..to.div_ceil(PAGE)].iter();
        pages.fold(0, |sum, page| sum.rotate_left(5) ^ checksum(&page[..]))
    }

    /// Whether the page that holds this byte is all zeros.
    #[must_use]
    pub fn is_zero(&self, at: u64) -> bool {
        is_zero(&self.0[at as usize / PAGE])
    }

    /// Where the pages between these two places end that are not all zeros; `from` where there are none.
    #[must_use]
    pub fn end_of_bytes(&self, from: u64, to: u64) -> u64 {
        let (first, last) = (from as usize / PAGE, to as usize / PAGE);
        let found = self.0[first..last].iter().rposition(|page| !is_zero(page));
        found.map_or(from, |page| ((first + page + 1) * PAGE) as u64)
    }

    /// Turns one bit round.
    pub fn rot(&mut self, bit: u64) {
        let (at, mask) = (bit / 8, 1 << (bit % 8));
        let mut byte = [0];
        self.read(at, &mut byte);
        self.write(at, &[byte[0] ^ mask]);
    }
}
