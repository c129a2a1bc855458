//! No row of Esker's costs more than it did: figures are counted, not timed, and the same on any machine.

use std::collections::BTreeMap;

use esker_meter::{Guest, build, instrument, run};

use crate::target;

/// Esker, as the guest knows it.
const ESKER: u32 = 1;
/// A row may grow by this part before it is said to have grown.
const SLACK: f64 = 1.02;
/// Half of the last digit that is written down, in millions.
const ROUNDED: f64 = 0.0005;

/// What is written down: bench, row, millions of instructions.
fn written() -> BTreeMap<(u32, String), f64> {
    let lines = include_str!("../../figures.txt").lines().filter(|line| !line.starts_with('#'));
    let cells = lines.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let row = |cells: Vec<&str>| match cells[..] {
        [bench, row, figure] => ((bench.parse().unwrap(), row.to_owned()), figure.parse().unwrap()),
        _ => panic!("not a row: {cells:?}"),
    };
    cells.map(row).collect()
}

#[test]
fn no_row_has_grown() {
    if !target::has_wasm() {
        return;
    }
    let module = instrument(&build(Guest::Ours).unwrap(), false).unwrap();
    let written = written();
    assert!(written.len() > 15, "the figures are gone");
    let benches: std::collections::BTreeSet<u32> = written.keys().map(|key| key.0).collect();
    let (mut grown, mut seen) = (Vec::new(), 0);
    for bench in benches {
        for row in run(&module, ESKER, bench).unwrap() {
            let millions = row.instructions as f64 / 1e6;
            println!("{bench} | {} | {millions:.3}", row.name);
            match written.get(&(bench, row.name.clone())) {
                Some(known) if millions <= (known + ROUNDED) * SLACK => seen += 1,
                known => grown.push(format!("{}: {millions:.3} M, was {known:?}", row.name)),
            }
        }
    }
    assert!(grown.is_empty(), "{grown:#?}");
    assert_eq!(seen, written.len(), "rows are gone");
}
