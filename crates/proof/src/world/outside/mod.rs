//! A directory as a world: each user is a thread with that user's credentials, its own umask and the directory
//! as its working directory. Handles are shared between them, as descriptors are.
//!
//! Above: [`super::World`]. Below: [`calls`], operation by operation, and [`look`], the whole tree.
//! Invariant: only paths relative to the root are used, so a script cannot leave it.

mod calls;
mod look;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use esker::Time;
use rustix::fs::{Gid, Uid};
use rustix::thread::UnshareFlags;
use rustix::time::{ClockId, clock_gettime};

use super::{Outcome, Seen, World};
use crate::script::generate::SLOTS;
use crate::script::{Step, User};

type Slots = Arc<Mutex<[Option<OwnedFd>; SLOTS as usize]>>;

/// What a directory cannot do itself and the workshop does for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lacks {
    /// FALLOC_FL_ZERO_RANGE, which tmpfs refuses: punched and cut to length instead.
    pub zero_range: bool,
}

struct Worker {
    steps: Option<SyncSender<Step>>,
    outcomes: Receiver<Outcome>,
    thread: Option<JoinHandle<()>>,
}

/// A directory and the threads that work in it.
pub struct Outside {
    name: String,
    root: PathBuf,
    slots: Slots,
    workers: Vec<Worker>,
    pause: Duration,
}

impl Outside {
    /// A world in the directory `root`, which should be empty and on a mount of its own. The users that are not
    /// root need root to become them.
    ///
    /// # Errors
    /// In words, when the directory cannot be entered or a user cannot be become.
    pub fn new(name: &str, root: &Path, users: &[User], lacks: Lacks) -> Result<Self, String> {
        let slots = Slots::default();
        let workers: Result<Vec<_>, _> =
            users.iter().map(|&user| Worker::start(user, root, slots.clone(), lacks)).collect();
        let (name, root) = (name.to_owned(), root.to_owned());
        Ok(Self { name, root, slots, workers: workers?, pause: Duration::ZERO })
    }

    /// Waits so long before each step that the times of two steps differ.
    #[must_use]
    pub fn with_steps_apart(mut self) -> Self {
        self.pause = Duration::from_millis(12);
        self
    }
}

/// What is seen of a directory by system calls.
///
/// # Errors
/// In words, also when it contradicts itself.
pub fn look(root: &Path) -> Result<Vec<Seen>, String> {
    look::tree(root)
}

impl World for Outside {
    fn name(&self) -> &str {
        &self.name
    }

    fn now(&mut self) -> Time {
        std::thread::sleep(self.pause);
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Time { secs: now.tv_sec, nanos: now.tv_nsec as u32 }
    }

    fn run(&mut self, step: &Step) -> Outcome {
        let worker = User::ALL.iter().position(|&user| user == step.user).unwrap_or(0);
        let worker = self.workers.get(worker).unwrap_or(&self.workers[0]);
        let sent = worker.steps.as_ref().map(|steps| steps.send(step.clone()));
        debug_assert!(matches!(sent, Some(Ok(()))));
        worker.outcomes.recv().unwrap_or_else(|_| Ok(super::Answer::Broken("no answer".into())))
    }

    fn tree(&mut self) -> Result<Vec<Seen>, String> {
        *self.slots.lock().map_err(|_| "a worker died")? = Default::default();
        look::tree(&self.root)
    }
}

impl Drop for Outside {
    /// The threads stand in the directory: it can be unmounted only when they have gone.
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.steps = None;
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

impl Worker {
    fn start(user: User, root: &Path, slots: Slots, lacks: Lacks) -> Result<Self, String> {
        let (steps, todo) = sync_channel::<Step>(1);
        let (done, outcomes) = sync_channel(1);
        let root = root.to_owned();
        let work = move || {
            let ready = become_user(user, &root);
            if let Err(why) = ready {
                let _ = done.send(Ok(super::Answer::Broken(format!("{user:?}: {why}"))));
                return;
            }
            let _ = done.send(Ok(super::Answer::Nothing));
            for step in todo {
                let outcome = match slots.lock() {
                    Ok(mut slots) => calls::run(&step.op, &mut *slots, lacks),
                    Err(_) => Ok(super::Answer::Broken("another worker died".into())),
                };
                if done.send(outcome).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::spawn(work);
        match outcomes.recv() {
            Ok(Ok(super::Answer::Nothing)) => {
                Ok(Self { steps: Some(steps), outcomes, thread: Some(thread) })
            }
            other => Err(format!("no worker for {user:?}: {other:?}")),
        }
    }
}

fn become_user(user: User, root: &Path) -> rustix::io::Result<()> {
    // SAFETY: only this thread's umask and working directory part from the others'; descriptors stay shared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS)? };
    rustix::process::chdir(root)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o22));
    if user != User::Root {
        let (uid, gid, groups) = user.ids();
        let groups: Vec<_> = groups.iter().map(|&group| Gid::from_raw(group)).collect();
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::thread::set_thread_groups(&groups)?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    }
    Ok(())
}
