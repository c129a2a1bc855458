//! Packing a tree of this machine into an image.
//!
//! Above: `verbs::pack`, `verbs::repack`. Below: `import::source` reads the tree, `esker-image` packs. Invariant: the
//! output appears under its name whole and synced, or not at all; what could not be read is named.

mod again;
mod archive;
mod ask;
mod explain;
mod filter;
mod hooks;
mod inputs;
mod list;
mod nonsense;
mod options;
pub mod output;
mod patient;
mod progress;
mod script;
mod summary;
mod survey;
mod walk;
mod work;

pub use again::Again;
pub use explain::{category, category_words, explained};
pub use filter::{Rules, glob};
pub use hooks::Hooks;
pub use inputs::{First, Input, Packing, inputs, is_image, lay_open, take, unreadable};
pub use list::gather_list;
pub use options::{Choosing, Making, Rewriting, cache_of, refuse_too_little, take_over};
pub use output::{Output, failure};
pub use patient::{PATIENCE, read_list};
pub use progress::{Bar, Total};
pub use summary::{Slowest, described, words};
pub use walk::Plan;
pub use work::{Gathered, Work};
