//! Memory and space that run out: the n-th piece of memory is refused, once or from then on, for every n; and volumes
//! of every size, so that space runs out everywhere. Whoever is refused is told, nothing else changes, and what was
//! taken is there in the end, and so are snapshots. `ESKER_CASES` says under how many scripts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use esker::ground::{Heap, Memory};
use esker::limits::FILE_SIZE_MAX;
use esker::memory::{Home, Options};
use esker::store::Store as _;
use esker::{Error, Result};
use esker_proof::cut::{History, SHAPES, Shape};
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::Lying;
use esker_proof::model::Model;
use esker_proof::script::Script;
use esker_proof::script::generate::Profile;
use esker_proof::told::{difference, tell};
use esker_proof::world::World as _;
use esker_proof::world::inside::{Inside, root_attr};
use esker_volume::{Kept, Snapped, SnapshotError};

const PROFILE: Profile = Profile { steps_max: 50, users: true, cursors: false };
const DIRTY_MAX: u64 = 8 << 20;

/// Who refuses memory, and when.
#[derive(Default)]
struct Plan {
    asked: AtomicU64,
    nth: u64,
    forever: bool,
    over: AtomicBool,
}

impl Plan {
    fn allow(&self) -> Result<()> {
        let number = self.asked.fetch_add(1, SeqCst);
        let refused = number == self.nth || (self.forever && number > self.nth);
        if refused && !self.over.load(SeqCst) { Err(Error::NoMemory) } else { Ok(()) }
    }
}

/// Memory that is not always there.
struct Scarce {
    heap: Heap,
    plan: Arc<Plan>,
}

impl Memory for Scarce {
    fn size(&self) -> u64 {
        self.heap.size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        self.plan.allow()?;
        let before = self.heap.size();
        self.heap.grow(size)?;
        // As memory that somebody had before.
        self.heap.write(before, &vec![0xdd; size.saturating_sub(before) as usize])
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.heap.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.heap.write(at, source)
    }
}

type Above = Kept<Home<Scarce>, Arc<Lying>>;

fn mount(shape: &Shape, device: &Arc<Lying>, plan: &Arc<Plan>) -> Result<Above> {
    let volume = shape.open(Arc::clone(device), true).expect("a fresh volume opens");
    let options = Options { size_max: DIRTY_MAX, file_size_max: FILE_SIZE_MAX, root: root_attr() };
    let plan = Arc::clone(plan);
    let lend = move || {
        plan.allow()?;
        Ok(Scarce { heap: Heap::new(), plan: Arc::clone(&plan) })
    };
    let lend = Arc::new(lend);
    let lent = Arc::clone(&lend);
    let make = move || Home::new(lend()?, &options);
    let again = move |used: Home<Scarce>| used.again(|| lent(), &options);
    Kept::new(volume, DIRTY_MAX, Box::new((make, again)))
}

fn is_trouble(errno: i32) -> bool {
    let trouble = [Error::Io, Error::ReadOnly, Error::NoSpace, Error::NoMemory];
    trouble.iter().any(|error| error.errno() == errno)
}

/// Snapshots that were made, and what the model showed then.
#[derive(Default)]
struct Snapshots {
    kept: Vec<(String, Vec<u8>)>,
    tried: u64,
}

impl Snapshots {
    /// Makes one, and deletes the oldest of three; whether memory or room was refused for it, and none is there.
    fn change(&mut self, home: &Above, model: &Model) -> std::result::Result<bool, String> {
        if self.kept.len() > 2 {
            let (name, told) = self.kept.remove(0);
            look_at(home, &name, &told)?;
            let done = home.volume().delete_snapshot(&name);
            done.map_err(|error| format!("deleting {name}: {error}"))?;
        }
        let name = format!("s{}", self.tried);
        self.tried += 1;
        match home.create_snapshot(&name) {
            Ok(()) => {
                self.kept.push((name, tell(model)?));
                Ok(false)
            }
            Err(SnapshotError::NoRoom) => Ok(true),
            Err(SnapshotError::Volume(error)) if is_trouble(error.core().errno()) => {
                let there = home.volume().snapshot(&name).is_ok();
                if there { Err(format!("{name} was refused, and is there")) } else { Ok(true) }
            }
            Err(error) => Err(format!("making {name}: {error}")),
        }
    }

    /// All of them show what they did, and the volume goes back to the first.
    fn end(&self, home: &Above, shape: &Shape) -> std::result::Result<(), String> {
        for (name, told) in &self.kept {
            look_at(home, name, told)?;
        }
        let Some((name, told)) = self.kept.first() else { return Ok(()) };
        match home.volume().rollback(name) {
            Err(SnapshotError::NoRoom) => return Ok(()),
            done => done.map_err(|error| format!("{}: going back: {error}", shape.name))?,
        }
        let found = tell(home.volume())?;
        if found == *told { Ok(()) } else { Err(difference(told, &found)) }
    }
}

fn look_at(home: &Above, name: &str, told: &[u8]) -> std::result::Result<(), String> {
    let view = Snapped::new(Arc::clone(home.shared()), name).map_err(|e| format!("{name}: {e}"))?;
    let found = tell(&view)?;
    if found == told { Ok(()) } else { Err(format!("{name}: {}", difference(told, &found))) }
}

/// One run; how often memory was asked for, and how many steps were refused.
fn run(shape: &Shape, script: &Script, plan: Plan) -> std::result::Result<(u64, u64), String> {
    let (plan, device) = (Arc::new(plan), shape.fresh(1));
    let home = match mount(shape, &device, &plan) {
        Err(error) if is_trouble(error.errno()) => return Ok((u64::MAX, 1)),
        home => home.map_err(|error| format!("mounting: {error}"))?,
    };
    let mut volume = Inside::new("volume", home);
    let mut model = Inside::new("model", Model::new(root_attr()));
    let (mut refused, mut snapshots) = (0, Snapshots::default());
    for (number, step) in script.0.iter().enumerate() {
        volume.now();
        model.now();
        let outcome = volume.run(step);
        if outcome.as_ref().err().is_some_and(|&errno| is_trouble(errno)) {
            refused += 1;
            model.refused(step);
        } else {
            let wanted = model.run(step);
            if outcome.is_ok() != wanted.is_ok() {
                return Err(format!("{step}: {outcome:?}, {wanted:?}"));
            }
        }
        if number % 3 == 2 {
            // What could not be written stays to be written.
            refused += u64::from(volume.fs().store().sync().is_err());
        }
        if number % 8 == 7 {
            let made = snapshots.change(volume.fs().store(), model.fs().store())?;
            refused += u64::from(made);
        }
    }
    plan.over.store(true, SeqCst);
    let home = volume.fs().store();
    home.sync().map_err(|error| format!("with memory again: {error}"))?;
    let shown = |error| format!("{error:?}");
    let (wanted, found) = (tell(model.fs().store()).map_err(shown)?, tell(home).map_err(shown)?);
    if wanted != found {
        return Err(difference(&wanted, &found));
    }
    let below = tell(home.volume()).map_err(shown)?;
    if wanted != below {
        return Err(format!("on the volume: {}", difference(&wanted, &below)));
    }
    let findings = home.volume().check();
    if !findings.is_empty() {
        return Err(format!("check finds {findings:?}"));
    }
    snapshots.end(home, shape)?;
    let findings = home.volume().check();
    if !findings.is_empty() {
        return Err(format!("gone back, check finds {findings:?}"));
    }
    Ok((plan.asked.load(SeqCst), refused))
}

#[test]
fn memory_that_is_refused_changes_nothing() {
    let scripts = from_env("ESKER_CASES", 5);
    let (mut runs, mut refused) = (0, 0);
    for number in 0..scripts {
        let shape = &SHAPES[number as usize % SHAPES.len()];
        let seed = seed().wrapping_add(number);
        let script = sample(PROFILE, seed);
        for forever in [false, true] {
            for nth in 0.. {
                let plan = Plan { nth, forever, ..Plan::default() };
                let (asked, own) = run(shape, &script, plan).unwrap_or_else(|why| {
                    panic!("{}, seed {seed:#x}, {nth}, {forever}\n{script}\n{why}", shape.name)
                });
                (runs, refused) = (runs + 1, refused + own);
                if asked <= nth {
                    break;
                }
            }
        }
    }
    println!("{scripts} scripts, {runs} runs, {refused} refusals");
    assert!(refused > 0, "nobody was refused");
}

#[test]
fn space_that_runs_out_changes_nothing() {
    let scripts = from_env("ESKER_CASES", 5);
    let (mut sizes, mut refused) = (0, 0);
    for number in 0..scripts {
        let shape = &SHAPES[number as usize % SHAPES.len()];
        let seed = seed().wrapping_add(number);
        let script = sample(PROFILE, seed);
        for snapshots in [false, true] {
            let (own, steps) =
                History::scarce(shape, &script, seed, snapshots).unwrap_or_else(|why| {
                    panic!("{}, seed {seed:#x}, {snapshots}\n{script}\n{why}", shape.name)
                });
            (sizes, refused) = (sizes + own, refused + steps);
        }
    }
    println!("{scripts} scripts, {sizes} sizes, {refused} steps were refused");
}
