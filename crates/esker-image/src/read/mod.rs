//! Reading images.
//!
//! | file | what it holds |
//! |---|---|
//! | image.rs | an image opened: entries and bytes found |
//! | view.rs | its answers |
//! | verify.rs | doubting everything |

mod image;
mod verify;
mod view;

pub use image::{Image, Source, Stretch};
pub use verify::{Depth, Finding, Report, Thing, verify, verify_while};
