//! What is told at the end: how much became how much, what was there twice, which kinds of files took the space, which
//! did not shrink, and which files took the longest.

use std::path::Path;
use std::time::{Duration, Instant};

use esker_image::pack::{Amount, CategoryUse, Choices, KindUse, Left, Packed, UNPACK_FILE_MAX};
use esker_stone::hex;
use serde_json::json;

use super::Gathered;
use crate::failure::{path_shown, shown};
use crate::units::size_shown;

/// How many kinds, and how many slow files, are told of.
const TOLD: usize = 6;
/// Quicker files are not slow.
const SLOW: Duration = Duration::from_millis(200);
/// Kinds with less are not worth a word.
const WORTH: u64 = 64 << 10;

/// The files that took the longest, and the one at hand.
#[derive(Debug, Default)]
pub struct Slowest {
    all: Vec<(Duration, Vec<u8>)>,
    now: Option<(Instant, Vec<u8>)>,
}

impl Slowest {
    /// Another file begins; the one before is done.
    pub fn begin(&mut self, path: &[u8]) {
        self.end();
        self.now = Some((Instant::now(), path.to_vec()));
    }

    /// The file at hand is done.
    pub fn end(&mut self) {
        let Some((began, path)) = self.now.take() else { return };
        let took = began.elapsed();
        if took >= SLOW {
            self.all.push((took, path));
            self.all.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
            self.all.truncate(TOLD);
        }
    }

    /// Takes in those of another input.
    pub fn merge(&mut self, mut other: Self) {
        other.end();
        self.all.append(&mut other.all);
        self.all.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
        self.all.truncate(TOLD);
    }
}

fn ratio(bytes: u64, stored: u64) -> f64 {
    bytes as f64 / stored.max(1) as f64
}

fn ending(kind: &KindUse) -> String {
    if kind.kind.is_empty() { "(no ending)".to_owned() } else { format!(".{}", kind.kind) }
}

/// Which streams were left as they are, and why.
fn left(own: &Choices) -> String {
    let Left { long, dense, unknown, unread, large } = own.left;
    let longest = format!("longer than {}", size_shown(own.stream_max.unwrap_or(0) as u64));
    let parts = [
        (long, longest.as_str()),
        (dense, "whose text would not be smaller"),
        (unknown, "by an encoder that cannot be guessed"),
        (unread, "that cannot be read or have too much text, with what is behind them"),
    ];
    let told = parts
        .iter()
        .filter(|(amount, _)| amount.count > 0)
        .map(|(amount, why)| format!("\n    {} {why}: {}", amount.count, size_shown(amount.bytes)));
    let mut told: String = told.collect();
    if large > 0 {
        told += &format!(
            "\n    those of {large} files larger than {}",
            size_shown(UNPACK_FILE_MAX as u64)
        );
    }
    if told.is_empty() { told } else { format!("\n  streams that were left as they are:{told}") }
}

/// Why the image came out as it did.
pub fn explained(packed: &Packed) -> String {
    let own = &packed.choices;
    let mut text = String::from("how it was packed:");
    text += &match own.repeats {
        None => "\n  stretches that were there before: not looked for".to_owned(),
        Some(least) => format!(
            "\n  stretches of {} and more that were there before: {}",
            size_shown(least as u64),
            size_shown(own.repeated),
        ),
    };
    text += &match own.alike {
        None => format!("\n  {} units in the order in which they came", own.units),
        Some(pairs) => format!("\n  {} units, like beside like: {pairs} pairs are", own.units),
    };
    if own.unpacked > 0 {
        let (streams, inside) = (size_shown(own.unpacked), size_shown(own.text));
        text += &format!("\n  streams of deflate: {streams}, stored as {inside} of text");
    }
    text += &left(own);
    for part in &own.categories {
        text += &format!(
            "\n  {}: {} blocks, {} became {} (1 : {:.1}); {} predicted, {} with branches told \
             by where they go to, {} told in words, {} stored as they are",
            part.name,
            part.blocks,
            size_shown(part.plain),
            size_shown(part.stored),
            ratio(part.plain, part.stored),
            part.predicted,
            part.filtered,
            part.told,
            part.raw,
        );
    }
    text
}

/// For a machine: one line.
pub fn described(image: &Path, gathered: &Gathered, packed: &Packed, took: Duration) -> String {
    let own = &packed.statistics;
    let kind = |kind: &KindUse| {
        let (files, bytes) = (kind.files, kind.bytes);
        json!({ "kind": kind.kind, "files": files, "bytes": bytes, "stored": kind.stored })
    };
    let category = |part: &CategoryUse| {
        let (blocks, predicted, filtered) = (part.blocks, part.predicted, part.filtered);
        json!({
            "category": part.name,
            "blocks": blocks,
            "predicted": predicted,
            "filtered": filtered,
            "told": part.told,
            "raw": part.raw,
            "bytes": part.plain,
            "stored": part.stored,
        })
    };
    let slow = |(took, path): &(Duration, Vec<u8>)| {
        let took = took.as_secs_f64();
        json!({ "path": shown(path), "seconds": took })
    };
    let amount = |own: &Amount| json!({ "streams": own.count, "bytes": own.bytes });
    let left = &packed.choices.left;
    let line = json!({
        "image": image.to_string_lossy(),
        "name": hex(&packed.name),
        "size": packed.size,
        "files": own.files,
        "directories": own.directories,
        "symlinks": own.symlinks,
        "specials": own.specials,
        "bytes": own.file_bytes,
        "duplicate_bytes": packed.saved,
        "data": packed.data,
        "metadata": packed.metadata,
        "repeated": packed.choices.repeated,
        "units": packed.choices.units,
        "alike": packed.choices.alike,
        "unpacked": packed.choices.unpacked,
        "unpacked_text": packed.choices.text,
        "left": {
            "long": amount(&left.long),
            "dense": amount(&left.dense),
            "unknown": amount(&left.unknown),
            "unread": amount(&left.unread),
            "large": { "files": left.large },
        },
        "categories": packed.choices.categories.iter().map(category).collect::<Vec<_>>(),
        "kinds": packed.kinds.iter().map(kind).collect::<Vec<_>>(),
        "slowest": gathered.slowest.all.iter().map(slow).collect::<Vec<_>>(),
        "seconds": took.as_secs_f64(),
        "troubles": gathered.troubles,
    });
    line.to_string()
}

/// For a person.
pub fn words(image: &Path, gathered: &Gathered, packed: &Packed, took: Duration) -> String {
    let own = &packed.statistics;
    let mut text = format!(
        "packed {}: {} in {} files and {} directories became {} (1 : {:.1})",
        path_shown(image),
        size_shown(own.file_bytes),
        own.files,
        own.directories,
        size_shown(packed.size),
        ratio(own.file_bytes, packed.size),
    );
    text += &format!(
        "\n  {} were there twice; names and attributes take {}; {:.1} s",
        size_shown(packed.saved),
        size_shown(packed.metadata),
        took.as_secs_f64(),
    );
    let worth: Vec<_> = packed.kinds.iter().filter(|kind| kind.stored >= WORTH).collect();
    if worth.len() > 1 {
        text += "\n  what took the space:";
        for kind in worth.iter().take(TOLD) {
            text += &format!(
                "\n    {:<12} {:>8} files {:>10} became {:>10} (1 : {:.1})",
                ending(kind),
                kind.files,
                size_shown(kind.bytes),
                size_shown(kind.stored),
                ratio(kind.bytes, kind.stored),
            );
        }
    }
    let stubborn = packed.kinds.iter().filter(|kind| {
        kind.bytes >= WORTH && kind.stored.saturating_mul(100) >= kind.bytes.saturating_mul(97)
    });
    let stubborn: Vec<_> = stubborn.take(TOLD).map(ending).collect();
    if !stubborn.is_empty() {
        text += &format!("\n  did not shrink: {}", stubborn.join(" "));
    }
    if !gathered.slowest.all.is_empty() {
        let slow = |(took, path): &(Duration, Vec<u8>)| {
            format!("{} {:.1} s", shown(path), took.as_secs_f64())
        };
        let slow: Vec<_> = gathered.slowest.all.iter().map(slow).collect();
        text += &format!("\n  slowest: {}", slow.join(", "));
    }
    format!("{text}\n  {}", hex(&packed.name))
}
