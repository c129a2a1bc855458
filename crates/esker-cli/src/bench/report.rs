//! Tables for people (Markdown, which reads well in a terminal too) and JSON for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::stats::{Row, Summary, Table, Unit};

/// The targets in their order, with what was measured where and how.
pub struct Conditions {
    /// The first is the one compared with.
    pub targets: Vec<String>,
    /// Lines of text: machine, kernel, rounds, placement.
    pub lines: Vec<String>,
}

/// One table for each workload.
pub fn markdown(table: &Table, conditions: &Conditions) -> String {
    let mut text = String::new();
    for line in &conditions.lines {
        let _ = writeln!(text, "- {line}");
    }
    let mut workload = "";
    for row in &table.rows {
        if row.workload != workload {
            workload = &row.workload;
            let _ = writeln!(text, "\n### {workload}\n\n{}", heading(&conditions.targets));
        }
        let _ = writeln!(text, "{}", line(row, &conditions.targets));
    }
    text
}

fn heading(targets: &[String]) -> String {
    let mut text = String::from("| |");
    let mut rule = String::from("| --- |");
    for target in targets {
        let _ = write!(text, " {target} |");
        rule.push_str(" ---: |");
    }
    for target in targets.iter().skip(1) {
        let _ = write!(text, " {target} : {} |", targets[0]);
        rule.push_str(" ---: |");
    }
    format!("{text}\n{rule}")
}

fn line(row: &Row, targets: &[String]) -> String {
    let mut text = format!("| {} |", row.name);
    for target in targets {
        match row.summary(target) {
            Some(summary) => {
                let _ = write!(text, " {} {} |", figure(summary.median, row.unit), row.unit.text());
            }
            None => text.push_str(" – |"),
        }
    }
    for target in targets.iter().skip(1) {
        match row.ratio(target, &targets[0]) {
            Some(Summary { low, median, high }) => {
                let _ = write!(text, " **{median:.2}** ({low:.2}–{high:.2}) |");
            }
            None => text.push_str(" – |"),
        }
    }
    text
}

/// Three digits that count, thousands apart.
pub fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("{value:.3}"),
        Unit::Times => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Everything, samples included.
pub fn json(table: &Table, conditions: &Conditions) -> Value {
    let rows: Vec<Value> = table
        .rows
        .iter()
        .map(|row| {
            let base = &conditions.targets[0];
            let targets: serde_json::Map<String, Value> = conditions
                .targets
                .iter()
                .filter_map(|target| {
                    let summary = row.summary(target)?;
                    let ratio = row.ratio(target, base);
                    let value = json!({
                        "median": summary.median, "low": summary.low, "high": summary.high,
                        "ratio": ratio.map(|ratio| ratio.median),
                        "samples": row.samples[target],
                    });
                    Some((target.clone(), value))
                })
                .collect();
            json!({
                "workload": row.workload, "row": row.name, "unit": row.unit.text(),
                "more_is_better": row.unit.rises(), "targets": targets,
            })
        })
        .collect();
    json!({ "conditions": conditions.lines, "base": conditions.targets[0], "rows": rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stats::Sample;

    #[test]
    fn a_table_shows_medians_and_ratios() {
        let mut table = Table::default();
        for (target, value) in [("null", 20_000.0), ("esker", 19_000.0)] {
            table.add(
                "dir",
                target,
                Sample { row: "create 10".into(), unit: Unit::PerSecond, value },
            );
        }
        let conditions =
            Conditions { targets: vec!["null".into(), "esker".into()], lines: vec!["here".into()] };
        let text = markdown(&table, &conditions);
        assert!(
            text.contains("| create 10 | 20,000 /s | 19,000 /s | **0.95** (0.95–0.95) |"),
            "{text}"
        );
        let value = json(&table, &conditions);
        assert_eq!(value["rows"][0]["targets"]["esker"]["ratio"], 0.95);
    }
}
