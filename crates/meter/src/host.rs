//! What is around a module that is measured: a stable memory that charges as the Internet Computer's does, and marks
//! where a row begins and ends.
//!
//! Neighbours: `instrument` put the counter into the module. Invariant: nothing that happens here costs anything but
//! what is charged.

use esker_wasi_link::PREFIX;
use wasmi::{Caller, Engine, Extern, ExternType, Linker, Module, Store, Val};

use crate::instrument::{COUNTER, OWN};

/// What modules import WASI from.
const PREVIEW1: &str = "wasi_snapshot_preview1";
const WASM_PAGE: u64 = 64 * 1024;
/// What a write first touches costs extra, by pages of this size.
const DIRTY_PAGE: u64 = 4096;
/// A canister's stable memory is never longer than this here, in bytes.
const STABLE_MAX: u64 = 8 << 30;
const COST_CALL: u64 = 20;
const COST_DIRTY: u64 = 1000;
const COST_GROW: u64 = 100;

/// One row, measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Instructions.
    pub instructions: u64,
    /// Of these, inside of the functions of WASI, if the module was not linked: what it calls is bound then.
    pub below: u64,
    /// Calls that read stable memory.
    pub reads: u64,
    /// Calls that wrote it.
    pub writes: u64,
    /// Pages first written in the message.
    pub dirty: u64,
    /// Bytes of stable memory at its end.
    pub stable: u64,
    /// What each function with a body did, if the module counts it.
    pub functions: Vec<Done>,
}

/// What a function did itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Done {
    /// Instructions.
    pub cost: u64,
    /// Of these, for what bulk instructions copied and filled.
    pub bulk: u64,
    /// How often it was called.
    pub calls: u64,
}

impl Done {
    fn since(self, before: Self) -> Self {
        Self {
            cost: self.cost - before.cost,
            bulk: self.bulk - before.bulk,
            calls: self.calls - before.calls,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Counts {
    cost: u64,
    below: u64,
    reads: u64,
    writes: u64,
    dirty: u64,
}

#[derive(Default)]
struct Host {
    stable: Vec<u8>,
    /// Written in this message.
    dirty: Vec<bool>,
    now: Counts,
    start: Counts,
    /// What each function had done at the start.
    functions: Vec<Done>,
    rows: Vec<Row>,
}

/// What ends a run that is wrong.
fn trap(what: &str) -> wasmi::Error {
    wasmi::Error::new(what.to_owned())
}

fn counter(caller: &Caller<'_, Host>, name: &str) -> Option<u64> {
    match caller.get_export(name)?.into_global()?.get(caller) {
        wasmi::Val::I64(cost) => Some(cost.cast_unsigned()),
        _ => None,
    }
}

fn total(caller: &Caller<'_, Host>) -> Result<u64, wasmi::Error> {
    counter(caller, COUNTER).ok_or_else(|| trap("no counter"))
}

/// What each function did so far.
fn functions(caller: &Caller<'_, Host>) -> Vec<Done> {
    let done = |body: usize| {
        let [cost, bulk, calls] = OWN.map(|kind| counter(caller, &format!("{kind}{body}")));
        Some(Done { cost: cost?, bulk: bulk?, calls: calls? })
    };
    (0..).map_while(done).collect()
}

fn begin(mut caller: Caller<'_, Host>, new_message: u32) -> Result<(), wasmi::Error> {
    let cost = total(&caller)?;
    let functions = functions(&caller);
    let host = caller.data_mut();
    if new_message != 0 {
        host.dirty.fill(false);
    }
    host.functions = functions;
    host.start = Counts { cost: host.now.cost + cost, ..host.now };
    Ok(())
}

fn end(mut caller: Caller<'_, Host>, at: u32, len: u32) -> Result<(), wasmi::Error> {
    let cost = total(&caller)?;
    let mut functions = functions(&caller);
    let (bytes, host) = both(&mut caller)?;
    let name = bytes.get(at as usize..).and_then(|bytes| bytes.get(..len as usize));
    let name = String::from_utf8_lossy(name.ok_or_else(|| trap("no name"))?).into_owned();
    let Counts { cost: before, below, reads, writes, dirty } = host.start;
    functions
        .iter_mut()
        .zip(&host.functions)
        .for_each(|(done, before)| *done = done.since(*before));
    host.rows.push(Row {
        name,
        instructions: host.now.cost + cost - before,
        below: host.now.below - below,
        reads: host.now.reads - reads,
        writes: host.now.writes - writes,
        dirty: host.now.dirty - dirty,
        stable: host.stable.len() as u64,
        functions,
    });
    Ok(())
}

/// The module's memory, and what is here.
fn both<'a>(
    caller: &'a mut Caller<'_, Host>,
) -> Result<(&'a mut [u8], &'a mut Host), wasmi::Error> {
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => Ok(memory.data_and_store_mut(caller)),
        _ => Err(trap("no memory")),
    }
}

fn grow(mut caller: Caller<'_, Host>, pages: u64) -> u64 {
    let host = caller.data_mut();
    host.now.cost += COST_GROW;
    let before = host.stable.len() as u64;
    let Some(size) = pages.checked_mul(WASM_PAGE).and_then(|more| before.checked_add(more)) else {
        return u64::MAX;
    };
    if size > STABLE_MAX {
        return u64::MAX;
    }
    host.stable.resize(size as usize, 0);
    host.dirty.resize((size / DIRTY_PAGE) as usize, false);
    before / WASM_PAGE
}

fn read(mut caller: Caller<'_, Host>, to: u64, from: u64, len: u64) -> Result<(), wasmi::Error> {
    let (bytes, host) = both(&mut caller)?;
    host.now.cost += COST_CALL + len;
    host.now.reads += 1;
    let source = host.stable.get(from as usize..).and_then(|bytes| bytes.get(..len as usize));
    let target = bytes.get_mut(to as usize..).and_then(|bytes| bytes.get_mut(..len as usize));
    let (Some(source), Some(target)) = (source, target) else { return Err(trap("out of bounds")) };
    target.copy_from_slice(source);
    Ok(())
}

fn write(mut caller: Caller<'_, Host>, to: u64, from: u64, len: u64) -> Result<(), wasmi::Error> {
    let (bytes, host) = both(&mut caller)?;
    host.now.cost += COST_CALL + len;
    host.now.writes += 1;
    let source = bytes.get(from as usize..).and_then(|bytes| bytes.get(..len as usize));
    let target = host.stable.get_mut(to as usize..).and_then(|bytes| bytes.get_mut(..len as usize));
    let (Some(source), Some(target)) = (source, target) else { return Err(trap("out of bounds")) };
    target.copy_from_slice(source);
    if len > 0 {
        let pages = (to / DIRTY_PAGE) as usize..=((to + len - 1) / DIRTY_PAGE) as usize;
        for dirty in host.dirty[pages].iter_mut().filter(|dirty| !**dirty) {
            *dirty = true;
            host.now.dirty += 1;
            host.now.cost += COST_DIRTY;
        }
    }
    Ok(())
}

/// Binds what a module calls of WASI to the functions that are linked into it, and counts what they cost.
fn bind(linker: &mut Linker<Host>, module: &Module) -> Result<(), wasmi::Error> {
    for import in module.imports().filter(|import| import.module() == PREVIEW1) {
        let ExternType::Func(kind) = import.ty() else { continue };
        let name = format!("{PREFIX}{}", import.name());
        let call = move |mut caller: Caller<'_, Host>, params: &[Val], results: &mut [Val]| {
            let function = caller.get_export(&name).and_then(Extern::into_func);
            let function = function.ok_or_else(|| trap("a function of WASI is not linked in"))?;
            let before = caller.data().now.cost + total(&caller)?;
            function.call(&mut caller, params, results)?;
            let after = caller.data().now.cost + total(&caller)?;
            caller.data_mut().now.below += after - before;
            Ok(())
        };
        linker.func_new(PREVIEW1, import.name(), kind.clone(), call)?;
    }
    Ok(())
}

/// Runs one bench on one subject in a module that has its counter, on a new stable memory.
///
/// # Errors
/// What the interpreter says, and any trap of the module.
pub fn run(module: &[u8], subject: u32, bench: u32) -> Result<Vec<Row>, wasmi::Error> {
    let engine = Engine::default();
    let module = Module::new(&engine, module)?;
    let mut store = Store::new(&engine, Host::default());
    let mut linker = <Linker<Host>>::new(&engine);
    linker.func_wrap("meter", "begin", begin)?;
    linker.func_wrap("meter", "end", end)?;
    linker.func_wrap("ic0", "stable64_size", |caller: Caller<'_, Host>| {
        caller.data().stable.len() as u64 / WASM_PAGE
    })?;
    linker.func_wrap("ic0", "stable64_grow", grow)?;
    linker.func_wrap("ic0", "stable64_read", read)?;
    linker.func_wrap("ic0", "stable64_write", write)?;
    linker.func_wrap("ic0", "time", |mut caller: Caller<'_, Host>| {
        caller.data_mut().now.cost += 500;
        1_700_000_000_000_000_000_u64
    })?;
    linker.func_wrap("ic0", "debug_print", |_: Caller<'_, Host>, _: u32, _: u32| {})?;
    linker.func_wrap("ic0", "trap", |_: Caller<'_, Host>, _: u32, _: u32| -> Result<(), _> {
        Err(trap("the module gave up"))
    })?;
    bind(&mut linker, &module)?;
    let instance = linker.instantiate_and_start(&mut store, &module)?;
    instance.get_typed_func::<(u32, u32), ()>(&store, "run")?.call(&mut store, (subject, bench))?;
    Ok(store.into_data().rows)
}
