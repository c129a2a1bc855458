//! The functions of WASI, bound to a program's imports.

use std::collections::BTreeMap;

use esker::store::Store;
use esker_wasi::{Context, Errno};
use wasmtime::{Caller, Extern, Linker, Memory};

use super::Outside;

/// How often a function was called, and how often it answered an errno.
#[derive(Clone, Copy, Default)]
pub struct Called {
    pub calls: u64,
    pub refused: u64,
}

/// The functions that a program called.
pub type Calls = BTreeMap<&'static str, Called>;

/// What the functions find when a program calls them.
pub struct State<S: Store> {
    context: Context<S, Outside>,
    /// The program's memory, once it is known.
    memory: Option<Memory>,
    /// What it called, if somebody wants to know.
    calls: Option<Calls>,
}

/// The program ended itself, with this status.
#[derive(Debug)]
pub struct Exited(pub u32);

impl std::fmt::Display for Exited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit status {}", self.0)
    }
}

impl std::error::Error for Exited {}

impl<S: Store> State<S> {
    pub fn new(context: Context<S, Outside>, counts: bool) -> Self {
        Self { context, memory: None, calls: counts.then(Calls::new) }
    }

    pub const fn keep(&mut self, memory: Option<Memory>) {
        self.memory = memory;
    }

    /// What it called; nothing where nobody counted.
    pub fn calls(self) -> Calls {
        self.calls.unwrap_or_default()
    }

    /// What a function answers, as a number.
    fn answer(&mut self, name: &'static str, answer: esker_wasi::Result) -> i32 {
        if let Some(calls) = &mut self.calls {
            let called = calls.entry(name).or_default();
            called.calls += 1;
            called.refused += u64::from(answer.is_err());
        }
        answer.map_or_else(Errno::number, |()| 0).into()
    }
}

/// The memory, also of a program that is only being brought up.
fn memory<S: Store>(caller: &mut Caller<'_, State<S>>) -> Option<Memory> {
    if let Some(memory) = caller.data().memory {
        return Some(memory);
    }
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => Some(memory),
        _ => None,
    }
}

macro_rules! bind {
    (
        guest { $($guest:ident($($g:ident: $gt:ty),*);)* }
        alone { $($alone:ident($($a:ident: $at:ty),*);)* }
    ) => {
        /// Binds them all.
        pub fn functions<S: Store + 'static>(
            linker: &mut Linker<State<S>>,
            module: &str,
        ) -> wasmtime::Result<()> {
            $(bind_one!(linker, module, $guest, |caller: Caller<'_, State<S>>, $($g: $gt),*| {
                let mut caller = caller;
                let name = stringify!($guest);
                let Some(memory) = memory(&mut caller) else {
                    return caller.data_mut().answer(name, Err(Errno::Fault));
                };
                let (guest, state) = memory.data_and_store_mut(&mut caller);
                let answer = state.context.$guest(guest, $($g),*);
                state.answer(name, answer)
            });)*
            $(bind_one!(linker, module, $alone, |caller: Caller<'_, State<S>>, $($a: $at),*| {
                let mut caller = caller;
                let state = caller.data_mut();
                let answer = state.context.$alone($($a),*);
                state.answer(stringify!($alone), answer)
            });)*
            let exit = |mut caller: Caller<'_, State<S>>, status: u32| -> wasmtime::Result<()> {
                caller.data_mut().answer("proc_exit", Ok(()));
                Err(Exited(status).into())
            };
            linker.func_wrap(module, "proc_exit", exit)?;
            Ok(())
        }
    };
}

macro_rules! bind_one {
    ($linker:ident, $module:ident, $name:ident, $body:expr) => {
        $linker.func_wrap($module, stringify!($name), $body)?
    };
}

esker_wasi::preview1!(bind);
