//! Images made of images and of lists: blocks kept, attributes rewritten, parts and orders chosen.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::picture::picture;
use crate::common::{ESKER, Scratch, done, errors, esker, noise, text};

fn tree(scratch: &Scratch) -> PathBuf {
    let tree = scratch.dir("tree");
    for dir in ["a", "a/b", "empty"] {
        fs::create_dir(tree.join(dir)).unwrap();
    }
    for number in 0..40 {
        fs::write(tree.join(format!("a/{number}.txt")), format!("{number} ").repeat(9000)).unwrap();
    }
    fs::write(tree.join("a/b/x.dat"), [7; 300_000]).unwrap();
    fs::write(tree.join("a/b/twin.dat"), [7; 300_000]).unwrap();
    fs::File::create(tree.join("hole")).unwrap().set_len(1 << 32).unwrap();
    fs::hard_link(tree.join("a/1.txt"), tree.join("again")).unwrap();
    symlink("a/b", tree.join("link")).unwrap();
    tree
}

fn packed(scratch: &Scratch, name: &str, tree: &Path, more: &[&str]) -> PathBuf {
    let image = scratch.path(name);
    let all = ["pack", text(tree), "-o", text(&image), "-l", "3", "--block-size", "64K"];
    done(&esker([&all[..], more].concat()));
    image
}

fn again(image: &Path, to: &Path, more: &[&str]) -> serde_json::Value {
    let all = ["repack", text(image), "-o", text(to), "--json"];
    serde_json::from_str(&done(&esker([&all[..], more].concat()))).unwrap()
}

/// How many bytes blocks take.
fn data(image: &Path) -> u64 {
    let told = done(&esker(["info", "--json", text(image)]));
    serde_json::from_str::<serde_json::Value>(&told).unwrap()["data"].as_u64().unwrap()
}

#[test]
fn metadata_is_rewritten_and_blocks_stay_as_they_are() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let image = packed(&scratch, "x.esker", &tree, &[]);
    let new = scratch.path("new.esker");
    let same = again(&image, &new, &["--metadata-only", "--meta-codec", "xz:9"]);
    assert_eq!(done(&esker(["diff", text(&image), text(&new)])), "");
    assert!(done(&esker(["check", "--full", text(&new)])).contains("is whole"));
    assert_eq!((data(&new), same["files"].as_u64()), (data(&image), Some(43)));
    let (old_bytes, new_bytes) = (fs::read(&image).unwrap(), fs::read(&new).unwrap());
    let blocks = 512..512 + data(&image) as usize;
    assert!(old_bytes[blocks.clone()] == new_bytes[blocks]);
    // In place of itself.
    let change = ["--metadata-only", "--force", "--chmod", "D711,F604", "--time", "77"];
    again(&new, &new, &[&change[..], &["--owner", ":9"]].concat());
    let list = done(&esker(["ls", "-lR", text(&new)]));
    assert!(list.lines().all(|line| line.contains(" 9 ") && line.contains("1970-01-01 00:01:17")));
    assert!(list.contains("drwx--x--x") && list.contains("-rw----r--"));
    assert_eq!(done(&esker(["cat", &format!("{}:/a/b/x.dat", text(&new))])).len(), 300_000);
    // Only attributes differ.
    let differ = esker(["diff", "--no-times", text(&image), text(&new)]);
    assert_eq!(differ.status.code(), Some(7));
    let differ = String::from_utf8_lossy(&differ.stdout).into_owned();
    assert!(differ.lines().all(|line| line.starts_with("m ")), "{differ}");
}

/// Where blocks stay as they are, what is said of blocks would do nothing.
#[test]
fn options_of_blocks_are_refused_where_blocks_stay() {
    let scratch = Scratch::new();
    let image = packed(&scratch, "x.esker", &tree(&scratch), &[]);
    let new = scratch.path("new.esker");
    for option in [
        ["--level", "9"],
        ["--codec", "xz"],
        ["--block-size", "1M"],
        ["--shared-size", "1M"],
        ["--group-size", "8M"],
        ["--repeats", "0"],
        ["--unpack", "true"],
        ["--pictures", "true"],
        ["--category", "text:codec=xz"],
    ] {
        let words = ["repack", text(&image), "-o", text(&new), "--metadata-only"];
        let refused = esker([&words[..], &option].concat());
        assert_eq!(refused.status.code(), Some(2), "{option:?}");
        assert!(errors(&refused).contains("--metadata-only"), "{}", errors(&refused));
        assert!(!new.exists(), "{option:?}");
    }
}

#[test]
fn metadata_of_nothing_and_of_a_base_is_rewritten() {
    let scratch = Scratch::new();
    let empty = packed(&scratch, "empty.esker", &scratch.dir("nothing"), &[]);
    again(&empty, &scratch.path("empty2.esker"), &["--metadata-only"]);
    let tree = tree(&scratch);
    let base = packed(&scratch, "base.esker", &tree, &[]);
    fs::write(tree.join("a/new.txt"), "new ".repeat(30_000)).unwrap();
    let lean = packed(&scratch, "lean.esker", &tree, &["--base", text(&base)]);
    let new = scratch.path("new.esker");
    again(&lean, &new, &["--metadata-only"]);
    assert_eq!(done(&esker(["diff", text(&lean), text(&new)])), "");
    assert!(data(&new) < data(&base));
    // All of it at once needs no base.
    let whole = scratch.path("whole.esker");
    again(&new, &whole, &[]);
    fs::remove_file(&base).unwrap();
    assert!(done(&esker(["check", "--full", text(&whole)])).contains("is whole"));
    assert!(!esker(["check", text(&new)]).status.success());
}

#[test]
fn a_damaged_block_is_not_taken_over() {
    let scratch = Scratch::new();
    let image = packed(&scratch, "x.esker", &tree(&scratch), &[]);
    let mut bytes = fs::read(&image).unwrap();
    bytes[700] ^= 1;
    fs::write(&image, bytes).unwrap();
    let new = scratch.path("new.esker");
    let output = esker(["repack", text(&image), "-o", text(&new), "--metadata-only"]);
    assert_eq!(output.status.code(), Some(6), "{}", errors(&output));
    assert!(errors(&output).contains("cannot take over the blocks") && !new.exists());
    // Read one by one, only what is lost is lost, and named.
    let output = esker(["repack", text(&image), "-o", text(&new)]);
    assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
    assert!(errors(&output).contains(":/a/"), "{}", errors(&output));
    assert!(done(&esker(["check", "--full", text(&new)])).contains("is whole"));
}

#[test]
fn parts_and_orders_are_chosen() {
    let scratch = Scratch::new();
    let image = packed(&scratch, "x.esker", &tree(&scratch), &[]);
    let list = scratch.file("list", b"./a/b/x.dat\n/a/17.txt\n");
    let (explicit, older) = (format!("explicit:{}", text(&list)), format!("list:{}", text(&list)));
    let mut sizes = Vec::new();
    for order in ["path", "kind", "size", &explicit, &older] {
        let new = scratch.path("new.esker");
        again(&image, &new, &["--force", "--order", order, "-l", "2"]);
        assert_eq!(done(&esker(["diff", text(&image), text(&new)])), "", "{order}");
        sizes.push(fs::read(&new).unwrap());
    }
    assert!(sizes[0] != sizes[1] && sizes[0] != sizes[2] && sizes[0] != sizes[3]);
    assert!(sizes[3] == sizes[4], "the same under the name that it had before");
    let part = scratch.path("part.esker");
    let rules = ["--filter", "+ /a/", "--filter", "+ /a/b/***", "--filter", "- *"];
    let told = again(&image, &part, &rules);
    assert_eq!((told["files"].as_u64(), told["directories"].as_u64()), (Some(2), Some(3)));
    let rules = scratch.file("rules", b"# the same\n\n+ /a/\n  + /a/b/***\n- *\n");
    let same = scratch.path("same.esker");
    again(&image, &same, &["--filter-from", text(&rules)]);
    assert!(fs::read(&same).unwrap() == fs::read(&part).unwrap());
    let refused = esker(["repack", text(&image), "-o", "/nowhere", "--order", "chance"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_list_that_makes_no_sense_stops_or_is_passed_over() {
    let scratch = Scratch::new();
    let image = packed(&scratch, "x.esker", &tree(&scratch), &[]);
    for (name, lines, why) in [
        ("unknown", "a/17.txt\n/a/no/such\n", "names /a/no/such: it is not there"),
        ("twice", "a/17.txt\n./a/17.txt\n", "names ./a/17.txt: it was named before"),
        ("directory", "a\na/17.txt\n", "names a: it is a directory"),
    ] {
        let (new, list) = (scratch.path("new.esker"), scratch.file(name, lines.as_bytes()));
        let explicit = format!("explicit:{}", text(&list));
        for how in [["--order", &explicit], ["--hot", text(&list)]] {
            let repack = |more: &[&str]| {
                let all = ["repack", text(&image), "-o", text(&new)];
                esker([&all[..], &how, more].concat())
            };
            let stopped = repack(&[]);
            assert_eq!(stopped.status.code(), Some(4), "{how:?}: {}", errors(&stopped));
            assert!(errors(&stopped).contains(why) && !new.exists(), "{}", errors(&stopped));
            let went_on = repack(&["--on-bad-answer", "skip"]);
            assert!(errors(&went_on).contains(why), "{}", errors(&went_on));
            done(&went_on);
            assert_eq!(done(&esker(["diff", text(&image), text(&new)])), "");
            fs::remove_file(&new).unwrap();
        }
    }
}

#[test]
fn a_list_of_paths_is_packed() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    fs::set_permissions(tree.join("a/b"), fs::Permissions::from_mode(0o711)).unwrap();
    fs::write(tree.join("new\nline"), "x").unwrap();
    let image = scratch.path("x.esker");
    let pack = |list: &[u8], more: &[&str]| {
        let mut command = Command::new(ESKER);
        command.args(["pack", "--files-from", "-", "-o", text(&image), "--force"]).args(more);
        command.current_dir(&tree).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(list).unwrap();
        child.wait_with_output().unwrap()
    };
    done(&pack(
        b"./a/b/x.dat\n./a/1.txt\na/2.txt\n./a/b/twin.dat\nagain\n\n./empty\na/b/x.dat\n",
        &[],
    ));
    let found = done(&esker(["find", text(&image)]));
    let right =
        ["/", "/a", "/a/1.txt", "/a/2.txt", "/a/b", "/a/b/twin.dat", "/a/b/x.dat", "/again"];
    assert_eq!(found.lines().collect::<Vec<_>>(), [&right[..], &["/empty"]].concat());
    let out = scratch.path("out");
    done(&esker(["extract", text(&image), "-o", text(&out)]));
    assert_eq!(fs::metadata(out.join("a/b")).unwrap().mode() & 0o777, 0o711);
    assert_eq!(picture(&out)["again"], picture(&out)["a/1.txt"]);
    // By whole paths too, of what is packed and of nothing else.
    let whole = format!("{0}/a/1.txt\n{0}/again\n/etc/passwd\n", text(&tree));
    for more in [&[][..], &[text(&tree)], &["."]] {
        let output = pack(whole.as_bytes(), more);
        let said = errors(&output);
        assert!(said.contains("/etc/passwd: a path in the list is not below"), "{said}");
        assert_eq!((output.status.code(), said.lines().count()), (Some(5), 1), "{said}");
        let found = done(&esker(["find", text(&image)]));
        assert_eq!(found.lines().collect::<Vec<_>>(), ["/", "/a", "/a/1.txt", "/again"]);
    }
    // With zeros between, below another directory, and with what cannot be.
    let bad = pack(b"new\nline\0../tree/a/1.txt\0gone\0link/x.dat\0link\0", &["-0", text(&tree)]);
    assert_eq!(bad.status.code(), Some(5));
    for name in ["..", "gone", "link/x.dat"] {
        assert!(errors(&bad).contains(name) || name == "link/x.dat", "{}", errors(&bad));
    }
    let found = done(&esker(["find", text(&image)]));
    assert_eq!(found.lines().collect::<Vec<_>>(), ["/", "/link", "/new\\x0aline"]);
}

#[test]
fn the_end_tells_where_the_space_went() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let mut state = 9u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
    .take(400_000)
    .collect();
    fs::write(tree.join("noise.bin"), noise).unwrap();
    let image = scratch.path("x.esker");
    let small = ["--json", "-l", "3", "--block-size", "64K"];
    let told = done(&esker([&["pack", text(&tree), "-o", text(&image)], &small[..]].concat()));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let kind = |name: &str| {
        let all = told["kinds"].as_array().unwrap();
        all.iter().find(|kind| kind["kind"] == name).unwrap().clone()
    };
    assert_eq!((&kind("dat")["files"], &kind("dat")["bytes"]), (&2.into(), &600_000.into()));
    // One of the texts has another name further up, without an ending.
    assert_eq!((&kind("txt")["files"], &kind("bin")["bytes"]), (&39.into(), &400_000.into()));
    assert!(kind("bin")["stored"].as_u64().unwrap() > 300_000);
    assert!(told["duplicate_bytes"].as_u64() >= Some(300_000));
    let words = done(&esker(["pack", text(&tree), "-o", text(&image), "--force", "-l", "3"]));
    assert!(words.contains("(1 : "), "{words}");
    assert!(words.contains("\n  of these ") && words.contains(" were there before and"), "{words}");
    // Of text that is in streams more may be the same than all files have.
    let streams = scratch.dir("streams");
    let mut state = 7u32;
    let words = (0..60_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        format!("word{} ", state >> 20)
    });
    let plain = scratch.file("plain", words.collect::<String>().as_bytes());
    for name in ["a.gz", "b.gz", "c.gz"] {
        let packed = Command::new("gzip").args(["-6nc", text(&plain)]).output().unwrap();
        fs::write(streams.join(name), &packed.stdout).unwrap();
        fs::write(&plain, [name.as_bytes(), &fs::read(&plain).unwrap()].concat()).unwrap();
    }
    let words = done(&esker(["pack", text(&streams), "-o", text(&image), "--force", "-l", "9"]));
    let told = words.split_once("\n  with ").unwrap().1;
    assert!(
        told.contains(" of streams unpacked to ") && told.contains(", of all that "),
        "{words}"
    );
}

/// What a process may not map is not planned with: a level that needs more is refused before it begins.
#[test]
fn memory_is_bounded_by_what_the_shell_allows() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    for (level, more, status) in [("9", "", 2), ("8", "--memory 8G", 2), ("2", "", 0)] {
        let line = format!("ulimit -v 400000; \"$0\" pack \"$1\" -o \"$2\" -l {level} {more}");
        let words = ["-c", &line, ESKER, text(&tree), text(&image)];
        let told = Command::new("bash").args(words).output().unwrap();
        assert_eq!(told.status.code(), Some(status), "{level}: {}", errors(&told));
        let is_told = errors(&told).contains("too little memory allowed");
        assert_eq!(is_told, status != 0, "{level}: {}", errors(&told));
    }
}

/// Reading and copying take what blocks take, and not what packing them took; with less it is said how much.
#[test]
fn memory_is_bounded_where_images_are_read() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    fs::write(tree.join("long"), noise(7, 30 << 20)).unwrap();
    let (copy, again, out) = (scratch.path("c.esker"), scratch.path("d.esker"), scratch.path("o"));
    done(&esker(["pack", text(&tree), "-o", text(&image), "-l", "9"]));
    let within = |limit: u32, line: &str| {
        let line = format!("ulimit -c 0; ulimit -v {limit}; \"$0\" {line}");
        let words = ["-c", &line, ESKER, text(&image), text(&copy), text(&out)];
        Command::new("bash").args(words).output().unwrap()
    };
    for line in ["extract $1 -o $3", "extract $1 --salvage -o $3", "diff $1 $1", "cat $1:/long"] {
        let told = within(50_000, line);
        assert_eq!(told.status.code(), Some(1), "{line}: {}", errors(&told));
        let words = "too little memory to read what is in the image: ";
        assert!(errors(&told).contains(words), "{line}: {}", errors(&told));
    }
    done(&within(50_000, "ls $1"));
    done(&within(300_000, "diff $1 $1"));
    done(&within(150_000, "repack $1 -o $2 --metadata-only"));
    done(&esker(["repack", text(&image), "-o", text(&again), "--metadata-only"]));
    assert!(fs::read(&copy).unwrap() == fs::read(&again).unwrap());
}

#[test]
fn attributes_are_rewritten_as_asked() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let run = |epoch: Option<&str>, more: &[&str]| {
        let image = scratch.path("x.esker");
        let mut command = Command::new(ESKER);
        command.args(["pack", text(&tree), "-o", text(&image), "-l", "1", "--force"]).args(more);
        if let Some(epoch) = epoch {
            command.env("SOURCE_DATE_EPOCH", epoch);
        }
        done(&command.output().unwrap());
        done(&esker(["ls", "-l", text(&image)]))
    };
    Command::new("touch").args(["-d", "@5", text(&tree.join("a"))]).status().unwrap();
    // Nothing is younger than the epoch; what is older stays as it is.
    let list = run(Some("60"), &["--owner", "5:"]);
    assert!(list.contains("00:00:05 a\n") && list.contains("00:01:00 hole\n"), "{list}");
    assert!(list.lines().all(|line| line.contains("  5 ")), "{list}");
    let list = run(Some("60"), &["--time", "120", "--chmod", "D700,F400", "--umask", "077"]);
    assert!(list.contains("00:02:00 a\n") && list.contains("drwx------"), "{list}");
    // So does a root of which nobody says anything.
    let (image, other) = (scratch.path("x.esker"), scratch.dir("other"));
    let words = ["pack", text(&tree), text(&other), "-o", text(&image), "--force"];
    done(&esker([&words[..], &["--owner", "5:6", "--chmod", "D700"]].concat()));
    let root = done(&esker(["stat", &format!("{}:/", text(&image))]));
    assert!(root.contains("drwx------ owner 5:6"), "{root}");
}

#[test]
fn a_list_names_a_file_by_any_of_its_names() {
    let scratch = Scratch::new();
    let image = packed(&scratch, "x.esker", &tree(&scratch), &[]);
    for order in ["--hot=", "--order=explicit:"] {
        let made = ["a/1.txt\na/7.txt\n", "again\na/7.txt\n", "a/7.txt\n"].map(|list| {
            let (names, new) = (scratch.path("list"), scratch.path("new.esker"));
            fs::write(&names, list).unwrap();
            again(&image, &new, &["--force", &format!("{order}{}", text(&names))]);
            fs::read(&new).unwrap()
        });
        assert!(made[0] == made[1] && made[1] != made[2], "{order}");
    }
}

#[test]
fn an_output_that_came_meanwhile_stays() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    let hook = format!("cat > /dev/null; echo precious > '{}'", text(&image));
    let pack = ["pack", text(&tree), "-o", text(&image), "--filter-by", &hook];
    let refused = esker(pack);
    assert_eq!(refused.status.code(), Some(2), "{}", errors(&refused));
    assert!(errors(&refused).contains("exists already"), "{}", errors(&refused));
    assert_eq!(fs::read_to_string(&image).unwrap(), "precious\n");
    done(&esker([&pack[..], &["--force"]].concat()));
    assert!(fs::read(&image).unwrap().len() > 1000);
}

/// What is read stays where it is: the bases of an image, and lists and scripts, whatever is to be written there.
#[test]
fn nothing_that_is_read_is_replaced() {
    let scratch = Scratch::new();
    let (old, new) = (scratch.dir("old"), scratch.dir("new"));
    for (dir, more) in [(&old, "one"), (&new, "other")] {
        fs::write(dir.join("base.esker"), noise(7, 90_000)).unwrap();
        fs::write(dir.join("more"), more).unwrap();
    }
    let [base, image] = ["base.esker", "x.esker"].map(|name| scratch.path(name));
    done(&esker(["pack", text(&old), "-o", text(&base)]));
    done(&esker(["pack", text(&new), "-o", text(&image), "--base", text(&base)]));
    let list = scratch.file("list", b"more\n");
    let script = scratch.file("script", b"function filter(entry) return true end\n");
    let (order, place) = (format!("explicit:{}", text(&list)), text(&scratch.path("")).to_owned());
    let rules = scratch.file("rules", b"+ more\n");
    let [x, b, l, s, r] = [&image, &base, &list, &script, &rules].map(|path| text(path));
    let whole = |path: &Path| fs::read(path).unwrap();
    let was = [&base, &list, &script, &rules].map(|path| whole(path));
    for words in [
        &["report", x, "-o", b][..],
        &["extract", x, "--tar", b],
        &["extract", x, "--zip", b],
        &["repack", x, "-o", b],
        &["pack", x, "-o", b],
        &["repack", x, "-o", l, "--order", &order],
        &["repack", x, "-o", l, "--hot", l],
        &["pack", text(&new), "-o", l, "--order", &order],
        &["pack", text(&new), "-o", l, "--hot", l],
        &["pack", text(&new), "-o", r, "--filter-from", r],
        &["pack", text(&new), "-o", l, "--files-from", l],
        &["pack", text(&new), "-o", s, "--script", s],
    ] {
        let refused = esker([words, &["--force"]].concat());
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {}", errors(&refused));
        assert!(errors(&refused).contains("that is what is read"), "{}", errors(&refused));
    }
    let partly = esker(["extract", x, "-o", &place, "--force", "--continue"]);
    assert_eq!(partly.status.code(), Some(5), "{}", errors(&partly));
    assert!([&base, &list, &script, &rules].map(|path| whole(path)) == was);
    // An image may be put in its own place.
    done(&esker(["repack", x, "-o", x, "--force"]));
    done(&esker(["check", "--full", x]));
}
