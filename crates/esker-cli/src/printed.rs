//! Standard output, and whether all that was printed got there.
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
    eprintln!("esker: {text}");
    match outcome {
        // That two things differ is an answer, and nobody got it whole.
        Err(failure) if failure.exit != Exit::Different => Err(failure),
        _ => Err(Failure::new(Exit::Failed, text, "")),
    }
}
