//! Unpacks a plain tar archive (ustar: files and directories) from standard input into a directory, which is the first
//! argument or the root. It knows of plain `std::fs` and nothing else.
//!
//! cargo build -p esker-wasi --example untar --target wasm32-wasip1 --release
//! esker run target/wasm32-wasip1/release/examples/untar.wasm --fs files.vol <archive.tar

use std::fs::{self, File};
use std::io::{self, Error, ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};

const BLOCK: usize = 512;

fn text(field: &[u8]) -> &str {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    str::from_utf8(&field[..end]).unwrap_or_default().trim()
}

fn main() -> io::Result<()> {
    let into = PathBuf::from(std::env::args().nth(1).unwrap_or("/".to_owned()));
    let mut input = io::BufReader::with_capacity(1 << 18, io::stdin());
    let mut head = [0; BLOCK];
    loop {
        input.read_exact(&mut head)?;
        if head == [0; BLOCK] {
            return Ok(());
        }
        let wrong = |what: &str| Error::new(ErrorKind::InvalidData, what);
        let name = Path::new(text(&head[345..500])).join(text(&head[..100]));
        if name.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(wrong("a name that leads elsewhere"));
        }
        let len = u64::from_str_radix(text(&head[124..136]), 8).map_err(|_| wrong("no tar"))?;
        let mut content = (&mut input).take(len);
        match head[156] {
            b'5' => fs::create_dir_all(into.join(name))?,
            b'0' | 0 => drop(io::copy(&mut content, &mut File::create(into.join(name))?)?),
            _ => return Err(wrong("neither a file nor a directory")),
        }
        let rest = content.limit() + len.next_multiple_of(BLOCK as u64) - len;
        io::copy(&mut (&mut input).take(rest), &mut io::sink())?;
    }
}
