//! A canister of plain `std::fs`: what it is told is written to a file, which outlives upgrades.
//!
//! cargo build -p esker-polyfill --example canister --target wasm32-wasip1 --release
//! esker wasi-link target/wasm32-wasip1/release/examples/canister.wasm -o canister.wasm

#[cfg(target_family = "wasm")]
mod canister {
    use std::fs::{self, File, OpenOptions};
    use std::io::Write as _;

    #[unsafe(export_name = "canister_init")]
    extern "C" fn init() {
        esker_polyfill::init(&[7; 32], &[("HOME", "/home")]);
    }

    /// The same: the files are where they were.
    #[unsafe(export_name = "canister_post_upgrade")]
    extern "C" fn post_upgrade() {
        init();
    }

    #[unsafe(export_name = "canister_update greet")]
    extern "C" fn greet() {
        fs::create_dir_all("data").unwrap();
        std::env::set_current_dir("data").unwrap();
        let count = fs::read_to_string("greetings").map_or(0, |text| text.lines().count());
        let mut file = OpenOptions::new().create(true).append(true).open("greetings").unwrap();
        writeln!(file, "greeting number {}", count + 1).unwrap();
        file.flush().unwrap();
        print!("{}", fs::read_to_string("greetings").unwrap());
    }

    /// Writes, and then fails: nothing of it is left.
    #[unsafe(export_name = "canister_update fail")]
    extern "C" fn fail() {
        File::create("/data/never").unwrap().write_all(b"seen").unwrap();
        std::process::exit(1);
    }

    #[unsafe(export_name = "canister_query list")]
    extern "C" fn list() {
        for entry in fs::read_dir("/data").unwrap() {
            println!("{}", entry.unwrap().file_name().display());
        }
    }
}
