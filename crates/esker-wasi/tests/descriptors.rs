//! Descriptors: their rights, where they stand, what is known of them, and what they list.

mod common;

use common::{APPEND, BUFFER, CREATE, FOLLOW, GIVEN, Program, TRUNCATE, refused};
use esker_wasi::{Errno, Guest as _, NAMES, Rights};

#[test]
fn rights_are_only_ever_lost() {
    let mut program = Program::new();
    let file = program.open(GIVEN, "file", CREATE).unwrap();
    assert_eq!(program.write(file, b"0123"), Ok(4));
    let (_, _, base, inheriting) = program.status(file).unwrap();
    let less = base.without(Rights::FD_READ.or(Rights::FD_WRITE));
    program.context.fd_fdstat_set_rights(file, less.0, inheriting.0).unwrap();
    assert_eq!(program.status(file).unwrap().2, less);
    assert_eq!(refused(program.read(file, 4)), Errno::NotCapable);
    assert_eq!(refused(program.write(file, b"4")), Errno::NotCapable);
    assert_eq!(program.seek(file, 0, 2), Ok(4));
    let back = program.context.fd_fdstat_set_rights(file, base.0, inheriting.0);
    assert_eq!(refused(back), Errno::NotCapable);
}

#[test]
fn a_directory_hands_on_what_it_may() {
    let mut program = Program::new();
    program.make(GIVEN, "file", b"x");
    let (base, able) = (Rights::DIRECTORY, Rights::FD_READ.or(Rights::FD_SEEK));
    let dir = program.open_with(GIVEN, ".", (0, 0, 0), (base, able)).unwrap();
    let read = (Rights::FD_READ, Rights::NONE);
    let file = program.open_with(dir, "file", (0, 0, 0), read).unwrap();
    assert_eq!(program.read(file, 10).unwrap(), b"x");
    assert_eq!(refused(program.read_at(file, 0, 10)), Errno::NotCapable);
    assert_eq!(refused(program.stat_open(file)), Errno::NotCapable);
    let write = (Rights::FD_WRITE, Rights::NONE);
    let refusal = program.open_with(dir, "file", (0, 0, 0), write);
    assert_eq!(refused(refusal), Errno::NotCapable);
    // A right to make, empty, look at or list is the directory's own.
    for (right, flags) in
        [(Rights::PATH_CREATE_FILE, CREATE), (Rights::PATH_FILESTAT_SET_SIZE, TRUNCATE)]
    {
        let dir = program.open_with(GIVEN, ".", (0, 0, 0), (base.without(right), able)).unwrap();
        assert_eq!(refused(program.look(dir, "file", 0, flags)), Errno::NotCapable);
        assert!(program.look(dir, "file", 0, 0).is_ok());
    }
    let none = program.look(GIVEN, ".", 0, 0).unwrap();
    assert_eq!(refused(program.look(none, "file", 0, 0)), Errno::NotCapable);
    assert_eq!(refused(program.list(none, 100, 0)), Errno::NotCapable);
    assert_eq!(refused(program.stat(none, "file", 0)), Errno::NotCapable);
    assert_eq!(refused(program.mkdir(none, "x")), Errno::NotCapable);
    assert_eq!(refused(program.symlink("x", none, "x")), Errno::NotCapable);
    assert_eq!(refused(program.rename(none, "file", GIVEN, "x")), Errno::NotCapable);
    assert_eq!(refused(program.rename(GIVEN, "file", none, "x")), Errno::NotCapable);
    assert_eq!(refused(program.link(0, none, "file", GIVEN, "x")), Errno::NotCapable);
    assert_eq!(refused(program.unlink(none, "file")), Errno::NotCapable);
}

#[test]
fn what_means_nothing_for_a_directory_is_not_granted_to_it() {
    let mut program = Program::new();
    let rights = (Rights::FD_SEEK.or(Rights::FD_READ), Rights::NONE);
    let dir = program.open_with(GIVEN, ".", (0, 2, 4), rights).unwrap();
    assert_eq!(program.status(dir), Ok((3, 0, Rights::NONE, Rights::NONE)));
    for fd in [dir, GIVEN] {
        assert_eq!(refused(program.seek(fd, 0, 1)), Errno::IsDirectory);
        assert_eq!(refused(program.tell(fd)), Errno::IsDirectory);
        assert_eq!(refused(program.read(fd, 1)), Errno::IsDirectory);
        assert_eq!(refused(program.read_at(fd, 0, 1)), Errno::IsDirectory);
        assert_eq!(refused(program.write(fd, b"x")), Errno::IsDirectory);
        assert_eq!(refused(program.write_at(fd, 0, b"x")), Errno::IsDirectory);
        assert_eq!(refused(program.context.fd_allocate(fd, 0, 1)), Errno::IsDirectory);
        assert_eq!(refused(program.context.fd_filestat_set_size(fd, 0)), Errno::IsDirectory);
    }
}

#[test]
fn a_descriptor_stands_where_it_was_moved() {
    let mut program = Program::new();
    let file = program.open(GIVEN, "file", CREATE).unwrap();
    assert_eq!((program.tell(file), program.write(file, &[1; 100])), (Ok(0), Ok(100)));
    assert_eq!((program.tell(file), program.seek(file, -50, 1)), (Ok(100), Ok(50)));
    assert_eq!((program.seek(file, 0, 0), program.seek(file, 1000, 1)), (Ok(0), Ok(1000)));
    for (by, whence) in [(-2000, 1), (-1, 0), (-101, 2), (i64::MAX, 1), (0, 3)] {
        assert_eq!(refused(program.seek(file, by, whence)), Errno::Invalid);
        assert_eq!(program.tell(file), Ok(1000));
    }
    assert_eq!(program.read(file, 10).unwrap(), b"");
    assert_eq!(program.write_at(file, 98, &[2; 4]), Ok(4));
    assert_eq!(program.read_at(file, 97, 10).unwrap(), [1, 2, 2, 2, 2]);
    assert_eq!(program.tell(file), Ok(1000));
    let teller = (Rights::FD_TELL, Rights::NONE);
    let file = program.open_with(GIVEN, "file", (0, 0, 0), teller).unwrap();
    assert_eq!((program.seek(file, 0, 1), program.tell(file)), (Ok(0), Ok(0)));
    assert_eq!(refused(program.seek(file, 1, 1)), Errno::NotCapable);
}

#[test]
fn what_appends_writes_to_the_end_until_it_is_told_otherwise() {
    let mut program = Program::new();
    let all = (Rights::FILE, Rights::NONE);
    let file = program.open_with(GIVEN, "file", (0, CREATE, APPEND), all).unwrap();
    assert_eq!(program.status(file).unwrap().1, 1);
    program.write(file, b"ab").unwrap();
    assert_eq!(program.seek(file, 0, 0), Ok(0));
    program.write(file, b"cd").unwrap();
    assert_eq!(program.tell(file), Ok(4));
    program.context.fd_fdstat_set_flags(file, 0).unwrap();
    assert_eq!(program.seek(file, 1, 0), Ok(1));
    program.write(file, b"x").unwrap();
    assert_eq!(program.content("file").unwrap(), b"axcd");
    assert_eq!(refused(program.context.fd_fdstat_set_flags(file, 32)), Errno::Invalid);
    assert_eq!(refused(program.context.fd_fdstat_set_flags(file, 1 << 16)), Errno::Invalid);
    // Safe before it returns: the flags stay known.
    let file = program.open_with(GIVEN, "file", (0, 0, 16 | 2 | 1), all).unwrap();
    assert_eq!((program.status(file).unwrap().1, program.write(file, b"y")), (19, Ok(1)));
    assert_eq!(program.content("file").unwrap(), b"axcdy");
}

#[test]
fn several_pieces_are_one_write_and_one_read() {
    let mut program = Program::new();
    let file = program.open(GIVEN, "file", CREATE).unwrap();
    program.memory.put(BUFFER, b"abcdef").unwrap();
    let pieces = [(BUFFER, 2), (BUFFER + 5, 0), (BUFFER + 3, 3)];
    for (at, (from, len)) in (0x5200..).step_by(8).zip(pieces) {
        program.memory.put_u32(at, from).unwrap();
        program.memory.put_u32(at + 4, len).unwrap();
    }
    program.context.fd_write(&mut program.memory[..], file, 0x5200, 3, 0x5000).unwrap();
    assert_eq!((program.memory[0x5000], program.content("file").unwrap()), (5, b"abdef".to_vec()));
    program.seek(file, 1, 0).unwrap();
    program.memory.put(BUFFER, &[0; 6]).unwrap();
    program.context.fd_read(&mut program.memory[..], file, 0x5200, 3, 0x5000).unwrap();
    assert_eq!((program.memory[0x5000], program.tell(file)), (4, Ok(5)));
    assert_eq!(program.memory.bytes(BUFFER, 6).unwrap(), b"bd\0ef\0");
}

#[test]
fn space_is_made_sure_of_and_sizes_are_set() {
    let mut program = Program::new();
    let file = program.open(GIVEN, "file", CREATE).unwrap();
    for (at, len, size) in [(0, 100, 100), (10, 10, 100), (90, 20, 110)] {
        program.context.fd_allocate(file, at, len).unwrap();
        assert_eq!(program.stat_open(file).unwrap().size, size);
    }
    assert_eq!(refused(program.context.fd_allocate(file, 0, 0)), Errno::Invalid);
    assert_eq!(refused(program.context.fd_allocate(file, u64::MAX, 1)), Errno::FileTooBig);
    program.context.fd_filestat_set_size(file, 5).unwrap();
    assert_eq!(program.read(file, 10).unwrap(), [0; 5]);
    assert_eq!(refused(program.context.fd_filestat_set_size(file, 1 << 63)), Errno::FileTooBig);
    program.context.fd_advise(file, 1, 2, 5).unwrap();
    assert_eq!(refused(program.context.fd_advise(file, 1, 2, 6)), Errno::Invalid);
    program.context.fd_sync(file).unwrap();
    program.context.fd_datasync(file).unwrap();
}

#[test]
fn numbers_move_and_nothing_else_does() {
    let mut program = Program::new();
    let (one, two) =
        (program.open(GIVEN, "one", CREATE).unwrap(), program.open(GIVEN, "two", CREATE).unwrap());
    assert_eq!((one, two), (4, 5));
    program.write(one, b"one").unwrap();
    program.context.fd_renumber(one, two).unwrap();
    assert_eq!(refused(program.close(one)), Errno::BadDescriptor);
    assert_eq!(program.tell(two), Ok(3));
    assert_eq!(refused(program.context.fd_renumber(two, one)), Errno::BadDescriptor);
    program.context.fd_renumber(two, two).unwrap();
    assert_eq!(program.open(GIVEN, "one", 0), Ok(4));
    // What a program was given and its streams are descriptors like others.
    program.context.fd_renumber(4, 1).unwrap();
    assert_eq!(program.write(1, b"ONE"), Ok(3));
    assert_eq!(program.content("one").unwrap(), b"ONE");
    program.close(GIVEN).unwrap();
    assert_eq!(refused(program.status(GIVEN)), Errno::BadDescriptor);
    assert_eq!(refused(program.stat(GIVEN, "one", 0)), Errno::BadDescriptor);
}

#[test]
fn what_a_program_was_given_has_a_name() {
    let mut program = Program::new();
    let memory = &mut program.memory[..];
    program.context.fd_prestat_get(memory, GIVEN, 0x5000).unwrap();
    assert_eq!(memory.bytes(0x5000, 8).unwrap(), [0, 0, 0, 0, 1, 0, 0, 0]);
    program.context.fd_prestat_dir_name(memory, GIVEN, BUFFER, 2).unwrap();
    assert_eq!(memory[BUFFER as usize], b'/');
    let short = program.context.fd_prestat_dir_name(memory, GIVEN, BUFFER, 0);
    assert_eq!(refused(short), Errno::NameTooLong);
    for other in [0, 4, u32::MAX] {
        let errno = refused(program.context.fd_prestat_get(memory, other, 0x5000));
        assert_eq!(errno, Errno::BadDescriptor);
    }
    // Several, each with what lies beneath it.
    program.make(GIVEN, "outside", b"");
    program.mkdir(GIVEN, "data").unwrap();
    program.context.give(b"data", b"/inside").unwrap();
    assert_eq!(program.context.give(b"nothing", b"/x"), Err(Errno::NotFound));
    assert_eq!(program.context.give(b"outside", b"/x"), Err(Errno::NotDirectory));
    assert_eq!(refused(program.stat(4, "outside", 0)), Errno::NotFound);
    let (_, _, base, inheriting) = program.status(4).unwrap();
    assert!(base.contains(Rights::PATH_OPEN) && inheriting.contains(Rights::FILE));
}

#[test]
fn listings_go_on_where_they_stopped() {
    let mut program = Program::new();
    program.mkdir(GIVEN, "dir").unwrap();
    let dir = program.open_dir(GIVEN, "dir").unwrap();
    let own = program.stat(GIVEN, "dir", 0).unwrap().ino;
    let (found, all) = program.list(dir, 256, 0).unwrap();
    let names: Vec<_> = found.iter().map(|(.., name)| name.as_str()).collect();
    assert_eq!((names, all, found[0].1, found[0].2), (vec![".", ".."], true, own, 3));
    for number in 0..100 {
        program.make(dir, &format!("file.{number}"), b"");
    }
    let (mut cookie, mut seen) = (0, Vec::new());
    loop {
        let (found, all) = program.list(dir, 256, cookie).unwrap();
        cookie = found.last().map_or(cookie, |last| last.0);
        seen.extend(found.into_iter().map(|(.., name)| name));
        // What comes and goes meanwhile does not disturb.
        if seen.len() >= 9 && program.stat(dir, "late", 0).is_err() {
            program.unlink(dir, "file.0").unwrap();
            program.make(dir, "late", b"");
        }
        if all {
            break;
        }
    }
    assert_eq!((seen.len(), seen.last().unwrap().as_str()), (103, "late"));
    assert!((0..100).all(|number| seen.contains(&format!("file.{number}"))));
    // A buffer that takes no entry is filled with a part of one.
    assert_eq!(program.list(dir, 10, 0).unwrap(), (vec![], false));
    assert_eq!(program.list(dir, 10, u64::MAX).unwrap(), (vec![], true));
    let file = program.open(dir, "late", 0).unwrap();
    assert_eq!(refused(program.list(file, 10, 0)), Errno::NotDirectory);
}

#[test]
fn times_are_set_where_they_are_meant() {
    let mut program = Program::new();
    program.make(GIVEN, "file", b"");
    program.symlink("file", GIVEN, "link").unwrap();
    program.set_times("file", 0, (1_000_000_007, 2_000_000_009), 1 | 4).unwrap();
    let stat = program.stat(GIVEN, "file", 0).unwrap();
    assert_eq!((stat.atim, stat.mtim), (1_000_000_007, 2_000_000_009));
    program.set_times("link", 0, (5, 6), 4).unwrap();
    assert_eq!(program.stat(GIVEN, "link", 0).unwrap().mtim, 6);
    assert_eq!(program.stat(GIVEN, "link", FOLLOW).unwrap().mtim, 2_000_000_009);
    program.set_times("link", FOLLOW, (5, 6), 4).unwrap();
    let stat = program.stat(GIVEN, "file", 0).unwrap();
    assert_eq!((stat.atim, stat.mtim), (1_000_000_007, 6));
    program.set_times("file", 0, (0, 0), 8).unwrap();
    assert!(program.stat(GIVEN, "file", 0).unwrap().mtim > 1_700_000_000_000_000_000);
    let file = program.open(GIVEN, "file", 0).unwrap();
    for flags in [1 | 2, 4 | 8, 16] {
        assert_eq!(refused(program.set_times("file", 0, (1, 1), flags)), Errno::Invalid);
        let open = program.context.fd_filestat_set_times(file, 1, 1, flags);
        assert_eq!(refused(open), Errno::Invalid);
    }
    program.context.fd_filestat_set_times(file, 7, 8, 5).unwrap();
    let stat = program.stat_open(file).unwrap();
    assert_eq!((stat.atim, stat.mtim), (7, 8));
}

#[test]
fn streams_are_neither_files_nor_directories() {
    let mut program = Program::new();
    program.context.world().input = b"hello".to_vec();
    assert_eq!(program.read(0, 3).unwrap(), b"hel");
    assert_eq!(program.read(0, 30).unwrap(), b"lo");
    assert_eq!(program.read(0, 30).unwrap(), b"");
    assert_eq!((program.write(1, b"out "), program.write(2, b"err")), (Ok(4), Ok(3)));
    assert_eq!(program.context.world().output, b"out err");
    assert_eq!(refused(program.write(0, b"x")), Errno::NotCapable);
    assert_eq!(refused(program.read(1, 1)), Errno::NotCapable);
    assert_eq!(refused(program.seek(1, 0, 0)), Errno::NoSeek);
    assert_eq!(refused(program.look(1, "x", 0, 0)), Errno::NotDirectory);
    assert_eq!(program.stat_open(1).unwrap().filetype, 0);
    assert_eq!(refused(program.context.sock_shutdown(1, 1)), Errno::NotSocket);
    assert_eq!(refused(program.context.sock_shutdown(9, 1)), Errno::BadDescriptor);
    for fd in 0..3 {
        program.close(fd).unwrap();
        assert_eq!(refused(program.status(fd)), Errno::BadDescriptor);
    }
}

#[test]
fn every_function_is_there() {
    assert_eq!(NAMES.len(), 46);
    assert!(NAMES.iter().enumerate().all(|(at, name)| !NAMES[..at].contains(name)));
}

#[test]
fn it_is_the_same_with_what_is_linked_into_a_module() {
    // A module is given one directory, and prints to the system's log.
    common::door::again_linked(&["what_a_program_was_given_has_a_name", "streams_are_neither"]);
}
