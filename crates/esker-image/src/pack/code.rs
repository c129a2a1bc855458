//! What is done to a block of code before it is compressed, if a sample of it says that it pays.
//!
//! Above: `pool`. Below: the transforms of esker-stone. Invariant: a block that was transformed has been proven to come
//! out again.

use esker_stone::Transform;

use super::category::TRIAL;
use super::program::Machine;

/// Chunks of a block that are tried.
const CHUNKS_MAX: usize = 16;
/// What does not save one part in so many does not pay for undoing it.
const GAIN: usize = 100;

/// How long a sample of a block is when it is compressed quickly.
fn tried(plain: &[u8], transform: Transform) -> Option<usize> {
    let count = plain.len().div_ceil(Transform::CHUNK_LEN);
    let mut sample = Vec::new();
    for (number, chunk) in
        plain.chunks(Transform::CHUNK_LEN).enumerate().step_by(count.div_ceil(CHUNKS_MAX).max(1))
    {
        let from = sample.len();
        sample.extend_from_slice(chunk);
        transform.apply_chunk(number, &mut sample[from..]);
    }
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
        assert_eq!(filter(&mut [], Machine::Arm), Transform::None);
        assert_eq!(filter(&mut [0xeb; 3], Machine::Arm), Transform::None);
    }
}
