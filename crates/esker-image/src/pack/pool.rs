//! Blocks compressed by several threads, and written in their order; in between they look ahead.
//!
//! Above: `data`. Invariant: at most `room` blocks are under way, so memory is bounded however fast the input
//! comes; what is written does not depend on who was done first.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use esker_stone::check::{Hash, hash};
use esker_stone::jpeg::Strip;
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::BlockName;
use esker_stone::superblock::DATA;
use esker_stone::{Codec, Encoder, Setting, Shape, Shared, Transform};

use super::ahead::Act;
use super::category::{Category, TRIAL};
use super::code;
use super::telling::Telling;
use super::{Error, Result};

/// A strip of a picture that is not smaller by one part in so many is not worth what reading it costs.
const PICTURE_GAIN: usize = 25;

/// Most buffers that are kept for blocks that come.
pub(super) const SPARE: usize = 2;

/// A block to compress.
pub(super) struct Job {
    pub plain: Vec<u8>,
    pub setting: Setting,
    pub category: Category,
    /// What it may refer to, and which slot that has.
    pub base: Option<(u32, Arc<Shared>)>,
    /// Whether it is told in words, and in which.
    pub telling: Telling,
    /// The bytes are a recipe: length and hash of what it makes.
    pub makes: Option<(u32, Hash)>,
    /// The bytes are a strip of a picture.
    pub strip: Option<Box<Strip>>,
}

/// A block that was compressed.
struct Done {
    slot: u32,
    coded: esker_stone::Result<(Codec, Vec<u8>)>,
    row: BlockRow,
}

/// What a thread does next.
enum Work {
    Block(u32, Job),
    Ahead(Act),
}

/// What was written: the output, the blocks' rows, and how long they are.
pub(super) type Written<W> = (W, Vec<BlockRow>, u64);

/// The threads, and the blocks that came out of them.
pub(super) struct Pool<W> {
    work: Option<Sender<Work>>,
    done: Receiver<Done>,
    workers: Vec<JoinHandle<()>>,
    room: usize,
    under_way: usize,
    next_slot: u32,
    /// Done too early.
    waiting: BTreeMap<u32, Done>,
    spare: Spare,
    output: W,
    /// Bytes written.
    len: u64,
    rows: Vec<BlockRow>,
}

/// Sound in a codec of its own, if that is less than a quick trial of another one gives and comes out as it went in.
fn predicted(plain: &[u8], shape: Shape) -> Option<(Codec, Vec<u8>)> {
    let (codec, stored) =
        Setting::new(Codec::Pcm, shape.number().into()).encode(plain, &[]).ok()?;
    let trial = TRIAL.encode(plain, &[]).ok()?.1.len();
    let mut again = vec![0; plain.len()];
    let right = codec.decode(&stored, &[], &mut again).is_ok() && again == plain;
    (stored.len() < trial && right).then_some((codec, stored))
}

/// A strip of a picture in a codec of its own, if that saves enough and comes out as it went in.
fn pictured(plain: &[u8], strip: &Strip) -> Option<(Codec, Vec<u8>)> {
    let stored = strip.encode(plain)?;
    let mut again = vec![0; plain.len()];
    let right = Codec::Jpeg.decode(&stored, &[], &mut again).is_ok() && again == plain;
    (stored.len() + plain.len() / PICTURE_GAIN < plain.len() && right)
        .then_some((Codec::Jpeg, stored))
}

fn compress(encoder: &mut Encoder, slot: u32, job: &mut Job) -> Done {
    let plain_hash = job.makes.map_or_else(|| hash(&job.plain), |(_, hash)| hash);
    let transform = match (job.category, &job.base) {
        (Category::Code(machine), None) => code::filter(&mut job.plain, machine),
        _ => Transform::None,
    };
    let own = match (job.category, &job.strip) {
        (Category::Sound(shape), _) => predicted(&job.plain, shape),
        (_, Some(strip)) => pictured(&job.plain, strip),
        _ => None,
    };
    let (mut form, mut base) = (job.telling.form(&job.plain), job.base.as_ref());
    if form.is_none() && matches!(job.telling, Telling::By(_)) {
        // The base is of no use for what cannot be told in its words.
        base = None;
    }
    let bytes = form.as_ref().map_or(&job.plain, |form| &form.bytes);
    let mut coded = match (own, base) {
        (Some(own), _) => Ok(own),
        (None, Some((_, base))) => encoder.encode(bytes, base),
        (None, None) => job.setting.encode(bytes, &[]),
    };
    if base.is_some() && matches!(coded, Ok((Codec::None, _))) {
        // Without a base, its words are not known.
        coded = coded.map(|_| (Codec::None, job.plain.clone()));
        form = None;
    }
    let name = |slot| BlockName { segment: DATA, slot };
    let stored: &[u8] = coded.as_ref().map_or(&[], |(_, stored)| stored);
    let codec = coded.as_ref().map_or(Codec::None, |(codec, _)| *codec);
    let base = base.filter(|_| codec.takes_base());
    let row = BlockRow {
        at: 0,
        stored: stored.len() as u32,
        plain: job.makes.map_or(job.plain.len() as u32, |(len, _)| len),
        codec,
        transform,
        base: base.map(|(slot, _)| name(*slot)),
        checksums: BlockRow::covered(name(slot)).checksums(stored),
        hash: Some(plain_hash),
        category: job.category.number(),
        recipe: job.makes.map_or(0, |_| job.plain.len() as u32),
        words: form.as_ref().map_or(0, |form| form.bytes.len() as u32),
        sections: form.map_or_else(Vec::new, |form| form.sections),
        owner: None,
    };
    Done { slot, coded, row }
}

/// Buffers that blocks were in: to fill them with the next ones needs no new pages.
#[derive(Clone, Default)]
struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spare {
    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn keep(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < SPARE {
            all.push(buffer);
        }
    }
}

fn run(work: &Mutex<Receiver<Work>>, done: &Sender<Done>, spare: &Spare) {
    let mut encoder = Encoder::default();
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(Work::Ahead(act)) => act(),
            Ok(Work::Block(slot, mut job)) => {
                let ready = compress(&mut encoder, slot, &mut job);
                spare.keep(job.plain);
                if done.send(ready).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

impl<W: Write> Pool<W> {
    /// So many threads; `room` blocks may be under way.
    pub fn start(threads: usize, room: usize, output: W) -> Result<Self> {
        let (work, taken) = channel();
        let (finished, done) = channel();
        let taken = Arc::new(Mutex::new(taken));
        let (mut workers, spare) = (Vec::with_capacity(threads), Spare::default());
        for _ in 0..threads {
            let (taken, finished, spare) = (Arc::clone(&taken), finished.clone(), spare.clone());
            let builder = thread::Builder::new().name("esker-pack".to_owned());
            workers.push(builder.spawn(move || run(&taken, &finished, &spare))?);
        }
        Ok(Self {
            work: Some(work),
            done,
            workers,
            room: room.max(threads),
            under_way: 0,
            next_slot: 0,
            waiting: BTreeMap::new(),
            spare,
            output,
            len: 0,
            rows: Vec::new(),
        })
    }

    /// The slot that the next block gets.
    pub const fn next_slot(&self) -> u32 {
        self.next_slot
    }

    /// Stored bytes so far.
    pub const fn written(&self) -> u64 {
        self.len
    }

    /// Writes a block that another image has, as it is stored there; comes before all blocks of its own.
    pub fn adopt(&mut self, stored: &[u8], row: BlockRow) -> Result<()> {
        self.output.write_all(stored)?;
        self.rows.push(BlockRow { at: self.len, ..row });
        self.len += stored.len() as u64;
        self.next_slot = self.rows.len() as u32;
        Ok(())
    }

    /// Somewhere to put the bytes of a block.
    pub fn buffer(&self) -> Vec<u8> {
        self.spare.take()
    }

    /// Gives a block away.
    pub fn push(&mut self, job: Job) -> Result<()> {
        while self.under_way >= self.room {
            self.collect()?;
        }
        let slot = self.next_slot;
        // What would be in it is lost: this is the end of the packer.
        self.next_slot = slot.checked_add(1).ok_or(Error::Stopped)?;
        self.under_way += 1;
        self.give(Work::Block(slot, job))
    }

    /// Something that a thread may do when it comes to it.
    pub fn ahead(&self, act: Act) -> Result<()> {
        self.give(Work::Ahead(act))
    }

    fn give(&self, next: Work) -> Result<()> {
        let sent = self.work.as_ref().is_some_and(|work| work.send(next).is_ok());
        if sent { Ok(()) } else { Err(Error::Stopped) }
    }

    /// Waits for one block, and writes what can be written.
    fn collect(&mut self) -> Result<()> {
        let done = self.done.recv().map_err(|_| Error::Stopped)?;
        self.waiting.insert(done.slot, done);
        while let Some(done) = self.waiting.remove(&(self.rows.len() as u32)) {
            let (_, stored) = done.coded?;
            self.output.write_all(&stored)?;
            let row = BlockRow { at: self.len, ..done.row };
            self.len += stored.len() as u64;
            self.rows.push(row);
            self.under_way -= 1;
        }
        Ok(())
    }

    /// Waits for all blocks.
    pub fn finish(mut self) -> Result<Written<W>> {
        while self.under_way > 0 {
            self.collect()?;
        }
        self.work = None;
        for worker in self.workers.drain(..) {
            worker.join().map_err(|_| Error::Stopped)?;
        }
        Ok((self.output, self.rows, self.len))
    }
}
