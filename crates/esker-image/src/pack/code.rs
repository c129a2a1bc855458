//! What is done to a block of code before it is compressed, if a sample of it says that it pays.
//!
//! Above: `pool`. Below: the transforms of esker-stone. Invariant: a block that was transformed has been proven to come
//! out again.

use esker_stone::{Codec, Setting, Transform};

use super::program::Machine;

/// Bytes of a block that are tried, in one piece: what is there twice, as code of two versions is, must be seen twice,
/// since what a transform makes of it differs by where it lies.
const TRIED_MAX: usize = 4 << 20;
/// How they are: what repeats within 2 MiB is seen.
const TRIAL: Setting = Setting::new(Codec::Zstd, 3);
/// What does not save one part in so many does not pay for undoing it.
const GAIN: usize = 100;

/// How long the head of a block is when it is compressed quickly.
fn tried(plain: &[u8], transform: Transform) -> Option<usize> {
    let sample = transform.apply(&plain[..plain.len().min(TRIED_MAX)]);
    Some(TRIAL.encode(&sample, &[]).ok()?.1.len())
}

/// Transforms a block of code where it lies, and says how.
pub(super) fn filter(plain: &mut [u8], machine: Machine) -> Transform {
    let Some(usual) = tried(plain, Transform::None) else { return Transform::None };
    let tried = |&transform: &Transform| Some((tried(plain, transform)?, transform));
    let best = machine.transforms().iter().filter_map(tried).min_by_key(|(len, _)| *len);
    match best {
        Some((len, transform)) if len + usual / GAIN < usual && transform.prove(plain) => transform,
        _ => Transform::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of a few functions, four bytes each, in the form in which ARM of 64 bits has them.
    fn calls(count: u32) -> Vec<u8> {
        let call = |at: u32| {
            let target = 4096 * (at.wrapping_mul(2_654_435_761) >> 27);
            (0x9400_0000 | target.wrapping_sub(4 * at) >> 2 & 0x03ff_ffff).to_le_bytes()
        };
        (0..count).flat_map(call).collect()
    }

    #[test]
    fn what_pays_is_done_and_what_does_not_is_left() {
        let plain = calls(100_000);
        let mut bytes = plain.clone();
        assert_eq!(filter(&mut bytes, Machine::Arm64), Transform::Arm64);
        assert_ne!(bytes, plain);
        Transform::Arm64.undo(&mut bytes);
        assert_eq!(bytes, plain);
        // It is not for this machine.
        assert_eq!(filter(&mut bytes, Machine::X86), Transform::None);
        assert_eq!(bytes, plain);
        // What is there twice as it is would be there once and once more.
        let mut twice = [&plain[..], &[0; 4], &plain[..]].concat();
        assert_eq!(filter(&mut twice, Machine::Arm64), Transform::Arm64);
        let mut random: Vec<u8> =
            (0..plain.len() as u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        random.iter_mut().skip(3).step_by(64).for_each(|top| *top = 0x94);
        let mut versions = [&random[..], &[0; 4], &random[..]].concat();
        assert_eq!(filter(&mut versions, Machine::Arm64), Transform::None);
        assert_eq!(filter(&mut [], Machine::Arm), Transform::None);
        assert_eq!(filter(&mut [0xeb; 3], Machine::Arm), Transform::None);
    }
}
