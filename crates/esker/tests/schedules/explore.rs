//! Running a race under many schedules.

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, Runner, thread};

/// How many schedules of each kind a race gets, if nobody says otherwise.
const SCHEDULES: u64 = 300;
/// Changes of priority in a schedule of PCT: an error that needs no more of them is found with a
/// probability that is known.
const DEPTH: usize = 3;
/// A home is built on the stack.
const STACK_LEN: usize = 8 << 20;

fn number(name: &str, usual: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return usual };
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{name}={text} is not a number"))
}

/// The race under as many schedules as are asked for.
pub fn explore(race: fn()) {
    if let Ok(schedule) = std::env::var("ESKER_SCHEDULE") {
        return run(ReplayScheduler::new_from_encoded(&schedule), race);
    }
    let count = number("ESKER_SCHEDULES", SCHEDULES) as usize;
    let seed = number("ESKER_SEED", 0xe5ce_5eed);
    run(RandomScheduler::new_from_seed(seed, count), race);
    run(PctScheduler::new_from_seed(seed, DEPTH, count), race);
}

fn run(scheduler: impl Scheduler + 'static, race: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK_LEN;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(race);
}

/// Two threads, and what they bring home.
pub fn both<A: Send, B: Send>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = scope.spawn(other);
        (one.join().expect("one"), other.join().expect("the other"))
    })
}

/// Three of them.
pub fn all<A: Send, B: Send, C: Send>(
    one: impl FnOnce() -> A + Send,
    two: impl FnOnce() -> B + Send,
    three: impl FnOnce() -> C + Send,
) -> (A, B, C) {
    let (one, (two, three)) = both(one, || both(two, three));
    (one, two, three)
}
