//! WebAssembly programs run over a home: compiled here, with the functions of WASI preview 1 from the door.
//!
//! Above: `verbs::run`. Below: `esker-wasi`, and `wasmtime`, which knows nothing of files. Invariant: a program reaches
//! nothing of this machine but its three streams, its clocks and chance.

mod cache;
mod link;
mod outside;

use std::path::Path;

use esker::store::Store;
use esker_wasi::{Context, NAMES};
use wasmtime::{Config, Engine, Linker, Module, Trap};

use crate::failure::{Exit, Failure, Outcome, said, shown};
pub use link::Calls;
use link::{Exited, State};
pub use outside::Outside;

/// The module that programs import WASI preview 1 from.
const PREVIEW1: &str = "wasi_snapshot_preview1";
/// Most functions that are named when they are not there.
const NAMED_MAX: usize = 8;

/// A program, compiled.
pub struct Program {
    engine: Engine,
    module: Module,
}

/// How a program ended.
pub enum End {
    /// It said so, with this status.
    Exit(u32),
    /// It did what no program may.
    Trap(String),
}

fn cause(error: &wasmtime::Error) -> String {
    shown(error.root_cause().to_string().as_bytes())
}

fn unable(error: wasmtime::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot run the program ({})", cause(&error)), "")
}

/// Where a program stopped nobody is told, so nothing is noted of it.
fn engine(kept: bool) -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config.wasm_backtrace(false).generate_address_map(false);
    config.cache(if kept { cache::open() } else { None });
    Engine::new(&config)
}

impl Program {
    /// Compiles a program, unless it is `kept` from an earlier run; what it needs and we do not have is said now, not
    /// when it is missed.
    pub fn load(path: &Path, kept: bool) -> Outcome<Self> {
        let wrong = |what: &str, remedy: &str| Failure::at(Exit::Source, what, path, remedy);
        let bytes = std::fs::read(path)
            .map_err(|error| wrong(&format!("cannot read the program ({})", said(&error)), ""))?;
        match bytes.first_chunk() {
            Some(b"\0asm\x01\0\0\0") => {}
            Some(b"\0asm\x0d\0\x01\0") => {
                let remedy = "build it for wasm32-wasip1, as a module of WASI preview 1";
                return Err(wrong("the program is a component", remedy));
            }
            Some([b'\0', b'a', b's', b'm', ..]) => {
                return Err(wrong(
                    "the program is of a version of WebAssembly that is not known",
                    "",
                ));
            }
            _ => return Err(wrong("not a WebAssembly program", "build it for wasm32-wasip1")),
        }
        let engine = engine(kept).map_err(unable)?;
        let module = Module::new(&engine, bytes)
            .map_err(|error| wrong(&format!("the program is not valid ({})", cause(&error)), ""))?;
        let program = Self { engine, module };
        program.has_all().map_err(|(what, remedy)| wrong(&what, remedy))?;
        Ok(program)
    }

    fn has_all(&self) -> Result<(), (String, &'static str)> {
        let imports = self.module.imports();
        let missing =
            imports.filter(|import| import.module() != PREVIEW1 || !NAMES.contains(&import.name()));
        let missing: Vec<_> =
            missing.map(|import| format!("{}.{}", import.module(), import.name())).collect();
        if !missing.is_empty() {
            let named = missing.iter().take(NAMED_MAX).map(|name| shown(name.as_bytes()));
            let named = named.collect::<Vec<_>>().join(", ");
            let more = missing.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let what = format!("the program needs what is not there: {named}{more}");
            return Err((what, "only WASI preview 1 is"));
        }
        match self.module.get_export("_start") {
            Some(wasmtime::ExternType::Func(kind))
                if kind.params().len() == 0 && kind.results().len() == 0 =>
            {
                Ok(())
            }
            _ => Err(("the program has no beginning (_start)".to_owned(), "is it a library?")),
        }
    }

    /// Runs it until it ends; with `counts` the functions are told that it called.
    pub fn run<S: Store + 'static>(
        &self,
        context: Context<S, Outside>,
        counts: bool,
    ) -> Outcome<(End, Calls)> {
        let mut linker = Linker::new(&self.engine);
        link::functions(&mut linker, PREVIEW1).map_err(unable)?;
        let mut store = wasmtime::Store::new(&self.engine, State::new(context, counts));
        // A module may do something when it is brought up, and end there.
        let ended = linker.instantiate(&mut store, &self.module).and_then(|instance| {
            let memory = instance.get_memory(&mut store, "memory");
            store.data_mut().keep(memory);
            instance.get_typed_func::<(), ()>(&mut store, "_start")?.call(&mut store, ())
        });
        let end = match ended {
            Ok(()) => End::Exit(0),
            Err(error) => match (error.downcast_ref::<Exited>(), error.downcast_ref::<Trap>()) {
                (Some(exited), _) => End::Exit(exited.0),
                (None, Some(trap)) => End::Trap(trap.to_string()),
                (None, None) => return Err(unable(error)),
            },
        };
        Ok((end, store.into_data().calls()))
    }
}
