//! Every dialect is read, and nothing hostile gets further than a refusal.

use std::io::Cursor;
use std::process::Command;

use super::archive::{Archive, Content, Entry};
use super::sparse::Run;

/// A header block with the right checksum.
pub fn header(path: &[u8], flag: u8, size: u64) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..path.len()].copy_from_slice(path);
    block[100..108].copy_from_slice(b"0000644\0");
    block[108..116].copy_from_slice(b"0000001\0");
    block[116..124].copy_from_slice(b"0000002\0");
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[136..148].copy_from_slice(b"00000000017\0");
    block[156] = flag;
    block[257..265].copy_from_slice(b"ustar\x0000");
    seal(&mut block);
    block
}

fn seal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A header and its body in whole blocks.
pub fn entry(path: &[u8], flag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = header(path, flag, body.len() as u64);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// One pax record.
pub fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let len = (1..).find(|len| format!("{len}").len() + rest == *len).unwrap();
    [format!("{len} {key}=").as_bytes(), value, b"\n"].concat()
}

fn read_all(bytes: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>, String> {
    let mut archive = Archive::new(Cursor::new(bytes));
    let told = |refusal: super::Refusal| format!("{:?}: {}", refusal.entry, refusal.what);
    let mut found = Vec::new();
    while let Some(entry) = archive.next().map_err(told)? {
        let mut body = Vec::new();
        let mut buffer = [0; 700];
        loop {
            match archive.read(&mut buffer).map_err(told)? {
                0 => break,
                count => body.extend(&buffer[..count]),
            }
        }
        found.push((entry, body));
    }
    archive.drain().map_err(told)?;
    Ok(found)
}

fn ended(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = parts.concat();
    bytes.extend([0; 1024]);
    bytes
}

#[test]
fn plain_entries() {
    let bytes = ended(&[
        entry(b"a/", b'5', b""),
        entry(b"a/b", b'0', b"hello"),
        entry(b"old/", 0, b""),
        entry(b"p", b'6', b""),
    ]);
    let found = read_all(&bytes).unwrap();
    assert!(matches!(found[0].0.content, Content::Directory));
    assert_eq!((found[1].0.path.as_slice(), found[1].1.as_slice()), (&b"a/b"[..], &b"hello"[..]));
    assert_eq!((found[1].0.uid, found[1].0.gid, found[1].0.perm), (1, 2, 0o644));
    assert_eq!(found[1].0.mtime.secs, 15);
    assert!(matches!(found[2].0.content, Content::Directory));
    assert!(matches!(found[3].0.content, Content::Fifo));
}

#[test]
fn what_stands_before_an_entry_counts() {
    let records = [
        record("path", b"a\xffname\n"),
        record("mtime", b"-1.5"),
        record("uid", b"4000000000"),
        record("SCHILY.xattr.user.k", b"v\n\0=w"),
    ]
    .concat();
    let bytes = ended(&[
        entry(b"pax_global_header", b'g', &record("comment", b"x")),
        entry(b"x", b'x', &records),
        entry(b"short", b'0', b"1"),
        entry(b"././@LongLink", b'L', &[b"n".repeat(300).as_slice(), b"\0"].concat()),
        entry(b"././@LongLink", b'K', b"target\0"),
        entry(b"n", b'2', b""),
    ]);
    let found = read_all(&bytes).unwrap();
    let first = &found[0].0;
    assert_eq!(first.path, b"a\xffname\n");
    assert_eq!((first.mtime.secs, first.mtime.nanos), (-2, 500_000_000));
    assert_eq!(first.uid, 4_000_000_000);
    assert_eq!(first.xattrs, [(b"user.k".to_vec(), b"v\n\0=w".to_vec())]);
    assert_eq!(found[1].0.path, b"n".repeat(300));
    assert!(matches!(&found[1].0.content, Content::Symlink(target) if target == b"target"));
}

#[test]
fn every_way_to_be_cut_short_is_told() {
    let whole = ended(&[entry(b"a", b'0', &[7; 1500]), entry(b"b", b'0', b"x")]);
    // With one block of zeros an archive counts as ended.
    for len in (0..whole.len() - 512).step_by(37).chain([512, 1024, 2048, 2560, 3072, 3583]) {
        let text = read_all(&whole[..len]).expect_err(&format!("{len} bytes"));
        assert!(text.contains("cut short"), "{len}: {text}");
    }
    assert!(read_all(&whole[..whole.len() - 512]).is_ok());
}

#[test]
fn nonsense_is_refused_by_name() {
    let huge = u64::MAX >> 1;
    let sized = |value: &str| entry(b"x", b'x', &record("size", value.as_bytes()));
    for (parts, word) in [
        (vec![header(b"big", b'0', huge >> 30)], "cut short"),
        (vec![sized("18446744073709551615"), header(b"h", b'0', 0)], "cut short"),
        (vec![sized("18446744073709551616"), header(b"h", b'0', 0)], "size"),
        (vec![sized("-1"), header(b"h", b'0', 0)], "size"),
        (vec![header(b"x", b'x', 1 << 30)], "absurdly long"),
        (vec![entry(b"g", b'g', &record("k", &vec![b'v'; 9 << 20])); 2], "absurdly long"),
        (vec![entry(b"x", b'x', &b"5 a=\n".repeat(1 << 20))], "absurdly long"),
        (vec![header(b"l", b'L', 1 << 30)], "absurdly long"),
        (vec![entry(b"x", b'x', b"9999 a=b\n")], "broken"),
        (vec![entry(b"what", b'Q', b"")], "not known"),
        (vec![entry(b"more", b'M', b"")], "volume"),
        (vec![entry(b"x", b'x', &record("uid", b"4294967295")), header(b"u", b'0', 0)], "owner"),
        (vec![entry(b"x", b'x', &record("uid", b"1"))], "should follow"),
        (vec![vec![b'z'; 512]], "no tar archive"),
    ] {
        let text = read_all(&ended(&parts)).expect_err(word);
        assert!(text.contains(word), "{text} / {word}");
    }
}

#[test]
fn gnu_tar_is_read_in_every_format_with_its_holes() {
    let dir = std::env::temp_dir().join(format!("esker-tar-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = std::fs::File::create(dir.join("holes")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[1; 4096], 8 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[2; 4096], 32 << 20).unwrap();
    file.set_len(64 << 20).unwrap();
    let sparse = ["--sparse", "--hole-detection=seek"];
    let versions = [
        ("gnu", &sparse[..]),
        ("oldgnu", &sparse),
        ("posix", &["--sparse", "--sparse-version=0.0"]),
        ("posix", &["--sparse", "--sparse-version=0.1"]),
        ("posix", &["--sparse", "--sparse-version=1.0"]),
        ("ustar", &[]),
        ("v7", &[]),
    ];
    for (format, more) in versions {
        let format = format!("--format={format}");
        let mut tar = Command::new("tar");
        tar.args(["-cf", "-", "-C"]).arg(&dir).arg(&format).args(more).arg("holes");
        let output = tar.output().expect("GNU tar is installed");
        let found = read_all(&output.stdout).unwrap_or_else(|text| panic!("{format}: {text}"));
        let (entry, body) = &found[0];
        assert_eq!(entry.path, b"holes", "{format}");
        let Content::File(map) = &entry.content else { panic!("{format}") };
        assert_eq!(map.size, 64 << 20, "{format}");
        assert_eq!(map.runs.iter().map(|run| run.len).sum::<u64>(), body.len() as u64);
        if more.is_empty() {
            assert_eq!(map.runs, [Run { at: 0, len: 64 << 20 }]);
        } else {
            assert!(body.len() <= 1 << 20, "{format}: {} bytes", body.len());
            assert!(map.runs.iter().any(|run| run.at <= 8 << 20 && run.at + run.len > 8 << 20));
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// No random damage to a sound archive, nor random bytes with the right sums, make it panic or
/// hang.
#[test]
fn damage_never_panics() {
    let records = [
        record("GNU.sparse.major", b"1"),
        record("GNU.sparse.minor", b"0"),
        record("GNU.sparse.name", b"s"),
        record("GNU.sparse.realsize", b"99999"),
    ]
    .concat();
    let mut map = b"2\n0\n5\n90000\n3\n".to_vec();
    map.resize(512, 0);
    map.extend(b"hellofoo");
    let mut old = header(b"o", b'S', 8);
    old[386..398].copy_from_slice(b"00000000000\0");
    old[398..410].copy_from_slice(b"00000000010\0");
    old[483..495].copy_from_slice(b"00000000777\0");
    seal(&mut old);
    old.extend([9; 8]);
    old.resize(1024, 0);
    let sound = ended(&[
        entry(b"d/", b'5', b""),
        entry(b"x", b'x', &records),
        entry(b"GNUSparseFile/s", b'0', &map),
        old,
        entry(b"l", b'L', b"long\0"),
        entry(b"f", b'0', &[3; 700]),
        entry(b"f2", b'1', b""),
    ]);
    assert_eq!(read_all(&sound).unwrap().len(), 5);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 16).unwrap()
    };
    for _ in 0..20_000 {
        let mut bytes = sound.clone();
        for _ in 0..=random() % 4 {
            let at = random() % bytes.len();
            bytes[at] = random() as u8;
        }
        if random().is_multiple_of(2) {
            for block in bytes.chunks_exact_mut(512) {
                if block[257..262] == *b"ustar" {
                    seal(block);
                }
            }
        }
        bytes.truncate(bytes.len() - random() % 600);
        let _ = read_all(&bytes);
    }
}
