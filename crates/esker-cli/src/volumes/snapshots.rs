//! Snapshots of a volume, for verbs and for the server of a mount: the same request means the same to both.
//!
//! Above: `verbs::snapshot`, `serve`, `images`. Below: `esker-volume`. Invariant: a request that fails says what
//! is wrong and the way out, and changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use esker_fuse::Control;
use esker_stone::rows::snapshots::{SnapshotRow, is_name};
use esker_volume::device::FileDevice;
use esker_volume::rules::{Rule, RuleError, Rules};
use esker_volume::snapshots::Held;
use esker_volume::{Changed, Changes, Error, How, SNAPSHOTS, Snapped, SnapshotError, Volume};
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

/// Makes or deletes the snapshot of a name.
type Does<'a> = &'a dyn Fn(&str) -> Result<(), SnapshotError>;

/// Tells what changed since a snapshot.
type Compares<'a> = &'a dyn Fn(&str, Option<&str>) -> Result<(Changes, u64), SnapshotError>;

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

/// Does what is asked of a volume; `create` makes one, `delete` deletes it, `compare` compares it, with whatever has to
/// be written before.
fn answer(
    path: &Path,
    volume: &Volume<FileDevice>,
    request: Request<'_>,
    (create, delete, compare): (Does<'_>, Does<'_>, Compares<'_>),
) -> Outcome<Value> {
    match request {
        Request::Create(name) => {
            create(name).map_err(|error| refused(path, name, error))?;
            Ok(json!({ "created": name }))
        }
        Request::List => listed(volume).map_err(|error| failure(path, &error)),
        Request::Delete(name) => {
            delete(name).map_err(|error| refused(path, name, error))?;
            Ok(json!({ "deleted": name }))
        }
        Request::Rules(edit) => ruled(path, volume, &edit),
        Request::Diff(from, to) => {
            let missing = |name: &&str| volume.snapshot(name).is_err();
            let named = [Some(from), to].into_iter().flatten().find(missing).unwrap_or(from);
            let found = compare(from, to).map_err(|error| refused(path, named, error))?;
            Ok(compared(&found, if volume.is_writable() { TEXTS_LEN_MAX } else { usize::MAX }))
        }
    }
}

/// The same of a volume that nobody has mounted.
pub fn offline(path: &Path, bases: &[PathBuf], request: Request<'_>) -> Outcome<Value> {
    let write = match &request {
        Request::List | Request::Diff(..) => false,
        Request::Rules(edit) => !edit.is_empty(),
        Request::Create(_) | Request::Delete(_) => true,
    };
    let options = super::opening(path, write, &crate::options::Options::parse(&[], 1 << 30)?);
    let volume = super::open_over(path, bases, options)?;
    let does: (Does<'_>, Does<'_>, Compares<'_>) = (
        &|name| volume.create_snapshot(name),
        &|name| volume.delete_snapshot(name),
        &|from, to| volume.changes_since(from, to),
    );
    let done = answer(path, &volume, request, does);
    if write {
        // All is safe without it.
        let _ = volume.close();
    }
    done
}

/// Refuses the mount of a volume for what only the volume itself can do.
fn not_mounted(path: &Path, what: &str) -> Outcome {
    if !is_volume(path) && esker_fuse::mount::mounted_on(path).is_ok() {
        return Err(Failure::at(Exit::Failed, what, path, "unmount it, and name the volume"));
    }
    Ok(())
}

/// Goes back to a snapshot of a volume that nobody has mounted; what was is a snapshot of the name `keep` then.
pub fn rollback(
    (path, bases): (&Path, &[PathBuf]),
    name: &str,
    keep: Option<&str>,
) -> Outcome<Value> {
    not_mounted(path, "a mounted volume cannot go back")?;
    let options = super::opening(path, true, &crate::options::Options::parse(&[], 1 << 30)?);
    let volume = super::open_over(path, bases, options)?;
    let done = volume.snapshot(name).map_err(|error| refused(path, name, error)).and_then(|_| {
        if let Some(keep) = keep {
            volume.create_snapshot(keep).map_err(|error| refused(path, keep, error))?;
        }
        volume.rollback(name).map_err(|error| refused(path, name, error))
    });
    // All is safe without it.
    let _ = volume.close();
    done.map(|()| json!({ "now": name, "kept": keep }))
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
    let handed_over = matches!(request, Request::Create(_) | Request::Diff(_, None));
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

    fn answered(&self, message: &[u8]) -> Outcome<Value> {
        let usage = |what: &str| Failure::new(Exit::Usage, what, "take the esker that mounted it");
        let message: Value = serde_json::from_slice(message).map_err(|_| usage("no request"))?;
        let request = Request::read(&message).ok_or_else(|| usage("an unknown request"))?;
        let gone = || Failure::at(Exit::Failed, "not mounted any more", &self.path, "");
        let fs = self.fs.upgrade().ok_or_else(gone)?;
        let home = fs.store();
        let does: (Does<'_>, Does<'_>, Compares<'_>) = (
            &|name| home.create_snapshot(name),
            &|name| home.delete_snapshot(name),
            &|from, to| {
                if to.is_none() {
                    home.write()?;
                }
                home.volume().changes_meanwhile(from, to)
            },
        );
        answer(&self.path, home.volume(), request, does)
    }
}

impl Control for Desk {
    fn answer(&self, request: &[u8]) -> Vec<u8> {
        let answer = self
            .answered(request)
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
        false => "mounted with -o snapshots it shows its snapshots there".to_owned(),
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
