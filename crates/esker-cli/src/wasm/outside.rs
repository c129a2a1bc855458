//! What a program sees of this machine: three streams, clocks and chance.

use std::io::{IsTerminal as _, stderr, stdin, stdout};
use std::time::{Duration, Instant};

use esker::ground::Clock as _;
use esker_host::SystemClock;
use esker_wasi::{Clock, Errno, Result, Stream, World};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::rand::GetRandomFlags;

/// This machine.
pub struct Outside {
    began: Instant,
}

impl Outside {
    /// From now on.
    pub fn new() -> Self {
        Self { began: Instant::now() }
    }
}

/// What the system says, as a program hears it.
fn errno(error: rustix::io::Errno) -> Errno {
    match error {
        rustix::io::Errno::AGAIN => Errno::Again,
        rustix::io::Errno::PIPE => Errno::Pipe,
        rustix::io::Errno::NOSPC => Errno::NoSpace,
        rustix::io::Errno::BADF => Errno::BadDescriptor,
        _ => Errno::Io,
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl World for Outside {
    fn read(&mut self, target: &mut [u8]) -> Result<usize> {
        rustix::io::retry_on_intr(|| rustix::io::read(stdin(), &mut *target)).map_err(errno)
    }

    fn write(&mut self, stream: Stream, source: &[u8]) -> Result<usize> {
        let written = rustix::io::retry_on_intr(|| match stream {
            Stream::Error => rustix::io::write(stderr(), source),
            _ => rustix::io::write(stdout(), source),
        });
        written.map_err(errno)
    }

    fn is_terminal(&self, stream: Stream) -> bool {
        match stream {
            Stream::Input => stdin().is_terminal(),
            Stream::Output => stdout().is_terminal(),
            Stream::Error => stderr().is_terminal(),
        }
    }

    fn random(&mut self, target: &mut [u8]) -> Result {
        let mut done = 0;
        while done < target.len() {
            let left = &mut target[done..];
            let got = rustix::io::retry_on_intr(|| {
                rustix::rand::getrandom(&mut *left, GetRandomFlags::empty())
            });
            done += got.map_err(errno)?;
        }
        Ok(())
    }

    fn time(&mut self, clock: Clock) -> u64 {
        match clock {
            Clock::Monotonic => nanos(self.began.elapsed()),
            Clock::Real => {
                let now = SystemClock.now();
                let secs = u64::try_from(now.secs).unwrap_or(0);
                secs.saturating_mul(1_000_000_000).saturating_add(now.nanos.into())
            }
        }
    }

    fn wait(&mut self, nanos: Option<u64>, input: bool) -> Result<bool> {
        let within = nanos.map(Duration::from_nanos);
        if !input {
            // Without an end there is always something to wait for.
            std::thread::sleep(within.unwrap_or_default());
            return Ok(false);
        }
        let stdin = stdin();
        let began = Instant::now();
        loop {
            let left = within.map(|within| within.saturating_sub(began.elapsed()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
            match rustix::event::poll(&mut asked, left.as_ref()) {
                Ok(count) => return Ok(count > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(errno(error)),
            }
        }
    }
}
