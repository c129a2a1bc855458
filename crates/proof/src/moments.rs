//! Snapshots of a volume while a script runs on it, and what must be there of them wherever power is cut.
//!
//! Above: [`crate::cut`]. Below: `esker_volume`. Invariant: a snapshot shows what the model showed when it was
//! made, from when that was answered until deleting it began; it is not there before it was begun and after
//! deleting it was answered.

use std::sync::Arc;

use esker_volume::device::Device;
use esker_volume::{Snapped, SnapshotError, Volume};

use crate::chance::Chance;
use crate::model::Model;
use crate::told::print;
use crate::world::on_volume::Above;

/// Operations of the device before something was begun, and when it was answered.
type During = (usize, usize);

/// A snapshot.
struct Moment {
    name: String,
    model: Model,
    shown: u64,
    made: During,
    gone: Option<During>,
}

/// All snapshots that there ever were.
#[derive(Default)]
pub struct Moments {
    all: Vec<Moment>,
}

impl Moments {
    /// Makes one, which shows what the model does, or deletes one, as chance will have it. `done` tells what was done
    /// to the device; whether one was made.
    ///
    /// # Errors
    /// That it could not be done, but for want of room.
    pub fn change<D: Device>(
        &mut self,
        home: &Above<D>,
        (model, chance): (&Model, &mut Chance),
        done: &dyn Fn() -> usize,
    ) -> Result<bool, SnapshotError> {
        let begun = done();
        let there: Vec<_> = (0..self.all.len()).filter(|&at| self.all[at].gone.is_none()).collect();
        if there.len() > 1 && chance.below(2) == 0 {
            let at = *chance.pick(&there);
            home.delete_snapshot(&self.all[at].name)?;
            self.all[at].gone = Some((begun, done()));
            return Ok(false);
        }
        let name = format!("s{}", self.all.len());
        match home.create_snapshot(&name) {
            Err(SnapshotError::NoRoom) => return Ok(false),
            other => other?,
        }
        let shown = print(model).expect("the model shows everything");
        let model = model.copy();
        self.all.push(Moment { name, model, shown, made: (begun, done()), gone: None });
        Ok(true)
    }

    /// One that is there, if any is: its name, and what the model was like.
    pub fn any(&self, chance: &mut Chance) -> Option<(&str, Model)> {
        let there: Vec<_> = self.all.iter().filter(|one| one.gone.is_none()).collect();
        let one = if there.is_empty() { None } else { Some(*chance.pick(&there)) };
        one.map(|one| (one.name.as_str(), one.model.copy()))
    }

    /// Whether there were any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Looks at all that there are when power goes after so many operations.
    ///
    /// # Errors
    /// The first that is wrong, in words.
    pub fn check<D: Device>(&self, volume: &Arc<Volume<D>>, done: usize) -> Result<(), String> {
        for moment in &self.all {
            let must = moment.made.1 <= done && moment.gone.is_none_or(|gone| done <= gone.0);
            let may = moment.made.0 <= done && moment.gone.is_none_or(|gone| done < gone.1);
            let name = &moment.name;
            match Snapped::new(Arc::clone(volume), name) {
                Err(_) if must => return Err(format!("the snapshot {name} is not there")),
                Err(_) => {}
                Ok(_) if !may => return Err(format!("there is a snapshot {name}")),
                Ok(own) => {
                    let shown = print(&own).map_err(|why| format!("the snapshot {name}: {why}"))?;
                    if shown != moment.shown {
                        return Err(format!("the snapshot {name} shows something else"));
                    }
                }
            }
        }
        Ok(())
    }
}
