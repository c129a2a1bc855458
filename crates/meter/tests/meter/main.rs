//! What needs WebAssembly: the figures, and modules over a memory of their host.

mod figures;
mod imported;
mod target;
mod trapped;
