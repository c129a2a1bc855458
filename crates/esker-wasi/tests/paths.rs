//! Paths: what they lead to, that they never lead out, and what a slash behind them means.

mod common;

use common::{CREATE, DIRECTORY, EXCLUSIVE, FOLLOW, GIVEN, Program, TRUNCATE, files, refused};
use esker_wasi::{Errno, Rights};

#[test]
fn paths_go_up_and_down_but_not_out() {
    let mut program = Program::new();
    program.mkdir(GIVEN, "given").unwrap();
    program.make(GIVEN, "secret", b"no");
    let dir = program.open_dir(GIVEN, "given").unwrap();
    program.mkdir(dir, "dir").unwrap();
    program.mkdir(dir, "dir/nested/").unwrap();
    program.make(dir, "dir/nested/file", b"");
    let winding = "dir/.//nested/../../dir/nested/../nested///./file";
    let file = program.look(dir, winding, 0, 0).unwrap();
    program.close(file).unwrap();
    for out in
        ["/dir/nested/file", "/", "..", "../secret", "dir/nested/../../../given", "./../secret"]
    {
        assert_eq!(refused(program.look(dir, out, 0, 0)), Errno::NotPermitted, "{out}");
        assert_eq!(refused(program.stat(dir, out, FOLLOW)), Errno::NotPermitted, "{out}");
        assert_eq!(refused(program.mkdir(dir, out)), Errno::NotPermitted, "{out}");
        let renamed = program.rename(dir, "dir", dir, out);
        assert_ne!(renamed, Ok(()), "{out}");
    }
    assert_eq!(refused(program.look(dir, "dir/nested/file\0", 0, 0)), Errno::Invalid);
    for slash in ["dir/nested/file/", "dir/nested/file///"] {
        assert_eq!(refused(program.look(dir, slash, 0, 0)), Errno::NotDirectory);
    }
    for slash in ["dir/nested/", "dir/nested///", "dir/nested/."] {
        let nested = program.look(dir, slash, 0, 0).unwrap();
        program.close(nested).unwrap();
    }
    assert_eq!(refused(program.look(dir, "", 0, 0)), Errno::NotFound);
    assert_eq!(refused(program.look(dir, &"x".repeat(256), 0, 0)), Errno::NameTooLong);
    assert_eq!(refused(program.look(dir, &"x/".repeat(2100), 0, 0)), Errno::NameTooLong);
}

#[test]
fn a_symbolic_link_leads_on_but_not_out() {
    let mut program = Program::new();
    program.mkdir(GIVEN, "given").unwrap();
    program.make(GIVEN, "secret", b"no");
    // Somebody who was given more makes them.
    program.symlink("../secret", GIVEN, "given/out").unwrap();
    program.symlink("..", GIVEN, "given/up").unwrap();
    program.symlink("sub/../file", GIVEN, "given/in").unwrap();
    program.mkdir(GIVEN, "given/sub").unwrap();
    program.make(GIVEN, "given/file", b"yes");
    let dir = program.open_dir(GIVEN, "given").unwrap();
    for out in ["out", "up", "up/secret", "up/given/file", "sub/../up/secret"] {
        assert_eq!(refused(program.look(dir, out, FOLLOW, 0)), Errno::NotPermitted, "{out}");
        assert_eq!(refused(program.look(dir, out, FOLLOW, CREATE)), Errno::NotPermitted, "{out}");
        assert_eq!(refused(program.stat(dir, out, FOLLOW)), Errno::NotPermitted, "{out}");
    }
    assert_eq!(program.stat(dir, "in", FOLLOW).unwrap().size, 3);
    assert_eq!(program.stat(dir, "in", 0).unwrap().filetype, 7);
    assert_eq!(refused(program.symlink("/secret", dir, "absolute")), Errno::NotPermitted);
    // One that leads nowhere yet makes what it names.
    program.symlink("sub/new", dir, "dangling").unwrap();
    let made = program.look(dir, "dangling", FOLLOW, CREATE).unwrap();
    program.close(made).unwrap();
    assert_eq!(program.names("given/sub"), ["new"]);
    let exclusive = program.look(dir, "dangling", FOLLOW, CREATE | EXCLUSIVE);
    assert_eq!(refused(exclusive), Errno::Exists);
}

#[test]
fn links_that_are_not_followed_are_not_opened() {
    let mut program = Program::new();
    program.symlink("target", GIVEN, "link").unwrap();
    assert_eq!(refused(program.look(GIVEN, "link", 0, 0)), Errno::Loop);
    assert_eq!(refused(program.look(GIVEN, "link", FOLLOW, 0)), Errno::NotFound);
    program.mkdir(GIVEN, "target").unwrap();
    assert_eq!(refused(program.look(GIVEN, "link", 0, DIRECTORY)), Errno::Loop);
    let dir = program.look(GIVEN, "link", FOLLOW, DIRECTORY).unwrap();
    program.close(dir).unwrap();
    program.rmdir(GIVEN, "target").unwrap();
    program.make(GIVEN, "target", b"");
    assert_eq!(refused(program.look(GIVEN, "link", 0, 0)), Errno::Loop);
    let as_directory = program.look(GIVEN, "link", FOLLOW, DIRECTORY);
    assert_eq!(refused(as_directory), Errno::NotDirectory);
    program.unlink(GIVEN, "link").unwrap();
    program.symlink("link", GIVEN, "link").unwrap();
    assert_eq!(refused(program.look(GIVEN, "link", FOLLOW, 0)), Errno::Loop);
    assert_eq!(refused(program.look(GIVEN, "link/x", FOLLOW, 0)), Errno::Loop);
}

#[test]
fn the_target_of_a_link_is_told_as_far_as_there_is_room() {
    let mut program = Program::new();
    program.symlink("target", GIVEN, "link").unwrap();
    assert_eq!(program.readlink("link", 10).unwrap(), "target");
    assert_eq!(program.readlink("link", 4).unwrap(), "targ");
    assert_eq!(program.readlink("link", 0).unwrap(), "");
    program.make(GIVEN, "file", b"");
    assert_eq!(refused(program.readlink("file", 10)), Errno::Invalid);
}

#[test]
fn a_slash_behind_a_name_says_directory() {
    let mut program = Program::new();
    program.make(GIVEN, "file", b"");
    program.mkdir(GIVEN, "dir").unwrap();
    assert_eq!(refused(program.unlink(GIVEN, "dir")), Errno::IsDirectory);
    assert_eq!(refused(program.unlink(GIVEN, "dir/")), Errno::IsDirectory);
    assert_eq!(refused(program.unlink(GIVEN, "file/")), Errno::NotDirectory);
    assert_eq!(refused(program.rmdir(GIVEN, "file/")), Errno::NotDirectory);
    assert_eq!(refused(program.rmdir(GIVEN, "file")), Errno::NotDirectory);
    assert_eq!(refused(program.symlink("x", GIVEN, "new/")), Errno::NotFound);
    assert_eq!(refused(program.symlink("x", GIVEN, "dir/")), Errno::Exists);
    assert_eq!(refused(program.symlink("x", GIVEN, "file/")), Errno::NotDirectory);
    assert_eq!(refused(program.symlink("x", GIVEN, "file")), Errno::Exists);
    assert_eq!(refused(program.link(0, GIVEN, "file", GIVEN, "new/")), Errno::NotFound);
    assert_eq!(refused(program.look(GIVEN, "new/", 0, CREATE)), Errno::IsDirectory);
    assert_eq!(refused(program.rename(GIVEN, "file/", GIVEN, "new")), Errno::NotDirectory);
    assert_eq!(refused(program.rename(GIVEN, "file", GIVEN, "new/")), Errno::NotDirectory);
    for (old, new) in [("dir/", "new"), ("new", "dir/"), ("dir/", "new/"), ("new", "dir")] {
        program.rename(GIVEN, old, GIVEN, new).unwrap();
    }
    program.rmdir(GIVEN, "dir/").unwrap();
    assert_eq!(program.names("."), ["file"]);
}

#[test]
fn names_are_moved_as_posix_has_it() {
    let mut program = Program::new();
    program.mkdir(GIVEN, "source").unwrap();
    program.mkdir(GIVEN, "target").unwrap();
    program.rename(GIVEN, "source", GIVEN, "target").unwrap();
    assert_eq!(refused(program.look(GIVEN, "source", 0, DIRECTORY)), Errno::NotFound);
    program.mkdir(GIVEN, "source").unwrap();
    program.make(GIVEN, "target/file", b"");
    assert_eq!(refused(program.rename(GIVEN, "source", GIVEN, "target")), Errno::NotEmpty);
    assert_eq!(refused(program.rename(GIVEN, "source", GIVEN, "target/file")), Errno::NotDirectory);
    assert_eq!(refused(program.rename(GIVEN, "target", GIVEN, "target/in")), Errno::Invalid);
    program.make(GIVEN, "one", b"1");
    assert_eq!(refused(program.rename(GIVEN, "one", GIVEN, "source")), Errno::IsDirectory);
    program.make(GIVEN, "two", b"2");
    program.rename(GIVEN, "one", GIVEN, "two").unwrap();
    program.rename(GIVEN, "two", GIVEN, "two").unwrap();
    assert_eq!(program.content("two").unwrap(), b"1");
    assert_eq!(refused(program.rename(GIVEN, ".", GIVEN, "x")), Errno::Busy);
    assert_eq!(refused(program.rmdir(GIVEN, "target")), Errno::NotEmpty);
    assert_eq!(refused(program.rmdir(GIVEN, "target/.")), Errno::Invalid);
    assert_eq!(refused(program.mkdir(GIVEN, ".")), Errno::Exists);
    assert_eq!(refused(program.mkdir(GIVEN, "no/dir")), Errno::NotFound);
}

#[test]
fn a_file_has_as_many_names_as_it_is_given() {
    let mut program = Program::new();
    program.make(GIVEN, "file", b"x");
    program.mkdir(GIVEN, "dir").unwrap();
    let dir = program.open_dir(GIVEN, "dir").unwrap();
    program.link(0, GIVEN, "file", dir, "link").unwrap();
    let (file, link) = (program.stat(GIVEN, "file", 0), program.stat(dir, "link", 0));
    assert_eq!(file, link);
    assert_eq!(file.unwrap().nlink, 2);
    for taken in ["file", "dir", "dir/link"] {
        assert_eq!(refused(program.link(0, GIVEN, "file", GIVEN, taken)), Errno::Exists, "{taken}");
    }
    assert_eq!(refused(program.link(0, GIVEN, "dir", GIVEN, "new")), Errno::NotPermitted);
    program.symlink("nothing", GIVEN, "dangling").unwrap();
    program.link(0, GIVEN, "dangling", GIVEN, "same").unwrap();
    assert_eq!(program.readlink("same", 100).unwrap(), "nothing");
    assert_eq!(refused(program.link(0, GIVEN, "file", GIVEN, "same")), Errno::Exists);
    let followed = program.link(FOLLOW, GIVEN, "dangling", GIVEN, "new");
    assert_eq!(refused(followed), Errno::NotFound);
}

#[test]
fn what_is_open_outlives_its_names() {
    let files = files();
    let mut program = Program::over(&files);
    let file = program.open(GIVEN, "file", CREATE).unwrap();
    program.mkdir(GIVEN, "dir").unwrap();
    let dir = program.open_dir(GIVEN, "dir").unwrap();
    program.unlink(GIVEN, "file").unwrap();
    program.rmdir(GIVEN, "dir").unwrap();
    assert_eq!(program.write(file, b"still here"), Ok(10));
    assert_eq!(program.read_at(file, 6, 4).unwrap(), b"here");
    assert_eq!(refused(program.look(dir, "new", 0, CREATE)), Errno::NotFound);
    assert!(files.has_orphans());
    drop(program);
    assert!(!files.has_orphans());
    assert_eq!(files.statfs().inodes, 1);
}

#[test]
fn what_is_opened_is_what_was_asked_for() {
    let mut program = Program::new();
    assert_eq!(refused(program.look(GIVEN, "file", 0, 0)), Errno::NotFound);
    program.make(GIVEN, "file", b"content");
    assert_eq!(refused(program.look(GIVEN, "file", 0, CREATE | EXCLUSIVE)), Errno::Exists);
    assert_eq!(refused(program.look(GIVEN, "file", 0, DIRECTORY)), Errno::NotDirectory);
    assert_eq!(refused(program.look(GIVEN, "file", 0, DIRECTORY | CREATE)), Errno::Invalid);
    assert_eq!(refused(program.look(GIVEN, "file", 0, 16)), Errno::Invalid);
    let file = program.look(GIVEN, "file", 0, 0).unwrap();
    assert_eq!(refused(program.look(file, "x", 0, CREATE)), Errno::NotDirectory);
    let write = (Rights::FD_READ.or(Rights::FD_WRITE), Rights::NONE);
    let opened = program.open_with(GIVEN, ".", (0, DIRECTORY, 0), write);
    assert_eq!(refused(opened), Errno::IsDirectory);
    assert_eq!(refused(program.look(GIVEN, ".", 0, TRUNCATE)), Errno::IsDirectory);
    let emptied = program.look(GIVEN, "file", 0, TRUNCATE).unwrap();
    program.close(emptied).unwrap();
    assert_eq!(program.content("file").unwrap(), b"");
}

#[test]
fn it_is_the_same_with_what_is_linked_into_a_module() {
    // Here it looks at the files from outside.
    common::door::again_linked(&["what_is_open_outlives_its_names"]);
}
