//! SQLite over the embedded home, through WASI and without: transactions at random, broken off in every way that there
//! is. No committed row is lost, no other is there, and SQLite finds nothing wrong with its database.

use std::collections::BTreeMap;

use esker_proof::canister::{Canister, example, has_wasi_c, linked};
use wasmi::Val;

/// Of SQLite's journals, those that outlive whoever writes them, and those that lie on the heap or are none.
const LASTING: [i32; 4] = [0, 1, 2, 3];
const FLEETING: [i32; 2] = [4, 5];
const WAL: i32 = 3;
/// With each journal, unless `ESKER_CASES` says otherwise.
const TRANSACTIONS: u32 = 50;

struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn number(&mut self, end: u64) -> i32 {
        self.below(end) as i32
    }
}

/// Rows: how long each is, and what of.
type Rows = BTreeMap<i32, (i32, i32)>;

/// As the program adds them up.
fn sum(rows: &Rows) -> u64 {
    let words = rows.iter().flat_map(|(id, (len, fill))| {
        let first = if *len == 0 { 0 } else { *fill };
        [*id, *len, first]
    });
    words.fold(0, |sum, word| (sum ^ word as u64).wrapping_mul(0x0100_0000_01b3))
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Commit,
    Rollback,
    /// The heap is lost in the middle of it.
    Upgrade,
    /// A call fails, and the system keeps nothing of that call; the heap is lost.
    Trap,
    /// It ends between two calls of WASI: what was written until then stays.
    Cut,
}

struct Torture {
    canister: Canister,
    start: [Val; 2],
    chance: Chance,
    rows: Rows,
    cuts: u32,
}

impl Torture {
    fn call(&mut self, name: &str, params: &[i32]) -> i64 {
        let params: Vec<Val> = params.iter().map(|param| Val::I32(*param)).collect();
        self.canister.call(name, &params).unwrap_or_else(|why| panic!("{name}: {why}"))
    }

    fn restart(&mut self) {
        self.canister.upgrade();
        self.canister.call("start", &self.start.clone()).unwrap();
    }

    /// One step of a transaction: its name, its arguments, and what it does to the rows.
    fn step(&mut self, rows: &mut Rows) -> (&'static str, [i32; 4]) {
        let (id, count) = (self.chance.number(300), self.chance.number(20));
        if self.chance.below(3) == 0 {
            (id..id + count).for_each(|id| _ = rows.remove(&id));
            return ("take_away", [id, count, 0, 0]);
        }
        let (len, fill) = (self.chance.number(1500), self.chance.number(256));
        rows.extend((id..id + count).map(|id| (id, (len, fill))));
        ("put", [id, count, len, fill])
    }

    /// A transaction; what may be there afterwards.
    fn transact(&mut self, end: End) -> Vec<Rows> {
        let mut rows = self.rows.clone();
        let steps: Vec<_> = (0..=self.chance.below(5)).map(|_| self.step(&mut rows)).collect();
        let cut = (end == End::Cut).then(|| self.chance.below(120));
        let trapped = steps.len() / 2;
        self.call("begin", &[]);
        let mut left = cut;
        for (index, (name, params)) in steps.iter().enumerate() {
            let params = if *name == "put" { &params[..] } else { &params[..2] };
            if end == End::Trap && index == trapped {
                let wrong = self.canister.call("begin", &[]);
                assert!(wrong.is_err(), "a transaction in a transaction");
                self.restart();
                return vec![self.rows.clone()];
            }
            match &mut left {
                None => drop(self.call(name, params)),
                Some(calls) => {
                    let params: Vec<Val> = params.iter().map(|param| Val::I32(*param)).collect();
                    let part = *calls / 2;
                    if self.canister.call_cut(name, &params, part).is_err() {
                        self.cuts += 1;
                        self.restart();
                        return vec![self.rows.clone()];
                    }
                    *calls -= part.min(*calls);
                }
            }
        }
        match end {
            End::Rollback => {
                self.call("rollback", &[]);
                return vec![self.rows.clone()];
            }
            End::Upgrade | End::Trap => {
                self.restart();
                return vec![self.rows.clone()];
            }
            End::Cut if self.canister.call_cut("commit", &[], left.unwrap_or(0)).is_err() => {
                self.cuts += 1;
                self.restart();
                // Nobody was told that it is committed: it may be.
                return vec![self.rows.clone(), rows];
            }
            End::Cut => {}
            End::Commit => drop(self.call("commit", &[])),
        }
        vec![rows]
    }

    fn settle(&mut self, expected: Vec<Rows>, what: &str) {
        let found = self.call("sum", &[]) as u64;
        let rows = expected.into_iter().find(|rows| sum(rows) == found);
        self.rows = rows.unwrap_or_else(|| panic!("{what}: other rows"));
        assert_eq!(self.call("is_sound", &[]), 1, "{what}: not sound");
    }
}

fn torture(module: &[u8], straight: bool, journal: i32, ends: &[End]) -> u32 {
    let start = [Val::I32(straight.into()), Val::I32(journal)];
    let chance = Chance(0x9e37_79b9_7f4a_7c15 ^ u64::from(journal as u32 + 1));
    let canister = Canister::new(module);
    let mut torture = Torture { canister, start, chance, rows: Rows::new(), cuts: 0 };
    torture.restart();
    let cases = std::env::var("ESKER_CASES").ok().and_then(|cases| cases.parse().ok());
    for number in 0..cases.unwrap_or(TRANSACTIONS) {
        let end = ends[torture.chance.below(ends.len() as u64) as usize];
        let expected = torture.transact(end);
        torture.settle(expected, &format!("journal {journal}, transaction {number}, {end:?}"));
    }
    assert!(torture.rows.len() > 50, "{} rows", torture.rows.len());
    torture.cuts
}

#[test]
fn no_committed_row_is_lost_however_a_transaction_ends() {
    if !has_wasi_c() {
        return;
    }
    let module = example("esker-sqlite", "torture");
    // Not linked, so that it can be cut off at any call of WASI.
    let all =
        [End::Commit, End::Commit, End::Rollback, End::Upgrade, End::Trap, End::Cut, End::Cut];
    for journal in LASTING {
        let cuts = torture(&module, false, journal, &all);
        assert!(cuts >= 3, "journal {journal}: {cuts} cuts");
    }
    // Linked, as it is installed.
    let module = linked(&module);
    let lasting = &all[..5];
    torture(&module, false, WAL, lasting);
    for journal in LASTING {
        torture(&module, true, journal, lasting);
    }
    // Without a lasting journal a transaction that was begun has to come to its end.
    torture(&module, false, FLEETING[0], &all[..3]);
    torture(&module, true, FLEETING[0], &all[..3]);
    for straight in [false, true] {
        torture(&module, straight, FLEETING[1], &all[..2]);
    }
}

#[test]
fn an_order_outlives_upgrades_and_half_a_transaction_does_not() {
    if !has_wasi_c() {
        return;
    }
    let mut canister = Canister::new(&linked(&example("esker-sqlite", "sqlite")));
    canister.call("canister_init", &[]).unwrap();
    for number in 1..=5 {
        canister.call("canister_update order", &[]).unwrap();
        assert_eq!(canister.said(), format!("{number} orders\n"));
        canister.call("canister_update half", &[]).unwrap();
        canister.upgrade();
        canister.call("canister_post_upgrade", &[]).unwrap();
    }
}
