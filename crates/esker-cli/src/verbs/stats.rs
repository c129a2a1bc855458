//! `esker stats`: how a mount or a volume fares.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::is_heard;
use crate::failure::{Outcome, path_shown};
use crate::units::size_shown;
use crate::volumes::base::Given;
use crate::volumes::{self, ask, is_volume, report};

/// Tell how a mount fares: how full it is, what was written and why, how long answers took. Or how a volume is used.
///
/// Numbers of a mount count from when it was mounted. Times are those that the server took for its answers, without
/// what the kernel answered by itself; a percentile is at most a quarter above the true one.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker stats /mnt/d                   a volume, an image or memory that is mounted
  esker stats /mnt/d --watch 5         again every 5 seconds, until it is stopped
  esker stats disk.vol --json          a volume that is not mounted")]
pub struct Stats {
    /// Something in a mount, or a volume that is not mounted
    #[arg(value_name = "MOUNT|VOLUME")]
    target: PathBuf,
    #[command(flatten)]
    given: Given,
    /// Tell it again and again
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,
    /// Print a line of JSON each time
    #[arg(long)]
    pub json: bool,
}

/// Nobody answers there.
const NOTHING: (&str, &str) =
    ("nothing that esker serves", "name something in a mount, or a volume that is not mounted");

impl Stats {
    /// Tells.
    pub fn run(&self) -> Outcome {
        loop {
            let all = self.ask()?;
            let told = match self.json {
                true => all.to_string(),
                false => words(&path_shown(&self.target), &all),
            };
            let heard = is_heard(&told);
            let Some(seconds) = self.watch.filter(|_| heard) else { return Ok(()) };
            thread::sleep(Duration::from_secs(seconds));
        }
    }

    fn ask(&self) -> Outcome<Value> {
        if is_volume(&self.target) {
            let volume = volumes::look_over(&self.target, &self.given.bases)?;
            return Ok(report::stats(&self.target, &volume));
        }
        ask::ask_of(&self.target, &crate::stats::message(), NOTHING)
    }
}

fn count(all: &Value, key: &str) -> u64 {
    all[key].as_u64().unwrap_or(0)
}

/// How the device is told what stays as long as what else, or why it is not.
pub fn placement(all: &Value) -> Option<String> {
    let own = &all["placement"];
    match own["by"].as_str()? {
        "streams" => Some(format!("by {} streams of the device", own["streams"])),
        "lifetimes" => Some("by how long what is written stays".to_owned()),
        _ => own["why"].as_str().map(|why| format!("not told: {why}")),
    }
}

/// What was given back below, or why nothing is.
pub fn discard(all: &Value) -> Option<String> {
    let own = all["discard"].as_object()?;
    Some(match own["why"].as_str() {
        Some(why) => format!("nothing is given back: {why}"),
        None => format!(
            "{} given back since it was mounted",
            size_shown(count(&all["discard"], "bytes"))
        ),
    })
}

/// What was written and why.
fn written(own: &Value) -> Vec<(&'static str, String)> {
    if !own.is_object() {
        return Vec::new();
    }
    let bytes = |of: &Value, key: &str| size_shown(count(of, key));
    let mut rows = Vec::new();
    let kinds = ["blocks", "moved", "rows", "tables", "parity", "superblocks", "padding"];
    let kinds = kinds.map(|key| format!("{} {key}", bytes(own, key)));
    let (sum, plain) = (bytes(own, "all"), bytes(own, "plain"));
    rows.push(("written", format!("{sum} for {plain} of files: {}", kinds.join(", "))));
    let folded = bytes(own, "folded");
    rows.push(("folded", format!("{folded} of files beside, told anew so that blocks are free")));
    let shared = bytes(own, "shared");
    rows.push(("shared", format!("{shared} of files, not written since they were there")));
    let alike = bytes(own, "resembling");
    let none = own["no_deltas"].as_str().map(|why| format!("; now there are none: {why}"));
    let none = none.unwrap_or_default();
    rows.push(("deltas", format!("{alike} of files, written as what differs{none}")));
    let (commits, steps) = (&own["commits"], &own["steps"]);
    let freed = &own["reclaimed_segments"];
    rows.push((
        "done",
        format!("{commits} commits, {steps} steps of settling, {freed} segments freed"),
    ));
    rows
}

/// What was asked of the device.
fn device(own: &Value) -> Option<(&'static str, String)> {
    own.as_object()?;
    let bytes = |key: &str| size_shown(count(own, key));
    let (writes, reads, flushes) = (&own["writes"], &own["reads"], &own["flushes"]);
    let (written, read) = (bytes("written"), bytes("read"));
    let text = format!("{written} in {writes} writes, {flushes} flushes; {read} in {reads} reads");
    Some(("device", text))
}

/// Names and what is to be said of them, in two columns.
fn words(name: &str, all: &Value) -> String {
    let bytes = |of: &Value, key: &str| size_shown(count(of, key));
    let mut rows = Vec::new();
    if let Some(source) = all["source"].as_str() {
        rows.push(("source", source.to_owned()));
    }
    let (size, used, free) = (bytes(all, "size"), bytes(all, "used"), bytes(all, "free"));
    rows.push(("room", format!("{size}, {used} used, {free} free, {} inodes", all["inodes"])));
    let own = &all["segments"];
    if own.is_object() {
        let state = ["free", "log", "tables", "moved", "named", "bad", "superblocks"];
        let state = state.map(|key| format!("{} {key}", own[key]));
        let len = bytes(own, "len");
        rows.push(("segments", format!("{} of {len}: {}", own["count"], state.join(", "))));
        let (live, snapshots) = (bytes(own, "live"), &all["snapshots"]);
        rows.push(("needed", format!("{live} in segments; {snapshots} snapshots")));
        let unsettled = bytes(all, "unsettled");
        rows.push(("rows", format!("{unsettled} not in tables; commit {}", all["commit"])));
    }
    if all["waiting"].is_object() {
        let (memory, most) = (bytes(&all["waiting"], "memory"), bytes(&all["waiting"], "most"));
        rows.push(("waiting", format!("{memory} in memory, {most} at most once they are written")));
    }
    rows.extend(written(&all["written"]));
    rows.extend(device(&all["device"]));
    rows.extend(placement(all).map(|told| ("placement", told)));
    rows.extend(discard(all).map(|told| ("discard", told)));
    let own = &all["cache"];
    if own.is_object() {
        let (kept, most) = (bytes(own, "bytes"), bytes(own, "limit"));
        rows.push((
            "cache",
            format!("{kept} of {most}, {} hits, {} misses", own["hits"], own["misses"]),
        ));
    }
    let mut text = name.to_owned();
    for (key, value) in rows {
        text += &format!("\n  {key:<10} {value}");
    }
    let operations = all["operations"].as_array().map_or(&[][..], Vec::as_slice);
    if !operations.is_empty() {
        text +=
            &line("operation", ["count", "p50", "p90", "p99", "p99.9", "max"].map(str::to_owned));
    }
    for own in operations {
        let keys = ["p50_ns", "p90_ns", "p99_ns", "p99.9_ns", "max_ns"];
        let [p50, p90, p99, p99_9, most] = keys.map(|key| time_shown(count(own, key)));
        let name = own["operation"].as_str().unwrap_or_default();
        text += &line(name, [own["count"].to_string(), p50, p90, p99, p99_9, most]);
    }
    text
}

fn line(name: &str, [first, rest @ ..]: [String; 6]) -> String {
    let rest: String = rest.iter().map(|text| format!("{text:>10}")).collect();
    format!("\n  {name:<10}{first:>12}{rest}")
}

/// Nanoseconds for a person.
fn time_shown(nanos: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one digit behind the point is shown")]
    let value = nanos as f64;
    match nanos {
        ..1000 => format!("{nanos} ns"),
        1000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.1} s", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let shown = [999, 1500, 2_500_000, 3_200_000_000].map(time_shown);
        assert_eq!(shown, ["999 ns", "1.5 us", "2.5 ms", "3.2 s"]);
    }
}
