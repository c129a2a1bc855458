//! Tables of what a volume does to flash, for people (Markdown) and machines (JSON).

use std::fmt::Write as _;

use esker_volume::limits::SEGMENT_LEN_MIN;
use serde_json::{Map, Value, json};

use super::super::packing::table::megabytes;
use super::{Report, inflation, steady, wear};
use crate::units::size_shown;

/// How many times.
#[expect(clippy::cast_precision_loss, reason = "two digits behind the point are shown")]
fn times(bytes: u64, of: u64) -> f64 {
    bytes as f64 / of.max(1) as f64
}

impl steady::Row {
    /// Bytes of rows, tables, roots and superblocks, for each byte of rows of commits.
    fn metadata(&self) -> f64 {
        let own = &self.counted;
        times(own.rows + own.tables + own.parity + own.superblocks + own.padding, own.rows)
    }
}

impl wear::Row {
    /// So many erases, to those in the mean.
    #[expect(clippy::cast_precision_loss, reason = "two digits behind the point are shown")]
    fn to_mean(&self, erases: u64) -> f64 {
        erases as f64 / self.mean
    }
}

/// Conditions, and a table for each of what was measured.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for (name, value) in &report.conditions {
        let _ = writeln!(text, "- {name}: {value}");
    }
    if !report.steady.is_empty() {
        steady(&report.steady, &mut text);
    }
    if !report.wear.is_empty() {
        wear(&report.wear, &mut text);
    }
    if !report.inflation.is_empty() {
        inflation(&report.inflation, &mut text);
    }
    text
}

fn steady(rows: &[steady::Row], text: &mut String) {
    text.push_str("\n### Random blocks of 4 KiB written over, synced every 32\n\n");
    text.push_str("Bytes of the last pass for each byte of the user.\n\n");
    text.push_str(
        "| | device, MiB | passes | needed of it, % | written | moved | rows | tables | \
         superblocks | padding | metadata for each byte of rows | requests a sync | \
         most in a sync, KiB | largest request, KiB |\n",
    );
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(13));
    for row in rows {
        let (it, user) = (&row.counted, row.user);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | **{:.2}** | {:.2} | {:.3} | {:.3} | {:.3} | {:.3} | {:.1} | \
             {:.2} | {} | {} |",
            row.plan,
            row.plan.size >> 20,
            row.plan.passes,
            row.needed,
            times(row.seen.written, user),
            times(it.moved, user),
            times(it.rows, user),
            times(it.tables + it.parity, user),
            times(it.superblocks, user),
            times(it.padding, user),
            row.metadata(),
            times(row.seen.requests, row.syncs),
            row.most >> 10,
            row.largest >> 10,
        );
    }
}

fn wear(rows: &[wear::Row], text: &mut String) {
    text.push_str("\n### Erases\n\n");
    if let Some(row) = rows.first() {
        let (size, segment) = (size_shown(row.plan.size), size_shown(SEGMENT_LEN_MIN));
        let (piece, batch) = (size_shown(wear::PIECE), wear::BATCH);
        let _ = writeln!(
            text,
            "{size} in erase blocks of {segment}, written over in pieces of {piece}, synced \
             every {batch}.\n",
        );
    }
    text.push_str(
        "| written over | times the device | written | fewest | mean | most | most : mean | \
         fewest : mean | with superblocks |\n",
    );
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(8));
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {} | {:.1} | {} | **{:.2}** | {:.2} | {} |",
            row.plan,
            row.plan.times,
            times(row.written, row.user),
            row.least,
            row.mean,
            row.most,
            row.to_mean(row.most),
            row.to_mean(row.least),
            row.homes,
        );
    }
}

fn inflation(cells: &[(inflation::Cell, f64)], text: &mut String) {
    text.push_str("\n### Bytes of files in an erase block, times its size\n\n");
    text.push_str("| logical block | packs into, B | erase block | here | SSDFS |\n");
    let _ = writeln!(text, "|{}", " ---: |".repeat(5));
    for (cell, ratio) in cells {
        let (block, erase) = (size_shown(cell.block.into()), size_shown(cell.erase));
        let (packed, ssdfs) = (cell.packed, cell.ssdfs);
        let _ = writeln!(text, "| {block} | {packed} | {erase} | **{ratio:.2}** | {ssdfs} |");
    }
}

/// Everything.
pub fn json(report: &Report) -> Value {
    let conditions: Map<String, Value> =
        report.conditions.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let steady: Vec<_> = report.steady.iter().map(steady_json).collect();
    let wear = report.wear.iter().map(|row| {
        json!({
            "what": row.plan.to_string(), "size": row.plan.size, "times": row.plan.times,
            "full": row.plan.full, "cold": row.plan.cold, "user": row.user, "written": row.written,
            "least": row.least, "mean": row.mean, "most": row.most, "superblocks": row.homes,
        })
    });
    let inflation = report.inflation.iter().map(|(cell, ratio)| {
        json!({
            "block": cell.block, "packed": cell.packed, "erase": cell.erase,
            "ratio": ratio, "ssdfs": cell.ssdfs,
        })
    });
    json!({
        "conditions": conditions,
        "steady": steady,
        "wear": wear.collect::<Vec<_>>(),
        "inflation": inflation.collect::<Vec<_>>(),
    })
}

fn steady_json(row: &steady::Row) -> Value {
    let (it, plan) = (&row.counted, &row.plan);
    json!({
        "what": plan.to_string(), "size": plan.size, "passes": plan.passes,
        "user": row.user, "syncs": row.syncs, "needed_percent": row.needed,
        "megabytes": megabytes(row.seen.written),
        "written": row.seen.written, "requests": row.seen.requests,
        "flushes": row.seen.flushes, "read": row.seen.read,
        "most_in_a_sync": row.most, "largest_request": row.largest,
        "causes": {
            "user": it.blocks, "moved": it.moved, "rows": it.rows, "tables": it.tables,
            "parity": it.parity, "superblocks": it.superblocks, "padding": it.padding,
            "sum": it.written(),
        },
    })
}
