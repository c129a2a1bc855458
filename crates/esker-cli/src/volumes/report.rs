//! What there is to say of a volume: what it is, and what is wrong with it.
//!
//! Above: `verbs::info`, `verbs::check`. Invariant: both only read.

use std::path::{Path, PathBuf};

use esker::store::View as _;
use esker_stone::hex;
use esker_volume::device::{FileDevice, Placement, Traffic};
use esker_volume::segments::Condition;
use esker_volume::{NoDeltas, Superblock, Volume};
use serde_json::{Value, json};

use super::{Writable, base, care, look_over};
use crate::failure::{Exit, Failure, Outcome, path_shown, shown};
use crate::progress::while_reading;
use crate::units::size_shown;

/// A UUID as people write it.
pub fn uuid_shown(uuid: &[u8; 16]) -> String {
    let digits = hex(uuid);
    let ends = [0, 8, 12, 16, 20, 32];
    let parts: Vec<_> = ends.windows(2).map(|two| &digits[two[0]..two[1]]).collect();
    parts.join("-")
}

fn count(volume: &Volume<FileDevice>, wanted: Condition) -> usize {
    volume.stretches().iter().filter(|row| row.condition == wanted).count()
}

fn described(path: &Path, volume: &Volume<FileDevice>) -> Value {
    let (shape, space) = (volume.shape(), volume.space());
    let setting = shape.setting();
    json!({
        "volume": path.to_string_lossy(),
        "uuid": uuid_shown(&shape.uuid),
        "label": label(&shape.label),
        "version": shape.version,
        "size": shape.size,
        "used": space.used,
        "free": space.total - space.used,
        "inodes": space.inodes,
        "segment": shape.segment_len,
        "segments": shape.segments(),
        "free_segments": count(volume, Condition::Free),
        "log_segments": count(volume, Condition::Log),
        "table_segments": count(volume, Condition::Tables),
        "moved_segments": count(volume, Condition::Moved),
        "bad_segments": count(volume, Condition::Bad),
        "block": shape.block_len,
        "compress": setting.codec.name(),
        "level": setting.level,
        "meta_copies": shape.copies,
        "born": shape.born,
        "compatible": features(shape.compatible, &[]),
        "read_compatible": features(shape.read_compatible, &READ_COMPATIBLE),
        "incompatible": features(shape.incompatible, &INCOMPATIBLE),
        "commit": volume.sequence(),
        "superblock": volume.settled() + 1,
        "orphans": volume.orphans().len(),
        "snapshots": volume.snapshots().len(),
        "base": volume.base().map(|base| {
            json!({ "name": hex(&base.name), "file": shown(&base.file) })
        }),
    })
}

/// How a volume is used.
pub fn stats(path: &Path, volume: &Volume<FileDevice>) -> Value {
    let (shape, space, stretches) = (volume.shape(), volume.space(), volume.stretches());
    let live = stretches.iter().map(|row| row.live).fold(0, u64::saturating_add);
    let of = |wanted| stretches.iter().filter(|row| row.condition == wanted).count();
    json!({
        "volume": path.to_string_lossy(),
        "label": label(&shape.label),
        "size": space.total,
        "used": space.used,
        "free": space.total - space.used,
        "inodes": space.inodes,
        "segments": {
            "count": stretches.len(),
            "len": shape.segment_len,
            "free": of(Condition::Free),
            "log": of(Condition::Log),
            "tables": of(Condition::Tables),
            "moved": of(Condition::Moved),
            "named": of(Condition::Next),
            "bad": of(Condition::Bad),
            "superblocks": of(Condition::Home),
            "live": live,
        },
        "snapshots": volume.snapshots().len(),
        "orphans": volume.orphans().len(),
        "commit": volume.sequence(),
        "superblock": volume.settled() + 1,
        "unsettled": volume.unsettled(),
    })
}

/// The same of one that is mounted to be written: what waits, what was written and why, and what is kept in memory.
pub fn stats_of_mount(path: &Path, fs: &Writable) -> Value {
    let home = fs.store();
    let (most, memory) = home.waiting();
    let (counted, cached) = (home.volume().counted(), home.volume().cached());
    let mut all = stats(path, home.volume());
    all["waiting"] = json!({ "memory": memory, "most": most });
    all["written"] = json!({
        "plain": counted.plain,
        "folded": counted.folded,
        "shared": counted.shared,
        "resembling": counted.resembling,
        "no_deltas": home.volume().no_deltas().map(no_deltas),
        "all": counted.written(),
        "blocks": counted.blocks,
        "moved": counted.moved,
        "rows": counted.rows,
        "tables": counted.tables,
        "parity": counted.parity,
        "superblocks": counted.superblocks,
        "padding": counted.padding,
        "commits": counted.commits,
        "steps": counted.steps,
        "reclaimed_segments": counted.reclaimed,
    });
    all["device"] = device(&home.volume().device().meter().told());
    all["placement"] = placement(home.volume().device().placement());
    all["discard"] = discard(home.volume());
    all["cache"] = json!({
        "bytes": cached.bytes,
        "limit": cached.limit,
        "hits": cached.hits,
        "misses": cached.misses,
    });
    all
}

/// Why blocks are not stored as what differs.
const fn no_deltas(why: NoDeltas) -> &'static str {
    match why {
        NoDeltas::Unwanted => "it was mounted with nodeltas",
        NoDeltas::Older => "the volume is of before there were any (`esker upgrade`)",
        NoDeltas::Codec => "they take zstd (`-o compress=zstd`)",
    }
}

/// What was asked of a device, for machines.
pub fn device(told: &Traffic) -> Value {
    let Traffic { reads, read, writes, written, flushes, discarded } = told;
    json!({
        "reads": reads, "read": read, "writes": writes, "written": written,
        "flushes": flushes, "discarded": discarded,
    })
}

/// The same, read again.
pub fn device_told(told: &Value) -> Option<Traffic> {
    let of = |key: &str| told[key].as_u64();
    Some(Traffic {
        reads: of("reads")?,
        read: of("read")?,
        writes: of("writes")?,
        written: of("written")?,
        flushes: of("flushes")?,
        discarded: of("discarded")?,
    })
}

/// What was given back below, or why nothing is.
fn discard(volume: &Volume<FileDevice>) -> Value {
    let given = volume.device().given_back();
    let why = match (volume.gives_back(), given) {
        (false, _) => Some("it is mounted without discard"),
        (true, None) => Some("the device takes none"),
        (true, Some(_)) => None,
    };
    json!({ "bytes": given.unwrap_or(0), "why": why })
}

/// How the device is told what stays as long as what else.
fn placement(how: Placement) -> Value {
    let (by, streams, why) = match how {
        Placement::Nothing => ("none", 0, Some("it is a file, or written through a cache")),
        Placement::Unwanted => ("none", 0, Some("it was mounted with placement=none")),
        Placement::Alone => ("none", 0, Some("the device keeps no streams apart")),
        Placement::Streams(count) => ("streams", count, None),
        Placement::Lifetimes => ("lifetimes", 0, None),
        Placement::Refused => ("refused", 0, Some("the device refused")),
    };
    json!({ "by": by, "streams": streams, "why": why })
}

/// Features without which a volume is not understood, by their bits.
const INCOMPATIBLE: [&str; 8] =
    ["snapshots", "rules", "base", "pages", "moved", "deltas", "pieces", "names"];
/// Those without which a volume may only be read, by their bits.
const READ_COMPATIBLE: [&str; 1] = ["closed"];

/// All features of a volume.
pub fn features_of(shape: &Superblock) -> Vec<String> {
    let mut all = features(shape.incompatible, &INCOMPATIBLE);
    all.extend(features(shape.read_compatible, &READ_COMPATIBLE));
    all.extend(features(shape.compatible, &[]));
    all
}

/// The features that these flags stand for; those that are unknown by their numbers.
fn features(flags: u64, known: &[&str]) -> Vec<String> {
    let set = (0..64).filter(|bit| flags & (1 << bit) != 0);
    let name =
        |bit: usize| known.get(bit).map_or_else(|| format!("bit {bit}"), |&name| name.into());
    set.map(name).collect()
}

/// The same of all three kinds, in words.
fn features_shown(all: &Value) -> String {
    let kind = |key: &str| {
        let names = all[key].as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>();
        (!names.is_empty()).then(|| format!("{} ({})", names.join(", "), key.replace('_', "-")))
    };
    let kinds = ["incompatible", "read_compatible", "compatible"].into_iter().filter_map(kind);
    kinds.collect::<Vec<_>>().join("; ")
}

/// A label, for a person.
pub fn label(bytes: &[u8; 32]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    shown(&bytes[..end])
}

/// What a volume is.
pub fn info(path: &Path, bases: &[PathBuf], json: bool) -> Outcome<String> {
    let volume = look_over(path, bases)?;
    let all = described(path, &volume);
    if json {
        return Ok(all.to_string());
    }
    let bytes = |key: &str| size_shown(all[key].as_u64().unwrap_or(0));
    let text = |key: &str| all[key].as_str().unwrap_or_default().to_owned();
    let rows = [
        ("uuid", text("uuid")),
        ("label", text("label")),
        ("size", format!("{}, {} used, {} free", bytes("size"), bytes("used"), bytes("free"))),
        ("inodes", all["inodes"].to_string()),
        (
            "segments",
            format!(
                "{} of {}: {} free, {} log, {} moved, {} tables, {} bad",
                all["segments"],
                bytes("segment"),
                all["free_segments"],
                all["log_segments"],
                all["moved_segments"],
                all["table_segments"],
                all["bad_segments"]
            ),
        ),
        ("blocks", format!("up to {}, {}:{}", bytes("block"), text("compress"), all["level"])),
        (
            "snapshots",
            match volume.snapshots().len() {
                0 => String::new(),
                count => count.to_string(),
            },
        ),
        (
            "base",
            volume.base().map_or_else(String::new, |base| {
                format!("{} {}", shown(&base.file), hex(&base.name))
            }),
        ),
        ("commit", format!("{}, superblock {}", all["commit"], all["superblock"])),
        ("features", features_shown(&all)),
    ];
    let mut words = format!("{}: an Esker volume, version {}", path_shown(path), all["version"]);
    for (key, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        words += &format!("\n  {key:<10} {value}");
    }
    Ok(words)
}

/// Whether everything in a volume is as it should be; with lines for whoever asked.
pub fn check(path: &Path, bases: &[PathBuf], (full, json): (bool, bool)) -> (Vec<String>, Outcome) {
    let volume = match look_over(path, bases) {
        Ok(volume) => volume,
        Err(failure) => return (Vec::new(), Err(failure)),
    };
    let (meter, used) = (volume.device().meter(), volume.space().used);
    let found = while_reading((&meter, meter.told().read + used), || volume.check());
    let mut findings: Vec<String> = found.iter().map(ToString::to_string).collect();
    if let Some(base) = volume.base().filter(|_| full) {
        match base::scrub(&base, bases, &|_| true) {
            Ok(own) => findings.extend(own.findings),
            Err(failure) => return (findings, Err(failure)),
        }
    }
    // What cannot be read of that is a finding.
    let lost = volume.lost_blocks().unwrap_or(0);
    let mut lines = findings.clone();
    if json {
        let path = path.to_string_lossy();
        let told = json!({ "volume": path, "findings": findings, "lost_blocks": lost });
        lines = vec![told.to_string()];
    } else if findings.is_empty() {
        let space = volume.space();
        let used = size_shown(space.used);
        lines.push(format!("{} is whole: {} inodes, {used} used", path_shown(path), space.inodes));
        lines.extend(care::lost_shown(lost));
    }
    if findings.is_empty() {
        return (lines, Ok(()));
    }
    let what = format!("damaged: {} finding(s)", findings.len());
    let remedy = "`esker check --repair` makes it whole as far as it can be";
    (lines, Err(Failure::at(Exit::Damaged, &what, path, remedy)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_have_names_or_numbers() {
        assert!(features(0, &INCOMPATIBLE).is_empty());
        assert_eq!(
            features(1 | 1 << 62 | 1 << 63, &INCOMPATIBLE),
            ["snapshots", "bit 62", "bit 63"]
        );
        let all = json!({ "compatible": ["bit 3"], "incompatible": ["snapshots", "bit 62"] });
        assert_eq!(features_shown(&all), "snapshots, bit 62 (incompatible); bit 3 (compatible)");
    }
}
