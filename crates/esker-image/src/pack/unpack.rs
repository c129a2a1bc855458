//! Files that hold streams of deflate (gzip, zip, PNG, packs of git): where these lie, and whether their text is worth
//! more than they are.
//!
//! Above: `data`. Below: `esker-stone`'s `deflate`. Invariant: whatever a head says, it decides only what is tried.

use core::ops::Range;
use std::borrow::Cow;

use esker_stone::deflate::{Run, Stream};
use esker_stone::{Codec, Setting};

use super::explain::Left;

/// Streams up to this length are unpacked where an image shall also be quick to pack and to read. An encoder knows no
/// more than 32 KiB of text, so the shorter a stream, the more do others that are like it say; what making it again
/// costs goes by its length. docs/benchmarks/images.md has what each length gains.
pub(super) const SHORT_MAX: usize = 4 << 10;
/// Most bytes of a file that is looked into.
pub const FILE_MAX: usize = 16 << 20;
/// Most bytes of text of all streams of a file.
const TEXT_MAX: usize = 48 << 20;
/// Most bytes of text of a stream for each byte of the file.
const TEXT_RATIO_MAX: usize = 64;
/// Streams that are shorter are not worth a look.
const STREAM_MIN: usize = 64;
/// How far behind a stream the next head may begin.
const GAP_MAX: usize = 64;
/// Samples of a text that are tried, at even distances, and bytes of each.
const SAMPLES: usize = 4;
const SAMPLE_LEN: usize = 64 << 10;
/// What they are tried with at most: what is quicker does worse than a good encoder of deflate does.
const TRIAL: Setting = Setting::new(Codec::Zstd, 9);

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

/// The head of a PNG file.
const PNG: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// What stands before the data of a chunk of it, and behind: length and name, a checksum.
const PNG_BEFORE: usize = 8;
const PNG_BEHIND: usize = 4;
/// What zlib puts before a stream, and behind.
const ZLIB_LEN: usize = 2;
const ADLER_LEN: usize = 4;
/// Most chunks that a stream may be cut into.
const CHUNKS_MAX: usize = 4096;

/// The head of a pack of git, and its length.
const PACK: [u8; 8] = *b"PACK\0\0\0\x02";
const PACK_LEN: usize = 12;
/// The name of the object that another one differs from.
const OBJECT_NAME_LEN: usize = 20;
/// Most bytes of a number in a pack.
const NUMBER_LEN_MAX: usize = 10;

/// Whether a file that begins like this may hold streams.
pub(super) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&PACK) || is_head(bytes)
}

/// Whether a stream may lie behind this.
fn is_head(bytes: &[u8]) -> bool {
    bytes.starts_with(&GZIP) || bytes.starts_with(&ZIP) || bytes.starts_with(&PNG)
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

/// The chunks of picture data of the PNG file that `bytes` begins with, which hold one stream together.
fn png_chunks(bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    let (mut at, mut found) = (PNG.len(), Vec::new());
    while let Some(len) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let len = u32::from_be_bytes(*len) as usize;
        let start = at + PNG_BEFORE;
        if bytes.get(at + 4..start) == Some(b"IDAT") {
            let end = start.saturating_add(len).min(bytes.len());
            let start = if found.is_empty() { start.checked_add(ZLIB_LEN)? } else { start };
            found.push(Some(start..end).filter(|chunk| chunk.start < chunk.end)?);
        } else if !found.is_empty() {
            break;
        }
        at = start.checked_add(len)?.checked_add(PNG_BEHIND)?;
        if found.len() > CHUNKS_MAX {
            return None;
        }
    }
    Some(found).filter(|found| !found.is_empty())
}

/// How long a file in a zip file is that is stored as it is, if that is what `bytes` begins with.
fn stored_len(bytes: &[u8]) -> Option<usize> {
    let stored = bytes.starts_with(&ZIP) && short(bytes, 8)? == 0;
    let len = u32::from_le_bytes(*bytes.get(18..)?.first_chunk()?) as usize;
    let own = ZIP_LEN + short(bytes, 26)? + short(bytes, 28)?;
    stored.then(|| own.saturating_add(len))
}

/// Where a stream may lie, piece by piece, behind the next head from `from` on.
fn next_head(bytes: &[u8], mut from: usize) -> Option<Vec<Range<usize>>> {
    loop {
        let until = bytes.len().min(from.saturating_add(GAP_MAX));
        let at = (from..until).find(|&at| is_head(&bytes[at..]))?;
        let here = &bytes[at..];
        if here.starts_with(&PNG) {
            let chunks = png_chunks(here)?;
            return Some(chunks.into_iter().map(|own| at + own.start..at + own.end).collect());
        }
        match (behind_head(here), stored_len(here)) {
            (Some(head), _) => {
                let start = at.checked_add(head).filter(|&start| start <= bytes.len())?;
                return Some(std::iter::once(start..bytes.len()).collect());
            }
            (None, Some(len)) => from = at.saturating_add(len),
            (None, None) => from = at + 1,
        }
    }
}

/// Where the stream of the object of a pack begins that itself begins at `at`.
fn object_stream(bytes: &[u8], at: usize) -> Option<usize> {
    let behind_number = |at: usize| {
        let number = bytes.get(at..)?.iter().take(NUMBER_LEN_MAX);
        number.copied().position(|byte| byte < 0x80).map(|len| at + len + 1)
    };
    let kind = bytes.get(at)? >> 4 & 7;
    let at = behind_number(at)?;
    let start = match kind {
        1..=4 => at,
        6 => behind_number(at)?,
        7 => at + OBJECT_NAME_LEN,
        _ => return None,
    };
    let head = u16::from_be_bytes(*bytes.get(start..)?.first_chunk()?);
    (head >> 8 & 15 == 8 && head % 31 == 0 && head & 0x20 == 0).then_some(start + ZLIB_LEN)
}

/// The first `len` bytes of some spans.
fn cut(spans: Vec<Range<usize>>, mut len: usize) -> Vec<Range<usize>> {
    let mut own = |span: Range<usize>| {
        let now = span.len().min(len);
        len -= now;
        (now > 0).then(|| span.start..span.start + now)
    };
    spans.into_iter().map_while(&mut own).collect()
}

/// A stream that is worth being unpacked.
pub(super) struct Unpacked<'a> {
    /// Where it lies in the file: in one piece, or in several.
    pub spans: Vec<Range<usize>>,
    /// Its bytes, and what may lie behind them.
    pub bytes: Cow<'a, [u8]>,
    pub text: Vec<u8>,
    /// What makes all of its bytes.
    pub runs: Vec<Run>,
}

/// Tells of all streams of a file that are worth being unpacked, one after the other, each only when the one before was
/// taken.
pub(super) struct Streams<'a> {
    bytes: &'a [u8],
    /// Where the next head is looked for; in a pack it is there.
    at: usize,
    is_pack: bool,
    /// Bytes of text that may still come.
    room: usize,
    /// Streams that are longer stay as they are.
    len_max: usize,
    trial: Setting,
    threads: usize,
    /// What was left as it is so far.
    pub left: Left,
}

impl<'a> Streams<'a> {
    /// Of a file whose texts would be stored so.
    pub fn of(bytes: &'a [u8], len_max: usize, setting: Setting, threads: usize) -> Self {
        let room = bytes.len().saturating_mul(TEXT_RATIO_MAX);
        let is_pack = bytes.starts_with(&PACK);
        let at = if is_pack { PACK_LEN } else { 0 };
        let (room, left) = (room.min(TEXT_MAX), Left::default());
        let quick = match setting.codec {
            Codec::Zstd => setting.level < TRIAL.level,
            codec => codec.is_quick(),
        };
        let trial = if quick { setting } else { TRIAL };
        Self { bytes, at, is_pack, room, len_max, trial, threads, left }
    }

    fn next_spans(&self) -> Option<Vec<Range<usize>>> {
        if self.is_pack {
            let start = object_stream(self.bytes, self.at)?;
            return Some(std::iter::once(start..self.bytes.len()).collect());
        }
        next_head(self.bytes, self.at)
    }

    /// What makes a stream again, if it is worth it; if not, that is counted.
    fn runs(&mut self, stream: &Stream<'_>) -> Option<Vec<Run>> {
        let len = stream.len();
        let why = if len > self.len_max {
            &mut self.left.long
        } else if len < STREAM_MIN || !promises(stream, self.trial) {
            &mut self.left.dense
        } else {
            let made = |runs: &Vec<Run>| runs.iter().map(|run| run.bytes.len()).sum::<usize>();
            let found = runs(stream, self.threads).filter(|runs| made(runs) == len);
            if found.is_some() {
                return found;
            }
            &mut self.left.unknown
        };
        why.add(len);
        None
    }
}

impl<'a> Iterator for Streams<'a> {
    type Item = Unpacked<'a>;

    fn next(&mut self) -> Option<Unpacked<'a>> {
        loop {
            let spans = self.next_spans()?;
            let bytes = match &spans[..] {
                [whole] => Cow::Borrowed(&self.bytes[whole.clone()]),
                many => {
                    let each: Vec<_> = many.iter().map(|span| &self.bytes[span.clone()]).collect();
                    Cow::Owned(each.concat())
                }
            };
            // Where one ends cannot be told if it cannot be read.
            let Some(stream) = Stream::open(&bytes, self.room) else {
                self.left.unread.add(bytes.len());
                return None;
            };
            let spans = cut(spans, stream.len());
            self.at = spans.last()?.end + if self.is_pack { ADLER_LEN } else { 0 };
            self.room -= stream.text().len();
            let runs = self.runs(&stream);
            let text = stream.into_text();
            if let Some(runs) = runs {
                return Some(Unpacked { spans, bytes, text, runs });
            }
        }
    }
}

/// Whether samples of the text are not much longer than their part of the stream, if they are compressed.
fn promises(stream: &Stream<'_>, trial: Setting) -> bool {
    let text = stream.text();
    let step = text.len().div_ceil(SAMPLES).max(SAMPLE_LEN);
    let samples = text.chunks(step).map(|part| &part[..part.len().min(SAMPLE_LEN)]);
    let (mut plain, mut stored) = (0, 0);
    for sample in samples {
        plain += sample.len();
        stored += trial.encode(sample, &[]).map_or(sample.len(), |(_, stored)| stored.len());
    }
    stored * text.len() <= stream.len() * plain / 4 * 5
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
    use super::super::explain::Amount;
    use super::*;

    const BEST: Setting = Setting::new(Codec::Zstd, 19);

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
            let found: Vec<_> = Streams::of(&twice, usize::MAX, BEST, 2).collect();
            assert_eq!(found.len(), 2);
            assert_eq!(found[0].spans.first(), Some(&(from..gzip.len() - 8)));
            assert!(found.iter().all(|own| own.text == text && own.runs.len() == 1));
        }
    }

    /// A PNG file whose picture data are these bytes, in chunks.
    fn png(data: &[u8], chunk: usize) -> Vec<u8> {
        let mut png = [&PNG[..], b"\0\0\0\x03IHDRabc...."].concat();
        for chunk in data.chunks(chunk) {
            png.extend((chunk.len() as u32).to_be_bytes());
            png.extend(b"IDAT");
            png.extend(chunk);
            png.extend(b"sum.");
        }
        png.extend(b"\0\0\0\0IENDsum.");
        png
    }

    #[test]
    fn a_stream_in_chunks_is_put_together() {
        let text = b"the same words, ".repeat(100);
        let stream = stored(&text);
        let data = [b"\x78\x9c", &stream[..], b"adle"].concat();
        for (chunk, spans) in [(9000, 1), (100, data.len().div_ceil(100)), (1604, 2)] {
            let png = png(&data, chunk);
            let found: Vec<_> = Streams::of(&png, usize::MAX, BEST, 1).collect();
            assert_eq!(found.len(), 1, "{chunk}");
            let own = found[0].spans.iter().flat_map(|span| &png[span.clone()]);
            assert!(own.copied().collect::<Vec<_>>() == stream && found[0].text == text);
            assert!(found[0].spans.len().abs_diff(spans) <= 1);
            // Cut short anywhere, it leads nowhere, and never beyond the end.
            for at in 0..png.len() - 16 - 4 - 8 {
                assert_eq!(Streams::of(&png[..at], usize::MAX, BEST, 1).count(), 0);
            }
        }
        assert_eq!(
            Streams::of(&png(&data, 1), usize::MAX, BEST, 1).count(),
            0,
            "a head of zlib in two pieces"
        );
        let long = [b"\x78\x9c", &[0; 70_000][..]].concat();
        assert_eq!(png_chunks(&png(&long, 10)), None, "too many");
    }

    #[test]
    fn objects_of_a_pack_follow_one_another() {
        let text = b"the same words, ".repeat(100);
        let heads: [&[u8]; 4] =
            [b"\xb0\x64", b"\x30", b"\xe0\x64\x81\x02", b"\xf0\x64twenty bytes of name"];
        let mut pack = [&PACK[..], b"\0\0\0\x04"].concat();
        let mut starts = Vec::new();
        for head in heads {
            pack.extend(head);
            pack.extend(b"\x78\x9c");
            starts.push(pack.len());
            pack.extend(stored(&text));
            pack.extend(b"adle");
        }
        pack.extend([7; OBJECT_NAME_LEN]);
        assert!(begins(&pack));
        let found: Vec<_> = Streams::of(&pack, usize::MAX, BEST, 1).collect();
        assert_eq!(found.iter().map(|own| own.spans[0].start).collect::<Vec<_>>(), starts);
        assert!(found.iter().all(|own| own.text == text));
        for at in 0..pack.len() {
            let whole = starts.iter().filter(|&&start| start + text.len() + 5 <= at).count();
            assert_eq!(Streams::of(&pack[..at], usize::MAX, BEST, 1).count(), whole);
        }
        for kind in [0x00, 0x50] {
            pack[PACK_LEN] = kind;
            assert_eq!(Streams::of(&pack, usize::MAX, BEST, 1).count(), 0, "no such kind");
        }
        pack[PACK_LEN..].fill(0xff);
        assert_eq!(Streams::of(&pack, usize::MAX, BEST, 1).count(), 0, "a number without an end");
    }

    #[test]
    fn what_is_left_as_it_is_is_counted_and_what_is_behind_it_found() {
        let gzip = |text: &[u8]| {
            let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3];
            [&head[..], &stored(text), &[7; 8]].concat()
        };
        let text = b"the same words, ".repeat(100);
        let (short, long) = (gzip(&text), gzip(&text.repeat(2)));
        let (tiny, whole) = (gzip(b"nothing"), short.len() - 18);
        // Its only block is of no kind that there is.
        let broken = [&GZIP[..], &[0, 0, 0, 0, 0, 2, 3, 7, 9, 9]].concat();
        let all = [&long[..], &tiny, &short, &broken].concat();
        let mut streams = Streams::of(&all, whole, BEST, 2);
        let found: Vec<_> = streams.by_ref().collect();
        assert!(found.len() == 1 && found[0].text == text);
        let one = |bytes: usize| Amount { count: 1, bytes: bytes as u64 };
        let (long, dense, unread) = (one(long.len() - 18), one(tiny.len() - 18), one(3));
        assert_eq!(streams.left, Left { long, dense, unread, ..Left::default() });
        let mut shorter = Streams::of(&short, whole - 1, BEST, 2);
        assert!(shorter.next().is_none());
        assert_eq!(shorter.left, Left { long: one(whole), ..Left::default() });
        let mut twice = shorter.left;
        twice.join(&streams.left);
        assert_eq!((twice.long.count, twice.dense, twice.unread), (2, dense, unread));
    }

    /// A stream with one block: so many copies of the same byte as 258 times this, and one more.
    fn copies(times: usize) -> Vec<u8> {
        // The last block, with fixed codes, the literal 0; at last the end.
        let begin = [1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0];
        // 258 bytes, from one before.
        let copy = [1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0];
        let bits =
            begin.into_iter().chain(std::iter::repeat_n(copy, times).flatten()).chain([0; 7]);
        let bits: Vec<u8> = bits.collect();
        let byte = |bits: &[u8]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit);
        bits.chunks(8).map(byte).collect()
    }

    #[test]
    fn what_is_behind_a_long_block_is_found() {
        let gzip = |stream: Vec<u8>| {
            let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3];
            [&head[..], &stream, &[7; 8]].concat()
        };
        let text = b"the same words, ".repeat(100);
        for (times, unknown) in [(1000, 0), (3000, 0), (12_000, 1)] {
            let long = copies(times);
            // It must not look as if it held too much text.
            let bytes = [gzip(long), gzip(stored(&text)), vec![1; times * 10]].concat();
            let mut streams = Streams::of(&bytes, usize::MAX, BEST, 2);
            let found: Vec<_> = streams.by_ref().collect();
            assert!(found.last().is_some_and(|last| last.text == text), "{times}");
            let left = streams.left;
            assert_eq!((left.unknown.count, left.unread.count), (unknown, 0), "{times}: {left:?}");
            assert_eq!(found.len() as u64 + left.dense.count + unknown, 2);
        }
    }

    #[test]
    fn hostile_heads_lead_nowhere() {
        let right = [&GZIP[..], &[0xff, 1, 2, 3, 4, 5, 6, 2, 0, 9, 9, b'n', 0, b'c', 0]].concat();
        for at in 0..right.len() {
            assert_eq!(Streams::of(&right[..at], usize::MAX, BEST, 1).count(), 0);
        }
        let zip = [&ZIP[..], &[0xff; 40]].concat();
        assert_eq!(Streams::of(&zip, usize::MAX, BEST, 1).count(), 0);
        assert_eq!(Streams::of(&[], usize::MAX, BEST, 1).count(), 0);
        for len in [0u32, 1, 2, 3, 0x7fff_ffff, u32::MAX] {
            let png = [&PNG[..], &len.to_be_bytes(), b"IDAT\x78\x9c"].concat();
            assert_eq!(Streams::of(&png, usize::MAX, BEST, 1).count(), 0);
        }
    }
}
