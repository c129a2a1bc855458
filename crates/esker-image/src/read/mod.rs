//! Reading images.
//!
//! | file | what it holds |
//! |---|---|
//! | image.rs | an image opened: entries and bytes found |
//! | view.rs | its answers |
//! | cache.rs | what was decoded, within one limit |
//! | ahead.rs | what is likely to be asked for next, decoded meanwhile |
//! | verify.rs | doubting everything |

mod ahead;
mod cache;
mod image;
mod verify;
mod view;

pub use cache::{Cache, CacheUse};
pub use image::{Image, Source, Stretch};
pub use verify::{Depth, Finding, Report, Thing, verify};
