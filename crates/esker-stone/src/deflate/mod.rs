//! Streams of deflate (RFC 1951) unpacked, and made again bit by bit from their text and what little else it takes.
//!
//! Above: `recipe`, and whoever packs. Encoders differ in which of many possible tokens they choose; nearly all streams
//! come from zlib or gzip. So what these would have chosen is guessed from the text, and only where a guess is wrong is
//! told. Every block begins afresh with what 32 KiB of text before it say, so a stretch of a stream is made without the
//! stream before it.
//!
//! | file | what it holds |
//! |---|---|
//! | stream.rs | a stream: its text, and where its blocks begin |
//! | run.rs | some blocks of it: what it takes to make them again |
//! | guess.rs | which tokens an encoder would choose |
//! | places.rs | places that begin alike |
//! | blocks.rs | blocks and tokens |
//! | huffman.rs | their codes |
//! | bits.rs | bits |
//!
//! Invariant: nothing that is read panics, and work and memory for a run are bounded by its text and by `guess`.

mod bits;
mod blocks;
mod guess;
mod huffman;
mod places;
mod run;
mod stream;

pub use run::Run;
pub(crate) use run::rebuild;
pub use stream::Stream;
