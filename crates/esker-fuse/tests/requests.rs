//! Bytes to requests: what the kernel sends is understood, and what nobody should send does no
//! harm.

mod kit;

use esker::posix::{Allocate, SetTime, XattrMode};
use esker::{Cursor, Error, Ino, Kind, Time};
use esker_fuse::request::{Op, ParseError, Request};
use esker_fuse::wire::{self, Opcode};
use kit::{Chance, raw, request};

fn error_of(bytes: &[u8]) -> ParseError {
    Request::parse(bytes).map(|request| format!("{:?}", request.op)).unwrap_err()
}

#[test]
fn names_end_at_their_nul() {
    let bytes = request(Opcode::Lookup, 1, &[b"hello\0"]);
    let parsed = Request::parse(&bytes).unwrap();
    assert_eq!((parsed.unique, parsed.node, parsed.uid, parsed.gid), (7, Ino(1), 1000, 100));
    assert!(matches!(parsed.op, Op::Lookup { name: b"hello" }));

    let rename = wire::Rename2In { newdir: 9, flags: 1, padding: 0 }.encode();
    let bytes = request(Opcode::Rename2, 1, &[&rename, b"from\0", b"to\0"]);
    let Op::Rename { name, to_dir, to_name, flags } = Request::parse(&bytes).unwrap().op else {
        panic!("no rename");
    };
    assert_eq!((name, to_dir, to_name), (&b"from"[..], Ino(9), &b"to"[..]));
    assert!(flags.no_replace && !flags.exchange && !flags.whiteout);

    let unfinished = request(Opcode::Lookup, 1, &[b"hello"]);
    let invalid = ParseError::Body { unique: 7, opcode: 1, error: Error::Invalid };
    assert_eq!(error_of(&unfinished), invalid);
}

#[test]
fn a_writes_bytes_are_those_it_counts() {
    let write = wire::WriteIn {
        fh: 0,
        offset: 4096,
        size: 5,
        write_flags: wire::flags::write::KILL_SUIDGID,
        lock_owner: 0,
        flags: 0,
        padding: 0,
    };
    let bytes = request(Opcode::Write, 3, &[&write.encode(), b"hello"]);
    let Op::Write { at, source, kill_priv, late } = Request::parse(&bytes).unwrap().op else {
        panic!("no write");
    };
    assert_eq!((at, source, kill_priv, late), (4096, &b"hello"[..], true, false));
    let short = request(Opcode::Write, 3, &[&write.encode(), b"hell"]);
    assert!(matches!(error_of(&short), ParseError::Body { error: Error::Invalid, .. }));
}

#[test]
fn setattr_keeps_absent_now_and_far_times_apart() {
    use wire::flags::setattr;
    let mut set = wire::SetattrIn::decode(&[0; wire::SetattrIn::SIZE]).unwrap();
    set.valid =
        setattr::MODE | setattr::SIZE | setattr::ATIME | setattr::ATIME_NOW | setattr::MTIME;
    set.mode = 0o104_755;
    set.size = 1 << 62;
    set.mtime = (-2_i64).cast_unsigned();
    set.mtimensec = 999_999_999;
    let bytes = request(Opcode::Setattr, 3, &[&set.encode()]);
    let Op::Setattr(parsed) = Request::parse(&bytes).unwrap().op else { panic!("no setattr") };
    assert_eq!((parsed.perm, parsed.size), (Some(0o4755), Some(1 << 62)));
    assert_eq!((parsed.uid, parsed.gid, parsed.ctime), (None, None, None));
    assert_eq!(parsed.atime, Some(SetTime::Now));
    assert_eq!(parsed.mtime, Some(SetTime::At(Time { secs: -2, nanos: 999_999_999 })));

    set.mtimensec = 1_000_000_000;
    let bytes = request(Opcode::Setattr, 3, &[&set.encode()]);
    assert!(matches!(error_of(&bytes), ParseError::Body { error: Error::Invalid, .. }));
}

#[test]
fn making_a_file_tells_kind_bits_and_group() {
    let create = wire::CreateIn { flags: 0o1302, mode: 0o102_640, umask: 0o22, open_flags: 1 };
    let groups = [16_u32, wire::EXT_GROUPS, 1, 50].map(u32::to_le_bytes).concat();
    let bytes = raw(Opcode::Create as u32, 1, &[&create.encode(), b"new\0"], &groups);
    let parsed = Request::parse(&bytes).unwrap();
    assert_eq!(parsed.groups.list(), [50]);
    let Op::Create { name, new, flags, exclusive } = parsed.op else { panic!("no create") };
    assert_eq!((name, new.kind, new.perm, new.umask), (&b"new"[..], Kind::File, 0o2640, 0o22));
    assert!(flags.read && flags.write && flags.truncate && flags.kill_priv && !flags.append);
    assert!(exclusive);

    let mknod = wire::MknodIn { mode: 0o020_600, rdev: 0x0105, umask: 0, padding: 0 };
    let bytes = request(Opcode::Mknod, 1, &[&mknod.encode(), b"null\0"]);
    let Op::Mknod { new, .. } = Request::parse(&bytes).unwrap().op else { panic!("no mknod") };
    assert_eq!((new.kind, new.rdev), (Kind::CharDevice, 0x0105));
}

#[test]
fn extensions_that_lie_about_their_size_are_refused() {
    let mkdir = wire::MkdirIn { mode: 0o755, umask: 0 }.encode();
    let lies = [[16, 32, 2, 50], [24, 32, 1, 50], [4, 32, 1, 50], [u32::MAX - 3, 32, 1, 50]];
    for lie in lies {
        let extensions = lie.map(u32::to_le_bytes).concat();
        let bytes = raw(Opcode::Mkdir as u32, 1, &[&mkdir, b"d\0"], &extensions);
        assert!(
            matches!(error_of(&bytes), ParseError::Body { error: Error::Invalid, .. }),
            "{lie:?}"
        );
    }
    let mut bytes = raw(Opcode::Mkdir as u32, 1, &[&mkdir, b"d\0"], &[]);
    bytes[36] = 200;
    assert!(matches!(error_of(&bytes), ParseError::Body { error: Error::Invalid, .. }));
}

#[test]
fn forgets_come_one_by_one_or_in_a_batch() {
    let bytes = request(Opcode::Forget, 5, &[&3_u64.to_le_bytes()]);
    let parsed = Request::parse(&bytes).unwrap();
    assert!(parsed.op.is_silent());
    assert!(matches!(parsed.op, Op::Forget { count: 3 }));

    let head = wire::BatchForgetIn { count: 2, dummy: 0 }.encode();
    let one = |nodeid, nlookup| wire::ForgetOne { nodeid, nlookup }.encode();
    let bytes = request(Opcode::BatchForget, 0, &[&head, &one(5, 1), &one(6, 4)]);
    let Op::BatchForget(forgets) = Request::parse(&bytes).unwrap().op else { panic!("no batch") };
    assert_eq!(forgets.iter().collect::<Vec<_>>(), [(Ino(5), 1), (Ino(6), 4)]);

    for count in [3, 0x1000_0000, u32::MAX] {
        let head = wire::BatchForgetIn { count, dummy: 0 }.encode();
        let bytes = request(Opcode::BatchForget, 0, &[&head, &one(5, 1), &one(6, 4)]);
        assert!(matches!(error_of(&bytes), ParseError::Body { error: Error::Invalid, .. }));
    }
}

#[test]
fn numbers_of_system_calls_get_their_names() {
    let fallocate = |mode| {
        let body = wire::FallocateIn { fh: 0, offset: 1, length: 2, mode, padding: 0 }.encode();
        match Request::parse(&request(Opcode::Fallocate, 2, &[&body])) {
            Ok(Request { op: Op::Fallocate { how, at: 1, len: 2 }, .. }) => Ok(how),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        }
    };
    assert_eq!(fallocate(0), Ok(Allocate::Reserve));
    assert_eq!(fallocate(1), Ok(Allocate::ReserveKeepSize));
    assert_eq!(fallocate(3), Ok(Allocate::Punch));
    assert_eq!(fallocate(0x10), Ok(Allocate::Zero));
    assert_eq!(fallocate(0x11), Ok(Allocate::ZeroKeepSize));
    let unsupported = ParseError::Body { unique: 7, opcode: 43, error: Error::NotSupported };
    assert_eq!(fallocate(8), Err(unsupported));

    let set = wire::SetxattrIn { size: 2, flags: 1, setxattr_flags: 1, padding: 0 }.encode();
    let bytes = request(Opcode::Setxattr, 2, &[&set, b"user.a\0", b"\0v"]);
    let Op::Setxattr { name, value, mode, kill_sgid } = Request::parse(&bytes).unwrap().op else {
        panic!("no setxattr");
    };
    assert_eq!((name, value), (&b"user.a"[..], &b"\0v"[..]));
    assert_eq!((mode, kill_sgid), (XattrMode::Create, true));

    let read = wire::ReadIn::decode(&[0xff; wire::ReadIn::SIZE]).unwrap().encode();
    let bytes = request(Opcode::Readdirplus, 2, &[&read]);
    let Op::Readdirplus { after, len } = Request::parse(&bytes).unwrap().op else {
        panic!("no readdirplus");
    };
    assert_eq!((after, len), (Cursor(u64::MAX), u32::MAX));
}

#[test]
fn what_is_unknown_is_answered_with_enosys() {
    for opcode in [0, 7, 54, 4096, u32::MAX] {
        let bytes = raw(opcode, 1, &[], &[]);
        let unknown = ParseError::Body { unique: 7, opcode, error: Error::NoSuchCall };
        assert_eq!(error_of(&bytes), unknown);
    }
}

#[test]
fn a_header_that_lies_about_the_length_is_nobodys_request() {
    let whole = request(Opcode::Statfs, 1, &[]);
    assert_eq!(error_of(&whole[..39]), ParseError::Header);
    assert_eq!(error_of(&[]), ParseError::Header);
    let mut long = whole.clone();
    long.push(0);
    assert_eq!(error_of(&long), ParseError::Header);
}

/// Random bodies behind right headers, whole and cut short: an answer or an error, never a panic.
#[test]
fn random_bytes_do_no_harm() {
    let mut chance = Chance(0x2545_f491_4f6c_dd1d);
    let mut understood = 0;
    for round in 0..200_000 {
        let len = chance.below(160);
        let sparse = round % 2 == 0;
        let body: Vec<u8> = (0..len)
            .map(|_| if sparse && chance.below(4) > 0 { 0 } else { chance.next() as u8 })
            .collect();
        let opcode =
            if chance.below(20) == 0 { chance.next() as u32 } else { chance.below(60) as u32 };
        let mut bytes = raw(opcode, chance.next(), &[&body], &[]);
        if chance.below(3) == 0 {
            bytes[36] = chance.below(24) as u8;
        }
        match Request::parse(&bytes) {
            Ok(request) => {
                understood += 1;
                if let Op::BatchForget(forgets) = request.op {
                    assert!(forgets.iter().count() <= 10);
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(understood > 20_000, "only {understood} of the requests were understood");
}
