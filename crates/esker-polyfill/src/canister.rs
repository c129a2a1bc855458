//! What a canister has besides files: its log, its clock, and chance from a seed.

use esker::Time;
use esker_wasi::{Clock, Result, Seeded, Stream, World};

mod system {
    #[link(wasm_import_module = "ic0")]
    unsafe extern "C" {
        pub safe fn time() -> u64;
        pub fn debug_print(at: u32, len: u32);
        pub fn trap(at: u32, len: u32) -> !;
    }
}

/// Nanoseconds from 1970.
fn nanos() -> u64 {
    system::time()
}

/// The time of files.
pub fn now() -> Time {
    let nanos = nanos();
    Time { secs: (nanos / 1_000_000_000).cast_signed(), nanos: (nanos % 1_000_000_000) as u32 }
}

/// Ends this message; all that it did is undone.
pub fn trap(why: &str) -> ! {
    // SAFETY: the text is as long as is said.
    unsafe { system::trap(why.as_ptr() as u32, why.len() as u32) }
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
            // SAFETY: the bytes are as many as is said.
            None => unsafe {
                system::debug_print(source.as_ptr() as u32, source.len() as u32);
            },
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
