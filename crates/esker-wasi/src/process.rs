//! What is not about files: arguments, environment, clocks, chance, and sockets, of which there are none.

use esker::store::Store;

use crate::context::Context;
use crate::world::Clock;
use crate::{Errno, Guest, Result, World};

impl<S: Store, W: World> Context<S, W> {
    /// The arguments to `buffer`, and to `pointers` where each of them begins.
    ///
    /// # Errors
    /// `Fault`.
    pub fn args_get<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        pointers: u32,
        buffer: u32,
    ) -> Result {
        self.args.get(guest, pointers, buffer)
    }

    /// How many arguments there are, and how many bytes they take.
    ///
    /// # Errors
    /// `Fault`.
    pub fn args_sizes_get<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        count: u32,
        len: u32,
    ) -> Result {
        self.args.sizes(guest, count, len)
    }

    /// The environment, as [`Context::args_get`].
    ///
    /// # Errors
    /// `Fault`.
    pub fn environ_get<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        pointers: u32,
        buffer: u32,
    ) -> Result {
        self.env.get(guest, pointers, buffer)
    }

    /// The environment, as [`Context::args_sizes_get`].
    ///
    /// # Errors
    /// `Fault`.
    pub fn environ_sizes_get<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        count: u32,
        len: u32,
    ) -> Result {
        self.env.sizes(guest, count, len)
    }

    /// How fine a clock is, in nanoseconds, to `nanos`.
    ///
    /// # Errors
    /// `Invalid` for a clock that is not there, `Fault`.
    pub fn clock_res_get<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        clock: u32,
        nanos: u32,
    ) -> Result {
        let fine = self.world.resolution(Clock::of(clock)?);
        guest.put_u64(nanos, fine)
    }

    /// What a clock says, in nanoseconds, to `nanos`; as exactly as it can.
    ///
    /// # Errors
    /// `Invalid` for a clock that is not there, `Fault`.
    pub fn clock_time_get<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        clock: u32,
        precision: u64,
        nanos: u32,
    ) -> Result {
        let _ = precision;
        let now = self.world.time(Clock::of(clock)?);
        guest.put_u64(nanos, now)
    }

    /// Fills a buffer with chance.
    ///
    /// # Errors
    /// `Fault`; where there is none, what the world says.
    pub fn random_get<G: Guest + ?Sized>(&mut self, guest: &mut G, at: u32, len: u32) -> Result {
        let target = guest.bytes_mut(at, len)?;
        self.world.random(target)
    }

    /// Lets others run: there are none.
    ///
    /// # Errors
    /// Never.
    pub const fn sched_yield(&mut self) -> Result {
        Ok(())
    }

    /// Signals are not for programs here.
    ///
    /// # Errors
    /// `NotSupported`, always.
    pub const fn proc_raise(&mut self, signal: u32) -> Result {
        let _ = signal;
        Err(Errno::NotSupported)
    }

    fn no_socket(&mut self, fd: u32) -> Result {
        self.table.get(fd)?;
        Err(Errno::NotSocket)
    }

    /// There are no sockets.
    ///
    /// # Errors
    /// `BadDescriptor`, `NotSocket`.
    pub fn sock_accept(&mut self, fd: u32, flags: u32, accepted: u32) -> Result {
        let _ = (flags, accepted);
        self.no_socket(fd)
    }

    /// There are no sockets.
    ///
    /// # Errors
    /// `BadDescriptor`, `NotSocket`.
    pub fn sock_recv(
        &mut self,
        fd: u32,
        iovs: u32,
        count: u32,
        flags: u32,
        received: u32,
        told: u32,
    ) -> Result {
        let _ = (iovs, count, flags, received, told);
        self.no_socket(fd)
    }

    /// There are no sockets.
    ///
    /// # Errors
    /// `BadDescriptor`, `NotSocket`.
    pub fn sock_send(&mut self, fd: u32, iovs: u32, count: u32, flags: u32, sent: u32) -> Result {
        let _ = (iovs, count, flags, sent);
        self.no_socket(fd)
    }

    /// There are no sockets.
    ///
    /// # Errors
    /// `BadDescriptor`, `NotSocket`.
    pub fn sock_shutdown(&mut self, fd: u32, how: u32) -> Result {
        let _ = how;
        self.no_socket(fd)
    }
}
