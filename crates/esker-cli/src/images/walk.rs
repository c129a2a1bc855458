//! Walking a tree in an image, in the order of names, without a stack that the tree could overflow.

use esker::store::{Flow, View};
use esker::{Attr, Cursor, Ino, Kind};

/// Something in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its path from the root, with a `/` in front; empty: the root.
    pub path: Vec<u8>,
    /// Its number.
    pub ino: Ino,
    /// Its attributes.
    pub attr: Attr,
    /// How far it is below where the walk began.
    pub depth: usize,
}

impl Node {
    /// The last part of its path.
    pub fn name(&self) -> &[u8] {
        let start = self.path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        &self.path[start..]
    }
}

/// The names in a directory, in their order.
pub fn children(view: &dyn View, node: &Node) -> esker::Result<Vec<Node>> {
    let mut found = Vec::new();
    view.entries(node.ino, Cursor::START, true, &mut |listed| {
        if let Some(attr) = listed.attr {
            let path = [&node.path[..], b"/", listed.name.bytes()].concat();
            found.push(Node { path, ino: listed.entry.ino, attr, depth: node.depth + 1 });
        }
        Flow::Continue(())
    })?;
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Tells `each` of `start` and everything below, a directory before what is in it; a directory for which `each`
/// breaks is not entered. What cannot be listed is told to `trouble`.
pub fn walk(
    view: &dyn View,
    start: Node,
    each: &mut dyn FnMut(&Node) -> Flow,
    trouble: &mut dyn FnMut(&Node, esker::Error),
) {
    let mut pending = vec![start];
    while let Some(node) = pending.pop() {
        let enter = each(&node).is_continue() && node.attr.kind == Kind::Directory;
        if !enter {
            continue;
        }
        match children(view, &node) {
            Ok(found) => pending.extend(found.into_iter().rev()),
            Err(error) => trouble(&node, error),
        }
    }
}
