//! The walls: who may use whom, within the core and between the crates.
//!
//! Above: `tests/exams/tidy.rs`. Invariant: a room that is not in the tables is itself a finding, so nobody moves in
//! without being drawn into the house first.

use std::collections::BTreeMap;
use std::path::Path;

use super::source::{block, code, line_of, words};
use super::{files, root, short, text};

/// Rooms of the core and what each may use besides itself. The files at the knot are one room.
const ROOMS: &[(&str, &[&str])] = &[
    ("knot", &[]),
    ("ground", &["knot"]),
    ("tree", &["knot", "ground"]),
    ("memory", &["knot", "ground", "tree"]),
    ("overlay", &["knot", "ground"]),
    ("posix", &["knot", "ground"]),
    ("lib", &["knot", "ground", "tree", "memory", "overlay", "posix"]),
];

/// Modules that make up the knot, with what `lib.rs` lifts out of them.
const KNOT: &[&str] = &["store", "ids", "name", "attr", "error", "limits", "layout"];

/// Crates: what of Esker each may depend on to be built, and which rooms of the core it may use.
const CRATES: &[(&str, &[&str], &[&str])] = &[
    ("esker", &[], &[]),
    ("esker-host", &["esker"], &["knot", "ground"]),
    ("esker-fuse", &["esker", "esker-host"], &["knot", "ground", "posix"]),
    ("esker-stone", &["esker"], &["knot"]),
    ("esker-image", &["esker", "esker-stone"], &["knot"]),
    ("esker-volume", &["esker", "esker-stone"], &["knot", "overlay"]),
    ("esker-embedded", &["esker"], &["knot", "ground", "memory", "posix"]),
    ("esker-wasi", &["esker"], &["knot", "posix"]),
    ("esker-wasi-link", &[], &[]),
    (
        "esker-polyfill",
        &["esker", "esker-embedded", "esker-wasi"],
        &["knot", "ground", "memory", "posix"],
    ),
    ("esker-sqlite", &["esker", "esker-embedded", "esker-wasi"], &["knot", "ground"]),
    ("esker-meter", &["esker-wasi-link"], &[]),
    (
        "esker-meter-guest",
        &["esker", "esker-embedded", "esker-polyfill", "esker-sqlite"],
        &["ground", "knot", "memory", "posix"],
    ),
    (
        "esker-cli",
        &[
            "esker",
            "esker-host",
            "esker-fuse",
            "esker-stone",
            "esker-image",
            "esker-volume",
            "esker-wasi",
            "esker-wasi-link",
        ],
        &["knot", "ground", "tree", "memory", "overlay", "posix"],
    ),
    (
        "esker-proof",
        &[
            "esker",
            "esker-host",
            "esker-fuse",
            "esker-stone",
            "esker-image",
            "esker-volume",
            "esker-wasi-link",
        ],
        &["knot", "ground", "memory", "overlay", "posix"],
    ),
];

fn room(module: &str) -> &str {
    let lifted = module.starts_with(|first: char| first.is_uppercase());
    if KNOT.contains(&module) || lifted { "knot" } else { module }
}

/// Uses that go up, or sideways.
#[must_use]
pub fn through_walls() -> Vec<String> {
    let mut findings = Vec::new();
    let core = root().join("crates/esker/src");
    for path in files(&core, "rs") {
        let home = path.strip_prefix(&core).unwrap_or(&path);
        let module = module_of(home);
        let here = room(module.first().map_or("lib", String::as_str)).to_owned();
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == here) else {
            findings.push(format!("{}: the room {here} is not drawn", short(&path)));
            continue;
        };
        for (line, used) in uses(&text(&path), &module) {
            let there = room(&used);
            let macro_of_ours = used == "layout";
            if there != here && !allowed.contains(&there) && !macro_of_ours {
                findings.push(format!("{}:{line}: {here} uses {there}", short(&path)));
            }
        }
    }
    findings.extend(between_crates());
    findings
}

/// `tree/pages.rs` is the module `tree::pages`.
fn module_of(file: &Path) -> Vec<String> {
    let parts = file.with_extension("");
    let parts = parts.iter().map(|part| part.to_string_lossy().into_owned());
    parts.filter(|part| part != "mod" && part != "lib").collect()
}

fn between_crates() -> Vec<String> {
    let mut findings = Vec::new();
    for manifest in files(&root().join("crates"), "toml") {
        let text = text(&manifest);
        if manifest.file_name().is_none_or(|name| name != "Cargo.toml") {
            continue;
        }
        let name = value(&text, "name").unwrap_or_default();
        let Some((_, depends, rooms)) = CRATES.iter().find(|(crate_name, ..)| *crate_name == name)
        else {
            findings.push(format!("{}: the crate {name} is not drawn", short(&manifest)));
            continue;
        };
        for (section, dependency) in dependencies(&text) {
            // Tests and measurements may look down from above.
            let ours = CRATES.iter().any(|(known, ..)| *known == dependency);
            if ours && section == "dependencies" && !depends.contains(&&*dependency) {
                findings.push(format!("{}: {name} depends on {dependency}", short(&manifest)));
            }
        }
        if name != "esker" {
            let folder = manifest.parent().unwrap_or(&manifest).join("src");
            findings.extend(rooms_used(&folder, &name, rooms));
        }
    }
    findings
}

fn rooms_used(folder: &Path, name: &str, rooms: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    for path in files(folder, "rs") {
        for (line, used) in paths_from(&without_tests(&code(&text(&path))), "esker") {
            if !rooms.contains(&room(&used)) {
                findings.push(format!("{}:{line}: {name} uses {used}", short(&path)));
            }
        }
    }
    findings
}

fn value(toml: &str, key: &str) -> Option<String> {
    let line = toml.lines().find(|line| line.split('=').next().is_some_and(|k| k.trim() == key));
    Some(line?.split('"').nth(1)?.to_owned())
}

fn dependencies(toml: &str) -> Vec<(String, String)> {
    let (mut section, mut found) = (String::new(), Vec::new());
    for line in toml.lines() {
        if let Some(name) = line.trim().strip_prefix('[') {
            let name = name.trim_end_matches(']');
            section = name.rsplit('.').next().unwrap_or(name).to_owned();
        } else if section.ends_with("dependencies") {
            let name = line.split(['=', '.']).next().unwrap_or_default().trim();
            found.push((section.clone(), name.to_owned()));
        }
    }
    found
}

const UP: &str = "super::";

/// The first modules of the core that a file names by `crate::` or by `super::`, with their lines.
fn uses(text: &str, module: &[String]) -> Vec<(usize, String)> {
    let code = code(text);
    let mut found = paths_from(&code, "crate");
    let inline = inline_modules(&code);
    for at in words(&code, "super") {
        // Of a chain of them only the first counts the steps.
        if code[..at].ends_with("super::") {
            continue;
        }
        let chain = &code[at..];
        let ups = (0..).take_while(|step| chain[step * UP.len()..].starts_with(UP)).count();
        let depth = inline.iter().filter(|(open, close)| (*open..*close).contains(&at)).count();
        let level = (module.len() + depth).saturating_sub(ups);
        if level == 0 {
            let rest = format!("crate::{}", &chain[ups * UP.len()..]);
            let line = line_of(&code, at);
            found.extend(paths_from(&rest, "crate").into_iter().take(1).map(|(_, m)| (line, m)));
        }
    }
    found
}

fn inline_modules(code: &str) -> Vec<(usize, usize)> {
    words(code, "mod").filter_map(|at| block(code, at)).collect()
}

/// Code without the inline modules that are called `tests`.
fn without_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for at in words(code, "mod") {
        if code[at + 3..].trim_start().starts_with("tests")
            && let Some((open, close)) = block(code, at)
        {
            bytes[open..close].iter_mut().filter(|byte| **byte != b'\n').for_each(|b| *b = b' ');
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What follows `root::`, also in groups: `root::{a::b, c}` names a and c.
fn paths_from(code: &str, root: &str) -> Vec<(usize, String)> {
    let mut found = BTreeMap::new();
    for at in words(code, root) {
        let Some(rest) = code[at + root.len()..].strip_prefix("::") else { continue };
        if code[..at].ends_with("::") {
            continue;
        }
        let line = line_of(code, at);
        let name = |text: &str| -> String {
            text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
        };
        let mut names = vec![name(rest)];
        if let Some(group) = rest.strip_prefix('{') {
            let (mut depth, mut piece) = (0, String::new());
            names.clear();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => names.push(name(&std::mem::take(&mut piece))),
                    _ => {}
                }
                if c != ',' || depth > 0 {
                    piece.push(c);
                }
            }
            names.push(name(&piece));
        }
        for name in names.into_iter().filter(|name| !name.is_empty() && name != "self") {
            found.insert((line, name), ());
        }
    }
    found.into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_is_seen_however_it_is_climbed() {
        let module = ["posix".to_owned(), "io".to_owned()];
        let used = |text: &str| -> Vec<String> {
            uses(text, &module).into_iter().map(|(_, used)| used).collect()
        };
        assert_eq!(used("use crate::memory::Home;"), ["memory"]);
        assert_eq!(used("use crate::{\n  tree::{A, B},\n  ids,\n};"), ["ids", "tree"]);
        assert_eq!(used("fn f() { crate::tree::new() }"), ["tree"]);
        assert_eq!(used("use super::super::tree;"), ["tree"]);
        assert_eq!(used("use super::{a, b};"), Vec::<String>::new());
        assert_eq!(used("use super::view;\nuse super::a;\n\nuse super::bb;"), Vec::<String>::new());
        assert_eq!(used("mod tests { use super::super::super::tree::X; }"), ["tree"]);
    }
}
