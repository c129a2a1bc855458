//! `esker bench flash`: what a volume does to flash in the long run, simulated over a device in memory.
//!
//! Above: `verbs::bench_flash`. Below: [`steady`], [`wear`], [`inflation`] are what is measured, [`subject`] is the
//! volume and [`device`] counts; [`table`] shows. Invariant: no clock and no other program has anything to do with a
//! figure.

mod device;
pub mod inflation;
pub mod steady;
mod subject;
pub mod table;
pub mod wear;

use super::Tell;
use crate::failure::{Failure, Outcome};

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Overwriting what is nearly full.
    Steady,
    /// Erases.
    Wear,
    /// Bytes of files in an erase block.
    Inflation,
}

/// What to do.
pub struct Plan {
    pub what: Vec<What>,
    /// Overwriting, in the order to do it.
    pub steady: Vec<steady::Plan>,
    /// Wear, in the order to look at it.
    pub wear: Vec<wear::Plan>,
}

/// All there is to tell.
#[derive(Default)]
pub struct Report {
    pub conditions: Vec<(String, String)>,
    pub steady: Vec<steady::Row>,
    pub wear: Vec<wear::Row>,
    pub inflation: Vec<(inflation::Cell, f64)>,
}

impl Report {
    /// Whether nothing was measured.
    pub const fn is_empty(&self) -> bool {
        self.steady.is_empty() && self.wear.is_empty() && self.inflation.is_empty()
    }
}

/// Runs a plan. What was measured before something failed is in the report.
///
/// # Errors
/// What the volume says, or that it is not sound in the end.
pub fn run(plan: &Plan, report: &mut Report, tell: &mut dyn Tell) -> Outcome {
    report.conditions = super::conditions::of_machine();
    for what in &plan.what {
        match what {
            What::Steady => {
                for own in &plan.steady {
                    let row = own.run(tell).map_err(|failure| {
                        Failure::new(failure.exit, format!("{own}: {}", failure.text), "")
                    });
                    report.steady.push(row?);
                }
            }
            What::Wear => {
                for own in &plan.wear {
                    report.wear.push(own.run(tell)?);
                }
            }
            What::Inflation => {
                let cells = inflation::cells();
                for (at, cell) in cells.iter().enumerate() {
                    report.inflation.push((*cell, cell.run(tell, (at, cells.len()))?));
                }
            }
        }
    }
    Ok(())
}
