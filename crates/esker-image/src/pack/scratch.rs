//! Where bytes wait that are wanted again before the image is done.
//!
//! Above: `spool`, `shelf`. Below: a file without a name, or memory. Invariant: what is read is what was put there, or
//! an error.

use std::fs::File;
use std::io;

use esker_stone::check::checksum;
use esker_stone::{Damage, Error, ReadAt};

/// Bytes of which one checksum is kept in memory. They are written together.
pub(super) const SECTOR_LEN: usize = 4 * 1024;

/// Somewhere to put bytes and read them again; nobody wants them when the image is done.
pub trait Scratch: ReadAt {
    /// Puts bytes somewhere, which may be behind all others.
    ///
    /// # Errors
    /// What the device says.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Bytes of memory that it takes.
    fn memory(&self) -> u64;
}

impl Scratch for Vec<u8> {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(at).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let end = at + bytes.len();
        self.resize(self.len().max(end), 0);
        self[at..end].copy_from_slice(bytes);
        Ok(())
    }

    fn memory(&self) -> u64 {
        self.capacity() as u64
    }
}

#[cfg(unix)]
impl Scratch for File {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, at)
    }

    fn memory(&self) -> u64 {
        0
    }
}

/// Who gives such places.
pub type Scratches<'a> = &'a dyn Fn() -> io::Result<Box<dyn Scratch>>;

/// Such a place, and the checksums of what is there.
pub(super) struct Checked {
    scratch: Box<dyn Scratch>,
    /// Of each sector.
    sums: Vec<u64>,
}

impl Checked {
    pub fn new(scratch: Box<dyn Scratch>) -> Self {
        Self { scratch, sums: Vec::new() }
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> u64 {
        self.scratch.memory() + self.sums.capacity() as u64 * 8
    }

    /// Puts whole sectors somewhere, which may be behind all others.
    pub fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(
            at.is_multiple_of(SECTOR_LEN as u64) && bytes.len().is_multiple_of(SECTOR_LEN)
        );
        self.scratch.write_at(at, bytes)?;
        // Who was never written has 0, which hardly any sector has.
        let first = (at / SECTOR_LEN as u64) as usize;
        let end = first + bytes.len() / SECTOR_LEN;
        self.sums.resize(self.sums.len().max(end), 0);
        let sums = self.sums[first..end].iter_mut();
        sums.zip(bytes.chunks(SECTOR_LEN)).for_each(|(sum, own)| *sum = checksum(own));
        Ok(())
    }

    /// Fills `target` from `at` on.
    pub fn read_at(&self, mut at: u64, mut target: &mut [u8]) -> esker_stone::Result<()> {
        while !target.is_empty() {
            let (number, inside) = (at / SECTOR_LEN as u64, (at % SECTOR_LEN as u64) as usize);
            let whole = target.len() / SECTOR_LEN * SECTOR_LEN;
            let now = if inside == 0 && whole > 0 {
                self.sectors(number, &mut target[..whole])?;
                whole
            } else {
                let mut sector = [0; SECTOR_LEN];
                self.sectors(number, &mut sector)?;
                let now = target.len().min(SECTOR_LEN - inside);
                target[..now].copy_from_slice(&sector[inside..inside + now]);
                now
            };
            at += now as u64;
            target = &mut target[now..];
        }
        Ok(())
    }

    /// Whole sectors from number `first` on.
    fn sectors(&self, first: u64, target: &mut [u8]) -> esker_stone::Result<()> {
        // A file that became shorter is no other damage.
        self.scratch.read_at(first * SECTOR_LEN as u64, target).map_err(|error| match error {
            Error::Damaged(_) => Damage::Checksum.into(),
            error => error,
        })?;
        let sums = self.sums.get(first as usize..).unwrap_or_default();
        let mut each = target.chunks(SECTOR_LEN).enumerate();
        let right = each.all(|(number, own)| sums.get(number) == Some(&checksum(own)));
        if right { Ok(()) } else { Err(Damage::Checksum.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_put_there_or_an_error() {
        let bytes: Vec<u8> = (0..9 * SECTOR_LEN).map(|at| ((at * at) >> 9) as u8).collect();
        let mut scratch = Checked::new(Box::new(Vec::new()));
        scratch.write_at(0, &bytes).unwrap();
        scratch.write_at(2 * SECTOR_LEN as u64, &bytes[..SECTOR_LEN]).unwrap();
        let right = [&bytes[..2 * SECTOR_LEN], &bytes[..SECTOR_LEN], &bytes[3 * SECTOR_LEN..]];
        let right = right.concat();
        let whole = right.len();
        for (at, len) in [(0, whole), (1, whole - 2), (SECTOR_LEN - 1, 2), (SECTOR_LEN, 1), (5, 0)]
        {
            let mut found = vec![0; len];
            scratch.read_at(at as u64, &mut found).unwrap();
            assert!(found == right[at..at + len], "{len} from {at}");
        }
        let mut behind = [0; 2];
        assert!(scratch.read_at(whole as u64 - 1, &mut behind).is_err());
        // Another one, whose bytes are not those that were put there.
        let mut other = right.clone();
        other[3 * SECTOR_LEN + 7] ^= 1;
        scratch.scratch = Box::new(other);
        let wrong = Err(Damage::Checksum.into());
        for (at, len) in [(0, whole), (3 * SECTOR_LEN, 1), (3 * SECTOR_LEN - 1, 2)] {
            assert_eq!(scratch.read_at(at as u64, &mut vec![0; len]), wrong, "{len} from {at}");
        }
        scratch.read_at(0, &mut vec![0; 3 * SECTOR_LEN]).unwrap();
        scratch.write_at(3 * SECTOR_LEN as u64, &bytes[..SECTOR_LEN]).unwrap();
        scratch.read_at(0, &mut vec![0; whole]).unwrap();
    }
}
