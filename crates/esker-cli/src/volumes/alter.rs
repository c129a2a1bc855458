//! Another size, name or setting of a volume, for verbs and for the server of a mount: the same request means the same
//! to both.
//!
//! Above: `verbs::alter`, `desk`. Below: `esker-volume`. Invariant: a request that fails changes nothing.

use std::path::Path;

use esker_stone::Setting;
use esker_volume::device::{Device, FileDevice};
use esker_volume::limits::SEGMENTS_MAX;
use esker_volume::{Change, Superblock, Volume};
use serde_json::{Value, json};

use super::{failure, report, setting};
use crate::failure::{Exit, Failure, Outcome};
use crate::units::size_shown;
use crate::verbs::mkfs::{Reserve, label};

/// What is to be another.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// It grows: to so many bytes, or to all of what is there.
    pub grow: Option<Option<u64>>,
    /// A name for people.
    pub label: Option<String>,
    /// What is kept back.
    pub reserve: Option<Reserve>,
    /// How what is new is compressed.
    pub setting: Option<Setting>,
}

impl Request {
    /// As the server of a mount is asked.
    pub fn message(&self) -> Value {
        let (bytes, percent) = match self.reserve {
            Some(Reserve::Bytes(bytes)) => (Some(bytes), None),
            Some(Reserve::Percent(share)) => (None, Some(share)),
            None => (None, None),
        };
        let shown = |own: Setting| format!("{}:{}", own.codec.name(), own.level);
        json!({ "alter": {
            "grow": self.grow.is_some(),
            "size": self.grow.flatten(),
            "label": self.label,
            "reserve": bytes,
            "reserve_percent": percent,
            "compress": self.setting.map(shown),
        }})
    }

    /// The same, as it came in.
    pub fn read(own: &Value) -> Outcome<Self> {
        let wrong =
            |_| Failure::new(Exit::Usage, "an unknown codec", "take the esker that mounted it");
        let bytes = own["reserve"].as_u64().map(Reserve::Bytes);
        Ok(Self {
            grow: (own["grow"] == true).then(|| own["size"].as_u64()),
            label: own["label"].as_str().map(str::to_owned),
            reserve: bytes.or_else(|| own["reserve_percent"].as_u64().map(Reserve::Percent)),
            setting: own["compress"].as_str().map(setting).transpose().map_err(wrong)?,
        })
    }

    /// Whether anything is to be another.
    pub const fn changes(&self) -> bool {
        let Self { grow, label, reserve, setting } = self;
        grow.is_some() || label.is_some() || reserve.is_some() || setting.is_some()
    }
}

/// How large it is to be.
fn wanted(volume: &Volume<FileDevice>, path: &Path, size: Option<u64>) -> Outcome<u64> {
    let now = volume.shape().size;
    let there = volume.device().extend(0).map_err(|fault| failure(path, &fault.into()))?;
    let usage = |what: &str, remedy: &str| Failure::at(Exit::Usage, what, path, remedy);
    let size = size.unwrap_or(there);
    if size < now {
        let what = format!("a volume only grows, and this one has {}", size_shown(now));
        return Err(usage(&what, "make a smaller one, and copy what it holds: mkfs --from"));
    }
    let most = volume.shape().segment_len * SEGMENTS_MAX;
    if size > most {
        let what = format!("too large for segments of {}", size_shown(volume.shape().segment_len));
        return Err(usage(&what, &format!("give {} at most", size_shown(most))));
    }
    if size > there && !volume.device().is_file() {
        let what = format!("the device has {}", size_shown(there));
        return Err(usage(&what, "leave out --size"));
    }
    Ok(size)
}

/// Does it, by what changes the volume as it is held; what it is like then.
pub fn apply(
    volume: &Volume<FileDevice>,
    path: &Path,
    request: &Request,
    alter: impl Fn(&Change) -> esker_volume::Result<Superblock>,
) -> Outcome<Value> {
    if !request.changes() {
        return Ok(told(path, &volume.shape()));
    }
    let size = request.grow.map(|size| wanted(volume, path, size)).transpose()?;
    let of = size.unwrap_or(volume.shape().size);
    let change = Change {
        size,
        label: request.label.as_deref().map(label).transpose()?,
        reserve: request.reserve.map(|reserve| reserve.checked_of(of)).transpose()?,
        setting: request.setting,
    };
    let now = alter(&change).map_err(|error| failure(path, &error))?;
    Ok(told(path, &now))
}

fn told(path: &Path, now: &Superblock) -> Value {
    json!({
        "volume": path.to_string_lossy(),
        "size": now.size,
        "label": report::label(&now.label),
        "reserve": now.reserve,
        "compress": now.setting().codec.name(),
        "level": now.setting().level,
    })
}
