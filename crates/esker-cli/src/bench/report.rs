//! Tables for people (Markdown, which reads well in a terminal too) and JSON for machines.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::stats::{Row, Summary, Table, Unit, grouped};

/// Everything there is to tell about a run.
pub struct Report {
    /// What was measured.
    pub table: Table,
    /// Names of the targets; the first is the one that the others are compared with.
    pub targets: Vec<String>,
    /// Machine, versions, rounds, placement: name and value.
    pub conditions: Vec<(String, String)>,
    /// What was left out or failed, why, and what was run instead.
    pub notes: Vec<String>,
}

impl Report {
    /// The targets that took part in a workload, in their order.
    pub fn targets_of(&self, rows: &[Row]) -> Vec<&str> {
        let took_part = |target: &&String| rows.iter().any(|row| row.samples.contains_key(*target));
        self.targets.iter().filter(took_part).map(String::as_str).collect()
    }
}

/// Conditions, notes, and one table for each workload.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for (name, value) in &report.conditions {
        let _ = writeln!(text, "- {name}: {value}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "- **note:** {note}");
    }
    for rows in report.table.workloads() {
        let targets = report.targets_of(rows);
        // What is a quotient already says enough.
        let has_ratios = rows.iter().any(|row| row.unit != Unit::Times);
        let others = if has_ratios { &targets[1..] } else { &[] };
        let _ = writeln!(text, "\n### {}\n\n{}", rows[0].workload, heading(&targets, others));
        for row in rows {
            let _ = writeln!(text, "{}", line(row, &targets, others));
        }
    }
    text
}

fn heading(targets: &[&str], others: &[&str]) -> String {
    let mut text = String::from("| |");
    let mut rule = String::from("| --- |");
    let others = others.iter().map(|target| format!("{target} : {}", targets[0]));
    for title in targets.iter().map(|&target| target.to_owned()).chain(others) {
        let _ = write!(text, " {} |", title.replace('|', "\\|"));
        rule.push_str(" ---: |");
    }
    format!("{text}\n{rule}")
}

fn line(row: &Row, targets: &[&str], others: &[&str]) -> String {
    let mut text = format!("| {} |", row.title());
    for target in targets {
        match row.summary(target) {
            Some(summary) => {
                let value = figure(summary.median, row.unit);
                let _ = write!(text, " {value} {}{} |", row.unit.text(), spread(summary));
            }
            None => text.push_str(" – |"),
        }
    }
    for target in others {
        match row.ratio(target, targets[0]) {
            Some(Summary { low, median, high }) => {
                let _ = write!(text, " **{median:.2}** ({low:.2}–{high:.2}) |");
            }
            None => text.push_str(" – |"),
        }
    }
    text
}

/// Half of the way from lowest to highest, as a share of the median.
fn spread(Summary { low, median, high }: Summary) -> String {
    let share = (high - low) / 2.0 / median;
    if share > 0.0 && share.is_finite() {
        format!(" ±{:.0}%", share * 100.0)
    } else {
        String::new()
    }
}

/// Three digits that count, thousands apart.
pub fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("{value:.3}"),
        Unit::Times => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "100 at least")]
        _ => grouped(value.round() as u64),
    }
}

/// Everything, samples included.
pub fn json(report: &Report) -> Value {
    let rows: Vec<Value> = report
        .table
        .workloads()
        .flat_map(|rows| {
            let targets = report.targets_of(rows);
            rows.iter().map(move |row| row_json(row, &targets))
        })
        .collect();
    let conditions: Map<String, Value> =
        report.conditions.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "conditions": conditions, "notes": report.notes, "targets": report.targets, "rows": rows,
    })
}

fn row_json(row: &Row, targets: &[&str]) -> Value {
    let by_target = targets.iter().filter_map(|&target| {
        let summary = row.summary(target)?;
        let ratio = row.ratio(target, targets[0]);
        let spread = ratio.map(|ratio| json!([ratio.low, ratio.high]));
        let value = json!({
            "median": summary.median, "low": summary.low, "high": summary.high,
            "ratio": ratio.map(|ratio| ratio.median), "ratio_spread": spread,
            "samples": row.samples[target],
        });
        Some((target.to_owned(), value))
    });
    let by_target: Map<String, Value> = by_target.collect();
    json!({
        "workload": row.workload, "row": row.name, "files": row.files, "unit": row.unit.text(),
        "more_is_better": row.unit.rises(), "base": targets[0], "targets": by_target,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stats::Sample;

    fn report(samples: &[(&str, &str, f64)]) -> Report {
        let mut table = Table::default();
        for &(workload, target, value) in samples {
            let (row, unit) = ("create".to_owned(), Unit::PerSecond);
            table.add(workload, target, Sample { row, files: Some(1000), unit, value });
        }
        Report {
            table,
            targets: vec!["null".into(), "esker".into(), "lib|x".into()],
            conditions: vec![("kernel".into(), "Linux".into())],
            notes: vec!["xfs left out".into()],
        }
    }

    #[test]
    fn a_table_shows_medians_and_ratios() {
        let report = report(&[("dir", "null", 20_000.0), ("dir", "esker", 19_000.0)]);
        let text = markdown(&report);
        let line = "| create, 1,000 files | 20,000 /s | 19,000 /s | **0.95** (0.95–0.95) |";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("- kernel: Linux\n- **note:** xfs left out"), "{text}");
        let value = json(&report);
        assert_eq!(value["rows"][0]["targets"]["esker"]["ratio"], 0.95);
        assert_eq!(value["conditions"]["kernel"], "Linux");
        assert_eq!(value["notes"][0], "xfs left out");
    }

    #[test]
    fn a_median_has_its_spread() {
        let report =
            report(&[("dir", "null", 90.0), ("dir", "null", 100.0), ("dir", "null", 120.0)]);
        assert!(markdown(&report).contains("| 100 /s ±15% |"), "{}", markdown(&report));
        assert_eq!(spread(Summary { low: 0.0, median: 0.0, high: 1.0 }), "");
    }

    #[test]
    fn a_workload_shows_those_that_took_part() {
        let text = markdown(&report(&[("dir", "null", 1.0), ("library", "lib|x", 5000.0)]));
        assert!(text.contains("### library\n\n| | lib\\|x |\n| --- | ---: |\n"), "{text}");
        assert!(text.contains("| create, 1,000 files | 5,000 /s |\n"), "{text}");
    }
}
