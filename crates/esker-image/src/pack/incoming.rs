//! Files on their way in, and the order in which it is their turn.
//!
//! Above: `data`, `packer`. Below: `look`, `ahead`. What depends on a piece alone is found out by other threads while
//! it waits. Invariant: how long something waits depends on the lengths of what came in, never on who was done first.

use std::collections::VecDeque;

use esker_stone::check::{Hash, hash_of_hashes};

use super::ahead::{Act, Ahead};
use super::category::Category;
use super::contents::Part;
use super::look::{Look, Looker};
use super::program::Code;
use super::sound::Sound;
use super::tree::NodeId;

/// Bytes that wait at most, in about.
pub(super) const WAITING_LEN: usize = 6 << 20;
/// Files are looked at together until they have so many bytes: less is not worth waking a thread.
const TOGETHER_LEN: usize = 256 << 10;
/// Bytes that a file takes besides its own, in about.
const FILE_LEN: usize = 1 << 10;

/// Bytes that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub bytes: Vec<u8>,
    /// What was found out about them, if they are a piece.
    pub look: Option<Look>,
}

impl Waiting {
    fn look_at(&mut self, looker: &Looker) {
        if !self.bytes.is_empty() {
            self.look = Some(looker.look(&self.bytes));
        }
    }
}

/// What comes next in a file.
#[derive(Debug)]
pub(super) enum Step {
    Piece(Ahead<Waiting>),
    Hole(u64),
}

/// A file on its way in.
#[derive(Debug, Default)]
pub struct Incoming {
    /// What comes before the piece at hand, and was not taken yet.
    pub(super) steps: VecDeque<Step>,
    /// Bytes of that.
    pub(super) steps_len: usize,
    pub(super) piece: Waiting,
    pub(super) parts: Vec<Part>,
    pub(super) hashes: Vec<Hash>,
    /// Pieces by their hashes, and where they begin.
    pub(super) pieces: Vec<(Hash, u64)>,
    /// What it is said to be.
    pub(super) said: Option<Category>,
    /// What its beginning says that it holds.
    pub(super) sound: Option<Sound>,
    /// And where that is code.
    pub(super) code: Vec<Code>,
    pub(super) size: u64,
    pub(super) data: u64,
    /// Its bytes wait until all of them are there.
    pub(super) whole: bool,
    /// Contents that hold the text of its streams.
    pub(super) texts: Vec<u32>,
    /// It is the text of another one.
    pub(super) text: bool,
}

impl Incoming {
    /// One that is wanted first when the image is used: its bytes lie beside those of others that are.
    #[must_use]
    pub fn hot() -> Self {
        Self { said: Some(Category::Hot), ..Self::default() }
    }

    /// Nothing was cut off from its bytes yet.
    pub(super) fn is_uncut(&self) -> bool {
        self.hashes.is_empty() && self.steps.is_empty()
    }

    /// Bytes of memory that it takes, in about.
    pub(super) const fn memory(&self) -> usize {
        self.steps_len + self.piece.bytes.len() + FILE_LEN
    }

    /// A piece waits for its turn.
    pub(super) fn put_off(&mut self, bytes: Vec<u8>, looker: &Looker) -> Act {
        self.steps_len += bytes.len();
        let piece = Waiting { bytes, look: None };
        let looker = looker.clone();
        let (ahead, act) = Ahead::new(piece, move |piece: &mut Waiting| piece.look_at(&looker));
        self.steps.push_back(Step::Piece(ahead));
        act
    }
}

/// The hash of a content, by those of its pieces.
pub(super) fn own_hash(pieces: &[Hash]) -> Hash {
    match pieces {
        [one] => *one,
        many => hash_of_hashes(many),
    }
}

/// Files all of whose bytes came in.
type Ended = VecDeque<(NodeId, Incoming)>;

fn look_at(files: &mut Ended, looker: &Looker) {
    for (_, file) in files.iter_mut().filter(|(_, file)| !file.whole) {
        file.piece.look_at(looker);
    }
}

/// Files that wait for their turn.
#[derive(Default)]
pub(super) struct Queue {
    /// Those whose turn it is.
    next: Ended,
    /// Those that are being looked at.
    looked_at: VecDeque<Ahead<Ended>>,
    /// Those that are to be, and their bytes.
    ended: Ended,
    ended_len: usize,
    /// Bytes of all of them.
    len: usize,
}

impl Queue {
    /// All of a file came in: what a thread may do now.
    pub fn push(&mut self, node: NodeId, file: Incoming, looker: &Looker) -> Option<Act> {
        let len = file.memory();
        (self.len, self.ended_len) = (self.len + len, self.ended_len + len);
        self.ended.push_back((node, file));
        if self.ended_len < TOGETHER_LEN {
            return None;
        }
        self.ended_len = 0;
        let (ended, looker) = (std::mem::take(&mut self.ended), looker.clone());
        let (ahead, act) = Ahead::new(ended, move |ended: &mut Ended| look_at(ended, &looker));
        self.looked_at.push_back(ahead);
        Some(act)
    }

    /// The next one, if more than `most` bytes wait.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn pop(&mut self, most: usize) -> super::Result<Option<(NodeId, Incoming)>> {
        if self.len <= most {
            return Ok(None);
        }
        if self.next.is_empty() {
            self.next = match self.looked_at.pop_front() {
                Some(ahead) => ahead.get()?,
                None => {
                    self.ended_len = 0;
                    std::mem::take(&mut self.ended)
                }
            };
        }
        let next = self.next.pop_front();
        self.len -= next.as_ref().map_or(0, |(_, file)| file.memory());
        Ok(next)
    }
}
