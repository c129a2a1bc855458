//! `esker bench`: named workloads on any set of targets, interleaved round by round.
//!
//! Above: `verbs::bench`. Below: [`spec`] names a file system, [`target`] brings it up, [`workloads`] use it
//! through [`files`], [`stats`] sums up, [`report`], [`page`] and [`section`] show.
//! Invariant: within a round every target runs the same workload, one after the other, and the first
//! target is the one that all are compared with; the order turns with each round. A target that fails
//! is told and left out; the others go on.

pub mod conditions;
pub mod files;
pub mod flash;
pub mod packing;
pub mod page;
pub mod picture;
pub mod place;
pub mod report;
pub mod section;
pub mod spec;
pub mod stats;
pub mod stop;
pub mod storing;
pub mod target;
pub mod workloads;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::failure::{Exit, Failure, Outcome, said};
use report::Report;
use spec::Spec;
use stats::Table;
use target::Target;
use workloads::{Run, Settings, Workload};

/// What to run, on what, how often.
pub struct Plan {
    /// In the order to run them.
    pub workloads: Vec<Workload>,
    /// The first is the one to compare with.
    pub targets: Vec<Spec>,
    /// How often each.
    pub rounds: u32,
    /// Sizes and counts.
    pub settings: Settings,
    /// Where to put mount points; removed afterwards.
    pub scratch: PathBuf,
    /// Rounds, placement and the like: name and value.
    pub conditions: Vec<(String, String)>,
}

/// What became of a plan.
pub struct Done {
    /// All that there is to tell.
    pub report: Report,
    /// Nothing failed, and nothing that was asked for was left out.
    pub is_complete: bool,
}

/// Hears what is going on.
pub trait Tell: Send {
    /// So many steps of so many are done; what comes now.
    fn step(&mut self, done: usize, all: usize, what: &str);
    /// Something was left out or failed.
    fn note(&mut self, note: &str);
}

/// Runs a plan.
pub fn run(plan: &Plan, tell: &mut dyn Tell) -> Outcome<Done> {
    stop::listen().map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot take signals: {}", said(&error)), "")
    })?;
    let mut conditions = conditions::of_machine();
    conditions.extend(plan.conditions.iter().cloned());
    let place = place::Place::make(&plan.scratch)?;
    let mut stage = Stage {
        plan,
        tell,
        targets: Vec::new(),
        unfit: BTreeSet::new(),
        table: Table::default(),
        notes: Vec::new(),
        misfits: Vec::new(),
        is_complete: true,
    };
    if fs::File::options().write(true).open("/proc/sys/vm/drop_caches").is_err() {
        stage.tell_of("only root can have caches dropped: cold rows and uncached reads left out");
    }
    for (number, spec) in plan.targets.iter().enumerate() {
        stage.tell.step(0, 1, &format!("starting {spec}"));
        stage.bring_up(spec, &place.path().join(format!("target-{number}")))?;
    }
    let up = || stage.targets.iter().flatten();
    let terms = |target: &Target| Some((target.name().to_owned(), target.terms()?));
    conditions.extend(up().filter_map(terms));
    let names = up().map(|target| target.name().to_owned()).collect();
    stage.play()?;
    stage.take_down();
    let Stage { mut table, mut notes, misfits, is_complete, .. } = stage;
    if table.rows.is_empty() {
        let why = if notes.is_empty() { misfits.join("; ") } else { "see above".to_owned() };
        return Err(Failure::new(Exit::Failed, "nothing was measured", &why));
    }
    notes.extend(misfits);
    table.rows.extend(table.growth().rows);
    Ok(Done { report: Report { table, targets: names, conditions, notes }, is_complete })
}

/// The targets, and what has come of them so far.
struct Stage<'a> {
    plan: &'a Plan,
    tell: &'a mut dyn Tell,
    /// Those that have failed for good are gone.
    targets: Vec<Option<Target>>,
    /// Workloads and the targets that cannot run them.
    unfit: BTreeSet<(&'static str, String)>,
    table: Table,
    /// What was left out or failed, told when it happened.
    notes: Vec<String>,
    /// What makes no sense and was not tried.
    misfits: Vec<String>,
    is_complete: bool,
}

impl Stage<'_> {
    fn tell_of(&mut self, note: impl Into<String>) {
        let note = note.into();
        self.tell.note(&note);
        self.notes.push(note);
    }

    /// Starts a target, or what can be run instead of it, or goes on without it.
    fn bring_up(&mut self, spec: &Spec, path: &std::path::Path) -> Outcome {
        let name = self.unused(spec);
        let failure = match Target::start(spec, &name, path) {
            Ok(target) => {
                self.targets.push(Some(target));
                return Ok(());
            }
            Err(failure) => failure,
        };
        stopped()?;
        self.is_complete = false;
        let instead = spec.instead();
        let what = match &instead {
            Some(other) if self.plan.targets.contains(other) => format!("{other} runs anyway"),
            Some(other) => format!("run instead: {other}"),
            None => "the others run without it".to_owned(),
        };
        self.tell_of(format!("{name} left out ({}); {what}", failure.text));
        match instead {
            Some(other) if !self.plan.targets.contains(&other) => self.bring_up(&other, path),
            _ => Ok(()),
        }
    }

    /// The same target twice shows how much is noise; each needs a name of its own.
    fn unused(&self, spec: &Spec) -> String {
        let taken = |name: &str| self.targets.iter().flatten().any(|target| target.name() == name);
        let mut names = (2..).map(|number| format!("{spec} #{number}"));
        let first = Some(spec.to_string()).filter(|name| !taken(name));
        first.or_else(|| names.find(|name| !taken(name))).unwrap_or_default()
    }

    fn play(&mut self) -> Outcome {
        let (count, rounds) = (self.targets.len(), self.plan.rounds as usize);
        let all = self.plan.workloads.len() * rounds * count;
        let mut step = 0;
        for &workload in &self.plan.workloads {
            self.find_misfits(workload);
            for round in 0..rounds {
                for turn in 0..count {
                    let index = (turn + round) % count;
                    if let Some(target) = &self.targets[index] {
                        let name = target.name();
                        let what = format!("{workload} on {name}, round {} of {rounds}", round + 1);
                        self.tell.step(step, all, &what);
                    }
                    self.step(workload, index)?;
                    step += 1;
                }
            }
        }
        Ok(())
    }

    fn find_misfits(&mut self, workload: Workload) {
        let misfit = |target: &Target| Some((target.name().to_owned(), workload.misfit(target)?));
        let misfits: Vec<_> = self.targets.iter().flatten().filter_map(misfit).collect();
        for (name, why) in misfits {
            self.misfits.push(format!("{workload} is not for {name}: {why}"));
            self.unfit.insert((workload.name(), name));
        }
    }

    /// One workload on one target. What fails is left out from then on, with all its rows.
    fn step(&mut self, workload: Workload, index: usize) -> Outcome {
        let Some(target) = &self.targets[index] else { return Ok(()) };
        let name = target.name().to_owned();
        if self.unfit.contains(&(workload.name(), name.clone())) {
            return Ok(());
        }
        let mut run = Run::new(target, &self.plan.settings);
        let Err(error) = workload.run(&mut run) else {
            for sample in run.into_samples() {
                self.table.add(workload.name(), &name, sample);
            }
            return Ok(());
        };
        stopped()?;
        let remedy = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                "; give fewer --files or --bytes, or the target more room"
            }
            _ => "",
        };
        let words =
            target.last_words().map_or(String::new(), |words| format!("; it said: {words}"));
        let is_clean = target.is_clean(workload.name());
        self.is_complete = false;
        self.unfit.insert((workload.name(), name.clone()));
        self.table.forget(workload.name(), &name);
        let why = said(&error);
        self.tell_of(format!(
            "{workload} failed on {name} ({why}{words}{remedy}) and is left out there"
        ));
        if !is_clean {
            self.tell_of(format!("{name} cannot be used any more and is left out from now on"));
            self.end(index);
        }
        Ok(())
    }

    fn end(&mut self, index: usize) {
        if let Some(Err(failure)) = self.targets[index].take().map(Target::stop) {
            self.is_complete = false;
            self.tell_of(failure.text);
        }
    }

    fn take_down(&mut self) {
        (0..self.targets.len()).for_each(|index| self.end(index));
    }
}

/// Ends everything where somebody has asked for it.
fn stopped() -> Outcome {
    if stop::asked() {
        return Err(Failure::new(Exit::Failed, "stopped by a signal: nothing was left behind", ""));
    }
    Ok(())
}
