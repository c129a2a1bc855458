//! A tree from a stream, in a target that knows what it received and how far it is.
//!
//! Above: the command. Below: `apply`. Invariant: what the target knows is never ahead of what is safe in it, and
//! before the first word of a step is done it knows that all before that step is done.

use std::io::Read;

use super::apply::{Target, apply};
use super::frame::{Frame, Frames, Mark};
use super::opening::{Opening, Received};
use super::words::Word;
use super::{Error, KEEP, Result, Step};

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// All of it is there now.
    Whole,
    /// It was there before.
    Already,
}

/// What a target knows of what it received.
///
/// # Errors
/// `State`; what the target says.
pub fn received(target: &mut dyn Target) -> Result<Option<Received>> {
    let bytes = target.state().map_err(|error| Error::Target(Vec::new(), error))?;
    Received::parse(&bytes)
}

/// What is to be done, before anything is changed.
pub enum About<'a> {
    /// A stream of this begins, in a target that holds nothing or what it is a difference from.
    Begin(&'a Opening, Option<&'a Received>),
    /// One goes on.
    GoOn(&'a Received),
    /// It was there before: nothing.
    Already(&'a Received),
}

/// Whoever knows more of a target than what is in it. Nobody `()` does.
pub trait Keeper {
    /// Whether it may be done.
    ///
    /// # Errors
    /// Why not.
    fn may(&mut self, about: &About<'_>) -> Result<()>;

    /// All is there and safe: makes what shows later that nothing was changed, and gives the number of that.
    ///
    /// # Errors
    /// Why that cannot be.
    fn seal(&mut self, state: &Received) -> Result<u64>;
}

impl Keeper for () {
    fn may(&mut self, _: &About<'_>) -> Result<()> {
        Ok(())
    }

    fn seal(&mut self, state: &Received) -> Result<u64> {
        Ok(state.seal)
    }
}

struct Receiving<'a> {
    target: &'a mut dyn Target,
    keeper: &'a mut dyn Keeper,
    state: Received,
    /// Some of what comes may have been done already.
    again: bool,
    /// Plain bytes since the state was kept.
    since: usize,
    /// What was left out before.
    left_out: u64,
}

/// Reads a stream to its end and makes what it tells of. The keeper is asked, before anything is changed, whether it
/// may.
///
/// # Errors
/// Everything in [`Error`]. What was taken until then is kept, and can be gone on from, but with `Target`.
pub fn receive<R: Read>(
    frames: &mut Frames<R>,
    target: &mut dyn Target,
    keeper: &mut dyn Keeper,
) -> Result<Came> {
    let known = received(target)?;
    let first = frames.next(&Mark::default())?;
    let opening = opened(&first)?;
    let begun = begun(&first, &opening, known.as_ref(), target)?;
    let Some((mut state, again)) = begun else {
        known.map_or(Ok(()), |known| keeper.may(&About::Already(&known)))?;
        return Ok(Came::Already);
    };
    state.home = target.home().0;
    let left_out = state.left_out;
    let mut receiving = Receiving { target, keeper, state, again, since: 0, left_out };
    if again {
        receiving.keeper.may(&About::GoOn(&receiving.state))?;
    } else {
        receiving.is_clear(Error::InTheWay)?;
        receiving.keeper.may(&About::Begin(&opening, known.as_ref()))?;
        receiving.keep()?;
    }
    let done = receiving.rest(frames);
    if done.is_err() && receiving.since > 0 {
        // What was refused is told; that this could not be kept costs only that it is done again.
        let _ = receiving.keep();
    }
    done?;
    if frames.is_at_end()? { Ok(Came::Whole) } else { Err(Error::More) }
}

/// What the first frame of a stream tells.
///
/// # Errors
/// `Version`, `Damaged`.
pub fn opened(first: &Frame) -> Result<Opening> {
    if first.step != Step::Open || first.number != 0 {
        return Err(Error::Damaged(first.number));
    }
    Opening::parse(&first.plain)
}

/// Where the target goes on, and whether it was there before; nowhere if it has all already.
fn begun(
    first: &Frame,
    opening: &Opening,
    known: Option<&Received>,
    target: &mut dyn Target,
) -> Result<Option<(Received, bool)>> {
    let fresh = Received::begun(opening, first.mark());
    let Some(known) = known else {
        if let Some(base) = opening.base() {
            return Err(Error::NeedsBase(Box::new(base)));
        }
        let empty = target.is_empty().map_err(|error| Error::Target(Vec::new(), error))?;
        return if empty { Ok(Some((fresh, false))) } else { Err(Error::NotEmpty) };
    };
    let has = known.opening()?;
    if known.home != target.home().0 {
        return Err(Error::Copied(Box::new(has.moment())));
    }
    if known.whole == 0 {
        let same = known.opening == opening.encode();
        let halfway = || Error::Halfway(Box::new(has.moment()));
        return if same { Ok(Some((*known, true))) } else { Err(halfway()) };
    }
    if has.moment().is(&opening.moment()) {
        return Ok(None);
    }
    match opening.base() {
        Some(base) if base.is(&has.moment()) => Ok(Some((fresh, false))),
        Some(base) => Err(Error::OtherBase(Box::new([has.moment(), base]))),
        None => Err(Error::NotEmpty),
    }
}

impl Receiving<'_> {
    /// Nothing may lie aside but while a stream is on its way.
    fn is_clear(&mut self, error: impl FnOnce(Vec<u8>) -> Error) -> Result<()> {
        let aside = self.target.aside().map_err(|error| Error::Target(Vec::new(), error))?;
        aside.map_or(Ok(()), |path| Err(error(path)))
    }

    fn keep(&mut self) -> Result<()> {
        self.state.left_out = self.left_out.saturating_add(self.target.left_out());
        let kept = self.target.keep(&self.state.sealed());
        self.since = 0;
        kept.map_err(|error| Error::Target(Vec::new(), error))
    }

    fn rest<R: Read>(&mut self, frames: &mut Frames<R>) -> Result<()> {
        loop {
            let known = self.state.mark();
            let frame = frames.next(&known)?;
            if frame.number < known.frames {
                if frame.mark().frames == known.frames && frame.chain != known.chain {
                    return Err(Error::OtherStream);
                }
                continue;
            }
            self.one(&frame)?;
            if frame.step == Step::End {
                return self.seal();
            }
        }
    }

    /// All that was done is said to be whole, and then sealed.
    fn seal(&mut self) -> Result<()> {
        let seal = self.keeper.seal(&self.state)?;
        if seal == self.state.seal {
            return Ok(());
        }
        self.state.seal = seal;
        self.keep()
    }

    fn one(&mut self, frame: &Frame) -> Result<()> {
        let step = frame.step as u32;
        if step < self.state.step {
            return Err(Error::Damaged(frame.number));
        }
        let words = words(frame)?;
        if step > self.state.step {
            self.state.step = step;
            self.keep()?;
            self.again = false;
        }
        for word in &words {
            apply(self.target, word, self.again)?;
        }
        let mark = frame.mark();
        (self.state.frames, self.state.chain) = (mark.frames, mark.chain);
        self.since += frame.plain.len();
        if frame.step == Step::End {
            self.is_clear(|_| Error::Damaged(frame.number))?;
            // All else is safe since the step began: the next commit is that of this alone.
            (self.state.whole, self.state.seal) = (1, self.target.home().1);
        }
        if self.since >= KEEP || frame.step == Step::End {
            self.keep()?;
        }
        Ok(())
    }
}

/// All words of a frame.
fn words(frame: &Frame) -> Result<Vec<Word<'_>>> {
    let damaged = Error::Damaged(frame.number);
    let (mut bytes, mut words) = (frame.plain.as_slice(), Vec::new());
    while !bytes.is_empty() {
        match Word::take(&mut bytes) {
            Some(Word::End) if !words.is_empty() => return Err(damaged),
            Some(word) if word.is_of(frame.step) => words.push(word),
            _ => return Err(damaged),
        }
    }
    if words.is_empty() { Err(damaged) } else { Ok(words) }
}

/// Reads a stream to its end and checks all of it; what it is of, and how far it goes.
///
/// # Errors
/// Those of reading it.
pub fn verify<R: Read>(frames: &mut Frames<R>) -> Result<(Opening, Mark)> {
    let first = frames.next(&Mark::default())?;
    let opening = opened(&first)?;
    let mut before = (Step::Clear, first.mark());
    loop {
        let frame = frames.next(&before.1)?;
        if frame.step < before.0 {
            return Err(Error::Damaged(frame.number));
        }
        words(&frame)?;
        before = (frame.step, frame.mark());
        if frame.step == Step::End {
            return if frames.is_at_end()? { Ok((opening, before.1)) } else { Err(Error::More) };
        }
    }
}
