//! What emptying segments costs, and nothing else: blocks that are written over at random, in segments that are emptied
//! by one rule or another, without rows, tables and superblocks. It tells how many blocks are written for each of the
//! user's, so what a rule can reach and what of a volume's figures is its own doing (`esker bench flash steady`).
//!
//!     cargo run -p esker-proof --example cleaning

use esker_proof::chance::Chance;

/// As a volume of 1 GiB has them, but for the length of blocks.
const SEGMENTS: usize = 512;
const BLOCKS: usize = 62;
/// So often everything is written over; the last time is told.
const PASSES: usize = 8;
/// No block is here.
const NOTHING: u32 = u32::MAX;
/// Of each log of the user's: itself, what was moved once, and what was more often.
const GENERATIONS: usize = 3;
/// One part of so many of the blocks is what most writes go to, where they do not go to all alike.
const HOT: usize = 5;
/// How many live, in hundredths of all there is room for. What is 80 and 90 % of what files can have in a volume is 79
/// and 88 of what its segments take of blocks.
const LIVE: [usize; 4] = [79, 80, 88, 90];
/// How many segments stay free: as few as the logs need, and as many as do in a volume.
const KEPT: [usize; 2] = [LOGS, 14];
/// Logs that are written side by side, at most.
const LOGS: usize = 2 * GENERATIONS;

/// Which segment is emptied next, and what is kept apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The oldest one; what lives in it goes to the end of the one log.
    Age,
    /// The one with the fewest blocks that live.
    Emptiest,
    /// What a volume does: dead blocks times age, for what it takes; what was moved once or more often apart.
    Here,
    /// The same, but apart is what was not written over for a pass when it is moved.
    Since,
    /// As a volume does, and what was not written over for a pass has a log of its own.
    Second,
    /// As a volume does, but somebody knows of what is moved whether it will be written over often.
    MovedOracle,
    /// With two logs, and somebody knows that of all beforehand.
    Oracle,
}

const RULES: [(Rule, &str); 7] = [
    (Rule::Age, "in order of age"),
    (Rule::Emptiest, "the emptiest"),
    (Rule::Here, "as here"),
    (Rule::Since, "apart by when it was written"),
    (Rule::Second, "as here, two logs"),
    (Rule::MovedOracle, "told what is hot, moved"),
    (Rule::Oracle, "told what is hot, two logs"),
];

#[derive(Clone)]
struct Segment {
    blocks: Vec<u32>,
    live: usize,
    /// How many were begun before it.
    number: u64,
    /// Which log it is of.
    log: usize,
}

struct Flash {
    rule: Rule,
    segments: Vec<Segment>,
    /// Where each block lies, and when the user wrote it last.
    places: Vec<(u32, u32, u64)>,
    free: Vec<usize>,
    /// Segments that stay free.
    kept: usize,
    open: [Option<usize>; LOGS],
    begun: u64,
    /// The user's blocks, and those that were moved.
    user: u64,
    moved: u64,
}

impl Flash {
    /// Blocks that live, of which some stay free.
    fn new(rule: Rule, live: usize, kept: usize) -> Self {
        let segment = Segment { blocks: Vec::new(), live: 0, number: 0, log: 0 };
        let mut flash = Self {
            rule,
            segments: vec![segment; SEGMENTS],
            places: vec![(NOTHING, 0, 0); live],
            free: (0..SEGMENTS).collect(),
            kept,
            open: [None; LOGS],
            begun: 0,
            user: 0,
            moved: 0,
        };
        (0..live as u32).for_each(|block| flash.write(block, false));
        flash
    }

    /// The log that takes what the user writes.
    fn log_of(&self, block: u32, is_hot: bool) -> usize {
        let since = self.user - self.places[block as usize].2;
        match self.rule {
            Rule::Second => usize::from(since > self.places.len() as u64) * GENERATIONS,
            Rule::Oracle => usize::from(!is_hot) * GENERATIONS,
            _ => 0,
        }
    }

    /// The log that takes what is moved from a segment of this one.
    fn log_of_moved(&self, block: u32, from: usize) -> usize {
        let (since, all) = (self.user - self.places[block as usize].2, self.places.len());
        match self.rule {
            Rule::Age | Rule::Emptiest => 0,
            Rule::Since => 1 + usize::from(since >= all as u64),
            Rule::MovedOracle => 1 + usize::from(block as usize >= all / HOT),
            _ => from / GENERATIONS * GENERATIONS + (from % GENERATIONS + 1).min(GENERATIONS - 1),
        }
    }

    fn write(&mut self, block: u32, is_hot: bool) {
        while self.free.len() <= self.kept {
            self.empty_one();
        }
        let log = self.log_of(block, is_hot);
        self.places[block as usize].2 = self.user;
        self.user += 1;
        self.put(block, log);
    }

    fn put(&mut self, block: u32, log: usize) {
        let (segment, slot, _) = self.places[block as usize];
        if segment != NOTHING {
            let old = &mut self.segments[segment as usize];
            old.blocks[slot as usize] = NOTHING;
            old.live -= 1;
        }
        let at = match self.open[log] {
            Some(at) if self.segments[at].blocks.len() < BLOCKS => at,
            _ => {
                let at = self.free.pop().expect("some are kept");
                self.begun += 1;
                self.segments[at] =
                    Segment { blocks: Vec::new(), live: 0, number: self.begun, log };
                self.open[log] = Some(at);
                at
            }
        };
        let own = &mut self.segments[at];
        let place = &mut self.places[block as usize];
        (place.0, place.1) = (at as u32, own.blocks.len() as u32);
        own.blocks.push(block);
        own.live += 1;
    }

    fn worth(&self, own: &Segment) -> u64 {
        let (dead, age) = ((BLOCKS - own.live) as u64, self.begun + 1 - own.number);
        match self.rule {
            Rule::Age => age,
            Rule::Emptiest => dead,
            _ => dead * age * (1 << 16) / (BLOCKS + own.live) as u64,
        }
    }

    fn empty_one(&mut self) {
        // What is free has no blocks.
        let is_full = |at: &usize| self.segments[*at].blocks.len() == BLOCKS;
        let least = |at: &usize| self.rule == Rule::Age || self.segments[*at].live < BLOCKS;
        let victim = (0..SEGMENTS).filter(is_full).filter(least);
        let at = victim.max_by_key(|&at| self.worth(&self.segments[at])).expect("some are full");
        let from = self.segments[at].log;
        let live: Vec<_> =
            self.segments[at].blocks.iter().copied().filter(|&own| own != NOTHING).collect();
        self.moved += live.len() as u64;
        live.into_iter().for_each(|block| self.put(block, self.log_of_moved(block, from)));
        self.segments[at].blocks.clear();
        // Nothing goes to it as long as it is free.
        self.open.iter_mut().filter(|open| **open == Some(at)).for_each(|open| *open = None);
        self.free.push(at);
    }
}

/// Blocks written for each of the user's in the last pass. `skewed`: four fifths of the writes go to a fifth.
fn cost(rule: Rule, percent: usize, kept: usize, skewed: bool) -> f64 {
    let live = SEGMENTS * BLOCKS * percent / 100;
    let (mut flash, mut chance) = (Flash::new(rule, live, kept), Chance::new(7));
    for pass in 0..PASSES {
        if pass + 1 == PASSES {
            flash.moved = 0;
        }
        for _ in 0..live {
            let is_hot = skewed && chance.below(HOT as u64) > 0;
            let hot = (live / HOT) as u64;
            let block = match (skewed, is_hot) {
                (false, _) => chance.below(live as u64),
                (true, true) => chance.below(hot),
                (true, false) => hot + chance.below(live as u64 - hot),
            };
            flash.write(block as u32, is_hot);
        }
    }
    1.0 + flash.moved as f64 / live as f64
}

fn main() {
    println!("{SEGMENTS} segments of {BLOCKS} blocks, written over {PASSES} times;");
    println!("blocks written for each of the user's in the last time");
    for skewed in [false, true] {
        let spread = if skewed { "four fifths of the writes to a fifth" } else { "uniform" };
        for kept in KEPT {
            println!("\n{spread}; {kept} segments stay free");
            print!("{:30}", "live, %");
            LIVE.iter().for_each(|percent| print!("{percent:>7}"));
            println!();
            for (rule, name) in RULES {
                print!("{name:30}");
                LIVE.iter()
                    .for_each(|&percent| print!("{:7.2}", cost(rule, percent, kept, skewed)));
                println!();
            }
        }
    }
}
