//! What became of files of each kind, for whoever wants to know where the space went.
//!
//! Above: `packer`, at its end. Invariant: what is stored counts once, with the file that brought it; a block's
//! stored bytes count for its pieces by their plain lengths.

use std::collections::BTreeMap;

use esker::Kind;
use esker_stone::rows::blocks::{BlockRow, ORIGIN_SEGMENT_MASK};
use esker_stone::rows::extents::Place;

use super::Result;
use super::contents::Contents;
use super::numbers::Numbers;
use super::tree::{Held, NodeId, Tree};
use super::units::Units;

/// Longest ending of a name that is taken for a kind.
const ENDING_LEN_MAX: usize = 8;

/// What became of files of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindUse {
    /// The ending of their names in small letters; empty: they have none.
    pub kind: String,
    /// How many.
    pub files: u64,
    /// Their bytes, holes not counted.
    pub bytes: u64,
    /// Bytes stored for them, in about.
    pub stored: u64,
}

/// The kind of a file of this name. Numbers behind the ending do not count: `libc.so.6` is of the kind `so`.
fn kind(name: &[u8]) -> String {
    let mut rest = name;
    while let Some(dot) = rest.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0) {
        let ending = &rest[dot + 1..];
        let number = !ending.is_empty() && ending.iter().all(u8::is_ascii_digit);
        if !number {
            let fits = (1..=ENDING_LEN_MAX).contains(&ending.len());
            let letters = ending.iter().all(u8::is_ascii_alphanumeric);
            let known = fits && letters;
            return if known {
                String::from_utf8_lossy(ending).to_lowercase()
            } else {
                String::new()
            };
        }
        rest = &rest[..dot];
    }
    String::new()
}

/// What is stored, and where.
pub(super) struct Stored<'a> {
    pub contents: Contents,
    pub units: &'a Units,
    pub rows: &'a [BlockRow],
}

impl Stored<'_> {
    /// Stored bytes of a content, in about: of what it brought itself.
    fn bytes(&mut self, content: u32) -> Result<u64> {
        let mut all = self.contents.own_pieces(content, self.units)?;
        // What it is made of is stored for it.
        let texts = self.contents.texts();
        let first = texts.partition_point(|(of, _)| *of < content);
        let behind = texts[first..].iter().take_while(|(of, _)| *of == content);
        for text in behind.map(|&(_, text)| text).collect::<Vec<_>>() {
            all.extend(self.contents.own_pieces(text, self.units)?);
        }
        let mut stored = 0;
        for piece in all {
            let here = |place: &Place| place.block.segment <= ORIGIN_SEGMENT_MASK;
            let Some(place) = piece.place.filter(here) else { continue };
            let row = self.rows.get(place.block.slot as usize).filter(|row| row.plain > 0);
            if let Some(row) = row {
                let (own, plain) = (u128::from(row.stored), u128::from(row.plain));
                stored += (u128::from(piece.len) * own / plain) as u64;
            }
        }
        Ok(stored)
    }
}

/// All kinds, those with the most stored bytes first.
pub(super) fn kinds(
    tree: &mut Tree,
    numbers: &Numbers,
    mut stored: Stored<'_>,
) -> Result<Vec<KindUse>> {
    let mut found: BTreeMap<String, KindUse> = BTreeMap::new();
    let (mut counted, mut owned) = (vec![false; tree.len()], vec![false; stored.contents.len()]);
    let names = numbers.directories().iter().flat_map(|directory| numbers.names(directory));
    for &name in names {
        let name = tree.name(name)?;
        if name.kind() != Kind::File {
            continue;
        }
        let child = NodeId::new(name.node);
        let Held::Content(content, _) = tree.node(child)?.holds() else { continue };
        if std::mem::replace(&mut counted[child.index()], true) {
            continue;
        }
        let own = found.entry(kind(&tree.word(&name)?)).or_default();
        own.files += 1;
        own.bytes += stored.contents.data(content)?;
        if !std::mem::replace(&mut owned[content as usize], true) {
            own.stored += stored.bytes(content)?;
        }
    }
    let named = |(kind, own): (String, KindUse)| KindUse { kind, ..own };
    let mut all: Vec<_> = found.into_iter().map(named).collect();
    all.sort_by(|one, other| other.stored.cmp(&one.stored).then(one.kind.cmp(&other.kind)));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::kind;

    #[test]
    fn a_kind_is_the_ending_of_a_name() {
        for (name, right) in [
            ("x.c", "c"),
            ("X.JPG", "jpg"),
            ("libc.so.6", "so"),
            ("libx.so.1.2.3", "so"),
            ("a.tar.gz", "gz"),
            (".profile", ""),
            ("Makefile", ""),
            ("x.", ""),
            ("x.too long for one", ""),
            ("1.2", ""),
        ] {
            assert_eq!(kind(name.as_bytes()), right, "{name}");
        }
    }
}
