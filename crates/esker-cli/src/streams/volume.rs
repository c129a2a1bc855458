//! A volume as the target of a stream: in the end it has a snapshot of the same name.
//!
//! Above: `streams`, `image`. Below: `keeper`, `volumes`. Invariant: nobody else has the volume meanwhile.

use std::io::Read;
use std::path::Path;

use esker::store::View;
use esker::{Error as Refusal, Ino, Name};
use esker_volume::SnapshotError;
use esker_volume::stream::{
    Error, Frames, Keeper as _, OWN, Received, Target as _, receive as take, received,
};

use super::keeper::{Snapshots, onto};
use super::onto::{STATE, STATE_MAX};
use super::{Done, Paths};
use crate::failure::{Exit, Failure, Outcome};
use crate::options::Options;
use crate::units::ram;
use crate::volumes::{self, Writable};

/// What is wrong with a snapshot, for a person, or else with the stream.
fn told(paths: &Paths<'_>, refused: Option<(String, SnapshotError)>, error: Error) -> Failure {
    let at = |what: &str, remedy| Failure::at(Exit::Failed, what, paths.target, remedy);
    match refused {
        None => paths.failure(error),
        Some((name, SnapshotError::Exists)) => {
            let what = format!("there is a snapshot called {name}, as what comes will be");
            at(&what, "delete it")
        }
        Some((name, SnapshotError::NoRoom)) => {
            let what = format!("no room for the snapshot {name}");
            at(&what, "make the volume larger with `esker resize`, and give the stream again")
        }
        Some((name, error)) => at(&format!("cannot make the snapshot {name} ({error})"), ""),
    }
}

/// Writes all that is in memory, and says that it is closed.
fn close(fs: &Writable, path: &Path) -> Outcome {
    let home = fs.store();
    let safe = home.write().and_then(|()| home.volume().close());
    safe.map_err(|error| volumes::failure(path, &error))
}

/// Receives into a volume that is not mounted.
pub fn receive<R: Read>(paths: &Paths<'_>, frames: &mut Frames<R>) -> Outcome<Done> {
    let fs = volumes::writable(paths.target, &Options::parse(&[], ram())?)?;
    let mut keeper = Snapshots::of(&fs);
    let came = take(frames, &mut onto(&fs), &mut keeper);
    let refused = keeper.refused.take();
    let came = came.map_err(|error| told(paths, refused, error))?;
    let known = received(&mut onto(&fs)).and_then(|known| known.ok_or(Error::State));
    let opening = known.and_then(|known| known.opening());
    let opening = opening.map_err(|error| paths.failure(error))?;
    close(&fs, paths.target)?;
    Ok(Done { opening, came, left_out: (Vec::new(), 0) })
}

/// Takes what a new volume holds, which is a copy of all that another one received, for received here.
pub fn adopt(path: &Path, known: &Received) -> Outcome {
    let fs = volumes::writable(path, &Options::parse(&[], ram())?)?;
    let paths = Paths { stream: path, target: path };
    let mut target = onto(&fs);
    let kept = fs.sync().and_then(|()| {
        let (home, seal) = target.home();
        target.keep(&Received { home, seal, ..*known }.sealed())
    });
    kept.map_err(|error| paths.failure(Error::Target(Vec::new(), error)))?;
    let mut keeper = Snapshots::of(&fs);
    let made = keeper.seal(known);
    made.map_err(|error| told(&paths, keeper.refused.take(), error))?;
    close(&fs, path)
}

/// What a tree that can only be looked at knows of what it received.
pub fn known(view: &dyn View, path: &Path) -> Outcome<Option<Received>> {
    let state = || -> esker::Result<Vec<u8>> {
        let dir = view.entry(Ino::ROOT, Name::parse(OWN)?)?.ino;
        let ino = view.entry(dir, Name::parse(STATE)?)?.ino;
        let mut bytes = vec![0; STATE_MAX];
        let len = view.read(ino, 0, &mut bytes)?;
        bytes.truncate(len);
        Ok(bytes)
    };
    let state = match state() {
        Err(Refusal::NotFound | Refusal::NotDirectory) => Ok(Vec::new()),
        state => state.map_err(|error| Error::Target(Vec::new(), error)),
    };
    let known = state.and_then(|bytes| Received::parse(&bytes));
    known.map_err(|error| Paths { stream: path, target: path }.failure(error))
}

/// What a volume knows of what it received.
pub fn have(path: &Path) -> Outcome<Option<Received>> {
    known(&volumes::look(path)?, path)
}
