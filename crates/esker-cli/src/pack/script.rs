//! A script of the user's, in Lua, that is asked about what is packed: `filter(entry)` says what is taken, and
//! `order(entries)` which file comes after which.
//!
//! Above: `hooks`. Invariant: a script reaches nothing but what it is told and its own memory, which is bounded;
//! whoever waits for it does so for a bounded time, and whatever it answers only chooses.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use mlua::chunk::ChunkMode;
use mlua::{
    Error, Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, Variadic, VmState,
};

use super::nonsense::NOT_THERE;
use super::patient::read_bounded;
use super::survey::{Ordered, Thing};
use crate::failure::{said, shown};
use crate::printed::told;

/// Longest script.
const SCRIPT_LEN_MAX: u64 = 16 << 20;
/// Memory that a script may have, and so much more for each thing that it is told of.
const MEMORY: usize = 256 << 20;
const MEMORY_EACH: usize = 2 << 10;
/// Instructions after which is looked whether it has had its time.
const INSTRUCTIONS: u32 = 1000;
/// How often is looked whether it goes on.
const LOOK: Duration = Duration::from_millis(20);
/// How long a script that has had its time may take to say where it is.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What it may not have: these read files, and run what is no text.
const TAKEN_AWAY: [&str; 3] = ["dofile", "load", "loadfile"];

/// What a script chose. Things are told by their numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Left out, directories with all that is in them.
    pub out: Vec<usize>,
    /// Files in the order in which they are packed, if it gave one.
    pub first: Option<Vec<usize>>,
    /// What made no sense and was passed over.
    pub wrong: Vec<String>,
}

/// What whoever waits for a script shares with it.
#[derive(Default)]
struct Watch {
    /// Calls that it has come back from.
    calls: AtomicU64,
    /// It has had its time.
    over: AtomicBool,
    /// Where it was then.
    place: OnceLock<String>,
}

/// Asks the script in this file about all things. `skip` passes over what makes no sense. A script that does not come
/// back from a call for as long as `patience` is given up. The error is what went wrong, in words.
pub fn run(
    file: &Path,
    things: &Arc<Vec<Thing>>,
    skip: bool,
    patience: Duration,
) -> Result<Answer, String> {
    let text = read_bounded(file, SCRIPT_LEN_MAX, patience)
        .map_err(|error| format!("cannot be read ({})", said(&error)))?;
    let (sender, answer) = sync_channel(1);
    let watch = Arc::new(Watch::default());
    let (seen, told) = (Arc::clone(&watch), Arc::clone(things));
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Nobody waits for it to end: it may be deep inside of a function of Lua's own for ever.
    thread::spawn(move || {
        let asking = Asking { things: &told, skip, watch: &seen, name: &name };
        let _ = sender.send(asking.all(&text, patience));
    });
    hear(&answer, &watch, patience)
}

/// Waits for the answer of a script that goes on.
fn hear(
    answer: &Receiver<Result<Answer, String>>,
    watch: &Watch,
    patience: Duration,
) -> Result<Answer, String> {
    let (mut since, mut before) = (Instant::now(), 0);
    loop {
        match answer.recv_timeout(LOOK) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Disconnected) => return Err("broke off".to_owned()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = watch.calls.load(Ordering::Relaxed);
        if now != before {
            (before, since) = (now, Instant::now());
        }
        if since.elapsed() >= patience {
            watch.over.store(true, Ordering::Relaxed);
            let last = answer.recv_timeout(LAST_WORDS);
            return last.unwrap_or_else(|_| {
                let place = watch.place.get();
                Err(place.map_or_else(|| slow(patience), |place| format!("failed: {place}")))
            });
        }
    }
}

fn slow(patience: Duration) -> String {
    format!("was not done after {} seconds", patience.as_secs_f64())
}

/// Lua with nothing in it that reaches out.
fn sandbox(things: usize, patience: Duration, watch: &Arc<Watch>) -> mlua::Result<Lua> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::UTF8;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.set_memory_limit(MEMORY.saturating_add(things.saturating_mul(MEMORY_EACH)))?;
    let globals = lua.globals();
    for name in TAKEN_AWAY {
        globals.raw_set(name, Value::Nil)?;
    }
    // What is standard output belongs to the image's own words.
    let print = |_: &Lua, all: Variadic<Value>| {
        let word = |value: &Value| match value {
            Value::String(text) => Ok(text.as_bytes().to_vec()),
            other => other.to_string().map(String::into_bytes),
        };
        let words = all.iter().map(word).collect::<mlua::Result<Vec<_>>>()?;
        told(&format!("{}\n", shown(&words.join(&b'\t'))));
        Ok(())
    };
    globals.raw_set("print", lua.create_function(print)?)?;
    // The same script says the same every time, also one that wants another chance.
    let math = globals.get::<Table>("math")?;
    let seed = math.get::<Function>("randomseed")?;
    seed.call::<()>(0)?;
    let fixed = move |_: &Lua, with: Variadic<Value>| match with.is_empty() {
        true => seed.call::<Variadic<Value>>(0),
        false => seed.call(with),
    };
    math.raw_set("randomseed", lua.create_function(fixed)?)?;
    let (watch, told) = (Arc::clone(watch), Cell::new(false));
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
    lua.set_hook(triggers, move |_, at| {
        if !watch.over.load(Ordering::Relaxed) {
            return Ok(VmState::Continue);
        }
        // It went on after it was told to stop.
        while told.replace(true) {
            thread::park();
        }
        let (line, source) = (at.current_line().unwrap_or(0), at.source());
        let file = source.short_src.unwrap_or_default();
        let place = format!("{file}:{line}: {}", slow(patience));
        watch.place.get_or_init(|| place.clone());
        Err(Error::runtime(place))
    })?;
    Ok(lua)
}

/// An error of Lua's in words: file, line and what is wrong.
fn words(error: &Error) -> String {
    let text = match cause(error) {
        Error::RuntimeError(text) => text.clone(),
        Error::SyntaxError { message, .. } => message.clone(),
        Error::MemoryError(_) => "it wants more memory than it may have".to_owned(),
        other => other.to_string(),
    };
    shown(text.lines().next().unwrap_or_default().as_bytes())
}

/// What an error comes from that went through functions of ours.
fn cause(error: &Error) -> &Error {
    match error {
        Error::CallbackError { cause: below, .. } => cause(below),
        own => own,
    }
}

/// A script that is asked.
struct Asking<'a> {
    things: &'a [Thing],
    skip: bool,
    watch: &'a Arc<Watch>,
    name: &'a str,
}

impl Asking<'_> {
    /// Asks all there is to ask.
    fn all(&self, text: &[u8], patience: Duration) -> Result<Answer, String> {
        let failed = |error: Error| format!("failed: {}", words(&error));
        let lua = sandbox(self.things.len(), patience, self.watch).map_err(failed)?;
        let script = lua.load(text).set_name(format!("@{}", self.name));
        script.set_mode(ChunkMode::Text).exec().map_err(failed)?;
        self.came_back();
        let filter = self.function(&lua, "filter")?;
        let order = self.function(&lua, "order")?;
        if filter.is_none() && order.is_none() {
            return Err("defines neither `filter` nor `order`".to_owned());
        }
        let mut answer = Answer::default();
        if let Some(filter) = filter {
            self.filter(&lua, &filter, &mut answer)?;
        }
        if let Some(order) = order {
            let asked = self.order(&lua, &order, &mut answer);
            asked.or_else(|why| self.bad(why, &mut answer))?;
        }
        Ok(answer)
    }

    fn came_back(&self) {
        self.watch.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn function(&self, lua: &Lua, name: &str) -> Result<Option<Function>, String> {
        match lua.globals().raw_get(name) {
            Ok(Value::Nil) => Ok(None),
            Ok(Value::Function(function)) => Ok(Some(function)),
            _ => Err(format!("failed: {}: `{name}` is no function", self.name)),
        }
    }

    /// Something makes no sense.
    fn bad(&self, why: String, answer: &mut Answer) -> Result<(), String> {
        if !self.skip || self.watch.over.load(Ordering::Relaxed) {
            return Err(why);
        }
        answer.wrong.push(why);
        Ok(())
    }

    /// Where a function begins, as errors of Lua's tell places.
    fn place(&self, function: &Function) -> String {
        let line = function.info().line_defined.unwrap_or(0);
        format!("{}:{line}", shown(self.name.as_bytes()))
    }

    /// Asks of each thing whether it is taken, but of what lies in a directory that is not.
    fn filter(&self, lua: &Lua, filter: &Function, answer: &mut Answer) -> Result<(), String> {
        let mut left: Option<&[u8]> = None;
        for (id, thing) in self.things.iter().enumerate() {
            let inside = |left: &[u8]| {
                thing.path.strip_prefix(left).is_some_and(|rest| rest.starts_with(b"/"))
            };
            if left.is_some_and(inside) {
                answer.out.push(id);
                continue;
            }
            let said = entry(lua, id, thing).and_then(|entry| filter.call::<Value>(entry));
            self.came_back();
            let path = shown(&thing.path);
            match said {
                Ok(Value::Boolean(true)) => {}
                Ok(Value::Boolean(false)) => {
                    answer.out.push(id);
                    left = Some(&thing.path);
                }
                Ok(other) => {
                    let (place, what) = (self.place(filter), other.type_name());
                    let why =
                        format!("answered {what} and neither true nor false, of {path}: {place}");
                    self.bad(why, answer)?;
                }
                Err(error) => {
                    let why = format!("failed: {}, asked of {path}", words(&error));
                    // The next call would want as much, and that may take seconds each time.
                    if matches!(cause(&error), Error::MemoryError(_)) {
                        return Err(why);
                    }
                    self.bad(why, answer)?;
                }
            }
        }
        Ok(())
    }

    /// Asks for the order of all files that stay.
    fn order(&self, lua: &Lua, order: &Function, answer: &mut Answer) -> Result<(), String> {
        let failed = |error: Error| format!("failed: {}", words(&error));
        let entries = lua.create_table().map_err(failed)?;
        let mut out = answer.out.iter().peekable();
        for (id, thing) in self.things.iter().enumerate() {
            let stays = out.next_if_eq(&&id).is_none();
            if stays && thing.is_file() {
                entry(lua, id, thing).and_then(|entry| entries.raw_push(entry)).map_err(failed)?;
            }
        }
        let said = order.call::<Value>(entries).map_err(failed)?;
        self.came_back();
        let place = self.place(order);
        let Value::Table(said) = said else {
            return Err(format!("answered {} and no list: {place}", said.type_name()));
        };
        let paths = self.things.iter().enumerate().map(|(id, thing)| (&thing.path[..], id));
        let paths: HashMap<&[u8], usize> = paths.collect();
        let (mut first, mut order, mut read) = (Vec::new(), Ordered::default(), 0);
        for (at, named) in said.sequence_values::<Value>().enumerate() {
            let named = named.map_err(failed)?;
            if at >= self.things.len() {
                return Err(format!("answered more than there is: {place}"));
            }
            read = at + 1;
            let next = self.named(&named, &paths);
            match next.and_then(|id| order.next(id, &self.things[id]).map(|()| id)) {
                Ok(id) => first.push(id),
                Err(why) => {
                    self.bad(format!("gave an order: {why}: {place}, in place {}", at + 1), answer)?
                }
            }
        }
        if said.pairs::<Value, Value>().nth(read).is_some() {
            self.bad(format!("gave an order that is no list without a gap: {place}"), answer)?;
        }
        answer.first = Some(first);
        Ok(())
    }

    /// The thing that a script names: by its entry, its number, or its path.
    fn named(&self, value: &Value, paths: &HashMap<&[u8], usize>) -> Result<usize, String> {
        let known = |id: mlua::Integer| {
            let own = usize::try_from(id).ok().filter(|&id| id < self.things.len());
            own.ok_or_else(|| format!("{id}: {NOT_THERE}"))
        };
        match value {
            Value::Integer(id) => known(*id),
            Value::Table(entry) => {
                known(entry.raw_get("id").map_err(|_| "a table without an `id`".to_owned())?)
            }
            Value::String(path) => {
                let path = &*path.as_bytes();
                let own = paths.get(path).copied();
                own.ok_or_else(|| format!("{}: {NOT_THERE}", shown(path)))
            }
            other => Err(format!("{} names nothing", other.type_name())),
        }
    }
}

/// What a script is told of a thing.
fn entry(lua: &Lua, id: usize, thing: &Thing) -> mlua::Result<Table> {
    let entry = lua.create_table_with_capacity(0, 9)?;
    let name = thing.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    entry.raw_set("id", id)?;
    entry.raw_set("path", lua.create_string(&thing.path)?)?;
    entry.raw_set("name", lua.create_string(name)?)?;
    entry.raw_set("kind", thing.kind)?;
    entry.raw_set("size", thing.size)?;
    entry.raw_set("mode", thing.mode)?;
    entry.raw_set("uid", thing.uid)?;
    entry.raw_set("gid", thing.gid)?;
    entry.raw_set("mtime", thing.mtime)?;
    Ok(entry)
}
