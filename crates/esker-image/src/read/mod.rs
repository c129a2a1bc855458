//! Reading images.
//!
//! | file | what it holds |
//! |---|---|
//! | image.rs | an image opened: entries and bytes found |
//! | told.rs | bytes of blocks that are told in words |
//! | view.rs | its answers |
//! | verify.rs | doubting everything |
//! | wanted.rs | stretches of blocks that are wanted together |
//! | weights.rs | what is no data, by what it is |

mod image;
mod told;
mod verify;
mod view;
mod wanted;
mod weights;

pub use image::{Image, Source, Stretch};
pub use verify::{Depth, Finding, Report, Thing, verify, verify_while};
pub use weights::{Weights, weigh};
