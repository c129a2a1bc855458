//! The numbers that everything in a tree gets in the image: directory by directory, each in the order of its names.
//!
//! Above: `packer`, `kinds`. Below: `tree`. Invariant: numbers depend on what is in the tree, not on when it came; only
//! what can be reached has one.

use esker::{Ino, Kind};

use super::Result;
use super::tree::{NameRow, NodeId, Tree};

/// A directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    node: u32,
    /// Its place among all nodes, and that of the directory that it is in.
    place: u32,
    parent: u32,
    /// How many directories are in it.
    pub directories: u32,
}

impl Directory {
    /// Its number.
    pub fn ino(&self) -> Ino {
        number(self.place)
    }

    /// The number of the directory that it is in.
    pub fn parent(&self) -> Ino {
        number(self.parent)
    }
}

/// The order of all nodes that can be reached, and of the names in each directory.
pub(super) struct Numbers {
    /// Nodes in the order of their numbers.
    nodes: Vec<u32>,
    /// The place of each node among them, or [`NONE`].
    places: Vec<u32>,
    directories: Vec<Directory>,
    /// Names by directory.
    names: Vec<u32>,
    /// Of each node, where those in it end.
    ends: Vec<u32>,
}

/// No place among the nodes.
const NONE: u32 = u32::MAX;

/// The number of what has this place among all nodes.
fn number(place: u32) -> Ino {
    Ino(Ino::ROOT.0 + u64::from(place))
}

impl Numbers {
    /// Of everything that can be reached from the root.
    pub fn of(tree: &mut Tree) -> Result<Self> {
        let (names, ends) = by_directory(tree)?;
        let root = Directory { node: 0, place: 0, parent: 0, directories: 0 };
        let (nodes, mut places) = (vec![0], vec![NONE; tree.len()]);
        places[0] = 0;
        let mut own = Self { nodes, places, directories: vec![root], names, ends };
        let (mut next, mut sorting) = (0, Sorting::default());
        while let Some(&directory) = own.directories.get(next) {
            let range = own.range(directory.node);
            sorting.fill(tree, &own.names[range.clone()])?;
            for (place, &(_, number, row)) in range.zip(&sorting.rows) {
                own.names[place] = number;
                own.reach(&row, directory.place);
                own.directories[next].directories += u32::from(row.kind() == Kind::Directory);
            }
            next += 1;
        }
        Ok(own)
    }

    /// A name leads somewhere: that has a number from now on.
    fn reach(&mut self, row: &NameRow, parent: u32) {
        let place = &mut self.places[row.node as usize];
        if *place != NONE {
            return;
        }
        *place = self.nodes.len() as u32;
        self.nodes.push(row.node);
        if row.kind() == Kind::Directory {
            let (node, place) = (row.node, *place);
            self.directories.push(Directory { node, place, parent, directories: 0 });
        }
    }

    /// Where the names of a directory are.
    fn range(&self, node: u32) -> std::ops::Range<usize> {
        let before = node.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        before as usize..self.ends[node as usize] as usize
    }

    /// How many nodes have a number.
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// What has a number, in the order of these.
    pub fn nodes(&self) -> impl Iterator<Item = (Ino, NodeId)> {
        (0..).zip(&self.nodes).map(|(place, &node)| (number(place), NodeId::new(node)))
    }

    /// The number of what a name leads to that can be reached.
    pub fn ino(&self, name: &NameRow) -> Ino {
        number(self.places[name.node as usize])
    }

    /// Directories in the order of their numbers.
    pub fn directories(&self) -> &[Directory] {
        &self.directories
    }

    /// The names in a directory, in their order.
    pub fn names(&self, directory: &Directory) -> &[u32] {
        &self.names[self.range(directory.node)]
    }
}

/// The numbers of all names by directory, in the order in which they came; and of each node, where its names end.
fn by_directory(tree: &mut Tree) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut ends = vec![0; tree.len() + 1];
    for name in 0..tree.names() {
        let row = tree.name(name)?;
        ends[row.dir as usize + 1] += u32::from(row.is_there());
    }
    for node in 1..ends.len() {
        ends[node] += ends[node - 1];
    }
    // Each beginning moves up to its end as it is filled.
    let mut names = vec![0; ends.pop().unwrap_or(0) as usize];
    for name in 0..tree.names() {
        let row = tree.name(name)?;
        if row.is_there() {
            let at = &mut ends[row.dir as usize];
            names[*at as usize] = name;
            *at += 1;
        }
    }
    Ok((names, ends))
}

/// The names of a directory on their way into their order.
#[derive(Default)]
struct Sorting {
    bytes: Vec<u8>,
    /// Where the name is among the bytes, its number, and where it leads.
    rows: Vec<(usize, u32, NameRow)>,
}

impl Sorting {
    fn fill(&mut self, tree: &mut Tree, names: &[u32]) -> Result<()> {
        self.bytes.clear();
        self.rows.clear();
        for &number in names {
            let row = tree.name(number)?;
            self.rows.push((self.bytes.len(), number, row));
            self.bytes.extend(tree.word(&row)?);
        }
        let bytes = &self.bytes;
        let name = |row: &(usize, u32, NameRow)| &bytes[row.0..row.0 + usize::from(row.2.len)];
        self.rows.sort_unstable_by(|one, other| name(one).cmp(name(other)));
        Ok(())
    }
}
