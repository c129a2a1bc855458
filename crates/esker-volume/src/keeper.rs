//! What rules want done now: which snapshot is to be made, which is to go.
//!
//! Above: who has a volume mounted, and asks now and then. Below: `rules`. The clock of the day may be wrong and jump,
//! the other one only goes on. So a rule makes one at most for each half of its period that passed, and nothing expires
//! before both have agreed for an hour; what goes for its number goes in the order in which it was made.
//! Invariant: what no rule has made never goes.

use std::collections::BTreeMap;

use esker_stone::rows::snapshots::SnapshotRow;

use crate::rules::{Occasion, Rule, Rules, date};

/// Seconds for which two clocks must have agreed.
const TRUST: u64 = 3600;
/// Seconds by which clocks may differ that agree.
const SLACK: i64 = 60;
/// Seconds until what could not be done is tried again.
pub const AGAIN: u64 = 300;

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    /// Seconds since 1970, as the clock of the day says.
    pub wall: i64,
    /// Seconds that passed since some moment.
    pub passed: u64,
}

/// What there is.
pub struct Present<'a> {
    /// The rules.
    pub rules: &'a Rules,
    /// All snapshots, the oldest first, with what has made them; `None`: somebody by hand.
    pub snapshots: &'a [(SnapshotRow, Option<Occasion>)],
    /// Rises with each commit.
    pub commits: u64,
    /// Whether somebody asked for a sync since one was made for that.
    pub synced: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Make a snapshot of this name.
    Make(Occasion, String),
    /// Take this one away, and no other of its name.
    Delete(SnapshotRow),
}

/// Remembers what was done while a volume is mounted.
#[derive(Debug, Default)]
pub struct Keeper {
    /// How far the clock of the day is ahead of the other one, and since when.
    ahead: Option<(i64, u64)>,
    /// When it was looked for the first time.
    begun: Option<u64>,
    /// When each rule was obeyed, and the commits until then.
    made: BTreeMap<Occasion, (u64, u64)>,
    /// Nothing is tried before.
    pause: u64,
}

impl Keeper {
    /// Looks at the clocks, and says what is to be done first.
    pub fn due(&mut self, now: Ticks, present: &Present<'_>) -> Option<Due> {
        self.begun.get_or_insert(now.passed);
        let sure = self.look(now);
        if now.passed < self.pause {
            return None;
        }
        let too_many = || excess(present).or_else(|| expired(present, sure?));
        if let Some(row) = too_many() {
            return Some(Due::Delete(row.clone()));
        }
        let wanted = present.rules.iter().find(|rule| self.wants(rule, now, present))?;
        Some(Due::Make(wanted.occasion, name(wanted.occasion, now.wall, present)))
    }

    /// A snapshot was made for this.
    pub fn made(&mut self, occasion: Occasion, now: Ticks, commits: u64) {
        self.made.insert(occasion, (now.passed, commits));
    }

    /// Something could not be done: nothing is tried for a while.
    pub const fn failed(&mut self, now: Ticks) {
        self.pause = now.passed.saturating_add(AGAIN);
    }

    /// The second that it surely is, if the clocks agree long enough.
    fn look(&mut self, now: Ticks) -> Option<i64> {
        let ahead = now.wall.saturating_sub_unsigned(now.passed);
        let (known, since) = *self.ahead.get_or_insert((ahead, now.passed));
        if known.abs_diff(ahead) > SLACK.unsigned_abs() {
            self.ahead = Some((ahead, now.passed));
            return None;
        }
        (now.passed.saturating_sub(since) >= TRUST)
            .then(|| now.wall.min(known.saturating_add_unsigned(now.passed)))
    }

    fn wants(&self, rule: &Rule, now: Ticks, present: &Present<'_>) -> bool {
        let own = rule.occasion;
        if let Some((passed, commits)) = self.made.get(&own) {
            let soon = now.passed.saturating_sub(*passed) < own.period().div_ceil(2);
            if soon || *commits == present.commits {
                return false;
            }
        }
        if own == Occasion::Sync {
            return present.synced;
        }
        let newest = present.snapshots.iter().rev().find(|(_, made)| *made == Some(own));
        let Some((newest, _)) = newest else { return true };
        // A clock that is behind is wrong now, or was then: each mount may begin so, and most are put right soon.
        let here = now.passed.saturating_sub(self.begun.unwrap_or(now.passed));
        let believed = now.wall >= newest.time || here >= own.period().div_ceil(2);
        believed && own.slot(newest.time) != own.slot(now.wall)
    }
}

/// The oldest one of a rule that has too many, or of all when these are too many.
fn excess<'a>(present: &Present<'a>) -> Option<&'a SnapshotRow> {
    let of = |own: Option<Occasion>| {
        present
            .snapshots
            .iter()
            .filter(move |(_, made)| made.is_some() && (own.is_none() || *made == own))
    };
    for rule in present.rules.iter() {
        let own = Some(rule.occasion);
        if of(own).count() > rule.keep as usize {
            return of(own).next().map(|(row, _)| row);
        }
    }
    let largest = present.rules.largest();
    let many = largest > 0 && of(None).count() as u64 > largest;
    if many { of(None).next().map(|(row, _)| row) } else { None }
}

/// One whose time is over. One that says that it is older than one before it is not believed; the newest of each rule
/// stays.
fn expired<'a>(present: &Present<'a>, now: i64) -> Option<&'a SnapshotRow> {
    let mut newest = i64::MIN;
    for (row, made) in present.snapshots {
        newest = newest.max(row.time);
        let rule = present.rules.iter().find(|rule| Some(rule.occasion) == *made);
        let over =
            |rule: &Rule| rule.expiry > 0 && newest.saturating_add_unsigned(rule.expiry) <= now;
        let is_newest = || {
            let last = present.snapshots.iter().rev().find(|(_, own)| own == made);
            last.is_some_and(|(last, _)| last.sequence == row.sequence)
        };
        if rule.is_some_and(over) && !is_newest() {
            return Some(row);
        }
    }
    None
}

/// A name that no snapshot has.
fn name(occasion: Occasion, wall: i64, present: &Present<'_>) -> String {
    let ((year, month, day), secs) = (date(wall), wall.rem_euclid(86_400));
    let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
    let word = occasion.word();
    let plain = format!("{word}-{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    let mut name = plain.clone();
    let mut number = 1;
    while present.snapshots.iter().any(|(row, _)| row.name == name.as_bytes()) {
        number += 1;
        name = format!("{plain}.{number}");
    }
    name
}

#[cfg(test)]
mod tests {
    use esker_stone::rows::extents::BlockName;

    use super::*;

    /// A volume that does what is due, in which something changes all the time.
    struct Toy {
        keeper: Keeper,
        rules: Rules,
        all: Vec<(SnapshotRow, Option<Occasion>)>,
        commits: u64,
        made: u64,
        gone: Vec<Vec<u8>>,
    }

    impl Toy {
        fn new(rules: &[&str]) -> Self {
            let mut own = Self {
                keeper: Keeper::default(),
                rules: Rules::default(),
                all: Vec::new(),
                commits: 0,
                made: 0,
                gone: Vec::new(),
            };
            for rule in rules {
                own.rules.add(rule.parse().expect("a rule")).expect("no other one");
            }
            own
        }

        fn by_hand(&mut self, name: &str, time: i64) {
            self.push(name, time, None);
        }

        fn push(&mut self, name: &str, time: i64, made: Option<Occasion>) {
            self.commits += 1;
            let blocks = BlockName { segment: 1, slot: 0 };
            let (sequence, name) = (self.commits, name.as_bytes().to_vec());
            let row =
                SnapshotRow { sequence, time, next_ino: 2, inodes: 1, next_place: 1, blocks, name };
            self.all.push((row, made));
        }

        fn tick(&mut self, now: Ticks) {
            self.commits += 1;
            loop {
                let present = Present {
                    rules: &self.rules,
                    snapshots: &self.all,
                    commits: self.commits,
                    synced: false,
                };
                match self.keeper.due(now, &present) {
                    None => return,
                    Some(Due::Make(occasion, name)) => {
                        self.push(&name, now.wall, Some(occasion));
                        self.keeper.made(occasion, now, self.commits);
                        self.made += 1;
                    }
                    Some(Due::Delete(gone)) => {
                        self.all.retain(|(row, _)| *row != gone);
                        self.gone.push(gone.name);
                    }
                }
            }
        }
    }

    const BEGIN: i64 = 1_795_392_000;

    /// Weeks with a clock that is right: as many as rules say, and what was made by hand.
    #[test]
    fn rules_keep_what_they_say() {
        let mut toy = Toy::new(&["every hour keep 24", "every day keep 7", "every week keep 4"]);
        toy.by_hand("mine", BEGIN);
        for minute in 0..60 * 24 * 40 {
            toy.tick(Ticks { wall: BEGIN + minute * 60, passed: minute as u64 * 60 });
        }
        let count = |own| toy.all.iter().filter(|(_, made)| *made == own).count();
        let [hour, day, week] = [Occasion::Hour, Occasion::Day, Occasion::Week].map(Some);
        assert_eq!([count(None), count(hour), count(day), count(week)], [1, 24, 7, 4]);
        assert_eq!(toy.made, 40 * 24 + 40 + 6);
        let newest = toy.all.iter().rev().find(|(_, made)| *made == hour).expect("one");
        assert_eq!(newest.0.name, b"hourly-2027-01-01T23:00:00Z");
    }

    /// What expires goes when it is time, and not before.
    #[test]
    fn snapshots_expire() {
        let mut toy = Toy::new(&["every day keep 100 for 3d"]);
        for hour in 0..24 * 10 {
            toy.tick(Ticks { wall: BEGIN + hour * 3600, passed: hour as u64 * 3600 });
            let oldest = toy.all.first().map_or(i64::MAX, |(row, _)| row.time);
            assert!(oldest > BEGIN + hour * 3600 - 3 * 86_400 - 3600);
        }
        assert_eq!((toy.all.len(), toy.gone.len()), (3, 7));
    }

    /// A clock that jumps: ahead by years, back, to and fro with each look. Nothing goes that was kept for a month, and
    /// rules make no more than one for each half of their periods.
    #[test]
    fn a_clock_that_lies_makes_no_harm() {
        let lies: [fn(i64) -> i64; 5] = [
            |minute| if minute % 2 == 0 { 0 } else { 20 * 365 * 86_400 },
            |minute| if minute > 300 && minute < 340 { 10 * 365 * 86_400 } else { 0 },
            |minute| if minute < 45 { -BEGIN } else { 0 },
            |minute| -(minute * minute * 60),
            |minute| (minute * 7919 % 1000 - 500) * 86_400,
        ];
        for (number, lie) in lies.iter().enumerate() {
            let mut toy = Toy::new(&["every hour keep 500 for 30d", "every day keep 60 for 60d"]);
            toy.by_hand("mine", BEGIN);
            for minute in 0..60 * 24 * 3 {
                let wall = BEGIN + minute * 60 + lie(minute);
                toy.tick(Ticks { wall, passed: minute as u64 * 60 });
            }
            assert!(toy.made <= 3 * 24 * 2 + 3 * 2 + 2, "lie {number}: {} were made", toy.made);
            assert!(toy.made >= 3, "lie {number}: {} were made", toy.made);
            assert!(toy.gone.is_empty(), "lie {number}: {:?} are gone", toy.gone);
        }
    }

    /// A machine whose clock begins in 1970, or years ahead, until it is put right a minute later, each day.
    #[test]
    fn a_clock_that_is_wrong_at_each_begin_makes_no_harm() {
        for lie in [-BEGIN, 50 * 365 * 86_400] {
            let mut toy = Toy::new(&["every day keep 90", "every month keep 12"]);
            let mut months = 0;
            for day in 0..400 {
                toy.keeper = Keeper::default();
                for minute in 0..60 {
                    let right = BEGIN + day * 86_400 + minute * 60;
                    let wall = if minute == 0 { right + lie } else { right };
                    toy.tick(Ticks { wall, passed: minute as u64 * 60 });
                }
                let of_month = |(_, own): &&(SnapshotRow, _)| *own == Some(Occasion::Month);
                months = toy.all.iter().filter(of_month).count();
            }
            assert!(months <= 12, "{months} of months");
            assert!(toy.gone.len() <= 400 - 90 + 4, "{lie}: {} are gone", toy.gone.len());
            assert!(toy.made <= 400 + 16, "{lie}: {} were made", toy.made);
        }
    }

    /// What cannot be done is tried again later, and what does not change needs no other one.
    #[test]
    fn failing_is_no_reason_to_try_all_the_time() {
        let mut keeper = Keeper::default();
        let mut rules = Rules::default();
        rules.add("every hour keep 2".parse().expect("a rule")).expect("no other one");
        rules.add("on sync keep 2".parse().expect("a rule")).expect("no other one");
        let present = |commits, synced| Present { rules: &rules, snapshots: &[], commits, synced };
        let at = |passed: u64| Ticks { wall: BEGIN + passed.cast_signed(), passed };
        let due = keeper.due(at(0), &present(1, false));
        assert_eq!(due, Some(Due::Make(Occasion::Hour, "hourly-2026-11-23T00:00:00Z".into())));
        keeper.failed(at(0));
        assert_eq!(keeper.due(at(AGAIN - 1), &present(1, false)), None);
        assert!(keeper.due(at(AGAIN), &present(1, false)).is_some());
        keeper.made(Occasion::Hour, at(AGAIN), 1);
        assert_eq!(keeper.due(at(9000), &present(1, false)), None);
        assert!(keeper.due(at(9000), &present(2, false)).is_some());
        let due = keeper.due(at(9000), &present(1, true));
        assert_eq!(due, Some(Due::Make(Occasion::Sync, "sync-2026-11-23T02:30:00Z".into())));
    }
}
