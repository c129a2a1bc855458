//! Everything that the standard library does with files, checked from inside of a program. What it is told to do last
//! is its first argument.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::time::{Duration, Instant, SystemTime};

/// What the standard library does not offer here.
#[cfg(target_os = "wasi")]
mod raw {
    #[link(wasm_import_module = "wasi_snapshot_preview1")]
    unsafe extern "C" {
        pub fn path_symlink(
            target: *const u8,
            target_len: usize,
            fd: u32,
            path: *const u8,
            len: usize,
        ) -> i32;
        pub fn path_open(
            fd: u32,
            lookup: u32,
            path: *const u8,
            len: usize,
            flags: u32,
            base: u64,
            inheriting: u64,
            fdflags: u32,
            opened: u32,
        ) -> i32;
    }
}

fn files() -> io::Result<()> {
    let mut file = File::create_new("file")?;
    assert_eq!(File::create_new("file").unwrap_err().kind(), ErrorKind::AlreadyExists);
    file.write_all(b"hello world")?;
    file.seek(SeekFrom::Start(6))?;
    file.write_all(b"esker")?;
    assert_eq!(file.stream_position()?, 11);
    file.set_len(13)?;
    file.sync_all()?;
    assert_eq!(fs::read("file")?, b"hello esker\0\0");
    writeln!(OpenOptions::new().append(true).open("file")?, "!")?;
    assert_eq!(fs::metadata("file")?.len(), 15);
    let mut part = [0; 5];
    let mut file = OpenOptions::new().read(true).write(true).open("file")?;
    file.seek(SeekFrom::End(-9))?;
    file.read_exact(&mut part)?;
    assert_eq!(&part, b"esker");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    file.set_modified(old)?;
    assert_eq!(fs::metadata("file")?.modified()?, old);
    fs::hard_link("file", "other")?;
    fs::rename("other", "third")?;
    assert_eq!(fs::copy("third", "copy")?, 15);
    fs::remove_file("file")?;
    assert_eq!(fs::read("file").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::read("third")?, fs::read("copy")?);
    // What is open outlives its name.
    fs::remove_file("third")?;
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut part)?;
    assert_eq!(&part, b"hello");
    Ok(())
}

fn directories() -> io::Result<()> {
    fs::create_dir_all("a/b/c")?;
    assert_eq!(fs::create_dir("a").unwrap_err().kind(), ErrorKind::AlreadyExists);
    for number in 0..500 {
        fs::write(format!("a/b/{number}"), number.to_string())?;
    }
    let mut seen = 0;
    for entry in fs::read_dir("a/b")? {
        let entry = entry?;
        match entry.file_name().to_string_lossy().parse::<u32>() {
            Ok(number) => assert_eq!(fs::read_to_string(entry.path())?, number.to_string()),
            Err(_) => assert!(entry.file_type()?.is_dir()),
        }
        seen += 1;
    }
    assert_eq!(seen, 501);
    // For this one the standard library has no word of its own here: ENOTEMPTY of WASI.
    assert_eq!(fs::remove_dir("a/b").unwrap_err().raw_os_error(), Some(55));
    std::env::set_current_dir("a/b")?;
    assert_eq!(fs::read_to_string("../b/./7")?, "7");
    assert_eq!(fs::read_to_string("/a/b/8")?, "8");
    std::env::set_current_dir("/")?;
    fs::remove_dir_all("a")?;
    assert!(!fs::exists("a")?);
    Ok(())
}

#[cfg(target_os = "wasi")]
fn links_and_escapes() -> io::Result<()> {
    fs::write("target", "found")?;
    let link = |target: &str, path: &str| {
        // SAFETY: both strings are as long as is said.
        unsafe { raw::path_symlink(target.as_ptr(), target.len(), 3, path.as_ptr(), path.len()) }
    };
    assert_eq!(link("target", "link"), 0);
    assert_eq!(fs::read_to_string("link")?, "found");
    assert_eq!(fs::read_link("link")?.to_str(), Some("target"));
    assert!(fs::symlink_metadata("link")?.is_symlink());
    assert_eq!(link("../../etc/passwd", "out"), 0);
    assert!(fs::read("out").is_err());
    assert_ne!(link("/etc/passwd", "absolute"), 0);
    assert!(fs::read("../../etc/passwd").is_err());
    // Places that are not in the memory are told, not followed.
    let (wild, long) = (std::ptr::without_provenance(0xffff_fff0), 64);
    // SAFETY: that the place is none is what is tested.
    assert_eq!(unsafe { raw::path_open(3, 0, wild, long, 0, 0, 0, 0, u32::MAX) }, 21);
    // SAFETY: the same.
    assert_eq!(unsafe { raw::path_symlink(wild, long, 3, wild, long) }, 21);
    ["link", "out", "target"].into_iter().try_for_each(fs::remove_file)
}

#[cfg(not(target_os = "wasi"))]
fn links_and_escapes() -> io::Result<()> {
    Ok(())
}

fn world() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    println!("read {text:?}, LANG is {:?}", std::env::var("LANG").ok());
    let began = Instant::now();
    std::thread::sleep(Duration::from_millis(20));
    assert!(began.elapsed() >= Duration::from_millis(20));
    assert!(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).is_ok());
    // Two maps differ in their seeds, which come from chance.
    let maps = [(); 2].map(|()| std::collections::hash_map::RandomState::new());
    assert_eq!(maps.len(), 2);
    Ok(())
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    files().unwrap();
    directories().unwrap();
    links_and_escapes().unwrap();
    world().unwrap();
    eprintln!("{} words", words.len());
    fs::write("left", "behind").unwrap();
    match words.get(1).map(String::as_str) {
        Some("exit") => std::process::exit(7),
        Some("panic") => panic!("as it was told"),
        _ => {}
    }
}
