//! Rows of base images: what an image, or a volume, lies on, in its root.

use crate::check::Hash;
use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::strings::Strings;

const FILE: u8 = 1;
const HASHES: u8 = 12;

/// A base image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its name, which is its hash.
    pub name: Hash,
    /// Under which it was known: the name of its file, or the path to that.
    pub file: Vec<u8>,
}

/// The bytes of a group of bases.
#[must_use]
pub fn encode(rows: &[Base], measure: Measure) -> Vec<u8> {
    let mut group = GroupWriter::new(kind::BASE, rows.len(), measure);
    let mut files = Strings::default();
    rows.iter().for_each(|base| files.push(&base.file));
    files.write(&mut group, FILE);
    group.bytes(HASHES, &rows.iter().flat_map(|base| base.name).collect::<Vec<_>>());
    group.page()
}

/// From a group; what they were known under is not longer than so many bytes.
///
/// # Errors
/// `Damaged`.
pub(crate) fn read(group: &Group<'_>, file_len_max: usize) -> Result<Vec<Base>> {
    let files = Strings::read(group, FILE, file_len_max)?;
    let names = group.bytes(HASHES)?;
    if names.len() != group.count * 32 {
        return Err(Damage::Column.into());
    }
    let base = |(row, name): (usize, &[u8])| Base {
        name: name.try_into().unwrap_or_default(),
        file: files.get(row).to_vec(),
    };
    Ok(names.chunks_exact(32).enumerate().map(base).collect())
}

/// From the bytes of a group, as [`read`].
///
/// # Errors
/// `Damaged`, `Unsupported`.
pub fn decode(plain: &[u8], file_len_max: usize) -> Result<Vec<Base>> {
    read(&Group::only(plain, kind::BASE, &[FILE, FILE + 1, FILE + 2, HASHES])?, file_len_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_read_as_they_were_written() {
        let rows = [
            Base { name: [7; 32], file: b"one.esker".to_vec() },
            Base { name: [8; 32], file: b"/far/away/two.esker".to_vec() },
        ];
        let plain = encode(&rows, Measure::Raw);
        assert_eq!(decode(&plain, 64).expect("rows"), rows);
        assert!(decode(&plain, 12).is_err(), "a path that is too long");
        assert!(decode(&plain[..plain.len() - 1], 64).is_err(), "half a hash");
    }
}
