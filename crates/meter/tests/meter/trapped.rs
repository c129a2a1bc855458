//! Calls of a canister that trap at any write to the stable memory. The Internet Computer takes back what such a call
//! did, on the heap and in the stable memory, and so does this; the canister notices nothing.

use esker_meter::build_example_with;
use wasmi::{Caller, Engine, Error, Extern, Instance, Linker, Module, Store};

use crate::target;

const PAGE: u64 = 65_536;
const STEPS: u32 = 36;

/// What the system keeps, and how many more calls change it before one traps.
#[derive(Clone, Default)]
struct System {
    stable: Vec<u8>,
    left: Option<u64>,
}

impl System {
    /// Whether this is the change that traps.
    fn traps(&mut self) -> bool {
        match &mut self.left {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

fn both<'a>(caller: &'a mut Caller<'_, System>) -> (&'a mut [u8], &'a mut System) {
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => memory.data_and_store_mut(caller),
        _ => panic!("a module has a memory"),
    }
}

fn range(at: u64, len: u64) -> std::ops::Range<usize> {
    at as usize..(at + len) as usize
}

fn system(linker: &mut Linker<System>) -> Result<(), Error> {
    linker.func_wrap("ic0", "stable64_size", |caller: Caller<'_, System>| {
        caller.data().stable.len() as u64 / PAGE
    })?;
    let grow = |mut caller: Caller<'_, System>, pages: u64| -> Result<u64, Error> {
        let system = caller.data_mut();
        if system.traps() {
            return Err(Error::new("trapped"));
        }
        let before = system.stable.len() as u64 / PAGE;
        system.stable.resize(((before + pages) * PAGE) as usize, 0);
        Ok(before)
    };
    linker.func_wrap("ic0", "stable64_grow", grow)?;
    linker.func_wrap("ic0", "stable64_read", |mut caller: Caller<'_, System>, to, from, len| {
        let (module, system) = both(&mut caller);
        module[range(to, len)].copy_from_slice(&system.stable[range(from, len)]);
    })?;
    let write = |mut caller: Caller<'_, System>, to, from, len| -> Result<(), Error> {
        let (module, system) = both(&mut caller);
        // In its middle.
        let traps = system.traps();
        let done = if traps { len / 2 } else { len };
        system.stable[range(to, done)].copy_from_slice(&module[range(from, done)]);
        if traps { Err(Error::new("trapped")) } else { Ok(()) }
    };
    linker.func_wrap("ic0", "stable64_write", write)?;
    Ok(())
}

/// A canister between two calls: its heap, and the stable memory.
#[derive(Clone, Default)]
struct State {
    heap: Vec<u8>,
    stable: Vec<u8>,
}

/// How a call ends.
struct Ended {
    /// What it returned, or nothing if it trapped.
    told: Option<u64>,
    /// What there would be if nobody took it back.
    state: State,
}

struct Canister {
    engine: Engine,
    module: Module,
}

impl Canister {
    /// A canister in this state, in a new instance: what else it has (the place of its stack) is the same between
    /// calls.
    fn wake(&self, state: &State) -> (Store<System>, Instance) {
        let system_kept = System { stable: state.stable.clone(), left: None };
        let mut store = Store::new(&self.engine, system_kept);
        let mut linker = <Linker<System>>::new(&self.engine);
        system(&mut linker).unwrap();
        let instance = linker.instantiate_and_start(&mut store, &self.module).unwrap();
        let memory = instance.get_memory(&store, "memory").unwrap();
        if !state.heap.is_empty() {
            let more = (state.heap.len() - memory.data_size(&store)) as u64 / PAGE;
            memory.grow(&mut store, more).unwrap();
            memory.write(&mut store, 0, &state.heap).unwrap();
        }
        (store, instance)
    }

    /// Calls `step`, or `told` without a number, with so many changes left until a trap.
    fn call(&self, state: &State, step: Option<u32>, left: Option<u64>) -> Ended {
        let (mut store, instance) = self.wake(state);
        store.data_mut().left = left;
        let told = match step {
            Some(number) => {
                let step = instance.get_typed_func::<u32, ()>(&store, "step").unwrap();
                step.call(&mut store, number).map(|()| 0)
            }
            None => {
                let told = instance.get_typed_func::<(), u64>(&store, "told").unwrap();
                told.call(&mut store, ())
            }
        };
        let memory = instance.get_memory(&store, "memory").unwrap();
        let heap = memory.data(&store).to_vec();
        let stable = std::mem::take(&mut store.data_mut().stable);
        Ended { told: told.ok(), state: State { heap, stable } }
    }

    fn told(&self, state: &State) -> u64 {
        let told = self.call(state, None, None).told.expect("tells");
        assert_ne!(told, 0, "it is not sound");
        told
    }
}

#[test]
fn a_call_that_traps_at_any_write_has_not_been() {
    if !target::has_wasm() {
        return;
    }
    let engine = Engine::default();
    let module = build_example_with("steps", "stable").unwrap();
    let module = Module::new(&engine, module).unwrap();
    let canister = Canister { engine, module };
    let (mut state, mut traps, mut mixed) = (State::default(), 0, 0);
    for number in 0..STEPS {
        let after = canister.call(&state, Some(number), None);
        assert!(after.told.is_some(), "step {number}");
        let [before_told, after_told] = [canister.told(&state), canister.told(&after.state)];
        for left in 0.. {
            let ended = canister.call(&state, Some(number), Some(left));
            if ended.told.is_some() {
                break;
            }
            traps += 1;
            // Left as it was then, it would not be what was there before: there is something to take back.
            mixed += u64::from(ended.state.stable != state.stable);
            // Taken back: the heap and the stable memory are those of before.
            if left.is_multiple_of(4) {
                assert_eq!(canister.told(&state), before_told);
                let again = canister.call(&state, Some(number), None);
                assert_eq!(canister.told(&again.state), after_told, "step {number} again");
            }
        }
        // An upgrade after it: the heap is gone, and nobody was told.
        let upgraded = State { heap: Vec::new(), ..after.state.clone() };
        assert_eq!(canister.told(&upgraded), after_told, "step {number}, upgraded");
        state = after.state;
    }
    assert!(traps > 200 && mixed > 100, "{traps} traps, {mixed} with something to take back");
}
