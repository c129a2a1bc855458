//! git writes a pack 4107 bytes at a time: small appends to one growing file.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use super::Run;

const PIECE: usize = 4107;

/// A new file, then the same with `O_APPEND`.
pub fn run(run: &mut Run<'_>, place: &Path) -> io::Result<()> {
    let count = run.settings.bytes / PIECE as u64;
    let piece = [0x5a; PIECE];
    for (row, append) in [("append 4107 bytes", false), ("append 4107 bytes, O_APPEND", true)] {
        let path = place.join("pack");
        run.rate(row, count, || {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).append(append).create_new(true).open(&path)?;
            for _ in 0..count {
                file.write_all(&piece)?;
            }
            Ok(())
        })?;
        std::fs::remove_file(&path)?;
    }
    Ok(())
}
