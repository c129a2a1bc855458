//! A volume under a stream: which snapshot shows that it is what it was when something was received.
//!
//! Above: `volume`; the tests of streams take this file, too. Below: `esker-volume`. Invariant: a difference is made
//! only from what was received, which is compared with the snapshot that was made of it then, known by the number of
//! its commit; where that is gone, nothing is made.

use std::sync::Arc;

use esker::memory::{Base, Home};
use esker::posix::Fs;
use esker::store::Store;
use esker_volume::device::Device;
use esker_volume::stream::{About, Error, Keeper, Received, Result, is_like};
use esker_volume::{Kept, Snapped, SnapshotError};

use super::onto::Onto;

/// A file system on a volume.
type On<B, D> = Fs<Kept<Home<B>, D>>;

/// Whoever asks a volume for its snapshots.
pub struct Snapshots<'a, B: Base, D: Device> {
    fs: &'a On<B, D>,
    /// A snapshot that could not be made, or is in the way.
    pub refused: Option<(String, SnapshotError)>,
}

/// The volume as a target; what is kept next comes into the next commit.
pub fn onto<B: Base, D: Device>(fs: &On<B, D>) -> Onto<'_, impl Store> {
    let volume = fs.store().volume();
    Onto::of(fs, volume.shape().uuid, Box::new(|| volume.next_sequence()))
}

impl<'a, B: Base, D: Device> Snapshots<'a, B, D> {
    /// Of this one.
    pub const fn of(fs: &'a On<B, D>) -> Self {
        Self { fs, refused: None }
    }

    fn sequence_of(&self, name: &str) -> Option<u64> {
        self.fs.store().volume().snapshot(name).ok().map(|row| row.sequence)
    }

    fn in_the_way<T>(&mut self, name: &str, error: SnapshotError) -> Result<T> {
        self.refused = Some((name.to_owned(), error));
        Err(Error::NotEmpty)
    }

    /// Makes the snapshot of what was received; its number.
    fn make(&mut self, name: &str) -> Result<u64> {
        match self.fs.store().create_snapshot(name) {
            Ok(()) => self.sequence_of(name).ok_or(Error::State),
            Err(error) => self.in_the_way(name, error),
        }
    }

    /// The snapshot of what was received is there: that which was made then, or one that is made now, if power went
    /// before it was and nobody has changed anything since.
    fn is_kept(&mut self, known: &Received) -> Result<String> {
        let moment = known.opening()?.moment();
        let name = moment.called();
        match self.sequence_of(&name) {
            Some(sequence) if sequence == known.seal => {}
            None if self.fs.store().volume().sequence() == known.seal => {
                self.make(&name)?;
            }
            _ => return Err(Error::Forgotten(Box::new(moment))),
        }
        Ok(name)
    }

    /// Nothing was changed since that was received.
    fn is_unchanged(&mut self, known: &Received) -> Result<()> {
        let name = self.is_kept(known)?;
        let volume = Arc::clone(self.fs.store().shared());
        match Snapped::new(Arc::clone(&volume), &name) {
            Err(error) => self.in_the_way(&name, error),
            Ok(snapped) if is_like(&*volume, &snapped)? => Ok(()),
            Ok(_) => Err(Error::Changed(Vec::new())),
        }
    }
}

impl<B: Base, D: Device> Keeper for Snapshots<'_, B, D> {
    fn may(&mut self, about: &About<'_>) -> Result<()> {
        let (opening, known) = match about {
            About::Already(known) => return self.is_kept(known).map(drop),
            About::GoOn(state) => (state.opening()?, None),
            About::Begin(opening, known) => (**opening, *known),
        };
        let name = opening.moment().called();
        if self.sequence_of(&name).is_some() {
            return self.in_the_way(&name, SnapshotError::Exists);
        }
        known.map_or(Ok(()), |known| self.is_unchanged(known))
    }

    fn seal(&mut self, state: &Received) -> Result<u64> {
        self.make(&state.opening()?.moment().called())
    }
}
