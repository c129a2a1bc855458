//! The workshop of Esker: what proves the rest, and is never published.
//!
//! [`model`] is the reference home; [`script`]s of operations run in two [`world`]s at once and [`differ`] says
//! where they part; [`rig`] mounts; [`fsx`] hammers one file; [`storm`] hammers a tree from many threads;
//! [`canister`] runs modules and loses their heaps; [`cut`] cuts the power of a volume on a [`lying`] device;
//! [`tidy`] keeps the house. Invariant: nothing here is imported by any other crate.

pub mod allowed;
pub mod base;
pub mod busy;
pub mod canister;
pub mod chance;
pub mod cloning;
pub mod cut;
pub mod differ;

pub mod fsx;
pub mod harness;
pub mod lying;
pub mod model;
pub mod moments;

pub mod place;
pub mod rig;
pub mod script;
pub mod shape;

pub mod storm;
pub mod tidy;
pub mod told;
pub mod workloads;
pub mod world;
