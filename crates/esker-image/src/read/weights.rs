//! What names, attributes and all else of an image weigh that is no data, by what it is.
//!
//! Above: `esker info`. Below: `image`. Invariant: what is told adds up to all bytes of an image that are no blocks.

use esker_stone::key::kind;
use esker_stone::root::Top;
use esker_stone::rows::pages::Inner;
use esker_stone::{Damage, Result};

use super::image::{Image, Page as _};

/// Stored bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// Of pages of inodes.
    pub inodes: u64,
    /// Of names.
    pub names: u64,
    /// Of extended attributes.
    pub xattrs: u64,
    /// Of where the bytes of files are.
    pub extents: u64,
    /// Of the block index: where blocks are, how they are compressed, and their checksums.
    pub index: u64,
    /// Of superblocks, roots, and pages above others, all copies.
    pub others: u64,
}

/// Weighs an image, which takes reading all of its pages.
///
/// # Errors
/// What reading meets.
pub fn weigh(image: &Image) -> Result<Weights> {
    let superblock = image.rest().superblock();
    let all = superblock.size.saturating_sub(superblock.data_len);
    let (mut own, mut left) = (Weights::default(), all);
    tree(image, &image.root().layer, false, &mut own, &mut left)?;
    for (_, top) in &image.root().indexes {
        tree(image, top, true, &mut own, &mut left)?;
    }
    let told = own.inodes + own.names + own.xattrs + own.extents + own.index;
    own.others = all.saturating_sub(told);
    Ok(own)
}

/// All leaves of a tree, which has no more pages than there are bytes left.
fn tree(image: &Image, top: &Top, is_index: bool, own: &mut Weights, left: &mut u64) -> Result<()> {
    let mut pending = vec![(top.page, None, top.height)];
    pending.retain(|_| top.entries > 0);
    while let Some((page, base, level)) = pending.pop() {
        // No page is named twice.
        *left = left.checked_sub(u64::from(page.stored).max(1)).ok_or(Damage::Count)?;
        let plain = image.plain(&page, base.as_ref())?;
        if level > 0 {
            let inner = Inner::decode(&plain)?;
            if inner.level + 1 != level {
                return Err(Damage::Tree.into());
            }
            let children = (0..inner.rows()).filter_map(|child| inner.page(child));
            pending.extend(children.map(|(page, base)| (page, base, level - 1)));
            continue;
        }
        let (copies, _) = image.rest().copies(&page)?;
        let weight = match plain.first() {
            _ if is_index => &mut own.index,
            Some(&kind::INODE) => &mut own.inodes,
            Some(&kind::NAME) => &mut own.names,
            Some(&kind::XATTR) => &mut own.xattrs,
            Some(&kind::EXTENT) => &mut own.extents,
            _ => return Err(Damage::Head.into()),
        };
        *weight += copies as u64 * u64::from(page.stored);
    }
    Ok(())
}
