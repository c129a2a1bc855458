//! A program of plain `std::fs`, which knows nothing of Esker. Built for wasm32-wasip1 it runs over any home:
//!
//! cargo build -p esker-wasi --example greet --target wasm32-wasip1
//! esker run target/wasm32-wasip1/debug/examples/greet.wasm --fs mem: -- Ada

use std::fs::{self, File};
use std::io::Write as _;
use std::{env, io};

fn main() -> io::Result<()> {
    let name = env::args().nth(1).unwrap_or_else(|| "world".to_owned());
    fs::create_dir_all("data/letters")?;
    env::set_current_dir("data/letters")?;
    let mut letter = File::create("letter.txt")?;
    writeln!(letter, "Hello, {name}.")?;
    writeln!(letter, "This was written in {}.", env::current_dir()?.display())?;
    drop(letter);
    print!("{}", fs::read_to_string("letter.txt")?);
    for entry in fs::read_dir("/data")? {
        println!("/data has {}", entry?.file_name().to_string_lossy());
    }
    Ok(())
}
