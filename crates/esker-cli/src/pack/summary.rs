//! What is told at the end: how much became how much, what was there twice, which kinds of files took the space, which
//! did not shrink, and which files took the longest.

use std::path::Path;
use std::time::{Duration, Instant};

use esker_image::pack::{Amount, KindUse, Packed};
use esker_stone::hex;
use serde_json::json;

use super::Gathered;
use super::explain::{category, group};
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
}

pub(super) fn ratio(bytes: u64, stored: u64) -> f64 {
    bytes as f64 / stored.max(1) as f64
}

fn ending(kind: &KindUse) -> String {
    if kind.kind.is_empty() { "(no ending)".to_owned() } else { format!(".{}", kind.kind) }
}

/// For a machine: one line.
pub fn described(
    image: &Path,
    gathered: &Gathered,
    packed: &Packed,
    took: Duration,
    notes: &[(Vec<u8>, Vec<u8>)],
) -> String {
    let own = &packed.statistics;
    let kind = |kind: &KindUse| {
        let (files, bytes) = (kind.files, kind.bytes);
        json!({ "kind": kind.kind, "files": files, "bytes": bytes, "stored": kind.stored })
    };
    let slow = |(took, path): &(Duration, Vec<u8>)| {
        let took = took.as_secs_f64();
        json!({ "path": shown(path), "seconds": took })
    };
    let amount = |own: &Amount| json!({ "streams": own.count, "bytes": own.bytes });
    let left = &packed.choices.left;
    let note = |(name, value): &(Vec<u8>, Vec<u8>)| (shown(name), json!(shown(value)));
    let notes: serde_json::Map<_, _> = notes.iter().map(note).collect();
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
        "notes": notes,
        "repeats_least": packed.choices.repeats,
        "repeated": packed.choices.repeated,
        "units": packed.choices.units,
        "alike": packed.choices.alike,
        "groups": packed.choices.groups.iter().map(group).collect::<Vec<_>>(),
        "stream_max": packed.choices.stream_max,
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
        "nonsense": gathered.nonsense,
    });
    line.to_string()
}

/// What was there before, of how much, and what the rest takes.
fn measured(packed: &Packed) -> String {
    let (own, seen) = (&packed.choices, size_shown(packed.saved));
    // Much of what is unpacked may be the same, so of bytes of files it could be more than all.
    let of = match own.text {
        0 => "of these".to_owned(),
        text => {
            let streams = size_shown(own.unpacked);
            format!("with {streams} of streams unpacked to {}, of all that", size_shown(text))
        }
    };
    let (data, names) = (size_shown(packed.data), size_shown(packed.metadata));
    format!(
        "\n  {of} {seen} were there before and the rest became {data}; names and attributes \
         take {names}"
    )
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
    text += &measured(packed);
    text += &format!("; {:.1} s", took.as_secs_f64());
    let worth: Vec<_> = packed.kinds.iter().filter(|kind| kind.stored >= WORTH).collect();
    if worth.len() > 1 {
        text += "\n  what took the space (of a shared block, by length):";
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
