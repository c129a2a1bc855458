//! What a user's programs and lists say of what is packed before it is: which files are left out, which come first, and
//! which are wanted first when the image is used.
//!
//! Above: `verbs::pack`, `verbs::repack`. Below: `inputs`, `ask`, `script`, `survey`, `nonsense`. Invariant: what they
//! say only chooses; what makes no sense is told, and ends the work or is passed over, as the user chose.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use esker_image::pack::Options;
use serde_json::Value;

use super::ask::ask;
use super::inputs::{First, Input};
use super::nonsense::{NAMED_BEFORE, NOT_THERE, Nonsense, OnBad};
use super::options::{refuse_in_vain, remember};
use super::patient::read_list;
use super::survey::{Ordered, Thing};
use super::{Plan, script};
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
    /// Ask a script in Lua: its function filter(entry) says true or false of each thing, and order(entries) gives the
    /// list of files in the order in which they are packed; it needs only one of them
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// The order in which files are packed: path (the usual one), kind (files with the same ending beside each other),
    /// size (the smallest first), or explicit:FILE, with a path on each line; what is not named there comes last
    #[arg(long, value_name = "ORDER", value_parser = order)]
    order: Option<Order>,
    /// Files that are wanted first, as `esker mount --profile` writes them: they come first, in blocks of their own
    #[arg(long, value_name = "FILE")]
    hot: Option<PathBuf>,
    /// What to do when one of these fails, hangs or makes no sense: stop, or tell it and go on with what did
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_bad_answer: OnBad,
    /// How many seconds a program may neither read nor answer, a call of a script may take, and a list that is a pipe
    /// may say nothing
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    answer_timeout: u32,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Order {
    Path,
    Kind,
    Size,
    /// That of a list.
    Explicit(PathBuf),
}

fn order(word: &str) -> Result<Order, String> {
    match word.split_once(':').unwrap_or((word, "")) {
        ("path", "") => Ok(Order::Path),
        ("kind", "") => Ok(Order::Kind),
        ("size", "") => Ok(Order::Size),
        ("explicit" | "list", file) if !file.is_empty() => Ok(Order::Explicit(file.into())),
        _ => Err("known are path, kind, size and explicit:FILE".to_owned()),
    }
}

/// What was chosen.
#[derive(Debug, Default)]
pub struct Chosen {
    /// Things that are left out, directories with all that is in them.
    out: HashSet<usize>,
    /// Files that come first, in this order.
    pub first: Vec<First>,
    /// Whether somebody gave an order that is to be kept.
    pub ordered: bool,
    /// What made no sense and was passed over.
    pub nonsense: Vec<String>,
}

impl Hooks {
    /// Whether nothing is to be asked.
    pub fn is_empty(&self) -> bool {
        self.filter_by.is_none() && !self.may_order()
    }

    /// Whether files may come in another order than the usual one.
    pub fn may_order(&self) -> bool {
        self.hot.is_some() || self.script.is_some() || self.order_by.is_some() || self.orders()
    }

    /// Whether there is an order other than the usual one.
    fn orders(&self) -> bool {
        self.order.as_ref().is_some_and(|order| *order != Order::Path)
    }

    /// Asks about all things in `inputs`, which are open, but those that the plan leaves out. With `all` lists may name
    /// these too.
    pub fn choose(&self, inputs: &mut [Input<'_>], plan: &Plan<'_>, all: bool) -> Outcome<Chosen> {
        let mut chosen = Chosen::default();
        if self.is_empty() {
            return Ok(chosen);
        }
        let (mut things, mut starts) = (Vec::new(), Vec::new());
        for input in &*inputs {
            starts.push(things.len());
            things.extend(input.things(plan));
        }
        let things = Arc::new(things);
        let known = Known::of(&things, inputs, &starts, all);
        if let Some(command) = &self.filter_by {
            let mut told = HashSet::new();
            let take = |id: usize, answer: &Value| {
                let take = answer.get("take").and_then(Value::as_bool);
                let take = take.ok_or("`take` is neither true nor false")?;
                if !told.insert(id) {
                    return Err(NAMED_BEFORE.to_owned());
                }
                if !take {
                    chosen.out.insert(id);
                }
                Ok(())
            };
            let nonsense = self.asked("--filter-by", command, &known, take)?;
            chosen.nonsense.extend(nonsense);
        }
        if let Some(list) = &self.hot {
            self.listed(list, &known, &mut chosen)?;
            chosen.first.iter_mut().for_each(|file| file.hot = true);
        }
        if let Some(file) = &self.script {
            self.scripted(file, &known, &mut chosen)?;
        }
        if let Some(command) = &self.order_by {
            let mut order = Ordered::default();
            let next = |id: usize, _: &Value| {
                order.next(id, &known.things[id])?;
                chosen.first.push(known.first(id));
                Ok(())
            };
            let nonsense = self.asked("--order-by", command, &known, next)?;
            chosen.nonsense.extend(nonsense);
        }
        let mut ordered = self.order_by.is_some() || self.orders();
        match &self.order {
            None | Some(Order::Path) => {}
            Some(Order::Kind) => chosen.first.extend(known.by_key(|thing| ending(&thing.path))),
            Some(Order::Size) => chosen.first.extend(known.by_key(|thing| thing.size)),
            Some(Order::Explicit(list)) => ordered = self.listed(list, &known, &mut chosen)?,
        }
        chosen.ordered |= ordered;
        let out: Vec<_> = chosen.out.iter().map(|&id| known.place(id)).collect();
        for (input, path) in out {
            inputs[input].out.insert(path);
        }
        Ok(chosen)
    }

    /// Has an image be made as it was chosen, and keep that it was; what else was said must have an effect then.
    pub fn heed(&self, chosen: &Chosen, options: &mut Options) -> Outcome {
        if chosen.ordered {
            options.keep_order();
        }
        remember(options, &self.said(chosen));
        refuse_in_vain(options, self.hot.is_some())
    }

    /// In what way files were put in an order, as the image keeps it: without what only this machine knows.
    fn said(&self, chosen: &Chosen) -> Vec<String> {
        let mut said = Vec::new();
        let mut say = |if_so: bool, words: &str| said.extend(if_so.then(|| words.to_owned()));
        say(chosen.first.iter().any(|file| file.hot), "--hot");
        say(self.order_by.is_some(), "--order-by");
        say(self.order == Some(Order::Kind), "--order kind");
        say(self.order == Some(Order::Size), "--order size");
        let explicit = matches!(self.order, Some(Order::Explicit(_)));
        say(chosen.ordered && explicit, "--order explicit");
        let by_script = chosen.ordered && self.order_by.is_none() && !self.orders();
        say(by_script, "--script");
        said
    }

    /// How long whoever says nothing is waited for.
    fn patience(&self) -> Duration {
        Duration::from_secs(self.answer_timeout.into())
    }

    /// The files in which lists and scripts are.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let listed = self.order.iter().filter_map(|order| match order {
            Order::Explicit(list) => Some(list.as_path()),
            _ => None,
        });
        self.script.iter().chain(&self.hot).map(PathBuf::as_path).chain(listed)
    }

    /// Asks a program about all things.
    fn asked(
        &self,
        what: &str,
        command: &str,
        known: &Known<'_, '_>,
        mut each: impl FnMut(usize, &Value) -> Result<(), String>,
    ) -> Outcome<Vec<String>> {
        let patience = self.patience();
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
    fn scripted(&self, file: &Path, known: &Known<'_, '_>, chosen: &mut Chosen) -> Outcome {
        let patience = self.patience();
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
        chosen.out.extend(answer.out);
        if let Some(first) = answer.first {
            if self.order_by.is_some() || self.orders() {
                let what = "the script gives an order, and so does --order or --order-by";
                return Err(Failure::new(Exit::Usage, what, "leave one of them out"));
            }
            chosen.first.extend(first.into_iter().map(|id| known.first(id)));
            chosen.ordered = true;
        }
        Ok(())
    }

    /// Reads a list of paths; each file that is known comes next. Whether there is such a list.
    fn listed(&self, list: &Path, known: &Known<'_, '_>, chosen: &mut Chosen) -> Outcome<bool> {
        let (mut order, mut untold) = (Ordered::default(), HashSet::new());
        let mut nonsense = Nonsense::of(path_shown(list), self.on_bad_answer);
        let text = match read_list(list, self.patience()) {
            Ok(text) => text,
            Err(error) if self.on_bad_answer == OnBad::Stop => {
                let what = format!("cannot read the list ({})", said(&error));
                let remedy = "name a file with a path on each line, or go on without it by \
                              --on-bad-answer skip";
                return Err(Failure::at(Exit::Source, &what, list, remedy));
            }
            Err(error) => {
                nonsense.met(&format!("cannot be read ({})", said(&error)))?;
                chosen.nonsense.extend(nonsense.told());
                return Ok(false);
            }
        };
        let mut next = |path: &[u8]| {
            if let Some(&id) = known.by_path.get(path) {
                order.next(id, &known.things[id])?;
                chosen.first.push(known.first(id));
                return Ok(());
            }
            chosen.first.push(known.untold(path)?);
            if untold.insert(path.to_vec()) { Ok(()) } else { Err(NAMED_BEFORE.to_owned()) }
        };
        for (line, path) in paths_in(&text) {
            let told = |why: String| nonsense.met(&format!("names {}: {why}", shown(line)));
            next(path).or_else(told)?;
        }
        chosen.nonsense.extend(nonsense.told());
        Ok(true)
    }
}

/// The lines of a list, each with the path below the root that it names.
fn paths_in(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
        let path = line.strip_prefix(b".").filter(|rest| rest.starts_with(b"/")).unwrap_or(line);
        (line, path.strip_prefix(b"/").unwrap_or(path))
    })
}

/// What a file's name ends with, from its last dot on, if that is not its first letter.
fn ending(path: &[u8]) -> &[u8] {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0);
    dot.map_or(&[], |dot| &name[dot..])
}

/// All things, found by their paths.
struct Known<'a, 'i> {
    things: &'a Arc<Vec<Thing>>,
    by_path: HashMap<&'a [u8], usize>,
    inputs: &'a [Input<'i>],
    /// Where the things of each input begin.
    starts: &'a [usize],
    /// Lists may name what rules leave out.
    all: bool,
}

impl<'a, 'i> Known<'a, 'i> {
    fn of(
        things: &'a Arc<Vec<Thing>>,
        inputs: &'a [Input<'i>],
        starts: &'a [usize],
        all: bool,
    ) -> Self {
        let by_path = things.iter().enumerate().map(|(id, thing)| (&thing.path[..], id)).collect();
        Self { things, by_path, inputs, starts, all }
    }

    fn path(&self, id: usize) -> &[u8] {
        &self.things[id].path
    }

    /// Of which input a thing is, and where it is below the root of that.
    fn place(&self, id: usize) -> (usize, Vec<u8>) {
        let input = self.starts.partition_point(|&start| start <= id) - 1;
        let below = self.inputs[input].below(self.path(id)).unwrap_or_default();
        (input, below.to_vec())
    }

    /// It as a file that comes first.
    fn first(&self, id: usize) -> First {
        let (input, path) = self.place(id);
        First { input, path, hot: false }
    }

    /// The same of a file of which nobody was told, if a list may name it.
    fn untold(&self, path: &[u8]) -> Result<First, String> {
        let mut inputs = self.inputs.iter().enumerate();
        let place = inputs.find_map(|(input, own)| Some((input, own.below(path)?)));
        let (input, below) = place.ok_or(NOT_THERE)?;
        self.inputs[input].has(below, self.all)?;
        Ok(First { input, path: below.to_vec(), hot: false })
    }

    /// All files in the order of something.
    fn by_key<K: Ord>(&self, key: impl Fn(&'a Thing) -> K) -> impl Iterator<Item = First> {
        let things = self.things.iter().enumerate();
        let mut files: Vec<_> = things.filter(|(_, thing)| thing.is_file()).collect();
        files.sort_by_key(|(_, thing)| key(thing));
        files.into_iter().map(|(id, _)| self.first(id))
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
