//! Snapshots of a volume, for verbs and for the server of a mount: the same request means the same to both.
//!
//! Above: `verbs::snapshot`, `serve`, `images`. Below: `esker-volume`. Invariant: a request that fails says what
//! is wrong and the way out, and changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use esker::memory::Home;
use esker_fuse::Control;
use esker_fuse::control::{Exchanged, Served};
use esker_host::Lent;
use esker_stone::rows::snapshots::{SnapshotRow, is_name};
use esker_volume::device::FileDevice;
use esker_volume::rules::{Rule, RuleError, Rules};
use esker_volume::snapshots::Held;
use esker_volume::{
    Changed, Changes, Error, How, Kept, Replaced, SNAPSHOTS, Snapped, SnapshotError, Volume,
};
use serde_json::{Value, json};

use super::care::TEXTS_LEN_MAX;
use super::{Writable, failure, is_volume};
use crate::failure::{Exit, Failure, Outcome, path_shown, shown};

/// What is asked of a volume.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// Make one.
    Create(&'a str),
    /// Tell of all.
    List,
    /// Take one away.
    Delete(&'a str),
    /// Change the rules, and tell of them.
    Rules(Edit),
    /// Tell what changed since one, until another one or now.
    Diff(&'a str, Option<&'a str>),
    /// Go back to one; what was is kept under another name, where there is one.
    Rollback(&'a str, Option<&'a str>),
}

/// What is to change of rules.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// Rules that come, as they are written.
    pub add: Vec<String>,
    /// Occasions of rules that go.
    pub remove: Vec<String>,
    /// Snapshots that rules have made, at most.
    pub largest: Option<u64>,
}

impl Edit {
    fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty() && self.largest.is_none()
    }

    fn read(message: &Value) -> Option<Self> {
        let words = |key: &str| -> Option<Vec<String>> {
            let all = message[key].as_array()?.iter();
            all.map(|word| Some(word.as_str()?.to_owned())).collect()
        };
        let largest = message["largest"].as_u64();
        Some(Self { add: words("add")?, remove: words("remove")?, largest })
    }

    /// Rules with what comes and without what goes.
    fn of(&self, mut rules: Rules) -> Result<Rules, RuleError> {
        for text in &self.remove {
            // What it keeps may be said, too.
            let words: Vec<_> = text.split_whitespace().take(2).collect();
            rules.remove(words.join(" ").parse()?)?;
        }
        for text in &self.add {
            rules.add(text.parse()?)?;
        }
        if let Some(largest) = self.largest {
            rules.set_largest(largest);
        }
        rules.check().map(|()| rules)
    }
}

impl<'a> Request<'a> {
    /// As the server of a mount is asked.
    pub fn message(&self) -> Value {
        match self {
            Self::Create(name) => json!({ "snapshot": "create", "name": name }),
            Self::List => json!({ "snapshot": "list" }),
            Self::Delete(name) => json!({ "snapshot": "delete", "name": name }),
            Self::Rules(Edit { add, remove, largest }) => {
                json!({ "snapshot": "rules", "add": add, "remove": remove, "largest": largest })
            }
            Self::Diff(from, to) => json!({ "snapshot": "diff", "name": from, "to": to }),
            Self::Rollback(name, keep) => {
                json!({ "snapshot": "rollback", "name": name, "keep": keep })
            }
        }
    }

    fn read(message: &'a Value) -> Option<Self> {
        let name = || message["name"].as_str();
        match message["snapshot"].as_str()? {
            "create" => name().map(Self::Create),
            "list" => Some(Self::List),
            "delete" => name().map(Self::Delete),
            "rules" => Edit::read(message).map(Self::Rules),
            "diff" => name().map(|from| Self::Diff(from, message["to"].as_str())),
            "rollback" => name().map(|name| Self::Rollback(name, message["keep"].as_str())),
            _ => None,
        }
    }
}

/// What is wrong, for a person.
pub fn refused(path: &Path, name: &str, error: SnapshotError) -> Failure {
    let (exit, remedy) = match error {
        SnapshotError::Volume(error) => return failure(path, &error),
        SnapshotError::Name => (Exit::Usage, "choose another one"),
        SnapshotError::Exists => (Exit::Failed, "choose another name, or delete that one"),
        SnapshotError::Missing => (Exit::Failed, "`esker snapshot list` tells which there are"),
        SnapshotError::TooMany => (Exit::Failed, "delete one"),
        SnapshotError::Lent => (Exit::Failed, "try again when nobody copies from it"),
        SnapshotError::NoRoom => (Exit::Failed, "take something away, or delete a snapshot"),
    };
    let name = if name.is_empty() { "an empty one".to_owned() } else { shown(name.as_bytes()) };
    let what = format!("{error}: {name}");
    Failure::at(exit, &what, path, remedy)
}

fn listed(volume: &Volume<FileDevice>) -> Result<Value, Error> {
    let held = volume.held_by_snapshots()?;
    let made: BTreeMap<_, _> =
        volume.snapshots_made().into_iter().map(|(row, made)| (row.sequence, made)).collect();
    let row = |(row, held): (SnapshotRow, Held)| {
        let rule = made.get(&row.sequence).copied().flatten();
        json!({
            "name": String::from_utf8_lossy(&row.name),
            "time": row.time,
            "commit": row.sequence,
            "inodes": row.inodes,
            "bytes": held.blocks + held.tables,
            "rule": rule.map(|rule| rule.to_string()),
        })
    };
    let rows: Vec<_> = held.into_iter().map(row).collect();
    Ok(json!({ "snapshots": rows }))
}

/// Changes the rules as it is asked, and tells of them.
fn ruled(path: &Path, volume: &Volume<FileDevice>, edit: &Edit) -> Outcome<Value> {
    let contradicts = |error: RuleError| {
        Failure::at(Exit::Usage, &error.to_string(), path, "nothing has changed")
    };
    let rules = edit.of(volume.rules()).map_err(contradicts)?;
    if !edit.is_empty() {
        volume.set_rules(&rules).map_err(|error| failure(path, &error))?;
    }
    let made = volume.snapshots_made();
    let row = |rule: &Rule| {
        let own = made.iter().filter(|(_, own)| *own == Some(rule.occasion)).count();
        json!({ "rule": rule.to_string(), "snapshots": own })
    };
    Ok(json!({ "rules": rules.iter().map(row).collect::<Vec<_>>(), "largest": rules.largest() }))
}

/// A volume, and how it is done to it what is asked, with whatever has to be written before.
trait Doer {
    fn volume(&self) -> &Volume<FileDevice>;
    fn create(&self, name: &str) -> Result<(), SnapshotError>;
    fn delete(&self, name: &str) -> Result<(), SnapshotError>;
    /// What changed since one, and how many bytes become free when it is deleted.
    fn compare(&self, from: &str, to: Option<&str>) -> Result<(Changes, u64), SnapshotError>;
    fn rollback(&self, name: &str) -> Result<(), SnapshotError>;
}

/// One that nobody has mounted.
struct Alone(Volume<FileDevice>);

impl Doer for Alone {
    fn volume(&self) -> &Volume<FileDevice> {
        &self.0
    }

    fn create(&self, name: &str) -> Result<(), SnapshotError> {
        self.0.create_snapshot(name)
    }

    fn delete(&self, name: &str) -> Result<(), SnapshotError> {
        self.0.delete_snapshot(name)
    }

    fn compare(&self, from: &str, to: Option<&str>) -> Result<(Changes, u64), SnapshotError> {
        self.0.changes_since(from, to)
    }

    fn rollback(&self, name: &str) -> Result<(), SnapshotError> {
        self.0.rollback(name)
    }
}

/// One that is mounted.
struct Mounted<'a> {
    home: &'a Kept<Home<Lent>, FileDevice>,
    served: &'a dyn Served,
}

impl Doer for Mounted<'_> {
    fn volume(&self) -> &Volume<FileDevice> {
        self.home.volume()
    }

    fn create(&self, name: &str) -> Result<(), SnapshotError> {
        self.home.create_snapshot(name)
    }

    fn delete(&self, name: &str) -> Result<(), SnapshotError> {
        self.home.delete_snapshot(name)
    }

    fn compare(&self, from: &str, to: Option<&str>) -> Result<(Changes, u64), SnapshotError> {
        if to.is_none() {
            self.home.write()?;
        }
        self.home.volume().changes_meanwhile(from, to)
    }

    /// The kernel forgets what is not the same, and whoever has such a file open is told that it is gone.
    fn rollback(&self, name: &str) -> Result<(), SnapshotError> {
        let mut done = Ok(());
        self.served.exchange(&mut || match self.home.rollback(name) {
            Ok(Replaced { names, inodes, files }) => Some(Exchanged {
                names: names.into_iter().collect(),
                inodes: inodes.into_iter().collect(),
                files: files.into_iter().collect(),
                orphans: self.home.volume().orphans().into_iter().collect(),
            }),
            Err(error) => {
                done = Err(error);
                None
            }
        });
        done
    }
}

/// What changed, and how many bytes become free, at most so many bytes of it; the others are counted.
fn compared((changes, freed): &(Changes, u64), most: usize) -> Value {
    let (mut rows, mut len) = (Vec::new(), 0);
    for Changed { path, how } in &changes.all {
        let before = if let How::Renamed(before) = how { Some(shown(before)) } else { None };
        let (path, (letter, word)) = (shown(path), change_shown(how));
        len += path.len() + before.as_ref().map_or(0, String::len);
        if len > most {
            break;
        }
        rows.push(json!({ "path": path, "letter": letter, "change": word, "from": before }));
    }
    json!({
        "changes": changes.all.len(),
        "unlisted": changes.all.len() - rows.len(),
        "all": rows,
        "before": changes.before,
        "after": changes.after,
        "freed": freed,
    })
}

/// Goes back to a snapshot. What was is one of the name `keep` then.
fn gone_back(path: &Path, to: &dyn Doer, name: &str, keep: Option<&str>) -> Outcome<Value> {
    to.volume().snapshot(name).map_err(|error| refused(path, name, error))?;
    if let Some(keep) = keep {
        to.create(keep).map_err(|error| refused(path, keep, error))?;
    }
    to.rollback(name).map_err(|error| {
        // It was for this alone.
        keep.map(|keep| to.delete(keep));
        refused(path, name, error)
    })?;
    Ok(json!({ "now": name, "kept": keep }))
}

/// Does what is asked of a volume.
fn answer(path: &Path, to: &dyn Doer, request: Request<'_>) -> Outcome<Value> {
    let volume = to.volume();
    match request {
        Request::Create(name) => {
            to.create(name).map_err(|error| refused(path, name, error))?;
            Ok(json!({ "created": name }))
        }
        Request::List => listed(volume).map_err(|error| failure(path, &error)),
        Request::Delete(name) => {
            to.delete(name).map_err(|error| refused(path, name, error))?;
            Ok(json!({ "deleted": name }))
        }
        Request::Rules(edit) => ruled(path, volume, &edit),
        Request::Diff(from, until) => {
            let missing = |name: &&str| volume.snapshot(name).is_err();
            let named = [Some(from), until].into_iter().flatten().find(missing).unwrap_or(from);
            let found = to.compare(from, until).map_err(|error| refused(path, named, error))?;
            Ok(compared(&found, if volume.is_writable() { TEXTS_LEN_MAX } else { usize::MAX }))
        }
        Request::Rollback(name, keep) => gone_back(path, to, name, keep),
    }
}

/// The same of a volume that nobody has mounted.
pub fn offline(path: &Path, bases: &[PathBuf], request: Request<'_>) -> Outcome<Value> {
    let write = match &request {
        Request::List | Request::Diff(..) => false,
        Request::Rules(edit) => !edit.is_empty(),
        Request::Create(_) | Request::Delete(_) | Request::Rollback(..) => true,
    };
    let options = super::opening(path, write, &crate::options::Options::parse(&[], 1 << 30)?);
    let alone = Alone(super::open_over(path, bases, options)?);
    let done = answer(path, &alone, request);
    if write {
        // All is safe without it.
        let _ = alone.0.close();
    }
    done
}

/// The letter and the word for what changed.
const fn change_shown(how: &How) -> (char, &'static str) {
    match how {
        How::Removed => ('-', "gone"),
        How::Added => ('+', "new"),
        How::Renamed(_) => ('r', "renamed"),
        How::Type => ('t', "type"),
        How::Content => ('c', "content"),
        How::Attributes => ('m', "attributes"),
    }
}

/// The same of the volume that is mounted where this path lies.
pub fn online(path: &Path, request: Request<'_>) -> Outcome<Value> {
    let handed_over =
        matches!(request, Request::Create(_) | Request::Diff(_, None) | Request::Rollback(..));
    super::ask::ask(path, &request.message(), handed_over)
}

/// Answers for a volume that is mounted.
pub struct Desk {
    fs: Weak<Writable>,
    path: PathBuf,
}

impl Desk {
    /// For this one.
    pub fn open(fs: &Arc<Writable>, path: &Path) -> Arc<dyn Control> {
        Arc::new(Self { fs: Arc::downgrade(fs), path: path.to_owned() })
    }

    fn answered(&self, message: &[u8], served: &dyn Served) -> Outcome<Value> {
        let usage = |what: &str| Failure::new(Exit::Usage, what, "take the esker that mounted it");
        let message: Value = serde_json::from_slice(message).map_err(|_| usage("no request"))?;
        let request = Request::read(&message).ok_or_else(|| usage("an unknown request"))?;
        let gone = || Failure::at(Exit::Failed, "not mounted any more", &self.path, "");
        let fs = self.fs.upgrade().ok_or_else(gone)?;
        answer(&self.path, &Mounted { home: fs.store(), served }, request)
    }
}

impl Control for Desk {
    fn answer(&self, request: &[u8], served: &dyn Served) -> Vec<u8> {
        let answer = self
            .answered(request, served)
            .unwrap_or_else(|failure| json!({ "error": failure.text, "exit": failure.exit as u8 }));
        answer.to_string().into_bytes()
    }
}

/// The volume and the snapshot that `VOLUME@NAME` names; `None`: it names none.
pub fn named(path: &Path) -> Option<(PathBuf, String)> {
    let (volume, name) = path.to_str()?.rsplit_once('@')?;
    let volume = PathBuf::from(volume);
    (is_name(name.as_bytes()) && !path.exists() && is_volume(&volume))
        .then(|| (volume, name.to_owned()))
}

/// What keeps a snapshot from being opened: where the volume is in use by a mount, that can show it.
fn elsewhere(path: &Path, name: &str, failure: Failure) -> Failure {
    let in_use = failure.exit == Exit::Failed;
    let Some(dir) = in_use.then(|| super::owner::mounted_at(path)).flatten() else {
        return failure;
    };
    let what = format!("the volume is mounted on {}", path_shown(&dir));
    let place = dir.join(SNAPSHOTS).join(name);
    let remedy = match place.exists() {
        true => format!("the snapshot is there: it is at {}", path_shown(&place)),
        false => format!("`esker snapshot mount {} {name} DIR` shows it", path_shown(&dir)),
    };
    Failure::at(Exit::Failed, &what, path, &remedy)
}

/// A snapshot of a volume, to be looked at.
pub fn open(
    path: &Path,
    name: &str,
    (bases, options): (&[PathBuf], esker_volume::Options),
) -> Outcome<Snapped<FileDevice>> {
    let opened =
        super::open_over(path, bases, options).map_err(|failure| elsewhere(path, name, failure));
    let volume = Arc::new(opened?);
    Snapped::new(volume, name).map_err(|error| refused(path, name, error))
}

/// The same for verbs that look into it, if this names one.
pub fn look(path: &Path, bases: &[PathBuf]) -> Option<Outcome<Snapped<FileDevice>>> {
    let (volume, name) = named(path)?;
    let cache = esker_stone::cache::Cache::new(crate::images::CACHE_LEN);
    Some(open(&volume, &name, (bases, esker_volume::Options::new(cache))))
}
