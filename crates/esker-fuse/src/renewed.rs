//! Files that are other ones than they were, though the home knows them by the same number: a volume went back to what
//! it was, and the kernel goes by what it has heard. Of a file it believes nobody but itself as to how long it is, so
//! such a one gets another node, and whoever has the former one open is told that it is gone.
//!
//! Above: `door`. Invariant: a node means one inode for ever, and an inode has one node that is not gone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use esker::{Error, Ino, Result};

/// Nodes from here on are given out here; no home has inodes of such numbers.
const FIRST: u64 = 1 << 63;

#[derive(Default)]
struct Nodes {
    /// Whose they are, from [`FIRST`] on.
    inodes: Vec<Ino>,
    /// Those that are not gone.
    current: HashMap<Ino, Ino>,
}

/// The nodes of such files.
#[derive(Default)]
pub struct Renewed {
    any: AtomicBool,
    nodes: RwLock<Nodes>,
}

impl Renewed {
    /// There are none: every node is the inode of this number.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// The node of an inode.
    pub fn node(&self, ino: Ino) -> Ino {
        if self.is_empty() {
            return ino;
        }
        self.nodes().current.get(&ino).copied().unwrap_or(ino)
    }

    /// The inode of a node, also of one that is gone.
    pub fn whose(&self, node: Ino) -> Ino {
        match node.0.checked_sub(FIRST) {
            Some(at) => self.nodes().inodes.get(at as usize).copied().unwrap_or(node),
            None => node,
        }
    }

    /// The inode of a node.
    ///
    /// # Errors
    /// `Stale` for one that is gone.
    pub fn inode(&self, node: Ino) -> Result<Ino> {
        let ino = self.whose(node);
        if self.node(ino) == node { Ok(ino) } else { Err(Error::Stale) }
    }

    /// Each of these has another node from now on.
    pub fn renew(&self, inodes: &[Ino]) {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        for &ino in inodes {
            let node = Ino(FIRST + nodes.inodes.len() as u64);
            nodes.inodes.push(ino);
            nodes.current.insert(ino, node);
        }
        if !inodes.is_empty() {
            self.any.store(true, Ordering::Release);
        }
    }

    fn nodes(&self) -> RwLockReadGuard<'_, Nodes> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_node_is_the_one() {
        let (renewed, ino, other) = (Renewed::default(), Ino(7), Ino(9));
        assert_eq!((renewed.node(ino), renewed.inode(ino)), (ino, Ok(ino)));
        renewed.renew(&[ino]);
        let first = renewed.node(ino);
        assert_eq!((renewed.inode(ino), renewed.inode(first)), (Err(Error::Stale), Ok(ino)));
        renewed.renew(&[ino, other]);
        let second = renewed.node(ino);
        assert_eq!(renewed.inode(first), Err(Error::Stale));
        assert_eq!((renewed.inode(second), renewed.whose(first)), (Ok(ino), ino));
        assert_eq!(renewed.inode(renewed.node(other)), Ok(other));
        assert_eq!((renewed.node(Ino(8)), renewed.inode(Ino(8))), (Ino(8), Ok(Ino(8))));
        assert_eq!(renewed.inode(Ino(u64::MAX)), Ok(Ino(u64::MAX)), "the home does not know it");
    }
}
