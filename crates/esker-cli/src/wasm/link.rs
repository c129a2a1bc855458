//! The functions of WASI, bound to a program's imports.

use esker::store::Store;
use esker_wasi::{Context, Errno};
use wasmtime::{Caller, Extern, Linker, Memory};

use super::Outside;

/// What the functions find when a program calls them.
pub struct State<S: Store> {
    context: Context<S, Outside>,
    /// The program's memory, once it is known.
    memory: Option<Memory>,
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
    pub const fn new(context: Context<S, Outside>) -> Self {
        Self { context, memory: None }
    }

    pub const fn keep(&mut self, memory: Option<Memory>) {
        self.memory = memory;
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

fn number(answer: esker_wasi::Result) -> i32 {
    answer.map_or_else(Errno::number, |()| 0).into()
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
                let Some(memory) = memory(&mut caller) else { return number(Err(Errno::Fault)) };
                let (guest, state) = memory.data_and_store_mut(&mut caller);
                number(state.context.$guest(guest, $($g),*))
            });)*
            $(bind_one!(linker, module, $alone, |caller: Caller<'_, State<S>>, $($a: $at),*| {
                let mut caller = caller;
                number(caller.data_mut().context.$alone($($a),*))
            });)*
            linker.func_wrap(module, "proc_exit", |status: u32| -> wasmtime::Result<()> {
                Err(Exited(status).into())
            })?;
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
