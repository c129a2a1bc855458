//! What happens when those that choose make no sense: programs, scripts and lists.
//!
//! Above: `hooks`, `verbs::repack`. Invariant: each is told, but of many of one source only the first and how many more
//! there were; whoever asks is told the same.

use clap::ValueEnum;

use crate::failure::{Exit, Failure, Outcome};
use crate::printed::warn;

/// How many of one source are told.
const TOLD: usize = 5;

/// Why something in an order makes no sense.
pub const NOT_THERE: &str = "it is not there";
pub const NAMED_BEFORE: &str = "it was named before";

/// The same of what is a `directory`, or whatever else has no bytes.
pub fn no_file(kind: &str) -> String {
    format!("it is a {kind}, and only files come in an order")
}

/// What happens after an answer that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnBad {
    /// Nothing is packed.
    Stop,
    /// It is told and passed over.
    Skip,
}

/// What made no sense of one source.
pub struct Nonsense {
    on: OnBad,
    source: String,
    met: usize,
    told: Vec<String>,
}

impl Nonsense {
    /// Nothing yet of a source, which is named as what is told begins.
    pub const fn of(source: String, on: OnBad) -> Self {
        Self { on, source, met: 0, told: Vec::new() }
    }

    /// Something makes no sense.
    pub fn met(&mut self, why: &str) -> Outcome {
        if self.on == OnBad::Stop {
            let what = format!("{} {why}", self.source);
            let remedy = "--on-bad-answer skip goes on all the same";
            return Err(Failure::new(Exit::Source, what, remedy));
        }
        self.met += 1;
        if self.met <= TOLD {
            self.tell(format!("{} {why}", self.source));
        }
        Ok(())
    }

    fn tell(&mut self, what: String) {
        warn(&what);
        self.told.push(what);
    }

    /// All that was told, when nothing more comes.
    pub fn told(mut self) -> Vec<String> {
        if self.met > TOLD {
            let more = self.met - TOLD;
            self.tell(format!("{}: {more} more that make no sense are not told", self.source));
        }
        self.told
    }
}
