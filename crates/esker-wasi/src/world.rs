//! What a program has besides files: three streams, clocks, chance, and time to wait.

use crate::{Errno, Result};

/// One of the three streams that every program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// A clock that a program may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Since 1970.
    Real,
    /// From any point on, never backwards.
    Monotonic,
}

/// What is around a program.
pub trait World {
    /// Bytes of standard input; none at its end.
    ///
    /// # Errors
    /// What reading says.
    fn read(&mut self, target: &mut [u8]) -> Result<usize> {
        let _ = target;
        Ok(0)
    }

    /// Bytes for standard output or standard error; how many were taken.
    ///
    /// # Errors
    /// What writing says.
    fn write(&mut self, stream: Stream, source: &[u8]) -> Result<usize>;

    /// Whether a person sits at the other end.
    fn is_terminal(&self, stream: Stream) -> bool {
        let _ = stream;
        false
    }

    /// Fills `target` with bytes that nobody can foretell, or, where the world must be the same for all who look at it,
    /// that depend on a seed.
    ///
    /// # Errors
    /// Where there are none.
    fn random(&mut self, target: &mut [u8]) -> Result;

    /// What the clock says, in nanoseconds.
    fn time(&mut self, clock: Clock) -> u64;

    /// How fine a clock is, in nanoseconds.
    fn resolution(&self, clock: Clock) -> u64 {
        let _ = clock;
        1
    }

    /// Waits for so long, in nanoseconds, for ever with `None`; with `input` only until standard input can be read, its
    /// end included. Whether it can, as far as was asked. Where there is no waiting, it returns at once.
    ///
    /// # Errors
    /// What waiting says.
    fn wait(&mut self, nanos: Option<u64>, input: bool) -> Result<bool> {
        let _ = nanos;
        Ok(input)
    }
}

/// A world behind a pointer is one.
impl<W: World + ?Sized> World for alloc::boxed::Box<W> {
    fn read(&mut self, target: &mut [u8]) -> Result<usize> {
        (**self).read(target)
    }

    fn write(&mut self, stream: Stream, source: &[u8]) -> Result<usize> {
        (**self).write(stream, source)
    }

    fn is_terminal(&self, stream: Stream) -> bool {
        (**self).is_terminal(stream)
    }

    fn random(&mut self, target: &mut [u8]) -> Result {
        (**self).random(target)
    }

    fn time(&mut self, clock: Clock) -> u64 {
        (**self).time(clock)
    }

    fn resolution(&self, clock: Clock) -> u64 {
        (**self).resolution(clock)
    }

    fn wait(&mut self, nanos: Option<u64>, input: bool) -> Result<bool> {
        (**self).wait(nanos, input)
    }
}

impl Clock {
    /// The clock of a number that a program names.
    ///
    /// # Errors
    /// `Invalid` for one that is not there.
    pub(crate) const fn of(id: u32) -> Result<Self> {
        match id {
            0 => Ok(Self::Real),
            1 => Ok(Self::Monotonic),
            _ => Err(Errno::Invalid),
        }
    }
}
