//! What a mail server does: messages come, are made safe, read, marked and removed, one file each.
//!
//! Above: `work`. Below: `data`. Invariant: what is written is the same on every file system, whatever it does with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::super::stop;
use super::data::{BLOCK, Data, next};

/// Messages that are there at any time.
const MESSAGES: u64 = 1000;
/// Blocks of a message, and of what is appended to one, are at most so many: four on average.
const BLOCKS_MAX: u64 = 7;
/// Syncs of each round: of what came, and of what was marked.
pub const SYNCS_A_ROUND: u64 = 2;

/// How many blocks the piece of this number has.
const fn blocks(number: u64) -> u64 {
    let mut state = number;
    1 + next(&mut state) % BLOCKS_MAX
}

/// Bytes that so many rounds write.
pub fn written(rounds: u64) -> u64 {
    let pieces = MESSAGES..MESSAGES + 2 * rounds;
    pieces.map(blocks).sum::<u64>() * BLOCK as u64
}

/// A directory of messages.
pub struct Mail<'a> {
    dir: &'a Path,
    data: Data,
    /// The message in each place, by its number.
    there: Vec<u64>,
    chance: u64,
}

impl<'a> Mail<'a> {
    /// Below this one, as [`Mail::begin`] leaves it.
    pub fn new(dir: &'a Path, data: Data) -> Self {
        Self { dir, data, there: (0..MESSAGES).collect(), chance: MESSAGES }
    }

    /// Makes the first messages.
    pub fn begin(&self) -> io::Result<()> {
        (0..MESSAGES).try_for_each(|number| self.add(number, number).map(drop))
    }

    /// So many times: one goes, another comes and is made safe, one is read and added to and that made safe, one is
    /// read.
    pub fn serve(&mut self, rounds: u64) -> io::Result<()> {
        for round in 0..rounds {
            stop::check()?;
            let (came, more) = (MESSAGES + 2 * round, MESSAGES + 2 * round + 1);
            let place = self.place();
            fs::remove_file(self.path(self.there[place]))?;
            self.there[place] = came;
            self.add(came, came)?.sync_all()?;
            let marked = self.read()?;
            self.add(marked, more)?.sync_all()?;
            self.read()?;
        }
        Ok(())
    }

    fn place(&mut self) -> usize {
        (next(&mut self.chance) % MESSAGES) as usize
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("message{number}"))
    }

    /// Appends a piece to a message, or makes it.
    fn add(&self, message: u64, piece: u64) -> io::Result<File> {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path(message))?;
        let mut bytes = vec![0; blocks(piece) as usize * BLOCK];
        for (chunk, number) in bytes.as_chunks_mut().0.iter_mut().zip(piece * BLOCKS_MAX..) {
            self.data.block(number, chunk);
        }
        file.write_all(&bytes)?;
        Ok(file)
    }

    /// Reads any message; which.
    fn read(&mut self) -> io::Result<u64> {
        let place = self.place();
        let message = self.there[place];
        let mut bytes = Vec::new();
        File::open(self.path(message))?.read_to_end(&mut bytes)?;
        let mut known = [0; BLOCK];
        self.data.block(message * BLOCKS_MAX, &mut known);
        match bytes.starts_with(&known) {
            true => Ok(message),
            false => Err(io::Error::other("a message holds other bytes than were written")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_and_go() {
        let dir = std::env::temp_dir().join(format!("esker-mail-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let bytes = || -> u64 {
            let all = fs::read_dir(&dir).unwrap();
            all.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
        };
        Mail::new(&dir, Data::Half).begin().unwrap();
        let before = bytes();
        assert_eq!(before, (0..MESSAGES).map(blocks).sum::<u64>() * BLOCK as u64);
        let mut mail = Mail::new(&dir, Data::Half);
        mail.serve(20).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count() as u64, MESSAGES);
        assert!((before..before + written(20)).contains(&bytes()), "none went");
        assert_eq!(written(0), 0);
        assert!(mail.there.iter().filter(|&&number| number >= MESSAGES).count() > 10);
        let marked = mail.path(mail.there[0]);
        fs::write(marked, b"another").unwrap();
        let found = (0..100 * MESSAGES).find_map(|_| mail.read().err());
        assert!(found.unwrap().to_string().contains("other bytes"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
