//! The model test of the memory home, over every kind of memory that there is: one home that goes on, one that is found
//! anew after every batch, growth that fails now and then, and growth that fails at every point in turn.

#[path = "../../esker/tests/memory/chance.rs"]
#[allow(dead_code, reason = "the memory home's tests use all of it")]
mod chance;
#[path = "../../esker/tests/memory/model.rs"]
#[allow(dead_code, reason = "the memory home's tests use all of it")]
mod model;
#[path = "../../esker/tests/memory/player.rs"]
#[allow(dead_code, reason = "the memory home's tests use all of it")]
mod player;
#[path = "../../esker/tests/memory/story.rs"]
mod story;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use esker::ground::{Heap, Memory, Region, Undo};
use esker::{Error, Result};
use esker_embedded::{HostMemory, Stable};
use esker_host::MappedFile;
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager};
use ic_stable_structures::{Memory as _, VectorMemory};

use crate::model::{Model, assert_same, commit, options};
use crate::player::{embedded, play_anew, play_on, seeds};
use crate::story::{fails_in_turn, open, story};

/// Batches for each memory.
const ROUNDS: u32 = 500;
/// The same where everything is opened anew after each.
const ANEW: u32 = 120;
/// The same where growth fails.
const FAILING: u32 = 250;

/// When growth fails, counted over all that share it.
#[derive(Clone, Default)]
struct Plan {
    calls: Rc<Cell<u64>>,
    /// From this call on a few, or never.
    nth: u64,
    /// At every so-manieth.
    always: bool,
}

/// Growths that fail in a row, as whoever cannot have much asks for less.
const IN_A_ROW: u64 = 16;

impl Plan {
    fn fails(&self) -> bool {
        let call = self.calls.get() + 1;
        self.calls.set(call);
        match (self.nth, self.always) {
            (0, _) => false,
            (nth, true) => call.is_multiple_of(nth),
            (nth, false) => (nth..nth + IN_A_ROW).contains(&call),
        }
    }
}

/// A memory that fails to grow by plan.
struct Failing<M>(M, Plan);

impl<M: Memory> Memory for Failing<M> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        if self.1.fails() { Err(Error::NoSpace) } else { self.0.grow(size) }
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.0.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.0.write(at, source)
    }

    fn whole(&self) -> Result<()> {
        self.0.whole()
    }
}

/// The same below an adapter, which hears it as its own kind of memory says it.
impl<M: ic_stable_structures::Memory> ic_stable_structures::Memory for Failing<M> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn grow(&self, pages: u64) -> i64 {
        if self.1.fails() { -1 } else { self.0.grow(pages) }
    }

    fn read(&self, at: u64, target: &mut [u8]) {
        self.0.read(at, target);
    }

    fn write(&self, at: u64, source: &[u8]) {
        self.0.write(at, source);
    }
}

/// What a host keeps, and when it does not lend more.
#[derive(Default)]
struct Host {
    bytes: Vec<u8>,
    plan: Plan,
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
}

const HOST_MEMORY: HostMemory = HostMemory {
    size: || HOST.with_borrow(|host| host.bytes.len() as u64),
    grow: |size| {
        HOST.with_borrow_mut(|host| {
            let fails = host.plan.fails();
            if !fails {
                host.bytes.resize(size as usize, 0);
            }
            !fails
        })
    },
    read: |at, target| {
        HOST.with_borrow(|host| target.copy_from_slice(&host.bytes[at as usize..][..target.len()]));
    },
    write: |at, source| {
        HOST.with_borrow_mut(|host| {
            host.bytes[at as usize..][..source.len()].copy_from_slice(source);
        });
    },
};

/// Bytes of somebody else's before a memory's part.
const BEFORE: u64 = 100_000;

/// A place that bytes stay in, whoever opens it.
struct Place {
    memory: Box<dyn Fn() -> Box<dyn Memory>>,
    /// What is somebody else's in there stayed as it was.
    sound: Box<dyn Fn() -> bool>,
}

impl Place {
    fn new(memory: impl Fn() -> Box<dyn Memory> + 'static) -> Self {
        Self { memory: Box::new(memory), sound: Box::new(|| true) }
    }
}

fn heap() -> &'static Heap {
    Box::leak(Box::new(Heap::new()))
}

fn in_the_heap(plan: Plan) -> Place {
    let heap = heap();
    Place::new(move || Box::new(Failing(heap, plan.clone())))
}

fn in_a_vector(plan: Plan) -> Place {
    let memory = VectorMemory::default();
    Place::new(move || Box::new(Stable::new(Failing(memory.clone(), plan.clone()))))
}

/// One of a manager's, beside another whose bytes are somebody else's.
fn in_a_managed_memory(plan: Plan) -> Place {
    let memory = VectorMemory::default();
    let manager = {
        let memory = memory.clone();
        move || MemoryManager::init(memory.clone())
    };
    let other = manager().get(MemoryId::new(7));
    other.grow(3);
    other.write(0, &[7; 3 * 65_536]);
    let sound = manager.clone();
    Place {
        memory: Box::new(move || {
            Box::new(Stable::new(Failing(manager().get(MemoryId::new(8)), plan.clone())))
        }),
        sound: Box::new(move || {
            let mut bytes = vec![0; 3 * 65_536];
            sound().get(MemoryId::new(7)).read(0, &mut bytes);
            bytes.iter().all(|&byte| byte == 7)
        }),
    }
}

fn in_a_range_of_addresses(plan: Plan) -> Place {
    let heap = heap();
    heap.grow(BEFORE).unwrap();
    heap.write(0, &[7; BEFORE as usize]).unwrap();
    Place {
        memory: Box::new(move || {
            Box::new(Region::new(Failing(heap, plan.clone()), BEFORE, 1 << 30).unwrap())
        }),
        sound: Box::new(|| {
            let mut bytes = vec![0; BEFORE as usize];
            heap.read(0, &mut bytes).is_ok_and(|()| bytes.iter().all(|&byte| byte == 7))
        }),
    }
}

fn with_an_undo_log(plan: Plan) -> Place {
    let [memory, log] = [heap(), heap()];
    Place::new(move || Box::new(Undo::open(Failing(memory, plan.clone()), log).unwrap()))
}

fn in_a_host_s_memory(plan: Plan) -> Place {
    HOST.set(Host { bytes: Vec::new(), plan });
    Place::new(|| Box::new(HOST_MEMORY))
}

/// A folder that goes with its place.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("esker-model-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn in_a_mapped_file(plan: Plan) -> Place {
    let folder = Folder::new();
    Place::new(move || {
        let file = MappedFile::open(&folder.0.join("home"), 1 << 30).unwrap();
        Box::new(Failing(file, plan.clone()))
    })
}

fn in_a_mapped_file_with_an_undo_log(plan: Plan) -> Place {
    let folder = Folder::new();
    Place::new(move || {
        let file = MappedFile::open_whole(&folder.0.join("home"), 1 << 30).unwrap();
        Box::new(Failing(file, plan.clone()))
    })
}

/// Every kind of memory.
const KINDS: [fn(Plan) -> Place; 8] = [
    in_the_heap,
    in_a_vector,
    in_a_managed_memory,
    in_a_range_of_addresses,
    with_an_undo_log,
    in_a_host_s_memory,
    in_a_mapped_file,
    in_a_mapped_file_with_an_undo_log,
];

fn over_every_kind(plan: &Plan, test: impl Fn(&Place, u64)) {
    for (number, kind) in KINDS.into_iter().enumerate() {
        for seed in seeds() {
            println!("kind {number}");
            let place = kind(plan.clone());
            test(&place, seed);
            assert!((place.sound)(), "somebody else's bytes");
        }
    }
}

#[test]
fn agrees_in_every_kind_of_memory() {
    over_every_kind(&Plan::default(), |place, seed| {
        assert_eq!(play_on(embedded((place.memory)(), u64::MAX, 16), seed, ROUNDS, 7), 0);
    });
}

#[test]
fn agrees_when_opened_anew_after_every_batch() {
    over_every_kind(&Plan::default(), |place, seed| play_anew(&place.memory, seed, ANEW));
}

#[test]
fn agrees_where_memory_fails_to_grow() {
    for nth in [2, 3, 7] {
        let plan = Plan { nth, always: true, ..Plan::default() };
        over_every_kind(&plan, |place, seed| {
            // The first growth may be the one that fails.
            let home = (0..4).find_map(|_| open((place.memory)()).ok());
            let start = (home.expect("it grows now and then"), Model::new(options(0).root));
            // It asks for less then, and is refused where it needs more.
            play_on(start, seed, FAILING, 3);
        });
        let failed = plan.calls.get() / nth;
        assert!(failed > 8, "{failed} growths failed");
    }
}

#[test]
fn growth_fails_at_every_point_in_turn() {
    for (number, kind) in KINDS.into_iter().enumerate() {
        println!("kind {number}");
        fails_in_turn(|nth| {
            let plan = Plan { nth, ..Plan::default() };
            let calls = Rc::clone(&plan.calls);
            (opened(kind(plan)), calls)
        });
    }
}

/// A log that cannot grow is like a kill: the call ends in its middle, and whoever opens the memory next finds what was
/// there before.
#[test]
fn a_log_that_fails_to_grow_leaves_what_was_before() {
    let (mut nth, mut told) = (1, 0);
    loop {
        let [memory, log] = [heap(), heap()];
        let plan = Plan { nth, ..Plan::default() };
        let undo = Undo::open(memory, Failing(log, plan.clone()));
        let mut model = Model::new(options(0).root);
        let home = undo.map(open);
        if let Ok(Ok(home)) = home {
            let refused = story().into_iter().find_map(|words| {
                let before = model.clone();
                model.apply(&words).unwrap();
                commit(&home, &words).err().map(|error| (error, before))
            });
            let Some((error, before)) = refused else { break };
            assert!(matches!(error, Error::NoSpace | Error::Io), "{error}");
            model = before;
        }
        told += 1;
        let home = open(Undo::open(memory, log).unwrap()).unwrap();
        assert_eq!(home.check(), []);
        model.inodes.keys().for_each(|&ino| assert_same(&home, &model, ino));
        nth += 1 + nth / 20;
    }
    assert!(told > 20, "{told} times");
}

/// The memory of a place, which lasts as long as it.
fn opened(place: Place) -> Box<dyn Memory> {
    Box::new(Held { memory: (place.memory)(), _place: place })
}

struct Held {
    memory: Box<dyn Memory>,
    _place: Place,
}

impl Memory for Held {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        self.memory.grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.memory.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.memory.write(at, source)
    }

    fn whole(&self) -> Result<()> {
        self.memory.whole()
    }
}
