//! Tables of what packing and reading cost, for people (Markdown) and machines (JSON).

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::super::stats::Summary;
use super::{Packed, Reading, Report, Row};

/// How a figure is got from a round.
type Column = (&'static str, fn(&Reading) -> Option<f64>);

/// What is told of reading, each the median of all rounds.
const COLUMNS: [Column; 16] = [
    ("find, cold: s", |it| Some(it.find.wall)),
    ("client's CPU s", |it| Some(it.find.client)),
    ("server's CPU s", |it| Some(it.find.server)),
    ("4K at random, cold: median ms", |it| Some(it.cold.at(0.5))),
    ("p99 ms", |it| Some(it.cold.at(0.99))),
    ("again: median ms", |it| Some(it.warm.at(0.5))),
    ("p99 ms", |it| Some(it.warm.at(0.99))),
    ("with a cache of 64 MiB, cold: median ms", |it| Some(it.small.as_ref()?.at(0.5))),
    ("p99 ms", |it| Some(it.small.as_ref()?.at(0.99))),
    ("all, cold: s", |it| Some(it.all.wall)),
    ("client's CPU s", |it| Some(it.all.client)),
    ("server's CPU s", |it| Some(it.all.server)),
    ("all, warm: s", |it| Some(it.again.wall)),
    ("client's CPU s", |it| Some(it.again.client)),
    ("server's CPU s", |it| Some(it.again.server)),
    ("server's memory, MB", |it| Some(megabytes(it.memory?))),
];

#[expect(clippy::cast_precision_loss, reason = "two digits behind the point are shown")]
pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Conditions, notes, and two tables for each tree.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for (name, value) in &report.conditions {
        let _ = writeln!(text, "- {name}: {value}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "- **note:** {note}");
    }
    for tree in &report.trees {
        let (name, files) = (&tree.name, tree.files);
        let _ = writeln!(text, "\n### {name}: {files} files, {:.1} MB\n", megabytes(tree.bytes));
        makings(tree, &mut text);
        readings(tree, &mut text);
    }
    text
}

fn makings(tree: &Packed, text: &mut String) {
    text.push_str("| | stored MB | of the tree | CPU s | s | most memory MB |\n");
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: |\n");
    let share = |stored| megabytes(stored) / megabytes(tree.bytes) * 100.0;
    for Row { subject, making, .. } in &tree.rows {
        let (stored, memory) = (megabytes(making.stored), megabytes(making.memory));
        let (cpu, wall) = (making.cpu, making.wall);
        let share = share(making.stored);
        let _ = writeln!(
            text,
            "| {subject} | {stored:.2} | {share:.2} % | {cpu:.1} | {wall:.1} | {memory:.0} |"
        );
    }
    for given in &tree.given {
        let (stored, share) = (megabytes(given.stored), share(given.stored));
        let _ = writeln!(
            text,
            "| {} (given) | {stored:.2} | {share:.2} % | {:.1} | | |",
            given.name.replace('|', "\\|"),
            given.cpu
        );
    }
}

fn readings(tree: &Packed, text: &mut String) {
    if tree.rows.iter().all(|row| row.readings.is_empty()) {
        return;
    }
    let titles = COLUMNS.map(|(title, _)| title).join(" | ");
    let _ = writeln!(text, "\n| | {titles} |\n| --- |{}", " ---: |".repeat(COLUMNS.len()));
    for row in tree.rows.iter().filter(|row| !row.readings.is_empty()) {
        let _ = write!(text, "| {} |", row.subject);
        for (_, figure) in COLUMNS {
            match Summary::of(row.readings.iter().filter_map(figure)) {
                Some(Summary { median, .. }) => {
                    let _ = write!(text, " {median:.2} |");
                }
                None => text.push_str(" – |"),
            }
        }
        text.push('\n');
    }
}

/// Everything, each round by itself.
pub fn json(report: &Report) -> Value {
    let conditions: Map<String, Value> =
        report.conditions.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let trees: Vec<_> = report.trees.iter().map(tree_json).collect();
    json!({ "conditions": conditions, "notes": report.notes, "trees": trees })
}

fn tree_json(tree: &Packed) -> Value {
    let rows = tree.rows.iter().map(|row| {
        let rounds: Vec<_> = row.readings.iter().map(Reading::json).collect();
        json!({ "what": row.subject.to_string(), "making": row.making.json(), "reading": rounds })
    });
    let rows = rows.collect::<Vec<_>>();
    let given: Vec<_> = tree
        .given
        .iter()
        .map(|given| json!({ "what": given.name, "stored": given.stored, "cpu": given.cpu }))
        .collect();
    let Packed { name, files, bytes, .. } = tree;
    json!({ "tree": name, "files": files, "bytes": bytes, "rows": rows, "given": given })
}
