//! Sizes, words that must not stay, and module headers.
//!
//! Above: `tests/exams/tidy.rs`. Invariant: an exception is listed with its present size and may only shrink; one that
//! is no longer needed is itself a finding.

use std::path::Path;

use super::source::{code, functions, line_of, words};
use super::{files, root, short, text};

/// Lines of a file.
pub const FILE_LINES_MAX: usize = 800;
/// Lines of a function, from `fn` to its closing brace.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Columns of a line.
pub const COLUMNS_MAX: usize = 100;

/// What already exceeds, and by how much: `path` or `path::function`, and its lines.
pub const RATCHET: &[(&str, usize)] = &[];

/// Columns to which prose may go: tables cannot be broken.
const PROSE_COLUMNS_MAX: usize = 120;

fn sources() -> Vec<std::path::PathBuf> {
    let mut all = files(&root().join("crates"), "rs");
    all.extend(files(&root().join("examples"), "rs"));
    all
}

/// Files, functions and lines that outgrew their limits, and exceptions that are out of date.
#[must_use]
pub fn too_big() -> Vec<String> {
    let mut findings = Vec::new();
    let mut sizes = Vec::new();
    for path in sources() {
        let text = text(&path);
        let name = short(&path);
        sizes.push((name.clone(), text.lines().count(), FILE_LINES_MAX));
        for function in functions(&code(&text)) {
            let lines = function.last - function.first + 1;
            sizes.push((format!("{name}::{}", function.name), lines, FUNCTION_LINES_MAX));
        }
        for (index, line) in text.lines().enumerate() {
            let comment = line.trim_start().starts_with("//");
            let max = if comment { PROSE_COLUMNS_MAX } else { COLUMNS_MAX };
            let columns = line.chars().count();
            if columns > max {
                findings.push(format!("{name}:{}: {columns} columns", index + 1));
            }
        }
    }
    for (name, lines, max) in &sizes {
        let excepted = RATCHET.iter().find(|(excepted, _)| excepted == name);
        match excepted {
            None if lines > max => findings.push(format!("{name}: {lines} lines, over {max}")),
            Some((_, known)) if lines > known => {
                findings.push(format!("{name}: {lines} lines, it had {known}"));
            }
            _ => {}
        }
    }
    for (name, known) in RATCHET {
        let still =
            sizes.iter().any(|(found, lines, max)| found == name && lines == known && lines > max);
        if !still {
            findings.push(format!("{name}: the ratchet's {known} lines are out of date"));
        }
    }
    findings
}

/// Words that say that something is not done.
#[must_use]
pub fn unfinished() -> Vec<String> {
    // In pieces, or this file would find itself.
    let notes = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("TO", "DO")];
    let macros = ["todo", "unimplemented", "dbg"];
    let mut findings = Vec::new();
    for path in sources() {
        let text = text(&path);
        let name = short(&path);
        for note in notes {
            for at in words(&text, note) {
                findings.push(format!("{name}:{}: {note}", line_of(&text, at)));
            }
        }
        let code = code(&text);
        for word in macros {
            for at in words(&code, word) {
                if code[at + word.len()..].starts_with('!') {
                    findings.push(format!("{name}:{}: {word}!", line_of(&code, at)));
                }
            }
        }
    }
    findings
}

/// Files that do not open with what they are for.
#[must_use]
pub fn without_header() -> Vec<String> {
    let headless = |path: &Path| !text(path).starts_with("//! ");
    let all = sources().into_iter().filter(|path| headless(path));
    all.map(|path| format!("{}: no //! in the first line", short(&path))).collect()
}
