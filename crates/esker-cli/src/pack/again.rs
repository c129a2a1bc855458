//! Packing what is in an image again: with other attributes, a part of it, in another order, or with its blocks as they
//! are stored.
//!
//! Above: `verbs::pack`, `verbs::repack`. Below: `esker-image`. Invariant: nothing is unpacked to disk; what cannot be
//! read is named and left out.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use esker::store::View;
use esker::{Attr, Ino, Kind};
use esker_image::Image;
use esker_image::pack::{Error, Guide, Meta, NodeId, Packer, copy_adopted, copy_into};

use super::{Gathered, Plan};
use crate::failure::{path_shown, shown};

/// In which order bytes come: what lies together is compressed together, and read together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// That of the paths.
    #[default]
    Path,
    /// Files with the same ending beside each other.
    Kind,
    /// The smallest first.
    Size,
    /// Those in a list first, in its order, by whichever of their names.
    Listed(HashMap<Ino, u64>),
}

impl Order {
    fn key(&self, path: &[u8], ino: Ino, attr: &Attr) -> Option<Vec<u8>> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        match self {
            Self::Path => None,
            Self::Kind => {
                let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0);
                Some(dot.map_or_else(Vec::new, |dot| name[dot..].to_vec()))
            }
            Self::Size => Some(attr.size.to_be_bytes().to_vec()),
            Self::Listed(places) => {
                let place = places.get(&ino).copied().unwrap_or(u64::MAX);
                Some(place.to_be_bytes().to_vec())
            }
        }
    }
}

/// What to make of an image.
pub struct Again<'a> {
    /// The image, or whatever else shows a tree.
    pub view: &'a dyn View,
    /// The file that it is in.
    pub file: &'a Path,
    /// Where its root goes.
    pub top: NodeId,
    /// What is left out, and which attributes are rewritten.
    pub plan: &'a Plan<'a>,
    /// In which order bytes come.
    pub order: &'a Order,
    /// The image whose blocks stay as they are stored.
    pub adopt: Option<&'a Image>,
    /// Files of the list of `order` lie in blocks of their own.
    pub hot: bool,
}

struct Copier<'a, 'b> {
    again: &'a Again<'a>,
    gathered: Gathered,
    tick: &'b mut dyn FnMut(&Gathered, &Packer<File>),
}

impl Guide<File> for Copier<'_, '_> {
    fn rewrite(&self, path: &[u8], meta: Meta) -> Option<Meta> {
        let below = path.strip_prefix(b"/").unwrap_or(path);
        let plan = self.again.plan;
        let wanted = path.is_empty() || plan.rules.take(below, meta.kind == Kind::Directory);
        wanted.then(|| plan.rewrite(meta))
    }

    fn trouble(&mut self, path: &[u8], error: esker::Error) -> bool {
        let file = path_shown(self.again.file);
        self.gathered.troubles.push(format!("{file}:{}: {error}", shown(path)));
        true
    }

    fn order(&self, path: &[u8], ino: Ino, attr: &Attr) -> Option<Vec<u8>> {
        self.again.order.key(path, ino, attr)
    }

    fn hot(&self, ino: Ino) -> bool {
        let Order::Listed(places) = self.again.order else { return false };
        self.again.hot && places.contains_key(&ino)
    }

    fn tick(&mut self, path: &[u8], bytes: u64, packer: &Packer<File>) {
        if bytes == 0 {
            self.gathered.files += 1;
            self.gathered.slowest.begin(path);
        }
        self.gathered.bytes += bytes;
        (self.tick)(&self.gathered, packer);
    }
}

/// Packs it.
pub fn again(
    again: &Again<'_>,
    packer: &mut Packer<File>,
    tick: &mut dyn FnMut(&Gathered, &Packer<File>),
) -> Result<Gathered, Error> {
    let mut copier = Copier { again, gathered: Gathered::default(), tick };
    match again.adopt {
        Some(image) => copy_adopted(image, packer, &mut copier)?,
        None => copy_into(again.view, again.top, packer, &mut copier)?,
    }
    copier.gathered.slowest.end();
    Ok(copier.gathered)
}
