//! What there is to say of a volume: what it is, and what is wrong with it.
//!
//! Above: `verbs::info`, `verbs::check`. Invariant: both only read.

use std::path::Path;

use esker::store::View as _;
use esker_stone::hex;
use esker_volume::Volume;
use esker_volume::device::FileDevice;
use esker_volume::segments::Condition;
use serde_json::{Value, json};

use super::look;
use crate::failure::{Exit, Failure, Outcome, path_shown, shown};
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
        "bad_segments": count(volume, Condition::Bad),
        "block": shape.block_len,
        "compress": setting.codec.name(),
        "level": setting.level,
        "meta_copies": shape.copies,
        "born": shape.born,
        "commit": volume.sequence(),
        "superblock": volume.settled() + 1,
        "orphans": volume.orphans().len(),
        "snapshots": volume.snapshots().len(),
    })
}

/// A label, for a person.
pub fn label(bytes: &[u8; 32]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    shown(&bytes[..end])
}

/// What a volume is.
pub fn info(path: &Path, json: bool) -> Outcome<String> {
    let volume = look(path)?;
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
                "{} of {}: {} free, {} log, {} tables, {} bad",
                all["segments"],
                bytes("segment"),
                all["free_segments"],
                all["log_segments"],
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
        ("commit", format!("{}, superblock {}", all["commit"], all["superblock"])),
    ];
    let mut words = format!("{}: an Esker volume, version {}", path_shown(path), all["version"]);
    for (key, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        words += &format!("\n  {key:<10} {value}");
    }
    Ok(words)
}

/// Whether everything in a volume is as it should be; with lines for whoever asked.
pub fn check(path: &Path, json: bool) -> (Vec<String>, Outcome) {
    let volume = match look(path) {
        Ok(volume) => volume,
        Err(failure) => return (Vec::new(), Err(failure)),
    };
    let findings: Vec<String> = volume.check().iter().map(ToString::to_string).collect();
    let mut lines = findings.clone();
    if json {
        let path = path.to_string_lossy();
        lines = vec![json!({ "volume": path, "findings": findings }).to_string()];
    } else if findings.is_empty() {
        let space = volume.space();
        let used = size_shown(space.used);
        lines.push(format!("{} is whole: {} inodes, {used} used", path_shown(path), space.inodes));
    }
    if findings.is_empty() {
        return (lines, Ok(()));
    }
    let what = format!("damaged: {} finding(s)", findings.len());
    let remedy = "`esker extract --continue` takes out what is whole";
    (lines, Err(Failure::at(Exit::Damaged, &what, path, remedy)))
}
