//! `poll_oneoff`: waiting for time to pass, and for what can be read and written.
//!
//! Files always can. Standard output and error are taken to. So what there is to wait for is a clock, and input.

use alloc::vec::Vec;

use esker::store::Store;

use crate::context::Context;
use crate::layouts::{Event, Subscription};
use crate::table::What;
use crate::world::Clock;
use crate::{Errno, Guest, Result, Rights, Stream, World};

/// Most subscriptions of one call.
const SUBSCRIPTIONS_MAX: u32 = 1 << 16;

/// `eventtype`.
const CLOCK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;

/// `subclockflags`: the time is one of the clock, not one from now.
const ABSOLUTE: u16 = 1;

/// What is said of one subscription.
enum Found {
    /// It has come, or failed, and so many bytes are there.
    Come(Result<u64>),
    /// In so many nanoseconds at the latest.
    Later(u64),
    /// When there is input.
    Input,
}

impl<S: Store, W: World> Context<S, W> {
    /// Waits until something of what is subscribed to has come; what has, to `out`, and how many that are to `count`.
    ///
    /// # Errors
    /// `Invalid` for no subscriptions, or kinds of them that there are not; `Fault`, `NoMemory`. What is wrong with one
    /// of them is told in its event.
    pub fn poll_oneoff<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        subscriptions: u32,
        out: u32,
        len: u32,
        count: u32,
    ) -> Result {
        if len == 0 || len > SUBSCRIPTIONS_MAX {
            return Err(Errno::Invalid);
        }
        guest.bytes(subscriptions, len * Subscription::SIZE as u32)?;
        guest.bytes_mut(out, len * Event::SIZE as u32)?;
        guest.bytes_mut(count, 4)?;
        let mut found = Vec::new();
        found.try_reserve_exact(len as usize).map_err(|_| Errno::NoMemory)?;
        for index in 0..len {
            found.push(self.look(&subscription(guest, subscriptions, index)?)?);
        }
        let (elapsed, readable) = self.wait(&found)?;
        let mut told = 0;
        for (index, found) in (0..len).zip(found) {
            let answer = match found {
                Found::Come(answer) => answer,
                Found::Later(nanos) if nanos <= elapsed => Ok(0),
                Found::Input if readable => Ok(1),
                Found::Later(_) | Found::Input => continue,
            };
            let asked = subscription(guest, subscriptions, index)?;
            let event = Event {
                userdata: asked.userdata,
                error: answer.err().map_or(0, Errno::number),
                kind: asked.tag,
                gap: [0; 5],
                bytes: answer.unwrap_or(0),
                flags: 0,
                rest: [0; 6],
            };
            guest.put(out + told * Event::SIZE as u32, &event.encode())?;
            told += 1;
        }
        guest.put_u32(count, told)
    }

    /// Waits until one of them comes: how long that was, and whether there is input.
    fn wait(&mut self, found: &[Found]) -> Result<(u64, bool)> {
        let soonest = found.iter().filter_map(|found| match found {
            Found::Come(_) => Some(0),
            Found::Later(nanos) => Some(*nanos),
            Found::Input => None,
        });
        let soonest = soonest.min();
        let input = found.iter().any(|found| matches!(found, Found::Input));
        if soonest == Some(0) && !input {
            return Ok((0, false));
        }
        let start = self.world.time(Clock::Monotonic);
        let readable = self.world.wait(soonest, input)?;
        let waited = self.world.time(Clock::Monotonic).saturating_sub(start);
        // What was waited for has come, also where time stands still.
        let least = if readable { 0 } else { soonest.unwrap_or(0) };
        Ok((waited.max(least), readable))
    }

    fn look(&mut self, asked: &Subscription) -> Result<Found> {
        match asked.tag {
            CLOCK => Ok(self.look_at_clock(asked)),
            READ | WRITE => Ok(self.look_at(asked.clock, asked.tag)),
            _ => Err(Errno::Invalid),
        }
    }

    fn look_at_clock(&mut self, asked: &Subscription) -> Found {
        let clock = match Clock::of(asked.clock) {
            Ok(clock) if asked.flags & !ABSOLUTE == 0 => clock,
            _ => return Found::Come(Err(Errno::Invalid)),
        };
        let left = match asked.flags & ABSOLUTE {
            0 => asked.timeout,
            _ => asked.timeout.saturating_sub(self.world.time(clock)),
        };
        if left == 0 { Found::Come(Ok(0)) } else { Found::Later(left) }
    }

    fn look_at(&mut self, fd: u32, tag: u8) -> Found {
        let descriptor = match self.table.get(fd) {
            Ok(descriptor) => descriptor,
            Err(errno) => return Found::Come(Err(errno)),
        };
        let way = if tag == READ { Rights::FD_READ } else { Rights::FD_WRITE };
        if let Err(errno) = descriptor.needs(Rights::POLL_FD_READWRITE.or(way)) {
            return Found::Come(Err(errno));
        }
        match descriptor.what {
            What::Stream(Stream::Input) => Found::Input,
            What::File if tag == READ => {
                let (ino, at) = (descriptor.ino, descriptor.at);
                let size = self.fs.getattr(ino).map(|attr| attr.size);
                Found::Come(size.map(|size| size.saturating_sub(at)).map_err(Errno::from))
            }
            _ => Found::Come(Ok(0)),
        }
    }
}

fn subscription<G: Guest + ?Sized>(guest: &G, from: u32, index: u32) -> Result<Subscription> {
    let at = from + index * Subscription::SIZE as u32;
    Subscription::decode(guest.bytes(at, Subscription::SIZE as u32)?).ok_or(Errno::Fault)
}
