//! git writes a pack 4107 bytes at a time: small appends to one growing file, and at last fsync(2).

use std::io;

use super::super::files::Files;
use super::super::stop;
use super::Run;

const PIECE: usize = 4107;

/// A new file, then the same with `O_APPEND`.
pub fn run<F: Files>(run: &mut Run<'_>, place: &F) -> io::Result<()> {
    let count = run.settings.bytes / PIECE as u64;
    let piece = [0x5a; PIECE];
    for (row, append) in [("append 4107 bytes", false), ("append 4107 bytes, O_APPEND", true)] {
        run.rate(row, count, || {
            let file = place.create("pack", append)?;
            for number in 0..count {
                stop::check()?;
                place.write_at(&file, number * PIECE as u64, &piece)?;
            }
            place.sync(&file)
        })?;
        place.remove(b"pack")?;
    }
    Ok(())
}
