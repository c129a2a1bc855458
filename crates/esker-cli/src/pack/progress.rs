//! How far packing is: on a terminal, when it takes longer than a second. Files, bytes, what they became so far, and
//! the time that is left, where it is known how much there is.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esker::Kind;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::Rules;
use crate::units::size_shown;

/// Quicker work shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many bytes there are in all; 0 while nobody knows.
#[derive(Clone, Default)]
pub struct Total(Arc<AtomicU64>);

impl Total {
    /// That many.
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&bytes| bytes > 0)
    }

    /// Counts what lies in directories, beside the work: it is only looked at, not read.
    pub fn count(&self, roots: Vec<PathBuf>, rules: &Rules) {
        let (total, rules) = (self.clone(), rules.clone());
        // Without the thread there is no time left to be seen, and nothing else is lost.
        let _ = std::thread::Builder::new().name("esker-count".to_owned()).spawn(move || {
            total.set(roots.iter().map(|root| below(root, &rules)).sum());
        });
    }
}

/// Bytes of the files below a directory, as far as they can be seen.
fn below(root: &Path, rules: &Rules) -> u64 {
    let (mut pending, mut sum) = (vec![root.to_path_buf()], 0);
    while let Some(dir) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            let (path, Ok(meta)) = (entry.path(), entry.metadata()) else { continue };
            let own = path.strip_prefix(root).unwrap_or(&path).as_os_str().as_encoded_bytes();
            if !rules.take(own, meta.is_dir()) {
                continue;
            }
            match Kind::from_mode(std::os::unix::fs::MetadataExt::mode(&meta)) {
                Some(Kind::Directory) => pending.push(path),
                Some(Kind::File) => {
                    use std::os::unix::fs::MetadataExt as _;
                    sum += meta.len().min(meta.blocks() * 512);
                }
                _ => {}
            }
        }
    }
    sum
}

/// The bar.
pub struct Bar {
    began: Instant,
    shown: Option<ProgressBar>,
    quiet: bool,
    calls: u32,
    total: Total,
}

impl Bar {
    /// None where nobody looks.
    pub fn new(quiet: bool, total: Total) -> Self {
        let quiet = quiet || !std::io::stderr().is_terminal();
        Self { began: Instant::now(), shown: None, quiet, calls: 0, total }
    }

    /// Whether anybody will see it.
    pub const fn is_seen(&self) -> bool {
        !self.quiet
    }

    /// So much came in, and so much went out.
    pub fn tick(&mut self, files: u64, bytes: u64, written: u64) {
        self.calls = self.calls.wrapping_add(1);
        if self.quiet || !self.calls.is_multiple_of(16) || self.began.elapsed() < PATIENCE {
            return;
        }
        let text = self.words(files, bytes, written);
        // Counting may end after the bar began.
        let total = self.total.get().map(|total| total.max(bytes));
        let known = |bar: &ProgressBar| bar.length().is_some() == total.is_some();
        if !self.shown.as_ref().is_some_and(known) {
            self.done();
            self.shown = Some(start(total, text.clone()));
        }
        if let Some(bar) = &self.shown {
            bar.set_position(bytes);
            bar.set_message(text);
        }
    }

    fn words(&self, files: u64, bytes: u64, written: u64) -> String {
        let rate = bytes as f64 / self.began.elapsed().as_secs_f64();
        let mut text = format!("{files} files, {}", size_shown(bytes));
        let total = self.total.get().filter(|&total| total >= bytes);
        if let Some(total) = total {
            text += &format!(" of {}", size_shown(total));
        }
        if written > 0 {
            let ratio = bytes as f64 / written as f64;
            text += &format!(" became {} (1 : {ratio:.1})", size_shown(written));
        }
        text += &format!(", {}/s", size_shown(rate as u64));
        if let Some(total) = total {
            let left = Duration::from_secs(((total - bytes) as f64 / rate.max(1.0)) as u64);
            text += &format!(", {} left", HumanDuration(left));
        }
        text
    }

    /// Takes it away.
    pub fn done(&mut self) {
        if let Some(bar) = self.shown.take() {
            bar.finish_and_clear();
        }
    }
}

fn start(total: Option<u64>, text: String) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "packing {bar:20} {msg}"),
        None => (ProgressBar::no_length(), "packing {spinner} {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style).with_message(text),
        Err(_) => bar,
    }
}
