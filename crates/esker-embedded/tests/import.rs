//! A canister that kept its files with the crate stable-fs finds them here.

use std::ops::ControlFlow;

use esker::{Error, Kind, Time};
use esker_embedded::{Fd, Files, ImportError, Open, Stable, import};
use ic_stable_structures::VectorMemory;
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager};
use stable_fs::fs::{ChunkSize, ChunkType, FdStat, FileSystem, OpenFlags, SrcBuf, Whence};
use stable_fs::storage::Storage;
use stable_fs::storage::stable::StableStorage;
use stable_fs::storage::types::MountedFileSizePolicy;

type Manager = MemoryManager<VectorMemory>;

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
        let deep = files.stat_path(Fd::ROOT, b"a/b/deep", false).unwrap();
        assert_eq!((deep.nlink, deep.mtime), (2, Time { secs: 5, nanos: 6 }));
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
