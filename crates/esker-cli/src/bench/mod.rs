//! `esker bench`: named workloads on any set of targets, interleaved round by round.
//!
//! Above: `verbs::bench`. Below: [`target`] brings a file system up, [`workloads`] use it through system calls
//! only, [`stats`] sums up, [`report`] and [`page`] show.
//! Invariant: within a round every target runs the same workload, one after the other, and the first
//! target is the one that all are compared with; the order turns with each round.

pub mod page;
pub mod place;
pub mod report;
pub mod stats;
pub mod target;
pub mod workloads;

use std::path::PathBuf;

use crate::failure::Outcome;
use stats::Table;
use target::{Spec, Target};
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
    /// Where to put mount points and images; removed afterwards.
    pub scratch: PathBuf,
}

/// Runs a plan; `tell` hears what is going on.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&str)) -> Outcome<Table> {
    let place = place::Place::make(&plan.scratch)?;
    let mut targets = Vec::new();
    let mut table = Table::default();
    for (number, spec) in plan.targets.iter().enumerate() {
        tell(&format!("starting {spec}"));
        targets.push(Target::start(spec, &place.path().join(format!("target-{number}")))?);
    }
    for workload in &plan.workloads {
        for round in 0..plan.rounds {
            for turn in 0..targets.len() {
                let target = &mut targets[(turn + round as usize) % plan.targets.len()];
                if !workload.suits(target) {
                    continue;
                }
                tell(&format!(
                    "round {} of {}: {workload} on {}",
                    round + 1,
                    plan.rounds,
                    target.name()
                ));
                let mut run = Run::new(target, &plan.settings);
                workload.run(&mut run)?;
                for sample in run.into_samples() {
                    table.add(workload.name(), target.name(), sample);
                }
            }
        }
    }
    for target in targets {
        target.stop()?;
    }
    Ok(table)
}
