//! What a user's programs and lists say of a tree before it is packed: which files are left out, which come first, and
//! which are wanted first when the image is used.
//!
//! Above: `verbs::pack`. Below: `ask`, `script`, `survey`, `nonsense`. Invariant: what they say only chooses; what
//! makes no sense is told, and ends the work or is passed over, as the user chose.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Error, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::ask::ask;
use super::nonsense::{NOT_THERE, Nonsense, OnBad};
use super::survey::{Ordered, Thing, survey};
use super::{Rules, script};
use crate::failure::{Exit, Failure, Outcome, path_shown, said, shown};
use crate::units::size_shown;

/// The longest list: a hundred bytes for each of five million paths.
const LIST_LEN_MAX: u64 = 512 << 20;

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
    /// Ask a script in Lua: its function filter(entry) says true or false of each thing, and order(entries) gives the
    /// list of files in the order in which they are packed; it needs only one of them
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// The order in which files are packed: explicit:FILE, with a path on each line; what is not named there comes last
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// Files that are wanted first, as `esker mount --profile` writes them: they come first, in blocks of their own
    #[arg(long, value_name = "FILE")]
    hot: Option<PathBuf>,
    /// What to do when one of these fails, hangs or makes no sense: stop, or tell it and go on with what did
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_bad_answer: OnBad,
    /// How many seconds a program may neither read nor answer, and a call of a script may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    answer_timeout: u32,
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
    /// What made no sense and was passed over.
    pub nonsense: Vec<String>,
}

impl Hooks {
    /// Whether nothing is to be asked.
    const fn is_empty(&self) -> bool {
        self.filter_by.is_none()
            && self.order_by.is_none()
            && self.script.is_none()
            && self.order.is_none()
            && self.hot.is_none()
    }

    /// Whether something is wanted first.
    pub const fn hot(&self) -> bool {
        self.hot.is_some()
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
        let things = Arc::new(survey(root, rules));
        let known = Known::of(&things);
        if let Some(command) = &self.filter_by {
            let take = |id: usize, answer: &Value| {
                match answer.get("take").map(Value::as_bool) {
                    Some(Some(true)) => chosen.out.remove(known.path(id)),
                    Some(Some(false)) => chosen.out.insert(known.path(id).to_vec()),
                    _ => return Err("`take` is neither true nor false".to_owned()),
                };
                Ok(())
            };
            let nonsense = self.asked("--filter-by", command, &known, take)?;
            chosen.nonsense.extend(nonsense);
        }
        if let Some(list) = &self.hot {
            self.listed(list, &known, &mut chosen)?;
            chosen.hot = chosen.first.len();
        }
        if let Some(file) = &self.script {
            self.scripted(file, &known, &mut chosen)?;
        }
        if let Some(command) = &self.order_by {
            let mut order = Ordered::default();
            let next = |id: usize, _: &Value| {
                order.next(id, &known.things[id])?;
                chosen.first.push(known.path(id).to_vec());
                Ok(())
            };
            let nonsense = self.asked("--order-by", command, &known, next)?;
            chosen.nonsense.extend(nonsense);
        }
        if let Some(order) = &self.order {
            let Some(list) = order.strip_prefix("explicit:").filter(|list| !list.is_empty()) else {
                let what = format!("bad --order: {order}");
                return Err(Failure::new(Exit::Usage, what, "write explicit:FILE"));
            };
            self.listed(Path::new(list), &known, &mut chosen)?;
        }
        chosen.ordered |= self.order_by.is_some() || self.order.is_some();
        Ok(chosen)
    }

    /// The files in which lists and scripts are.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let listed = self.order.iter().filter_map(|order| order.strip_prefix("explicit:"));
        let named = self.script.iter().chain(&self.hot).map(PathBuf::as_path);
        named.chain(listed.map(Path::new))
    }

    /// Asks a program about all things.
    fn asked(
        &self,
        what: &str,
        command: &str,
        known: &Known<'_>,
        mut each: impl FnMut(usize, &Value) -> Result<(), String>,
    ) -> Outcome<Vec<String>> {
        let patience = Duration::from_secs(self.answer_timeout.into());
        let mut nonsense = Nonsense::of(format!("the program of {what}"), self.on_bad_answer);
        let (all, mut heard) = (Arc::clone(known.things), 0);
        let lines = (0..all.len()).map(move |id| all[id].line(id));
        let ended = ask(command, lines, patience, |line| {
            // Who answers for ever would be listened to for ever.
            if heard == known.things.len() {
                return Err("that is more than was asked".to_owned());
            }
            heard += 1;
            let right = known.answer(line).and_then(|(id, answer)| each(id, &answer));
            right.or_else(|why| {
                let told = nonsense.met(&format!("answered `{}`: {why}", shown(line)));
                told.map_err(|_| why)
            })
        });
        ended.or_else(|why| nonsense.met(&why))?;
        Ok(nonsense.told())
    }

    /// Asks a script about all things.
    fn scripted(&self, file: &Path, known: &Known<'_>, chosen: &mut Chosen) -> Outcome {
        let patience = Duration::from_secs(self.answer_timeout.into());
        let skip = self.on_bad_answer == OnBad::Skip;
        let source = format!("the script {}", path_shown(file));
        let mut nonsense = Nonsense::of(source, self.on_bad_answer);
        let answer = match script::run(file, known.things, skip, patience) {
            Ok(answer) => answer,
            Err(why) => {
                nonsense.met(&why)?;
                chosen.nonsense.extend(nonsense.told());
                return Ok(());
            }
        };
        for why in &answer.wrong {
            nonsense.met(why)?;
        }
        chosen.nonsense.extend(nonsense.told());
        let path = |id: usize| known.path(id).to_vec();
        chosen.out.extend(answer.out.into_iter().map(path));
        if let Some(first) = answer.first {
            if self.order_by.is_some() || self.order.is_some() {
                let what = "the script gives an order, and so does --order or --order-by";
                return Err(Failure::new(Exit::Usage, what, "leave one of them out"));
            }
            chosen.first.extend(first.into_iter().map(path));
            chosen.ordered = true;
        }
        Ok(())
    }

    /// Reads a list of paths; each file that is known comes next.
    fn listed(&self, list: &Path, known: &Known<'_>, chosen: &mut Chosen) -> Outcome {
        let mut order = Ordered::default();
        let nonsense = each_in(list, self.on_bad_answer, |path| {
            let &id = known.by_path.get(path).ok_or(NOT_THERE)?;
            order.next(id, &known.things[id])?;
            chosen.first.push(path.to_vec());
            Ok(())
        })?;
        chosen.nonsense.extend(nonsense);
        Ok(())
    }
}

/// Tells `next` each path in a list, below the root. Its error is why that makes no sense; what comes back is what of
/// it was passed over.
pub fn each_in(
    list: &Path,
    on_bad: OnBad,
    mut next: impl FnMut(&[u8]) -> Result<(), String>,
) -> Outcome<Vec<String>> {
    let text = read_bounded(list).map_err(|error| {
        let what = format!("cannot read the list ({})", said(&error));
        Failure::at(Exit::Source, &what, list, "name a file with a path on each line")
    })?;
    let mut nonsense = Nonsense::of(path_shown(list), on_bad);
    for (line, path) in paths_in(&text) {
        let told = |why: String| nonsense.met(&format!("names {}: {why}", shown(line)));
        next(path).or_else(told)?;
    }
    Ok(nonsense.told())
}

/// All of a list, if it has an end.
pub fn read_bounded(list: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    match File::open(list)?.take(LIST_LEN_MAX + 1).read_to_end(&mut text)? as u64 {
        ..=LIST_LEN_MAX => Ok(text),
        _ => {
            let most = size_shown(LIST_LEN_MAX);
            Err(Error::new(ErrorKind::FileTooLarge, format!("it has more than {most}")))
        }
    }
}

/// The lines of a list, each with the path below the root that it names.
fn paths_in(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
        let path = line.strip_prefix(b".").filter(|rest| rest.starts_with(b"/")).unwrap_or(line);
        (line, path.strip_prefix(b"/").unwrap_or(path))
    })
}

fn only_one() -> Failure {
    let what = "--filter-by, --order-by, --script, --order and --hot are about one directory";
    Failure::new(Exit::Usage, what, "give one directory to pack; `esker repack` orders images")
}

/// All things, found by their paths.
struct Known<'a> {
    things: &'a Arc<Vec<Thing>>,
    by_path: HashMap<&'a [u8], usize>,
}

impl<'a> Known<'a> {
    fn of(things: &'a Arc<Vec<Thing>>) -> Self {
        let by_path = things.iter().enumerate().map(|(id, thing)| (&thing.path[..], id)).collect();
        Self { things, by_path }
    }

    fn path(&self, id: usize) -> &[u8] {
        &self.things[id].path
    }

    /// What an answer is about, by number or by path.
    fn answer(&self, line: &[u8]) -> Result<(usize, Value), String> {
        let answer: Value = serde_json::from_slice(line).map_err(|_| "it is no JSON")?;
        let by_id = |id: &Value| {
            let id = id.as_u64().and_then(|id| usize::try_from(id).ok());
            id.filter(|&id| id < self.things.len()).ok_or("there is no such id")
        };
        let id = answer.get("id").map(by_id).transpose()?;
        let by_path = |path: &Value| {
            let path = path.as_str().ok_or("`path` is no string")?;
            // It may come as it was shown, which of some is not what it is.
            let as_shown = id.filter(|&id| String::from_utf8_lossy(self.path(id)) == path);
            let found = as_shown.or_else(|| self.by_path.get(path.as_bytes()).copied());
            found.ok_or("there is no such path")
        };
        let path = answer.get("path").map(by_path).transpose()?;
        match (id, path) {
            (Some(id), Some(path)) if id != path => {
                Err("`id` and `path` are of two things".to_owned())
            }
            (None, None) => Err("it names nothing by `id` or `path`".to_owned()),
            (Some(id), _) | (None, Some(id)) => Ok((id, answer)),
        }
    }
}
