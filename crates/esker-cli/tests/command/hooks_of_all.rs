//! Programs, scripts and lists that choose of whatever is packed: archives, images, volumes, and several side by side.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::rich::rich_tree;
use crate::common::{ESKER, Scratch, can_mount, done, errors, esker, noise, text};

/// The quickest way to an image in which bytes lie as they are.
const PLAIN: [&str; 5] = ["--force", "-l", "0", "--block-size", "32K"];

/// Twelve files of noise, and another name for the first.
fn tree(scratch: &Scratch, name: &str, seed: u64) -> PathBuf {
    let tree = scratch.dir(name);
    fs::create_dir(tree.join("sub")).unwrap();
    for number in 0..12 {
        let bytes = noise(seed + number, 30_000 + number as usize);
        fs::write(tree.join(format!("sub/{number:02}")), bytes).unwrap();
    }
    fs::hard_link(tree.join("sub/00"), tree.join("zero")).unwrap();
    tree
}

/// As GNU tar packs it, in the order of paths.
fn tar(tree: &Path, archive: &Path, more: &[&str]) {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--format=posix", "-C", text(tree)]).args(more);
    assert!(tar.args(["-cf", text(archive), "."]).status().unwrap().success());
}

/// Packs what is there under these names, the first of which may be `-` for what comes in.
fn pack(inputs: &[&str], piped: &Path, image: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(ESKER);
    command.arg("pack").args(inputs).args(["-o", text(image)]).args(PLAIN).args(more);
    command.stdin(File::open(piped).unwrap()).output().unwrap()
}

/// Where the bytes of a file begin in an image that is not compressed.
fn place(image: &Path, file: &Path) -> usize {
    let (image, file) = (fs::read(image).unwrap(), fs::read(file).unwrap());
    image.windows(64).position(|bytes| *bytes == file[..64]).unwrap()
}

fn places(image: &Path, tree: &Path, names: &[&str]) -> Vec<usize> {
    names.iter().map(|name| place(image, &tree.join(name))).collect()
}

/// The tree as a directory, two archives, an image and a volume; `-` is what comes in.
fn kinds(scratch: &Scratch, tree: &Path) -> (Vec<String>, PathBuf) {
    let [plain, gzip, image, volume] =
        ["t.tar", "t.tar.gz", "t.esker", "t.vol"].map(|name| scratch.path(name));
    self::tar(tree, &plain, &[]);
    self::tar(tree, &gzip, &["--gzip"]);
    done(&esker(["pack", text(tree), "-o", text(&image)]));
    done(&esker(["mkfs", text(&volume), "--size", "64M", "--from", text(tree)]));
    let kinds = [tree, &plain, Path::new("-"), &image, &volume].map(|path| text(path).to_owned());
    (kinds.to_vec(), gzip)
}

/// Every way to choose, of everything that is packed: what comes out is what comes out without, in another order.
#[test]
fn whatever_is_packed_is_asked_about() {
    let scratch = Scratch::new();
    let tree = tree(&scratch, "tree", 100);
    let (kinds, gzip) = kinds(&scratch, &tree);
    let [right, part, image] = ["right", "part", "x"].map(|name| scratch.path(name));
    let list = scratch.file("list", b"sub/07\nzero\nsub/03\n");
    let explicit = format!("explicit:{}", text(&list));
    let filter =
        "sed -n 's/.*\"id\":\\([0-9]*\\),.*sub\\/0[3-5]\".*/{\"id\":\\1,\"take\":false}/p'";
    let order = "cat > /dev/null; for path in sub/07 zero sub/03; do \
                 echo \"{\\\"path\\\":\\\"$path\\\"}\"; done";
    let script = scratch.file(
        "choose.lua",
        br#"
            function filter(entry)
                assert(entry.kind == (entry.path == "sub" and "directory" or "file"))
                return not entry.name:match("^0[3-5]$")
            end
            function order(entries)
                assert(#entries == 10 and entries[1].size == 30000)
                assert(entries[1].mtime > 1700000000)
                return { "sub/07", "zero", "sub/11" }
            end
        "#,
    );
    for kind in &kinds {
        let pack = |image: &Path, more: &[&str]| done(&pack(&[kind], &gzip, image, more));
        pack(&right, &[]);
        pack(&part, &["--exclude", "0[3-5]"]);
        for more in [["--order", &explicit], ["--order-by", order], ["--hot", text(&list)]] {
            pack(&image, &more);
            let places = places(&image, &tree, &["sub/07", "zero", "sub/03", "sub/01", "sub/02"]);
            assert!(places.is_sorted(), "{kind} {more:?}: {places:?}");
            assert_eq!(done(&esker(["diff", text(&right), text(&image)])), "", "{kind} {more:?}");
            assert!(done(&esker(["check", "--full", text(&image)])).contains("is whole"));
        }
        pack(&image, &["--filter-by", filter]);
        assert_eq!(done(&esker(["diff", text(&part), text(&image)])), "", "{kind}");
        pack(&image, &["--script", text(&script)]);
        assert_eq!(done(&esker(["diff", text(&part), text(&image)])), "", "{kind}");
        let places = places(&image, &tree, &["sub/07", "sub/00", "sub/11", "sub/01"]);
        assert!(places.is_sorted(), "{kind}: {places:?}");
        let was = fs::read(&image).unwrap();
        pack(&image, &["--script", text(&script)]);
        assert!(fs::read(&image).unwrap() == was, "{kind}: the same every time");
    }
}

/// What waits beside the output is packed as if it had not.
#[test]
fn an_archive_that_waits_loses_nothing() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (tree, out) = (rich_tree(&scratch), scratch.dir("out"));
    fs::remove_file(tree.join("socket")).unwrap();
    let [all, some] = ["all.tar", "some.tar"].map(|name| scratch.path(name));
    self::tar(&tree, &all, &["--sparse", "--acls", "--xattrs", "--xattrs-include=*"]);
    // It does not say what the root is.
    let words = ["--sort=name", "-C", text(&tree), "-cf", text(&some), "a", "plain"];
    assert!(Command::new("tar").args(words).status().unwrap().success());
    let [direct, waited] = ["direct.esker", "waited.esker"].map(|name| out.join(name));
    for (archive, more) in [
        (&all, &["--all-times"][..]),
        (&all, &["--owner", "5:6", "--chmod", "D700,F600", "--umask", "22"]),
        (&some, &["--owner", "5:6", "--chmod", "D700"]),
        (&some, &["--time", "7"]),
    ] {
        let pack = |image: &Path, hooks: &[&str]| {
            let pack = ["pack", text(archive), "-o", text(image), "--force"];
            done(&esker([&pack[..], more, hooks].concat()));
            fs::read(image).unwrap()
        };
        let asked = pack(&waited, &["--filter-by", "cat > /dev/null"]);
        assert!(pack(&direct, &[]) == asked, "{more:?}");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2, "nothing is left beside them");
}

#[test]
fn an_archive_that_is_wrong_is_told_as_ever() {
    let scratch = Scratch::new();
    let (tree, out) = (tree(&scratch, "tree", 100), scratch.dir("out"));
    let (archive, image) = (scratch.path("t.tar"), out.join("x.esker"));
    self::tar(&tree, &archive, &[]);
    let asked = scratch.path("asked");
    let program = format!("cat > '{}'", text(&asked));
    let whole = fs::read(&archive).unwrap();
    for (bytes, why) in [(&whole[..100_000], "cut short"), (&[7; 4096], "checksum"), (&[], "empty")]
    {
        fs::write(&archive, bytes).unwrap();
        let [plain, hooked] = [&[][..], &["--filter-by", &program]]
            .map(|more| pack(&[text(&archive)], &archive, &image, more));
        assert!(errors(&plain).contains(why), "{}", errors(&plain));
        assert_eq!(errors(&hooked), errors(&plain));
        assert_eq!(hooked.status.code(), plain.status.code());
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{why}: nothing is left behind");
        assert!(!asked.exists(), "{why}: nobody is asked about a part of it");
    }
}

/// Files of several trees come in one order, whatever these are.
#[test]
fn files_of_several_trees_alternate() {
    let scratch = Scratch::new();
    let (old, new) = (tree(&scratch, "old", 100), tree(&scratch, "new", 200));
    let [right, image] = ["right", "x"].map(|name| scratch.path(name));
    let names = ["old/sub/07", "IN/sub/03", "old/sub/05", "IN/zero", "IN/sub/02", "old/zero"];
    let (kinds, gzip) = kinds(&scratch, &new);
    for kind in &kinds {
        let name = Path::new(kind).file_name().map_or("root", |name| name.to_str().unwrap());
        let name = if kind == "-" { "root" } else { name };
        let list = names.map(|path| path.replace("IN", name) + "\n").concat();
        let list = scratch.file("list", list.as_bytes());
        let explicit = format!("explicit:{}", text(&list));
        let inputs = [text(&old), kind];
        done(&pack(&inputs, &gzip, &right, &[]));
        for more in [["--order", &explicit], ["--hot", text(&list)]] {
            done(&pack(&inputs, &gzip, &image, &more));
            assert_eq!(done(&esker(["diff", text(&right), text(&image)])), "", "{kind}");
            let files = names.map(|path| scratch.path(path.replace("IN", "new")));
            let places = files.map(|file| place(&image, &file));
            assert!(places.is_sorted(), "{kind} {more:?}: {places:?}");
            let rest = ["old/sub/01", "new/sub/01"].map(|path| place(&image, &scratch.path(path)));
            assert!(places[5] < rest[0] && rest.is_sorted(), "{kind} {more:?}: {rest:?}");
            let again = scratch.path("again");
            done(&pack(&inputs, &gzip, &again, &more));
            assert!(fs::read(&again).unwrap() == fs::read(&image).unwrap(), "{kind} {more:?}");
        }
    }
}

/// A tree that stands beside others is a thing as all that is in it.
#[test]
fn one_of_several_trees_is_left_out() {
    let scratch = Scratch::new();
    let (old, new) = (tree(&scratch, "old", 100), tree(&scratch, "new", 200));
    let [archive, image] = ["t.tar", "x"].map(|name| scratch.path(name));
    self::tar(&new, &archive, &[]);
    let told = scratch.path("told");
    let out =
        format!("tee '{}' > /dev/null; echo '{{\"path\":\"old\",\"take\":false}}'", text(&told));
    let inputs = [text(&old), text(&archive), text(&new)];
    // What is named in a tree that is left out stays out.
    let list = scratch.file("list", b"old/sub/01\nnew/sub/03\n");
    let explicit = format!("explicit:{}", text(&list));
    let more = ["--filter-by", &out, "--order", &explicit, "--exclude", "0[7-9]"];
    done(&pack(&inputs, &archive, &image, &more));
    let told = fs::read_to_string(told).unwrap();
    let told: Vec<serde_json::Value> =
        told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let each = told.iter().map(|thing| (thing["path"].as_str().unwrap(), thing["kind"].as_str()));
    let each: Vec<_> = each.collect();
    assert_eq!(each[..2], [("old", Some("directory")), ("old/sub", Some("directory"))]);
    assert_eq!((each[12], each[24].0), (("t.tar", Some("directory")), "new"));
    assert_eq!(each[34..], [("new/sub/11", Some("file")), ("new/zero", Some("file"))]);
    let listed = done(&esker(["find", text(&image)]));
    assert!(!listed.contains("old") && listed.contains("t.tar/sub/06"), "{listed}");
    assert!(place(&image, &new.join("sub/03")) < place(&image, &new.join("sub/00")));
}

#[test]
fn nonsense_is_told_the_same_of_everything() {
    let scratch = Scratch::new();
    let (tree, out) = (tree(&scratch, "tree", 100), scratch.dir("out"));
    let (kinds, gzip) = kinds(&scratch, &tree);
    let image = out.join("x.esker");
    let unknown = scratch.file("unknown", b"sub/07\nno/such\n");
    let directory = scratch.file("directory", b"sub\nsub/07\n");
    let wrong = scratch.file("wrong.lua", b"function order(all) return {'sub'} end");
    let [unknown, directory] = [unknown, directory].map(|file| format!("explicit:{}", text(&file)));
    for (more, why) in [
        (["--order-by", "echo '{\"id\":99}'"], "there is no such id"),
        (["--filter-by", "echo '{\"id\":1,\"take\":7}'"], "neither true nor false"),
        (["--filter-by", "exit 9"], "failed with status 9"),
        (["--order-by", "sleep 1000"], "said nothing for 1 seconds"),
        (["--order", &unknown], "names no/such: it is not there"),
        (["--order", &directory], "names sub: it is a directory"),
        (["--hot", &unknown["explicit:".len()..]], "names no/such: it is not there"),
        (["--script", text(&wrong)], "it is a directory, and only files"),
    ] {
        let usual = [&more[..], &["--answer-timeout", "1"]].concat();
        let again = |more: &[&str]| {
            let old = scratch.path("t.esker");
            let all = ["repack", text(&old), "-o", text(&image)];
            esker([&all[..], &PLAIN, more].concat())
        };
        let told: Vec<_> = kinds.iter().map(|kind| pack(&[kind], &gzip, &image, &usual)).collect();
        for told in told.iter().chain([&again(&usual)]) {
            assert_eq!(told.status.code(), Some(4), "{more:?}: {}", errors(told));
            assert!(errors(told).contains(why), "{more:?}: {}", errors(told));
            assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{more:?}");
        }
        let skip = [&usual[..], &["--on-bad-answer", "skip", "--json"]].concat();
        for told in [pack(&[&kinds[1]], &gzip, &image, &skip), again(&skip)] {
            let told: serde_json::Value = serde_json::from_str(&done(&told)).unwrap();
            assert!(told["nonsense"][0].as_str().unwrap().contains(why), "{more:?}: {told}");
        }
        fs::remove_file(&image).unwrap();
    }
}

/// `esker repack` asks as `esker pack` does, and its lists may name all of the image.
#[test]
fn an_image_is_packed_again_as_was_chosen() {
    let scratch = Scratch::new();
    let tree = tree(&scratch, "tree", 100);
    let [old, new] = ["old", "new"].map(|name| scratch.path(name));
    done(&esker(["pack", text(&tree), "-o", text(&old)]));
    let again = |more: &[&str]| {
        esker([&["repack", text(&old), "-o", text(&new)], &PLAIN[..], more].concat())
    };
    done(&again(&["--order-by", "grep '\"kind\":\"file\"' | tac"]));
    let backwards = ["zero", "sub/11", "sub/10", "sub/09", "sub/02"];
    let found = places(&new, &tree, &backwards);
    assert!(found.is_sorted(), "{found:?}");
    assert_eq!(done(&esker(["diff", text(&old), text(&new)])), "");
    let out = "sed -n 's/.*\"id\":\\([0-9]*\\),.*sub\\/0[3-5]\".*/{\"id\":\\1,\"take\":false}/p'";
    done(&again(&["--filter-by", out, "--exclude", "09"]));
    let listed = done(&esker(["find", text(&new)]));
    assert_eq!(listed.matches("sub/").count(), 8, "{listed}");
    let script = scratch.file("s.lua", b"function order(all) return {'sub/05', 'sub/04'} end");
    done(&again(&["--script", text(&script)]));
    let found = places(&new, &tree, &["sub/05", "sub/04", "sub/00"]);
    assert!(found.is_sorted(), "{found:?}");
    // Together with what is wanted first, as of `esker pack`.
    let list = scratch.file("list", b"sub/08\nsub/03\n");
    done(&again(&["--script", text(&script), "--hot", text(&list), "--exclude", "08"]));
    let found = places(&new, &tree, &["sub/03", "sub/05", "sub/04", "sub/00"]);
    assert!(found.is_sorted(), "{found:?}");
    for more in [["--filter-by", "cat"], ["--order-by", "cat"], ["--script", text(&script)]] {
        let refused = again(&[&more[..], &["--metadata-only"]].concat());
        assert_eq!(refused.status.code(), Some(2), "{more:?}");
        assert!(errors(&refused).contains("cannot be used with"), "{}", errors(&refused));
    }
}

/// Who chooses takes no memory from packing that it needs.
#[test]
fn a_choice_needs_no_more_memory() {
    let scratch = Scratch::new();
    let tree = tree(&scratch, "tree", 100);
    let [archive, new] = ["t.tar", "new"].map(|name| scratch.path(name));
    self::tar(&tree, &archive, &[]);
    let packs = |memory: u32, more: &[&str]| {
        let memory = format!("{memory}M");
        let words = ["pack", text(&archive), "-o", text(&new), "--force", "-l", "0", "--memory"];
        let told = esker([&words[..], &[&memory], more].concat());
        let is_told = errors(&told).contains("too little memory allowed");
        assert_eq!(is_told, !told.status.success(), "{memory}: {}", errors(&told));
        !is_told
    };
    let some: Vec<_> = (20..100).step_by(4).filter(|&memory| packs(memory, &[])).collect();
    assert!((1..20).contains(&some.len()), "{some:?}");
    assert!(packs(some[0], &["--order", "size"]) && !packs(some[0] - 4, &["--order", "size"]));
}

/// Orders that need no list, of directories and of images.
#[test]
fn the_smallest_come_first_or_those_with_the_same_ending() {
    let scratch = Scratch::new();
    let dir = scratch.dir("tree");
    let files = [("a.c", 9000), ("b.h", 7000), ("c.c", 8000), ("d.h", 6000), (".c", 5000)];
    for (seed, (name, len)) in files.iter().enumerate() {
        fs::write(dir.join(name), noise(seed as u64, *len)).unwrap();
    }
    let [old, new] = ["old", "new"].map(|name| scratch.path(name));
    done(&pack(&[text(&dir)], &dir, &old, &[]));
    for input in [&dir, &old] {
        let pack = |order| done(&pack(&[text(input)], &dir, &new, &["--order", order]));
        pack("size");
        assert!(places(&new, &dir, &[".c", "d.h", "b.h", "c.c", "a.c"]).is_sorted());
        pack("kind");
        assert!(places(&new, &dir, &[".c", "a.c", "c.c", "b.h", "d.h"]).is_sorted());
        pack("path");
        assert!(fs::read(&new).unwrap() == fs::read(&old).unwrap());
    }
}

/// What cannot be read is named once and left out under all of its names, also where it comes first.
#[test]
fn a_damaged_file_that_comes_first_is_left_out() {
    let scratch = Scratch::new();
    let tree = tree(&scratch, "tree", 100);
    let [image, new] = ["image", "new"].map(|name| scratch.path(name));
    done(&pack(&[text(&tree)], &tree, &image, &[]));
    let mut bytes = fs::read(&image).unwrap();
    bytes[place(&image, &tree.join("zero")) + 20_000] ^= 1;
    fs::write(&image, bytes).unwrap();
    let list = scratch.file("list", b"sub/05\nzero\nsub/02\n");
    let explicit = format!("explicit:{}", text(&list));
    for verb in ["pack", "repack"] {
        let words = [verb, text(&image), "-o", text(&new), "--order", &explicit];
        let told = esker([&words[..], &PLAIN].concat());
        assert_eq!(told.status.code(), Some(5), "{verb}: {}", errors(&told));
        assert_eq!(errors(&told).matches("sub/00").count(), 1, "{verb}: {}", errors(&told));
        let listed = done(&esker(["find", text(&new)]));
        assert!(!listed.contains("zero") && !listed.contains("sub/00"), "{verb}: {listed}");
        assert!(places(&new, &tree, &["sub/05", "sub/02", "sub/03"]).is_sorted(), "{verb}");
        assert!(done(&esker(["check", "--full", text(&new)])).contains("is whole"), "{verb}");
    }
}

/// A list of what is packed says all itself.
#[test]
fn a_list_of_paths_and_a_choice_do_not_go_together() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch, "tree", 100), scratch.path("x"));
    let list = scratch.file("list", b"sub/03\n");
    for more in [["--hot", text(&list)], ["--filter-by", "cat"], ["--order", "size"]] {
        let files = ["--files-from", text(&list)];
        let refused = pack(&[text(&tree)], &list, &image, &[&files[..], &more].concat());
        assert_eq!(refused.status.code(), Some(2), "{more:?}");
        assert!(errors(&refused).contains("says itself what is packed"), "{}", errors(&refused));
        assert!(!image.exists());
    }
}

/// A file has its names, and lies where the first of these in the order says.
#[test]
fn a_file_of_several_names_comes_once() {
    let scratch = Scratch::new();
    let (old, new) = (tree(&scratch, "old", 100), tree(&scratch, "new", 200));
    let image = scratch.path("x");
    let list = scratch.file("list", b"old/zero\nnew/sub/04\nold/sub/00\nnew/zero\n");
    let explicit = format!("explicit:{}", text(&list));
    done(&pack(&[text(&old), text(&new)], &list, &image, &["--order", &explicit]));
    let files = ["old/zero", "new/sub/04", "new/zero", "old/sub/01"];
    assert!(places(&image, &scratch.path(""), &files).is_sorted());
    let out = scratch.path("out");
    done(&esker(["extract", text(&image), "-o", text(&out)]));
    for tree in ["old", "new"] {
        let [one, other] =
            ["sub/00", "zero"].map(|name| fs::metadata(out.join(tree).join(name)).unwrap());
        assert_eq!((one.ino(), one.nlink()), (other.ino(), 2), "{tree}");
    }
}

/// Snapshots stand side by side under what they are called.
#[test]
fn snapshots_stand_side_by_side() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch, "tree", 7), scratch.path("x.esker"));
    let volume = scratch.path("t.vol");
    done(&esker(["mkfs", text(&volume), "--size", "64M", "--from", text(&tree)]));
    let [one, two] = ["one", "two"].map(|name| {
        done(&esker(["snapshot", "create", text(&volume), name]));
        format!("{}@{name}", text(&volume))
    });
    let filter = "echo '{\"path\":\"t.vol@two/sub\",\"take\":false}'";
    done(&pack(&[&one, &two], &volume, &image, &["--filter-by", filter]));
    let listed = done(&esker(["find", text(&image)]));
    assert!(listed.contains("t.vol@one/sub/03") && listed.contains("t.vol@two/zero"), "{listed}");
    assert!(!listed.contains("t.vol@two/sub"), "{listed}");
}

/// A program that leaves out what is called `secret`, and writes down all that it is told.
fn spare_secrets(asked: &Path) -> String {
    let script = "s/.*\"id\":\\([0-9]*\\),.*secret\".*/{\"id\":\\1,\"take\":false}/p";
    format!("tee {} | sed -n '{script}'", text(asked))
}

/// Nobody is asked of what lies on another file system, and no order brings it in.
#[test]
fn an_order_stays_on_one_file_system() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch, "tree", 7), scratch.path("x.esker"));
    let (other, asked) = (tree.join("other"), scratch.path("asked"));
    fs::create_dir(&other).unwrap();
    let mut mount = Command::new("mount");
    assert!(mount.args(["-t", "tmpfs", "tmpfs"]).arg(&other).status().unwrap().success());
    fs::write(other.join("within"), "elsewhere").unwrap();
    let hooks = ["--filter-by", &spare_secrets(&asked), "--order", "size"];
    for more in [&[][..], &hooks] {
        let more = [&["-x"], more].concat();
        done(&pack(&[text(&tree)], &tree.join("zero"), &image, &more));
        let listed = done(&esker(["find", text(&image)]));
        assert!(listed.contains("/other") && !listed.contains("within"), "{more:?}: {listed}");
    }
    assert!(!fs::read_to_string(&asked).unwrap().contains("within"));
    let list = scratch.file("list", b"other/within\n");
    let refused = pack(&[text(&tree)], &list, &image, &["-x", "--hot", text(&list)]);
    assert!(errors(&refused).contains("names other/within: it is not there"), "{refused:?}");
}

/// What lies deeper than a path can be long is asked of as everything is.
#[test]
fn a_filter_hears_of_what_lies_deep() {
    let scratch = Scratch::new();
    let (tree, image) = (scratch.dir("deep"), scratch.path("x.esker"));
    let make = "d=$(printf %0200d 0); for i in $(seq 30); do echo > secret; mkdir $d; cd $d; done";
    let made = Command::new("bash").args(["-c", make]).current_dir(&tree).status().unwrap();
    assert!(made.success());
    let (none, asked) = (scratch.file("none", b""), scratch.path("asked"));
    done(&pack(&[text(&tree)], &none, &image, &["--filter-by", &spare_secrets(&asked)]));
    assert_eq!(fs::read_to_string(&asked).unwrap().lines().count(), 60);
    let listed = done(&esker(["find", text(&image)]));
    assert_eq!((listed.lines().count(), listed.contains("secret")), (31, false));
}

/// That there is too little memory is told before anybody is asked.
#[test]
fn nobody_is_asked_in_vain() {
    let scratch = Scratch::new();
    let (tree, asked) = (tree(&scratch, "tree", 7), scratch.path("asked"));
    let (old, image) = (scratch.path("old.esker"), scratch.path("x.esker"));
    done(&esker(["pack", text(&tree), "-o", text(&old)]));
    let hooks = ["--memory", "40M", "--filter-by", &spare_secrets(&asked)];
    for verb in [&["pack", text(&tree)], &["pack", text(&old)], &["repack", text(&old)]] {
        let refused = esker([&verb[..], &["-o", text(&image)], &hooks].concat());
        assert_eq!(refused.status.code(), Some(2), "{verb:?}: {refused:?}");
        assert!(errors(&refused).contains("too little memory"), "{verb:?}: {refused:?}");
        assert!(!asked.exists() && !image.exists(), "{verb:?}");
    }
}
