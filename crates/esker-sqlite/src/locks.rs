//! Who holds which database: SQLite's five levels of a lock, among the connections of one program.
//!
//! Neighbours: `file` asks for each connection. Invariant: of one file many may read, one of these may prepare to
//! write, and who writes is alone.

use std::collections::BTreeMap;

use esker::Ino;

/// How much a connection may do with a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// Read.
    Shared,
    /// Read, and prepare to write.
    Reserved,
    /// As that, and nobody else begins to read.
    Pending,
    /// Write: nobody else reads.
    Exclusive,
}

impl Level {
    /// The level of a number of SQLite's.
    #[must_use]
    pub const fn of(number: i32) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Shared,
            2 => Self::Reserved,
            3 => Self::Pending,
            4 => Self::Exclusive,
            _ => return None,
        })
    }
}

/// Of one file: how many may read, and what the one of them may who prepares to write.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    readers: usize,
    writer: Level,
}

/// All locks of a program.
#[derive(Debug, Default)]
pub struct Locks {
    held: BTreeMap<Ino, Held>,
}

impl Locks {
    /// Raises a connection's level: what it has then, which is less than `wanted` where somebody is in the way.
    pub fn raise(&mut self, ino: Ino, mine: Level, wanted: Level) -> Level {
        if wanted <= mine {
            return mine;
        }
        let held = self.held.entry(ino).or_default();
        // Somebody else's: nobody has two connections in one.
        let other = if mine >= Level::Reserved { Level::None } else { held.writer };
        match wanted {
            Level::Shared if other < Level::Pending => {
                held.readers += 1;
                Level::Shared
            }
            Level::Reserved if other == Level::None => {
                held.writer = Level::Reserved;
                Level::Reserved
            }
            Level::Pending | Level::Exclusive if other == Level::None => {
                held.writer = if held.readers > 1 { Level::Pending } else { wanted };
                held.writer
            }
            _ => mine,
        }
    }

    /// Lowers a connection's level to `Shared` or `None`.
    pub fn lower(&mut self, ino: Ino, mine: Level, wanted: Level) -> Level {
        if wanted >= mine {
            return mine;
        }
        let Some(held) = self.held.get_mut(&ino) else { return wanted };
        if mine >= Level::Reserved {
            held.writer = Level::None;
        }
        if wanted == Level::None {
            held.readers -= 1;
            if held.readers == 0 {
                self.held.remove(&ino);
            }
        }
        wanted
    }

    /// Whether somebody prepares to write, or writes.
    #[must_use]
    pub fn is_reserved(&self, ino: Ino) -> bool {
        self.held.get(&ino).is_some_and(|held| held.writer >= Level::Reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(7);

    #[test]
    fn many_read_and_one_writes_alone() {
        let mut locks = Locks::default();
        let [mut one, mut two] = [Level::None; 2].map(|no| locks.raise(FILE, no, Level::Shared));
        assert_eq!([one, two], [Level::Shared; 2]);
        one = locks.raise(FILE, one, Level::Reserved);
        assert_eq!((one, locks.is_reserved(FILE)), (Level::Reserved, true));
        assert_eq!(locks.raise(FILE, two, Level::Reserved), Level::Shared);
        assert_eq!(locks.raise(FILE, two, Level::Exclusive), Level::Shared);
        // Somebody reads still; nobody begins to any more.
        one = locks.raise(FILE, one, Level::Exclusive);
        assert_eq!(one, Level::Pending);
        assert_eq!(locks.raise(FILE, Level::None, Level::Shared), Level::None);
        two = locks.lower(FILE, two, Level::None);
        assert_eq!(two, Level::None);
        one = locks.raise(FILE, one, Level::Exclusive);
        assert_eq!(one, Level::Exclusive);
        assert_eq!(locks.raise(FILE, two, Level::Shared), Level::None);
        one = locks.lower(FILE, one, Level::Shared);
        assert_eq!((one, locks.is_reserved(FILE)), (Level::Shared, false));
        two = locks.raise(FILE, two, Level::Shared);
        assert_eq!(two, Level::Shared);
        // Another file is another matter.
        assert_eq!(locks.raise(Ino(8), Level::None, Level::Shared), Level::Shared);
        locks.lower(FILE, one, Level::None);
        locks.lower(FILE, two, Level::None);
        locks.lower(Ino(8), Level::Shared, Level::None);
        assert!(locks.held.is_empty());
    }

    #[test]
    fn every_number_that_sqlite_has_is_a_level() {
        let levels: Vec<_> = (-1..6).map(Level::of).collect();
        assert_eq!((levels[0], levels[6]), (None, None));
        let known = levels.into_iter().flatten().map(|level| level as i32);
        assert_eq!(known.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
