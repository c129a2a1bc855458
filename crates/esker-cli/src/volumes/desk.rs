//! Who answers what is asked of the server of a mount, whichever home it has.
//!
//! Above: `serve`. Below: `snapshots`, `alter`, `care`. Invariant: what nobody knows is told to be so.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use esker_fuse::Control;
use esker_fuse::control::Served;
use serde_json::{Value, json};

use super::ask::{refusal, unknown};
use super::care::Care;
use super::{Writable, alter, report, snapshots};
use crate::failure::{Exit, Failure, Outcome};

/// Mounts a snapshot, by its name, in another place.
pub type Show = Box<dyn Fn(&str, &Path) -> Outcome<Value> + Send + Sync>;

/// Asks for that; `dir` is a whole path.
pub fn show(name: &str, dir: &Path) -> Value {
    json!({ "show": { "name": name, "dir": dir.to_string_lossy() } })
}

/// For a volume that can be written.
pub struct Desk {
    fs: Weak<Writable>,
    path: PathBuf,
    care: Care,
    show: Show,
    snapshots: Arc<dyn Control>,
}

impl Desk {
    /// For this one.
    pub fn open(fs: &Arc<Writable>, path: &Path, show: Show) -> Arc<Self> {
        Arc::new(Self {
            fs: Arc::downgrade(fs),
            path: path.to_owned(),
            care: Care::new(fs, path),
            show,
            snapshots: snapshots::Desk::open(fs, path),
        })
    }

    /// What is under way ends.
    pub fn close(&self) {
        self.care.end();
    }

    fn fs(&self) -> Outcome<Arc<Writable>> {
        let gone = || Failure::at(Exit::Failed, "not mounted any more", &self.path, "");
        self.fs.upgrade().ok_or_else(gone)
    }

    fn altered(&self, own: &Value) -> Outcome<Value> {
        let fs = self.fs()?;
        let (store, request) = (fs.store(), alter::Request::read(own)?);
        alter::apply(store.volume(), &self.path, &request, |change| store.alter(change))
    }
}

impl Control for Desk {
    fn answer(&self, request: &[u8], served: &dyn Served) -> Vec<u8> {
        let Ok(message) = serde_json::from_slice::<Value>(request) else {
            return unknown().to_string().into_bytes();
        };
        let answer = if message.get("stats").is_some() {
            self.fs().map(|fs| report::stats_of_mount(&self.path, &fs))
        } else if let Some(own) = message.get("alter") {
            self.altered(own)
        } else if let Some(own) = message.get("show") {
            let [name, dir] = ["name", "dir"].map(|key| own[key].as_str().unwrap_or_default());
            (self.show)(name, Path::new(dir))
        } else if message.get("profile").is_some() {
            // Whoever unmounts could not tell what is mounted, as its file has another name by now, or none.
            Ok(json!({ "volume": true }))
        } else if let Some(own) = message.get("care") {
            self.care.answer(own)
        } else {
            return self.snapshots.answer(request, served);
        };
        answer.unwrap_or_else(|failure| refusal(&failure)).to_string().into_bytes()
    }
}
