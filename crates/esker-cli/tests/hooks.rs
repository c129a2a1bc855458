//! Programs and lists that choose what is packed and in which order, and what was read once and is wanted first.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Scratch, done, errors, esker, text};

/// Twenty files of noise, so that blocks hold what they hold.
fn tree(scratch: &Scratch) -> PathBuf {
    let tree = scratch.dir("tree");
    fs::create_dir(tree.join("sub")).unwrap();
    let mut state = 7u64;
    for number in 0..20 {
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let bytes: Vec<u8> = (0..30_000).map(|_| noise()).collect();
        fs::write(tree.join(format!("sub/{number:02}")), bytes).unwrap();
    }
    tree
}

fn pack(tree: &Path, image: &Path, more: &[&str]) -> Output {
    let all = ["pack", text(tree), "-o", text(image), "--force", "-l", "0", "--block-size", "32K"];
    esker([&all[..], more].concat())
}

/// Where a file lies in an image that is not compressed.
fn place(image: &Path, tree: &Path, name: &str) -> usize {
    let (image, file) = (fs::read(image).unwrap(), fs::read(tree.join("sub").join(name)).unwrap());
    image.windows(64).position(|bytes| *bytes == file[..64]).unwrap()
}

#[test]
fn a_program_leaves_files_out() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    // It knows things by their numbers and by their paths; what it does not name stays.
    let program = "sed -n \
                   -e 's/.*\"id\":\\([0-9]*\\),.*sub\\/1[0-9]\".*/{\"id\":\\1,\"take\":false}/p' \
                   -e '$a{\"path\":\"sub/03\",\"take\":false}'";
    done(&pack(&tree, &image, &["--filter-by", program]));
    let listed = done(&esker(["find", text(&image)]));
    let left: Vec<_> = listed.lines().filter_map(|line| line.rsplit_once("sub/")).collect();
    assert_eq!(left.len(), 9, "{listed}");
    assert!(!listed.contains("sub/03") && !listed.contains("sub/11"));
    assert!(done(&esker(["check", "--full", text(&image)])).contains("is whole"));
}

#[test]
fn files_come_in_the_order_that_was_given() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    let right = scratch.path("right.esker");
    done(&pack(&tree, &right, &[]));
    let list = scratch.file("list", b"./sub/15\nsub/04\n/sub/09\n");
    let program = "sed -n -e \
                   's/.*\"id\":\\([0-9]*\\),.*sub\\/\\(15\\|04\\|09\\)\".*/\\2 {\"id\":\\1}/p' \
                   | sort -r | awk '{ print $2 }'";
    for (more, order) in [
        (vec!["--order".to_owned(), format!("explicit:{}", text(&list))], ["15", "04", "09"]),
        (vec!["--order-by".to_owned(), program.to_owned()], ["15", "09", "04"]),
        (vec!["--hot".to_owned(), text(&list).to_owned()], ["15", "04", "09"]),
    ] {
        let more: Vec<_> = more.iter().map(String::as_str).collect();
        done(&pack(&tree, &image, &more));
        let places = order.map(|name| place(&image, &tree, name));
        assert!(places.is_sorted(), "{more:?}: {places:?}");
        assert!(places[2] < place(&image, &tree, "00"), "they come first: {places:?}");
        assert_eq!(done(&esker(["diff", text(&right), text(&image)])), "", "nothing else differs");
    }
    // The same of an image that is there.
    let hot = scratch.path("hot.esker");
    done(&esker(["repack", text(&right), "-o", text(&hot), "-l", "0", "--hot", text(&list)]));
    assert_eq!(done(&esker(["diff", text(&right), text(&hot)])), "");
    assert!(place(&hot, &tree, "09") < place(&hot, &tree, "00"));
}

#[test]
fn what_makes_no_sense_stops_or_is_passed_over() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    let list = scratch.file("list", b"sub/07\nno/such\n");
    let explicit = format!("explicit:{}", text(&list));
    for (more, why) in [
        (["--order-by", "echo '{\"id\":3}'; echo nonsense"], "answered `nonsense`: it is no JSON"),
        (["--order-by", "echo '{\"id\":99}'"], "there is no such id"),
        (["--order-by", "echo '{\"path\":\"../x\"}'"], "there is no such path"),
        (["--order-by", "echo '{}'"], "it names nothing"),
        (["--filter-by", "echo '{\"id\":1,\"take\":7}'"], "neither true nor false"),
        (["--filter-by", "exit 9"], "failed with status 9"),
        (["--filter-by", "sleep 1000"], "said nothing for 1 seconds"),
        (["--order", &explicit], "names what is not there: no/such"),
    ] {
        let usual = ["--answer-timeout", "1"];
        let failed = pack(&tree, &image, &[&more[..], &usual].concat());
        assert_eq!(failed.status.code(), Some(4), "{more:?}");
        assert!(errors(&failed).contains(why), "{more:?}: {}", errors(&failed));
        assert!(!image.exists(), "{more:?}");
        let skip = [&more[..], &usual, &["--on-bad-answer", "skip"]].concat();
        let went_on = pack(&tree, &image, &skip);
        assert!(errors(&went_on).contains(why), "{more:?}: {}", errors(&went_on));
        done(&went_on);
        assert!(done(&esker(["check", "--full", text(&image)])).contains("is whole"));
        fs::remove_file(&image).unwrap();
    }
    for wrong in [vec!["--order", "random"], vec!["--order", "explicit:/no/such/list"]] {
        assert!(!pack(&tree, &image, &wrong).status.success() && !image.exists());
    }
}

#[test]
fn what_is_read_of_a_mount_is_told() {
    if !common::can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    done(&pack(&tree, &image, &[]));
    let (dir, profile) = (scratch.dir("mnt"), scratch.path("profile"));
    done(&esker(["mount", "--profile", text(&profile), text(&image), text(&dir)]));
    for name in ["sub/12", "sub/03", "sub/12", "sub/17"] {
        assert!(fs::read(dir.join(name)).unwrap() == fs::read(tree.join(name)).unwrap());
    }
    done(&esker(["umount", text(&dir)]));
    let told = || fs::read_to_string(&profile).unwrap();
    assert!(common::within_seconds(|| told().ends_with("17\n")), "{}", told());
    assert_eq!(told(), "sub/12\nsub/03\nsub/17\n");
    let hot = scratch.path("hot.esker");
    done(&pack(&tree, &hot, &["--hot", text(&profile)]));
    assert!(place(&hot, &tree, "17") < place(&hot, &tree, "00"));
    let bad = esker(["mount", "--profile", text(&profile), "mem:", text(&dir)]);
    assert_eq!(bad.status.code(), Some(2), "{}", errors(&bad));
}
