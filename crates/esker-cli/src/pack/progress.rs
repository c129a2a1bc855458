//! How far packing is: on a terminal, when it takes longer than a second. Files, bytes, what they became so far, and
//! the time that is left, where it is known how much there is.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esker::Kind;
use indicatif::{ProgressBar, ProgressStyle};

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
        let bar = self.shown.get_or_insert_with(ProgressBar::new_spinner);
        if bar.length().is_none()
            && let Some(total) = self.total.get()
        {
            bar.set_length(total);
            style(bar, "packing {bar:20} {bytes}/{total_bytes} {bytes_per_sec} {msg}, {eta} left");
        } else if bar.position() == 0 {
            style(bar, "packing {spinner} {bytes} {bytes_per_sec} {msg}");
        }
        bar.set_position(bytes.max(1));
        let ratio = match written {
            0 => String::new(),
            _ => format!(", {} (1 : {:.1})", size_shown(written), bytes as f64 / written as f64),
        };
        bar.set_message(format!("{files} files{ratio}"));
    }

    /// Takes it away.
    pub fn done(&mut self) {
        if let Some(bar) = self.shown.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}
