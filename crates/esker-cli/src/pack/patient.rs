//! Reading lists and scripts of the user's, which may be pipes: whole, up to a length, and without waiting for ever.
//!
//! Above: `hooks`, `options`, `script`, `profile`. Invariant: nobody who opens a pipe and says nothing, or never opens
//! it, is waited for longer than was allowed.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::units::size_shown;

/// The longest list: a hundred bytes for each of five million paths.
const LIST_LEN_MAX: u64 = 512 << 20;
/// How long a list is waited for where nobody said how long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// All of a list, if it has an end.
///
/// # Errors
/// As [`read_bounded`].
pub fn read_list(path: &Path, patience: Duration) -> Result<Vec<u8>, Error> {
    read_bounded(path, LIST_LEN_MAX, patience)
}

/// All of a file, if it has an end.
///
/// # Errors
/// Those of the file; that it is longer than `most`, or that nothing came for as long as `patience`.
pub fn read_bounded(path: &Path, most: u64, patience: Duration) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    let file = Patient::open(path, patience)?;
    match file.take(most + 1).read_to_end(&mut text)? as u64 {
        len if len <= most => Ok(text),
        _ => {
            let what = format!("it has more than {}", size_shown(most));
            Err(Error::new(ErrorKind::FileTooLarge, what))
        }
    }
}

/// A file whose every next byte comes in time.
struct Patient {
    file: File,
    patience: Duration,
}

impl Patient {
    fn open(path: &Path, patience: Duration) -> Result<Self, Error> {
        // A pipe that nobody has opened to write would be waited for here.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        Ok(Self { file, patience })
    }

    /// Until there is something, or its end.
    fn wait(&self) -> Result<(), Error> {
        let limit = Timespec::try_from(self.patience).map_err(|_| ErrorKind::InvalidInput)?;
        loop {
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&limit)) {
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
                Ok(0) => {
                    let seconds = self.patience.as_secs_f64();
                    let what = format!("it said nothing for {seconds} seconds");
                    return Err(Error::new(ErrorKind::TimedOut, what));
                }
                Ok(_) => return Ok(()),
            }
        }
    }
}

impl Read for Patient {
    fn read(&mut self, target: &mut [u8]) -> Result<usize, Error> {
        loop {
            self.wait()?;
            match self.file.read(target) {
                // Somebody else has read it.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn a_pipe_is_read_to_its_end_and_not_waited_for_without() {
        let path = std::env::temp_dir().join(format!("esker-patient-{}", std::process::id()));
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let read = |most| read_bounded(&path, most, SHORT).map_err(|error| error.kind());
        assert_eq!(read(10), Err(ErrorKind::TimedOut), "nobody opens it");
        let held = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!(read(10), Err(ErrorKind::TimedOut), "nobody says anything");
        (&held).write_all(b"begun").unwrap();
        assert_eq!(read(10), Err(ErrorKind::TimedOut), "it never ends");
        drop(held);
        for (most, whole) in [(10, Ok(b"one two".to_vec())), (6, Err(ErrorKind::FileTooLarge))] {
            let other = path.clone();
            let writer = thread::spawn(move || {
                let mut pipe = OpenOptions::new().write(true).open(other).unwrap();
                for part in [&b"one"[..], b" two"] {
                    thread::sleep(SHORT / 4);
                    // Whoever has read enough is gone.
                    let _ = pipe.write_all(part);
                }
            });
            assert_eq!(read(most), whole);
            writer.join().unwrap();
        }
        std::fs::remove_file(&path).unwrap();
    }
}
