//! A program of the user's that is asked about what is packed: it reads lines of JSON and answers with lines of JSON.
//!
//! Above: `hooks`. Invariant: a program that hangs is ended with all that it started and that has its environment, and
//! so is one whose asker ends, by whatever, with all of its group; what it answers is bounded line by line, what waits
//! to be looked at by its bytes, and whatever it answers only chooses.

use std::io::{ErrorKind, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use crate::ending::at_signal;
use crate::failure::{said, shown};

/// The longest line that is taken for an answer.
const LINE_LEN_MAX: usize = 1 << 20;
/// Bytes that are read at once.
const READ_LEN: usize = 64 << 10;
/// Parts, each of lines that were read at once or of one that is longer, that wait to be looked at.
const WAITING_MAX: usize = 4;
/// How often is looked whether the program still reads, or has ended.
const LOOK: Duration = Duration::from_millis(20);
/// What a program, and so what it starts, has in its environment: a name that nothing else has.
const MARK: &str = "ESKER_ASKS";
/// How often is looked for what has it, until nothing is left.
const LOOKS_MAX: usize = 100;

/// Tells a program all `lines`, and `each` of every line that it answers; no answer and no line read for as long as
/// `patience` ends it. The error is what went wrong, in words; answers up to then were told.
pub fn ask(
    command: &str,
    lines: impl Iterator<Item = String> + Send + 'static,
    patience: Duration,
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let cannot = |error| format!("cannot be started ({})", said(&error));
    let guard = Guard::new().map_err(cannot)?;
    let group = guard.0.id();
    // Nobody else has this number as long as the guard is not waited for.
    let mark = format!("{MARK}={group}");
    let own = mark.clone();
    let _ending = at_signal(move || end(group, &own));
    let mut program = Command::new("/bin/sh");
    program
        .env(MARK, group.to_string())
        .arg("-c")
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = program.process_group(group.cast_signed()).spawn().map_err(cannot)?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("cannot be started".to_owned());
    };
    let (sender, answers) = sync_channel(WAITING_MAX);
    let told = Arc::new(AtomicU64::new(0));
    let telling = Arc::clone(&told);
    // Nobody waits for these two: what the program has started may keep its ends open for ever.
    thread::spawn(move || {
        for line in lines {
            // Who does not want to read all of it need not.
            if input.write_all(line.as_bytes()).and_then(|()| input.write_all(b"\n")).is_err() {
                break;
            }
            telling.fetch_add(1, Ordering::Relaxed);
        }
    });
    thread::spawn(move || listen(output, &sender));
    let heard = hear(&answers, &told, patience, &mut each);
    let ended = heard.and_then(|()| wait(&mut child, patience));
    // However it ends, with it ends what it started.
    end(group, &mark);
    if ended.is_err() {
        let _ = child.wait();
    }
    let ended = ended?;
    match (ended.code(), ended.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(format!("failed with status {code}")),
        (None, signal) => Err(format!("was ended by signal {}", signal.unwrap_or(0))),
    }
}

/// Sends every line on, as many as there are at once.
fn listen(mut output: impl Read, sender: &SyncSender<Result<Vec<u8>, String>>) {
    let (mut begun, mut room) = (Vec::new(), vec![0; READ_LEN]);
    loop {
        let answer = match output.read(&mut room) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(format!("cannot be read ({})", said(&error))),
            Ok(0) if begun.is_empty() => return,
            Ok(0) => Ok(std::mem::take(&mut begun)),
            Ok(len) => {
                begun.extend_from_slice(&room[..len]);
                let end = begun.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
                let rest = begun.split_off(end);
                let lines = std::mem::replace(&mut begun, rest);
                match lines.is_empty() {
                    true if begun.len() < LINE_LEN_MAX => continue,
                    true => Err("answered with a line that has no end".to_owned()),
                    false => Ok(lines),
                }
            }
        };
        let last = answer.is_err();
        if sender.send(answer).is_err() || last {
            return;
        }
    }
}

/// Hears all answers up to the last.
fn hear(
    answers: &Receiver<Result<Vec<u8>, String>>,
    told: &AtomicU64,
    patience: Duration,
    each: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let (mut since, mut before) = (Instant::now(), 0);
    loop {
        match answers.recv_timeout(LOOK) {
            Ok(answer) => {
                let lines = answer?;
                for line in lines.strip_suffix(b"\n").unwrap_or(&lines).split(|&byte| byte == b'\n')
                {
                    each(line).map_err(|why| format!("answered `{}`: {why}", shown(line)))?;
                }
                since = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                let now = told.load(Ordering::Relaxed);
                if now != before {
                    (before, since) = (now, Instant::now());
                }
                if since.elapsed() >= patience {
                    return Err(format!("said nothing for {} seconds", patience.as_secs_f64()));
                }
            }
        }
    }
}

/// Waits for the end of a program that has said everything.
fn wait(child: &mut Child, patience: Duration) -> Result<ExitStatus, String> {
    let since = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if since.elapsed() < patience => thread::sleep(LOOK),
            Ok(None) => return Err("did not end".to_owned()),
            Err(error) => return Err(format!("cannot be waited for ({})", said(&error))),
        }
    }
}

/// The first of the group that a program and all that it starts are of: it kills them when we are no more, even by
/// what nobody can listen to, since its input ends then.
struct Guard(Child);

impl Guard {
    fn new() -> std::io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "read -r line; kill -s KILL 0"]).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(Self)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It has ended with the others, or is needed no more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills all of a group, and what has left it but has the mark in its environment.
fn end(group: u32, mark: &str) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        // It may have ended by itself meanwhile.
        let _ = kill_process_group(group, Signal::KILL);
    }
    // What is being started while we look is found the next time.
    for _ in 0..LOOKS_MAX {
        if !end_marked(mark) {
            return;
        }
        thread::sleep(LOOK);
    }
}

/// Kills what has the mark, and tells whether there was something.
fn end_marked(mark: &str) -> bool {
    let mut found = false;
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        // Held, so that it is no other one when it is killed.
        let Some(Ok(held)) = number.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
            continue;
        };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|&byte| byte == 0).any(|word| word == mark.as_bytes()) {
            found |= pidfd_send_signal(held, Signal::KILL).is_ok();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(command: &str, lines: usize) -> (Vec<String>, Result<(), String>) {
        let mut heard = Vec::new();
        let lines = (0..lines).map(|line| format!("line {line}"));
        let ended = ask(command, lines, Duration::from_secs(2), |line| {
            heard.push(String::from_utf8_lossy(line).into_owned());
            if line == b"wrong" { Err("it is wrong".to_owned()) } else { Ok(()) }
        });
        (heard, ended)
    }

    #[test]
    fn a_program_reads_all_and_answers() {
        let (heard, ended) = answers("sort -r", 50_000);
        assert_eq!((heard.len(), ended), (50_000, Ok(())));
        assert_eq!(heard[0], "line 9999");
        assert_eq!(answers("head -n 1", 50_000), (vec!["line 0".to_owned()], Ok(())));
        assert_eq!(answers("printf 'no end'", 0).0, ["no end"]);
    }

    #[test]
    fn lines_are_told_apart_however_they_come() {
        let long = "head -c 100000 /dev/zero | tr '\\0' x; echo";
        let command = format!("for n in $(seq 20); do {long}; done; printf 'a\\n\\nb'");
        let (heard, ended) = answers(&command, 0);
        assert_eq!((heard.len(), ended), (23, Ok(())));
        assert!(heard[..20].iter().all(|line| line.len() == 100_000));
        assert_eq!(heard[20..], ["a", "", "b"]);
    }

    /// Lines of nearly the greatest length without an end, and how many bytes of them were read.
    struct Talker(Arc<AtomicU64>);

    impl Read for Talker {
        fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
            let before = self.0.fetch_add(target.len() as u64, Ordering::Relaxed);
            target.fill(b'x');
            if (before / READ_LEN as u64).is_multiple_of(15) {
                target[0] = b'\n';
            }
            Ok(target.len())
        }
    }

    #[test]
    fn who_says_more_than_is_looked_at_has_to_wait() {
        let (sender, lines) = sync_channel(WAITING_MAX);
        let read = Arc::new(AtomicU64::new(0));
        let talker = Talker(Arc::clone(&read));
        let listener = thread::spawn(move || listen(talker, &sender));
        let mut before = 0;
        let most = (WAITING_MAX as u64 + 2) * (LINE_LEN_MAX + READ_LEN) as u64;
        loop {
            thread::sleep(5 * LOOK);
            let now = read.load(Ordering::Relaxed);
            assert!(now <= most, "{now} bytes were read");
            if now == before && now > 0 {
                break;
            }
            before = now;
        }
        drop(lines);
        listener.join().unwrap();
    }

    #[test]
    fn what_goes_wrong_is_told_and_nothing_waits_for_ever() {
        for (command, why) in [
            ("echo one; exit 3", "failed with status 3"),
            ("kill -9 $$", "was ended by signal 9"),
            ("echo one; sleep 1000 & sleep 1000", "said nothing for 2 seconds"),
            ("exec >&-; sleep 1000", "did not end"),
            ("setsid sleep 30 & sleep 1000", "said nothing for 2 seconds"),
            ("echo wrong; sleep 1000", "answered `wrong`: it is wrong"),
            ("tr '\\\\0' x < /dev/zero", "answered with a line that has no end"),
            ("/no/such/program", "failed with status 127"),
        ] {
            assert_eq!(answers(command, 10).1, Err(why.to_owned()), "{command}");
        }
    }

    #[test]
    fn who_leaves_the_group_is_ended_too() {
        let told = std::env::temp_dir().join(format!("esker-ask-{}", std::process::id()));
        let leave = format!("echo $$ >{}; exec sleep 1000", told.display());
        let command = format!("setsid sh -c '{leave}' & sleep 1000");
        assert_eq!(answers(&command, 0).1, Err("said nothing for 2 seconds".to_owned()));
        let pid = std::fs::read_to_string(&told).unwrap();
        std::fs::remove_file(&told).unwrap();
        // Whoever inherits it may leave its number there, but not its environment.
        let left = std::fs::read(format!("/proc/{}/environ", pid.trim())).unwrap_or_default();
        assert!(left.is_empty());
    }
}
