//! How fast the tree is: nanoseconds of processor time per operation, one thread.
//!
//! `cargo run --release --example tree_bench [entries]`

use std::hint::black_box;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::time::Instant;

use esker::ground::Budget;
use esker::limits::PAGE_SIZE;
use esker::tree::{HeapPages, Tree};

/// Eight bytes of inode, a kind, and eleven more.
fn key(number: u64) -> [u8; 20] {
    let mut key = [0; 20];
    key[..8].copy_from_slice(&42u64.to_be_bytes());
    key[8] = 2;
    key[9..17].copy_from_slice(&number.to_be_bytes());
    key
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (number ^ number >> 27).wrapping_mul(0x81da_def4_bc2d_d44d)
}

fn time(what: &str, count: u64, run: impl FnOnce()) {
    let (start, cpu_start) = (Instant::now(), cpu_ns());
    run();
    let elapsed = start.elapsed().as_nanos() as u64;
    let spent = cpu_ns().zip(cpu_start).map_or(elapsed, |(end, start)| end - start);
    println!("{what:<24}{:>8.1} ns", spent as f64 / count as f64);
}

/// What this thread has run for so far, where Linux tells: the machine may have other things to do.
fn cpu_ns() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split(' ').next()?.parse().ok()
}

fn tree() -> Tree<HeapPages> {
    Tree::new(HeapPages::new(Arc::new(Budget::new(u64::MAX)))).expect("there is memory")
}

fn fill(tree: &Tree<HeapPages>) {
    let census = tree.check().expect("the tree is sound");
    let percent = census.bytes * 100 / (census.pages * PAGE_SIZE);
    println!("  {} pages, {percent} % full", census.pages);
}

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    for value_len in [17, 96] {
        println!("{count} entries with values of {value_len} bytes");
        let value = vec![1; value_len];
        let mut ascending = tree();
        time("sequential put", count, || {
            for number in 0..count {
                ascending.put(&key(number), &value).expect("there is memory");
            }
        });
        fill(&ascending);
        let mut random = tree();
        time("random put", count, || {
            for number in 0..count {
                random.put(&key(mixed(number)), &value).expect("there is memory");
            }
        });
        fill(&random);
        for (name, tree, mix) in [("sequential", &ascending, false), ("random", &random, true)] {
            time(&format!("{name} tree: get"), count, || {
                for number in 0..count {
                    let number = mixed(number ^ 0x5555) % count;
                    let key = key(if mix { mixed(number) } else { number });
                    let len = tree.get(&key, |value| value.len()).expect("the tree is sound");
                    assert_eq!(black_box(len), Some(value_len));
                }
            });
            time(&format!("{name} tree: scan"), count, || {
                let mut sum = 0;
                let sound = tree.scan(&[], |key, value| {
                    sum += black_box(key).len() + black_box(value).len();
                    Continue(())
                });
                sound.expect("the tree is sound");
                assert_eq!(sum as u64, count * (20 + value_len as u64));
            });
        }
        time("random remove", count, || {
            for number in 0..count {
                assert_eq!(random.remove(&key(mixed(number))), Ok(true));
            }
        });
        time("range remove", count, || {
            let removed = ascending.remove_range(&[], &[255], |_, _| ());
            assert_eq!(removed, Ok(count as usize));
        });
    }
}
