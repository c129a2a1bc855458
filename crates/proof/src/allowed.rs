//! Differences from tmpfs that are meant. Each stands with its reason in docs/DIFFERENCES.md.
//!
//! Above: the tests that compare with tmpfs. Invariant: a script ends at such a step, because from there on the two
//! trees may rightly differ.

use crate::differ::Taken;
use crate::script::Op;

const EPERM: i32 = 1;

/// Why this step may end differently in Esker (`mine`) and on tmpfs (`yours`).
#[must_use]
pub fn beside_tmpfs(taken: &Taken<'_>) -> Option<&'static str> {
    match (&taken.step.op, taken.mine, taken.yours) {
        (Op::Ftruncate { .. } | Op::Copy { .. }, Err(EPERM), Ok(_)) if taken.fixed => {
            Some("an older handle does not get round chattr +i and +a")
        }
        _ => None,
    }
}

/// The same for a mount, where the kernel checks before it asks us.
#[must_use]
pub fn mount_beside_tmpfs(taken: &Taken<'_>) -> Option<&'static str> {
    match (&taken.step.op, taken.mine, taken.yours) {
        (_, Err(errno), Err(EPERM)) if taken.fixed && *errno != EPERM => {
            Some("on FUSE the kernel does not know of chattr +i, and says what else is wrong")
        }
        _ => beside_tmpfs(taken),
    }
}

/// The same where every time is compared with the step that set it.
#[must_use]
pub fn mount_times_beside_tmpfs(taken: &Taken<'_>) -> Option<&'static str> {
    match (&taken.step.op, taken.mine) {
        (Op::Chattr { .. }, Ok(_)) => Some(
            "with writeback the kernel keeps a file's ctime itself, and chattr does not move it",
        ),
        _ => mount_beside_tmpfs(taken),
    }
}
