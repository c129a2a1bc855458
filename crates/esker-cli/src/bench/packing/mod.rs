//! `esker bench pack`: trees packed by Esker and its peers in one run, and read again.
//!
//! Above: `verbs::bench_pack`. Below: [`subject`] names what packs, [`making`] has it pack and tells the cost,
//! [`reading`] mounts and reads, [`table`] and [`curve`] show.
//! Invariant: what was made is read by everybody in the same order; each round of reading goes through all of them
//! before the next begins; what cannot be run is told and left out.

pub mod curve;
mod making;
mod reading;
mod subject;
pub mod table;
mod tree;

use std::path::{Path, PathBuf};

pub use making::Making;
pub use reading::Reading;
pub use subject::Subject;

use super::{Tell, conditions, place, stop};
use crate::failure::{Exit, Failure, Outcome, said, shown};
use tree::Tree;

/// The usual cache of a mount of ours, in bytes.
const CACHE: u64 = 512 << 20;
/// One that is too small for the tree.
const CACHE_SMALL: u64 = 64 << 20;

/// What to pack, with what.
pub struct Plan {
    /// Trees, each measured on its own.
    pub trees: Vec<PathBuf>,
    /// In the order to run them.
    pub subjects: Vec<Subject>,
    /// What was measured elsewhere and is to be shown beside.
    pub given: Vec<Given>,
    /// Random reads of each.
    pub reads: usize,
    /// How often everything is read; 0: nothing is.
    pub rounds: usize,
    /// Where mount points and images are made.
    pub scratch: PathBuf,
    /// Where images are kept, and used if they are there; `None`: they go.
    pub images: Option<PathBuf>,
    /// Told with the figures: name and value.
    pub conditions: Vec<(String, String)>,
}

/// Somebody else's figures of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// The last part of the tree's path.
    pub tree: String,
    /// What packed.
    pub name: String,
    /// Stored bytes.
    pub stored: u64,
    /// CPU seconds; times those of a subject here, if there is one.
    pub cpu: f64,
    /// Whose CPU seconds are the measure, so that figures of another machine can stand beside.
    pub of: Option<Subject>,
}

/// One that packed a tree.
pub struct Row {
    pub subject: Subject,
    pub making: Making,
    /// As often as it was read.
    pub readings: Vec<Reading>,
}

/// A tree and all who packed it.
pub struct Packed {
    pub name: String,
    pub files: u64,
    /// Bytes of its files.
    pub bytes: u64,
    pub rows: Vec<Row>,
    pub given: Vec<Given>,
}

/// All there is to tell about a run.
pub struct Report {
    pub conditions: Vec<(String, String)>,
    pub notes: Vec<String>,
    pub trees: Vec<Packed>,
    pub is_complete: bool,
}

/// Runs a plan.
///
/// # Errors
/// What keeps all of it from being run; that one subject fails is told and noted.
pub fn run(plan: &Plan, tell: &mut dyn Tell) -> Outcome<Report> {
    stop::listen().map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot take signals: {}", said(&error)), "")
    })?;
    let mut conditions = conditions::of_machine();
    conditions.extend(plan.conditions.iter().cloned());
    let walked = walked(&plan.trees)?;
    let is_measured = |given: &&Given| walked.iter().any(|tree| tree.name == given.tree);
    if let Some(given) = plan.given.iter().find(|given| !is_measured(given)) {
        let tree = shown(given.tree.as_bytes());
        let what = format!("--given has figures of a tree that is not measured: {tree}");
        let names: Vec<_> = walked.iter().map(|tree| shown(tree.name.as_bytes())).collect();
        let remedy = format!("measured are {}", names.join(", "));
        return Err(Failure::new(Exit::Usage, what, &remedy));
    }
    let place = place::Place::make(&plan.scratch)?;
    let mut stage = Stage { plan, tell, place: place.path(), step: 0, notes: Vec::new() };
    let trees = walked.into_iter().map(|tree| stage.tree(tree)).collect::<Outcome<_>>()?;
    let notes = stage.notes;
    Ok(Report { conditions, is_complete: notes.is_empty(), notes, trees })
}

/// All trees, before any is packed: their names tell their images apart.
fn walked(paths: &[PathBuf]) -> Outcome<Vec<Tree>> {
    let mut trees: Vec<Tree> = Vec::new();
    for path in paths {
        let tree = Tree::walk(path)?;
        if trees.iter().any(|other| other.name == tree.name) {
            let what = "two trees have the same name";
            return Err(Failure::at(Exit::Usage, what, path, "give one another name"));
        }
        trees.push(tree);
    }
    Ok(trees)
}

/// A run on its way.
struct Stage<'a> {
    plan: &'a Plan,
    tell: &'a mut dyn Tell,
    place: &'a Path,
    step: usize,
    notes: Vec<String>,
}

impl Stage<'_> {
    fn note(&mut self, note: String) {
        self.tell.note(&note);
        self.notes.push(note);
    }

    fn step(&mut self, what: &str) {
        let each = self.plan.subjects.len() * (1 + self.plan.rounds);
        self.tell.step(self.step, self.plan.trees.len() * each, what);
        self.step += 1;
    }

    fn tree(&mut self, tree: Tree) -> Outcome<Packed> {
        let mut made = Vec::new();
        for subject in &self.plan.subjects {
            self.step(&format!("{subject} packs {}", tree.name));
            let file = self.file(&tree, subject);
            match making::make(subject, &tree, &file, self.plan.images.is_some()) {
                Ok(making) => made
                    .push((Row { subject: subject.clone(), making, readings: Vec::new() }, file)),
                Err(failure) => self.left_out(subject, &tree, &failure)?,
            }
        }
        for round in 1..=self.plan.rounds {
            for (row, file) in &mut made {
                let subject = &row.subject;
                self.step(&format!("{subject} is read, round {round} of {}", self.plan.rounds));
                match reading::read(subject, file, &tree, self.plan.reads, self.place) {
                    Ok(reading) => row.readings.extend(reading),
                    Err(failure) => self.left_out(subject, &tree, &failure)?,
                }
            }
        }
        if self.plan.images.is_none() {
            // The directory goes too, and says so if it cannot.
            made.iter().for_each(|(_, file)| drop(std::fs::remove_file(file)));
        }
        let rows: Vec<Row> = made.into_iter().map(|(row, _)| row).collect();
        let (files, bytes) = (tree.files.len() as u64, tree.bytes);
        Ok(Packed { files, bytes, given: self.given(&tree, &rows), rows, name: tree.name })
    }

    /// What was given of a tree, in CPU seconds of this machine.
    fn given(&mut self, tree: &Tree, rows: &[Row]) -> Vec<Given> {
        let mut known = Vec::new();
        for given in self.plan.given.iter().filter(|given| given.tree == tree.name) {
            let measure = given.of.as_ref().map(|of| rows.iter().find(|row| row.subject == *of));
            match measure {
                None => known.push(given.clone()),
                Some(Some(row)) => {
                    known.push(Given { cpu: given.cpu * row.making.cpu, ..given.clone() });
                }
                Some(None) => {
                    let name = &given.name;
                    self.note(format!(
                        "{name} left out (what its CPU seconds are measured in did not run)"
                    ));
                }
            }
        }
        known
    }

    /// Where a subject puts what it makes of a tree.
    fn file(&self, tree: &Tree, subject: &Subject) -> PathBuf {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
        let name: String = subject.to_string().chars().map(plain).collect();
        self.plan.images.as_deref().unwrap_or(self.place).join(format!("{}.{name}", tree.name))
    }

    fn left_out(&mut self, subject: &Subject, tree: &Tree, failure: &Failure) -> Outcome {
        if stop::asked() {
            return Err(Failure::new(Exit::Failed, "stopped by a signal", ""));
        }
        self.note(format!("{subject} of {} left out ({})", tree.name, failure.text));
        Ok(())
    }
}
