//! A file system in a file mapped into memory, which outlives the program and comes back whole if that is killed:
//! `cargo run -p esker-embedded --example mapped -- FILE`, as often as you like.

use std::path::Path;

use esker::Error;
use esker_embedded::{Fd, Files, Open};
use esker_host::{MappedFile, SystemClock};

/// Address space for the file: it never gets longer.
const SIZE_MAX: u64 = 64 << 30;

/// Adds a line to a log in there; all that it says then.
pub fn log(file: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let memory = MappedFile::open_whole(file, SIZE_MAX)?;
    let mut files = Files::open_memory(memory, SystemClock)?;
    match files.mkdir(Fd::ROOT, b"log") {
        Ok(()) | Err(Error::Exists) => {}
        Err(error) => return Err(error.into()),
    }
    let log = files.open(Fd::ROOT, b"log/runs", Open { append: true, ..Open::CREATE })?;
    files.write(log, format!("run by process {}\n", std::process::id()).as_bytes())?;
    let mut text = vec![0; files.stat(log)?.size as usize];
    files.read_at(log, 0, &mut text)?;
    files.close(log)?;
    // What returned calls did outlives the process; this makes it outlive the power.
    files.sync()?;
    Ok(String::from_utf8(text)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args_os().nth(1).ok_or("which file?")?;
    print!("{}", log(Path::new(&name))?);
    Ok(())
}
