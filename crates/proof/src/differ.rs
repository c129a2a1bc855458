//! Runs one script in two worlds and says where they part.
//!
//! Above: [`crate::harness`]. Below: [`crate::world`]. Invariant: two worlds agree only if every step answered the
//! same and both trees are the same in the end; what may differ is written in docs/DIFFERENCES.md.

use std::fmt::Debug;

use esker::{Flags, Kind, Time};

use crate::script::{Op, Script, Step};
use crate::world::{Answer, Outcome, Seen, Stat, World};

/// A step that was taken in both worlds.
pub struct Taken<'a> {
    /// Which.
    pub step: &'a Step,
    /// What came of it in the one.
    pub mine: &'a Outcome,
    /// What came of it in the other.
    pub yours: &'a Outcome,
    /// Something was made immutable or append-only before.
    pub fixed: bool,
}

impl Taken<'_> {
    fn fixes(&self) -> bool {
        const FIXED: u32 = Flags::IMMUTABLE.0 | Flags::APPEND.0;
        matches!(self.step.op, Op::Chattr { flags, .. } if flags & FIXED != 0) && self.mine.is_ok()
    }
}

/// How closely two worlds are compared.
#[derive(Clone, Copy, Debug)]
pub struct Closely {
    /// Listings come in the same order.
    pub order: bool,
    /// A time that was not set must have come from the same step; otherwise only from this run.
    pub steps: bool,
    /// Reads move atime at the same moments.
    pub atime: bool,
    /// A set-group-id bit on a file whose group may not execute it counts; it marked mandatory locks once.
    pub lock_bit: bool,
    /// Steps that end a script, because the worlds may part there: the reason, or nothing.
    pub allowed: fn(&Taken<'_>) -> Option<&'static str>,
}

impl Closely {
    /// Two homes under the same POSIX: nothing may differ.
    pub const EXACT: Self =
        Self { order: true, steps: true, atime: true, lock_bit: true, allowed: |_| None };
}

/// A time as another world can understand it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamp {
    Set(Time),
    Step(usize),
    Run,
}

struct Side {
    name: String,
    /// What its clock said before the first step, and before each.
    marks: Vec<Time>,
}

impl Side {
    /// Times within a day of the run were given by its clock, all others were set.
    fn stamp(&self, time: Time, closely: Closely) -> Stamp {
        const DAY_SECS: i64 = 24 * 3600;
        let begun = self.marks.first().map_or(0, |mark| mark.secs);
        if time.secs < begun - DAY_SECS || time.secs > begun + DAY_SECS {
            return Stamp::Set(time);
        }
        let step = self.marks.iter().rposition(|mark| *mark <= time).unwrap_or(0);
        if closely.steps { Stamp::Step(step) } else { Stamp::Run }
    }
}

/// Where two worlds part, in words; `Ok` when they do not.
///
/// # Errors
/// The first difference, with the step that showed it.
pub fn compare(
    script: &Script,
    a: &mut dyn World,
    b: &mut dyn World,
    closely: Closely,
) -> Result<(), String> {
    let side =
        |world: &mut dyn World| Side { name: world.name().to_owned(), marks: vec![world.now()] };
    let (mut mine, mut yours) = (side(a), side(b));
    let mut fixed = false;
    for (index, step) in script.0.iter().enumerate() {
        mine.marks.push(a.now());
        yours.marks.push(b.now());
        let outcomes = (a.run(step), b.run(step));
        let taken = Taken { step, mine: &outcomes.0, yours: &outcomes.1, fixed };
        if (closely.allowed)(&taken).is_some() {
            return Ok(());
        }
        fixed |= taken.fixes();
        if let Err(why) = same_outcome((&mine, &outcomes.0), (&yours, &outcomes.1), closely) {
            return Err(format!("step {}, {step}\n{why}", index + 1));
        }
    }
    let trees = (a.tree(), b.tree());
    let told = |side: &Side, why| format!("{} is not in order: {why}", side.name);
    let trees =
        (trees.0.map_err(|why| told(&mine, why))?, trees.1.map_err(|why| told(&yours, why))?);
    same_trees(&trees.0, &trees.1, &mine, &yours, closely)
}

fn same_outcome(
    (a, mine): (&Side, &Outcome),
    (b, yours): (&Side, &Outcome),
    closely: Closely,
) -> Result<(), String> {
    for (side, outcome) in [(a, mine), (b, yours)] {
        if let Ok(Answer::Broken(why)) = outcome {
            return Err(format!("  {}: {why}", side.name));
        }
    }
    let same = match (mine, yours) {
        (Ok(Answer::Stat(mine)), Ok(Answer::Stat(yours))) => {
            return same_stat(mine, yours, a, b, closely);
        }
        (Ok(Answer::Names(mine)), Ok(Answer::Names(yours))) => {
            ordered(mine, closely) == ordered(yours, closely)
        }
        _ => mine == yours,
    };
    if same { Ok(()) } else { Err(parted(a, mine, b, yours)) }
}

fn parted(a: &Side, mine: &dyn Debug, b: &Side, yours: &dyn Debug) -> String {
    format!("  {}: {mine:?}\n  {}: {yours:?}", a.name, b.name)
}

fn ordered(names: &[(Vec<u8>, Kind)], closely: Closely) -> Vec<(Vec<u8>, Kind)> {
    let mut names = names.to_vec();
    if !closely.order {
        names.sort();
    }
    names
}

fn same_stat(
    mine: &Stat,
    yours: &Stat,
    a: &Side,
    b: &Side,
    closely: Closely,
) -> Result<(), String> {
    let zero = Time::default();
    let perm = |stat: &Stat| match stat.kind {
        Kind::File if !closely.lock_bit && stat.perm & 0o2010 == 0o2000 => stat.perm & !0o2000,
        _ => stat.perm,
    };
    let timeless =
        |stat: &Stat| Stat { atime: zero, mtime: zero, ctime: zero, perm: perm(stat), ..*stat };
    if timeless(mine) != timeless(yours) {
        return Err(parted(a, mine, b, yours));
    }
    let stamps = |side: &Side, stat: &Stat| {
        [stat.atime, stat.mtime, stat.ctime].map(|time| side.stamp(time, closely))
    };
    let (mine, yours) = (stamps(a, mine), stamps(b, yours));
    let set = |stamp: Stamp| matches!(stamp, Stamp::Set(_));
    let atime_counts = closely.atime || (set(mine[0]) && set(yours[0]));
    if mine[1..] != yours[1..] || (atime_counts && mine[0] != yours[0]) {
        return Err(format!("  atime, mtime, ctime\n{}", parted(a, &mine, b, &yours)));
    }
    Ok(())
}

fn same_trees(
    mine: &[Seen],
    yours: &[Seen],
    a: &Side,
    b: &Side,
    closely: Closely,
) -> Result<(), String> {
    let by_path = |tree: &[Seen]| {
        let mut tree = tree.to_vec();
        tree.sort_by(|one, other| one.path.cmp(&other.path));
        tree
    };
    let (mine, yours) = (by_path(mine), by_path(yours));
    let paths = |tree: &[Seen]| -> Vec<_> {
        tree.iter().map(|seen| seen.path.escape_ascii().to_string()).collect()
    };
    let (my_paths, your_paths) = (paths(&mine), paths(&yours));
    if my_paths != your_paths {
        return Err(format!("in the end\n{}", parted(a, &my_paths, b, &your_paths)));
    }
    let groups = (same_groups(&mine), same_groups(&yours));
    for (index, (mine, yours)) in mine.iter().zip(&yours).enumerate() {
        let at = |why: String| format!("in the end, at {:?}\n{why}", my_paths[index]);
        same_stat(&mine.stat, &yours.stat, a, b, closely).map_err(at)?;
        let groups = (&groups.0[index], &groups.1[index]);
        let names = (ordered(&mine.names, closely), ordered(&yours.names, closely));
        let pairs: [(&dyn Debug, &dyn Debug, bool); 5] = [
            (groups.0, groups.1, groups.0 == groups.1),
            (&mine.target, &yours.target, mine.target == yours.target),
            (&mine.pages, &yours.pages, mine.pages == yours.pages),
            (&mine.xattrs, &yours.xattrs, mine.xattrs == yours.xattrs),
            (&names.0, &names.1, names.0 == names.1),
        ];
        if let Some((mine, yours, _)) = pairs.iter().find(|pair| !pair.2) {
            return Err(at(parted(a, mine, b, yours)));
        }
    }
    Ok(())
}

/// For each path the smallest path that leads to the same inode.
fn same_groups(tree: &[Seen]) -> Vec<Vec<u8>> {
    let first = |seen: &Seen| {
        let same = tree.iter().filter(|other| other.same_as == seen.same_as);
        same.map(|other| other.path.clone()).min().unwrap_or_default()
    };
    tree.iter().map(first).collect()
}
