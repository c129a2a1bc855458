//! Who asks, as far as the kernel says.

use esker::posix::Caller;
use rustix::process::Pid;
use rustix::thread::{CapabilitySet, capabilities};

use crate::request::Request;

/// The caller of a request, whose permissions and capabilities the kernel has checked.
pub fn caller<'a>(request: &'a Request<'_>) -> Caller<'a> {
    Caller {
        uid: request.uid,
        gid: request.gid,
        groups: request.groups.list(),
        privileged: true,
        checked: true,
    }
}

/// The caller of a LISTXATTR: the one question where the kernel leaves it to us what a caller
/// without privilege may see. (It guards the values, not the list of names.)
pub fn lister<'a>(request: &'a Request<'_>) -> Caller<'a> {
    let privileged = capable(request.pid, CapabilitySet::SYS_ADMIN).unwrap_or(request.uid == 0);
    Caller { privileged, ..caller(request) }
}

/// The caller of a FALLOCATE or COPY_FILE_RANGE on a file that has set-id bits, or not. The kernel has no flag there
/// that says whether they may stay, and a mount that allows id mapping is not told the user.
pub fn filler<'a>(request: &'a Request<'_>, has_set_id: bool) -> Caller<'a> {
    let privileged = !has_set_id || capable(request.pid, CapabilitySet::FSETID).unwrap_or(false);
    Caller { privileged, ..caller(request) }
}

/// Whether a thread, which waits for our answer and so cannot go away, has the capability.
fn capable(pid: u32, capability: CapabilitySet) -> Option<bool> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    Some(capabilities(Some(pid)).ok()?.effective.contains(capability))
}
