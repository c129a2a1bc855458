//! No row of Esker's costs more than it did: figures are counted, not timed, and the same on any machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;

use esker_meter::{Guest, Row, build, instrument, run};

use crate::target;

/// A row may grow by this part before it is said to have grown.
const SLACK: f64 = 1.02;
/// Half of the last digit that is written down, in millions.
const ROUNDED: f64 = 0.0005;

/// A row, by its subject, bench and name.
type Key = (u32, u32, String);

/// What is written down, in millions of instructions.
fn written() -> BTreeMap<Key, f64> {
    let lines = include_str!("../../figures.txt").lines().filter(|line| !line.starts_with('#'));
    let cells = lines.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let row = |cells: Vec<&str>| match cells[..] {
        [subject, bench, row, figure] => {
            let key = (subject.parse().unwrap(), bench.parse().unwrap(), row.to_owned());
            (key, figure.parse().unwrap())
        }
        _ => panic!("not a row: {cells:?}"),
    };
    cells.map(row).collect()
}

/// Runs benches, as many at a time as there are processors.
fn run_all(module: &[u8], benches: BTreeSet<(u32, u32)>) -> Vec<(u32, u32, Vec<Row>)> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (left, done) = (Mutex::new(benches), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap().pop_first();
    let work = || {
        while let Some((subject, bench)) = next() {
            let rows = run(module, subject, bench).unwrap();
            done.lock().unwrap().push((subject, bench, rows));
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    done.into_inner().unwrap()
}

#[test]
fn no_row_has_grown() {
    if !target::has_wasm() {
        return;
    }
    let module = instrument(&build(Guest::Ours).unwrap(), false).unwrap();
    let written = written();
    assert!(written.len() > 15, "the figures are gone");
    let benches: BTreeSet<(u32, u32)> = written.keys().map(|key| (key.0, key.1)).collect();
    let (mut grown, mut seen) = (Vec::new(), 0);
    for (subject, bench, rows) in run_all(&module, benches) {
        for row in rows {
            let millions = row.instructions as f64 / 1e6;
            println!("{subject} | {bench} | {} | {millions:.3}", row.name);
            match written.get(&(subject, bench, row.name.clone())) {
                Some(known) if millions <= (known + ROUNDED) * SLACK => seen += 1,
                known => grown.push(format!("{}: {millions:.3} M, was {known:?}", row.name)),
            }
        }
    }
    assert!(grown.is_empty(), "{grown:#?}");
    assert_eq!(seen, written.len(), "rows are gone");
}
