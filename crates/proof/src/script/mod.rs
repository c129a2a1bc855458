//! Scripts: operations as data, so that they can be generated, shrunk, written down and run anywhere.
//!
//! Above: [`crate::world`] runs them, [`crate::harness`] makes them. [`words`] is their text, [`generate`] their
//! chance. Invariant: a script that was written down and read back is the same script.

pub mod generate;
pub mod words;

use std::fmt;
use std::str::FromStr;

use esker::Kind;
use words::{Octal, Path, Value, When, Word, choice, flags};

flags! {
    /// How to open: the flags of open(2) that matter to a file system.
    How {
        /// O_RDONLY or half of O_RDWR.
        read,
        /// O_WRONLY or half of O_RDWR.
        write,
        /// O_APPEND.
        append,
        /// O_CREAT.
        create,
        /// O_EXCL.
        excl,
        /// O_TRUNC.
        trunc,
        /// O_DIRECTORY.
        directory,
        /// O_NOFOLLOW.
        nofollow,
    }
}

flags! {
    /// The flags of renameat2(2).
    RenameHow {
        /// RENAME_NOREPLACE.
        noreplace,
        /// RENAME_EXCHANGE.
        exchange,
        /// RENAME_WHITEOUT.
        whiteout,
    }
}

choice! {
    /// The modes of fallocate(2).
    Space {
        /// 0.
        Reserve = "reserve",
        /// FALLOC_FL_KEEP_SIZE.
        Keep = "keep",
        /// FALLOC_FL_PUNCH_HOLE.
        Punch = "punch",
        /// FALLOC_FL_ZERO_RANGE.
        Zero = "zero",
        /// FALLOC_FL_ZERO_RANGE with FALLOC_FL_KEEP_SIZE.
        ZeroKeep = "zerokeep",
    }
}

choice! {
    /// The flags of setxattr(2).
    XattrHow {
        /// 0.
        Any = "any",
        /// XATTR_CREATE.
        Create = "create",
        /// XATTR_REPLACE.
        Replace = "replace",
    }
}

choice! {
    /// Who does it. See [`User::ids`].
    User {
        /// The superuser.
        Root = "root",
        /// Somebody who owns things.
        Ann = "ann",
        /// Somebody in Ann's group.
        Bob = "bob",
        /// nobody.
        Nobody = "nobody",
    }
}

impl User {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Root, Self::Ann, Self::Bob, Self::Nobody];

    /// User, group and further groups.
    #[must_use]
    pub const fn ids(self) -> (u32, u32, &'static [u32]) {
        match self {
            Self::Root => (0, 0, &[]),
            Self::Ann => (1001, 1001, &[2001]),
            Self::Bob => (1002, 1002, &[1001]),
            Self::Nobody => (65534, 65534, &[]),
        }
    }
}

macro_rules! ops {
    ($(
        $(#[$meta:meta])*
        $variant:ident = $verb:literal { $($field:ident: $type:ty),* $(,)? }
    ),+ $(,)?) => {
        /// One operation. Slots are handles: open fills one, close empties it, an empty one answers EBADF.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the fields are the arguments of the system call")]
        pub enum Op { $($(#[$meta])* $variant { $($field: $type),* }),+ }

        impl Op {
            /// The verbs of all operations.
            pub const VERBS: &'static [&'static str] = &[$($verb),+];

            /// The verb of this one.
            #[must_use]
            pub const fn verb(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $verb,)+
                }
            }

            fn words(&self) -> Vec<String> {
                match self {
                    $(Self::$variant { $($field),* } => vec![$verb.into(), $($field.word()),*],)+
                }
            }

            fn parse(words: &[&str]) -> Result<Self, String> {
                let (verb, rest) = words.split_first().ok_or("an operation expected")?;
                let mut rest = rest.iter();
                let op = match *verb {
                    $($verb => {
                        Self::$variant { $($field: take(&mut rest, stringify!($field))?),* }
                    })+
                    _ => return Err(format!("no operation {verb}")),
                };
                match rest.next() {
                    None => Ok(op),
                    Some(word) => Err(format!("{word} is one word too many")),
                }
            }
        }
    };
}

fn take<'a, W: Word>(
    rest: &mut impl Iterator<Item = &'a &'a str>,
    field: &str,
) -> Result<W, String> {
    let word = rest.next().ok_or_else(|| format!("{field} is missing"))?;
    W::parse(word).map_err(|error| format!("{field}: {error}"))
}

ops! {
    /// mkdir(2)
    Mkdir = "mkdir" { path: Path, mode: Octal },
    /// mknod(2)
    Mknod = "mknod" { path: Path, kind: Kind, mode: Octal, rdev: u32 },
    /// symlink(2)
    Symlink = "symlink" { target: Path, path: Path },
    /// linkat(2)
    Link = "link" { from: Path, to: Path, follow: bool },
    /// unlink(2)
    Unlink = "unlink" { path: Path },
    /// rmdir(2)
    Rmdir = "rmdir" { path: Path },
    /// renameat2(2)
    Rename = "rename" { from: Path, to: Path, how: RenameHow },
    /// open(2) into a slot, closing what was there
    Open = "open" { slot: u8, path: Path, how: How, mode: Octal },
    /// open(2) with O_TMPFILE
    Tmpfile = "tmpfile" { slot: u8, dir: Path, how: How, mode: Octal },
    /// linkat(2) with AT_EMPTY_PATH
    LinkSlot = "linkslot" { slot: u8, to: Path },
    /// close(2)
    Close = "close" { slot: u8 },
    /// pread(2)
    Read = "read" { slot: u8, at: u64, len: u64 },
    /// pwrite(2) of bytes grown from a seed
    Write = "write" { slot: u8, at: u64, len: u64, seed: u64 },
    /// ftruncate(2)
    Ftruncate = "ftruncate" { slot: u8, len: u64 },
    /// fallocate(2)
    Fallocate = "fallocate" { slot: u8, how: Space, at: u64, len: u64 },
    /// copy_file_range(2)
    Copy = "copy" { source: u8, from: u64, slot: u8, at: u64, len: u64 },
    /// lseek(2) with SEEK_DATA and SEEK_HOLE, checked against the bytes themselves
    Seek = "seek" { slot: u8, at: u64 },
    /// fstat(2)
    Fstat = "fstat" { slot: u8 },
    /// fsync(2)
    Fsync = "fsync" { slot: u8 },
    /// fchmod(2)
    Fchmod = "fchmod" { slot: u8, mode: Octal },
    /// fchown(2)
    Fchown = "fchown" { slot: u8, uid: u32, gid: u32 },
    /// futimens(2)
    Futimes = "futimes" { slot: u8, atime: When, mtime: When },
    /// truncate(2)
    Truncate = "truncate" { path: Path, len: u64 },
    /// chmod(2)
    Chmod = "chmod" { path: Path, mode: Octal },
    /// fchownat(2); 4294967295 leaves one as it is
    Chown = "chown" { path: Path, uid: u32, gid: u32, follow: bool },
    /// utimensat(2)
    Utimes = "utimes" { path: Path, atime: When, mtime: When, follow: bool },
    /// FS_IOC_SETFLAGS
    Chattr = "chattr" { path: Path, flags: u32 },
    /// setxattr(2) and lsetxattr(2)
    Setxattr = "setxattr" { path: Path, name: Path, value: Value, how: XattrHow, follow: bool },
    /// getxattr(2) and lgetxattr(2)
    Getxattr = "getxattr" { path: Path, name: Path, follow: bool },
    /// removexattr(2) and lremovexattr(2)
    Removexattr = "removexattr" { path: Path, name: Path, follow: bool },
    /// listxattr(2) and llistxattr(2)
    Listxattr = "listxattr" { path: Path, follow: bool },
    /// opendir(3), readdir(3) to the end
    List = "list" { path: Path },
    /// some more entries of a directory that is open in a slot
    Next = "next" { slot: u8, count: u64 },
    /// fstatat(2)
    Stat = "stat" { path: Path, follow: bool },
    /// readlink(2)
    Readlink = "readlink" { path: Path },
    /// faccessat2(2) with AT_EACCESS
    Access = "access" { path: Path, mask: u32 },
    /// umask(2)
    Umask = "umask" { mask: Octal },
}

/// One operation and who does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who.
    pub user: User,
    /// What.
    pub op: Op,
}

/// Steps in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(pub Vec<Step>);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.user != User::Root {
            write!(f, "@{} ", self.user.word())?;
        }
        f.write_str(&self.op.words().join(" "))
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<_> = line.split_whitespace().collect();
        let (user, words) = match words.split_first() {
            Some((first, rest)) if first.starts_with('@') => (User::parse(&first[1..])?, rest),
            _ => (User::Root, &words[..]),
        };
        Ok(Self { user, op: Op::parse(words)? })
    }
}

/// One step a line; what stands behind `#` is for people.
impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let step = line.parse().map_err(|error| format!("line {}: {error}", index + 1))?;
                steps.push(step);
            }
        }
        Ok(Self(steps))
    }
}

/// `len` bytes that depend on the seed and on where they stand; never zero, so that holes show.
#[must_use]
pub fn fill(seed: u64, at: u64, len: usize) -> Vec<u8> {
    let byte = |place: u64| {
        let mixed = (place ^ seed.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 56) as u8).max(1)
    };
    (0..len as u64).map(|index| byte(at.wrapping_add(index))).collect()
}
