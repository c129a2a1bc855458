//! Small races, each under many schedules: whatever the order in which threads go on, every answer is one
//! that some order of whole calls gives, and the home is sound in the end.
//!
//! Locks and atomic numbers are those of the explorer `shuttle` here (feature `shuttle` of the core), so that
//! it decides at each of them who goes on: at random, and by PCT, which finds orders that chance does not.
//! It sees every order of steps, but atomic numbers as if all were sequentially consistent.
//!
//!     cargo test -p esker --features shuttle --test schedules
//!
//! `ESKER_SCHEDULES` says how many schedules each race gets, `ESKER_SEED` which. A failure prints its
//! schedule: `ESKER_SCHEDULE=... cargo test ... --test schedules NAME` goes through exactly that one again.

mod bytes;
mod directories;
mod explore;
mod files;
mod mixed;
mod tree;
