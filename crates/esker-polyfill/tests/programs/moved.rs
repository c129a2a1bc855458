//! A canister that kept its files with stable-fs, and comes from there; one of its files is in a memory of its own.

#[cfg(target_family = "wasm")]
mod canister {
    use std::cell::RefCell;
    use std::fs;

    use esker_polyfill::{MountedFileSizePolicy, mount_memory_file};
    use ic_stable_structures::DefaultMemoryImpl;
    use ic_stable_structures::memory_manager::{MemoryId, MemoryManager};
    use stable_fs::fs::{FdStat, FileSystem, OpenFlags, SrcBuf};
    use stable_fs::storage::stable::StableStorage;

    const OLD: std::ops::Range<u8> = 200..210;
    const NEW: MemoryId = MemoryId::new(30);
    const OWN: MemoryId = MemoryId::new(31);

    thread_local! {
        static MEMORIES: RefCell<MemoryManager<DefaultMemoryImpl>> =
            RefCell::new(MemoryManager::init(DefaultMemoryImpl::default()));
    }

    fn put(fs: &mut FileSystem, path: &str, bytes: &[u8]) {
        let fd = fs.open(fs.root_fd(), path, FdStat::default(), OpenFlags::CREATE, 0).unwrap();
        let source = SrcBuf { buf: bytes.as_ptr(), len: bytes.len() };
        assert_eq!(fs.write_vec(fd, &[source]).unwrap(), bytes.len() as u64);
        fs.close(fd).unwrap();
    }

    /// As it was before.
    #[unsafe(export_name = "canister_update old")]
    extern "C" fn old() {
        let storage = MEMORIES.with_borrow(|all| StableStorage::new_with_memory_manager(all, OLD));
        let mut fs = FileSystem::new(Box::new(storage)).unwrap();
        fs.mkdir(fs.root_fd(), "data", FdStat::default(), 0).unwrap();
        put(&mut fs, "data/letter", b"from the old files");
        put(&mut fs, "large", &[7; 100_000]);
    }

    /// The first time they are copied, afterwards they are there.
    #[unsafe(export_name = "canister_post_upgrade")]
    extern "C" fn post_upgrade() {
        MEMORIES.with_borrow(|all| {
            let copied = esker_polyfill::init_from_stable_fs(&[1; 32], &[], all, OLD, NEW);
            let copied = copied.unwrap();
            println!("{:?}", copied.map(|copied| (copied.directories, copied.files)));
            let policy = MountedFileSizePolicy::PreviousOrZero;
            assert_eq!(mount_memory_file("/data/own", Box::new(all.get(OWN)), policy), 0);
        });
    }

    #[unsafe(export_name = "canister_update append")]
    extern "C" fn append() {
        use std::io::Write as _;
        for path in ["/data/letter", "/data/own"] {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(b", and more").unwrap();
        }
        println!("{}", fs::read_to_string("/data/letter").unwrap());
        println!("{}", fs::read_to_string("/data/own").unwrap());
        println!("{}", fs::metadata("/data/own").unwrap().len());
        println!("{}", fs::read("/large").unwrap() == [7; 100_000]);
    }

    /// What is mounted, and what lies below it.
    #[unsafe(export_name = "canister_update below")]
    extern "C" fn below() {
        use esker_polyfill::{init_memory_file, store_memory_file, unmount_memory_file};
        let own = "/data/own";
        let above = fs::read_to_string(own).unwrap();
        // Neither goes nor is replaced, but may move.
        assert!(fs::remove_file(own).is_err() && fs::rename("/large", own).is_err());
        fs::rename(own, "/data/moved").unwrap();
        fs::rename("/data/moved", own).unwrap();
        assert_eq!(store_memory_file(own), 0);
        assert_eq!(unmount_memory_file(own), 0);
        assert_eq!(fs::read_to_string(own).unwrap(), above);
        assert_ne!(unmount_memory_file(own), 0);
        fs::write(own, "below").unwrap();
        let mount = || {
            let memory = MEMORIES.with_borrow(|all| all.get(OWN));
            mount_memory_file(own, Box::new(memory), MountedFileSizePolicy::PreviousOrMemoryPages)
        };
        assert_eq!(mount(), 0);
        assert_ne!(mount(), 0);
        assert_eq!(fs::read_to_string(own).unwrap(), above);
        assert_eq!(init_memory_file(own), 0);
        fs::OpenOptions::new().write(true).open(own).unwrap().set_len(3).unwrap();
        assert_eq!(fs::read_to_string(own).unwrap(), "bel");
        fs::OpenOptions::new().write(true).open(own).unwrap().set_len(5).unwrap();
        assert_eq!(fs::read(own).unwrap(), b"bel\0\0");
        assert_eq!(unmount_memory_file(own), 0);
        assert_eq!(fs::read_to_string(own).unwrap(), "below");
        assert_eq!(mount(), 0);
        println!("done");
    }

    /// Streams that lead to the program itself, and a directory under another name.
    #[unsafe(export_name = "canister_update streams")]
    extern "C" fn streams() {
        use esker_polyfill::{Stream, argument, preopen, set_input, set_output};
        thread_local! {
            static SEEN: RefCell<Vec<(Stream, String)>> = const { RefCell::new(Vec::new()) };
        }
        assert_eq!((preopen("/data", "/elsewhere"), preopen("/nowhere", "/x")), (0, 44));
        assert_eq!((argument("name"), argument("one"), argument("a\0b")), (0, 0, 28));
        assert_eq!(std::env::args().collect::<Vec<_>>(), ["name", "one"]);
        set_output(|stream, bytes| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            SEEN.with_borrow_mut(|seen| seen.push((stream, text)));
        });
        set_input(|target| {
            let len = target.len().min(4);
            target[..len].copy_from_slice(&b"line"[..len]);
            if SEEN.with_borrow(Vec::is_empty) { len } else { 0 }
        });
        let mut bytes = [0; 4];
        std::io::Read::read_exact(&mut std::io::stdin(), &mut bytes).unwrap();
        eprint!("{}", fs::read_to_string("/elsewhere/letter").unwrap().len());
        let seen = SEEN.take();
        assert_eq!((&bytes, &seen[..]), (b"line", &[(Stream::Error, "18".to_owned())][..]));
    }

    /// A memory that holds something else is refused.
    #[unsafe(export_name = "canister_update foreign")]
    extern "C" fn foreign() {
        let [zero, explicit, pages] = [
            MountedFileSizePolicy::PreviousOrZero,
            MountedFileSizePolicy::Explicit(u64::MAX),
            MountedFileSizePolicy::MemoryPages,
        ]
        .map(|policy| {
            let memory = MEMORIES.with_borrow(|all| all.get(MemoryId::new(OLD.start)));
            mount_memory_file("/foreign", Box::new(memory), policy)
        });
        assert!(zero != 0 && explicit != 0 && pages == 0);
        assert_eq!(mount_nowhere(), (54, 31));
        println!("{}", fs::metadata("/foreign").unwrap().len());
    }

    fn mount_nowhere() -> (i32, i32) {
        let mount = |path| {
            let memory = MEMORIES.with_borrow(|all| all.get(MemoryId::new(40)));
            mount_memory_file(path, Box::new(memory), MountedFileSizePolicy::PreviousOrZero)
        };
        (mount("/large/x"), mount("/data"))
    }
}
