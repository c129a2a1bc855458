//! Thousands of random batches: the home agrees with the model after each, or refused it whole.

use esker::ground::{Heap, Memory};

use crate::memories::Liar;
use crate::model::start;
use crate::player::{play_again, play_on, seeds};

fn play<M: Memory>(memory: M, size_max: u64, seed: u64, rounds: u32, every: u32) -> u64 {
    play_on(start(memory, size_max), seed, rounds, every)
}

#[test]
fn agrees_on_good_memory() {
    for seed in seeds() {
        assert_eq!(play(Heap::new(), u64::MAX, seed, 2500, 7), 0, "refused for lack of space");
    }
}

#[test]
fn agrees_where_memory_fails_to_grow() {
    for seed in seeds() {
        for nth in [1, 2, 3, 7] {
            play(Liar::new(nth, u64::MAX), u64::MAX, seed, 400, 1);
        }
    }
}

#[test]
fn agrees_where_memory_is_short() {
    for seed in seeds() {
        let refused = play(Liar::new(u64::MAX, 300_000), u64::MAX, seed, 1500, 5);
        assert!(refused > 0, "never ran out");
    }
}

#[test]
fn agrees_where_the_budget_is_short() {
    for seed in seeds() {
        let refused = play(Heap::new(), 1_000_000, seed, 1500, 5);
        assert!(refused > 0, "never ran out");
    }
}

#[test]
fn a_home_made_of_another_is_as_if_it_were_new() {
    for seed in seeds() {
        play_again(seed, 4, 400);
    }
}

/// The same in homes that lie in their memories as a whole.
mod embedded {
    use esker::ground::{Region, Undo};
    use esker::memory::Tuning;

    use super::*;
    use crate::model::options;
    use crate::player::{embedded, play_anew, tuned};

    #[test]
    fn agrees_on_good_memory() {
        for seed in seeds() {
            for cache in [4, 1000] {
                let start = embedded(Heap::new(), u64::MAX, cache);
                assert_eq!(play_on(start, seed, 1500, 7), 0, "refused for lack of space");
            }
        }
    }

    /// Beside what is somebody else's, and where each call is put aside first.
    #[test]
    fn agrees_in_part_of_a_memory_and_with_an_undo_log() {
        for seed in seeds() {
            let region = Region::new(Heap::new(), 100_000, 1 << 40).unwrap();
            assert_eq!(play_on(embedded(region, u64::MAX, 16), seed, 800, 7), 0);
            let undo = Undo::open(Heap::new(), Heap::new()).unwrap();
            assert_eq!(play_on(embedded(undo, u64::MAX, 16), seed, 400, 7), 0);
        }
    }

    /// Whole pages are taken where bytes are written into holes.
    #[test]
    fn agrees_in_pages_of_any_size() {
        for seed in seeds() {
            for page_size in [1024, 4096, 65_536] {
                let tuning = Tuning { page_size, ..Tuning::USUAL };
                let start = tuned(Heap::new(), &options(u64::MAX), &tuning);
                assert_eq!(play_on(start, seed, 1500, 7), 0, "refused for lack of space");
            }
        }
    }

    /// An upgrade at each step: everything is found again from the bytes alone.
    #[test]
    fn agrees_when_opened_anew_after_every_batch() {
        for seed in seeds() {
            let memory = Heap::new();
            play_anew(|| &memory, seed, 600);
        }
    }

    #[test]
    fn agrees_where_memory_fails_to_grow() {
        for seed in seeds() {
            for nth in [2, 3, 7] {
                play_on(embedded(Liar::new(nth, u64::MAX), u64::MAX, 16), seed, 400, 1);
            }
        }
    }

    #[test]
    fn agrees_where_memory_is_short() {
        for seed in seeds() {
            let refused =
                play_on(embedded(Liar::new(u64::MAX, 600_000), u64::MAX, 16), seed, 1500, 5);
            assert!(refused > 0, "never ran out");
        }
    }

    #[test]
    fn agrees_where_the_budget_is_short() {
        for seed in seeds() {
            let refused = play_on(embedded(Heap::new(), 1_000_000, 16), seed, 1500, 5);
            assert!(refused > 0, "never ran out");
        }
    }
}
