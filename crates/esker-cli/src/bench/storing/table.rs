//! Tables of what was written and read, for people (Markdown) and machines (JSON).

use std::fmt::Write as _;

use esker_volume::device::Traffic;
use serde_json::{Map, Value, json};

use super::super::packing::table::megabytes;
use super::{Act, Cost, Latency, Report, Row, Work};
use crate::volumes::report::device;

/// What the columns of most acts end with.
const REST: &str = " MB read | requests | MB discarded | s |";

/// Conditions, notes, and a table for each work.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for (name, value) in &report.conditions {
        let _ = writeln!(text, "- {name}: {value}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "- **note:** {note}");
    }
    let mut rest = report.rows.as_slice();
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|row| row.work == first.work).count();
        let (rows, others) = rest.split_at(count);
        table(&first.work, rows, &mut text);
        rest = others;
    }
    text
}

fn table(work: &Work, rows: &[Row], text: &mut String) {
    let Some(acts) = rows.iter().map(|row| &row.acts).max_by_key(|acts| acts.len()) else { return };
    let acts: Vec<Act> = acts.iter().map(|(act, _)| *act).collect();
    let _ = writeln!(text, "\n### {work}\n");
    let logical = acts.iter().map(|&act| (act, work.logical(act))).filter(|(_, bytes)| *bytes > 0);
    let logical = logical.map(|(act, bytes)| format!("{act} {:.2} MB", megabytes(bytes)));
    let logical: Vec<_> = logical.collect();
    if !logical.is_empty() {
        let _ = writeln!(text, "Written by the program: {}.\n", logical.join(", "));
    }
    text.push_str("| |");
    for act in &acts {
        let _ = match act {
            Act::Read => write!(text, " {act}: MB | requests | s |"),
            Act::Transact => write!(
                text,
                " {act}: MB | requests | flushes | KB of each | requests of each |{REST}"
            ),
            Act::Overwrite | Act::Serve => write!(
                text,
                " {act}: MB | requests | flushes | times the data | requests a sync |{REST}"
            ),
            Act::Sync => write!(
                text,
                " {act}: a second | MB | requests | flushes | KB of each | requests of each |"
            ),
            Act::Fresh | Act::Aged => {
                write!(text, " {act}: a second | median, ms | p99.9, ms | longest, ms |")
            }
            _ => write!(text, " {act}: MB | requests | flushes |{REST}"),
        };
    }
    text.push_str(" used, MB |\n| --- |");
    let columns: usize = acts.iter().map(|act| columns(*act)).sum();
    let _ = writeln!(text, "{}", " ---: |".repeat(columns + 1));
    for row in rows {
        let _ = write!(text, "| {} |", row.subject);
        row.acts.iter().for_each(|(act, cost)| cells(work, *act, cost, &cost.traffic, text));
        let used = row.acts.first().map_or(0, |(_, cost)| cost.used);
        let _ = writeln!(text, " {:.2} |", megabytes(used));
        own(row, text);
    }
}

/// What a server counts of what it asks of the device, below what reached that.
fn own(row: &Row, text: &mut String) {
    let is_counted = |(_, cost): &(Act, Cost)| cost.own.is_some() && cost.latency.is_none();
    if row.acts.is_empty() || !row.acts.iter().all(is_counted) {
        return;
    }
    let _ = write!(text, "| {} by its own count |", row.subject);
    for (act, cost) in &row.acts {
        if let Some(traffic) = &cost.own {
            cells(&row.work, *act, cost, traffic, text);
        }
    }
    text.push_str("  |\n");
}

const fn columns(act: Act) -> usize {
    match act {
        Act::Read => 3,
        Act::Transact | Act::Overwrite | Act::Serve => 9,
        Act::Sync => 6,
        Act::Fresh | Act::Aged => 4,
        _ => 7,
    }
}

#[expect(clippy::cast_precision_loss, reason = "two digits behind the point are shown")]
fn cells(work: &Work, act: Act, cost: &Cost, it: &Traffic, text: &mut String) {
    let seconds = cost.seconds;
    if act == Act::Read {
        let _ = write!(text, " {:.2} | {} | {seconds:.1} |", megabytes(it.read), it.reads);
        return;
    }
    if let Some(Latency { rate, median, last_of_1000, longest }) = cost.latency {
        let all = [median, last_of_1000, longest].map(|seconds| seconds * 1e3);
        let _ = write!(text, " {rate:.0} | {:.3} | {:.2} | {:.1} |", all[0], all[1], all[2]);
        return;
    }
    if act == Act::Sync {
        let _ = write!(text, " {:.0} |", cost.syncs as f64 / cost.busy.max(1e-9));
    }
    let _ = write!(text, " {:.2} | {} | {} |", megabytes(it.written), it.writes, it.flushes);
    let _ = match act {
        Act::Transact | Act::Sync => {
            let each = if act == Act::Sync { cost.syncs } else { work.transactions() };
            let each = each.max(1) as f64;
            let (bytes, requests) = (it.written as f64 / 1e3 / each, it.writes as f64 / each);
            write!(text, " {bytes:.2} | {requests:.2} |")
        }
        Act::Overwrite | Act::Serve => {
            let times = it.written as f64 / work.logical(act).max(1) as f64;
            let requests = it.writes as f64 / cost.syncs.max(1) as f64;
            write!(text, " {times:.3} | {requests:.2} |")
        }
        _ => Ok(()),
    };
    if act != Act::Sync {
        let (read, given) = (megabytes(it.read), megabytes(it.discarded));
        let _ = write!(text, " {read:.2} | {} | {given:.2} | {seconds:.1} |", it.reads);
    }
}

/// Everything.
pub fn json(report: &Report) -> Value {
    let conditions: Map<String, Value> =
        report.conditions.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let rows: Vec<_> = report.rows.iter().map(row_json).collect();
    json!({ "conditions": conditions, "notes": report.notes, "rows": rows })
}

fn row_json(row: &Row) -> Value {
    let acts = row.acts.iter().map(|(act, cost)| {
        let Cost { traffic, own, seconds, busy, latency, syncs, used } = cost;
        let latency = latency.map(|it| {
            json!({
                "rate": it.rate, "median": it.median, "p99.9": it.last_of_1000,
                "longest": it.longest,
            })
        });
        let told = json!({
            "traffic": device(traffic), "own": own.as_ref().map(device), "seconds": seconds,
            "busy": busy, "latency": latency, "syncs": syncs, "used": used,
            "logical": row.work.logical(*act), "transactions": row.work.transactions(),
        });
        (act.to_string(), told)
    });
    let acts: Map<String, Value> = acts.collect();
    json!({ "work": row.work.to_string(), "what": row.subject.to_string(), "acts": acts })
}
