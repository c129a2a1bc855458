//! The server of a volume is killed while many write: what fsync(2) has answered for is there, whole, and the volume
//! needs no hand. `ESKER_CASES` says how often.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use esker_proof::chance::Chance;
use esker_proof::harness::{from_env, seed};
use esker_proof::rig::{Mount, may_mount};

const WRITERS: u64 = 4;
/// Files that a writer keeps before it removes the oldest.
const KEPT: u64 = 20;

/// What a writer puts into a file, always the same.
fn content(writer: u64, number: u64) -> Vec<u8> {
    let mut chance = Chance::new(writer << 32 | number);
    let len = chance.below(40_000);
    (0..len).map(|at| ((at / 7) ^ number ^ chance.below(4)) as u8).collect()
}

/// Makes a file safe under a first name, then under its last; the oldest goes.
fn step(folder: &Path, writer: u64, number: u64) -> std::io::Result<()> {
    let (first, last) = (folder.join("new"), folder.join(format!("file{number}")));
    let mut file = File::create(&first)?;
    file.write_all(&content(writer, number))?;
    file.sync_all()?;
    fs::rename(&first, &last)?;
    if number > KEPT {
        fs::remove_file(folder.join(format!("file{}", number - KEPT - 1)))?;
    }
    File::open(folder)?.sync_all()
}

/// Writes until it cannot; the last step that was safe is in `safe`.
fn write(folder: &Path, writer: u64, safe: &AtomicU64) {
    for number in safe.load(Ordering::SeqCst) + 1.. {
        if step(folder, writer, number).is_err() {
            return;
        }
        safe.store(number, Ordering::SeqCst);
    }
}

/// What is there is what the last safe step left, or one behind it.
fn look(folder: &Path, writer: u64, safe: u64) -> Result<u64, String> {
    let mut last = safe;
    for number in safe.saturating_sub(KEPT)..=safe + 1 {
        let read = fs::read(folder.join(format!("file{number}")));
        match read {
            Ok(bytes) if bytes == content(writer, number) => last = last.max(number),
            Ok(bytes) => {
                return Err(format!("writer {writer}, file {number}: {} bytes", bytes.len()));
            }
            // The step that was under way may have taken the oldest.
            Err(_) if number == 0 || number == safe + 1 => {}
            Err(_) if number + KEPT == safe => {}
            Err(error) => return Err(format!("writer {writer}, file {number} of {safe}: {error}")),
        }
    }
    Ok(last)
}

#[test]
fn what_was_synced_outlives_its_server() {
    if !may_mount() {
        return;
    }
    let rounds = from_env("ESKER_CASES", 8);
    let mut mount = Mount::volume("killed", "256M", "commit=1,dirty=16M").expect("a volume");
    let folders: Vec<_> = (0..WRITERS).map(|one| mount.path().join(format!("w{one}"))).collect();
    for folder in &folders {
        fs::create_dir(folder).expect("a directory");
        File::open(folder).and_then(|folder| folder.sync_all()).expect("synced");
    }
    let safe: Vec<_> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let mut chance = Chance::new(seed());
    for round in 0..rounds {
        let pause = Duration::from_millis(20 + chance.below(300));
        thread::scope(|scope| {
            for ((folder, safe), writer) in folders.iter().zip(&safe).zip(0..) {
                scope.spawn(move || write(folder, writer, safe));
            }
            thread::sleep(pause);
            mount.kill_daemon();
        });
        mount.leave().expect("unmounted");
        mount.check().unwrap_or_else(|why| panic!("round {round}: {why}"));
        mount.mount_again().unwrap_or_else(|why| panic!("round {round}: {why}"));
        for ((folder, safe), writer) in folders.iter().zip(&safe).zip(0..) {
            let known = safe.load(Ordering::SeqCst);
            let last = look(folder, writer, known);
            safe.store(last.unwrap_or_else(|why| panic!("round {round}: {why}")), Ordering::SeqCst);
        }
    }
    let steps: Vec<_> = safe.iter().map(|safe| safe.load(Ordering::SeqCst)).collect();
    println!("killed {rounds} times, {steps:?} steps were safe");
    assert!(steps.iter().all(|&steps| steps > 0), "nobody got anywhere");
}
