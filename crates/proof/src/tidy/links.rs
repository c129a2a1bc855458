//! Markdown links that lead nowhere.
//!
//! Above: `tests/exams/tidy.rs`. Invariant: only what lies in the repository is looked at; the network is not asked.

use std::path::Path;

use super::{files, root, short, text};

/// Relative links without a file, and anchors without a heading.
#[must_use]
pub fn dead() -> Vec<String> {
    let mut findings = Vec::new();
    for path in files(root(), "md") {
        let text = text(&path);
        for (line, target) in links(&text) {
            if let Some(why) = dead_link(&path, &text, &target) {
                findings.push(format!("{}:{line}: {target}: {why}", short(&path)));
            }
        }
    }
    findings
}

fn dead_link(path: &Path, own_text: &str, target: &str) -> Option<String> {
    let outside = ["http://", "https://", "mailto:"];
    if outside.iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let there = path.parent()?.join(file);
    if !file.is_empty() && !there.exists() {
        return Some("no such file".into());
    }
    let markdown = file.is_empty() || there.extension().is_some_and(|found| found == "md");
    if anchor.is_empty() || !markdown {
        return None;
    }
    let other;
    let headings = if file.is_empty() {
        own_text
    } else {
        other = text(&there);
        &other
    };
    if anchors(headings).iter().any(|found| found == anchor) {
        return None;
    }
    Some("no such heading".into())
}

/// Text outside of fenced blocks, line by line from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// Targets of `[text](target)` and of `[name]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // What stands in backticks is code.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            if let Some(end) = rest.find([')', ' ']) {
                found.push((number, rest[..end].to_owned()));
            }
        }
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
            && !name.starts_with("[^")
        {
            found.push((number, target.trim().to_owned()));
        }
    }
    found
}

/// Anchors of the headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let plain: String = heading.trim().to_lowercase().chars().filter(kept).collect();
        let anchor = plain.replace(' ', "-");
        let same = found.iter().filter(|known| **known == anchor).count();
        found.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors() {
        let text =
            "# A `b`: c\n[x](#a-b-c) [y](y.md#z) `[no](no.md)`\n```\n[n](o)\n```\n[r]: t.md\n";
        let found: Vec<_> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(found, ["#a-b-c", "y.md#z", "t.md"]);
        assert_eq!(anchors(text), ["a-b-c"]);
    }
}
