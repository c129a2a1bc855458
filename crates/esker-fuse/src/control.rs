//! Asking the server of a mount for something that is no file: one ioctl on any file or directory of the mount.
//!
//! Above: verbs. Below: the kernel, `door`. A message is a page of 4096 bytes both ways: a [`Head`], then text.
//! An answer that is longer is kept under a ticket, and fetched page by page.
//! Invariant: a request is carried out once, however many pages its answer has; only root, and who serves the mount,
//! is answered; what is kept for those who fetch no more is bounded.

use std::collections::VecDeque;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use esker::{Error, Ino, Result, layout};
use rustix::fs::OFlags;
use rustix::ioctl::{Opcode, Updater, opcode};

use crate::reply::Reply;
use crate::request::Request;
use crate::wire::IoctlOut;

/// Bytes of a message, either way.
pub const PAGE_LEN: usize = 4096;
/// Longest text of a request.
pub const TEXT_MAX: usize = PAGE_LEN - Head::SIZE;
/// Longest answer.
const ANSWER_MAX: usize = 16 << 20;
/// Answers that are kept for those who still fetch them; the oldest goes first.
const KEPT_MAX: usize = 16;

layout! {
    /// In front of each message.
    pub struct Head: 16 {
        /// Of an answer that is fetched; 0: carry out the request.
        0 => ticket: u64,
        /// Where in the answer this page begins.
        8 => from: u32,
        /// Bytes of the request, or of the whole answer.
        12 => len: u32,
    }
}

/// Another state has taken the place of the one that was served.
#[derive(Clone, Debug, Default)]
pub struct Exchanged {
    /// Names, with their directories, that lead elsewhere or nowhere, and all names of `files`.
    pub names: Vec<(Ino, Vec<u8>)>,
    /// Inodes that are not the same, or not there any more.
    pub inodes: Vec<Ino>,
    /// Files among them that are other ones: whoever has one open is told that it is gone.
    pub files: Vec<Ino>,
    /// Inodes without names: those that nobody holds go.
    pub orphans: Vec<Ino>,
}

/// What is served, to whoever answers what is asked of the server itself.
pub trait Served {
    /// Has `exchange` put another state in the place of the one that is served, while no call is under way. Before the
    /// request is answered the kernel forgets what is not so any more. `None`: all is as it was.
    fn exchange(&self, exchange: &mut dyn FnMut() -> Option<Exchanged>);
}

/// Who answers. Request and answer are text in whatever form the two agree on.
pub trait Control: Send + Sync {
    /// Does what is asked, and says what came of it. It may take long.
    fn answer(&self, request: &[u8], served: &dyn Served) -> Vec<u8>;
}

/// Answers that were not fetched yet.
#[derive(Default)]
struct Waiting {
    last: u64,
    answers: VecDeque<(u64, Arc<[u8]>)>,
}

/// Where requests come in.
pub(crate) struct Desk {
    control: Arc<dyn Control>,
    owner: u32,
    waiting: Mutex<Waiting>,
}

impl Desk {
    pub fn new(control: Arc<dyn Control>) -> Self {
        let owner = rustix::process::geteuid().as_raw();
        Self { control, owner, waiting: Mutex::default() }
    }

    /// Whether who asks may: root, and who serves the mount. Where the kernel does not say who it is, the thread
    /// does, which waits for the answer and so cannot go away.
    fn admits(&self, request: &Request<'_>) -> bool {
        let uid = match request.uid {
            u32::MAX => std::fs::metadata(format!("/proc/{}", request.pid)).map(|of| of.uid()),
            uid => Ok(uid),
        };
        uid.is_ok_and(|uid| uid == 0 || uid == self.owner)
    }

    /// Answers a page: the first of a request that is carried out now, or the next one of an earlier answer.
    pub fn answer(
        &self,
        (request, input): (&Request<'_>, &[u8]),
        served: &dyn Served,
        reply: &mut Reply<'_>,
    ) -> Result<()> {
        if !self.admits(request) {
            return Err(Error::NotPermitted);
        }
        let head = Head::decode(input).ok_or(Error::Invalid)?;
        let text = input.get(Head::SIZE..).and_then(|rest| rest.get(..head.len as usize));
        let text = text.ok_or(Error::Invalid)?;
        let (ticket, answer) = match head.ticket {
            0 => self.carry_out(text, served),
            ticket => (ticket, self.kept(ticket).ok_or(Error::Stale)?),
        };
        let rest = answer.get(head.from as usize..).ok_or(Error::Invalid)?;
        let page = &rest[..rest.len().min(TEXT_MAX)];
        if page.len() == rest.len() {
            self.forget(ticket);
        }
        let done = IoctlOut { result: 0, flags: 0, in_iovs: 0, out_iovs: 0 };
        reply.put(&done.encode())?;
        reply.put(&Head { ticket, from: head.from, len: answer.len() as u32 }.encode())?;
        reply.put(page)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, text: &[u8], served: &dyn Served) -> (u64, Arc<[u8]>) {
        let mut answer = self.control.answer(text, served);
        answer.truncate(ANSWER_MAX);
        let answer: Arc<[u8]> = answer.into();
        let mut waiting = self.waiting();
        waiting.last += 1;
        let ticket = waiting.last;
        if waiting.answers.len() == KEPT_MAX {
            waiting.answers.pop_front();
        }
        waiting.answers.push_back((ticket, Arc::clone(&answer)));
        (ticket, answer)
    }

    fn kept(&self, ticket: u64) -> Option<Arc<[u8]>> {
        let waiting = self.waiting();
        let found = waiting.answers.iter().find(|(own, _)| *own == ticket);
        found.map(|(_, answer)| Arc::clone(answer))
    }

    fn forget(&self, ticket: u64) {
        self.waiting().answers.retain(|(own, _)| *own != ticket);
    }
}

/// The command, as the kernel reads it: how long the message is, and that it goes both ways.
const CONTROL: Opcode = opcode::read_write::<[u8; PAGE_LEN]>(b'E', 1);

/// Opens what can lie in a mount of ours and be asked. Nothing else is: to open a pipe would be to wait, to open a
/// device to do something to it.
fn opened(path: &Path) -> io::Result<File> {
    let asked = |meta: &Metadata| meta.is_file() || meta.is_dir();
    let nobody = || io::Error::from(rustix::io::Errno::NOTTY);
    if !asked(&std::fs::metadata(path)?) {
        return Err(nobody());
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if asked(&file.metadata()?) { Ok(file) } else { Err(nobody()) }
}

/// Asks the server of the mount in which `path` lies.
///
/// # Errors
/// `InvalidInput` for a request that is longer than [`TEXT_MAX`]; ENOTTY where nobody answers, and for what is neither
/// a file nor a directory; EPERM for who may
/// not ask; ESTALE when the answer was not fetched in time.
pub fn ask(path: &Path, request: &[u8]) -> io::Result<Vec<u8>> {
    if request.len() > TEXT_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = opened(path)?;
    let mut answer = Vec::new();
    let mut ticket = 0;
    loop {
        let text = if ticket == 0 { request } else { &[] };
        let head = Head { ticket, from: answer.len() as u32, len: text.len() as u32 };
        let mut page = [0; PAGE_LEN];
        page[..Head::SIZE].copy_from_slice(&head.encode());
        page[Head::SIZE..Head::SIZE + text.len()].copy_from_slice(text);
        #[expect(unsafe_code, reason = "rustix has no safe wrapper for this ioctl")]
        // SAFETY: the command says that PAGE_LEN bytes are read and written, and `page` has so many.
        unsafe {
            rustix::ioctl::ioctl(&file, Updater::<CONTROL, [u8; PAGE_LEN]>::new(&mut page))?;
        }
        let head = Head::decode(&page).ok_or(io::ErrorKind::InvalidData)?;
        let len = (head.len as usize).min(ANSWER_MAX);
        let rest = len.checked_sub(answer.len()).ok_or(io::ErrorKind::InvalidData)?;
        answer.extend_from_slice(&page[Head::SIZE..Head::SIZE + rest.min(TEXT_MAX)]);
        if answer.len() == len {
            return Ok(answer);
        }
        ticket = head.ticket;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Served for Echo {
        fn exchange(&self, _: &mut dyn FnMut() -> Option<Exchanged>) {}
    }

    impl Control for Echo {
        fn answer(&self, request: &[u8], _: &dyn Served) -> Vec<u8> {
            request.repeat(3)
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_forgotten() {
        let desk = Desk::new(Arc::new(Echo));
        let (first, answer) = desk.carry_out(b"abc", &Echo);
        assert_eq!(&answer[..], b"abcabcabc");
        assert_eq!(desk.kept(first).as_deref(), Some(&answer[..]));
        for _ in 0..KEPT_MAX {
            desk.carry_out(b"x", &Echo);
        }
        assert_eq!(desk.kept(first), None);
        assert_eq!(desk.waiting().answers.len(), KEPT_MAX);
        desk.forget(KEPT_MAX as u64 + 1);
        assert_eq!(desk.waiting().answers.len(), KEPT_MAX - 1);
    }

    #[test]
    fn the_door_and_who_asks_mean_the_same_command() {
        assert_eq!(CONTROL, crate::wire::flags::ioctl::CONTROL);
    }
}
