//! Bad days: war over names, no space left, absurd sizes, a daemon that is killed.
//! `ESKER_STORM_SECS` makes wars longer.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use esker::Time;
use esker::ground::Heap;
use esker::limits::FILE_SIZE_MAX;
use esker::memory::{Home, Options};
use esker::overlay::{Leaving, Overlay, Walk};
use esker::posix::Fs;
use esker_proof::harness::{from_env, seed};
use esker_proof::model::Model;
use esker_proof::rig::{Mount, Place, is_mounted, may_mount, program, run};
use esker_proof::storm::{Directory, Here, rage};
use esker_proof::world::inside::{Checked, root_attr};
use rustix::mount::{UnmountFlags, unmount};

const ENOSPC: i32 = 28;
const PATIENCE: Duration = Duration::from_secs(60);

fn war() -> Duration {
    Duration::from_secs(from_env("ESKER_STORM_SECS", 5))
}

fn storm_in_process(size_max: u64) {
    let options = Options { size_max, file_size_max: FILE_SIZE_MAX, root: root_attr() };
    let home = Home::new(Heap::new(), &options).expect("a home");
    let fs = Fs::new(home, || Time { secs: 1_700_000_000, nanos: 0 });
    let tally = rage(&Here(&fs), 16, war(), PATIENCE, seed()).expect("a fair war");
    println!("errno and how often: {tally:?}");
    let findings = fs.store().findings();
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn a_war_in_process_leaves_a_sound_home() {
    storm_in_process(256 << 20);
}

#[test]
fn a_war_for_space_leaves_a_sound_home() {
    storm_in_process(1 << 20);
}

/// A war above what another one left, while that moves up; in the end nothing is asked of it any more.
#[test]
fn a_war_above_what_another_left_leaves_a_sound_home() {
    let clock = || Time { secs: 1_700_000_000, nanos: 0 };
    let below = Fs::new(Model::new(root_attr()), clock);
    rage(&Here(&below), 8, Duration::from_secs(1), PATIENCE, seed()).expect("a fair war");
    let (lower, last) = (Leaving::new(below.store().copy()), below.store().last_ino());
    let root = root_attr();
    let options = Options { size_max: 256 << 20, file_size_max: FILE_SIZE_MAX, root };
    let home = Home::new(Heap::new(), &options).expect("a home");
    let fs = Fs::new(Overlay::new(home, lower, last).expect("an overlay"), clock);
    let fill =
        |ino| while fs.alone(ino, |overlay| overlay.fill(ino, &mut [0; 4096])).expect("room") {};
    let tally = std::thread::scope(|scope| {
        let filler = scope.spawn(|| {
            let mut walk = Walk::new();
            while let Some(ino) = walk.next(fs.store()).expect("a sound lower") {
                fill(ino);
                std::thread::sleep(war() / 2000);
            }
        });
        let tally = rage(&Here(&fs), 16, war(), PATIENCE, seed()).expect("a fair war");
        filler.join().expect("it fills");
        tally
    });
    while let Some(ino) = fs.store().next_unfilled(None) {
        fill(ino);
    }
    fs.store().lower().leave();
    println!("errno and how often: {tally:?}");
    let findings = fs.store().findings();
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn sixty_four_threads_at_war_on_a_mount() {
    if !may_mount() {
        return;
    }
    let mount = Mount::esker("war", "size=256m").expect("esker");
    let field = Directory(mount.case().expect("a directory"));
    let tally = rage(&field, 64, war(), PATIENCE, seed()).expect("a fair war");
    let count = field.survey().expect("a sane tree");
    println!("errno and how often: {tally:?}; {count} names in the end");
}

/// Whatever of names, kinds, sizes and bytes a tree has.
fn told(dir: &Path, to: &mut Vec<(std::path::PathBuf, u64, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let meta = std::fs::symlink_metadata(&path).expect("it is there");
        let mut bytes = Vec::new();
        if meta.is_dir() {
            told(&path, to);
        } else if meta.is_file() {
            bytes = std::fs::read(&path).expect("it can be read");
        }
        to.push((path, meta.ino(), bytes));
    }
}

/// While sixteen are at war on a mounted volume, snapshots are made of it and deleted; afterwards it goes back to one
/// that was made between two wars.
#[test]
fn a_war_on_a_mounted_volume_with_snapshots() {
    if !may_mount() {
        return;
    }
    let mut mount = Mount::volume("kept-war", "64m", "").expect("a volume");
    let place = mount.path().to_string_lossy().into_owned();
    let field = Directory(mount.case().expect("a directory"));
    std::thread::scope(|scope| {
        let place = &place;
        let keeper = scope.spawn(move || {
            for number in 0..8_u32 {
                let name = format!("s{number}");
                run(&["snapshot", "create", place, &name]).expect("a snapshot");
                if let Some(old) = number.checked_sub(3) {
                    let old = format!("s{old}");
                    run(&["snapshot", "delete", place, &old]).expect("deleted");
                }
                std::thread::sleep(war() / 20);
            }
        });
        rage(&field, 16, war() / 2, PATIENCE, seed()).expect("a fair war");
        keeper.join().expect("snapshots are made in a war");
    });
    field.survey().expect("a sane tree");
    let (mut then, mut again) = (Vec::new(), Vec::new());
    told(&field.0, &mut then);
    run(&["snapshot", "create", &place, "between"]).expect("a snapshot");
    rage(&field, 16, war() / 5, PATIENCE, seed() + 1).expect("a fair war");
    mount.leave().expect("it is left");
    mount.check().expect("it is sound");
    run(&["snapshot", "rollback", &mount.source().expect("a file"), "between"])
        .expect("it goes back");
    mount.check().expect("it is sound");
    mount.mount_again().expect("it mounts");
    told(&field.0, &mut again);
    then.sort();
    again.sort();
    assert!(then == again, "it went back to something else");
}

/// Bytes written until there was no space; how the last write ended.
fn fill(path: &Path) -> (u64, i32) {
    let chunk = vec![0x5a_u8; 64 << 10];
    let mut file = File::create(path).expect("a name");
    let mut written = 0;
    loop {
        // What the kernel has gathered must reach us, or nobody hears of ENOSPC.
        let done = file.write(&chunk).and_then(|count| file.sync_data().map(|()| count));
        match done {
            Ok(count) => written += count as u64,
            Err(error) => return (written, error.raw_os_error().unwrap_or(-1)),
        }
    }
}

#[test]
fn a_full_mount_says_so_and_gives_space_back() {
    if !may_mount() {
        return;
    }
    const SIZE: u64 = 64 << 20;
    let mount = Mount::esker("full", "size=64m").expect("esker");
    let path = |index: usize| mount.path().join(format!("fill{index}"));
    let mut first = None;
    for round in 0..3 {
        // From several processes at once; each alone would need more than there is. The kernel gathers writes, so
        // that they hear of it at the latest from fsync(2) or close(2).
        let writers: Vec<_> = (1..4)
            .map(|index| {
                let mut dd = Command::new("dd");
                dd.arg("if=/dev/zero").arg(format!("of={}", path(index).display()));
                dd.args(["bs=64k", "count=1100", "conv=fsync", "status=none"]);
                dd.stderr(std::process::Stdio::null()).spawn().expect("dd")
            })
            .collect();
        let (_, errno) = fill(&path(0));
        assert_eq!(errno, ENOSPC);
        for mut writer in writers {
            assert!(!writer.wait().expect("dd").success(), "dd found more space than there is");
        }
        (0..4).for_each(|index| std::fs::remove_file(path(index)).expect("unlink when full"));
        let (alone, errno) = fill(&path(0));
        assert_eq!(errno, ENOSPC);
        std::fs::remove_file(path(0)).expect("unlink when full");
        println!("round {round}: {alone} bytes in {SIZE}");
        let first = *first.get_or_insert(alone);
        assert!(alone * 100 >= SIZE * 90, "only {alone} of {SIZE} bytes could be used");
        assert!(alone * 100 >= first * 98, "space is lost: {alone} after {first}");
    }
}

/// Space that an open file keeps does not come back soon: nobody waits for it.
#[test]
fn a_removed_file_that_stays_open_keeps_nobody_waiting() {
    if !may_mount() {
        return;
    }
    let mount = Mount::esker("kept", "size=20m").expect("esker");
    let path = mount.path().join("kept");
    let mut kept = File::create_new(&path).expect("a name");
    kept.write_all(&[1; 4096]).expect("write");
    std::fs::remove_file(&path).expect("unlink");
    let path = mount.path().join("fill");
    assert_eq!(fill(&path).1, ENOSPC);
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    for _ in 0..20 {
        let file = File::options().append(true).open(&path).expect("open");
        let refused = (&file).write_all(&[1; 64 << 10]).and_then(|()| file.sync_all());
        assert_eq!(refused.expect_err("it is full").raw_os_error(), Some(ENOSPC));
    }
    // To wait for each would take 20 seconds.
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    // What is about to come back is waited for.
    drop(kept);
    std::fs::remove_file(&path).expect("unlink when full");
    std::fs::write(&path, vec![2; 10 << 20]).expect("there is space again");
    assert!(std::fs::read(&path).expect("read").iter().all(|&byte| byte == 2));
}

/// What lies below the largest size is kept, and the error told: with writeback late, without it at once.
#[test]
fn bytes_below_the_largest_size_are_kept() {
    if !may_mount() {
        return;
    }
    const EFBIG: i32 = 27;
    const LIMIT: u64 = 1 << 20;
    let mount = Mount::esker("limit", "size=64m,file_size=1m").expect("esker");
    let path = mount.path().join("f");
    let file = File::create_new(&path).expect("a name");
    let written = file.write_all_at(&[1; 20], LIMIT - 10).and_then(|()| file.sync_all());
    let told = written.expect_err("it is too large");
    assert_eq!(told.raw_os_error(), Some(EFBIG));
    drop(file);
    // Once the kernel has forgotten the file, it sees what there is.
    let copy = mount.path().join("copy");
    std::fs::rename(&path, &copy).expect("rename");
    std::fs::write("/proc/sys/vm/drop_caches", "3").expect("drop caches");
    assert_eq!(std::fs::metadata(&copy).expect("stat").len(), LIMIT);
    assert_eq!(
        std::fs::read(&copy).expect("read")[LIMIT as usize - 11..],
        [&[0][..], &[1; 10]].concat()
    );
    let file = File::options().write(true).open(&copy).expect("open");
    assert_eq!(file.set_len(LIMIT + 1).expect_err("too large").raw_os_error(), Some(EFBIG));
}

#[test]
fn absurd_sizes_are_sparse_and_instant() {
    if !may_mount() {
        return;
    }
    let mount = Mount::esker("sparse", "size=64m").expect("esker");
    let begun = Instant::now();
    for len in [1 << 40, 1 << 62, i64::MAX as u64] {
        let path = mount.path().join("f");
        let file = File::options().create(true).truncate(true).write(true).read(true).open(&path);
        let file = file.expect("a name");
        file.set_len(len).expect("truncate");
        assert_eq!(file.metadata().expect("fstat").len(), len);
        file.write_all_at(b"end", len - 3).expect("write at the end");
        let mut end = [1; 8];
        file.read_exact_at(&mut end, len - 8).expect("read at the end");
        assert_eq!(&end, b"\0\0\0\0\0end");
        file.sync_all().expect("fsync");
        std::fs::remove_file(&path).expect("unlink");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(mount.daemon_resident().is_none_or(|bytes| bytes < 200 << 20));
}

#[test]
fn a_killed_daemon_leaves_a_mount_point_that_can_be_used_again() {
    if !may_mount() {
        return;
    }
    let mut mount = Mount::esker("killed", "size=64m").expect("esker");
    let path = mount.path().to_owned();
    std::fs::write(path.join("f"), b"gone soon").expect("write");
    mount.kill_daemon();
    let error = std::fs::metadata(path.join("f")).expect_err("nobody answers");
    // ECONNABORTED or ENOTCONN, over a ring also ECANCELED, and no hang.
    assert!(matches!(error.raw_os_error(), Some(103 | 107 | 125)), "{error}");
    let esker = program().expect("the program");
    let refused = Command::new(esker).args(["mount", "mem:"]).arg(&path).output().expect("esker");
    assert!(!refused.status.success(), "mounted over a dead mount");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("umount") || said.contains("clear_stale"), "says what to do: {said}");
    let status = Command::new(esker).arg("umount").arg(&path).status().expect("esker");
    assert!(status.success() && !is_mounted(&path), "the dead mount can be taken away");
    let status = Command::new(esker).args(["mount", "mem:"]).arg(&path).status().expect("esker");
    assert!(status.success() && is_mounted(&path), "and the place used again");
    std::fs::write(path.join("f"), b"here again").expect("write");
    let status = Command::new(esker).arg("umount").arg(&path).status().expect("esker");
    assert!(status.success() && !is_mounted(&path));
}

#[test]
fn a_place_goes_when_it_is_left() {
    let place = Place::new("left").expect("a place");
    let path = place.path().to_owned();
    drop(place);
    assert!(!path.exists());
    assert!(unmount(&path, UnmountFlags::empty()).is_err());
}
