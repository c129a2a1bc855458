//! Files brought up: which memory they lie in, what chance begins with, and what the environment says.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use esker::ground::{Heap, Memory};
use esker::memory::{Home, OpenError, Options, Resident, Tuning};
use esker::posix::Fs;
use esker::{Attr, Ino, Kind};
use esker_embedded::Stable;
use esker_embedded::mounted::Mounted;
use esker_wasi::{Context, Errno, Seeded, Stream};
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager};

use crate::canister::{Canister, Streams, now, trap, untold};

/// Files in any memory, some of them in memories of their own.
pub type Files = Mounted<Home<Resident<Box<dyn Memory>>>>;
/// The one program that there is.
pub type Program = Context<Files, Canister>;

/// What was brought up, if anything was.
struct State {
    /// The files, and whether they are kept.
    files: Option<(Arc<Fs<Files>>, bool)>,
    program: Option<Program>,
    streams: Streams,
}

thread_local! {
    static STATE: RefCell<State> = const {
        let streams = Streams { input: None, output: None };
        RefCell::new(State { files: None, program: None, streams })
    };
}

#[expect(
    clippy::arc_with_non_send_sync,
    reason = "a program shares its files; a canister has one thread"
)]
fn open(memory: Box<dyn Memory>) -> Result<Arc<Fs<Files>>, OpenError> {
    let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, now());
    let options = Options { size_max: u64::MAX, file_size_max: u64::MAX, root };
    let home = Home::<Resident<_>>::open_with(memory, &options, &Tuning::USUAL)?;
    Ok(Arc::new(Fs::new(Mounted::new(home), now)))
}

/// What a program does before anybody has said where its files are stays on the heap: its runtime asks what it was
/// given before anything else runs.
fn open_nowhere() -> Result<Arc<Fs<Files>>, OpenError> {
    untold(|| open(Box::new(Heap::new())))
}

impl State {
    fn start(&mut self, seed: &[u8], env: &[(&str, &str)]) -> Result<(), OpenError> {
        let (fs, _) = match &self.files {
            Some(files) => files,
            None => self.files.insert((open_nowhere()?, false)),
        };
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(seed).for_each(|(byte, seed)| *byte = *seed);
        let world = Canister { chance: Seeded::new(bytes), streams: self.streams };
        let mut program = Context::new(Arc::clone(fs), world);
        for (name, value) in env {
            // A name that no variable can have is left out.
            let _ = program.env(name.as_bytes(), value.as_bytes());
        }
        // The root of a home is always there, and the first descriptor free.
        let _ = program.give(b"/", b"/");
        self.program = Some(program);
        Ok(())
    }
}

/// Runs a call on the program.
pub fn with(call: impl FnOnce(&mut Program) -> esker_wasi::Result) -> i32 {
    STATE.with(|state| {
        let Ok(mut state) = state.try_borrow_mut() else { return Errno::Again.number().into() };
        if state.program.is_none() && state.start(&[], &[]).is_err() {
            return Errno::NoMemory.number().into();
        }
        let Some(program) = &mut state.program else { return Errno::NoMemory.number().into() };
        call(program).map_or_else(Errno::number, |()| 0).into()
    })
}

/// Does something with the files, if they were brought up; an errno as a number otherwise, or 0.
pub fn with_files(act: impl FnOnce(&Fs<Files>) -> esker_wasi::Result) -> i32 {
    with(|program| act(program.fs()))
}

/// Files in this memory, or new ones in a memory of no bytes: what was opened before is closed.
///
/// # Errors
/// See [`OpenError`]; the memory is left as it is, and so is everything else.
pub fn try_init(
    seed: &[u8],
    env_pairs: &[(&str, &str)],
    memory: impl Memory + 'static,
) -> Result<(), OpenError> {
    let files = open(Box::new(memory))?;
    STATE.with(|state| {
        let mut state = state.borrow_mut();
        state.program = None;
        state.files = Some((files, true));
        state.start(seed, env_pairs)
    })
}

/// Where files are if nobody says otherwise.
#[cfg(all(feature = "ic", not(feature = "transient")))]
fn usual() -> impl Memory {
    Stable::new(ic_stable_structures::DefaultMemoryImpl::default())
}

#[cfg(not(all(feature = "ic", not(feature = "transient"))))]
fn usual() -> impl Memory {
    Heap::new()
}

fn or_trap(brought_up: Result<(), OpenError>) {
    if let Err(error) = brought_up {
        trap(&format!("the files cannot be opened: {error:?}"));
    }
}

/// Files in all of the stable memory, unless another memory was given before; chance and environment anew. With the
/// feature `transient`, or without `ic`, they are on the heap, and gone with it.
///
/// Traps when the memory holds something else.
pub fn init(seed: &[u8], env_pairs: &[(&str, &str)]) {
    let kept = STATE.with(|state| matches!(state.borrow().files, Some((_, true))));
    or_trap(match kept {
        true => STATE.with(|state| state.borrow_mut().start(seed, env_pairs)),
        false => try_init(seed, env_pairs, usual()),
    });
}

/// Files in this memory.
///
/// Traps when it holds something else.
pub fn init_with_memory<M: ic_stable_structures::Memory + 'static>(
    seed: &[u8],
    env_pairs: &[(&str, &str)],
    memory: M,
) {
    or_trap(try_init(seed, env_pairs, Stable::new(memory)));
}

/// Files in the first of these memories; the others are left alone.
///
/// Traps when it holds something else, or there is none.
pub fn init_with_memory_manager<M: ic_stable_structures::Memory + 'static>(
    seed: &[u8],
    env_pairs: &[(&str, &str)],
    memory_manager: &MemoryManager<M>,
    memory_index_range: Range<u8>,
) {
    if memory_index_range.is_empty() {
        trap("no memory for the files");
    }
    let memory = memory_manager.get(MemoryId::new(memory_index_range.start));
    init_with_memory(seed, env_pairs, memory);
}

/// Chance begins anew with this seed; what is longer than 32 bytes of it does nothing.
pub fn init_seed(seed: &[u8]) {
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(seed).for_each(|(byte, seed)| *byte = *seed);
    with(|program| {
        program.world().chance = Seeded::new(bytes);
        Ok(())
    });
}

/// From now on what the program prints goes here, and not to the system's log. Files are out of reach meanwhile.
pub fn set_output(output: fn(Stream, &[u8])) {
    set_streams(|streams| streams.output = Some(output));
}

/// From now on standard input comes from here: the bytes that were put, none at its end. Files are out of reach
/// meanwhile.
pub fn set_input(input: fn(&mut [u8]) -> usize) {
    set_streams(|streams| streams.input = Some(input));
}

fn set_streams(set: impl Fn(&mut Streams)) {
    STATE.with_borrow_mut(|state| {
        set(&mut state.streams);
        if let Some(program) = &mut state.program {
            set(&mut program.world().streams);
        }
    });
}

/// Gives the program one more directory, under a name of its own: behind `init`, and before its runtime looks at what
/// it was given, which it does with the first path. An errno, or 0.
#[must_use]
pub fn preopen(path: &str, name: &str) -> i32 {
    with(|program| program.give(path.as_bytes(), name.as_bytes()))
}

/// Gives the program one more argument, the first of which is its name: behind `init`, for a canister has none of its
/// own. An errno, or 0.
#[must_use]
pub fn argument(word: &str) -> i32 {
    with(|program| program.arg(word.as_bytes()))
}

/// As [`init`] without an environment, for other languages, whose constructors may call it: the root of new files is
/// from 1970, for a canister's system tells no time then. Whoever calls it has all functions of WASI in his module.
///
/// # Safety
/// `seed` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raw_init(seed: *const u8, len: usize) {
    #[cfg(target_family = "wasm")]
    crate::calls::keep();
    // SAFETY: whoever calls says so.
    let seed = unsafe { borrowed(seed, len) };
    untold(|| init(seed, &[]));
}

/// As [`init_seed`], for other languages.
///
/// # Safety
/// `seed` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raw_init_seed(seed: *const u8, len: usize) {
    // SAFETY: whoever calls says so.
    init_seed(unsafe { borrowed(seed, len) });
}

/// Bytes of another language, which may point nowhere where there are none.
///
/// # Safety
/// `bytes` points to `len` of them, which stay as they are.
unsafe fn borrowed<'a>(bytes: *const u8, len: usize) -> &'a [u8] {
    if len == 0 || bytes.is_null() {
        return &[];
    }
    // SAFETY: whoever calls says so.
    unsafe { core::slice::from_raw_parts(bytes, len) }
}
