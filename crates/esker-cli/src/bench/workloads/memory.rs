//! What a daemon holds in memory for what it was given, and after that was removed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use super::super::stats::Unit;
use super::Run;

/// One big file, then many tiny ones.
pub fn run(run: &mut Run<'_>, place: &Path) -> io::Result<()> {
    let bytes = run.settings.bytes;
    big(run, place, bytes)?;
    let most = run.settings.files.iter().copied().max().unwrap_or(0);
    tiny(run, place, most)
}

fn resident(run: &Run<'_>) -> io::Result<f64> {
    let bytes = run.target.resident().ok_or_else(|| io::Error::other("the daemon is gone"))?;
    #[expect(clippy::cast_precision_loss, reason = "amounts stay far below 2^52")]
    Ok(bytes as f64)
}

#[expect(clippy::cast_precision_loss, reason = "amounts stay far below 2^52")]
fn big(run: &mut Run<'_>, place: &Path, bytes: u64) -> io::Result<()> {
    let before = resident(run)?;
    let path = place.join("big");
    let piece = vec![0x3c; 1 << 20];
    let mut file = File::create_new(&path)?;
    for _ in 0..bytes >> 20 {
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    drop(file);
    let full = resident(run)?;
    run.note("one file, memory for each byte stored", Unit::Times, (full - before) / bytes as f64);
    fs::remove_file(&path)?;
    let after = resident(run)?;
    run.note("one file, memory left when removed", Unit::Bytes, (after - before).max(0.0));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "amounts stay far below 2^52")]
fn tiny(run: &mut Run<'_>, place: &Path, count: u64) -> io::Result<()> {
    let before = resident(run)?;
    let dir = place.join("tiny");
    fs::create_dir(&dir)?;
    for number in 0..count {
        fs::write(dir.join(format!("file-{number:07}")), b"four")?;
    }
    let full = resident(run)?;
    let row = format!("{count} files of 4 bytes, memory for each");
    run.note(row, Unit::Bytes, (full - before) / count as f64);
    fs::remove_dir_all(&dir)?;
    let after = resident(run)?;
    run.note(
        format!("{count} files, memory left when removed"),
        Unit::Bytes,
        (after - before).max(0.0),
    );
    Ok(())
}
