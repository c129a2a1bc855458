//! A volume that is mounted with its snapshots beside what it holds.
//!
//! Above: `serve`. Below: `esker-volume`. Invariant: nothing that the volume has is hidden: one that has the name
//! itself is not mounted so.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use esker::memory::Home;
use esker::posix::Fs;
use esker::store::View;
use esker_host::{Lent, SystemClock};
use esker_volume::device::FileDevice;
use esker_volume::{Error, Kept, SNAPSHOTS, Shown, Volume};

use super::{Writable, failure};
use crate::failure::{Exit, Failure, Outcome};

/// The home of a volume that can be written, for another file system than the one that has it: who writes it in the
/// background, and who answers for it, go on with that one, and call no POSIX there.
pub struct Live(Arc<Writable>);

impl Deref for Live {
    type Target = Kept<Home<Lent>, FileDevice>;

    fn deref(&self) -> &Self::Target {
        self.0.store()
    }
}

/// A home of a volume with its snapshots.
pub fn beside<P>(
    path: &Path,
    home: P,
    volume: Arc<Volume<FileDevice>>,
) -> Outcome<Shown<P, FileDevice>>
where
    P: Deref<Target: View>,
{
    Shown::new(home, volume).map_err(|error| match error {
        esker::Error::Exists => {
            let what = format!("the volume has something of its own that is called {SNAPSHOTS}");
            let remedy = "mount it without -o snapshots, and rename that";
            Failure::at(Exit::Failed, &what, path, remedy)
        }
        error => failure(path, &Error::Source(error)),
    })
}

/// The same for one that can be written, to be served.
pub fn live(path: &Path, fs: &Arc<Writable>) -> Outcome<Fs<Shown<Live, FileDevice>>> {
    let volume = Arc::clone(fs.store().shared());
    let shown = beside(path, Live(Arc::clone(fs)), volume)?;
    Ok(Fs::new(shown, SystemClock))
}
