//! Cutting the power of a volume at every operation of its device, and looking at what is left.
//!
//! Above: `tests/exams/power_cuts.rs`. Below: [`crate::lying`], the model on top of a volume. Invariant: what is left
//! opens without writing, and is exactly what the model had after some operation between the last one that was
//! made safe and the one that was on its way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::store::View;
use esker::{Error as Posix, Ino, Kind, Name};
use esker_stone::check::checksum;
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;
use esker_volume::device::{Device, Fault};
use esker_volume::limits::SEGMENTS_MIN;
use esker_volume::part;
use esker_volume::rows::Numbers;
use esker_volume::{Error, Sink, Source};

use crate::base;
use crate::chance::Chance;
use crate::cloning::clone_some;
use crate::lying::medium::{Medium, PAGE};
use crate::lying::states::{Dose, Replay};
use crate::lying::{Lying, Op, Plan, Request, Write};
use crate::model::Model;
use crate::moments::Moments;
use crate::script::Script;
use crate::told::{difference, print, tell};
use crate::world::inside::{Inside, root_attr};
use crate::world::on_volume::OnVolume;
use crate::world::{Outcome, World};

pub use crate::shape::{SHAPES, Shape};

/// Which of the states are also written to: one in eight.
const fn medium_number(done: usize, shown: u64) -> u64 {
    (done as u64 ^ shown) % 8
}

/// A file that is made beside all others.
struct Another(Ino, Vec<u8>);

impl Source for Another {
    fn tell(&self, to: &mut dyn Sink) -> Result<(), Error> {
        let attr = esker::Attr { kind: Kind::File, nlink: 1, size: 5000, ..root_attr() };
        to.inode(Inode { ino: self.0, attr, inline: Vec::new() });
        let (ino, seq) = (self.0, 1 << 40);
        let name = b"another".to_vec();
        to.name(Named { dir: Ino::ROOT, name, ino, kind: Kind::File, seq })?;
        to.bytes(ino, 0, &self.1)?;
        let next_place = (1 << 40) + 1;
        to.numbers(Numbers { next_ino: self.0.0 + 1, inodes: 1, next_place });
        Ok(())
    }
}

/// What was recovered can be written, and has what was written when it is opened again.
///
/// # Errors
/// What is wrong with it, in words.
pub fn goes_on<D: Device>(shape: &Shape, device: &D) -> Result<(), String> {
    let told = |error: Error| format!("going on: {error:?}");
    let volume = shape.open(device, true).map_err(told)?;
    let (ino, bytes) = (Ino(volume.numbers().next_ino), vec![7; 5000]);
    match volume.commit(&Another(ino, bytes.clone())) {
        Err(Error::NoSpace) => return Ok(()),
        done => done.map_err(told)?,
    }
    drop(volume);
    let volume = shape.open(device, false).map_err(told)?;
    let mut read = vec![0; 6000];
    let len = volume.read(ino, 0, &mut read).map_err(|error| format!("going on: {error:?}"))?;
    let found = volume.entry(Ino::ROOT, Name::parse(b"another").map_err(|e| format!("{e:?}"))?);
    if read[..len] != bytes || found.map(|entry| entry.ino) != Ok(ino) {
        return Err("what was written after recovery is not there".into());
    }
    Ok(())
}

/// What came of a run: for each step how much had been done to the device, and what the model showed.
pub struct History {
    /// What was on the medium before the first step.
    pub begin: Medium,
    /// What was done to the device.
    pub ops: Vec<Op>,
    /// What the model showed after each step.
    told: Vec<Vec<u8>>,
    /// For each number that the model showed, the steps after which it did.
    prints: HashMap<u64, Vec<usize>>,
    /// How often a volume that was looked at had been settled, at most.
    pub settled: AtomicU64,
    /// Operations of the device before each step, and after the last.
    marks: Vec<usize>,
    /// For each step, whether all before it was made safe by it.
    safe: Vec<bool>,
    /// Steps that were refused because of the volume.
    refused: u64,
    /// Operations of the device before the volume was closed.
    closed: usize,
    /// Snapshots.
    moments: Moments,
    /// How often it went back to one.
    pub backs: u64,
    /// How often something was cloned from one.
    pub clones: u64,
}

/// Whether a step was refused because of the volume: then it did nothing.
fn is_trouble(outcome: &Outcome) -> bool {
    let trouble = [Posix::Io, Posix::ReadOnly, Posix::NoSpace];
    trouble.iter().any(|error| outcome.as_ref().err() == Some(&error.errno()))
}

/// When there is a sync.
#[derive(Clone, Debug)]
pub enum Syncs {
    /// After one step in so many, by chance.
    Now(u64),
    /// After so many steps.
    After(Vec<usize>),
}

impl Syncs {
    fn due(&self, steps: usize, chance: &mut Chance) -> bool {
        match self {
            Self::Now(one_in) => chance.below(*one_in) == 0,
            Self::After(wanted) => wanted.contains(&steps),
        }
    }
}

impl History {
    /// Runs a script on a volume, with a sync now and then.
    ///
    /// # Panics
    /// When the model itself fails.
    #[must_use]
    pub fn run(shape: &Shape, script: &Script, seed: u64, syncs: u64) -> Self {
        Self::run_with(shape, script, seed, &Syncs::Now(syncs))
    }

    /// Runs a script on a volume, with syncs as they are said.
    ///
    /// # Panics
    /// When the model itself fails.
    #[must_use]
    pub fn run_with(shape: &Shape, script: &Script, seed: u64, syncs: &Syncs) -> Self {
        Self::run_on(shape, script, seed, (syncs, None, false)).0
    }

    /// Runs a script on a volume, with a sync now and then, and with many of them a snapshot that is made, deleted or
    /// gone back to.
    ///
    /// # Panics
    /// When the model itself fails, or a snapshot cannot be made.
    #[must_use]
    pub fn run_with_snapshots(shape: &Shape, script: &Script, seed: u64, syncs: u64) -> Self {
        Self::run_on(shape, script, seed, (&Syncs::Now(syncs), None, true)).0
    }

    /// Runs a script with each of the requests failing in turn until one is not met any more; how many runs
    /// there were, and how many syncs succeeded after the failure. After each run power is cut.
    ///
    /// # Errors
    /// What is wrong with what is left, in words.
    pub fn fail(
        shape: &Shape,
        script: &Script,
        seed: u64,
        (request, forever, fault): (Request, bool, Fault),
    ) -> Result<(u64, u64), String> {
        let mut safe = 0;
        for nth in 0.. {
            let plan = Plan { request, nth, forever, fault };
            let (history, device) =
                Self::run_on(shape, script, seed, (&Syncs::Now(3), Some(plan), false));
            let why = |why| format!("{request:?} {nth}, {fault:?}, for ever: {forever}: {why}");
            let mut replay =
                Replay::new(history.begin.clone(), shape.zones.map(|zones| zones.len), false);
            history.ops.iter().for_each(|op| replay.step(op));
            let mut found = Ok(());
            let dose = Dose { subsets: 2, torn: 4, garbage: 2 };
            replay.states(dose, &mut Chance::new(nth), &mut |medium| {
                if found.is_ok() {
                    found = history.check(shape, medium, history.ops.len());
                }
            });
            found.map_err(why)?;
            if device.count(request) <= nth {
                return Ok((nth, safe));
            }
            safe += history.safe.iter().filter(|&&safe| safe).count() as u64;
        }
        Ok((0, safe))
    }

    /// Runs a script on volumes of every size, from the smallest to one on which nothing is refused, so that space runs
    /// out at every point where it can; how many sizes there were, and how many steps were refused. What is left shows
    /// what was done, and what was refused was not; so do the snapshots, where some are made, deleted and gone back to.
    ///
    /// # Errors
    /// What is wrong with what is left, in words.
    pub fn scarce(
        shape: &Shape,
        script: &Script,
        seed: u64,
        snapshots: bool,
    ) -> Result<(u64, u64), String> {
        let (mut sizes, mut refused) = (0, 0);
        for size in (SEGMENTS_MIN * shape.segment_len..).step_by(shape.segment_len as usize) {
            let shape = Shape { size, ..*shape };
            let history = Self::run_on(&shape, script, seed, (&Syncs::Now(3), None, snapshots)).0;
            let medium = history.end(&shape, |_, _| None);
            let device = shape.device(medium.clone());
            let volume = shape.open(&device, false).map_err(|error| format!("{error:?}"))?;
            let findings = volume.check();
            if !findings.is_empty() {
                return Err(format!("{size} bytes: check finds {findings:?}"));
            }
            let looked = history.check(&shape, medium, history.ops.len());
            looked.map_err(|why| format!("{size} bytes: {why}"))?;
            (sizes, refused) = (sizes + 1, refused + history.refused);
            if history.refused == 0 {
                break;
            }
        }
        Ok((sizes, refused))
    }

    fn run_on(
        shape: &Shape,
        script: &Script,
        seed: u64,
        (syncs, plan, snapshots): (&Syncs, Option<Plan>, bool),
    ) -> (Self, Arc<Lying>) {
        let device = shape.fresh(seed);
        let begin = device.medium();
        let mut volume = OnVolume::new(*shape, Arc::clone(&device)).expect("a fresh volume opens");
        device.plan(plan);
        let first = if shape.base { base::model().copy() } else { Model::new(root_attr()) };
        let mut model = Inside::new("model", first);
        let mut chance = Chance::new(seed);
        let mut history = Self {
            begin,
            ops: Vec::new(),
            told: Vec::new(),
            prints: HashMap::new(),
            settled: AtomicU64::new(0),
            marks: Vec::new(),
            safe: Vec::new(),
            refused: 0,
            closed: 0,
            moments: Moments::default(),
            backs: 0,
            clones: 0,
        };
        history.mark(&model, &device);
        for (number, step) in script.0.iter().enumerate() {
            volume.now();
            model.now();
            let outcome = volume.run(step);
            if is_trouble(&outcome) {
                history.refused += 1;
                model.refused(step);
            } else {
                let wanted = model.run(step);
                assert_eq!(outcome.is_ok(), wanted.is_ok(), "{step}: {outcome:?}, {wanted:?}");
            }
            if snapshots && chance.below(3) == 0 {
                history.clone_some(&volume, &model, &device, &mut chance);
            }
            let due = syncs.due(number + 1, &mut chance);
            let mut synced = due && volume.sync().is_ok();
            if synced && snapshots && chance.below(3) > 0 {
                let with = (model.fs().store(), &mut chance);
                let made = history.moments.change(volume.home(), with, &|| device.done());
                synced |= made.expect("a snapshot");
            }
            if synced && snapshots && chance.below(4) == 0 {
                model = history.go_back(&mut volume, model, &device, &mut chance);
            }
            if synced && chance.below(4) == 0 {
                // As if nothing were to come: what comes all the same is not overlooked.
                let _ = volume.home().volume().close();
            }
            history.safe.push(synced);
            history.mark(&model, &device);
        }
        history.closed = device.done();
        // What it says is not needed to find what was made safe.
        let _ = volume.home().volume().close();
        history.ops = device.ops();
        (history, device)
    }

    /// Goes back to a snapshot, if there is one: one more step.
    fn go_back(
        &mut self,
        volume: &mut OnVolume,
        model: Inside<Model>,
        device: &Lying,
        chance: &mut Chance,
    ) -> Inside<Model> {
        let Some((name, then)) = self.moments.any(chance) else { return model };
        let name = name.to_owned();
        self.safe.push(true);
        self.mark(&model, device);
        let mounted = chance.below(2) == 0;
        let done = volume.go_back(&name, mounted).unwrap_or_else(|why| panic!("{why}"));
        self.backs += u64::from(done);
        let now = if done { then } else { model.fs().store().copy() };
        model.moved("model", now)
    }

    /// Clones something from a snapshot, if there is one: one more step.
    fn clone_some(
        &mut self,
        volume: &OnVolume,
        model: &Inside<Model>,
        device: &Lying,
        chance: &mut Chance,
    ) {
        let Some((name, then)) = self.moments.any(chance) else { return };
        let name = name.to_owned();
        self.safe.push(false);
        self.mark(model, device);
        match clone_some(volume.home(), (&name, &then), (model.fs().store(), chance)) {
            Ok(done) => self.clones += u64::from(done),
            Err(Posix::Io | Posix::ReadOnly | Posix::NoSpace) => self.refused += 1,
            Err(error) => panic!("a clone from {name}: {error:?}"),
        }
    }

    fn mark(&mut self, model: &Inside<Model>, device: &Lying) {
        let step = self.told.len();
        let told = tell(model.fs().store()).expect("the model shows everything");
        self.prints.entry(checksum(&told)).or_default().push(step);
        self.told.push(told);
        self.marks.push(device.done());
    }

    /// The steps that may be the last one seen, when power goes after so many operations.
    fn allowed(&self, done: usize) -> std::ops::RangeInclusive<usize> {
        let finished = self.marks.iter().rposition(|&mark| mark <= done).unwrap_or(0);
        let begun = (finished + 1).min(self.marks.len() - 1);
        let safe = self.safe[..finished].iter().rposition(|&safe| safe);
        safe.map_or(0, |step| step + 1)..=begun
    }

    /// Looks at one state.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn check(&self, shape: &Shape, medium: Medium, done: usize) -> Result<(), String> {
        let device = shape.device(medium);
        let volume = shape.open(&device, false).map_err(|error| format!("no mount: {error:?}"))?;
        let shown = print(&volume)?;
        if device.done() > 0 {
            return Err("a volume that was only read was written".into());
        }
        self.settled.fetch_max(volume.settled(), Ordering::Relaxed);
        if medium_number(done, shown) == 0 {
            let findings = volume.check();
            if !findings.is_empty() {
                return Err(format!("check finds {findings:?}"));
            }
        }
        let volume = Arc::new(volume);
        self.moments.check(&volume, done)?;
        drop(volume);
        if medium_number(done, shown) == 0 {
            self.is_swept(shape, &device)?;
            goes_on(shape, &device)?;
        }
        let allowed = self.allowed(done);
        let steps = self.prints.get(&shown).map_or(&[][..], Vec::as_slice);
        if steps.iter().any(|step| allowed.contains(step)) {
            return Ok(());
        }
        let wanted = self.told.get(*allowed.end()).map_or(&[][..], Vec::as_slice);
        Err(format!(
            "it shows the state after steps {steps:?}, not one of {allowed:?}: of the last\n{}",
            difference(wanted, &tell(&shape.open(&device, false).map_err(|e| format!("{e:?}"))?)?)
        ))
    }

    /// Deleting snapshots that was cut short is done with when the volume is open again.
    fn is_swept(&self, shape: &Shape, device: &Lying) -> Result<(), String> {
        if self.moments.is_empty() {
            return Ok(());
        }
        let told = |error: Error| format!("sweeping: {error:?}");
        let volume = shape.open(device, true).map_err(told)?;
        volume.sweep().map_err(told)?;
        let findings = volume.check();
        if findings.is_empty() { Ok(()) } else { Err(format!("swept, check finds {findings:?}")) }
    }

    /// As if a barrier right before a write to one of these places had been forgotten.
    pub fn leave_out_barriers_before(&mut self, place: impl Fn(u64) -> bool) {
        for at in 1..self.ops.len() {
            let wanted = matches!(&self.ops[at], Op::Write(write) if place(write.at));
            if wanted && matches!(self.ops[at - 1], Op::Flush) {
                self.ops[at - 1] = Op::Write(Write { at: 0, bytes: Arc::from([]) });
            }
        }
    }

    /// What is on the medium in the end.
    #[must_use]
    pub fn medium(&self, shape: &Shape) -> Medium {
        self.after(shape, &self.ops, |_, _| None)
    }

    /// What is on the medium when all that was done is safe.
    fn end(&self, shape: &Shape, change: impl Fn(usize, &Op) -> Option<Op>) -> Medium {
        self.after(shape, &self.ops, change)
    }

    /// The same after these operations, of which some are others.
    fn after(
        &self,
        shape: &Shape,
        ops: &[Op],
        change: impl Fn(usize, &Op) -> Option<Op>,
    ) -> Medium {
        let mut replay = Replay::new(self.begin.clone(), shape.zones.map(|zones| zones.len), false);
        for (number, op) in ops.iter().enumerate() {
            replay.step(change(number, op).as_ref().unwrap_or(op));
        }
        replay.step(&Op::Flush);
        replay.safe().clone()
    }

    /// Turns bits round, one at a time, in what was written; how many were told of, and how many did no harm.
    ///
    /// # Errors
    /// The first that made a volume show what it should not, in words.
    pub fn rot(&self, shape: &Shape, count: u64, seed: u64) -> Result<(u64, u64), String> {
        let medium = self.end(shape, |_, _| None);
        let mut chance = Chance::new(seed);
        let pages: Vec<u64> = (0..medium.size() / PAGE as u64)
            .map(|page| page * PAGE as u64)
            .filter(|&at| !medium.is_zero(at))
            .collect();
        let (mut told, mut same) = (0, 0);
        for _ in 0..count {
            let mut medium = medium.clone();
            let bit = chance.pick(&pages) * 8 + chance.below(PAGE as u64 * 8);
            medium.rot(bit);
            let noticed = self.is_noticed(shape, medium, 0);
            if noticed.map_err(|why| format!("bit {bit}: {why}"))? { told += 1 } else { same += 1 }
        }
        Ok((told, same))
    }

    /// Has writes go astray, one at a time: each is done where another was, or nowhere; how many were told of, and how
    /// many did no harm.
    ///
    /// # Errors
    /// The first that made a volume show what it should not, in words.
    pub fn stray(&self, shape: &Shape, count: u64, seed: u64) -> Result<(u64, u64), String> {
        let mut chance = Chance::new(seed);
        let writes = (0..).zip(&self.ops).filter(|(_, op)| matches!(op, Op::Write(_)));
        let writes: Vec<_> = writes.collect();
        let (mut told, mut same) = (0, 0);
        let count = if writes.is_empty() { 0 } else { count };
        for _ in 0..count {
            let (number, _) = *chance.pick(&writes);
            let (_, other) = *chance.pick(&writes);
            let lost = chance.below(3) == 0;
            let medium = self.end(shape, |own, op| match (op, other) {
                (Op::Write(write), Op::Write(other)) if own == number => {
                    let fits = other.at + write.bytes.len() as u64 <= shape.size;
                    let bytes =
                        if lost || !fits { Arc::from([]) } else { Arc::clone(&write.bytes) };
                    Some(Op::Write(Write { at: other.at, bytes }))
                }
                _ => None,
            });
            let noticed = self.is_noticed(shape, medium, 0);
            let noticed = noticed.map_err(|why| format!("write {number}, lost {lost}: {why}"))?;
            if noticed { told += 1 } else { same += 1 }
        }
        Ok((told, same))
    }

    /// Turns a bit round in the head of each part of the log, one at a time, of the volume that was closed and of one
    /// whose server was killed; how many were told of, and how many did no harm.
    ///
    /// # Errors
    /// The first that made a volume show what it should not, in words.
    pub fn behead(&self, shape: &Shape, seed: u64) -> Result<(u64, u64), String> {
        let mut chance = Chance::new(seed);
        let (mut told, mut same) = (0, 0);
        // Of the last commit nothing says that it was safe, where the server was killed.
        for (ops, missing) in [(&self.ops[..], 0), (&self.ops[..self.closed], 1)] {
            let medium = self.after(shape, ops, |_, _| None);
            for op in ops {
                let Op::Write(Write { at, bytes }) = op else { continue };
                let mut there = vec![0; bytes.len()];
                medium.read(*at, &mut there);
                if !bytes.starts_with(&part::MAGIC) || there != bytes[..] {
                    continue;
                }
                let mut medium = medium.clone();
                medium.rot(at * 8 + chance.below(part::PartHead::SIZE as u64 * 8));
                let noticed = self.is_noticed(shape, medium, missing);
                let noticed = noticed.map_err(|why| format!("the head at {at}: {why}"))?;
                if noticed { told += 1 } else { same += 1 }
            }
        }
        Ok((told, same))
    }

    /// Whether a volume that came to harm says so; if not, it must show what it did, but for so many of the last syncs.
    fn is_noticed(&self, shape: &Shape, medium: Medium, missing: usize) -> Result<bool, String> {
        let wrote = |step: &usize| self.safe[*step] && self.marks[*step] < self.marks[step + 1];
        let least =
            (0..self.safe.len()).rev().filter(wrote).nth(missing).map_or(0, |step| step + 1);
        let device = shape.device(medium);
        let shown = shape.open(&device, false).map_err(|error| format!("{error:?}"));
        let Ok(shown) = shown.and_then(|volume| print(&volume)) else { return Ok(true) };
        let steps = self.prints.get(&shown).map_or(&[][..], Vec::as_slice);
        if steps.iter().all(|&step| step < least) {
            return Err(format!("it shows the state after steps {steps:?}, the least is {least}"));
        }
        Ok(false)
    }

    /// All that was done to the device, as one number.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.ops.iter().fold(0, |sum: u64, op| {
            let own = match op {
                Op::Write(write) => write.at ^ checksum(&write.bytes),
                Op::Flush => 1,
                Op::Discard(at, len) => at ^ len,
            };
            sum.rotate_left(7) ^ own
        })
    }

    /// Cuts the power at every operation; how many states were looked at.
    ///
    /// # Errors
    /// The first state that is wrong, in words.
    pub fn cut(&self, shape: &Shape, dose: Dose, forgets: bool, seed: u64) -> Result<u64, String> {
        let mut replay =
            Replay::new(self.begin.clone(), shape.zones.map(|zones| zones.len), forgets);
        let mut chance = Chance::new(seed);
        let (mut count, mut found) = (0, Ok(()));
        for done in 0..=self.ops.len() {
            replay.states(dose, &mut chance, &mut |medium| {
                count += 1;
                if found.is_ok() {
                    let looked = self.check(shape, medium, done);
                    found = looked.map_err(|why| format!("after {done} operations: {why}"));
                }
            });
            found.clone()?;
            if let Some(op) = self.ops.get(done) {
                replay.step(op);
            }
        }
        Ok(count)
    }
}
