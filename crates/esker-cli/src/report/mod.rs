//! Where the bytes of an image went, and how the segments of a volume are used, as one page for a browser.
//!
//! Above: `verbs::report`. Invariant: whatever names there are, a page shows them as text and asks no other place
//! for anything.

mod costs;
mod html;
mod page;
mod parts;
mod treemap;
pub mod volume;

pub use costs::Costs;
pub use html::BEGINNING;
pub use page::page;
