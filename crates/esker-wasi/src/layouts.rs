//! What passes between a program and us, byte by byte, as the WASI documents have it; little-endian.

esker::layout! {
    /// A piece of memory to be read or written.
    pub struct Iovec: 8 {
        0 => at: u32,
        4 => len: u32,
    }
}

esker::layout! {
    /// What is known of a descriptor.
    pub struct Fdstat: 24 {
        0 => filetype: u8,
        1 => hole: u8,
        2 => flags: u16,
        4 => gap: u32,
        8 => base: u64,
        16 => inheriting: u64,
    }
}

esker::layout! {
    /// What is known of a file; times in nanoseconds from 1970.
    pub struct Filestat: 64 {
        0 => dev: u64,
        8 => ino: u64,
        16 => filetype: u8,
        17 => gap: [u8; 7],
        24 => nlink: u64,
        32 => size: u64,
        40 => atim: u64,
        48 => mtim: u64,
        56 => ctim: u64,
    }
}

esker::layout! {
    /// An entry of a listing; its name follows.
    pub struct Dirent: 24 {
        0 => next: u64,
        8 => ino: u64,
        16 => name_len: u32,
        20 => filetype: u8,
        21 => gap: [u8; 3],
    }
}

esker::layout! {
    /// A directory that a program was given.
    pub struct Prestat: 8 {
        0 => tag: u8,
        1 => gap: [u8; 3],
        4 => name_len: u32,
    }
}

esker::layout! {
    /// What `poll_oneoff` shall wait for. Behind `tag` comes a clock, or a descriptor in the place of `clock`.
    pub struct Subscription: 48 {
        0 => userdata: u64,
        8 => tag: u8,
        9 => hole: [u8; 7],
        16 => clock: u32,
        20 => gap: u32,
        24 => timeout: u64,
        32 => precision: u64,
        40 => flags: u16,
        42 => rest: [u8; 6],
    }
}

esker::layout! {
    /// What it has found.
    pub struct Event: 32 {
        0 => userdata: u64,
        8 => error: u16,
        10 => kind: u8,
        11 => gap: [u8; 5],
        16 => bytes: u64,
        24 => flags: u16,
        26 => rest: [u8; 6],
    }
}

/// `filetype`: what a descriptor or a name leads to.
pub mod filetype {
    use esker::Kind;

    /// Not known, or none of these.
    pub const UNKNOWN: u8 = 0;
    /// A terminal.
    pub const CHARACTER_DEVICE: u8 = 2;

    /// The file type of an inode.
    pub const fn of(kind: Kind) -> u8 {
        match kind {
            Kind::BlockDevice => 1,
            Kind::CharDevice => CHARACTER_DEVICE,
            Kind::Directory => 3,
            Kind::File => 4,
            Kind::Socket => 6,
            Kind::Symlink => 7,
            Kind::Fifo => UNKNOWN,
        }
    }
}
