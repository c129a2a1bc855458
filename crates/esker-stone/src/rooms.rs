//! Room for what is decoded, touched before it is wanted.
//!
//! Above: `cache`, which sees to it that there is some, and `rest`, which decodes into it. The first touch of each page
//! of memory takes a microsecond and more, in a virtual machine up to ten: for all of a block together as long as
//! decoding it takes. Invariant: what is in a room before it was written over is of no meaning.

use std::sync::Mutex;

use crate::cache::locked;

/// Less is not worth it.
const LEN_MIN: usize = 256 << 10;
/// The largest room that is kept for what is only passed on, and how many of them are.
const LENT_MAX: usize = 4 << 20;
const LENT_COUNT: usize = 2;

/// Rooms that wait.
#[derive(Debug, Default)]
pub struct Rooms {
    /// For what stays.
    waiting: Mutex<Vec<Vec<u8>>>,
    /// For what is only passed on; `None`: each is made when it is wanted.
    lent: Option<Mutex<Vec<Vec<u8>>>>,
}

impl Rooms {
    /// Where none waits.
    #[must_use]
    pub const fn none() -> Self {
        Self { waiting: Mutex::new(Vec::new()), lent: None }
    }

    /// That are kept.
    #[must_use]
    pub fn kept() -> Self {
        Self { waiting: Mutex::default(), lent: Some(Mutex::default()) }
    }

    /// So many bytes that are to be written over, in a room that is little larger.
    #[must_use]
    pub fn take(&self, len: usize) -> Vec<u8> {
        let fits = |room: &Vec<u8>| (len..=len + len / 4).contains(&room.len());
        let mut waiting = locked(&self.waiting);
        let fitting = waiting.iter().position(fits);
        let room = fitting.map(|number| waiting.swap_remove(number));
        drop(waiting);
        let Some(mut room) = room else { return vec![0; len] };
        room.truncate(len);
        room.shrink_to_fit();
        room
    }

    /// Whether fewer than `count` rooms wait that have `len` bytes.
    #[must_use]
    pub fn lacks(&self, len: usize, count: usize) -> bool {
        let equal = |rooms: &[Vec<u8>]| rooms.iter().filter(|room| room.len() == len).count();
        len >= LEN_MIN && equal(&locked(&self.waiting)) < count
    }

    /// Touches rooms of `len` bytes until `count` of them wait, and lets go of others.
    pub fn fill(&self, len: usize, count: usize) {
        locked(&self.waiting).retain(|room| room.len() == len);
        while self.lacks(len, count) {
            let mut room = Vec::new();
            // Written byte by byte: what is zero from the beginning is not touched.
            room.resize(len, u8::MAX);
            locked(&self.waiting).push(room);
        }
    }

    /// Has `work` write into so many bytes, which are wanted again for the next.
    pub fn lend<T>(&self, len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let Some(lent) = self.lent.as_ref().filter(|_| len <= LENT_MAX) else {
            return work(&mut vec![0; len]);
        };
        let mut room = locked(lent).pop().unwrap_or_default();
        if room.len() < len {
            // All new: what is in it need not be moved.
            room = vec![0; len];
        }
        let done = work(&mut room[..len]);
        let mut lent = locked(lent);
        if lent.len() < LENT_COUNT {
            lent.push(room);
        }
        done
    }

    /// Lets go of all.
    pub fn clear(&self) {
        locked(&self.waiting).clear();
        self.lent.iter().for_each(|lent| locked(lent).clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_that_wait_are_taken_first() {
        let rooms = Rooms::none();
        assert!(rooms.take(LEN_MIN).iter().all(|&byte| byte == 0));
        rooms.fill(LEN_MIN, 3);
        assert!(!rooms.lacks(LEN_MIN, 3));
        let room = rooms.take(LEN_MIN - 5000);
        assert!(room.len() == LEN_MIN - 5000 && room.capacity() < LEN_MIN, "the rest goes back");
        assert!(room.iter().all(|&byte| byte == u8::MAX), "it was touched before");
        assert!(rooms.lacks(LEN_MIN, 3) && !rooms.lacks(LEN_MIN, 2));
        // What is much shorter, and what is longer than any, is made.
        assert_eq!(rooms.take(LEN_MIN / 2), vec![0; LEN_MIN / 2]);
        assert_eq!(rooms.take(LEN_MIN + 1), vec![0; LEN_MIN + 1]);
        assert!(!rooms.lacks(LEN_MIN, 2));
        // Those of another length leave.
        rooms.fill(2 * LEN_MIN, 1);
        assert!(rooms.lacks(LEN_MIN, 1) && !rooms.lacks(2 * LEN_MIN, 1));
        rooms.clear();
        assert!(rooms.lacks(2 * LEN_MIN, 1) && !rooms.lacks(LEN_MIN - 1, 1));
    }

    #[test]
    fn what_was_lent_is_lent_again() {
        let fill = |rooms: &Rooms, len: usize, byte| {
            rooms.lend(len, |room| {
                assert_eq!(room.len(), len);
                let before = room.first().copied();
                room.fill(byte);
                before
            })
        };
        let kept = Rooms::kept();
        assert_eq!(fill(&kept, 1000, 7), Some(0));
        assert_eq!(fill(&kept, 999, 8), Some(7));
        assert_eq!(fill(&kept, 1001, 9), Some(0), "it was too short");
        // Two at once, and one that is too large to be kept.
        kept.lend(1, |_| assert_eq!(fill(&kept, 1, 1), Some(0)));
        assert_eq!(fill(&kept, LENT_MAX + 1, 1), Some(0));
        assert_eq!(fill(&kept, LENT_MAX + 1, 1), Some(0));
        kept.clear();
        assert_eq!(fill(&kept, 1000, 7), Some(0));
        let none = Rooms::none();
        assert_eq!((fill(&none, 10, 1), fill(&none, 10, 1)), (Some(0), Some(0)));
    }
}
