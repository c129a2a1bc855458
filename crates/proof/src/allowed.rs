//! Differences from tmpfs that are meant. Each stands with its reason in docs/DIFFERENCES.md.
//!
//! Above: the tests that compare with tmpfs. Invariant: a script ends at such a step, because from there on the two
//! trees may rightly differ.

use crate::differ::Taken;
use crate::script::{Op, User};

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
        (Op::Fallocate { .. } | Op::Copy { .. }, Ok(_), Ok(_)) if taken.step.user != User::Root => {
            Some("the kernel goes on showing set-id bits that we took away while filling")
        }
        _ => beside_tmpfs(taken),
    }
}
