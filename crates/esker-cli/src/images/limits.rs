//! How much may come out of an image, for those who do not trust whoever made it.
//!
//! Above: `verbs::extract`. Below: nothing. Invariant: a limit that stops something is told by the name of its option.

use clap::Args;

use crate::units::parse_size;

/// The limits that a user can set.
#[derive(Args, Default)]
pub struct Limiting {
    /// Stop after this many bytes
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_bytes: Option<u64>,
    /// Stop after this many files
    #[arg(long, value_name = "N")]
    max_files: Option<u64>,
    /// Stop after this many times the bytes of the image
    #[arg(long, value_name = "N")]
    max_ratio: Option<u64>,
    /// Leave out, and name, what lies deeper than this many directories
    #[arg(long, value_name = "N")]
    max_depth: Option<usize>,
}

/// The same, of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of data.
    pub bytes: u64,
    /// What to say of more.
    pub too_long: &'static str,
    /// Most files.
    pub files: u64,
    /// Most steps down from the start.
    pub depth: usize,
}

/// What to say of more files,
pub const TOO_MANY: &str = "more files than --max-files allows";
/// and of what lies deeper.
pub const TOO_DEEP: &str = "deeper than --max-depth allows";

impl Default for Limits {
    fn default() -> Self {
        let too_long = "more bytes than --max-bytes allows";
        Self { bytes: u64::MAX, too_long, files: u64::MAX, depth: usize::MAX }
    }
}

impl Limiting {
    /// For an image of so many bytes.
    pub fn of(&self, image_len: u64) -> Limits {
        let none = Limits::default();
        let bytes = self.max_bytes.unwrap_or(none.bytes);
        let by_ratio = self.max_ratio.map_or(u64::MAX, |times| times.saturating_mul(image_len));
        let too_long = match by_ratio < bytes {
            true => "more bytes than --max-ratio allows",
            false => none.too_long,
        };
        Limits {
            bytes: bytes.min(by_ratio),
            too_long,
            files: self.max_files.unwrap_or(none.files),
            depth: self.max_depth.unwrap_or(none.depth),
        }
    }
}

fn size(word: &str) -> Result<u64, String> {
    parse_size(word, 0).map_err(|_| "give bytes, as in 10G".to_owned())
}
