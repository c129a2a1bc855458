//! Words: what is to be done in a target, one behind the other in a frame. Each is a number, then numbers of eight
//! bytes, then strings; how many of both the number says.
//!
//! Above: `send`, `apply`. Invariant: a word that was parsed names only what lies below the root of the target, and
//! nothing of what the receiver keeps there; its bytes end before the largest file does.

use esker::limits::{FILE_SIZE_MAX, SYMLINK_LEN_MAX, XATTR_VALUE_LEN_MAX};
use esker::{Flags, Kind, Name, Time, XattrName};

use super::apply::Meta;
use super::{OWN, PATH, PIECE, Step};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have their meanings in FORMAT.md")]
pub enum Word<'a> {
    /// Flags that forbid change go.
    Free { path: &'a [u8] },
    /// It is laid aside under a number.
    Take { ino: u64, path: &'a [u8] },
    /// A name goes.
    Remove { dir: bool, path: &'a [u8] },
    /// What was laid aside gets a name.
    Place { ino: u64, path: &'a [u8] },
    /// Something new.
    Make { kind: Kind, rdev: u32, path: &'a [u8] },
    /// A new symbolic link.
    Symlink { path: &'a [u8], target: &'a [u8] },
    /// A further name.
    Link { of: &'a [u8], path: &'a [u8] },
    /// How long a file is.
    Size { size: u64, path: &'a [u8] },
    /// Bytes of a file.
    Bytes { at: u64, path: &'a [u8], bytes: &'a [u8] },
    /// They become hole.
    Hole { at: u64, len: u64, path: &'a [u8] },
    /// All extended attributes go.
    Strip { path: &'a [u8] },
    /// An extended attribute.
    Xattr { path: &'a [u8], name: &'a [u8], value: &'a [u8] },
    /// Attributes.
    Attr { meta: Meta, path: &'a [u8] },
    /// Flags.
    Flag { flags: Flags, path: &'a [u8] },
    /// All is there.
    End,
}

/// How many numbers and strings come behind the number of a word.
const SHAPES: [(usize, usize); 15] = [
    (0, 1),
    (1, 1),
    (1, 1),
    (1, 1),
    (2, 1),
    (0, 2),
    (0, 2),
    (1, 1),
    (1, 2),
    (2, 1),
    (0, 1),
    (0, 3),
    (7, 1),
    (1, 1),
    (0, 0),
];

fn put(code: u8, numbers: &[u64], strings: &[&[u8]], to: &mut Vec<u8>) {
    to.push(code);
    numbers.iter().for_each(|number| to.extend(number.to_le_bytes()));
    for string in strings {
        to.extend((string.len() as u32).to_le_bytes());
        to.extend_from_slice(string);
    }
}

/// Whether a path names something below the root that is not the receiver's own.
fn is_path(path: &[u8]) -> bool {
    let mut names = path.split(|&byte| byte == b'/');
    path.len() <= PATH
        && names.next().is_some_and(|name| name != OWN && Name::parse(name).is_ok())
        && names.all(|name| Name::parse(name).is_ok())
}

impl<'a> Word<'a> {
    /// Its bytes, behind others.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match *self {
            Self::Free { path } => put(1, &[], &[path], to),
            Self::Take { ino, path } => put(2, &[ino], &[path], to),
            Self::Remove { dir, path } => put(3, &[dir.into()], &[path], to),
            Self::Place { ino, path } => put(4, &[ino], &[path], to),
            Self::Make { kind, rdev, path } => {
                put(5, &[kind.bits().into(), rdev.into()], &[path], to);
            }
            Self::Symlink { path, target } => put(6, &[], &[path, target], to),
            Self::Link { of, path } => put(7, &[], &[of, path], to),
            Self::Size { size, path } => put(8, &[size], &[path], to),
            Self::Bytes { at, path, bytes } => put(9, &[at], &[path, bytes], to),
            Self::Hole { at, len, path } => put(10, &[at, len], &[path], to),
            Self::Strip { path } => put(11, &[], &[path], to),
            Self::Xattr { path, name, value } => put(12, &[], &[path, name, value], to),
            Self::Attr { meta, path } => put(13, &meta.numbers(), &[path], to),
            Self::Flag { flags, path } => put(14, &[flags.0.into()], &[path], to),
            Self::End => put(15, &[], &[], to),
        }
    }

    /// The next word, which goes from the bytes; `None` if there is none that makes sense.
    pub fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let (&code, mut rest) = bytes.split_first()?;
        let (count, texts) = *SHAPES.get(usize::from(code.checked_sub(1)?))?;
        let (mut n, mut s) = ([0; 7], [&[][..]; 3]);
        for number in n.iter_mut().take(count) {
            let (first, behind) = rest.split_first_chunk()?;
            (*number, rest) = (u64::from_le_bytes(*first), behind);
        }
        for string in s.iter_mut().take(texts) {
            let (len, behind) = rest.split_first_chunk()?;
            (*string, rest) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        }
        let word = Self::of(code, n, s)?;
        *bytes = rest;
        word.is_sound().then_some(word)
    }

    fn of(code: u8, n: [u64; 7], s: [&'a [u8]; 3]) -> Option<Self> {
        let small = |number: u64| u32::try_from(number).ok();
        let path = s[0];
        Some(match code {
            1 => Self::Free { path },
            2 => Self::Take { ino: n[0], path },
            3 if n[0] < 2 => Self::Remove { dir: n[0] == 1, path },
            4 => Self::Place { ino: n[0], path },
            5 => {
                let kind =
                    Kind::from_mode(small(n[0])?).filter(|kind| kind.bits() == n[0] as u32)?;
                Self::Make { kind, rdev: small(n[1])?, path }
            }
            6 => Self::Symlink { path, target: s[1] },
            7 => Self::Link { of: path, path: s[1] },
            8 => Self::Size { size: n[0], path },
            9 => Self::Bytes { at: n[0], path, bytes: s[1] },
            10 => Self::Hole { at: n[0], len: n[1], path },
            11 => Self::Strip { path },
            12 => Self::Xattr { path, name: s[1], value: s[2] },
            13 => Self::Attr { meta: Meta::of(n)?, path },
            14 => Self::Flag { flags: Flags(small(n[0])?), path },
            15 => Self::End,
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        let ends = |at: u64, len: u64| at.checked_add(len).is_some_and(|end| end <= FILE_SIZE_MAX);
        let root = self.path().is_empty() && self.is_for_root();
        let path = root || is_path(self.path()) || *self == Self::End;
        path && match *self {
            Self::Make { kind, .. } => kind != Kind::Symlink,
            Self::Symlink { target, .. } => {
                (1..=SYMLINK_LEN_MAX).contains(&target.len()) && !target.contains(&0)
            }
            Self::Link { of, .. } => is_path(of),
            Self::Size { size, .. } => size <= FILE_SIZE_MAX,
            Self::Bytes { at, bytes, .. } => {
                (1..=PIECE).contains(&bytes.len()) && ends(at, bytes.len() as u64)
            }
            Self::Hole { at, len, .. } => len > 0 && ends(at, len),
            Self::Xattr { name, value, .. } => {
                XattrName::parse(name).is_ok() && value.len() <= XATTR_VALUE_LEN_MAX
            }
            Self::Flag { flags, .. } => Flags::KNOWN.contains(flags),
            _ => true,
        }
    }

    /// What it is about; nothing: the root.
    #[must_use]
    pub const fn path(&self) -> &'a [u8] {
        match *self {
            Self::Free { path }
            | Self::Take { path, .. }
            | Self::Remove { path, .. }
            | Self::Place { path, .. }
            | Self::Make { path, .. }
            | Self::Symlink { path, .. }
            | Self::Link { path, .. }
            | Self::Size { path, .. }
            | Self::Bytes { path, .. }
            | Self::Hole { path, .. }
            | Self::Strip { path }
            | Self::Xattr { path, .. }
            | Self::Attr { path, .. }
            | Self::Flag { path, .. } => path,
            Self::End => &[],
        }
    }

    const fn is_for_root(&self) -> bool {
        matches!(
            self,
            Self::Free { .. }
                | Self::Strip { .. }
                | Self::Xattr { .. }
                | Self::Attr { .. }
                | Self::Flag { .. }
        )
    }

    /// Whether it may come in a frame of this step.
    #[must_use]
    pub const fn is_of(&self, step: Step) -> bool {
        match self {
            Self::Free { .. } | Self::Take { .. } | Self::Remove { .. } => {
                matches!(step, Step::Clear)
            }
            Self::Place { .. } | Self::Make { .. } | Self::Symlink { .. } | Self::Link { .. } => {
                matches!(step, Step::Place)
            }
            Self::Size { .. } | Self::Bytes { .. } | Self::Hole { .. } => {
                matches!(step, Step::Fill)
            }
            Self::Strip { .. } | Self::Xattr { .. } | Self::Attr { .. } => {
                matches!(step, Step::Fill | Step::Finish)
            }
            Self::Flag { .. } => matches!(step, Step::Flag),
            Self::End => matches!(step, Step::End),
        }
    }
}

impl Meta {
    fn numbers(&self) -> [u64; 7] {
        let Self { perm, uid, gid, atime, mtime } = *self;
        let secs = |time: Time| time.secs.cast_unsigned();
        let owner = [perm.into(), uid.into(), gid.into()];
        let times = [secs(atime), atime.nanos.into(), secs(mtime), mtime.nanos.into()];
        [owner[0], owner[1], owner[2], times[0], times[1], times[2], times[3]]
    }

    fn of(n: [u64; 7]) -> Option<Self> {
        let small = |number: u64| u32::try_from(number).ok();
        let time = |secs: u64, nanos: u64| {
            let nanos = small(nanos).filter(|&nanos| nanos < 1_000_000_000)?;
            Some(Time { secs: secs.cast_signed(), nanos })
        };
        let perm = u16::try_from(n[0]).ok().filter(|perm| perm & !0o7777 == 0)?;
        let (atime, mtime) = (time(n[3], n[4])?, time(n[5], n[6])?);
        // The last number of all means nobody: who is told it leaves the owner that there is.
        let owner = |number: u64| small(number).filter(|&id| id != u32::MAX);
        Some(Self { perm, uid: owner(n[1])?, gid: owner(n[2])?, atime, mtime })
    }
}
