//! A progress bar on what takes longer than a second, on a terminal only.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::import::Tally;

/// Quicker work shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at the clock.
const STRIDE: u32 = 64;

/// Shows how far the filling is.
pub struct Progress {
    began: Instant,
    total: Option<u64>,
    terminal: bool,
    calls: u32,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Of a source of `total` bytes, where that is known.
    pub fn new(total: Option<u64>) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { began: Instant::now(), total, terminal, calls: 0, bar: None }
    }

    /// So much is there, after `read` bytes of the source.
    pub fn tick(&mut self, tally: &Tally, read: u64) {
        self.calls = self.calls.wrapping_add(1);
        if !self.terminal || !self.calls.is_multiple_of(STRIDE) || self.began.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| start(self.total));
        bar.set_position(if self.total.is_some() { read } else { tally.bytes });
        bar.set_message(format!("{} files", tally.files));
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

fn start(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => {
            (ProgressBar::new(total), "filling {bar:30} {bytes}/{total_bytes} {eta} {msg}")
        }
        None => (ProgressBar::new_spinner(), "filling {spinner} {bytes} {bytes_per_sec} {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
