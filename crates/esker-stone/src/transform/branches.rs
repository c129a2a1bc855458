//! Branches in code, told by where they go to: calls of the same function have the same bytes then, wherever they are.
//!
//! Above: `transform`. Below: the filters of xz, by the crate `lzma-rust2`.

use std::io::Write as _;

use lzma_rust2::filter::StreamFilter;
use lzma_rust2::filter::bcj::BcjWriter;
use lzma_rust2::{FilterConfig, FilterType};

/// The machine whose branches are meant.
#[derive(Clone, Copy)]
pub(super) enum Branches {
    X86,
    Arm,
    Thumb,
    Arm64,
    Riscv,
}

impl Branches {
    /// Tells branches by where they go to, in bytes that lie at `at` in their block.
    pub fn apply(self, at: usize, bytes: &mut [u8]) {
        let mut filtered = Vec::with_capacity(bytes.len());
        let target = &mut filtered;
        let mut writer = match self {
            Self::X86 => BcjWriter::new_x86(target, at),
            Self::Arm => BcjWriter::new_arm(target, at),
            Self::Thumb => BcjWriter::new_arm_thumb(target, at),
            Self::Arm64 => BcjWriter::new_arm64(target, at),
            Self::Riscv => BcjWriter::new_riscv(target, at),
        };
        // A vector takes everything.
        let done = writer.write_all(bytes).is_ok() && writer.finish().is_ok();
        if done && filtered.len() == bytes.len() {
            bytes.copy_from_slice(&filtered);
        }
    }

    /// Makes plain bytes of such.
    pub fn undo(self, at: usize, bytes: &mut [u8]) {
        let filter_type = match self {
            Self::X86 => FilterType::BcjX86,
            Self::Arm => FilterType::BcjArm,
            Self::Thumb => FilterType::BcjArmThumb,
            Self::Arm64 => FilterType::BcjArm64,
            Self::Riscv => FilterType::BcjRiscv,
        };
        // Blocks are shorter than 2^32, and all of these filters are known.
        let config = FilterConfig { filter_type, property: at as u32 };
        if let Ok(mut filter) = StreamFilter::new(&config) {
            filter.decode(bytes);
        }
    }
}
