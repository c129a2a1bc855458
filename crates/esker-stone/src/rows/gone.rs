//! Rows of what is gone: keys of entries that layers below may still have.

use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::limits::KEY_LEN_MAX;
use crate::strings::Strings;

const KEY: u8 = 1;
const COLUMNS: [u8; 3] = [1, 2, 3];

/// The bytes of a group of keys, which rise.
#[must_use]
pub fn encode(keys: &[Vec<u8>], measure: Measure) -> Vec<u8> {
    let mut group = GroupWriter::new(kind::GONE, keys.len(), measure);
    let mut strings = Strings::default();
    keys.iter().for_each(|key| strings.push(key));
    strings.write(&mut group, KEY);
    group.page()
}

/// From the bytes of a group.
///
/// # Errors
/// `Damaged`, `Unsupported`.
pub fn decode(plain: &[u8]) -> Result<Vec<Vec<u8>>> {
    let group = Group::only(plain, kind::GONE, &COLUMNS)?;
    let keys = Strings::read(&group, KEY, KEY_LEN_MAX)?;
    let keys: Vec<_> = keys.iter().map(<[u8]>::to_vec).collect();
    if keys.windows(2).any(|two| two[0] >= two[1]) {
        return Err(Damage::Order.into());
    }
    Ok(keys)
}
