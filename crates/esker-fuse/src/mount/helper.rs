//! Mounting without root's rights: fusermount3, which is set-uid, mounts and sends the device over
//! a socket.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, IoSliceMut, Read, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::io::{Errno, FdFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::error::MountError;
use super::options::MountOptions;

const HELPER: &str = "fusermount3";
/// Tells fusermount3 the number of the socket.
const SOCKET_VARIABLE: &str = "_FUSE_COMMFD";

type Guard = Option<(UnixStream, Child)>;

/// Mounts; with `auto_unmount` the helper stays and unmounts when the socket closes.
pub(super) fn mount(dir: &Path, options: &MountOptions) -> Result<(OwnedFd, Guard), MountError> {
    let failed = |what| move |error| MountError::Io { what, error };
    let (ours, theirs) = UnixStream::pair().map_err(failed("socketpair(2)"))?;
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty())
        .map_err(|errno| failed("fcntl(2)")(errno.into()))?;
    let mut child = Command::new(HELPER)
        .arg("-o")
        .arg(options.helper_text())
        .arg("--")
        .arg(dir)
        .env(SOCKET_VARIABLE, theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(not_found)?;
    drop(theirs);
    match receive(&ours) {
        Ok(Some(fd)) => {
            if options.auto_unmount {
                return Ok((fd, Some((ours, child))));
            }
            let _ = child.wait();
            Ok((fd, None))
        }
        Ok(None) => Err(refusal(&mut child, dir)),
        Err(errno) => Err(failed("recvmsg(2)")(errno.into())),
    }
}

/// Unmounts what the same user has mounted.
pub(super) fn unmount(dir: &Path, lazily: bool) -> Result<(), MountError> {
    let lazy = lazily.then_some("-z");
    let output = Command::new(HELPER)
        .arg("-u")
        .args(lazy)
        .arg("--")
        .arg(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(not_found)?;
    if output.status.success() {
        return Ok(());
    }
    Err(explain(&output.stderr, dir))
}

/// A shell that calls fusermount3 when it is told to, for a process that may start no programs any more.
/// It ends with its input, that is, with us.
#[derive(Debug)]
pub(super) struct Parting {
    shell: Child,
    /// Until it is dropped.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// Reads options of fusermount3, a line for each call; answers each with a line: an empty one when it went
/// well, otherwise what fusermount3 said.
const ORDERS: &str = r#"while read -r lazy
do if words=$(fusermount3 -u $lazy -- "$0" 2>&1); then echo; else echo refused: $words; fi
done"#;

impl Parting {
    pub(super) fn new(dir: &Path) -> Result<Self, MountError> {
        let failed = |error| MountError::Io { what: "starting a shell for fusermount3", error };
        let mut shell = Command::new("/bin/sh")
            .args(["-fc", ORDERS])
            .arg(dir)
            .current_dir("/")
            // The terminal's signals are for us: we tell it what to do about them.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let answers =
            shell.stdout.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { orders: shell.stdin.take(), answers: BufReader::new(answers), shell })
    }

    /// As [`unmount`].
    pub(super) fn unmount(&mut self, dir: &Path, lazily: bool) -> Result<(), MountError> {
        let failed = |error| MountError::Io { what: "asking for fusermount3", error };
        let order: &[u8] = if lazily { b"-z\n" } else { b"\n" };
        if let Some(orders) = &mut self.orders {
            orders.write_all(order).map_err(failed)?;
        }
        let mut answer = Vec::new();
        self.answers.read_until(b'\n', &mut answer).map_err(failed)?;
        match answer.strip_suffix(b"\n") {
            Some(b"") => Ok(()),
            Some(words) => Err(explain(words.strip_prefix(b"refused: ").unwrap_or(words), dir)),
            None => Err(failed(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

impl Drop for Parting {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.shell.wait();
    }
}

fn not_found(error: io::Error) -> MountError {
    if error.kind() == io::ErrorKind::NotFound {
        MountError::NoHelper
    } else {
        MountError::Io { what: "starting fusermount3", error }
    }
}

fn refusal(child: &mut Child, dir: &Path) -> MountError {
    let mut words = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_end(&mut words);
    }
    let _ = child.wait();
    explain(&words, dir)
}

fn explain(words: &[u8], dir: &Path) -> MountError {
    let words = String::from_utf8_lossy(words);
    let message = words.trim().trim_start_matches("fusermount3: ").to_owned();
    if message.contains("user_allow_other") {
        MountError::AllowOtherForbidden
    } else if message.contains("Device or resource busy") {
        MountError::Busy { dir: dir.to_owned() }
    } else if message.contains("open /dev/fuse: Permission denied") {
        MountError::DeviceForbidden
    } else if message.contains("device not found") {
        MountError::NoDevice
    } else if ["write access to mountpoint", "not owned by"]
        .iter()
        .any(|part| message.contains(part))
    {
        MountError::NotYours { dir: dir.to_owned() }
    } else if message.contains("not found in") {
        MountError::NotMounted { dir: dir.to_owned() }
    } else {
        MountError::Helper { message }
    }
}

/// The descriptor that the helper sends; none when it closes the socket without.
fn receive(socket: &UnixStream) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    loop {
        match recvmsg(socket.as_fd(), &mut data, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(_) => break,
        }
    }
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    }))
}

impl MountOptions {
    /// The options as fusermount3 takes them.
    fn helper_text(&self) -> OsString {
        let mut text = String::from("default_permissions,subtype=esker,fsname=");
        for letter in self.source().chars() {
            if matches!(letter, ',' | '\\') {
                text.push('\\');
            }
            text.push(letter);
        }
        let words = [
            (self.read_only, "ro"),
            (self.allow_other, "allow_other"),
            (self.no_suid, "nosuid"),
            (self.no_dev, "nodev"),
            (self.no_exec, "noexec"),
            (self.no_atime, "noatime"),
            (self.sync, "sync"),
            (self.dir_sync, "dirsync"),
            (self.auto_unmount, "auto_unmount"),
        ];
        for (_, word) in words.iter().filter(|(set, _)| *set) {
            text.push(',');
            text.push_str(word);
        }
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_and_backslashes_reach_the_helper_whole() {
        let options = MountOptions {
            fsname: Some(r"a,b\c".to_owned()),
            read_only: true,
            ..MountOptions::default()
        };
        assert_eq!(options.helper_text(), r"default_permissions,subtype=esker,fsname=a\,b\\c,ro");
    }
}
