//! Reading tar archives: every dialect in use, believing nothing.
//!
//! Above: `import::unpack` puts the entries into a file system. Below: any [`std::io::Read`].
//! The project has a reader of its own because holes must stay holes (the crates at hand read
//! a sparse file of a terabyte as a terabyte of zeros) and because a refusal must name the entry.
//! Invariant: nothing is allocated by a length that the archive merely claims, and no input panics.

mod archive;
mod header;
mod pax;
mod sparse;

pub use archive::{Archive, Content, Entry};

/// Why an archive is refused.
#[derive(Debug)]
pub struct Refusal {
    /// In words, as the rest of a sentence about the entry.
    pub what: String,
    /// Whose fault it was, if an entry's.
    pub entry: Option<Vec<u8>>,
}

impl Refusal {
    /// Not yet about any entry.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), entry: None }
    }

    /// About `entry`, if it is not about another already.
    #[must_use]
    pub fn of(mut self, entry: &[u8]) -> Self {
        self.entry.get_or_insert_with(|| entry.to_vec());
        self
    }
}

#[cfg(test)]
mod tests;
