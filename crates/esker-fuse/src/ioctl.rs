//! What lsattr(1) and chattr(1) ask: inode flags, in either of the kernel's two forms.

use esker::{Error, Flags, Result};

use crate::reply::Reply;
use crate::wire::flags::ioctl;
use crate::wire::{Fsxattr, IoctlOut};

/// Answers an ioctl with the inode's flags, or sets them. Any other ioctl is none (ENOTTY, which
/// the kernel makes of ENOSYS).
pub fn answer(
    command: u32,
    input: &[u8],
    get: impl FnOnce() -> Result<Flags>,
    set: impl FnOnce(Flags) -> Result<()>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let done = IoctlOut { result: 0, flags: 0, in_iovs: 0, out_iovs: 0 };
    match command {
        ioctl::GETFLAGS => {
            let flags = get()?;
            reply.put(&done.encode())?;
            reply.put(&flags.0.to_le_bytes())
        }
        ioctl::SETFLAGS => {
            let bytes = input.first_chunk().ok_or(Error::Invalid)?;
            set(Flags(u32::from_le_bytes(*bytes)))?;
            reply.put(&done.encode())
        }
        ioctl::FSGETXATTR => {
            let fsx_xflags = to_xflags(get()?);
            reply.put(&done.encode())?;
            reply.put(&Fsxattr { fsx_xflags, ..EMPTY }.encode())
        }
        ioctl::FSSETXATTR => {
            let given = Fsxattr::decode(input).ok_or(Error::Invalid)?;
            if (Fsxattr { fsx_xflags: 0, fsx_nextents: 0, ..given }) != EMPTY {
                return Err(Error::NotSupported);
            }
            set(from_xflags(given.fsx_xflags)?)?;
            reply.put(&done.encode())
        }
        _ => Err(Error::NoSuchCall),
    }
}

const EMPTY: Fsxattr = Fsxattr {
    fsx_xflags: 0,
    fsx_extsize: 0,
    fsx_nextents: 0,
    fsx_projid: 0,
    fsx_cowextsize: 0,
    fsx_pad: [0; 8],
};

const PAIRS: [(Flags, u32); 4] = [
    (Flags::IMMUTABLE, ioctl::XFLAG_IMMUTABLE),
    (Flags::APPEND, ioctl::XFLAG_APPEND),
    (Flags::NO_DUMP, ioctl::XFLAG_NODUMP),
    (Flags::NO_ATIME, ioctl::XFLAG_NOATIME),
];

fn to_xflags(flags: Flags) -> u32 {
    let bit = |(flag, bit): &(Flags, u32)| if flags.contains(*flag) { *bit } else { 0 };
    PAIRS.iter().map(bit).fold(0, |all, bit| all | bit)
}

fn from_xflags(xflags: u32) -> Result<Flags> {
    let (mut flags, mut rest) = (Flags(0), xflags);
    for (flag, bit) in PAIRS {
        if rest & bit != 0 {
            flags.0 |= flag.0;
            rest &= !bit;
        }
    }
    if rest == 0 { Ok(flags) } else { Err(Error::NotSupported) }
}
