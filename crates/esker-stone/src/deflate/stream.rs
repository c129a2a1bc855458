//! A stream of deflate: its text, and where its blocks begin.
//!
//! Above: whoever packs. Below: `blocks`, `run`. Invariant: the text is what any decoder makes of the stream.

use core::ops::Range;
use std::sync::OnceLock;

use super::bits::Reader;
use super::blocks::{Block, Held, expand, read};
use super::guess::Style;
use super::run::{self, Run};

/// Bytes of text that a run has in about: a block more, and it has enough.
const RUN_TEXT: usize = 96 << 10;

/// Where a block begins, or the last one ends: its bit in the stream, its byte in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    bit: usize,
    text: usize,
}

/// A stream that was unpacked.
#[derive(Debug)]
pub struct Stream<'a> {
    bytes: &'a [u8],
    text: Vec<u8>,
    /// Of each block, and of the end.
    marks: Vec<Mark>,
    /// What the first blocks hold, which says what the style is.
    first: Vec<Held>,
    /// That, once somebody wants to know.
    style: OnceLock<Style>,
}

impl<'a> Stream<'a> {
    /// Unpacks the stream that these bytes begin with. `None`: there is none, or it has more than `text_max` bytes of
    /// text, or a block of more tokens than any encoder makes.
    #[must_use]
    pub fn open(bytes: &'a [u8], text_max: usize) -> Option<Self> {
        let mut reader = Reader::new(bytes, 0);
        let (mut text, mut marks) = (Vec::new(), vec![Mark { bit: 0, text: 0 }]);
        let mut first = Vec::new();
        loop {
            let Block { last, held } = read(&mut reader, text_max - text.len())?;
            expand(&held, &mut text)?;
            marks.push(Mark { bit: reader.at(), text: text.len() });
            if text.len() > text_max {
                return None;
            }
            first.push(held);
            // Only the first ones say what the style is.
            first.truncate(2);
            if last {
                return Some(Self { bytes, text, marks, first, style: OnceLock::new() });
            }
        }
    }

    /// What it holds.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Gives the text away.
    #[must_use]
    pub fn into_text(self) -> Vec<u8> {
        self.text
    }

    /// How many bytes it has, the last of which may not be used to its end.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no stream is empty")]
    pub fn len(&self) -> usize {
        self.marks.last().map_or(0, |end| end.bit.div_ceil(8))
    }

    /// Its blocks in stretches that are made as one.
    #[must_use]
    pub fn stretches(&self) -> Vec<Range<usize>> {
        let (mut found, mut from) = (Vec::new(), 0);
        for at in 1..self.marks.len() {
            let long = self.marks[at].text - self.marks[from].text >= RUN_TEXT;
            if long || at + 1 == self.marks.len() {
                found.push(from..at);
                from = at;
            }
        }
        found
    }

    /// What it takes to make a stretch again, proven to come out the same; `None`: too much.
    #[must_use]
    pub fn run(&self, stretch: Range<usize>) -> Option<Run> {
        let (from, to) = (self.marks.get(stretch.start)?, self.marks.get(stretch.end)?);
        let bits = from.bit..to.bit;
        let style = self.style.get_or_init(|| run::style(&self.first, &self.text));
        run::describe(self.bytes, bits, &self.text, from.text..to.text, *style)
    }
}
