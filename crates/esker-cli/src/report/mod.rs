//! Where the bytes of an image went, as one page for a browser.
//!
//! Above: `verbs::report`. Invariant: whatever names the image has, the page shows them as text and asks no other place
//! for anything.

mod costs;
mod page;
mod treemap;

pub use costs::Costs;
pub use page::page;
