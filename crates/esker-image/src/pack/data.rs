//! Bytes of files: cut into pieces, each stored once, gathered into blocks.
//!
//! Above: `packer`. Below: `contents`, `repeats`, `units`, `order`, `spool`, `pool`. A piece that was there before is
//! known by its hash; of others, stretches that were there before are found byte by byte. What is left goes to the
//! spool, unit by unit, and from there into blocks: in its order as it comes, or at the end in an order that puts like
//! to like. Invariant: a unit that was placed is in a block that has been, or will be, given to the pool.

mod drawn;
mod pictures;

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use esker_stone::check::{Hash, hash};
use esker_stone::deflate::Run;
use esker_stone::jpeg::Strip;
use esker_stone::rows::extents::{BlockName, Piece};
use esker_stone::superblock::{DATA, ENCODERS};
use esker_stone::{Setting, Shared};

use super::category::Category;
use super::contents::{Contents, Part, Source, join};
use super::explain::Choices;
use super::incoming::{Incoming, Queue, Step, WAITING_LEN, Waiting, own_hash};
use super::look::{Look, Looked, Looker};
use super::made::Making;
use super::needs::Share;
use super::own::Owns;
use super::pool::{Job, Pool, Written};
use super::program::{self, Code};
use super::repeats::{Grain, Repeats, Stretch};
use super::scratch::Scratches;
use super::sound;
use super::spool::Spool;
use super::telling::Telling;
use super::tree::NodeId;
use super::units::{UnitId, Units};
use super::unpack::{FILE_MAX, Streams, Unpacked, begins};
use super::{Error, Options, Result, Sharing};
use crate::Image;

/// Plain bytes that are hashed as one, and known again by that.
pub(super) const PIECE_LEN: usize = 1 << 20;
/// Bytes beside streams that are kept with what makes these; more are stored as any other.
const APART_MAX: usize = 1024;

/// Bytes of the tables that strips of a picture share, in about.
const STRIP_TABLES_LEN: usize = 1024;

/// What a file holds: the number of its content, its size, and how much of it is data.
pub(super) type Held = (u32, u64, u64);

/// Everything about the bytes.
pub(super) struct Data<W> {
    pool: Pool<W>,
    setting: Setting,
    block_len: usize,
    owns: Owns,
    alike: bool,
    sharing: Option<Sharing>,
    /// Whether sound, and code, are told from other bytes.
    hears: bool,
    knows_code: bool,
    /// What the usual blocks of the group at hand may refer to, and its slot.
    shared: Option<(u32, Arc<Shared>)>,
    /// How blocks of the group at hand are told.
    telling: Telling,
    spool: Spool,
    repeats: Option<Repeats>,
    units: Units,
    /// The block that is being filled, of each category.
    open: [Open; Category::NAMES.len()],
    /// How many blocks were begun.
    begun: u32,
    /// The slot of each block, in the order in which they were begun.
    slots: Vec<u32>,
    /// Where units came to lie, those that have a place: which block, by that order, and where in it.
    places: Vec<(u32, u32)>,
    contents: Contents,
    /// Blocks that are made of text, if streams are unpacked.
    making: Option<Making>,
    /// Strips of pictures, by their units, if they are looked for.
    pictures: Option<HashMap<UnitId, Box<Strip>>>,
    threads: usize,
    /// Who finds out about pieces what can be known beforehand, and files that wait for that.
    looker: Looker,
    queue: Queue,
    /// What was chosen so far.
    choices: Choices,
    /// How blocks of each category are compressed that has any.
    pub settings: [Option<Setting>; Category::NAMES.len()],
    /// Whether blocks are made as encoders beside zlib would.
    pub encoders: bool,
    /// Bytes that were there already.
    pub saved: u64,
    /// Bytes of all blocks.
    pub stored_plain: u64,
    /// Largest block.
    pub largest: u64,
}

/// A block that is being filled.
struct Open {
    number: u32,
    plain: Vec<u8>,
    category: Category,
    /// The strip of a picture that it is.
    strip: Option<Box<Strip>>,
}

impl Default for Open {
    fn default() -> Self {
        Self { number: 0, plain: Vec::new(), category: Category::Usual, strip: None }
    }
}

impl<W: Write> Data<W> {
    pub fn start(
        options: &Options,
        share: &Share,
        output: W,
        scratches: Scratches<'_>,
    ) -> Result<Self> {
        Ok(Self {
            pool: Pool::start(share.threads, share.room, output)?,
            setting: options.data,
            block_len: options.block_len,
            owns: options.owns,
            alike: options.alike,
            sharing: options.shares(),
            hears: options.tries(),
            knows_code: options.knows_code(),
            shared: None,
            telling: Telling::Plain,
            spool: Spool::new(scratches()?),
            repeats: options.repeats.map(|least| Repeats::new(least, !options.alike)),
            units: Units::new(options.block_len, options.alike, options.knows_text()),
            open: Default::default(),
            begun: 0,
            slots: Vec::new(),
            places: Vec::new(),
            contents: Contents::new(scratches)?,
            making: options.unpack.map(|_| Making::default()),
            pictures: options.pictures.then(HashMap::new),
            threads: share.threads,
            looker: Looker::new(options.repeats.is_some()),
            queue: Queue::default(),
            choices: Choices {
                repeats: options.repeats,
                stream_max: options.unpack,
                ..Choices::default()
            },
            settings: [None; Category::NAMES.len()],
            encoders: false,
            saved: 0,
            stored_plain: 0,
            largest: 0,
        })
    }

    /// Bytes that the tables take, in about.
    pub fn bytes(&self) -> u64 {
        let repeats = self.repeats.as_ref().map_or(0, Repeats::memory);
        let places = self.places.capacity() as u64 * 8;
        let making = self.making.as_ref().map_or(0, Making::memory);
        let strip_len = size_of::<Strip>() + STRIP_TABLES_LEN;
        let pictures = self.pictures.as_ref().map_or(0, |all| (all.len() * strip_len) as u64);
        making
            + pictures
            + self.contents.memory()
            + self.spool.memory()
            + self.units.memory()
            + repeats
            + places
    }

    /// Stored bytes so far.
    pub const fn written(&self) -> u64 {
        self.pool.written()
    }

    /// A piece that is stored in a base.
    pub fn know(&mut self, piece: &Hash, places: &[Piece]) -> Result<()> {
        self.contents.base_piece(piece, places)
    }

    /// More bytes of a file. Pieces of it that are whole wait for their turn.
    pub fn data(&mut self, file: &mut Incoming, mut bytes: &[u8]) -> Result<()> {
        file.size += bytes.len() as u64;
        file.data += bytes.len() as u64;
        while !bytes.is_empty() {
            let most = if file.whole { FILE_MAX } else { PIECE_LEN };
            let room = most - file.piece.bytes.len();
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            file.piece.bytes.extend_from_slice(now);
            bytes = rest;
            if file.piece.bytes.len() == most {
                if file.whole && begins(&file.piece.bytes) {
                    self.choices.left.large += 1;
                }
                file.whole = !file.whole && (self.may_unpack(file) || self.may_be_picture(file));
                if !file.whole {
                    self.put_off(file)?;
                }
            }
        }
        Ok(())
    }

    /// The bytes at hand, which may be more than a piece, wait for their turn.
    fn put_off(&mut self, file: &mut Incoming) -> Result<()> {
        file.whole = false;
        let bytes = std::mem::take(&mut file.piece.bytes);
        if bytes.len() <= PIECE_LEN {
            return if bytes.is_empty() { Ok(()) } else { self.put_off_piece(file, bytes) };
        }
        bytes.chunks(PIECE_LEN).try_for_each(|piece| self.put_off_piece(file, piece.to_vec()))
    }

    fn put_off_piece(&self, file: &mut Incoming, bytes: Vec<u8>) -> Result<()> {
        self.pool.ahead(file.put_off(bytes, &self.looker))
    }

    /// Takes what comes first of a file of which more waits than may; none waits before it.
    pub fn take_some_of(&mut self, file: &mut Incoming) -> Result<()> {
        while file.steps_len > WAITING_LEN {
            self.take_step(file)?;
        }
        Ok(())
    }

    /// Takes what comes next of a file: whether there was something.
    fn take_step(&mut self, file: &mut Incoming) -> Result<bool> {
        match file.steps.pop_front() {
            Some(Step::Piece(ahead)) => {
                let Waiting { bytes, look } = ahead.get()?;
                file.steps_len -= bytes.len();
                self.cut(file, &bytes, look)?;
            }
            Some(Step::Hole(len)) => self.take_hole(file, len),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Whether a file may hold streams of which none was taken yet.
    fn may_unpack(&self, file: &Incoming) -> bool {
        let room = self.making.as_ref().is_some_and(Making::has_room);
        room && !file.text && file.said.is_none() && file.is_uncut() && begins(&file.piece.bytes)
    }

    /// Takes bytes of a file that lie beside what was found in it.
    fn beside(&mut self, file: &mut Incoming, bytes: &[u8]) -> Result<()> {
        bytes.chunks(PIECE_LEN).try_for_each(|piece| {
            let anchors = self.looker.anchors(piece);
            self.take(file, Looked::new(piece, &anchors))
        })
    }

    /// Ends the bytes at hand, which may be more than a piece; what was found out is of no more than one.
    fn cut_all(&mut self, file: &mut Incoming) -> Result<()> {
        file.whole = false;
        let Waiting { bytes, mut look } = std::mem::take(&mut file.piece);
        bytes.chunks(PIECE_LEN).try_for_each(|piece| self.cut(file, piece, look.take()))
    }

    /// Unpacks the streams of a file whose bytes are all at hand, and stores it as what makes them again. `false`:
    /// there are none that are worth it.
    fn unpack(&mut self, file: &mut Incoming) -> Result<bool> {
        let pieces: Vec<_> = file.piece.bytes.chunks(PIECE_LEN).map(hash).collect();
        if self.contents.knows(&own_hash(&pieces))? {
            return Ok(false);
        }
        let bytes = std::mem::take(&mut file.piece.bytes);
        let mut at = 0;
        let len_max = self.choices.stream_max.unwrap_or(0);
        let setting = self.owns.setting(Category::Text, self.setting);
        let mut streams = Streams::of(&bytes, len_max, setting, self.threads);
        for stream in streams.by_ref() {
            let start = stream.spans.first().map_or(at, |span| span.start);
            self.apart(file, &bytes[at..start])?;
            let said = Some(Category::Text);
            let mut text = Incoming { text: true, said, ..Incoming::default() };
            let mut pieces = stream.text.chunks(PIECE_LEN);
            pieces.try_for_each(|piece| self.cut(&mut text, piece, None))?;
            self.units.end_file();
            let content = self.contents.text(&text.parts, &text.pieces)?;
            file.texts.push(content);
            self.choices.unpacked +=
                stream.runs.iter().map(|run| run.bytes.len() as u64).sum::<u64>();
            self.choices.text += stream.text.len() as u64;
            let mut made = self.made_of(&stream, content).into_iter();
            let mut next = made.next();
            at = start;
            for span in &stream.spans {
                self.apart(file, &bytes[at..span.start])?;
                let mut left = span.len() as u64;
                while let Some(part) = next.filter(|_| left > 0) {
                    let now = left.min(part.len);
                    join(&mut file.parts, Part { len: now, ..part });
                    left -= now;
                    next = part.behind(now).or_else(|| made.next());
                }
                at = span.end;
            }
        }
        self.choices.left.join(&streams.left);
        if at == 0 {
            file.piece.bytes = bytes;
            return Ok(false);
        }
        self.apart(file, &bytes[at..])?;
        let starts = (0u64..).step_by(PIECE_LEN);
        file.pieces = pieces.iter().copied().zip(starts).collect();
        file.hashes = pieces;
        Ok(true)
    }

    /// Makes a stream of the text that a content holds: where its bytes come to lie.
    fn made_of(&mut self, stream: &Unpacked<'_>, content: u32) -> Vec<Part> {
        let Some(making) = &mut self.making else { return Vec::new() };
        let part = |run: &Run| {
            let own = &stream.bytes[run.bytes.clone()];
            let (number, offset) = making.run(own, run, content);
            Part { len: own.len() as u64, source: Source::Made(number, offset) }
        };
        stream.runs.iter().map(part).filter(|part| part.len > 0).collect()
    }

    /// Bytes of a file beside its streams: a few of them are kept with what makes these.
    fn apart(&mut self, file: &mut Incoming, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= APART_MAX {
            if let Some(making) = self.making.as_mut().filter(|_| !bytes.is_empty()) {
                let (number, offset) = making.raw(bytes);
                let part = Part { len: bytes.len() as u64, source: Source::Made(number, offset) };
                join(&mut file.parts, part);
            }
            return Ok(());
        }
        self.beside(file, bytes)
    }

    /// A hole in a file.
    pub fn hole(&mut self, file: &mut Incoming, len: u64) -> Result<()> {
        if len > 0 {
            self.put_off(file)?;
            file.size += len;
            file.steps.push_back(Step::Hole(len));
        }
        Ok(())
    }

    fn take_hole(&self, file: &mut Incoming, len: u64) {
        let mut words = [0; 32];
        words[..8].copy_from_slice(&len.to_le_bytes());
        words[8..12].copy_from_slice(b"hole");
        file.hashes.push(words);
        file.parts.push(Part { len, source: Source::Hole });
    }

    /// Cuts a piece off: stores what is new in it.
    fn cut(&mut self, file: &mut Incoming, bytes: &[u8], look: Option<Look>) -> Result<()> {
        if file.hashes.is_empty() && file.said.is_none() && self.hears {
            file.sound = sound::found(bytes);
            if self.knows_code {
                file.code = program::found(bytes);
            }
        }
        let look = look.unwrap_or_else(|| self.looker.look(bytes));
        let own = look.hash;
        let len = bytes.len() as u64;
        file.pieces.push((own, file.parts.iter().map(|part| part.len).sum()));
        let seen = match file.text {
            true => self.contents.seen_in_spool(&own, len)?,
            false => self.contents.seen(&own, len)?,
        };
        if let Some(seen) = seen {
            self.saved += len;
            seen.into_iter().for_each(|part| join(&mut file.parts, part));
        } else {
            let anchors = look.anchors.unwrap_or_else(|| self.looker.anchors(bytes));
            self.take(file, Looked::new(bytes, &anchors))?;
            self.looker.took(&own);
        }
        file.hashes.push(own);
        Ok(())
    }

    /// Takes a piece that was not there before as a whole.
    fn take(&mut self, file: &mut Incoming, piece: Looked<'_>) -> Result<()> {
        let len = piece.bytes.len();
        let from: u64 = file.parts.iter().map(|part| part.len).sum();
        let sound = file.sound.clone();
        let inside = |at: u64| at.saturating_sub(from).min(len as u64) as usize;
        let own =
            sound.as_ref().map_or(0..0, |sound| inside(sound.bytes.start)..inside(sound.bytes.end));
        self.take_some(file, piece.part(0..own.start), from)?;
        if let Some(sound) = sound.filter(|_| !own.is_empty()) {
            let said = Some(Category::Sound(sound.shape));
            let begins = from + own.start as u64 - sound.bytes.start;
            self.take_apart(file, piece.part(own.clone()), said, begins)?;
        }
        self.take_some(file, piece.part(own.end..len), from + own.end as u64)?;
        self.place_some()
    }

    /// Takes bytes that lie at `from` in their file: code apart from what is none.
    fn take_some(&mut self, file: &mut Incoming, looked: Looked<'_>, from: u64) -> Result<()> {
        let (mut at, len) = (0, looked.bytes.len());
        for Code { machine, bytes: own } in file.code.clone() {
            let inside = |place: u64| place.saturating_sub(from).min(len as u64) as usize;
            let (start, end) = (inside(own.start).max(at), inside(own.end));
            if start < end {
                self.take_apart(file, looked.part(at..start), file.said, 0)?;
                let said = Some(Category::Code(machine));
                let begins = from + start as u64 - own.start;
                self.take_apart(file, looked.part(start..end), said, begins)?;
                at = end;
            }
        }
        self.take_apart(file, looked.part(at..len), file.said, 0)
    }

    /// Takes bytes apart into what is new and what was there before. They may be said to be something, and lie at
    /// `from` in what is.
    fn take_apart(
        &mut self,
        file: &mut Incoming,
        looked: Looked<'_>,
        said: Option<Category>,
        from: u64,
    ) -> Result<()> {
        let bytes = looked.bytes;
        let (mut address, mut at) = (self.spool.len(), 0);
        let stretches = match &mut self.repeats {
            _ if bytes.is_empty() => Vec::new(),
            Some(repeats) => {
                let behind = file.parts.last().and_then(|last| match last.source {
                    Source::Again(at) if at + last.len < address => Some(at + last.len),
                    _ => None,
                });
                repeats.take(looked, Grain::of(said, from), behind, &mut self.spool)?
            }
            None => {
                // Where they come in their order, and nothing is looked for, nobody reads them again.
                match self.alike {
                    true => self.spool.append(bytes)?,
                    false => self.spool.pass(bytes.len()),
                }
                vec![Stretch::New(bytes.len())]
            }
        };
        for stretch in stretches {
            let (source, len) = match stretch {
                Stretch::Known(at, len) => {
                    self.saved += len as u64;
                    self.choices.repeated += len as u64;
                    (Source::Again(at), len)
                }
                Stretch::New(len) => {
                    self.units.push(&bytes[at..at + len], said, from + at as u64);
                    address += len as u64;
                    (Source::Spool(address - len as u64), len)
                }
            };
            at += len;
            let part = Part { len: len as u64, source };
            join(&mut file.parts, part);
        }
        Ok(())
    }

    /// Gives units that have ended their places, if they come in their order.
    fn place_some(&mut self) -> Result<()> {
        while !self.alike && self.places.len() < self.units.count() {
            let place = self.place(self.places.len() as UnitId)?;
            self.places.push(place);
        }
        // In another order they come from the spool.
        self.units.let_go(self.units.count() as UnitId);
        Ok(())
    }

    /// Most bytes of a block, with a base or without.
    fn block_len_of(&self, category: Category, has_base: bool) -> usize {
        let usual = || category.block_len(self.block_len, has_base);
        self.owns.of(category).block_len.unwrap_or_else(usual)
    }

    /// Puts a unit into the block at hand of its category, or the next one.
    fn place(&mut self, unit: UnitId) -> Result<(u32, u32)> {
        let (start, end) = self.units.range(unit);
        let (len, category) = ((end - start) as usize, self.units.category(unit));
        if category != Category::Hot {
            // What is wanted first comes first, and nothing between it.
            self.close(Category::Hot)?;
        }
        let open = &self.open[category.number() as usize];
        let filled = self.units.place(unit, open.plain.len());
        let block_len = self.block_len_of(category, self.shared.is_some());
        if filled + len > block_len || open.category != category {
            self.close(category)?;
        }
        self.put(unit)
    }

    /// Puts a unit into the block at hand of its category.
    fn put(&mut self, unit: UnitId) -> Result<(u32, u32)> {
        let (start, end) = self.units.range(unit);
        let (len, category) = ((end - start) as usize, self.units.category(unit));
        let open = &mut self.open[category.number() as usize];
        if open.plain.is_empty() {
            open.plain = self.pool.buffer();
            open.number = self.begun;
            open.category = category;
            open.strip = self.pictures.as_mut().and_then(|all| all.remove(&unit));
            self.begun += 1;
        }
        let offset = self.units.place(unit, open.plain.len());
        open.plain.resize(offset, 0);
        if self.alike {
            self.spool.read_behind(start, len, &mut open.plain)?;
        } else {
            open.plain.extend_from_slice(self.units.bytes(unit));
        }
        Ok((open.number, offset as u32))
    }

    /// Gives the block to the pool that is being filled where those of a category are.
    fn close(&mut self, category: Category) -> Result<()> {
        self.close_told(category.number() as usize, None)
    }

    /// The same, told as `own` says, if that says something.
    fn close_told(&mut self, category: usize, own: Option<Telling>) -> Result<()> {
        let Open { number, plain, category, strip } = std::mem::take(&mut self.open[category]);
        if plain.is_empty() {
            return Ok(());
        }
        self.stored_plain += plain.len() as u64;
        self.largest = self.largest.max(plain.len() as u64);
        let number = number as usize;
        self.slots.resize(self.slots.len().max(number + 1), 0);
        self.slots[number] = self.pool.next_slot();
        let (base, setting) = (self.shared.clone(), self.owns.setting(category, self.setting));
        let base = base.filter(|_| self.owns.is_drawn(category) && setting.codec.takes_base());
        let telling = own.unwrap_or_else(|| match &base {
            Some(_) => self.telling.clone(),
            None if category.is_told() => Telling::Own,
            None => Telling::Plain,
        });
        self.push(Job { plain, setting, category, base, telling, makes: None, strip })
    }

    fn push(&mut self, job: Job) -> Result<()> {
        self.settings[job.category.number() as usize] = Some(job.setting);
        self.pool.push(job)
    }

    /// Takes over all blocks of an image, as they are stored there, each checked.
    pub fn adopt(&mut self, image: &Image) -> Result<()> {
        let top = match image.root().indexes[..] {
            // There is nothing in any file.
            [] => return Ok(()),
            [(DATA, top)] => top,
            _ => return Err(esker::Error::NotSupported.into()),
        };
        for slot in 0..u32::try_from(top.entries).map_err(|_| esker::Error::NotSupported)? {
            let name = BlockName { segment: DATA, slot };
            let row = image.block_row(name).map_err(Error::Image)?;
            let stored = image.rest().stored_block(name, &row).map_err(Error::Image)?;
            self.stored_plain += u64::from(row.plain);
            self.largest = self.largest.max(row.plain.into());
            self.pool.adopt(&stored, row)?;
        }
        self.encoders = image.rest().superblock().incompatible & ENCODERS > 0;
        Ok(())
    }

    /// A file whose bytes are in blocks that were taken over: as [`finish_file`](Self::finish_file).
    pub fn adopt_file(&mut self, pieces: &[Piece]) -> Result<Held> {
        let (mut parts, mut words) = (Vec::new(), Vec::new());
        let (mut size, mut data) = (0, 0);
        for &Piece { len, place } in pieces {
            size += len;
            data += if place.is_some() { len } else { 0 };
            let (segment, slot, offset) = place
                .map_or((0, 0, 0), |place| (place.block.segment, place.block.slot, place.offset));
            for word in [len, segment, slot.into(), offset.into()] {
                words.extend(word.to_le_bytes());
            }
            parts.push(Part { len, source: place.map_or(Source::Hole, Source::There) });
        }
        Ok((self.contents.number(hash(&words), &parts, &[])?, size, data))
    }

    /// All of a file came in: it waits for its turn.
    pub fn end_file(&mut self, node: NodeId, file: Incoming) -> Result<()> {
        match self.queue.push(node, file, &self.looker) {
            Some(act) => self.pool.ahead(act),
            None => Ok(()),
        }
    }

    /// Ends the next file if more than `most` bytes wait: its node, and what it holds.
    pub fn next_file(&mut self, most: usize) -> Result<Option<(NodeId, Held)>> {
        let Some((node, file)) = self.queue.pop(most)? else { return Ok(None) };
        Ok(Some((node, self.finish_file(file)?)))
    }

    fn finish_file(&mut self, mut file: Incoming) -> Result<Held> {
        while self.take_step(&mut file)? {}
        let taken = (self.may_unpack(&file) && self.unpack(&mut file)?)
            || (self.may_be_picture(&file) && self.take_picture(&mut file)?);
        if !taken {
            self.cut_all(&mut file)?;
        }
        self.units.end_file();
        self.place_some()?;
        let own = own_hash(&file.hashes);
        let content = self.contents.number(own, &file.parts, &file.pieces)?;
        file.texts.iter().for_each(|&text| self.contents.made_of(content, text));
        Ok((content, file.size, file.data))
    }

    /// What was chosen.
    pub fn choices(&self) -> Choices {
        Choices { units: self.units.count() as u64, ..self.choices.clone() }
    }

    /// What files hold.
    pub const fn contents(&mut self) -> &mut Contents {
        &mut self.contents
    }

    /// The pieces of a content; every unit must have its place.
    pub fn pieces(&mut self, content: u32) -> Result<Vec<Piece>> {
        self.contents.pieces(content, &self.units)
    }

    /// Places all units and gives the last blocks away; nothing may come in any more, but pieces can be asked for.
    pub fn flush(&mut self) -> Result<()> {
        self.units.close();
        // What was remembered is not needed any more, and blocks want the memory.
        self.repeats = None;
        self.contents.forget();
        if self.alike {
            self.place_alike()?;
        } else {
            self.place_some()?;
        }
        for category in 0..Category::NAMES.len() {
            self.close_told(category, None)?;
        }
        let slot = |(number, offset)| (self.slots[number as usize], offset);
        let places = std::mem::take(&mut self.places).into_iter().map(slot).collect();
        self.contents.lie(places);
        self.give_made()
    }

    /// Gives all blocks to the pool that are made, now that it is known where their text lies.
    fn give_made(&mut self) -> Result<()> {
        self.contents.make_from(self.pool.next_slot());
        self.encoders |= self.making.as_ref().is_some_and(Making::has_others);
        for made in self.making.take().map_or_else(Vec::new, Making::finish) {
            let mut text = Vec::new();
            for own in made.text {
                text.extend(self.contents.ingredients(own, &self.units)?);
            }
            let plain = made.steps.recipe(&text);
            self.stored_plain += u64::from(made.len);
            self.largest = self.largest.max(made.len.into());
            let makes = Some((made.len, made.hash));
            let category = Category::Made;
            self.push(Job {
                plain,
                setting: self.setting,
                category,
                base: None,
                telling: Telling::Plain,
                makes,
                strip: None,
            })?;
        }
        Ok(())
    }

    /// Waits for everything to be written.
    pub fn finish(self) -> Result<(Written<W>, Contents, Units)> {
        Ok((self.pool.finish()?, self.contents, self.units))
    }
}
