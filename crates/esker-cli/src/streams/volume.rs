//! A volume as the target of a stream: in the end it has a snapshot of the same name.
//!
//! Above: `streams`. Below: `volumes`, `esker-volume`. Invariant: a difference is made only from what was received,
//! which is compared with the snapshot of it, if that is still there.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use esker_volume::stream::{Error, Frames, Opening, Received, is_like, receive as take, received};
use esker_volume::{Snapped, SnapshotError};

use super::onto::Onto;
use super::{Done, Paths};
use crate::failure::Outcome;
use crate::options::Options;
use crate::units::ram;
use crate::volumes::{self, Writable, snapshots};

/// A volume that a stream goes into.
struct Into(Arc<Writable>);

impl Into {
    /// This one, for nobody else as long as it is open.
    fn open(path: &Path) -> Outcome<Self> {
        Ok(Self(volumes::writable(path, &Options::parse(&[], ram())?)?))
    }

    /// What it knows of what it received.
    fn known(&self) -> esker_volume::stream::Result<Option<Received>> {
        received(&mut Onto::new(&self.0))
    }

    fn has(&self, name: &str) -> bool {
        self.0.store().volume().snapshot(name).is_ok()
    }

    /// Whether a stream of this may begin.
    fn may_begin(&self, opening: &Opening) -> Result<(), Refused> {
        let name = opening.moment().called();
        if self.has(&name) {
            return Err(Refused::Snapshot(name, SnapshotError::Exists));
        }
        let known = self.known().map_err(Refused::Stream)?;
        let base = known.and_then(|known| known.opening().ok()).map(|own| own.moment().called());
        let Some(base) = base.filter(|base| self.has(base)) else { return Ok(()) };
        let volume = self.0.store().shared();
        let snapped = Snapped::new(Arc::clone(volume), &base);
        let snapped = snapped.map_err(|error| Refused::Snapshot(base, error))?;
        match is_like(&**volume, &snapped) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refused::Stream(Error::Changed(Vec::new()))),
            Err(error) => Err(Refused::Stream(error)),
        }
    }
}

/// Why a stream may not begin.
enum Refused {
    Stream(Error),
    Snapshot(String, SnapshotError),
}

/// Receives into a volume that is not mounted.
pub fn receive<R: Read>(paths: &Paths<'_>, frames: &mut Frames<R>) -> Outcome<Done> {
    let into = Into::open(paths.target)?;
    let mut refused = None;
    let came = take(frames, &mut Onto::new(&into.0), &mut |opening| {
        into.may_begin(opening).map_err(|error| match error {
            Refused::Stream(error) => error,
            Refused::Snapshot(name, error) => {
                refused = Some(snapshots::refused(paths.target, &name, error));
                Error::NotEmpty
            }
        })
    });
    if let Some(failure) = refused {
        return Err(failure);
    }
    let came = came.map_err(|error| paths.failure(error))?;
    let known = into.known().and_then(|known| known.ok_or(Error::State));
    let opening = known.and_then(|known| known.opening());
    let opening = opening.map_err(|error| paths.failure(error))?;
    let name = opening.moment().called();
    if !into.has(&name) {
        let made = into.0.store().create_snapshot(&name);
        made.map_err(|error| snapshots::refused(paths.target, &name, error))?;
    }
    let home = into.0.store();
    let safe = home.write().and_then(|()| home.volume().close());
    safe.map_err(|error| volumes::failure(paths.target, &error))?;
    Ok(Done { opening, came, left_out: (Vec::new(), 0) })
}

/// What a volume knows of what it received.
pub fn have(path: &Path) -> Outcome<Option<Received>> {
    let paths = Paths { stream: path, target: path };
    Into::open(path)?.known().map_err(|error| paths.failure(error))
}
