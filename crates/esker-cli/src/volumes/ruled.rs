//! Rules for snapshots, obeyed while a volume is mounted.
//!
//! Above: `writer`. Below: `esker_volume::keeper`. Invariant: what cannot be done is told once, and tried again later.

use std::time::Instant;

use esker::ground::Clock as _;
use esker_host::SystemClock;
use esker_volume::SnapshotError;
use esker_volume::keeper::{AGAIN, Due, Keeper, Present, Ticks};
use esker_volume::rules::Occasion;

use super::Writable;
use crate::log;

/// Snapshots that are made or taken away in a row, at most: whoever waits to be written has a turn.
const AT_ONCE: usize = 4;

/// Who looks after the rules of one mount.
pub struct Ruled {
    keeper: Keeper,
    began: Instant,
}

impl Ruled {
    pub fn new() -> Self {
        Self { keeper: Keeper::default(), began: Instant::now() }
    }

    /// Does what is due.
    pub fn look(&mut self, fs: &Writable, name: &str) {
        let rules = fs.store().volume().rules();
        if rules.is_empty() {
            return;
        }
        let now = Ticks { wall: SystemClock.now().secs, passed: self.began.elapsed().as_secs() };
        for _ in 0..AT_ONCE {
            let (home, volume) = (fs.store(), fs.store().volume());
            let snapshots = volume.snapshots_made();
            let (commits, synced) = (volume.commits(), home.was_synced(false));
            let present = Present { rules: &rules, snapshots: &snapshots, commits, synced };
            let Some(due) = self.keeper.due(now, &present) else { return };
            if let Err(error) = self.obey(fs, &due, now) {
                let what = match &due {
                    Due::Make(_, own) => format!("no snapshot {own}"),
                    Due::Delete(own) => {
                        format!("the snapshot {} stays", String::from_utf8_lossy(&own.name))
                    }
                };
                log::tell(&format!("{name}: {what} ({error}); tried again in {AGAIN} s"));
                return self.keeper.failed(now);
            }
        }
    }

    fn obey(&mut self, fs: &Writable, due: &Due, now: Ticks) -> Result<(), SnapshotError> {
        let home = fs.store();
        match due {
            Due::Make(occasion, name) => {
                if *occasion == Occasion::Sync {
                    home.was_synced(true);
                }
                home.create_snapshot_for(name, Some(*occasion))?;
                self.keeper.made(*occasion, now, home.volume().commits());
                Ok(())
            }
            Due::Delete(row) => match home.delete_ruled(row) {
                // Somebody was faster, and may have made another one of that name.
                Err(SnapshotError::Missing) => Ok(()),
                done => done,
            },
        }
    }
}
