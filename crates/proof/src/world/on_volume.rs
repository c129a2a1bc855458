//! A volume on a lying device as a world: memory above it takes what changes, commits come now and then, and it is
//! mounted again now and then.
//!
//! Above: `tests/exams/power_cuts.rs`, `tests/exams/mounted_volume.rs`, [`crate::cut`]. Below: `esker_volume`.
//! Invariant: when it is mounted again nothing is open.

use std::sync::Arc;

use esker::Time;
use esker::ground::Heap;
use esker::limits::FILE_SIZE_MAX;
use esker::memory::{Base, Home, Options};
use esker::store::Store as _;
use esker_volume::device::Device;
use esker_volume::{Error, Kept, SnapshotError, Volume};

use super::inside::{Checked, Inside, root_attr};
use super::layered::survey;
use super::{Answer, Outcome, Seen, World};
use crate::cut::Shape;
use crate::lying::Lying;
use crate::model::Model;
use crate::script::Step;

/// Memory above a volume.
pub type Above<D> = Kept<Home<Heap>, D>;

/// Bytes in memory at which a layer is written.
const DIRTY_MAX: u64 = 8 << 20;

impl<B: Base, D: Device> Checked for Kept<Home<B>, D> {
    fn findings(&self) -> Vec<String> {
        let mut findings = survey(self);
        if let Err(error) = self.write() {
            findings.push(format!("writing: {error}"));
        }
        findings.extend(survey(self.volume()));
        findings.extend(self.volume().check().iter().map(|finding| format!("{finding:?}")));
        findings
    }
}

/// Memory above the volume on a device.
///
/// # Errors
/// What opening says.
pub fn mount<D: Device>(shape: &Shape, device: D) -> Result<Above<D>, Error> {
    above(shape.open(device, true)?)
}

/// Memory above a volume that was opened.
///
/// # Errors
/// What the volume says.
pub fn above<D: Device>(volume: Volume<D>) -> Result<Above<D>, Error> {
    in_layers_of(volume, DIRTY_MAX)
}

/// The same in layers that have so many bytes of memory.
///
/// # Errors
/// What the volume says.
pub fn in_layers_of<D: Device>(volume: Volume<D>, bytes: u64) -> Result<Above<D>, Error> {
    let options = Options { size_max: bytes, file_size_max: FILE_SIZE_MAX, root: root_attr() };
    let again = move |used: Home<Heap>| used.again(|| Ok(Heap::new()), &options);
    let homes = Box::new((move || Home::new(Heap::new(), &options), again));
    Kept::new(volume, bytes, homes).map_err(Error::Source)
}

/// The world.
pub struct OnVolume {
    shape: Shape,
    device: Arc<Lying>,
    inside: Option<Inside<Above<Arc<Lying>>>>,
    steps: usize,
    /// After every so many steps there is a commit; 0: there is none.
    sync: usize,
    /// Before the step of this number it is mounted again.
    turn: Option<usize>,
}

impl OnVolume {
    /// What is on a device.
    ///
    /// # Errors
    /// What opening says.
    pub fn new(shape: Shape, device: Arc<Lying>) -> Result<Self, Error> {
        let home = mount(&shape, Arc::clone(&device))?;
        let inside = Some(Inside::new("volume", home));
        Ok(Self { shape, device, inside, steps: 0, sync: 0, turn: None })
    }

    /// The same with commits, and mounted again.
    #[must_use]
    pub fn living(self, sync: usize, turn: usize) -> Self {
        Self { sync, turn: Some(turn), ..self }
    }

    /// A sync of everything.
    ///
    /// # Errors
    /// What the home says.
    pub fn sync(&self) -> esker::Result<()> {
        let Some(inside) = &self.inside else { return Ok(()) };
        let home = inside.fs().store();
        home.sync()?;
        // As whoever has time does.
        home.volume().give_back_below(u64::MAX);
        Ok(())
    }

    /// Memory and the volume below.
    ///
    /// # Panics
    /// When it could not be mounted again.
    #[must_use]
    pub fn home(&self) -> &Above<Arc<Lying>> {
        self.inside.as_ref().expect("it is mounted").fs().store()
    }

    /// Goes back to a snapshot, as it is mounted or unmounted before; whether there was room for that.
    ///
    /// # Errors
    /// What cannot be done, in words.
    pub fn go_back(&mut self, name: &str, mounted: bool) -> Result<bool, String> {
        let mut inside = self.inside.take().ok_or("not mounted")?;
        inside.tree()?;
        let told = |error: &dyn std::fmt::Display| format!("going back to {name}: {error}");
        let gone_back = |done| match done {
            Err(SnapshotError::NoRoom) => Ok(false),
            done => done.map(|()| true).map_err(|error| told(&error)),
        };
        if mounted {
            let fs = inside.fs();
            let done = fs.alone_with_all(|home| home.rollback(name)).map(drop);
            for ino in fs.store().volume().orphans() {
                fs.hold(ino).map_err(|error| told(&error))?;
                fs.forget(ino, 1);
            }
            self.inside = Some(inside);
            return gone_back(done);
        }
        let inside = inside.moved("nowhere", Model::new(root_attr()));
        let volume = self.shape.open(Arc::clone(&self.device), true);
        let volume = volume.map_err(|error| told(&error))?;
        let done = gone_back(volume.rollback(name))?;
        drop(volume);
        let home = mount(&self.shape, Arc::clone(&self.device)).map_err(|error| told(&error))?;
        self.inside = Some(inside.moved("volume", home));
        Ok(done)
    }

    fn again(&mut self) -> Result<(), String> {
        let mut inside = self.inside.take().ok_or("not mounted")?;
        inside.tree()?;
        let home = mount(&self.shape, Arc::clone(&self.device));
        let home = home.map_err(|error| format!("mounting again: {error}"))?;
        self.inside = Some(inside.moved("volume", home));
        Ok(())
    }
}

impl World for OnVolume {
    fn name(&self) -> &str {
        "volume"
    }

    fn now(&mut self) -> Time {
        self.inside.as_mut().map_or_else(Time::default, World::now)
    }

    fn run(&mut self, step: &Step) -> Outcome {
        if self.turn == Some(self.steps)
            && let Err(why) = self.again()
        {
            return Ok(Answer::Broken(why));
        }
        self.steps += 1;
        let Some(inside) = &mut self.inside else {
            return Ok(Answer::Broken("it could not be mounted again".into()));
        };
        let outcome = inside.run(step);
        if self.sync > 0 && self.steps.is_multiple_of(self.sync) {
            let home = inside.fs().store();
            if let Err(error) = home.write() {
                return Ok(Answer::Broken(format!("writing: {error}")));
            }
            home.volume().give_back_below(2 * self.shape.segment_len);
        }
        outcome
    }

    fn tree(&mut self) -> Result<Vec<Seen>, String> {
        self.inside.as_mut().ok_or("not mounted")?.tree()
    }
}
