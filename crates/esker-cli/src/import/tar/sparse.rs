//! Where the data of a sparse file belong: the maps of GNU tar, of which there are four kinds.
//!
//! Above: `archive`. Invariant: the runs of a [`Map`] rise, do not overlap, end within the file,
//! and are together as long as the data that the archive holds.

use super::Refusal;
use super::pax::{Records, decimal};

/// A stretch of data in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// From which byte.
    pub at: u64,
    /// How many.
    pub len: u64,
}

/// A file's size and its data; all else is hole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Of the whole file, in bytes.
    pub size: u64,
    /// In their order.
    pub runs: Vec<Run>,
}

fn broken() -> Refusal {
    Refusal::new("its map of holes is broken")
}

impl Map {
    /// Checks that the runs make sense and hold exactly `stored` bytes.
    pub fn new(size: u64, pairs: &[(u64, u64)], stored: u64) -> Result<Self, Refusal> {
        let mut runs = Vec::new();
        let (mut end, mut sum) = (0u64, 0u64);
        for &(at, len) in pairs {
            let behind = at.checked_add(len).ok_or_else(broken)?;
            if at < end || behind > size {
                return Err(broken());
            }
            end = behind;
            sum = sum.checked_add(len).ok_or_else(broken)?;
            // GNU tar marks the end of the file with an empty run.
            if len > 0 {
                runs.push(Run { at, len });
            }
        }
        if sum != stored { Err(broken()) } else { Ok(Self { size, runs }) }
    }

    /// A file without holes.
    pub fn whole(size: u64) -> Self {
        let runs = if size == 0 { Vec::new() } else { vec![Run { at: 0, len: size }] };
        Self { size, runs }
    }
}

/// What pax records say about holes.
pub enum Said {
    /// Nothing.
    Nothing,
    /// Versions 0.0 and 0.1: the size of the file and all pairs.
    Map(u64, Vec<(u64, u64)>),
    /// Version 1.0: the size of the file; the pairs stand before the data.
    InBody(u64),
}

/// Reads what the records of one entry say.
pub fn said(records: &Records) -> Result<Said, Refusal> {
    if let Some(major) = records.number("GNU.sparse.major")? {
        if major != 1 {
            return Err(Refusal::new("its map of holes is of an unknown version"));
        }
        let size = records.number("GNU.sparse.realsize")?.ok_or_else(broken)?;
        return Ok(Said::InBody(size));
    }
    let size = match records.number("GNU.sparse.size")? {
        Some(size) => size,
        None => match records.number("GNU.sparse.realsize")? {
            Some(size) => size,
            None => return Ok(Said::Nothing),
        },
    };
    let mut numbers = Vec::new();
    if let Some(list) = records.get("GNU.sparse.map") {
        for word in list.split(|&byte| byte == b',') {
            numbers.push(decimal(word).ok_or_else(broken)?);
        }
    } else {
        let mut offset_due = true;
        for (key, value) in records.iter() {
            let is_offset = match key {
                b"GNU.sparse.offset" => true,
                b"GNU.sparse.numbytes" => false,
                _ => continue,
            };
            if is_offset != offset_due {
                return Err(broken());
            }
            offset_due = !offset_due;
            numbers.push(decimal(value).ok_or_else(broken)?);
        }
    }
    Ok(Said::Map(size, pairs(&numbers)?))
}

/// Numbers two by two.
pub fn pairs(numbers: &[u64]) -> Result<Vec<(u64, u64)>, Refusal> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    if rest.is_empty() {
        Ok(pairs.iter().map(|&[at, len]| (at, len)).collect())
    } else {
        Err(broken())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_that_make_no_sense_are_refused() {
        assert!(Map::new(10, &[(0, 4), (8, 2)], 6).is_ok());
        assert_eq!(Map::new(10, &[(0, 4), (10, 0)], 4).unwrap().runs, [Run { at: 0, len: 4 }]);
        for (size, pairs, stored) in [
            (10, &[(0, 4), (3, 2)][..], 6),
            (10, &[(8, 3)], 3),
            (10, &[(0, 4)], 5),
            (10, &[(8, 2), (0, 4)], 6),
            (u64::MAX, &[(u64::MAX, 1)], 1),
        ] {
            assert!(Map::new(size, pairs, stored).is_err());
        }
        assert!(pairs(&[1, 2, 3]).is_err());
    }
}
