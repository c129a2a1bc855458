//! The image home: a tree turned to stone in one file, packed and read.
//!
//! Above: doors and the command. Below: `esker-stone`, which has every byte of the format, and the core's words. An
//! [`Image`] is a [`esker::store::View`]; a [`pack::Packer`] writes one.

#![forbid(unsafe_code)]

pub mod pack;
mod read;

pub use esker_stone::cache::{Cache, CacheUse};
pub use read::{
    Depth, Finding, Image, Report, Source, Stretch, Thing, Weights, verify, verify_while, weigh,
};
