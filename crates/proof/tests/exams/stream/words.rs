//! Words and marks: what makes no sense is none, and nothing leads out of the target.

use esker::{Flags, Kind, Time};
use esker_volume::stream::{Error, Mark, Meta, PATH, PIECE, Step, Target as _, Word, apply};

use super::{memory, onto};

static LARGE: [u8; PIECE + 1] = [7; PIECE + 1];

/// A mark is what its words say.
#[test]
fn marks_are_read() {
    let mark = Mark::default().after(Step::Open, b"x");
    assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
    let digits = mark.to_string().split_off(2);
    let signed = format!("1:+{}", &digits[1..]);
    for bad in ["", "1", "1:", "x:00", "1:zz", &format!("1:{}", "é".repeat(32)), &signed] {
        assert_eq!(Mark::parse(bad), None, "{bad}");
    }
}

fn is_read(word: &Word<'_>) -> bool {
    let mut bytes = Vec::new();
    word.encode(&mut bytes);
    let mut rest = bytes.as_slice();
    Word::take(&mut rest).is_some_and(|found| found == *word && rest.is_empty())
}

#[test]
fn paths_stay_in_the_target() {
    let long = vec![b'n'; 256];
    let deep = b"a/".repeat(PATH / 2 + 1);
    let bad: [&[u8]; 14] = [
        b"/",
        b"/a",
        b"a/",
        b"a//b",
        b".",
        b"..",
        b"../a",
        b"a/..",
        b"a/../../b",
        b"a/./b",
        b"a\0b",
        b".esker-received",
        b".esker-received/state",
        &long,
    ];
    for path in bad.into_iter().chain([deep.as_slice()]) {
        assert!(!is_read(&Word::Size { size: 1, path }), "{}", path.escape_ascii());
        assert!(!is_read(&Word::Strip { path }), "{}", path.escape_ascii());
        assert!(!is_read(&Word::Link { of: path, path: b"a" }), "{}", path.escape_ascii());
        assert!(!is_read(&Word::Link { of: b"a", path }), "{}", path.escape_ascii());
    }
    assert!(is_read(&Word::Strip { path: b"" }) && !is_read(&Word::Size { size: 1, path: b"" }));
    assert!(is_read(&Word::Size { size: 1, path: b"a/.esker-received/..b" }));
}

#[test]
fn words_that_make_no_sense_are_none() {
    let time = Time { secs: 0, nanos: 1_000_000_000 };
    let meta =
        Meta { perm: 0o7777, uid: 1, gid: 2, atime: Time::default(), mtime: Time::default() };
    let path = b"a".as_slice();
    assert!(is_read(&Word::Attr { meta, path }) && is_read(&Word::End));
    let bad = [
        Word::Make { kind: Kind::Symlink, rdev: 0, path },
        Word::Symlink { path, target: b"" },
        Word::Symlink { path, target: b"a\0" },
        Word::Symlink { path, target: &LARGE[..4096] },
        Word::Size { size: u64::MAX, path },
        Word::Bytes { at: u64::MAX, path, bytes: b"x" },
        Word::Bytes { at: 0, path, bytes: b"" },
        Word::Bytes { at: 0, path, bytes: &LARGE },
        Word::Hole { at: 1, len: u64::MAX, path },
        Word::Hole { at: 1, len: 0, path },
        Word::Xattr { path, name: b"", value: b"" },
        Word::Xattr { path, name: &LARGE[..256], value: b"" },
        Word::Xattr { path, name: b"user.a", value: &LARGE },
        Word::Attr { meta: Meta { perm: 0o10000, ..meta }, path },
        Word::Attr { meta: Meta { mtime: time, ..meta }, path },
        Word::Attr { meta: Meta { uid: u32::MAX, ..meta }, path },
        Word::Attr { meta: Meta { gid: u32::MAX, ..meta }, path },
        Word::Flag { flags: Flags(1), path },
    ];
    bad.iter().for_each(|word| assert!(!is_read(word), "{word:?}"));
    let mut seed = 1_u64;
    for round in 0..200_000 {
        let mut bytes = [0; 40];
        for byte in &mut bytes {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            *byte = (seed >> 56) as u8 & if round % 2 == 0 { 0xff } else { 0x0f };
        }
        let mut rest = bytes.as_slice();
        let before = rest.len();
        assert!(Word::take(&mut rest).is_none() || rest.len() < before);
    }
}

/// A symbolic link that the stream made is not followed by what comes behind it.
#[test]
fn links_are_not_followed() {
    let fs = memory();
    let mut target = onto(&fs);
    target.keep(b"kept").expect("kept");
    let mut say = |word: &Word<'_>| {
        assert!(is_read(word), "{word:?}");
        apply(&mut target, word, false)
    };
    say(&Word::Symlink { path: b"l", target: b".esker-received" }).expect("made");
    say(&Word::Symlink { path: b"f", target: b".esker-received/state" }).expect("made");
    for path in [b"l/state".as_slice(), b"f"] {
        for word in [
            Word::Size { size: 0, path },
            Word::Bytes { at: 0, path, bytes: b"x" },
            Word::Hole { at: 0, len: 1, path },
        ] {
            let done = say(&word);
            let refused = matches!(
                done,
                Err(Error::Target(_, esker::Error::NotDirectory | esker::Error::Invalid))
            );
            assert!(refused, "{word:?}: {done:?}");
        }
    }
    assert!(say(&Word::Make { kind: Kind::File, rdev: 0, path: b"l/new" }).is_err());
    assert_eq!(target.state().expect("kept"), b"kept");
}
