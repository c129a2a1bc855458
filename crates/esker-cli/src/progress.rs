//! A progress bar on what takes longer than a second, on a terminal only.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use esker_volume::device::Meter;
use indicatif::{ProgressBar, ProgressStyle};

/// Quicker work shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked how much was read.
const LOOK: Duration = Duration::from_millis(100);
/// Between two looks at the clock.
const STRIDE: u32 = 64;

/// Shows how far it is with what goes through files.
pub struct Progress {
    what: &'static str,
    began: Instant,
    total: Option<u64>,
    terminal: bool,
    calls: u32,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Of doing this with a source of `total` bytes, where that is known.
    pub fn new(what: &'static str, total: Option<u64>) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { what, began: Instant::now(), total, terminal, calls: 0, bar: None }
    }

    /// So many files and bytes are there, after `read` bytes of the source.
    pub fn tick(&mut self, (files, bytes): (u64, u64), read: u64) {
        self.calls = self.calls.wrapping_add(1);
        if !self.terminal || !self.calls.is_multiple_of(STRIDE) || self.began.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| start(self.what, self.total));
        bar.set_position(if self.total.is_some() { read } else { bytes });
        bar.set_message(format!("{files} files"));
    }

    /// Takes the bar away.
    pub fn done(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done();
    }
}

/// Shows how much was read.
pub struct Reading {
    began: Instant,
    terminal: bool,
    bar: Option<ProgressBar>,
}

impl Reading {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { began: Instant::now(), terminal: std::io::stderr().is_terminal(), bar: None }
    }

    /// So many bytes, of so many.
    pub fn tick(&mut self, read: u64, of: u64) {
        if !self.terminal || self.began.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style =
                ProgressStyle::with_template("reading {bar:30} {bytes}/{total_bytes} {eta}");
            let bar = ProgressBar::new(of);
            if let Ok(style) = style { bar.with_style(style) } else { bar }
        });
        bar.set_length(of.max(read));
        bar.set_position(read);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Does what reads a device, and shows meanwhile how far its `meter` is on its way to so many bytes.
pub fn while_reading<T>((meter, of): (&Meter, u64), work: impl FnOnce() -> T) -> T {
    let mut bar = Reading::new();
    if !bar.terminal {
        return work();
    }
    thread::scope(|scope| {
        // Whatever becomes of the work, its end of the channel is gone then.
        let (end, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                bar.tick(meter.told().read, of);
            }
        });
        let done = work();
        drop(end);
        done
    })
}

fn start(what: &str, total: Option<u64>) -> ProgressBar {
    let (bar, rest) = match total {
        Some(total) => (ProgressBar::new(total), "{bar:30} {bytes}/{total_bytes} {eta} {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {bytes_per_sec} {msg}"),
    };
    match ProgressStyle::with_template(&format!("{what} {rest}")) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
