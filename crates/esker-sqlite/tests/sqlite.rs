//! SQLite over the embedded home, through WASI and without: transactions at random, broken off in every way that there
//! is. No committed row is lost, no other is there, and SQLite finds nothing wrong with its database.

use std::collections::BTreeMap;

use esker_proof::canister::{Canister, Cut, example, has_wasi_c, linked};
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
    /// It ends within a write to the memory, half of which is there.
    Torn,
}

/// What SQLite stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    Wasi,
    /// The files themselves, in a memory that rolls back by itself.
    Straight,
    /// The files themselves, in a memory that nobody rolls back, with a log of what to undo.
    StraightUndo,
    /// WASI over such a memory.
    WasiUndo,
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
        let mut cut = match end {
            End::Cut => Some(Cut::Calls(self.chance.below(120))),
            End::Torn => Some(Cut::Writes(self.chance.below(300))),
            _ => None,
        };
        let trapped = steps.len() / 2;
        self.call("begin", &[]);
        for (index, (name, params)) in steps.iter().enumerate() {
            let params = if *name == "put" { &params[..] } else { &params[..2] };
            if end == End::Trap && index == trapped {
                let wrong = self.canister.call("begin", &[]);
                assert!(wrong.is_err(), "a transaction in a transaction");
                self.restart();
                return vec![self.rows.clone()];
            }
            let Some(cut) = &mut cut else {
                self.call(name, params);
                continue;
            };
            let params: Vec<Val> = params.iter().map(|param| Val::I32(*param)).collect();
            if self.canister.call_cut(name, &params, cut).is_err() {
                self.cuts += 1;
                self.restart();
                return vec![self.rows.clone()];
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
            End::Commit | End::Cut | End::Torn => {}
        }
        let Some(cut) = &mut cut else {
            self.call("commit", &[]);
            return vec![rows];
        };
        if self.canister.call_cut("commit", &[], cut).is_ok() {
            return vec![rows];
        }
        self.cuts += 1;
        self.restart();
        // Nobody was told that it is committed: it may be.
        vec![self.rows.clone(), rows]
    }

    fn settle(&mut self, expected: Vec<Rows>, what: &str) {
        let found = self.call("sum", &[]) as u64;
        let rows = expected.into_iter().find(|rows| sum(rows) == found);
        self.rows = rows.unwrap_or_else(|| panic!("{what}: other rows"));
        assert_eq!(self.call("is_sound", &[]), 1, "{what}: not sound");
    }
}

fn torture_of(module: &[u8], below: Below, journal: i32) -> Torture {
    let start = [Val::I32(below as i32), Val::I32(journal)];
    let chance = Chance(0x9e37_79b9_7f4a_7c15 ^ u64::from(journal as u32 + 1));
    let canister = Canister::new(module);
    let mut torture = Torture { canister, start, chance, rows: Rows::new(), cuts: 0 };
    torture.restart();
    torture
}

fn torture(module: &[u8], below: Below, journal: i32, ends: &[End]) -> u32 {
    let mut torture = torture_of(module, below, journal);
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
        let cuts = torture(&module, Below::Wasi, journal, &all);
        assert!(cuts >= 3, "journal {journal}: {cuts} cuts");
    }
    // Linked, as it is installed.
    let module = linked(&module);
    let lasting = &all[..5];
    torture(&module, Below::Wasi, WAL, lasting);
    for journal in LASTING {
        torture(&module, Below::Straight, journal, lasting);
    }
    // Without a lasting journal a transaction that was begun has to come to its end.
    for below in [Below::Wasi, Below::Straight] {
        torture(&module, below, FLEETING[0], &all[..3]);
        torture(&module, below, FLEETING[1], &all[..2]);
    }
}

#[test]
fn no_committed_row_is_lost_where_a_write_to_the_memory_is_torn() {
    if !has_wasi_c() {
        return;
    }
    let module = linked(&example("esker-sqlite", "torture"));
    for journal in LASTING {
        let ends = [End::Commit, End::Rollback, End::Torn, End::Torn, End::Torn];
        for below in [Below::StraightUndo, Below::WasiUndo] {
            let cuts = torture(&module, below, journal, &ends);
            assert!(cuts >= 10, "journal {journal}: {cuts} cuts");
        }
        at_every_write(&module, journal);
    }
}

/// One transaction, torn at each of its writes in turn: it was not, or it was, if its last call was under way.
fn at_every_write(module: &[u8], journal: i32) {
    let mut torture = torture_of(module, Below::StraightUndo, journal);
    torture.call("put", &[0, 10, 100, 1]);
    torture.rows.extend((0..10).map(|id| (id, (100, 1))));
    let (before, kept) = (torture.canister.system.clone(), torture.rows.clone());
    let mut changed = kept.clone();
    changed.extend((5..15).map(|id| (id, (1400, 2))));
    let put = [5, 10, 1400, 2].map(Val::I32);
    let steps: [(&str, &[Val]); 3] = [("begin", &[]), ("put", &put), ("commit", &[])];
    for writes in 0.. {
        torture.canister.upgrade();
        (torture.canister.system, torture.rows) = (before.clone(), kept.clone());
        torture.restart();
        let mut cut = Cut::Writes(writes);
        let ended = steps
            .iter()
            .position(|(name, params)| torture.canister.call_cut(name, params, &mut cut).is_err());
        let may_be = match ended {
            None => vec![changed.clone()],
            Some(2) => vec![kept.clone(), changed.clone()],
            Some(_) => vec![kept.clone()],
        };
        torture.restart();
        torture.settle(may_be, &format!("journal {journal}, torn at write {writes}"));
        if ended.is_none() {
            assert!(writes > 25, "only {writes} writes");
            return;
        }
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
