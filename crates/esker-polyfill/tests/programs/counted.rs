//! A canister whose files are on the heap, whose calls of WASI are counted and told, and whose time it tells itself.

#[cfg(target_family = "wasm")]
mod canister {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use esker_polyfill::{get_counter, reset_counter, stand_still};

    #[unsafe(export_name = "canister_init")]
    extern "C" fn init() {
        esker_polyfill::init(&[7; 32], &[]);
    }

    /// What a call costs, and that one which fails is told as well.
    #[unsafe(export_name = "canister_update count")]
    extern "C" fn count() {
        fs::write("/letter", b"Hello.").unwrap();
        reset_counter();
        assert!(fs::metadata("/letter").is_ok() && fs::metadata("/none").is_err());
        println!("{} instructions", get_counter());
        assert!(fs::remove_file("/letter").is_ok());
    }

    /// Time as it is told, to files and to the program; then as the system has it.
    #[unsafe(export_name = "canister_update still")]
    extern "C" fn still() {
        let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        for told in [Some(5_000_000_007), None] {
            stand_still(told);
            fs::write("/letter", b"Hello.").unwrap();
            let written = since(fs::metadata("/letter").unwrap().modified().unwrap());
            assert_eq!(written, since(SystemTime::now()));
            assert_eq!(written == Duration::from_nanos(5_000_000_007), told.is_some());
            println!("{}", written.as_nanos());
        }
    }

    #[unsafe(export_name = "canister_query list")]
    extern "C" fn list() {
        println!("{} files", fs::read_dir("/").unwrap().count());
    }
}
