//! Power is cut at every operation of the device under all workloads of one operation and of two, with each step made
//! safe or not. `ESKER_CASES=0` takes every pair under every shape; otherwise each pair has one shape.

use esker_proof::cut::{History, SHAPES, Syncs};
use esker_proof::harness::from_env;
use esker_proof::lying::states::Dose;
use esker_proof::workloads::{BEFORE_LEN, OPS, workload};

const DOSE: Dose = Dose { subsets: 2, torn: 3, garbage: 2 };

/// Cuts one workload everywhere; how many states there were.
fn cut(shape: usize, ops: &[&str], syncs: &[usize]) -> u64 {
    let (shape, script) = (&SHAPES[shape], workload(ops));
    let syncs: Vec<_> = [BEFORE_LEN].into_iter().chain(syncs.iter().copied()).collect();
    let seed = (ops.len() + syncs.len()) as u64;
    let history = History::run_with(shape, &script, seed, &Syncs::After(syncs.clone()));
    let states = history.cut(shape, DOSE, false, seed);
    states.unwrap_or_else(|why| panic!("{}, safe after {syncs:?}\n{script}\n{why}", shape.name))
}

#[test]
fn one_operation_survives_every_cut() {
    let mut states = 0;
    for shape in 0..SHAPES.len() {
        for op in OPS {
            for syncs in [&[][..], &[BEFORE_LEN + 1]] {
                states += cut(shape, &[op], syncs);
            }
        }
    }
    println!("{} workloads, {states} states", OPS.len() * 2 * SHAPES.len());
}

/// All pairs of which the first operation is one of every second: there are two tests of them, so that both of a
/// machine's processors have one.
fn pairs(half: usize) {
    let all = from_env("ESKER_CASES", 1) == 0;
    let (mut states, mut workloads) = (0, 0);
    for (number, first) in OPS.iter().enumerate().skip(half).step_by(2) {
        for (other, second) in OPS.iter().enumerate() {
            let one = [(number + other) % SHAPES.len()];
            let every: Vec<_> = (0..SHAPES.len()).collect();
            for &shape in if all { &every[..] } else { &one } {
                let last = BEFORE_LEN + 2;
                let kinds: [&[usize]; 3] = [&[last], &[BEFORE_LEN + 1], &[BEFORE_LEN + 1, last]];
                let kinds = if all { &kinds[..] } else { &kinds[number % 3..=number % 3] };
                for syncs in kinds {
                    states += cut(shape, &[first, second], syncs);
                    workloads += 1;
                }
            }
        }
        // It may take long, and be stopped.
        let (done, count) = (number + 1, OPS.len());
        println!("{done} of {count} operations first: {workloads} workloads, {states} states");
    }
}

#[test]
fn two_operations_survive_every_cut() {
    pairs(0);
}

#[test]
fn two_others_survive_every_cut() {
    pairs(1);
}
