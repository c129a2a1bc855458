//! A home over what an earlier part of the script left: the first steps are the model's, then it becomes the lower of
//! an overlay, as it is or as an image, and a memory home takes the rest.
//!
//! Above: `tests/exams/overlay.rs`. Below: [`super::inside`], `esker::overlay`. Invariant: at the turn everything that
//! is open is closed, in this world and in the one beside it ([`Resting`]).

use std::collections::BTreeMap;

use esker::ground::Heap;
use esker::limits::FILE_SIZE_MAX;
use esker::memory::{Home, Options};
use esker::overlay::{Leaving, Overlay, Walk};
use esker::store::{Flow, View};
use esker::{Cursor, Error, Ino, Kind, Time};

use super::inside::{Checked, Inside, root_attr};
use super::{Outcome, Seen, World};
use crate::model::Model;
use crate::script::Step;

/// A memory home over something.
pub type Over<L> = Overlay<Home<Heap>, L>;

impl<L: View> Checked for Over<L> {
    fn findings(&self) -> Vec<String> {
        let mut findings = survey(self);
        match self.upper().orphans() {
            Ok(orphans) if orphans.is_empty() => {}
            other => findings.push(format!("orphans: {other:?}")),
        }
        findings
    }
}

/// Everything that a view contradicts itself in: link counts, parents, kinds, sizes of directories, listings, and how
/// many inodes it says there are.
pub fn survey<V: View>(view: &V) -> Vec<String> {
    let mut findings = Vec::new();
    let mut names: BTreeMap<Ino, u32> = BTreeMap::from([(Ino::ROOT, 2)]);
    let mut todo = vec![Ino::ROOT];
    while let Some(dir) = todo.pop() {
        let entries = listed(view, dir, &mut findings);
        let size = view.attr(dir).map(|attr| attr.size);
        if size != Ok(entries.len() as u64) {
            findings.push(format!("{dir:?} has {} names, and says {size:?}", entries.len()));
        }
        for (ino, kind) in entries {
            *names.entry(ino).or_default() += 1;
            let Ok(attr) = view.attr(ino) else {
                findings.push(format!("a name in {dir:?} leads to {ino:?}, which is not there"));
                continue;
            };
            if attr.kind != kind {
                findings.push(format!("{ino:?} is {:?}, and {kind:?} in {dir:?}", attr.kind));
            }
            if kind == Kind::Directory {
                if attr.parent != dir {
                    findings.push(format!("{ino:?} in {dir:?} has {:?} above", attr.parent));
                }
                *names.entry(dir).or_default() += 1;
                *names.entry(ino).or_default() += 1;
                todo.push(ino);
            }
        }
    }
    for (ino, names) in &names {
        let nlink = view.attr(*ino).map_or(0, |attr| attr.nlink);
        if nlink != *names {
            findings.push(format!("{ino:?} has nlink {nlink}, not {names}"));
        }
    }
    let inodes = view.space().inodes;
    if inodes != names.len() as u64 {
        findings.push(format!("{inodes} inodes, and {} are found", names.len()));
    }
    findings
}

/// A directory's entries, looked at in every way in which they can be asked for.
fn listed<V: View>(view: &V, dir: Ino, findings: &mut Vec<String>) -> Vec<(Ino, Kind)> {
    let mut entries = Vec::new();
    let mut last = Cursor::DOT_DOT;
    let mut each = |listed: esker::store::Listed<'_>| {
        let entry = listed.entry;
        let by_name = view.entry(dir, listed.name);
        if by_name != Ok(entry) || entry.seq <= last {
            findings.push(format!("{entry:?} behind {last:?} in {dir:?}, by its name {by_name:?}"));
        }
        last = entry.seq;
        entries.push((entry.ino, entry.kind));
        Flow::Continue(())
    };
    let whole = view.entries(dir, Cursor::DOT_DOT, false, &mut each);
    // Again with attributes, and from each place on.
    let (mut again, mut at) = (Vec::new(), Cursor::DOT_DOT);
    loop {
        let mut next = None;
        let step = view.entries(dir, at, true, &mut |listed| {
            if listed.attr.map(Ok) != Some(view.attr(listed.entry.ino)) {
                again.push((Ino(0), Kind::Fifo));
            }
            next = Some(listed.entry);
            Flow::Break(())
        });
        let Some(entry) = next else {
            if (whole, step) != (Ok(()), Ok(())) || again != entries {
                findings.push(format!("{dir:?} is listed as {entries:?}, and as {again:?}"));
            }
            return entries;
        };
        again.push((entry.ino, entry.kind));
        at = entry.seq;
    }
}

enum Phase<L> {
    Before(Box<Inside<Model>>),
    After(Box<Inside<Over<L>>>),
    /// It could not be turned: why.
    Lost(String),
}

/// What the model becomes, and the largest inode number in it.
type Settle<L> = fn(&Model) -> Result<(L, Ino), String>;

/// A world whose home becomes the lower of an overlay after some steps.
pub struct Layered<L> {
    phase: Phase<L>,
    steps: usize,
    turn: usize,
    settle: Settle<L>,
}

impl<L: View> Layered<L> {
    /// Turns before the step of this number.
    pub fn new(turn: usize, settle: Settle<L>) -> Self {
        let model = Box::new(Inside::new("layered", Model::new(root_attr())));
        Self { phase: Phase::Before(model), steps: 0, turn, settle }
    }

    /// The overlay, once it is there.
    pub fn over(&self) -> Option<&Inside<Over<L>>> {
        match &self.phase {
            Phase::After(inside) => Some(inside),
            _ => None,
        }
    }

    fn layer(&self, inside: &mut Inside<Model>) -> Result<Over<L>, String> {
        // Lets go of what is held, so that nothing without a name is left.
        inside.tree()?;
        let (lower, last) = (self.settle)(inside.fs().store())?;
        // Another root than there is below: all of that must come up.
        let root = esker::Attr { perm: 0o123, uid: 5, ..root_attr() };
        let options = Options { size_max: 256 << 20, file_size_max: FILE_SIZE_MAX, root };
        let upper = Home::new(Heap::new(), &options).map_err(|error| error.to_string())?;
        Overlay::new(upper, lower, last).map_err(|error| error.to_string())
    }

    fn turn(&mut self) {
        let lost = Phase::Lost("turning".to_owned());
        if let Phase::Before(mut inside) = std::mem::replace(&mut self.phase, lost) {
            self.phase = match self.layer(&mut inside) {
                Ok(home) => Phase::After(Box::new(inside.moved("layered", home))),
                Err(why) => Phase::Lost(why),
            };
        }
    }
}

impl<L: View> World for Layered<L> {
    fn name(&self) -> &str {
        "layered"
    }

    fn now(&mut self) -> Time {
        match &mut self.phase {
            Phase::Before(inside) => inside.now(),
            Phase::After(inside) => inside.now(),
            Phase::Lost(_) => Time::default(),
        }
    }

    fn run(&mut self, step: &Step) -> Outcome {
        if self.steps == self.turn {
            self.turn();
        }
        self.steps += 1;
        match &mut self.phase {
            Phase::Before(inside) => inside.run(step),
            Phase::After(inside) => inside.run(step),
            Phase::Lost(why) => Ok(super::Answer::Broken(why.clone())),
        }
    }

    fn tree(&mut self) -> Result<Vec<Seen>, String> {
        if matches!(self.phase, Phase::Before(_)) {
            self.turn();
        }
        match &mut self.phase {
            Phase::Before(inside) => inside.tree(),
            Phase::After(inside) => inside.tree(),
            Phase::Lost(why) => Err(why.clone()),
        }
    }
}

/// A world over a model that is moved up, a little at a time, and left in the end.
pub struct Filled {
    world: Layered<Leaving<Model>>,
    walk: Walk,
    each: usize,
}

impl Filled {
    /// Turns before the step of this number, and moves so many pieces behind each step.
    pub fn new(turn: usize, each: usize) -> Self {
        let settle: Settle<_> = |model| Ok((Leaving::new(model.copy()), model.last_ino()));
        Self { world: Layered::new(turn, settle), walk: Walk::new(), each }
    }

    /// Moves something; whether there was anything left.
    fn fill(&mut self) -> Result<bool, Error> {
        let Some(inside) = self.world.over() else { return Ok(false) };
        let overlay = inside.fs().store();
        let Some(ino) = self.walk.next(overlay)?.or_else(|| overlay.next_unfilled(None)) else {
            return Ok(false);
        };
        let mut buffer = [0; 5000];
        inside.fs().alone(ino, |overlay| overlay.fill(ino, &mut buffer)).map(|_| true)
    }
}

impl World for Filled {
    fn name(&self) -> &str {
        "filled"
    }

    fn now(&mut self) -> Time {
        self.world.now()
    }

    fn run(&mut self, step: &Step) -> Outcome {
        let outcome = self.world.run(step);
        for _ in 0..self.each {
            if let Err(error) = self.fill() {
                return Ok(super::Answer::Broken(error.to_string()));
            }
        }
        outcome
    }

    fn tree(&mut self) -> Result<Vec<Seen>, String> {
        self.world.tree()?;
        while self.fill().map_err(|error| error.to_string())? {}
        let over = self.world.over().ok_or("it never turned")?;
        over.fs().store().lower().leave();
        self.world.tree()
    }
}

/// A world that closes everything before the step of some number.
pub struct Resting<W> {
    world: W,
    steps: usize,
    rest: usize,
}

impl<W: World> Resting<W> {
    /// Rests before the step of this number.
    pub fn new(world: W, rest: usize) -> Self {
        Self { world, steps: 0, rest }
    }
}

impl<W: World> World for Resting<W> {
    fn name(&self) -> &str {
        self.world.name()
    }

    fn now(&mut self) -> Time {
        self.world.now()
    }

    fn run(&mut self, step: &Step) -> Outcome {
        if self.steps == self.rest
            && let Err(why) = self.world.tree()
        {
            return Ok(super::Answer::Broken(why));
        }
        self.steps += 1;
        self.world.run(step)
    }

    fn tree(&mut self) -> Result<Vec<Seen>, String> {
        self.world.tree()
    }
}
