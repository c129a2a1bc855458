//! A canister that kept its files with the crate stable-fs finds them here.

use std::ops::ControlFlow;

use esker::ground::Heap;
use esker::{Error, Kind, Time};
use esker_embedded::{Fd, Files, ImportError, Open, Stable, import};
use ic_stable_structures::VectorMemory;
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager, VirtualMemory};
use stable_fs::fs::{ChunkSize, ChunkType, FdStat, FileSystem, OpenFlags, SrcBuf, Whence};
use stable_fs::storage::Storage;
use stable_fs::storage::stable::StableStorage;
use stable_fs::storage::types::{DirEntry, FileName, FileType, Metadata, MountedFileSizePolicy};

type Manager = MemoryManager<VectorMemory>;
type Here = Files<Stable<VirtualMemory<VectorMemory>>>;

fn storage(manager: &Manager) -> StableStorage<VectorMemory> {
    StableStorage::new_with_memory_manager(manager, 0..10)
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|index| ((index * 7 + seed) % 255 + 1) as u8).collect()
}

fn put(fs: &mut FileSystem, path: &str, parts: &[(u64, &[u8])], size: u64) {
    let root = fs.root_fd();
    let fd = fs.open(root, path, FdStat::default(), OpenFlags::CREATE, 17).unwrap();
    for (at, part) in parts {
        fs.seek(fd, *at as i64, Whence::SET).unwrap();
        let source = SrcBuf { buf: part.as_ptr(), len: part.len() };
        assert_eq!(fs.write_vec(fd, &[source]).unwrap(), part.len() as u64);
    }
    fs.set_file_size(fd, size).unwrap();
    fs.set_accessed_time(fd, 3_000_000_004).unwrap();
    fs.set_modified_time(fd, 5_000_000_006).unwrap();
    fs.close(fd).unwrap();
}

/// A little of everything, in chunks of one kind, as an earlier version of the canister left it.
fn earlier_life(manager: &Manager, kind: ChunkType, size: Option<ChunkSize>) {
    let mut storage = storage(manager);
    storage.set_chunk_type(kind);
    if let Some(size) = size {
        storage.set_chunk_size(size).unwrap();
    }
    let mut fs = FileSystem::new(Box::new(storage)).unwrap();
    let root = fs.root_fd();
    put(&mut fs, "empty", &[], 0);
    put(&mut fs, "small", &[(0, &bytes(1, 100))], 100);
    put(&mut fs, "large", &[(0, &bytes(2, 700_000))], 700_000);
    // Data, a hole of 10 MB, data, and a hole at the end.
    put(&mut fs, "sparse", &[(5, &bytes(3, 9000)), (10_000_000, &bytes(4, 20_000))], 12_000_000);
    for dir in ["a", "a/b", "a/b/empty"] {
        fs.mkdir(root, dir, FdStat::default(), 19).unwrap();
    }
    put(&mut fs, "a/b/deep", &[(0, &bytes(5, 5000))], 5000);
    let linked = fs.create_hard_link(root, "a/b/deep", root, "a/link").unwrap();
    fs.close(linked).unwrap();
    let limited = fs.open(root, "small", FdStat::default(), OpenFlags::empty(), 21).unwrap();
    fs.set_file_size_limit(limited, 7777).unwrap();
    fs.close(limited).unwrap();
    for number in 0..300 {
        put(
            &mut fs,
            &format!("a/file{number:03}"),
            &[(0, &bytes(number, number * 3))],
            number as u64 * 3,
        );
    }
}

fn get(files: &mut Files<Stable<impl ic_stable_structures::Memory>>, path: &str) -> Vec<u8> {
    let file = files.open(Fd::ROOT, path.as_bytes(), Open::READ).unwrap();
    let mut content = vec![0; files.stat(file).unwrap().size as usize];
    assert_eq!(files.read(file, &mut content), Ok(content.len()));
    files.close(file).unwrap();
    content
}

/// Nothing was read yet since it came over.
fn assert_times_and_links(fs: &mut FileSystem, files: &mut Here) {
    let mut stat = |path: &str| files.stat_path(Fd::ROOT, path.as_bytes(), false).unwrap();
    let (accessed, modified) = (Time { secs: 3, nanos: 4 }, Time { secs: 5, nanos: 6 });
    let many = (0..300).map(|number| format!("a/file{number:03}"));
    let others = ["empty", "large", "sparse", "a/b/deep", "a/link"].map(str::to_owned);
    for path in many.chain(others) {
        let attr = stat(&path);
        assert_eq!((attr.atime, attr.mtime), (accessed, modified), "{path}");
        let names = if path == "a/b/deep" || path == "a/link" { 2 } else { 1 };
        assert_eq!(attr.nlink, names, "{path}");
    }
    let time = |nanos: u64| Time {
        secs: (nanos / 1_000_000_000) as i64,
        nanos: (nanos % 1_000_000_000) as u32,
    };
    for dir in ["a", "a/b", "a/b/empty"] {
        let from = fs.open_metadata(fs.root_fd(), dir).unwrap().times;
        let attr = stat(dir);
        let times = (time(from.accessed), time(from.modified));
        assert_eq!((attr.atime, attr.mtime), times, "{dir}");
    }
}

#[test]
fn every_kind_of_chunk_comes_over() {
    let kinds = [
        (ChunkType::V1, None),
        (ChunkType::V2, None),
        (ChunkType::V2, Some(ChunkSize::CHUNK4K)),
        (ChunkType::V2, Some(ChunkSize::CHUNK64K)),
    ];
    for (kind, size) in kinds {
        let memory = VectorMemory::default();
        earlier_life(&Manager::init(memory.clone()), kind, size);
        // The upgrade: the same memory, with ours in one of its parts that is not in use yet.
        let manager = Manager::init(memory);
        let mut fs = FileSystem::new(Box::new(storage(&manager))).unwrap();
        let ours = || Stable::new(manager.get(MemoryId::new(30)));
        let mut files = Files::open_memory(ours(), || Time { secs: 99, nanos: 0 }).unwrap();
        let done = import(&mut fs, &mut files).unwrap();
        assert_eq!((done.directories, done.files, done.links), (3, 305, 1));
        let data = 100 + 700_000 + 9000 + 20_000 + 5000 + 3 * 300 * 299 / 2;
        assert!((data..data + 5 * 4096).contains(&done.bytes), "{} bytes", done.bytes);
        drop(files);
        let mut files = Files::open_memory(ours(), || Time { secs: 99, nanos: 0 }).unwrap();
        assert_times_and_links(&mut fs, &mut files);
        assert!(get(&mut files, "empty").is_empty());
        assert_eq!(get(&mut files, "small"), bytes(1, 100));
        let limited = files.open(Fd::ROOT, b"small", Open::READ).unwrap();
        assert_eq!(files.size_limit(limited), Ok(Some(7777)));
        assert_eq!(get(&mut files, "large"), bytes(2, 700_000));
        let mut sparse = vec![0; 12_000_000];
        sparse[5..9005].copy_from_slice(&bytes(3, 9000));
        sparse[10_000_000..10_020_000].copy_from_slice(&bytes(4, 20_000));
        assert!(get(&mut files, "sparse") == sparse);
        assert_eq!(get(&mut files, "a/link"), bytes(5, 5000));
        for number in 0..300 {
            assert_eq!(get(&mut files, &format!("a/file{number:03}")), bytes(number, number * 3));
        }
        // One file under two names: what is written to the one is read from the other.
        let deep = files.open(Fd::ROOT, b"a/b/deep", Open::WRITE).unwrap();
        files.write(deep, b"changed").unwrap();
        files.close(deep).unwrap();
        assert!(get(&mut files, "a/link").starts_with(b"changed"));
        let sparse = files.stat_path(Fd::ROOT, b"sparse", false).unwrap();
        assert!(sparse.blocks * 512 < 100_000, "{} blocks for a file of holes", sparse.blocks);
        let mut names = Vec::new();
        let each = &mut |entry: esker::posix::Dirent<'_>| {
            names.push((entry.name.to_vec(), entry.kind));
            ControlFlow::Continue(())
        };
        files.list(Fd::ROOT, b"a/b", each).unwrap();
        names.sort();
        let expected = [(b"deep".to_vec(), Kind::File), (b"empty".to_vec(), Kind::Directory)];
        assert_eq!(names, expected);
        assert_eq!(files.fs().store().check(), []);
    }
}

/// Wherever stable-fs had its ten memories: in a manager of its own, where they are 229 to 238, or in the canister's.
#[test]
fn files_come_over_from_any_memory_ids() {
    for (alone, ids) in [(true, 229..239), (false, 229..239), (false, 200..210), (false, 101..119)]
    {
        let memory = VectorMemory::default();
        let storage = match alone {
            true => StableStorage::new(memory.clone()),
            false => {
                StableStorage::new_with_memory_manager(&Manager::init(memory.clone()), ids.clone())
            }
        };
        let mut fs = FileSystem::new(Box::new(storage)).unwrap();
        put(&mut fs, "file", &[(0, &bytes(8, 50_000))], 50_000);
        drop(fs);
        // The upgrade: one manager for both.
        let manager = Manager::init(memory);
        let storage = StableStorage::new_with_memory_manager(&manager, ids.clone());
        let mut fs = FileSystem::new(Box::new(storage)).unwrap();
        let ours = || Stable::new(manager.get(MemoryId::new(30)));
        let mut files = Files::open_memory(ours(), Time::default).unwrap();
        assert_eq!(import(&mut fs, &mut files).unwrap().files, 1, "{ids:?}");
        drop((fs, files));
        let mut files = Files::open_memory(ours(), Time::default).unwrap();
        assert_eq!(get(&mut files, "file"), bytes(8, 50_000), "{ids:?}");
    }
}

#[test]
fn a_mounted_file_has_the_content_of_its_memory() {
    let manager = Manager::init(VectorMemory::default());
    let mut fs = FileSystem::new(Box::new(storage(&manager))).unwrap();
    let mounted = Box::new(manager.get(MemoryId::new(20)));
    fs.mount_memory_file("db", mounted, MountedFileSizePolicy::PreviousOrZero).unwrap();
    put(&mut fs, "db", &[(0, &bytes(8, 150_000))], 150_000);
    let memory = Stable::new(manager.get(MemoryId::new(30)));
    let mut files = Files::open_memory(memory, || Time { secs: 99, nanos: 0 }).unwrap();
    import(&mut fs, &mut files).unwrap();
    assert_eq!(get(&mut files, "db"), bytes(8, 150_000));
}

#[test]
fn a_name_that_is_there_already_is_told() {
    let manager = Manager::init(VectorMemory::default());
    let mut fs = FileSystem::new(Box::new(storage(&manager))).unwrap();
    put(&mut fs, "name", &[], 0);
    let memory = Stable::new(manager.get(MemoryId::new(30)));
    let mut files = Files::open_memory(memory, || Time { secs: 99, nanos: 0 }).unwrap();
    files.mkdir(Fd::ROOT, b"name").unwrap();
    let taken = ImportError::Target { path: "name".into(), error: Error::Exists };
    assert_eq!(import(&mut fs, &mut files), Err(taken));
}

/// A directory that leads to one above it, a size that cannot be: told of, and no copy without end.
#[test]
fn damaged_directories_and_sizes_are_told() {
    for (damaged, path) in [("cycle", "a/b/up"), ("size", "f")] {
        let manager = Manager::init(VectorMemory::default());
        let mut fs = FileSystem::new(Box::new(storage(&manager))).unwrap();
        let root = fs.root_fd();
        fs.mkdir(root, "a", FdStat::default(), 1).unwrap();
        fs.mkdir(root, "a/b", FdStat::default(), 1).unwrap();
        put(&mut fs, "f", &[(0, b"bytes")], 5);
        let [above, below, file] =
            ["a", "a/b", "f"].map(|path| fs.open_metadata(root, path).unwrap());
        if damaged == "cycle" {
            let entry_type = Some(FileType::Directory);
            let entry =
                DirEntry { name: FileName::new(b"up").unwrap(), node: above.node, entry_type };
            fs.storage.put_direntry(below.node, 1, entry);
        } else {
            fs.storage.put_metadata(file.node, &Metadata { size: 1 << 60, ..file }).unwrap();
        }
        let mut files = Files::open_memory(Heap::new(), Time::default).unwrap();
        let told = import(&mut fs, &mut files);
        let errno = stable_fs::error::Error::IOError as u16;
        assert_eq!(told, Err(ImportError::Source { path: path.into(), errno }));
        assert_eq!(files.fs().store().check(), []);
    }
}
