//! A module run as the Internet Computer runs one: its stable memory outlives it, its heap goes with every upgrade, and
//! of a call that failed nothing is kept, unless a test wants just that.
//!
//! Neighbours: tests of what is linked into canisters. Invariant: what the module has is lost, not closed: nothing runs
//! in it that could tidy up.

use std::path::{Path, PathBuf};
use std::process::Command;

use esker_wasi_link::{PREFIX, link};
use wasmi::{Caller, Engine, Extern, ExternType, Instance, Linker, Module, Store, Val};

const PAGE: u64 = 64 * 1024;
/// How long a stable memory may be, if nobody says otherwise.
const STABLE_MAX: u64 = 1 << 30;
const TARGET: &str = "wasm32-wasip1";
const PREVIEW1: &str = "wasi_snapshot_preview1";
/// As far as an interpreter gets without a compiler for C.
const HEADERS: &str = "/usr/include/wasm32-wasi";

/// Where a call ends that nobody undoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// After so many calls of WASI, in a module that is not linked.
    Calls(u64),
    /// After so many writes to the stable memory, in the middle of the next one.
    Writes(u64),
}

/// What a canister's system keeps: its memory, and what it said.
#[derive(Clone, Default)]
pub struct System {
    /// The stable memory.
    pub stable: Vec<u8>,
    /// It grows no further, in bytes.
    pub stable_max: u64,
    /// What was printed.
    pub said: Vec<u8>,
    /// The time, in nanoseconds.
    pub now: u64,
    /// How often it was asked for the instructions so far, which is what it answers.
    pub asked: u64,
    /// Where the call that is under way ends, if it does not come to its own end before.
    pub cut: Option<Cut>,
    /// The module is being brought up: it is told no time yet.
    begins: bool,
}

/// A canister, as its system sees it.
pub struct Canister {
    module: Module,
    running: Option<(Store<System>, Instance)>,
    /// What is kept of the calls so far.
    pub system: System,
}

fn trap(why: &str) -> wasmi::Error {
    wasmi::Error::new(why.to_owned())
}

/// The module's memory, and the system.
fn both<'a>(caller: &'a mut Caller<'_, System>) -> (&'a mut [u8], &'a mut System) {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { panic!("no memory") };
    memory.data_and_store_mut(caller)
}

fn range(at: u64, len: u64) -> std::ops::Range<usize> {
    at as usize..(at + len) as usize
}

fn system(linker: &mut Linker<System>) -> Result<(), wasmi::Error> {
    linker.func_wrap("ic0", "stable64_size", |caller: Caller<'_, System>| {
        caller.data().stable.len() as u64 / PAGE
    })?;
    linker.func_wrap("ic0", "stable64_grow", |mut caller: Caller<'_, System>, pages: u64| {
        let System { stable, stable_max, .. } = caller.data_mut();
        let before = stable.len() as u64 / PAGE;
        match before.checked_add(pages).and_then(|pages| pages.checked_mul(PAGE)) {
            Some(size) if size <= *stable_max => {
                stable.resize(size as usize, 0);
                before
            }
            _ => u64::MAX,
        }
    })?;
    let read = |mut caller: Caller<'_, System>, to: u64, from: u64, len: u64| {
        let (module, system) = both(&mut caller);
        module[range(to, len)].copy_from_slice(&system.stable[range(from, len)]);
    };
    linker.func_wrap("ic0", "stable64_read", read)?;
    let write = |mut caller: Caller<'_, System>,
                 to: u64,
                 from: u64,
                 len: u64|
     -> Result<(), wasmi::Error> {
        let (module, system) = both(&mut caller);
        let ends = match &mut system.cut {
            Some(Cut::Writes(0)) => true,
            Some(Cut::Writes(left)) => {
                *left -= 1;
                false
            }
            _ => false,
        };
        let done = if ends { len / 2 } else { len };
        system.stable[range(to, done)].copy_from_slice(&module[range(from, done)]);
        if ends { Err(trap("cut off")) } else { Ok(()) }
    };
    linker.func_wrap("ic0", "stable64_write", write)?;
    let time = |caller: Caller<'_, System>| match caller.data() {
        System { begins: true, .. } => Err(trap("no time while a module is brought up")),
        system => Ok(system.now),
    };
    linker.func_wrap("ic0", "time", time)?;
    let count = |mut caller: Caller<'_, System>, _: u32| {
        let asked = &mut caller.data_mut().asked;
        *asked += 1;
        *asked
    };
    linker.func_wrap("ic0", "performance_counter", count)?;
    let print = |mut caller: Caller<'_, System>, at: u32, len: u32| {
        let (module, system) = both(&mut caller);
        system.said.extend_from_slice(&module[range(at.into(), len.into())]);
    };
    linker.func_wrap("ic0", "debug_print", print)?;
    let trapped = |mut caller: Caller<'_, System>, at: u32, len: u32| -> Result<(), wasmi::Error> {
        let why = both(&mut caller).0[range(at.into(), len.into())].to_vec();
        Err(trap(&String::from_utf8_lossy(&why)))
    };
    linker.func_wrap("ic0", "trap", trapped)?;
    Ok(())
}

/// What a module calls of WASI leads to what is linked into it, as far as calls are left.
fn bind(linker: &mut Linker<System>, module: &Module) -> Result<(), wasmi::Error> {
    for import in module.imports().filter(|import| import.module() == PREVIEW1) {
        let ExternType::Func(kind) = import.ty() else { continue };
        let name = format!("{PREFIX}{}", import.name());
        let call = move |mut caller: Caller<'_, System>, params: &[Val], results: &mut [Val]| {
            match &mut caller.data_mut().cut {
                Some(Cut::Calls(0)) => return Err(trap("cut off")),
                Some(Cut::Calls(left)) => *left -= 1,
                _ => {}
            }
            let function = caller.get_export(&name).and_then(Extern::into_func);
            function.ok_or_else(|| trap("not linked in"))?.call(&mut caller, params, results)
        };
        linker.func_new(PREVIEW1, import.name(), kind.clone(), call)?;
    }
    Ok(())
}

impl Canister {
    /// One that was just installed.
    ///
    /// # Panics
    /// When it is no module.
    #[must_use]
    pub fn new(module: &[u8]) -> Self {
        let now = 1_700_000_000_000_000_000;
        let system = System { now, stable_max: STABLE_MAX, ..System::default() };
        let module = Module::new(&Engine::default(), module).expect("is a module");
        Self { module, running: None, system }
    }

    /// It goes on in a new instance: what was on its heap is lost.
    pub fn upgrade(&mut self) {
        self.running = None;
    }

    fn running(&mut self) -> &mut (Store<System>, Instance) {
        self.running.get_or_insert_with(|| {
            let engine = self.module.engine();
            let mut store = Store::new(engine, System { begins: true, ..self.system.clone() });
            let mut linker = <Linker<System>>::new(engine);
            system(&mut linker).expect("is bound");
            bind(&mut linker, &self.module).expect("is bound");
            let instance = linker.instantiate_and_start(&mut store, &self.module);
            store.data_mut().begins = false;
            (store, instance.expect("has all that it needs"))
        })
    }

    /// The module's own memory.
    ///
    /// # Panics
    /// When it has none.
    pub fn memory(&mut self) -> &mut [u8] {
        let (store, instance) = self.running();
        let memory = instance.get_memory(&*store, "memory").expect("has a memory");
        memory.data_mut(store)
    }

    fn enter(&mut self, name: &str, params: &[Val]) -> Result<i64, String> {
        let (store, instance) = self.running();
        let function = instance.get_func(&*store, name).ok_or("no such function")?;
        let mut results = vec![Val::I64(0); function.ty(&*store).results().len()];
        function.call(&mut *store, params, &mut results).map_err(|error| error.to_string())?;
        Ok(results.first().map_or(0, |result| match result {
            Val::I32(number) => i64::from(*number),
            Val::I64(number) => *number,
            _ => 0,
        }))
    }

    /// Calls a function; what it returns. Of a call that failed nothing is kept, and the heap is lost.
    ///
    /// # Errors
    /// Why it failed.
    pub fn call(&mut self, name: &str, params: &[Val]) -> Result<i64, String> {
        let done = self.enter(name, params);
        match (&done, &self.running) {
            (Ok(_), Some((store, _))) => self.system = store.data().clone(),
            _ => self.running = None,
        }
        done
    }

    /// The same, but it ends at a cut, if it comes there: its memory stays as it was then. What is left of the cut
    /// is for the next call.
    ///
    /// # Errors
    /// Why it failed.
    pub fn call_cut(&mut self, name: &str, params: &[Val], cut: &mut Cut) -> Result<i64, String> {
        self.running().0.data_mut().cut = Some(*cut);
        let done = self.enter(name, params);
        let (store, _) = self.running();
        *cut = store.data_mut().cut.take().unwrap_or(*cut);
        self.system = store.data().clone();
        if done.is_err() {
            self.running = None;
        }
        done
    }

    /// What was printed since this was last asked.
    pub fn said(&mut self) -> String {
        if let Some((store, _)) = &mut self.running {
            store.data_mut().said.clear();
        }
        String::from_utf8_lossy(&std::mem::take(&mut self.system.said)).into_owned()
    }
}

/// Whether this machine can build what a test needs; if not, says so, or fails where it must.
fn can(what: &str, can: bool) -> bool {
    assert!(can || std::env::var_os("ESKER_CI").is_none(), "cannot {what}");
    if !can {
        eprintln!("LEFT OUT: cannot {what}");
    }
    can
}

/// Whether programs can be built for WASI; says so, or fails, where they cannot.
#[must_use]
pub fn has_wasi() -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", TARGET]);
    let library = rustc.output().ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let there = library.is_some_and(|path| Path::new(path.trim()).exists());
    can("build for WebAssembly (rustup target add wasm32-wasip1)", there)
}

/// The same for programs with C in them.
#[must_use]
pub fn has_wasi_c() -> bool {
    let clang = Command::new("clang").arg("--version").output().is_ok();
    let there = clang && Path::new(HEADERS).exists();
    has_wasi() && can("compile C for WebAssembly (clang, llvm and wasi-libc)", there)
}

/// An example of a package, built for WASI.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn example(package: &str, name: &str) -> Vec<u8> {
    example_with(package, name, "")
}

/// The same with features.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn example_with(package: &str, name: &str, features: &str) -> Vec<u8> {
    built(&["build", "-p", package, "--example", name, "--features", features], name, TARGET)
}

/// The same without any features, for any target.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn example_without_features(package: &str, name: &str, target: &str) -> Vec<u8> {
    let without = ["build", "-p", package, "--example", name, "--no-default-features"];
    built(&without, name, target)
}

/// The same with a file of C, which a compiler for it makes WebAssembly of: the example is built with `--cfg with_c`.
///
/// # Panics
/// When one of them cannot be built.
#[must_use]
pub fn example_with_c(package: &str, name: &str, source: &Path) -> Vec<u8> {
    let object = compiled(name, source);
    let linked = format!("link-arg={}", object.display());
    let compiler = ["--", "--cfg", "with_c", "-C", &linked];
    let words = [&["rustc", "-p", package, "--example", name], &compiler[..]].concat();
    built(&words, name, TARGET)
}

/// A module in C around the functions of a package, which is built as a library for that: it is called, and what its
/// constructors do is in `_initialize`.
///
/// # Panics
/// When something cannot be built.
#[must_use]
pub fn module_in_c(package: &str, source: &Path) -> Vec<u8> {
    let words = ["rustc", "-p", package, "--lib", "--crate-type", "staticlib"];
    run_cargo(&words, TARGET);
    let library = format!("lib{}.a", package.replace('-', "_"));
    let library = folder().join(TARGET).join("debug").join(library);
    // What the compiler of Rust has for that: a linker, and a library of C.
    let said = |words: &[&str]| {
        let output = Command::new("rustc").args(words).output().expect("rustc runs").stdout;
        PathBuf::from(String::from_utf8(output).expect("is text").trim())
    };
    let c = said(&["--print", "target-libdir", "--target", TARGET]).join("self-contained");
    let own = said(&["--print", "target-libdir"]).with_file_name("bin");
    let module = folder().join(format!("{package}-c.wasm"));
    let mut linker = Command::new(own.join("rust-lld"));
    linker.args(["-flavor", "wasm", "--entry", "_initialize", "-o"]).arg(&module);
    linker.arg(c.join("crt1-reactor.o")).arg(compiled(package, source)).arg(library);
    assert!(linker.arg(c.join("libc.a")).status().expect("links").success(), "{linker:?}");
    std::fs::read(module).expect("was linked")
}

/// A file of C, compiled.
fn compiled(name: &str, source: &Path) -> PathBuf {
    let object = folder().join(format!("{name}.o"));
    let mut clang = Command::new("clang");
    clang.args(["--target=wasm32-wasi", "-O1", "-isystem", HEADERS, "-c", "-o"]);
    clang.arg(&object).arg(source);
    assert!(clang.status().expect("clang runs").success(), "{clang:?}");
    object
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where cargo builds.
fn folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs cargo; the example that it built.
fn built(arguments: &[&str], name: &str, target: &str) -> Vec<u8> {
    run_cargo(arguments, target);
    let module = folder().join(target).join("debug/examples").join(format!("{name}.wasm"));
    std::fs::read(module).expect("was built")
}

fn run_cargo(arguments: &[&str], target: &str) {
    let mut cargo = Command::new(env!("CARGO"));
    // What is behind `--` is for the compiler.
    let own = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
    cargo.args(&arguments[..own]).args(["--quiet", "--locked", "--target", target]);
    cargo.arg("--target-dir").arg(folder()).args(&arguments[own..]);
    // Flags of the machine's own compiler are not for this one.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.current_dir(root());
    assert!(cargo.status().expect("cargo runs").success(), "{cargo:?}");
}

/// Calls a function of a module that has nobody else; what it answers.
///
/// # Panics
/// When it needs somebody, has no such function, or fails.
#[must_use]
pub fn run_alone(module: &[u8], name: &str) -> u32 {
    let engine = Engine::default();
    let module = Module::new(&engine, module).expect("is a module");
    let mut store = Store::new(&engine, ());
    let instance = <Linker<()>>::new(&engine).instantiate_and_start(&mut store, &module);
    let function = instance.expect("needs nobody").get_typed_func::<(), u32>(&store, name);
    function.expect("is there").call(&mut store, ()).expect("answers")
}

/// A module with its calls of WASI redirected to what is linked in.
///
/// # Panics
/// When one is left.
#[must_use]
pub fn linked(module: &[u8]) -> Vec<u8> {
    let linked = link(module).expect("links");
    assert!(linked.redirected.len() >= 3, "{:?}", linked.redirected);
    assert!(linked.left.iter().all(|left| left.name.starts_with("ic0.")), "{:?}", linked.left);
    linked.module
}
