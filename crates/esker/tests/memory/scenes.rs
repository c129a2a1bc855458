//! Single promises, each by the scene that would break it.

use esker::ground::{Heap, Memory};
use esker::limits::{GRANULE, INLINE_LEN_MAX, RESTING_TICKS, XATTR_VALUE_LEN_MAX};
use esker::memory::{Home, Options};
use esker::store::{Flow, Store, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Span, Time, XattrName};

use crate::memories::{Broken, Liar};
use crate::model::{Word, attr, commit, read_all, start};

const TIB: u64 = 1 << 40;

fn file<M: Memory>(home: &Home<M>, name: &str) -> Ino {
    let ino = home.next_ino(Ino::ROOT, Kind::File);
    let made = Attr::new(Kind::File, 0o644, 0, 0, Ino::ROOT, Time::default());
    let link = Word::Link(Ino::ROOT, name.into(), ino, Kind::File);
    commit(home, &[Word::Make(ino, made), link]).unwrap();
    ino
}

fn write<M: Memory>(home: &Home<M>, ino: Ino, at: u64, byte: u8, len: usize) -> Result<()> {
    commit(home, &[Word::Write(ino, at, vec![byte; len])])
}

fn read<M: Memory>(home: &Home<M>, ino: Ino, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xaa; len];
    let len = home.read(ino, at, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

fn blocks<M: Memory>(home: &Home<M>, ino: Ino) -> u64 {
    home.attr(ino).unwrap().blocks
}

fn drop_file<M: Memory>(home: &Home<M>, ino: Ino, name: &str) -> Result<()> {
    commit(home, &[Word::Unlink(Ino::ROOT, name.into()), Word::Drop(ino)])
}

/// A file of 1 TiB with two bytes in it takes two granules, and its holes are holes.
#[test]
fn a_sparse_file_takes_what_was_written() {
    let (home, _) = start(Heap::new(), 1 << 20);
    let ino = file(&home, "sparse");
    write(&home, ino, TIB - 1, 7, 1).unwrap();
    write(&home, ino, 1 << 30, 8, 1).unwrap();
    assert_eq!(home.attr(ino).unwrap().size, TIB);
    assert_eq!(blocks(&home, ino), 2);
    assert_eq!(read(&home, ino, TIB - 3, 10), [0, 0, 7]);
    assert_eq!(read(&home, ino, (1 << 30) - 1, 3), [0, 8, 0]);
    assert_eq!(home.next_data(ino, 0), Ok(Span::at(1 << 30, GRANULE)));
    let last = Span::at(TIB - GRANULE, GRANULE);
    assert_eq!(home.next_data(ino, (1 << 30) + GRANULE), Ok(last));
    commit(&home, &[Word::Cut(ino, i64::MAX as u64)]).unwrap();
    write(&home, ino, i64::MAX as u64 - 1, 9, 1).unwrap();
    assert_eq!(blocks(&home, ino), 3);
    assert_eq!(write(&home, ino, i64::MAX as u64, 9, 1), Err(Error::FileTooBig));
    assert_eq!(commit(&home, &[Word::Cut(ino, 1 << 63)]), Err(Error::FileTooBig));
    commit(&home, &[Word::Cut(ino, TIB - 1)]).unwrap();
    assert_eq!(blocks(&home, ino), 2);
    assert_eq!(home.check(), []);
}

/// No word makes a file larger than the home allows.
#[test]
fn the_largest_file_is_a_limit() {
    let root = attr(Kind::Directory, Ino::ROOT, 1);
    let options = Options { size_max: 1 << 30, file_size_max: 10_000, root };
    let home = Home::new(Heap::new(), &options).unwrap();
    let (ino, other) = (file(&home, "a"), file(&home, "b"));
    write(&home, ino, 0, 1, 10_000).unwrap();
    let too_big = [
        Word::Write(ino, 9_999, vec![1; 2]),
        Word::Cut(ino, 10_001),
        Word::Reserve(ino, 9_000, 10_001),
        Word::Share(ino, 0, other, 1, 10_000),
        Word::Write(other, u64::MAX, vec![1; 2]),
    ];
    for word in too_big {
        assert_eq!(commit(&home, &[word]), Err(Error::FileTooBig));
    }
    assert_eq!(home.check(), []);
}

/// Sequential writes make few extents, however many files grow at once; what was claimed ahead goes
/// when the file is cut to its own length.
#[test]
fn appending_makes_long_extents() {
    let (home, _) = start(Heap::new(), 1 << 40);
    let before = home.usage();
    let files: Vec<Ino> = (0..4).map(|index| file(&home, &format!("log{index}"))).collect();
    for step in 0..2000 {
        for &ino in &files {
            write(&home, ino, step * 1000, (step % 255) as u8 + 1, 1000).unwrap();
        }
    }
    for (index, &ino) in files.iter().enumerate() {
        commit(&home, &[Word::Cut(ino, 2_000_000)]).unwrap();
        assert_eq!(blocks(&home, ino), 2_000_000_u64.div_ceil(GRANULE));
        let bytes = read_all(&home, ino);
        assert!(
            bytes
                .chunks(1000)
                .enumerate()
                .all(|(step, part)| part == [(step % 255) as u8 + 1; 1000])
        );
        let extents = home.extents(ino).unwrap();
        assert!(extents < 100, "{extents} extents");
        drop_file(&home, ino, &format!("log{index}")).unwrap();
    }
    assert_eq!(home.usage().data, before.data);
    let large = file(&home, "large");
    (0..64).for_each(|step| write(&home, large, step << 20, 1, 1 << 20).unwrap());
    assert!(home.extents(large).unwrap() <= 2);
    assert_eq!(home.check(), []);
}

/// Bytes that once lay behind the end never come back, whatever makes the file grow over them.
#[test]
fn nothing_comes_back_from_behind_the_end() {
    for grow in 0..4 {
        let (home, _) = start(Heap::new(), 1 << 30);
        let (ino, other) = (file(&home, "a"), file(&home, "b"));
        write(&home, other, 0, 5, 3000).unwrap();
        // Appending leaves space behind the end, and cutting leaves old bytes in the last granule.
        (0..40).for_each(|step| write(&home, ino, step * 500, 1, 500).unwrap());
        commit(&home, &[Word::Cut(ino, 700)]).unwrap();
        (0..20).for_each(|step| write(&home, ino, 700 + step * 500, 1, 500).unwrap());
        commit(&home, &[Word::Cut(ino, 5_100)]).unwrap();
        let end = match grow {
            0 => commit(&home, &[Word::Cut(ino, 9_000)]).map(|()| 9_000),
            1 => write(&home, ino, 8_999, 0, 1).map(|()| 9_000),
            2 => commit(&home, &[Word::Share(other, 0, ino, 7_000, 3000)]).map(|()| 7_000),
            _ => commit(&home, &[Word::Reserve(ino, 0, 20_000), Word::Cut(ino, 9_000)])
                .map(|()| 9_000),
        };
        let end = end.unwrap();
        assert!(read(&home, ino, 5_100, end - 5_100).iter().all(|&byte| byte == 0), "way {grow}");
        assert_eq!(home.check(), []);
    }
}

/// Reserved space reads as zeros, is hole to whoever looks for data, and makes later writes
/// certain.
#[test]
fn reserved_space_is_there_when_needed() {
    let (home, _) = start(Heap::new(), 1 << 20);
    let (ino, other) = (file(&home, "a"), file(&home, "b"));
    commit(&home, &[Word::Reserve(ino, 0, 200_000)]).unwrap();
    assert_eq!((home.attr(ino).unwrap().size, blocks(&home, ino)), (0, 391));
    commit(&home, &[Word::Cut(ino, 200_000), Word::Reserve(ino, 0, 200_000)]).unwrap();
    assert_eq!(home.next_data(ino, 0), Ok(None));
    assert!(read_all(&home, ino).iter().all(|&byte| byte == 0));
    let mut at = 0;
    while write(&home, other, at, 1, 4096).is_ok() {
        at += 4096;
    }
    assert_eq!(write(&home, other, at, 1, 4096), Err(Error::NoSpace));
    write(&home, ino, 0, 9, 200_000).unwrap();
    assert_eq!(home.next_data(ino, 0), Ok(Span::at(0, 200_000)));
    assert_eq!(blocks(&home, ino), 391);
    assert_eq!(home.check(), []);
}

/// In a full home every write to reserved space succeeds, in whatever order the tree must tell apart what of
/// it is written; what it takes beyond the limit for that is little, and goes with the file.
#[test]
fn reserved_space_takes_scattered_writes_when_nothing_else_is_left() {
    const RESERVED: u64 = 8 << 20;
    let (home, _) = start(Heap::new(), 16 << 20);
    let (ino, other) = (file(&home, "a"), file(&home, "b"));
    commit(&home, &[Word::Reserve(ino, 0, RESERVED), Word::Cut(ino, RESERVED)]).unwrap();
    let (mut at, mut len) = (0, 1 << 20);
    while len > 0 {
        match write(&home, other, at, 1, len) {
            Ok(()) => at += len as u64,
            Err(_) => len /= 2,
        }
    }
    let mut number = 0;
    let make = |number: &mut u32| {
        let ino = home.next_ino(Ino::ROOT, Kind::File);
        let made = Word::Make(ino, attr(Kind::File, Ino::ROOT, 1));
        let name = format!("fill{number}");
        *number += 1;
        commit(&home, &[made, Word::Link(Ino::ROOT, name, ino, Kind::File)])
    };
    while make(&mut number).is_ok() {}
    let before = home.usage();
    // Every other granule, in an order that splits everywhere: the worst that can happen.
    let granules = RESERVED / GRANULE;
    for step in 0..granules / 2 {
        let granule = step * 4097 % (granules / 2) * 2;
        write(&home, ino, granule * GRANULE, 7, GRANULE as usize).unwrap();
    }
    let after = home.usage();
    assert_eq!(after.data, before.data);
    let over = after.used.saturating_sub(after.total);
    assert!(over > 0 && over <= RESERVED / 4, "{over} bytes over");
    assert_eq!(write(&home, other, at, 1, 4096), Err(Error::NoSpace));
    assert_eq!(make(&mut number), Err(Error::NoSpace));
    assert_eq!(home.check(), []);
    drop_file(&home, ino, "a").unwrap();
    assert!(home.usage().used <= before.used - RESERVED + (64 << 10), "{:?}", home.usage());
    make(&mut number).unwrap();
    assert_eq!(home.check(), []);
}

/// Sharing takes no space; writing to either side leaves the other as it was; the last one frees.
#[test]
fn shared_bytes_part_when_written() {
    let (home, _) = start(Heap::new(), 1 << 30);
    let (a, b, c) = (file(&home, "a"), file(&home, "b"), file(&home, "c"));
    write(&home, a, 0, 1, 100_000).unwrap();
    let before = home.usage();
    commit(&home, &[Word::Share(a, 0, b, 0, 100_000), Word::Share(a, 512, c, 1024, 90_000)])
        .unwrap();
    let after = home.usage();
    // Only the granule at the end of `c` had to be copied.
    assert!(after.data - before.data <= GRANULE, "{after:?}");
    assert_eq!((blocks(&home, b), blocks(&home, a)), (196, 196));
    write(&home, b, 50_000, 2, 10).unwrap();
    assert_eq!(home.usage().data - after.data, GRANULE);
    assert!(read_all(&home, a).iter().all(|&byte| byte == 1));
    assert_eq!(read(&home, b, 49_999, 12), [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    write(&home, a, 100_000, 3, 10).unwrap();
    assert_eq!(read(&home, b, 99_999, 100), [1]);
    assert_eq!(home.check(), []);
    drop_file(&home, a, "a").unwrap();
    drop_file(&home, c, "c").unwrap();
    assert_eq!(home.usage().data, 196 * GRANULE);
    // Alone again, and overwritten in place.
    write(&home, b, 0, 4, 100_000).unwrap();
    assert_eq!(home.usage().data, 196 * GRANULE);
    drop_file(&home, b, "b").unwrap();
    assert_eq!(home.usage().data, 0);
    assert_eq!(home.check(), []);
}

/// Sharing takes as long as there are extents, not bytes: one of 8 GiB of which nothing was ever
/// touched.
#[test]
fn sharing_moves_no_bytes() {
    let (home, _) = start(Heap::new(), 1 << 40);
    let (a, b) = (file(&home, "a"), file(&home, "b"));
    write(&home, a, 0, 1, 1 << 20).unwrap();
    for step in 0..12 {
        // Doubles the file by sharing it with itself.
        let len = 1 << (20 + step);
        commit(&home, &[Word::Share(a, 0, a, len, len)]).unwrap();
    }
    commit(&home, &[Word::Share(a, 0, b, 0, 1 << 32)]).unwrap();
    assert_eq!(home.attr(b).unwrap().size, 1 << 32);
    assert_eq!(home.usage().data, 1 << 20);
    assert_eq!(read(&home, b, (1 << 32) - 3, 9), [1, 1, 1]);
    assert_eq!(home.check(), []);
}

/// A batch that fails at its last word leaves no trace of the others.
#[test]
fn a_batch_is_whole_or_absent() {
    let (home, _) = start(Liar::new(u64::MAX, 128 << 10), 1 << 30);
    let ino = file(&home, "a");
    write(&home, ino, 0, 1, 50_000).unwrap();
    let before = (home.usage(), home.attr(ino));
    let new = home.next_ino(Ino::ROOT, Kind::File);
    let words = [
        Word::Make(new, attr(Kind::File, Ino::ROOT, 9)),
        Word::Link(Ino::ROOT, "new".into(), new, Kind::File),
        Word::Write(ino, 0, vec![2; 50_000]),
        Word::Share(ino, 0, new, 0, 50_000),
        Word::Xattr(ino, "user.a".into(), Some(vec![1; 40_000])),
        Word::Write(new, 50_000, vec![3; 100_000]),
    ];
    assert_eq!(commit(&home, &words), Err(Error::NoSpace));
    assert_eq!((home.usage(), home.attr(ino)), before);
    assert_eq!(read_all(&home, ino), vec![1; 50_000]);
    assert_eq!(home.attr(new), Err(Error::NotFound));
    assert_eq!(home.check(), []);
    commit(&home, &words[..5]).unwrap();
    assert_eq!(read_all(&home, new), vec![2; 50_000]);
    assert_eq!(home.check(), []);
}

/// The memory refuses in the middle of overwriting what readers can see: the home says so from then
/// on.
#[test]
fn a_home_that_may_be_half_changed_refuses_changes() {
    let (home, _) = start(Broken::default(), 1 << 30);
    let (ino, other) = (file(&home, "a"), file(&home, "b"));
    write(&home, ino, 0, 1, 50_000).unwrap();
    home.memory().fail(true);
    assert_eq!(write(&home, other, 0, 2, 5_000), Err(Error::Corrupt), "nothing was visible yet");
    home.memory().fail(false);
    write(&home, other, 0, 2, 5_000).unwrap();
    home.memory().fail(true);
    assert_eq!(write(&home, ino, 0, 2, 50_000), Err(Error::Io));
    home.memory().fail(false);
    assert_eq!(write(&home, other, 0, 3, 10), Err(Error::Io));
    assert_eq!(read(&home, other, 0, 5), [2; 5]);
    assert_eq!(home.attr(ino).unwrap().size, 50_000);
}

/// In a full home names can be removed and moved, files cut and punched.
#[test]
fn a_full_home_can_be_emptied() {
    let (home, _) = start(Heap::new(), 512 << 10);
    let mut files = Vec::new();
    'full: for index in 0.. {
        let ino = home.next_ino(Ino::ROOT, Kind::File);
        let name = format!("file{index:0200}");
        let made = attr(Kind::File, Ino::ROOT, index);
        let link = Word::Link(Ino::ROOT, name.clone(), ino, Kind::File);
        if commit(&home, &[Word::Make(ino, made), link]).is_err() {
            break 'full;
        }
        files.push((ino, name));
        if write(&home, ino, 0, 1, 3000).is_err() {
            break 'full;
        }
    }
    let large = files[0].0;
    commit(&home, &[Word::Punch(large, 600, 1800)]).unwrap();
    commit(&home, &[Word::Cut(files[1].0, 700)]).unwrap();
    for (ino, name) in &mut files {
        let new = format!("{name}-moved-to-a-longer-name");
        let link = Word::Link(Ino::ROOT, new.clone(), *ino, Kind::File);
        commit(&home, &[link, Word::Unlink(Ino::ROOT, name.clone())]).unwrap();
        *name = new;
    }
    assert_eq!(home.check(), []);
    for (ino, name) in &files {
        drop_file(&home, *ino, name).unwrap();
    }
    assert_eq!(home.usage().data, 0);
    assert_eq!(home.check(), []);
}

/// A listing goes on where it stood while entries come and go.
#[test]
fn a_cursor_stays_true() {
    let (home, _) = start(Heap::new(), 1 << 30);
    let files: Vec<Ino> = (0..1000).map(|index| file(&home, &format!("f{index}"))).collect();
    let mut seen = Vec::new();
    let mut after = Cursor::START;
    while seen.len() < 1000 {
        let known = seen.len();
        home.entries(Ino::ROOT, after, true, &mut |listed| {
            // No lock is held here.
            assert_eq!(home.attr(listed.entry.ino).ok(), listed.attr);
            after = listed.entry.seq;
            seen.push(listed.entry.ino);
            if seen.len() < known + 100 { Flow::Continue(()) } else { Flow::Break(()) }
        })
        .unwrap();
        let gone = seen[known];
        let index = files.iter().position(|&ino| ino == gone).unwrap();
        drop_file(&home, gone, &format!("f{index}")).unwrap();
    }
    assert_eq!(seen, files);
}

/// Extended attributes up to the limit, in pieces; a shorter value leaves nothing of a longer one.
#[test]
fn xattrs_come_back_whole() {
    let (home, _) = start(Heap::new(), 1 << 30);
    let ino = file(&home, "a");
    let name = |name: &'static str| XattrName::parse(name.as_bytes()).unwrap();
    for len in [0, 1, 511, 512, 513, 1024, XATTR_VALUE_LEN_MAX, 700, 0] {
        let value: Vec<u8> = (0..len).map(|index| index as u8).collect();
        commit(&home, &[Word::Xattr(ino, "user.a".into(), Some(value.clone()))]).unwrap();
        commit(&home, &[Word::Xattr(ino, "user.ab".into(), Some(vec![1; 600]))]).unwrap();
        let mut found = b"kept".to_vec();
        home.xattr(ino, name("user.a"), &mut found).unwrap();
        assert_eq!(found, [b"kept".to_vec(), value].concat());
    }
    let over = Word::Xattr(ino, "user.a".into(), Some(vec![0; XATTR_VALUE_LEN_MAX + 1]));
    assert_eq!(commit(&home, &[over]), Err(Error::TooBig));
    commit(&home, &[Word::Xattr(ino, "user.a".into(), None)]).unwrap();
    assert_eq!(home.xattr(ino, name("user.a"), &mut Vec::new()), Err(Error::NoData));
    assert_eq!(home.xattr(Ino(9999), name("user.a"), &mut Vec::new()), Err(Error::NotFound));
    assert_eq!(home.check(), []);
}

/// Little content takes no space of its own, but counts as some, lest it be taken for a hole.
#[test]
fn small_files_live_in_their_record() {
    let (home, _) = start(Heap::new(), 1 << 30);
    let ino = file(&home, "a");
    write(&home, ino, 0, 1, INLINE_LEN_MAX).unwrap();
    assert_eq!((home.usage().data, blocks(&home, ino)), (0, 1));
    assert_eq!(home.next_data(ino, 0), Ok(Span::at(0, INLINE_LEN_MAX as u64)));
    write(&home, ino, INLINE_LEN_MAX as u64, 2, 1).unwrap();
    assert_eq!((home.usage().data, blocks(&home, ino)), (GRANULE, 1));
    commit(&home, &[Word::Cut(ino, 0)]).unwrap();
    assert_eq!((home.usage().data, blocks(&home, ino)), (0, 0));
}

/// Files follow their directory's group, directories spread; no number comes twice.
#[test]
fn numbers_follow_groups() {
    let (home, _) = start(Heap::new(), 1 << 30);
    let mut seen = std::collections::BTreeSet::from([Ino::ROOT]);
    let mut groups = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let dir = home.next_ino(Ino::ROOT, Kind::Directory);
        let file = home.next_ino(dir, Kind::File);
        assert_eq!(dir.0 % 64, file.0 % 64);
        groups.insert(dir.0 % 64);
        assert!(seen.insert(dir) && seen.insert(file) && dir.0 > 1 && file.0 > 1);
    }
    assert_eq!(groups.len(), 64);
    assert!(Name::parse(b"x").is_ok());
}

/// What is freed goes back at once where nobody tells the time. Elsewhere it rests, and goes when it was not used
/// again for long enough.
#[test]
fn freed_space_rests_while_time_is_told() {
    const LEN: usize = 4 << 20;
    let liar = Liar::new(u64::MAX, u64::MAX);
    let (home, _) = start(&liar, 64 << 20);
    let ino = file(&home, "early");
    write(&home, ino, 0, 1, LEN).unwrap();
    drop_file(&home, ino, "early").unwrap();
    let at_once = liar.released();
    assert!(at_once >= LEN as u64);

    home.tick().unwrap();
    let ino = file(&home, "late");
    write(&home, ino, 0, 2, LEN).unwrap();
    drop_file(&home, ino, "late").unwrap();
    // The half of it is used again.
    let ino = file(&home, "again");
    write(&home, ino, 0, 3, LEN / 2).unwrap();
    for _ in 1..RESTING_TICKS {
        home.tick().unwrap();
        assert_eq!(liar.released(), at_once);
    }
    home.tick().unwrap();
    let rested = liar.released() - at_once;
    assert!((LEN as u64 / 2 - (128 << 10)..=LEN as u64 / 2).contains(&rested), "{rested}");
    assert_eq!(read(&home, ino, 0, LEN), [3; LEN / 2]);
    assert_eq!(home.check(), []);
}

/// A tree keeps pages for its next change, unless there is none for a while.
#[test]
fn idle_trees_keep_no_free_pages() {
    let liar = Liar::new(u64::MAX, u64::MAX);
    let (home, _) = start(&liar, 64 << 20);
    let bare = home.usage().trees;
    let ino = file(&home, "name");
    let busy = home.usage();
    assert_eq!(home.tick(), Ok(0), "it has just changed");
    let freed = home.tick().unwrap();
    let idle = home.usage();
    assert!(freed > 0 && idle.trees < bare, "{freed} {bare} {idle:?}");
    assert_eq!((busy.trees - idle.trees, busy.used - idle.used), (freed, freed));
    assert_eq!(home.tick(), Ok(0));
    drop_file(&home, ino, "name").unwrap();
    assert_eq!(home.check(), []);
}

/// Appends take space ahead; trimming gives back that, and nothing that was asked for.
#[test]
fn trimming_gives_back_what_was_taken_ahead() {
    let (home, _) = start(Heap::new(), 64 << 20);
    let ino = file(&home, "grows");
    for number in 0..9 {
        write(&home, ino, number << 16, 5, 64 << 10).unwrap();
    }
    let len = 9_u64 << 16;
    let before = home.attr(ino).unwrap();
    assert!(home.usage().data > len, "nothing was taken ahead");
    home.trim(ino).unwrap();
    assert_eq!(home.usage().data, len);
    assert_eq!(home.attr(ino), Ok(Attr { blocks: len / GRANULE, ..before }));
    assert_eq!(read(&home, ino, 0, 2 << 20), vec![5; len as usize]);
    commit(&home, &[Word::Reserve(ino, len, len + (1 << 20))]).unwrap();
    home.trim(ino).unwrap();
    assert_eq!(home.usage().data, len + (1 << 20));
    write(&home, ino, len, 6, 10).unwrap();
    home.trim(ino).unwrap();
    assert_eq!(home.usage().data, len + (1 << 20));
    assert_eq!(home.trim(Ino(999)), Err(Error::NotFound));
    assert_eq!(home.check(), []);
}
