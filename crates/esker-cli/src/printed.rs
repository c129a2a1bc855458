//! Standard output, and whether all that was printed got there; and standard error.
//!
//! Above: `verbs`, `main`. Below: nothing. Invariant: of what could not be printed the program ends with a failure,
//! whoever printed it; a closed pipe is none, as whoever read from it has seen enough.

use std::io::{self, ErrorKind, StdoutLock, Write};
use std::sync::OnceLock;

use crate::failure::{Exit, Failure, Outcome, said};

/// Why something could not be printed, the first time.
static LOST: OnceLock<String> = OnceLock::new();

/// Standard output, for one thread at a time.
pub struct Printer(StdoutLock<'static>);

/// Opens it.
pub fn printer() -> Printer {
    Printer(io::stdout().lock())
}

/// Text on standard error, as it is. That it cannot be told, nobody can be told.
pub fn told(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// What people ought to know, on a line of standard error.
pub fn warn(text: &str) {
    told(&format!("esker: {text}\n"));
}

fn keep(error: &io::Error) {
    if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) {
        LOST.get_or_init(|| said(error));
    }
}

impl Write for Printer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(keep)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(keep)
    }
}

/// How it ends now that everything is printed: what failed before has the say.
pub fn outcome(outcome: Outcome) -> Outcome {
    // Kept, if it fails.
    let _ = printer().flush();
    let Some(why) = LOST.get() else { return outcome };
    let text = format!("cannot write to standard output ({why})");
    warn(&text);
    match outcome {
        // That two things differ is an answer, and nobody got it whole.
        Err(failure) if failure.exit != Exit::Different => Err(failure),
        _ => Err(Failure::new(Exit::Failed, text, "")),
    }
}
