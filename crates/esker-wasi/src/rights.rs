//! What a descriptor may be used for.
//!
//! Invariant: the bits are those of the WASI documents, and a descriptor never gains one.

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(pub u64);

impl Rights {
    /// None.
    pub const NONE: Self = Self(0);
    /// `fd_datasync`.
    pub const FD_DATASYNC: Self = Self(1);
    /// `fd_read`, and with `FD_SEEK` `fd_pread`.
    pub const FD_READ: Self = Self(1 << 1);
    /// `fd_seek`; has `FD_TELL` in it.
    pub const FD_SEEK: Self = Self(1 << 2);
    /// `fd_fdstat_set_flags`.
    pub const FD_FDSTAT_SET_FLAGS: Self = Self(1 << 3);
    /// `fd_sync`.
    pub const FD_SYNC: Self = Self(1 << 4);
    /// `fd_tell`, and `fd_seek` that moves nothing.
    pub const FD_TELL: Self = Self(1 << 5);
    /// `fd_write`, and with `FD_SEEK` `fd_pwrite`.
    pub const FD_WRITE: Self = Self(1 << 6);
    /// `fd_advise`.
    pub const FD_ADVISE: Self = Self(1 << 7);
    /// `fd_allocate`.
    pub const FD_ALLOCATE: Self = Self(1 << 8);
    /// `path_create_directory`.
    pub const PATH_CREATE_DIRECTORY: Self = Self(1 << 9);
    /// `path_open` that makes a file.
    pub const PATH_CREATE_FILE: Self = Self(1 << 10);
    /// `path_link` from here.
    pub const PATH_LINK_SOURCE: Self = Self(1 << 11);
    /// `path_link` to here.
    pub const PATH_LINK_TARGET: Self = Self(1 << 12);
    /// `path_open`.
    pub const PATH_OPEN: Self = Self(1 << 13);
    /// `fd_readdir`.
    pub const FD_READDIR: Self = Self(1 << 14);
    /// `path_readlink`.
    pub const PATH_READLINK: Self = Self(1 << 15);
    /// `path_rename` from here.
    pub const PATH_RENAME_SOURCE: Self = Self(1 << 16);
    /// `path_rename` to here.
    pub const PATH_RENAME_TARGET: Self = Self(1 << 17);
    /// `path_filestat_get`.
    pub const PATH_FILESTAT_GET: Self = Self(1 << 18);
    /// `path_open` that empties a file.
    pub const PATH_FILESTAT_SET_SIZE: Self = Self(1 << 19);
    /// `path_filestat_set_times`.
    pub const PATH_FILESTAT_SET_TIMES: Self = Self(1 << 20);
    /// `fd_filestat_get`.
    pub const FD_FILESTAT_GET: Self = Self(1 << 21);
    /// `fd_filestat_set_size`.
    pub const FD_FILESTAT_SET_SIZE: Self = Self(1 << 22);
    /// `fd_filestat_set_times`.
    pub const FD_FILESTAT_SET_TIMES: Self = Self(1 << 23);
    /// `path_symlink`.
    pub const PATH_SYMLINK: Self = Self(1 << 24);
    /// `path_remove_directory`.
    pub const PATH_REMOVE_DIRECTORY: Self = Self(1 << 25);
    /// `path_unlink_file`.
    pub const PATH_UNLINK_FILE: Self = Self(1 << 26);
    /// `poll_oneoff`.
    pub const POLL_FD_READWRITE: Self = Self(1 << 27);

    /// All that means something for a file.
    pub const FILE: Self = Self(
        0x1ff // From FD_DATASYNC to FD_ALLOCATE.
            | Self::FD_FILESTAT_GET.0
            | Self::FD_FILESTAT_SET_SIZE.0
            | Self::FD_FILESTAT_SET_TIMES.0
            | Self::POLL_FD_READWRITE.0,
    );
    /// All that means something for a directory.
    pub const DIRECTORY: Self = Self(
        0x1f_fe00 // From PATH_CREATE_DIRECTORY to PATH_FILESTAT_SET_TIMES.
            | Self::FD_DATASYNC.0
            | Self::FD_SYNC.0
            | Self::FD_FDSTAT_SET_FLAGS.0
            | Self::FD_FILESTAT_GET.0
            | Self::FD_FILESTAT_SET_TIMES.0
            | Self::PATH_SYMLINK.0
            | Self::PATH_REMOVE_DIRECTORY.0
            | Self::PATH_UNLINK_FILE.0,
    );
    /// All that means something for standard input, output and error.
    pub const STREAM: Self = Self(
        Self::FD_READ.0
            | Self::FD_WRITE.0
            | Self::FD_FDSTAT_SET_FLAGS.0
            | Self::FD_FILESTAT_GET.0
            | Self::POLL_FD_READWRITE.0,
    );
    /// All.
    pub const ALL: Self = Self(Self::FILE.0 | Self::DIRECTORY.0);

    /// All of `other` is in it.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in one of them.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in it and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}
