//! One header block of a tar archive: 512 bytes, of any of the dialects that are in use.
//!
//! Above: `archive` puts headers, long names and pax records together. Invariant: a [`Header`] that
//! exists had the right checksum; every number is checked when it is taken.

use super::Refusal;

/// Headers and bodies come in blocks of so many bytes.
pub const BLOCK: usize = 512;

/// A header whose checksum is right.
pub struct Header(Box<[u8; BLOCK]>);

/// Offset and length of data in a sparse file.
pub type Pairs = Vec<(u64, u64)>;

/// The beginning of an old GNU map of holes.
pub struct Sparse {
    /// The first runs of data.
    pub runs: Pairs,
    /// Blocks with further runs follow.
    pub more: bool,
    /// Of the whole file, in bytes.
    pub size: u64,
}

/// Why the archive is refused, in words, about a field.
fn broken(field: &str) -> Refusal {
    Refusal::new(format!("its header has a broken {field}"))
}

impl Header {
    /// Checks the sum; `None` for a block of zeros, which marks the end.
    pub fn parse(block: &[u8; BLOCK]) -> Result<Option<Self>, Refusal> {
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let mut sum: u64 = 0;
        let mut signed: i64 = 0;
        for (at, &byte) in block.iter().enumerate() {
            let byte = if (148..156).contains(&at) { b' ' } else { byte };
            sum += u64::from(byte);
            signed += i64::from(byte.cast_signed());
        }
        let header = Self(Box::new(*block));
        let stored = number(&header.0[148..156]);
        // Some old programs added the bytes up as signed ones.
        if stored != Some(sum.into()) && stored != Some(signed.into()) {
            return Err(Refusal::new("this is no tar archive, or it is damaged (wrong checksum)"));
        }
        Ok(Some(header))
    }

    /// What the entry is, as the dialects write it.
    pub fn flag(&self) -> u8 {
        self.0[156]
    }

    /// Bytes that follow the header.
    pub fn size(&self) -> Result<u64, Refusal> {
        u64::try_from(self.number(124..136, "size")?).map_err(|_| broken("size"))
    }

    /// Permission bits.
    pub fn perm(&self) -> Result<u16, Refusal> {
        let mode = self.number(100..108, "mode")?;
        u16::try_from(mode & 0o7777).map_err(|_| broken("mode"))
    }

    /// Owner.
    pub fn uid(&self) -> Result<i128, Refusal> {
        self.number(108..116, "owner")
    }

    /// Group.
    pub fn gid(&self) -> Result<i128, Refusal> {
        self.number(116..124, "group")
    }

    /// Last change, in seconds.
    pub fn mtime(&self) -> Result<i64, Refusal> {
        i64::try_from(self.number(136..148, "time")?).map_err(|_| broken("time"))
    }

    /// Major and minor number of a device.
    pub fn device(&self) -> Result<(u32, u32), Refusal> {
        let part = |range, max: u32| {
            let number = self.number(range, "device number")?;
            let number = u32::try_from(number).ok().filter(|&number| number <= max);
            number.ok_or_else(|| broken("device number"))
        };
        Ok((part(329..337, 0xfff)?, part(337..345, 0xf_ffff)?))
    }

    /// The path, the prefix of the ustar dialect put before it.
    pub fn path(&self) -> Vec<u8> {
        let name = text(&self.0[..100]);
        // The star dialect has times behind a shorter prefix, and says so at the end.
        let prefix = if &self.0[508..512] == b"tar\0" { 345..476 } else { 345..500 };
        let prefix = text(&self.0[prefix]);
        if !self.is_ustar() || prefix.is_empty() {
            return name.to_vec();
        }
        [prefix, b"/", name].concat()
    }

    /// What a link leads to.
    pub fn link(&self) -> Vec<u8> {
        text(&self.0[157..257]).to_vec()
    }

    fn is_ustar(&self) -> bool {
        &self.0[257..263] == b"ustar\0"
    }

    /// What an old GNU header says about holes.
    pub fn sparse(&self) -> Result<Sparse, Refusal> {
        let runs = sparse_runs(&self.0[386..482])?;
        let size = u64::try_from(self.number(483..495, "size")?).map_err(|_| broken("size"))?;
        Ok(Sparse { runs, more: self.0[482] != 0, size })
    }

    fn number(&self, range: std::ops::Range<usize>, field: &str) -> Result<i128, Refusal> {
        number(&self.0[range]).ok_or_else(|| broken(field))
    }
}

/// The runs in a block that continues an old GNU sparse header, and whether yet another follows.
pub fn sparse_more(block: &[u8; BLOCK]) -> Result<(Pairs, bool), Refusal> {
    Ok((sparse_runs(&block[..504])?, block[504] != 0))
}

/// Pairs of 12-byte numbers, offset and length, up to the first empty one.
fn sparse_runs(bytes: &[u8]) -> Result<Pairs, Refusal> {
    let mut runs = Vec::new();
    for pair in bytes.chunks_exact(24) {
        if pair[0] == 0 && pair[12] == 0 {
            break;
        }
        let take = |field: &[u8]| {
            let number = number(field).and_then(|number| u64::try_from(number).ok());
            number.ok_or_else(|| broken("map of holes"))
        };
        runs.push((take(&pair[..12])?, take(&pair[12..])?));
    }
    Ok(runs)
}

/// Up to the first NUL.
fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or(field)
}

/// Octal digits with spaces before and a space or NUL behind; or, with the top bit of the first
/// byte set, a big-endian number in the two's complement. An empty field is 0.
fn number(field: &[u8]) -> Option<i128> {
    if field.first()? & 0x80 != 0 {
        let mut value: i128 = if field[0] & 0x40 != 0 { -1 } else { 0 };
        value = (value << 6) | i128::from(field[0] & 0x3f);
        for &byte in &field[1..] {
            value = value.checked_mul(256)? | i128::from(byte);
        }
        return Some(value);
    }
    let digits = text(field).trim_ascii();
    let mut value: i128 = 0;
    for &digit in digits {
        if !(b'0'..=b'7').contains(&digit) {
            return None;
        }
        value = value * 8 + i128::from(digit - b'0');
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_dialect() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"77777777777 "), Some(0o77_777_777_777));
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x01\0\0\0\0"), Some(1 << 32));
        assert_eq!(number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"), Some(-2));
        assert_eq!(number(b"64x\0"), None);
        assert_eq!(number(b"-1\0"), None);
        assert_eq!(number(b""), None);
    }

    #[test]
    fn a_wrong_sum_is_refused_and_zeros_are_the_end() {
        assert!(Header::parse(&[0; BLOCK]).unwrap().is_none());
        assert!(Header::parse(&[b'x'; BLOCK]).is_err());
        let mut block = [0; BLOCK];
        block[148..156].copy_from_slice(b"000400\0 ");
        assert!(Header::parse(&block).is_ok());
        block[0] = 1;
        assert!(Header::parse(&block).is_err());
    }
}
