//! What a user's programs and lists say of a tree before it is packed: which files are left out, which come first, and
//! which are wanted first when the image is used.
//!
//! Above: `verbs::pack`. Below: `ask`. Invariant: what they say only chooses; what makes no sense is told, and ends the
//! work or is passed over, as the user chose.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Rules;
use super::ask::ask;
use crate::failure::{Exit, Failure, Outcome, path_shown, said, shown};

/// Programs and lists that choose.
#[derive(Args)]
pub struct Hooks {
    /// Ask a program which files to leave out: a line of JSON about each thing goes in, and lines such as
    /// {"id": 7, "take": false} come out
    #[arg(long, value_name = "COMMAND")]
    filter_by: Option<String>,
    /// Ask a program for the order in which files are packed: a line of JSON about each thing goes in, and lines such
    /// as {"id": 7} come out, the first file first; those that it does not name come last
    #[arg(long, value_name = "COMMAND", conflicts_with = "order")]
    order_by: Option<String>,
    /// The order in which files are packed: explicit:FILE, with a path on each line; what is not named there comes last
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// Files that are wanted first, as `esker mount --profile` writes them: they come first, in blocks of their own
    #[arg(long, value_name = "FILE")]
    hot: Option<PathBuf>,
    /// What to do when one of these fails, hangs or makes no sense: stop, or tell it and go on with what did
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_bad_answer: OnBad,
    /// How many seconds a program may neither read nor answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    answer_timeout: u32,
}

/// What happens after an answer that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnBad {
    /// Nothing is packed.
    Stop,
    /// It is told and passed over.
    Skip,
}

/// What was chosen. All paths are below the root of the tree, without a `/` in front.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Things that are left out, directories with all that is in them.
    pub out: HashSet<Vec<u8>>,
    /// Files that come first, in this order.
    pub first: Vec<Vec<u8>>,
    /// How many of these are wanted first.
    pub hot: usize,
    /// Whether somebody gave an order that is to be kept.
    pub ordered: bool,
}

/// One thing in the tree.
struct Thing {
    path: Vec<u8>,
    file: bool,
    line: String,
}

impl Hooks {
    /// Whether nothing is to be asked.
    const fn is_empty(&self) -> bool {
        self.filter_by.is_none()
            && self.order_by.is_none()
            && self.order.is_none()
            && self.hot.is_none()
    }

    /// Asks about all things below the only one of `inputs`, but those that `rules` leave out.
    pub fn choose(&self, inputs: &[PathBuf], rules: &Rules) -> Outcome<Chosen> {
        let mut chosen = Chosen::default();
        if self.is_empty() {
            return Ok(chosen);
        }
        let [root] = inputs else { return Err(only_one()) };
        if !root.is_dir() {
            return Err(only_one());
        }
        let things = survey(root, rules);
        let known = things.iter().enumerate().map(|(id, thing)| (&thing.path[..], id)).collect();
        let known = Known { things: &things, by_path: known };
        if let Some(command) = &self.filter_by {
            let take = |id: usize, answer: &Value| {
                match answer.get("take").map(Value::as_bool) {
                    Some(Some(true)) => chosen.out.remove(&things[id].path),
                    Some(Some(false)) => chosen.out.insert(things[id].path.clone()),
                    _ => return Err("`take` is neither true nor false".to_owned()),
                };
                Ok(())
            };
            self.asked("--filter-by", command, &known, take)?;
        }
        if let Some(list) = &self.hot {
            self.listed(list, &known, &mut chosen)?;
            chosen.hot = chosen.first.len();
        }
        if let Some(command) = &self.order_by {
            let next = |id: usize, _: &Value| {
                chosen.first.push(things[id].path.clone());
                Ok(())
            };
            self.asked("--order-by", command, &known, next)?;
        }
        if let Some(order) = &self.order {
            let Some(list) = order.strip_prefix("explicit:").filter(|list| !list.is_empty()) else {
                let what = format!("bad --order: {order}");
                return Err(Failure::new(Exit::Usage, what, "write explicit:FILE"));
            };
            self.listed(Path::new(list), &known, &mut chosen)?;
        }
        chosen.ordered = self.order_by.is_some() || self.order.is_some();
        chosen.first.retain(|path| known.is_file(path));
        chosen.hot = chosen.hot.min(chosen.first.len());
        Ok(chosen)
    }

    /// Something makes no sense.
    fn bad(&self, why: String) -> Outcome {
        match self.on_bad_answer {
            OnBad::Stop => {
                Err(Failure::new(Exit::Source, why, "--on-bad-answer skip goes on all the same"))
            }
            OnBad::Skip => {
                eprintln!("esker: {why}");
                Ok(())
            }
        }
    }

    /// Asks a program about all things.
    fn asked(
        &self,
        what: &str,
        command: &str,
        known: &Known<'_>,
        mut each: impl FnMut(usize, &Value) -> Result<(), String>,
    ) -> Outcome {
        let patience = Duration::from_secs(self.answer_timeout.into());
        let mut passed_over = Vec::new();
        let lines = known.things.iter().map(|thing| thing.line.clone()).collect();
        let ended = ask(command, lines, patience, |line| {
            let right = known.answer(line).and_then(|(id, answer)| each(id, &answer));
            match (right, self.on_bad_answer) {
                (Err(why), OnBad::Skip) => {
                    passed_over.push(format!("answered `{}`: {why}", shown(line)));
                    Ok(())
                }
                (right, _) => right,
            }
        });
        for why in passed_over.into_iter().chain(ended.err()) {
            self.bad(format!("the program of {what} {why}"))?;
        }
        Ok(())
    }

    /// Reads a list of paths; each that is known comes next.
    fn listed(&self, list: &Path, known: &Known<'_>, chosen: &mut Chosen) -> Outcome {
        let text = std::fs::read(list).map_err(|error| {
            let what = format!("cannot read the list ({})", said(&error));
            Failure::at(Exit::Source, &what, list, "name a file with a path on each line")
        })?;
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let path =
                line.strip_prefix(b".").filter(|rest| rest.starts_with(b"/")).unwrap_or(line);
            let path = path.strip_prefix(b"/").unwrap_or(path);
            if known.by_path.contains_key(path) {
                chosen.first.push(path.to_vec());
            } else {
                let list = path_shown(list);
                self.bad(format!("{list} names what is not there: {}", shown(line)))?;
            }
        }
        Ok(())
    }
}

fn only_one() -> Failure {
    let what = "--filter-by, --order-by, --order and --hot are about one directory";
    Failure::new(Exit::Usage, what, "give one directory to pack; `esker repack` orders images")
}

/// All things, found by their paths.
struct Known<'a> {
    things: &'a [Thing],
    by_path: HashMap<&'a [u8], usize>,
}

impl Known<'_> {
    fn is_file(&self, path: &[u8]) -> bool {
        self.by_path.get(path).is_some_and(|&id| self.things[id].file)
    }

    /// What an answer is about, by number or by path.
    fn answer(&self, line: &[u8]) -> Result<(usize, Value), String> {
        let answer: Value = serde_json::from_slice(line).map_err(|_| "it is no JSON")?;
        let id = match (answer.get("id"), answer.get("path")) {
            (Some(id), _) => {
                let id = id.as_u64().and_then(|id| usize::try_from(id).ok());
                id.filter(|&id| id < self.things.len()).ok_or("there is no such id")?
            }
            (None, Some(path)) => {
                let path = path.as_str().ok_or("`path` is no string")?;
                *self.by_path.get(path.as_bytes()).ok_or("there is no such path")?
            }
            (None, None) => return Err("it names nothing by `id` or `path`".to_owned()),
        };
        Ok((id, answer))
    }
}

/// All things below a directory in the order of their paths. What cannot be read is told when it is packed.
fn survey(root: &Path, rules: &Rules) -> Vec<Thing> {
    let (mut things, mut pending) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = pending.pop() {
        let path = below.as_os_str().as_bytes();
        let Ok(meta) = root.join(&below).symlink_metadata() else { continue };
        if !path.is_empty() {
            if !rules.take(path, meta.is_dir()) {
                continue;
            }
            let line = described(things.len(), path, &meta);
            things.push(Thing { path: path.to_vec(), file: meta.is_file(), line });
        }
        if meta.is_dir() {
            let listed = root.join(&below).read_dir();
            let mut names: Vec<_> =
                listed.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
            names.sort_unstable_by(|one, other| other.as_bytes().cmp(one.as_bytes()));
            pending.extend(names.into_iter().map(|name| below.join(name)));
        }
    }
    things
}

/// A thing for a program. A path that is no UTF-8 is told with U+FFFD in it, and named by its number.
fn described(id: usize, path: &[u8], meta: &std::fs::Metadata) -> String {
    let kind = match esker::Kind::from_mode(meta.mode()) {
        Some(esker::Kind::File) => "file",
        Some(esker::Kind::Directory) => "directory",
        Some(esker::Kind::Symlink) => "symlink",
        _ => "special",
    };
    json!({
        "id": id,
        "path": String::from_utf8_lossy(path),
        "kind": kind,
        "size": meta.size(),
        "mode": meta.mode() & 0o7777,
        "uid": meta.uid(),
        "gid": meta.gid(),
        "mtime": meta.mtime(),
    })
    .to_string()
}
