//! What a program has besides files: a canister's log and clock, and chance from a seed.
//!
//! Neighbours: `system` below is all of a canister that is used here; without the feature `ic` nothing of it is in the
//! module, which has no log then, and the time that it is told. Where a canister's code is tested, on a machine that
//! is no WebAssembly, the machine is the system.

use std::cell::Cell;

use esker::Time;
use esker_wasi::{Clock, Result, Seeded, Stream, World};

#[cfg(all(target_family = "wasm", feature = "ic"))]
mod system {
    mod imports {
        #[link(wasm_import_module = "ic0")]
        unsafe extern "C" {
            pub safe fn time() -> u64;
            #[cfg(feature = "count_wasi_calls")]
            pub safe fn performance_counter(kind: u32) -> u64;
            pub fn debug_print(at: u32, len: u32);
            pub fn trap(at: u32, len: u32) -> !;
        }
    }

    pub fn time() -> u64 {
        imports::time()
    }

    pub fn log(line: &[u8]) {
        // SAFETY: the bytes are as many as is said.
        unsafe { imports::debug_print(line.as_ptr() as u32, line.len() as u32) }
    }

    pub fn trap(why: &str) -> ! {
        // SAFETY: the text is as long as is said.
        unsafe { imports::trap(why.as_ptr() as u32, why.len() as u32) }
    }

    /// Instructions of this message so far.
    #[cfg(feature = "count_wasi_calls")]
    pub fn instructions() -> u64 {
        imports::performance_counter(0)
    }
}

#[cfg(all(target_family = "wasm", not(feature = "ic")))]
mod system {
    pub const fn time() -> u64 {
        0
    }

    pub const fn log(_: &[u8]) {}

    pub fn trap(_: &str) -> ! {
        core::arch::wasm32::unreachable()
    }
}

#[cfg(not(target_family = "wasm"))]
mod system {
    use std::io::Write as _;
    use std::time::SystemTime;

    pub fn time() -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.ok().and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0)
    }

    pub fn log(line: &[u8]) {
        // Nobody is there to be told that nobody reads it.
        let _ = std::io::stdout().write_all(line);
    }

    pub fn trap(why: &str) -> ! {
        panic!("{why}")
    }
}

#[cfg(all(target_family = "wasm", feature = "count_wasi_calls"))]
pub use system::instructions;
pub use system::log;

thread_local! {
    static CLOCK: Cell<fn() -> u64> = const { Cell::new(system::time) };
    static STILL: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From now on this is asked for the time, in nanoseconds from 1970, and not the system. Files are out of reach
/// meanwhile.
pub fn set_clock(clock: fn() -> u64) {
    CLOCK.set(clock);
}

/// From now on it is this time, in nanoseconds from 1970, for files and for the program, until this is called again;
/// with `None` the clock is asked each time. In a canister time stands still for as long as a message lasts, and to
/// ask for it costs 500 instructions: told at the beginning of each message, it is asked for once. Messages begin in
/// every exported function, in timers, and behind every `await` of a call.
pub fn stand_still(at: Option<u64>) {
    STILL.set(at);
}

/// Does what may be done while the module is brought up, where a canister's system tells no time: it is 1970, unless
/// it was told to stand still.
pub fn untold<R>(act: impl FnOnce() -> R) -> R {
    let told = STILL.get();
    STILL.set(told.or(Some(0)));
    let done = act();
    STILL.set(told);
    done
}

/// Nanoseconds from 1970.
fn nanos() -> u64 {
    STILL.get().unwrap_or_else(|| CLOCK.get()())
}

/// The time of files.
pub fn now() -> Time {
    let nanos = nanos();
    Time { secs: (nanos / 1_000_000_000).cast_signed(), nanos: (nanos % 1_000_000_000) as u32 }
}

/// Ends this message; all that it did is undone.
pub fn trap(why: &str) -> ! {
    system::trap(why)
}

/// Where a program's streams lead; without one, output goes to the system's log, and of input there is none.
#[derive(Clone, Copy, Default)]
pub struct Streams {
    pub input: Option<fn(&mut [u8]) -> usize>,
    pub output: Option<fn(Stream, &[u8])>,
}

/// What is around a program in a canister.
pub struct Canister {
    pub chance: Seeded,
    pub streams: Streams,
}

impl World for Canister {
    fn read(&mut self, target: &mut [u8]) -> Result<usize> {
        Ok(self.streams.input.map_or(0, |input| input(target)))
    }

    fn write(&mut self, stream: Stream, source: &[u8]) -> Result<usize> {
        match self.streams.output {
            Some(output) => output(stream, source),
            None => log(source),
        }
        Ok(source.len())
    }

    fn random(&mut self, target: &mut [u8]) -> Result {
        self.chance.fill(target);
        Ok(())
    }

    /// Within a message the time stands still.
    fn time(&mut self, _: Clock) -> u64 {
        nanos()
    }
}
