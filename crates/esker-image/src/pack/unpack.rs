//! Files that hold streams of deflate: where these begin, and whether their text is worth more than they are.
//!
//! Above: `data`. Below: `esker-stone`'s `deflate`. Invariant: whatever a head says, it decides only what is tried.

use core::ops::Range;

use esker_stone::deflate::{Run, Stream};

use super::category::TRIAL;

/// Most bytes of a file that is looked into.
pub(super) const FILE_MAX: usize = 16 << 20;
/// Most bytes of text of all streams of a file.
const TEXT_MAX: usize = 48 << 20;
/// Most bytes of text of a stream for each byte of the file.
const TEXT_RATIO_MAX: usize = 64;
/// Streams that are shorter are not worth a look.
const STREAM_MIN: usize = 64;
/// How far behind a stream the next head may begin.
const GAP_MAX: usize = 64;
/// Bytes of text that are tried.
const SAMPLE_LEN: usize = 64 << 10;

/// The head of a member of a gzip file.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
/// Its flags: something is behind the ten bytes that it has at least.
const GZIP_EXTRA: u8 = 4;
const GZIP_NAME: u8 = 8;
const GZIP_COMMENT: u8 = 16;
const GZIP_CHECK: u8 = 2;
const GZIP_LEN: usize = 10;
/// The head of a file in a zip file, and its length without the name.
const ZIP: [u8; 4] = *b"PK\x03\x04";
const ZIP_LEN: usize = 30;

/// Whether a file that begins like this may hold streams.
pub(super) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&GZIP) || bytes.starts_with(&ZIP)
}

fn short(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?).into())
}

/// Where the stream begins behind the head that `bytes` begins with.
fn behind_head(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(&ZIP) {
        let deflated = short(bytes, 8)? == 8;
        let own = ZIP_LEN + short(bytes, 26)? + short(bytes, 28)?;
        return deflated.then_some(own);
    }
    let flags = *bytes.strip_prefix(&GZIP)?.first()?;
    let mut at = GZIP_LEN;
    if flags & GZIP_EXTRA != 0 {
        at += 2 + short(bytes, at)?;
    }
    for flag in [GZIP_NAME, GZIP_COMMENT] {
        if flags & flag != 0 {
            at += bytes.get(at..)?.iter().position(|&byte| byte == 0)? + 1;
        }
    }
    Some(at + if flags & GZIP_CHECK != 0 { 2 } else { 0 })
}

/// How long a file in a zip file is that is stored as it is, if that is what `bytes` begins with.
fn stored_len(bytes: &[u8]) -> Option<usize> {
    let stored = bytes.starts_with(&ZIP) && short(bytes, 8)? == 0;
    let len = u32::from_le_bytes(*bytes.get(18..)?.first_chunk()?) as usize;
    let own = ZIP_LEN + short(bytes, 26)? + short(bytes, 28)?;
    stored.then(|| own.saturating_add(len))
}

/// Where the stream begins behind the next head from `from` on.
fn next_head(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let until = bytes.len().min(from.saturating_add(GAP_MAX));
        let at = (from..until).find(|&at| begins(&bytes[at..]))?;
        let here = &bytes[at..];
        match (behind_head(here), stored_len(here)) {
            (Some(head), _) => return Some(at + head),
            (None, Some(len)) => from = at.saturating_add(len),
            (None, None) => from = at + 1,
        }
    }
}

/// A stream that is worth being unpacked.
pub(super) struct Unpacked {
    /// The bytes of the file that it takes.
    pub bytes: Range<usize>,
    pub text: Vec<u8>,
    pub runs: Vec<Run>,
}

/// Tells of all streams of a file that are worth being unpacked, one after the other, each only when the one before was
/// taken.
pub(super) struct Streams<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes of text that may still come.
    room: usize,
    threads: usize,
}

impl<'a> Streams<'a> {
    pub const fn of(bytes: &'a [u8], threads: usize) -> Self {
        let room = bytes.len().saturating_mul(TEXT_RATIO_MAX);
        Self { bytes, at: 0, room: if room < TEXT_MAX { room } else { TEXT_MAX }, threads }
    }
}

impl Iterator for Streams<'_> {
    type Item = Unpacked;

    fn next(&mut self) -> Option<Unpacked> {
        loop {
            let start = next_head(self.bytes, self.at)?;
            let rest = self.bytes.get(start..)?;
            // Where one ends cannot be told if it cannot be read.
            let stream = Stream::open(rest, self.room)?;
            let bytes = start..start + stream.len();
            self.at = bytes.end;
            self.room -= stream.text().len();
            if stream.len() >= STREAM_MIN
                && promises(&stream)
                && let Some(runs) = runs(&stream, self.threads)
            {
                return Some(Unpacked { bytes, text: stream.into_text(), runs });
            }
        }
    }
}

/// Whether the beginning of the text is not much longer than its part of the stream, if it is compressed quickly.
fn promises(stream: &Stream<'_>) -> bool {
    let sample = stream.text().get(..SAMPLE_LEN).unwrap_or(stream.text());
    let len = TRIAL.encode(sample, &[]).map_or(sample.len(), |(_, stored)| stored.len());
    len * stream.text().len() <= stream.len() * sample.len() / 4 * 5
}

/// All runs of a stream, each proven; none if one of them is not worth it.
fn runs(stream: &Stream<'_>, threads: usize) -> Option<Vec<Run>> {
    let stretches = stream.stretches();
    let threads = threads.clamp(1, stretches.len().max(1));
    let every = |first: usize| -> Vec<Option<Run>> {
        let own = stretches.iter().skip(first).step_by(threads);
        // One that is not worth it is enough.
        own.map(|stretch| stream.run(stretch.clone())).take_while(Option::is_some).collect()
    };
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|first| scope.spawn(move || every(first))).collect();
        let own = every(0).into_iter();
        let join = |other: std::thread::ScopedJoinHandle<'_, _>| other.join().unwrap_or_default();
        std::iter::once(own)
            .chain(others.into_iter().map(|other| join(other).into_iter()))
            .collect()
    });
    (0..stretches.len()).map(|at| found[at % threads].next().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream with one block of stored bytes.
    fn stored(text: &[u8]) -> Vec<u8> {
        let len = (text.len() as u16).to_le_bytes();
        [&[1], &len[..], &len.map(|byte| !byte), text].concat()
    }

    #[test]
    fn heads_are_found_and_their_streams_behind_them() {
        let text = b"the same words, ".repeat(100);
        let mut gzip = vec![0x1f, 0x8b, 8, GZIP_EXTRA | GZIP_NAME | GZIP_CHECK, 0, 0, 0, 0, 2, 3];
        gzip.extend(b"\x03\0abcname\0cc");
        let from = gzip.len();
        gzip.extend(stored(&text));
        gzip.extend([7; 8]);
        let mut zip = b"PK\x03\x04\x14\0\0\0\x08\0............\0\0\0\0\x03\0\x01\0abcx".to_vec();
        assert_eq!(zip.len(), ZIP_LEN + 4);
        zip.extend(stored(&text));
        let mut plain = zip[..ZIP_LEN + 4].to_vec();
        plain[8] = 0;
        plain[18..22].copy_from_slice(&200u32.to_le_bytes());
        plain.extend([9; 200]);
        let between = [&gzip[..], &plain[..], &zip[..]].concat();
        for twice in [[&gzip[..], &gzip[..]].concat(), [&gzip[..], &zip[..]].concat(), between] {
            let found: Vec<_> = Streams::of(&twice, 2).collect();
            assert_eq!(found.len(), 2);
            assert_eq!(found[0].bytes, from..gzip.len() - 8);
            assert!(found.iter().all(|own| own.text == text && own.runs.len() == 1));
        }
    }

    #[test]
    fn hostile_heads_lead_nowhere() {
        let right = [&GZIP[..], &[0xff, 1, 2, 3, 4, 5, 6, 2, 0, 9, 9, b'n', 0, b'c', 0]].concat();
        for at in 0..right.len() {
            assert_eq!(Streams::of(&right[..at], 1).count(), 0);
        }
        let zip = [&ZIP[..], &[0xff; 40]].concat();
        assert_eq!(Streams::of(&zip, 1).count(), 0);
        assert_eq!(Streams::of(&[], 1).count(), 0);
    }
}
