//! Packing a tree of this machine into an image.
//!
//! Above: `verbs::pack`. Below: `import::source` reads the tree, `esker-image` packs. Invariant: the output appears
//! under its name whole and synced, or not at all; what could not be read is named.

mod archive;
mod filter;
mod output;
mod walk;

pub use archive::unpack;
pub use filter::{Rules, glob};
pub use output::Output;
pub use walk::{Gathered, Plan, gather};
