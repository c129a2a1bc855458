//! The rights of a process that serves images, given up: whoever finds a hole in a decoder finds nothing behind it.
//!
//! Above: `serve`, when all is opened and mounted. Below: the kernel's system call filter, through the crate
//! `seccompiler`. Invariant: what is not listed here fails with EPERM, in every thread, and nobody can take that
//! back. A confined process opens no file, starts no program, makes no connection and no memory executable.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// Addresses that serving may take beside what it has and what it may keep of what was decoded: a net below the
/// limits that the decoders keep themselves. Stacks, and what the allocator sets aside for each thread, count.
const ADDRESSES_MORE: u64 = 4 << 30;

/// What serving calls, with whatever arguments.
const CALLS: &[libc::c_long] = &[
    // Descriptors that are open already.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_lseek,
    libc::SYS_fadvise64,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_fcntl,
    libc::SYS_close,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_ppoll,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    // A ring may only do what it was restricted to when it was made.
    libc::SYS_io_uring_enter,
    // Memory and threads.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_futex,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // What there is to know.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_capget,
    // The end: of the mount, and of the program that may help with it.
    libc::SYS_umount2,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// io_uring_register(2): the one that lets a ring begin.
const REGISTER_ENABLE_RINGS: u64 = 12;

/// What a confined process needs of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// So many bytes of what it decoded, to keep.
    Kept(u64),
    /// What changes, which only its own limits bound: to run out of addresses would lose it.
    Memory,
}

/// Confines the process.
///
/// There may be no filter for this machine, or its kernel may not take one: then it keeps its rights.
pub fn confine(needs: Needs) -> Result<(), Error> {
    let program = program()?;
    if let Needs::Kept(bytes) = needs {
        bound_addresses(bytes);
    }
    seccompiler::apply_filter_all_threads(&program)
}

/// Without a limit the decoders' own are what there is.
fn bound_addresses(kept: u64) {
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let Some(has) = pages.and_then(|pages| pages.checked_mul(rustix::param::page_size() as u64))
    else {
        return;
    };
    let enough = has.saturating_add(kept.saturating_mul(2)).saturating_add(ADDRESSES_MORE);
    let Rlimit { current, maximum } = getrlimit(Resource::As);
    let lower = |limit: Option<u64>| Some(limit.map_or(enough, |limit| limit.min(enough)));
    let _ = setrlimit(Resource::As, Rlimit { current: lower(current), maximum: lower(maximum) });
}

/// The filter for this kind of machine.
fn program() -> Result<BpfProgram, Error> {
    let mut calls: BTreeMap<_, _> = CALLS.iter().map(|&call| (call, Vec::new())).collect();
    let own = u64::from(std::process::id());
    let no_code = || only(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0);
    for (call, rule) in [
        (libc::SYS_mmap, no_code()?),
        (libc::SYS_mprotect, no_code()?),
        // Names for threads, and nothing else.
        (libc::SYS_prctl, only(0, SeccompCmpOp::Eq, libc::PR_SET_NAME as u64)?),
        // abort(3).
        (libc::SYS_tgkill, only(0, SeccompCmpOp::Eq, own)?),
        (libc::SYS_io_uring_register, only(1, SeccompCmpOp::Eq, REGISTER_ENABLE_RINGS)?),
    ] {
        calls.insert(call, vec![rule]);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let machine = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(calls, refused, SeccompAction::Allow, machine)?.try_into()?)
}

/// A call whose argument with this number compares so.
fn only(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompRule, Error> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::io;
    use std::net::UdpSocket;
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::process::Command;
    use std::ptr;
    use std::thread;

    use rustix::mm::{MapFlags, ProtFlags};

    use super::*;

    fn refused<T>(answer: io::Result<T>) -> bool {
        answer.err().and_then(|error| error.raw_os_error()) == Some(libc::EPERM)
    }

    fn mapped(access: ProtFlags) -> rustix::io::Result<*mut c_void> {
        #[expect(unsafe_code, reason = "the filter sees the arguments of mmap(2)")]
        // SAFETY: new memory, which nobody else knows; it stays mapped.
        unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), 4096, access, MapFlags::PRIVATE)
        }
    }

    /// In a thread of its own, to which the filter is kept. What served before works, and nothing is had beside it.
    #[test]
    fn a_confined_thread_has_what_it_had_and_no_more() {
        let program = program().unwrap();
        let open = fs::File::open("/proc/self/stat").unwrap();
        // As the system log is told.
        let log = std::env::temp_dir().join(format!("esker-sandbox-{}", std::process::id()));
        let (told, teller) = (UnixDatagram::bind(&log).unwrap(), UnixDatagram::unbound().unwrap());
        let path = log.clone();
        let confined = thread::spawn(move || {
            seccompiler::apply_filter(&program).unwrap();
            let had = io::read_to_string(&open).is_ok_and(|text| !text.is_empty())
                && open.metadata().is_ok()
                && thread::spawn(|| vec![1_u8; 1 << 20].len()).join().is_ok()
                && mapped(ProtFlags::READ | ProtFlags::WRITE).is_ok();
            let had =
                had && teller.send_to(b"told", &path).is_ok() && told.recv(&mut [0; 9]).is_ok();
            let here = std::env::temp_dir();
            let refusals = [
                refused(fs::File::open("/proc/self/stat")),
                refused(fs::write(here.join("esker-sandbox"), "")),
                refused(fs::create_dir(here.join("esker-sandbox"))),
                refused(fs::remove_file(here.join("esker-sandbox"))),
                refused(Command::new("/bin/true").status()),
                refused(UdpSocket::bind("127.0.0.1:0")),
                refused(UnixStream::pair()),
                refused(mapped(ProtFlags::READ | ProtFlags::EXEC).map_err(Into::into)),
                refused(
                    rustix::process::kill_process_group(
                        rustix::process::Pid::INIT,
                        rustix::process::Signal::CONT,
                    )
                    .map_err(Into::into),
                ),
            ];
            (had, refusals)
        });
        let (had, refusals) = confined.join().unwrap();
        fs::remove_file(log).unwrap();
        assert!(had, "what was open before can be used");
        assert_eq!(refusals, [true; 9]);
        assert!(
            fs::File::open("/proc/self/stat").is_ok(),
            "other threads of a test keep their rights"
        );
    }
}
