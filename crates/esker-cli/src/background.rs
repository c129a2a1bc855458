//! Going to the background: the program starts itself once more, and returns when that copy serves.
//!
//! The copy writes one line on its standard output, a pipe to us, when the mount answers; trouble
//! before that it tells on our standard error and exits. Invariant: the first process returns
//! success only after that line, and a copy whose first process is gone gives up.

use std::env;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal, setsid};

use crate::failure::{Exit, Failure, Outcome};
use crate::printed::printer;

/// The hidden argument by which the copy knows what it is.
pub const COPY: &str = "--serve-in-background";

/// Begins the line by which the copy says that the mount answers.
const READY: &str = "ready ";

/// Starts the copy with our own arguments; answers with what it says when it serves.
pub fn start() -> Outcome<String> {
    let failed = |error: io::Error| {
        Failure::new(Exit::Failed, format!("cannot go to the background: {error}"), "try -f")
    };
    // By its name, which ps(1) shows; if that is gone (a new version was installed), by what is
    // running.
    let program = env::current_exe().ok().filter(|path| path.exists());
    let program = program.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    // Under the name that we have: it says what the words mean.
    let mut words = env::args_os();
    let name = words.next().unwrap_or_else(|| "esker".into());
    let mut copy = Command::new(program)
        .arg0(name)
        .args(words)
        .arg(COPY)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    let pipe = copy.stdout.take().expect("it was asked for");
    let read = BufReader::new(pipe).read_line(&mut line);
    if let Some(report) = line.trim_end().strip_prefix(READY)
        && read.is_ok()
    {
        return Ok(report.to_owned());
    }
    // Anything else is the copy's last word, for whoever reads our output.
    let _ = write!(printer(), "{line}");
    Err(died(copy.wait().map_err(failed)?))
}

/// What the copy told already is not told again: the text is empty then.
fn died(status: ExitStatus) -> Failure {
    let told = |exit| Failure { exit, text: String::new() };
    match (status.code(), status.signal()) {
        (Some(2), _) => told(Exit::Usage),
        (Some(3), _) => told(Exit::MountPoint),
        (Some(4), _) => told(Exit::Source),
        (Some(6), _) => told(Exit::Damaged),
        (_, Some(signal)) => {
            let what = format!("the background process was killed by signal {signal}");
            Failure::new(Exit::Failed, what, "look into the system log, or try -f")
        }
        _ => told(Exit::Failed),
    }
}

/// In the copy, before long work: it ends when the first process does.
pub fn tie() -> Outcome {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(unable)
}

/// In the copy, before it mounts: away from the terminal, its signals, and the present directory.
pub fn detach() -> Outcome {
    set_parent_process_death_signal(None).map_err(unable)?;
    setsid().map_err(unable)?;
    env::set_current_dir("/").map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot go to the background: {error}"), "try -f")
    })
}

fn unable(errno: rustix::io::Errno) -> Failure {
    let error = io::Error::from(errno);
    Failure::new(Exit::Failed, format!("cannot go to the background: {error}"), "try -f")
}

/// In the copy, when the mount answers: tells the first process, and lets go of its terminal. `log`
/// becomes standard error. Fails if nobody is there to hear.
pub fn ready(line: &str, log: Option<&File>) -> io::Result<()> {
    let mut pipe = io::stdout();
    writeln!(pipe, "{READY}{line}")?;
    pipe.flush()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(log.unwrap_or(&null))?;
    Ok(())
}
