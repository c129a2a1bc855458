//! Who answers what is asked of the server of a mount, whichever home it has.
//!
//! Above: `serve`. Below: `snapshots`, `alter`, `care`. Invariant: what nobody knows is told to be so.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use esker_fuse::Control;
use esker_fuse::control::Served;
use serde_json::Value;

use super::ask::{refusal, unknown};
use super::care::Care;
use super::{Writable, alter, report, snapshots};
use crate::failure::{Exit, Failure, Outcome};

/// For a volume that can be written.
pub struct Desk {
    fs: Weak<Writable>,
    path: PathBuf,
    care: Care,
    snapshots: Arc<dyn Control>,
}

impl Desk {
    /// For this one.
    pub fn open(fs: &Arc<Writable>, path: &Path) -> Arc<Self> {
        Arc::new(Self {
            fs: Arc::downgrade(fs),
            path: path.to_owned(),
            care: Care::new(fs, path),
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
        alter::apply(fs.store().volume(), &self.path, &alter::Request::read(own)?)
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
        } else if let Some(own) = message.get("care") {
            self.care.answer(own)
        } else {
            return self.snapshots.answer(request, served);
        };
        answer.unwrap_or_else(|failure| refusal(&failure)).to_string().into_bytes()
    }
}
