//! Streams: what is written over at about the same time is written together, for devices that put it apart then.
//!
//! Above: `log`, `migrate`, `settle` say what they write. Below: whoever writes to a file. Invariant: it is a hint;
//! whatever becomes of it, the same bytes are at the same places.

/// What is written, by how long it stays: that which goes first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Tables and roots: each is written again as soon as some of its rows are others.
    Tables,
    /// Commits, with what was just written.
    Log,
    /// Blocks that were moved once.
    Moved,
    /// Blocks that were moved more often.
    Cold,
}

impl Stream {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Tables, Self::Log, Self::Moved, Self::Cold];

    /// Which of so many streams of a device it goes to, counted from 1; 0 is none, as of all else. Of few streams
    /// neighbours share one.
    #[must_use]
    pub const fn of(self, count: u8) -> u8 {
        let own = self as u8 + 1;
        match count {
            0 | 1 => 0,
            2 => own.div_ceil(2),
            3 if own > 3 => 3,
            _ => own,
        }
    }
}

/// How a device is to be told of streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// By its own streams, if it has some.
    #[default]
    Auto,
    /// By its own streams.
    Streams,
    /// By how long what is written will stay.
    Lifetimes,
    /// Not at all.
    Nothing,
}

/// How it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Not at all: it is a file, or written through the kernel's cache.
    Nothing,
    /// Not at all, as was asked.
    Unwanted,
    /// Not at all: it keeps no streams apart.
    Alone,
    /// By so many streams.
    Streams(u8),
    /// By how long what is written will stay.
    Lifetimes,
    /// Not any more: it refused.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_streams_are_shared_by_neighbours() {
        let of = |count| Stream::ALL.map(|stream| stream.of(count));
        assert_eq!([of(0), of(1)], [[0; 4]; 2]);
        assert_eq!([of(2), of(3)], [[1, 1, 2, 2], [1, 2, 3, 3]]);
        assert_eq!([of(4), of(255)], [[1, 2, 3, 4]; 2]);
    }
}
