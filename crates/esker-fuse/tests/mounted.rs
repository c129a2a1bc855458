//! The door on a real kernel: what programs do on a mount. Skipped, with a message, where nothing
//! can be mounted.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use esker::ground::{Clock, Heap};
use esker::memory::{Home, Options};
use esker::posix::Fs;
use esker::{Attr, Ino, Kind};
use esker_fuse::control::{Served, TEXT_MAX, ask};
use esker_fuse::transport::Ring;
use esker_fuse::{Control, Door, MountError, MountOptions, Mounted, Running, converse, mount};
use esker_host::SystemClock;
use rustix::fs::{AtFlags, CWD, FallocateFlags, RenameFlags, StatxFlags, XattrFlags};
use rustix::io::Errno;

/// A file system that is mounted as long as this lives.
struct Mount {
    mounted: Mounted,
    running: Option<Running>,
    fs: Arc<Fs<Home<Heap>>>,
}

impl Mount {
    fn path(&self, name: &str) -> PathBuf {
        self.mounted.dir().join(name)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.mounted.detach().unwrap();
        self.running.take().unwrap().join().unwrap();
        fs::remove_dir(self.mounted.dir()).unwrap();
    }
}

fn empty_dir() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("esker-fuse-{}-{number}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    dir
}

/// Mounts, or says why not.
fn mounted(text: &str) -> Option<Mount> {
    mounted_on(&empty_dir(), text)
}

fn mounted_on(dir: &Path, text: &str) -> Option<Mount> {
    let mut options = MountOptions::default();
    assert!(options.parse(text).unwrap().is_empty());
    let (device, mounted) = match mount(dir, &options) {
        Ok(done) => done,
        Err(
            error @ (MountError::NoDevice
            | MountError::NoPermission
            | MountError::NoHelper
            | MountError::DeviceForbidden),
        ) => {
            eprintln!("skipped: {error}");
            fs::remove_dir(dir).unwrap();
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let root = Attr::new(Kind::Directory, 0o755, user, group, Ino::ROOT, SystemClock.now());
    let limits = Options { size_max: 1 << 28, file_size_max: i64::MAX as u64, root };
    let fs = Arc::new(Fs::new(Home::new(Heap::new(), &limits).unwrap(), SystemClock));
    let door = Door::new(Arc::clone(&fs), options.door()).with_control(Arc::new(Thrice::default()));
    let door = Arc::new(door);
    let running = converse(device, door, &options).unwrap();
    Some(Mount { mounted, running: Some(running), fs })
}

/// Says three times what it is told, and counts how often it was asked.
#[derive(Default)]
struct Thrice(AtomicUsize);

impl Control for Thrice {
    fn answer(&self, request: &[u8], _: &dyn Served) -> Vec<u8> {
        let asked = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        [request.repeat(3), asked.to_string().into_bytes()].concat()
    }
}

/// Runs `test` on a mount with and without writeback, with one and with two workers, and over
/// io_uring where the kernel offers that.
fn each_way(test: impl Fn(&Mount)) {
    let ring = ["writeback,transport=ring", "nowriteback,transport=ring"];
    let rings = if Ring::is_offered() { &ring[..] } else { &[] };
    for options in ["writeback,threads=2", "nowriteback,threads=1"].iter().chain(rings) {
        if let Some(mount) = mounted(options) {
            test(&mount);
        }
    }
}

#[test]
fn files_keep_what_is_written() {
    each_way(|mount| {
        let path = mount.path("file");
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number >> 3) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        assert!(fs::read(&path).unwrap() == bytes);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"end").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 3_000_003);
        file.set_len(10).unwrap();
        assert_eq!(fs::read(&path).unwrap(), &bytes[..10]);
        file.write_all(b"tail").unwrap();
        drop(file);
        assert_eq!(&fs::read(&path).unwrap()[8..], [&bytes[8..10], b"tail"].concat());
        assert_eq!(File::create(&path).unwrap().metadata().unwrap().len(), 0);
    });
}

#[test]
fn holes_cost_nothing_up_to_the_largest_offset() {
    each_way(|mount| {
        let file = File::create_new(mount.path("sparse")).unwrap();
        file.set_len(i64::MAX as u64).unwrap();
        assert_eq!(file.metadata().unwrap().blocks(), 0);
        file.write_all_at(&[7; 4096], 1 << 40).unwrap();
        let mut seeker = &file;
        assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)), Ok(1 << 40));
        assert_eq!(seeker.seek(SeekFrom::End(0)).unwrap(), i64::MAX as u64);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, punch, 1 << 40, 4096).unwrap();
        assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)), Err(Errno::NXIO));
        rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 8192).unwrap();
        assert_eq!(file.metadata().unwrap().blocks(), 16);
    });
}

/// Nobody has flushed: the kernel holds the bytes, and a copy that trusts `SEEK_DATA` must not miss
/// them.
#[test]
fn bytes_that_the_kernel_holds_back_are_no_hole() {
    each_way(|mount| {
        std::thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || {
                    let file = File::create_new(mount.path(&format!("held{number}"))).unwrap();
                    for round in 1..50 {
                        let at = round << 20;
                        file.write_all_at(b"data", at).unwrap();
                        let found = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at - 8192));
                        assert_eq!(found, Ok(at));
                        let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(at));
                        assert_eq!(end, Ok(at + 4));
                    }
                });
            }
        });
    });
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    each_way(|mount| {
        let path = mount.path("gone");
        let mut file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(b"still here").unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still here");

        let tmpfile = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
        let dir = mount.mounted.dir();
        let mut file =
            OpenOptions::new().write(true).custom_flags(tmpfile).mode(0o600).open(dir).unwrap();
        file.write_all(b"now it has one").unwrap();
        let by_fd = format!("/proc/self/fd/{}", file.as_raw_fd());
        let named = mount.path("named");
        rustix::fs::linkat(CWD, by_fd, CWD, &named, AtFlags::SYMLINK_FOLLOW).unwrap();
        assert_eq!(fs::read(&named).unwrap(), b"now it has one");
    });
}

#[test]
fn what_nobody_holds_goes() {
    each_way(|mount| {
        let before = mount.fs.statfs().inodes;
        for number in 0..500 {
            fs::write(mount.path(&format!("file{number}")), b"some bytes").unwrap();
        }
        assert_eq!(mount.fs.statfs().inodes, before + 500);
        for entry in fs::read_dir(mount.mounted.dir()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        // The kernel sends its last words about a closed file when it finds the time.
        for _ in 0..100 {
            if mount.fs.statfs().inodes == before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(mount.fs.statfs().inodes, before);
    });
}

#[test]
fn a_listing_survives_removals_and_comes_whole() {
    each_way(|mount| {
        let dir = mount.path("big");
        fs::create_dir(&dir).unwrap();
        for number in 0..3000 {
            File::create_new(dir.join(format!("entry-{number:05}"))).unwrap();
        }
        let mut seen: Vec<_> =
            fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 3000);
        let sizes =
            fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
        assert_eq!(sizes.sum::<u64>(), 0);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn names_move_whole() {
    each_way(|mount| {
        let (a, b) = (mount.path("a"), mount.path("b"));
        fs::write(&a, "a").unwrap();
        fs::write(&b, "b").unwrap();
        let rename = |flags| rustix::fs::renameat_with(CWD, &a, CWD, &b, flags);
        assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
        rename(RenameFlags::EXCHANGE).unwrap();
        assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap()), (b"b".to_vec(), b"a".to_vec()));
        fs::rename(&a, &b).unwrap();
        assert_eq!(fs::read(&b).unwrap(), b"b");
        assert!(!a.exists());
        symlink("b", &a).unwrap();
        assert_eq!(fs::read(&a).unwrap(), b"b");
        fs::hard_link(&b, mount.path("c")).unwrap();
        assert_eq!(fs::metadata(&b).unwrap().nlink(), 2);
        let long = mount.path(&"n".repeat(256));
        assert_eq!(File::create(long).unwrap_err().raw_os_error(), Some(36));
        File::create(mount.path(&"\u{fe}\n*".repeat(63))).unwrap();
    });
}

#[test]
fn attributes_are_kept_and_told() {
    each_way(|mount| {
        let path = mount.path("file");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o4751)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode(), 0o104_751);
        let times = rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec { tv_sec: -3, tv_nsec: 999_999_999 },
            last_modification: rustix::fs::Timespec { tv_sec: 1 << 33, tv_nsec: 1 },
        };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        let told = fs::metadata(&path).unwrap();
        assert_eq!((told.atime(), told.atime_nsec()), (-3, 999_999_999));
        assert_eq!((told.mtime(), told.mtime_nsec()), (1 << 33, 1));
        let statx = rustix::fs::statx(CWD, &path, AtFlags::empty(), StatxFlags::BTIME).unwrap();
        assert!(statx.stx_mask & StatxFlags::BTIME.bits() != 0 && statx.stx_btime.tv_sec > 1 << 30);

        rustix::fs::setxattr(&path, "user.colour", b"blue", XattrFlags::CREATE).unwrap();
        let again = rustix::fs::setxattr(&path, "user.colour", b"red", XattrFlags::CREATE);
        assert_eq!(again, Err(Errno::EXIST));
        let mut value = [0; 16];
        let len = rustix::fs::getxattr(&path, "user.colour", &mut value).unwrap();
        assert_eq!(&value[..len], b"blue");
        assert_eq!(rustix::fs::getxattr(&path, "user.colour", &mut [0; 2][..]), Err(Errno::RANGE));
        let mut names = [0; 64];
        let len = rustix::fs::listxattr(&path, &mut names).unwrap();
        assert_eq!(&names[..len], b"user.colour\0");
        let gone = rustix::fs::getxattr(&path, "user.none", &mut value);
        assert_eq!(gone, Err(Errno::NODATA));
    });
}

/// The kernel has the bytes and asks nobody for them.
#[test]
fn reading_what_the_kernel_has_moves_atime() {
    each_way(|mount| {
        let path = mount.path("read");
        fs::write(&path, "bytes").unwrap();
        let old = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        let times = rustix::fs::Timestamps { last_access: old, last_modification: now };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().atime(), old.tv_sec);
        // Times move in ticks of some milliseconds: what is read in the tick of a change is read before it.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        let moved = fs::metadata(&path).unwrap();
        assert!(moved.atime() > old.tv_sec);
        // Relatively: once, until something is written again.
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        let again = fs::metadata(&path).unwrap();
        assert_eq!((again.atime(), again.atime_nsec()), (moved.atime(), moved.atime_nsec()));
    });
}

#[test]
fn copies_share_and_the_mount_tells_its_space() {
    each_way(|mount| {
        let (from, to) = (mount.path("from"), mount.path("to"));
        fs::write(&from, vec![3; 2_000_000]).unwrap();
        let (source, target) = (File::open(&from).unwrap(), File::create_new(&to).unwrap());
        let count = rustix::fs::copy_file_range(&source, None, &target, None, 2_000_000).unwrap();
        assert_eq!(count, 2_000_000);
        assert_eq!(fs::read(&to).unwrap(), vec![3; 2_000_000]);
        let space = rustix::fs::statvfs(mount.mounted.dir()).unwrap();
        assert_eq!((space.f_namemax, space.f_blocks * space.f_frsize), (255, 1 << 28));
        assert!(space.f_bfree < space.f_blocks);
        file_sync(&target);
    });
}

fn file_sync(file: &File) {
    file.sync_all().unwrap();
    file.sync_data().unwrap();
}

#[test]
fn a_mount_point_that_does_not_fit_is_named() {
    let options = MountOptions::default();
    let dir = empty_dir();
    let missing = dir.join("missing");
    let told = |path: &Path| mount(path, &options).map(|_| ()).unwrap_err();
    assert!(matches!(told(&missing), MountError::Missing { dir } if dir == missing));
    let file = dir.join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(told(&file), MountError::NotDirectory { dir } if dir == file));
    assert!(matches!(told(&dir), MountError::NotEmpty { dir: named } if named == dir));
    fs::remove_file(&file).unwrap();
    fs::remove_dir(&dir).unwrap();
    if let Some(mount) = mounted("ro") {
        let again = told(mount.mounted.dir());
        assert!(matches!(again, MountError::AlreadyMounted { .. }), "{again}");
        let refused = File::create(mount.path("x")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    }
}

#[test]
fn a_mount_in_use_is_busy_and_can_be_detached() {
    let Some(mount) = mounted("fsname=with\\,comma") else { return };
    let entry = esker_fuse::mount::mount_entry(mount.mounted.dir()).unwrap();
    assert_eq!((entry.source.to_str(), entry.fs_type.as_str()), (Some("with,comma"), "fuse.esker"));
    let file = File::create(mount.path("open")).unwrap();
    let busy = mount.mounted.unmount().unwrap_err();
    assert!(matches!(busy, MountError::Busy { .. }), "{busy}");
    mount.mounted.detach().unwrap();
    assert!(!mount.mounted.is_mounted());
    mount.mounted.unmount().unwrap();
    (&file).write_all(b"until the last close").unwrap();
}

/// Where the kernel takes an ioctl for chattr(1), the flag holds.
/// The next mount often has the very device number of the one before it.
#[test]
fn what_is_mounted_in_its_place_stays() {
    each_way(|first| {
        let dir = first.mounted.dir();
        first.mounted.unmount().unwrap();
        while !first.running.as_ref().unwrap().is_finished() {
            std::thread::yield_now();
        }
        let second = mounted_on(dir, "").unwrap();
        assert!(!first.mounted.is_mounted(), "it takes another mount for its own");
        first.mounted.detach().unwrap();
        assert!(second.mounted.is_mounted(), "it unmounted another one");
        drop(second);
        fs::create_dir(dir).unwrap();
    });
}

#[test]
fn an_immutable_file_refuses() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root sets the immutable flag");
        return;
    }
    each_way(|mount| {
        let path = mount.path("fixed");
        let file = File::create_new(&path).unwrap();
        rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::IMMUTABLE).unwrap();
        let flags = rustix::fs::ioctl_getflags(&file).unwrap();
        assert_eq!(flags, rustix::fs::IFlags::IMMUTABLE);
        assert!(OpenOptions::new().write(true).open(&path).is_err());
        assert!(fs::remove_file(&path).is_err());
        rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::empty()).unwrap();
        fs::remove_file(&path).unwrap();
    });
}

/// The server itself can be asked through anything in its mount, and answers at any length.
#[test]
fn a_server_is_asked_through_its_mount() {
    each_way(|mount| {
        File::create_new(mount.path("file")).unwrap();
        let long: Vec<_> = (0..TEXT_MAX).map(|at| at as u8).collect();
        for (asked, path) in [(1, mount.path("file")), (2, mount.path("."))] {
            let answer = ask(&path, &long).unwrap();
            assert!(answer.starts_with(&long.repeat(3)), "another answer");
            assert_eq!(answer[3 * TEXT_MAX..], *asked.to_string().as_bytes(), "it is asked once");
        }
        assert_eq!(ask(&mount.path("file"), b"").unwrap(), b"3");
        let error = ask(&mount.path("file"), &vec![0; TEXT_MAX + 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
    let error = ask(&std::env::temp_dir(), b"x").unwrap_err();
    assert!(Errno::from_io_error(&error) == Some(Errno::NOTTY), "{error}");
}

#[test]
fn who_fills_the_file_system_hears_of_it() {
    each_way(|mount| {
        let path = mount.path("filler");
        let mut file = File::create_new(&path).unwrap();
        let piece = vec![1; 1 << 20];
        // The file system holds 256 pieces; the kernel may take a few more before it knows.
        let refused = (0..4096).find_map(|_| file.write_all(&piece).err());
        let error = refused.expect("writing ends");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        drop(file);
        fs::remove_file(&path).unwrap();
        fs::write(&path, &piece).unwrap();
        assert_eq!(fs::read(&path).unwrap(), piece);
    });
}
