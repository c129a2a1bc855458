//! Programs, scripts and lists that choose what is packed and in which order, and what was read once and is wanted
//! first.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{ESKER, Scratch, done, errors, esker, is_alive, text, within_seconds};

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
        let kept = if more[0] == "--order" { "--order explicit" } else { more[0] };
        let told = done(&esker(["info", text(&image)]));
        assert!(told.contains(&format!("--block-size 32K {kept}\n")), "{told}");
    }
    // The same of an image that is there.
    let hot = scratch.path("hot.esker");
    done(&esker(["repack", text(&right), "-o", text(&hot), "-l", "0", "--hot", text(&list)]));
    assert_eq!(done(&esker(["diff", text(&right), text(&hot)])), "");
    assert!(place(&hot, &tree, "09") < place(&hot, &tree, "00"));
    // Its own order is told as such.
    let told = done(&pack(&tree, &image, &["--order-by", program, "--explain"]));
    assert!(told.contains("units in the order in which they came"), "{told}");
}

#[test]
fn what_makes_no_sense_stops_or_is_passed_over() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    let explicit =
        |name: &str, lines: &[u8]| format!("explicit:{}", text(&scratch.file(name, lines)));
    let unknown = explicit("unknown", b"sub/07\nno/such\n");
    let twice = explicit("twice", b"sub/07\n./sub/07\n");
    let directory = explicit("directory", b"sub\nsub/07\n");
    for (more, why) in [
        (["--order-by", "echo '{\"id\":3}'; echo nonsense"], "answered `nonsense`: it is no JSON"),
        (["--order-by", "echo '{\"id\":99}'"], "there is no such id"),
        (["--order-by", "echo '{\"path\":\"../x\"}'"], "there is no such path"),
        (["--order-by", "echo '{}'"], "it names nothing"),
        (["--order-by", "echo '{\"id\":1,\"path\":\"sub\"}'"], "are of two things"),
        (["--filter-by", "echo '{\"id\":1,\"take\":7}'"], "neither true nor false"),
        (["--filter-by", "yes"], "answered `y`: it is no JSON"),
        (["--order-by", "yes '{\"id\":1}'"], "answered `{\"id\":1}`: it was named before"),
        (["--order-by", "echo '{\"id\":0}'"], "it is a directory, and only files"),
        (["--filter-by", "yes '{\"id\":1,\"take\":true}'"], "it was named before"),
        (["--filter-by", "exit 9"], "failed with status 9"),
        (["--filter-by", "sleep 1000"], "said nothing for 1 seconds"),
        (["--order", &unknown], "names no/such: it is not there"),
        (["--order", &twice], "names ./sub/07: it was named before"),
        (["--order", &directory], "names sub: it is a directory"),
        (["--hot", &unknown["explicit:".len()..]], "names no/such: it is not there"),
        (["--order", "explicit:/no/such/list"], "(No such file or directory)"),
        (["--hot", "/"], "(Is a directory)"),
    ] {
        let usual = ["--answer-timeout", "1"];
        let failed = pack(&tree, &image, &[&more[..], &usual].concat());
        assert_eq!(failed.status.code(), Some(4), "{more:?}");
        assert!(errors(&failed).contains(why), "{more:?}: {}", errors(&failed));
        assert!(!image.exists(), "{more:?}");
        let skip = [&more[..], &usual, &["--on-bad-answer", "skip", "--json"]].concat();
        let went_on = pack(&tree, &image, &skip);
        assert!(errors(&went_on).contains(why), "{more:?}: {}", errors(&went_on));
        let told: serde_json::Value = serde_json::from_str(&done(&went_on)).unwrap();
        assert!(told["nonsense"][0].as_str().unwrap().contains(why), "{more:?}: {told}");
        assert!(done(&esker(["check", "--full", text(&image)])).contains("is whole"));
        fs::remove_file(&image).unwrap();
    }
    // A list that cannot be read is no order, and the image does not say that it had one.
    let without = ["--order", "explicit:/no/such/list", "--on-bad-answer", "skip"];
    done(&pack(&tree, &image, &without));
    let plain = scratch.path("plain.esker");
    done(&pack(&tree, &plain, &[]));
    assert!(fs::read(&image).unwrap() == fs::read(&plain).unwrap());
    fs::remove_file(&image).unwrap();
    // Of many, some are told.
    let many: String = (0..1000).map(|number| format!("no/such/{number}\n")).collect();
    let many = explicit("many", format!("{many}sub/09\n").as_bytes());
    let told = errors(&pack(&tree, &image, &["--order", &many, "--on-bad-answer", "skip"]));
    assert_eq!(told.lines().count(), 6, "{told}");
    assert!(told.contains("no/such/4: ") && told.contains("995 more"), "{told}");
    assert!(place(&image, &tree, "09") < place(&image, &tree, "00"));
    fs::remove_file(&image).unwrap();
    for wrong in [vec!["--order", "random"], vec!["--order", "explicit:/no/such/list"]] {
        assert!(!pack(&tree, &image, &wrong).status.success() && !image.exists());
    }
}

#[test]
fn a_script_leaves_files_out_and_orders_the_others() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    fs::create_dir(tree.join("left")).unwrap();
    fs::write(tree.join("left/file"), "of no use").unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff\"\n");
    fs::write(tree.join(odd), "a name that is no text").unwrap();
    let script = scratch.file(
        "choose.lua",
        br#"
            local asked = {}
            function filter(entry)
                asked[entry.path] = entry
                if entry.path == "left" then return entry.kind ~= "directory" end
                assert(entry.path ~= "left/file", "what is in it is not asked about")
                return not entry.name:match("^1[0-4]$")
            end
            function order(entries)
                for _, entry in ipairs(entries) do
                    assert(entry.kind == "file" and asked[entry.path].id == entry.id)
                    assert(entry.size == 30000 or entry.path == "odd\xff\"\n")
                    assert(entry.mode & 0x100 ~= 0 and entry.mtime > 1700000000)
                end
                assert(#entries == 16)
                table.sort(entries, function(a, b) return a.name > b.name end)
                -- An entry, a path and a number name the same things.
                return { entries[1], entries[2].path, entries[3].id, "sub/03" }
            end
        "#,
    );
    let more = ["--script", text(&script)];
    let packed = pack(&tree, &image, &more);
    done(&packed);
    assert_eq!(errors(&packed), "");
    let listed = done(&esker(["find", text(&image)]));
    assert_eq!(listed.matches("sub/").count(), 15, "{listed}");
    assert!(!listed.contains("left") && !listed.contains("sub/12"), "{listed}");
    // The first is the file of the odd name, which has little in it.
    let places = ["19", "18", "03", "00"].map(|name| place(&image, &tree, name));
    assert!(places.is_sorted(), "{places:?}");
    let again = scratch.path("again.esker");
    done(&pack(&tree, &again, &more));
    assert!(fs::read(&image).unwrap() == fs::read(&again).unwrap(), "the same every time");
    // Together with a list of what is wanted first; of two orders nobody knows which is meant.
    let list = scratch.file("list", b"sub/07\n");
    done(&pack(&tree, &image, &[&more[..], &["--hot", text(&list)]].concat()));
    assert!(place(&image, &tree, "07") < place(&image, &tree, "19"));
    let explicit = format!("explicit:{}", text(&list));
    let both = pack(&tree, &image, &[&more[..], &["--order", &explicit]].concat());
    assert_eq!(both.status.code(), Some(2), "{}", errors(&both));
}

/// Packs with a script that is wrong: it stops, or tells why and goes on.
fn packs_in_spite_of(scratch: &Scratch, tree: &Path, script: &[u8], why: &str) {
    let (script, image) = (scratch.file("wrong.lua", script), scratch.path("wrong.esker"));
    // What fails by itself may take its time where others work.
    let timeout = if why.contains("not done") { "1" } else { "60" };
    let more = ["--script", text(&script), "--answer-timeout", timeout];
    let failed = pack(tree, &image, &more);
    let told = errors(&failed);
    assert_eq!(failed.status.code(), Some(4), "{why}: {told}");
    assert!(told.contains(why) && told.contains("wrong.lua"), "{why}: {told}");
    assert!(!image.exists(), "{why}");
    let went_on = pack(tree, &image, &[&more[..], &["--on-bad-answer", "skip"]].concat());
    assert!(errors(&went_on).contains(why), "{why}: {}", errors(&went_on));
    done(&went_on);
    assert!(done(&esker(["check", "--full", text(&image)])).contains("is whole"));
    fs::remove_file(&image).unwrap();
}

#[test]
fn a_script_that_makes_no_sense_stops_or_is_passed_over() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    for (script, why) in [
        ("x = 1\n\nfunction (", "wrong.lua:3: "),
        ("x = 1", "defines neither `filter` nor `order`"),
        ("filter = 7", "`filter` is no function"),
        ("\nerror('not today')", "wrong.lua:2: not today"),
        ("error({})", "failed"),
        ("function filter(e)\n return e.no.such end", "wrong.lua:2: attempt to index a nil value"),
        (
            "\nfunction filter(e) end",
            "answered nil and neither true nor false, of sub: wrong.lua:2",
        ),
        ("function filter(e) return 'yes' end", "answered string and neither true nor false"),
        ("function order(all) end", "answered nil and no list: wrong.lua:1"),
        (
            "function order(all) return {all[1], 'no/such'} end",
            "no/such: it is not there: wrong.lua:1, in place 2",
        ),
        ("function order(all) return {-1} end", "-1: it is not there: wrong.lua:1, in place 1"),
        ("function order(all) return {{}} end", "a table without an `id`: wrong.lua:1, in place 1"),
        ("function order(all) return {2.5} end", "number names nothing: wrong.lua:1, in place 1"),
        (
            "function order(all) for i = 1, 99 do all[i] = 1 end return all end",
            "it was named before: wrong.lua:1, in place 2",
        ),
        ("function order(all) return {'sub'} end", "it is a directory, and only files"),
        (
            "function order(all) return {all[1], nil, all[3]} end",
            "no list without a gap: wrong.lua:1",
        ),
        ("function order(all) return {all[1], last = 2} end", "no list without a gap: wrong.lua:1"),
        ("\x1bLua", "failed"),
    ] {
        packs_in_spite_of(&scratch, &tree, script.as_bytes(), why);
    }
    let none = pack(&tree, &scratch.path("x"), &["--script", "/no/such.lua"]);
    assert_eq!(none.status.code(), Some(4), "{}", errors(&none));
}

#[test]
fn a_script_gets_neither_all_time_nor_all_memory_nor_anything_else() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    for (script, why) in [
        ("\nwhile true do end", "wrong.lua:2: was not done after 1 seconds"),
        ("function filter(e)\n\nwhile true do end end", "wrong.lua:3: was not done"),
        (
            "while true do pcall(function() while true do end end) end",
            "wrong.lua:1: was not done after",
        ),
        // Deep inside of functions of Lua's own nobody can say which line it is.
        ("x = (''):rep(1 << 60)", "was not done after 1 seconds"),
        ("x = ('a'):rep(1 << 30)", "more memory than it may have"),
        ("x = 'ab'; while true do x = x .. x end", "more memory than it may have"),
        (
            "function filter(e) local s = 'ab'; while true do s = s .. s end end",
            "more memory than it may have, asked of sub",
        ),
        ("function f() return f() + 1 end; f()", "stack overflow"),
        ("string.rep = 1; x = ('a'):rep(3)", "wrong.lua:1: "),
    ] {
        packs_in_spite_of(&scratch, &tree, script.as_bytes(), why);
    }
    let shut =
        b"for _, name in ipairs{'io', 'os', 'require', 'package', 'debug', 'load', 'loadfile',
        'dofile', 'coroutine'} do assert(_G[name] == nil, name) end
        function filter(e) print('seen', e.path) return true end";
    let (shut, image) = (scratch.file("shut.lua", shut), scratch.path("x.esker"));
    let packed = pack(&tree, &image, &["--script", text(&shut), "--json"]);
    assert!(done(&packed).starts_with('{'), "what it prints is not in between");
    assert!(errors(&packed).contains("seen\\x09sub/07"), "{}", errors(&packed));
}

/// An answer may be the line that was asked, also of a name that is shown as another.
#[test]
fn a_program_may_repeat_what_it_is_told() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    for odd in [&b"odd\xff"[..], b"odd\xfe"] {
        fs::write(tree.join(std::ffi::OsStr::from_bytes(odd)), odd).unwrap();
    }
    let files = "grep '\"kind\":\"file\"'";
    done(&pack(&tree, &image, &["--order-by", files]));
    let refused = pack(&tree, &image, &["--order-by", &format!("{files} | sed 's/odd/even/'")]);
    assert!(errors(&refused).contains("there is no such path"), "{}", errors(&refused));
}

/// A program that is asked does not outlive who asks it, whatever ends that.
#[test]
fn a_program_ends_with_who_asked_it() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    for signal in ["TERM", "INT", "HUP", "KILL"] {
        let number = scratch.path(format!("number of {signal}"));
        // Not the shell that was started, but what that has started; out of its group too, where that can be seen to.
        let own = if signal == "KILL" { "" } else { "setsid" };
        let program = format!("{own} sh -c 'echo $$ >\"{}\"; exec sleep 1000'; :", text(&number));
        let words = ["pack", text(&tree), "-o", text(&image), "--filter-by", &program];
        let mut packing = Command::new(ESKER);
        packing.args(words).stdin(Stdio::null()).stderr(Stdio::piped());
        let packing = packing.spawn().unwrap();
        let told = || fs::read_to_string(&number).unwrap_or_default().trim().parse::<u64>();
        assert!(within_seconds(|| told().is_ok()), "it was not asked");
        let pid = packing.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let ended = packing.wait_with_output().unwrap();
        assert!(!ended.status.success() && errors(&ended).is_empty(), "{}", errors(&ended));
        let program = told().unwrap();
        assert!(within_seconds(|| !is_alive(program)), "{signal}: {program} goes on");
        assert!(!image.exists());
    }
}

/// A list has an end.
#[test]
fn an_endless_list_is_refused() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    for more in [["--order", "explicit:/dev/zero"], ["--filter-from", "/dev/zero"]] {
        let refused = pack(&tree, &image, &more);
        assert_eq!(refused.status.code(), Some(4), "{more:?}");
        assert!(errors(&refused).contains("more than 512.0 MiB"), "{}", errors(&refused));
    }
}

/// Nor is one that is a pipe waited for when nobody says anything.
#[test]
fn a_silent_list_is_not_waited_for() {
    let scratch = Scratch::new();
    let (tree, image, pipe) = (tree(&scratch), scratch.path("x.esker"), scratch.path("pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let explicit = format!("explicit:{}", text(&pipe));
    for more in [["--order", &explicit], ["--hot", text(&pipe)], ["--script", text(&pipe)]] {
        let asked = [&more[..], &["--answer-timeout", "1"]].concat();
        let refused = pack(&tree, &image, &asked);
        assert_eq!(refused.status.code(), Some(4), "{more:?}");
        assert!(errors(&refused).contains("nothing for 1 second"), "{}", errors(&refused));
        assert!(!image.exists());
        done(&pack(&tree, &image, &[&asked[..], &["--on-bad-answer", "skip"]].concat()));
        fs::remove_file(&image).unwrap();
    }
}

/// Chance is the same every time, also that of a script which asks for another.
#[test]
fn a_script_chooses_the_same_every_time() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    let shuffled = "math.randomseed()\nfunction order(all)\n\
                    for i = #all, 2, -1 do\nlocal j = math.random(i)\n\
                    all[i], all[j] = all[j], all[i]\nend\n\
                    return all\nend\n";
    let script = scratch.file("shuffled.lua", shuffled.as_bytes());
    let packed = || {
        done(&pack(&tree, &image, &["--script", text(&script)]));
        let bytes = fs::read(&image).unwrap();
        fs::remove_file(&image).unwrap();
        bytes
    };
    let first = packed();
    assert!((0..3).all(|_| packed() == first));
}

#[test]
fn what_is_read_of_a_mount_is_told() {
    if !crate::common::can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    symlink("03", tree.join("sub/link")).unwrap();
    fs::write(tree.join("sub/line\nbreak"), "unnamed").unwrap();
    done(&pack(&tree, &image, &[]));
    let earlier = b"of/another/day\nsub/12\n";
    let (dir, profile) = (scratch.dir("mnt"), scratch.file("profile", earlier));
    done(&esker(["mount", "--profile", text(&profile), text(&image), text(&dir)]));
    for name in ["sub/12", "sub/link", "sub/12", "sub/line\nbreak", "sub/17"] {
        assert!(fs::read(dir.join(name)).unwrap() == fs::read(tree.join(name)).unwrap());
    }
    assert_eq!(fs::read(&profile).unwrap(), earlier, "until there is a new one");
    let beside = scratch.file("profile.new", b"of somebody else");
    done(&esker(["umount", text(&dir)]));
    assert_eq!(fs::read_to_string(&profile).unwrap(), "sub/12\nsub/03\nsub/17\n");
    assert_eq!(fs::read(&beside).unwrap(), b"of somebody else");
    let hot = scratch.path("hot.esker");
    done(&pack(&tree, &hot, &["--hot", text(&profile)]));
    assert!(place(&hot, &tree, "17") < place(&hot, &tree, "00"));
    // What somebody else made of its name meanwhile stays.
    let notes = scratch.path("notes");
    done(&esker(["mount", "--profile", text(&notes), text(&image), text(&dir)]));
    fs::write(&notes, "my notes\n").unwrap();
    let kept = esker(["umount", text(&dir)]);
    assert_eq!(kept.status.code(), Some(1), "{}", errors(&kept));
    assert!(errors(&kept).contains("is no profile of this image"), "{}", errors(&kept));
    assert_eq!(fs::read_to_string(&notes).unwrap(), "my notes\n");
    done(&esker(["umount", "-l", text(&dir)]));
    let bad = esker(["mount", "--profile", text(&profile), "mem:", text(&dir)]);
    assert_eq!(bad.status.code(), Some(2), "{}", errors(&bad));
    let bad = esker(["mount", "--profile", text(&dir.join("p")), text(&image), text(&dir)]);
    assert_eq!(bad.status.code(), Some(2), "{}", errors(&bad));
    assert!(errors(&bad).contains("where the image is mounted"), "{}", errors(&bad));
    // What is read, and whatever else is no profile, stays.
    let (prose, absolute) = (scratch.file("prose", b"a/b\nc\n"), scratch.file("abs", b"/sub/12\n"));
    let cut = scratch.file("cut", b"sub/12\nsub/0");
    for other in [&image, &hot, &prose, &absolute, &cut] {
        let was = fs::read(other).unwrap();
        let bad = esker(["mount", "--profile", text(other), text(&image), text(&dir)]);
        assert_eq!(bad.status.code(), Some(2), "{}", errors(&bad));
        assert!(fs::read(other).unwrap() == was, "{other:?}");
    }
}

#[test]
fn a_kind_of_data_is_treated_in_its_own_way() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    let words: String = (0..90_000).map(|number| format!("{} ", number % 997)).collect();
    fs::write(tree.join("words"), words).unwrap();
    let right = scratch.path("right.esker");
    done(&esker(["pack", text(&tree), "-o", text(&right), "--repeats", "0"]));
    let made = |more: &[&str]| {
        let all = ["pack", text(&tree), "-o", text(&image), "--force", "--repeats", "0"];
        done(&esker([&all[..], more].concat()));
        assert_eq!(done(&esker(["diff", text(&right), text(&image)])), "", "{more:?}");
        assert!(done(&esker(["check", "--full", text(&image)])).contains("is whole"), "{more:?}");
        let told = done(&esker(["info", "--json", text(&image)]));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        ["size", "blocks", "largest_block"].map(|key| told[key].as_u64().unwrap())
    };
    let [size, blocks, _] = made(&[]);
    // Only the words are text: the rest is noise, and stays what it was.
    let [plain, ..] = made(&["--category", "text:codec=none"]);
    assert!(plain > size + 100_000, "{plain} and {size}");
    let [_, many, _] = made(&["--category", "packed:block=64K"]);
    assert!(many >= blocks + 8, "{many} and {blocks}");
    let [xz, _, largest] = made(&["--category", "text:codec=xz:9,block=64K,order=path"]);
    assert!(xz < plain && largest > 64 << 10, "{xz}, {largest}");
    let both = ["--category", "text:block=64K", "--category", "packed:block=64K"];
    let [_, _, largest] = made(&both);
    assert!(largest <= 4 << 20, "a base stays as it was: {largest}");
    for (wrong, why) in [
        ("usual", "it says nothing"),
        ("verse:block=1M", "kinds are usual, packed, sound"),
        ("usual:block=1K", "give 64.0 KiB"),
        ("usual:codec=gzip", "known are none, lz4"),
        ("usual:order=size", "known are codec="),
        ("usual:", "known are codec="),
    ] {
        let refused = pack(&tree, &image, &["--category", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
        assert!(errors(&refused).contains(why), "{wrong}: {}", errors(&refused));
    }
    let refused = pack(&tree, &image, &["--category", "usual:order=alike"]);
    assert!(errors(&refused).contains("at this level"), "{}", errors(&refused));
    for vain in [
        &["--category", "code:codec=xz:9"][..],
        &["--category", "packed:order=path"],
        &["--category", "hot:codec=lz4"],
        &["--category", "text:block=1M"],
        &["--category", "streams:block=1M", "--unpack", "false"],
        &["--category", "usual:order=path", "--order", "explicit:/dev/null"],
    ] {
        let refused = pack(&tree, &image, vain);
        assert_eq!(refused.status.code(), Some(2), "{vain:?}");
        assert!(errors(&refused).contains("has no effect"), "{vain:?}: {}", errors(&refused));
    }
}

/// What a program leaves running ends with it, also where it ends well.
#[test]
fn nothing_goes_on_behind_a_program() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    for (own, code) in [("", 0), ("setsid", 0), ("", 1)] {
        let number = scratch.path("number");
        let left = format!("{own} sh -c 'echo $$ >\"{}\"; exec sleep 1000'", text(&number));
        let waits = format!("until [ -s '{}' ]; do sleep 0.01; done", text(&number));
        let program = format!("{left} </dev/null >/dev/null 2>&1 & cat >&2; {waits}; exit {code}");
        let packed = pack(&tree, &image, &["--filter-by", &program]);
        assert_eq!(packed.status.success(), code == 0, "{}", errors(&packed));
        let left = fs::read_to_string(&number).unwrap().trim().parse().unwrap();
        assert!(within_seconds(|| !is_alive(left)), "{own} {code}: {left} goes on");
        fs::remove_file(&number).unwrap();
    }
}

/// A signal that whoever starts it wants ignored does not end it, as with `nohup`.
#[test]
fn an_ignored_signal_is_ignored_with_a_program_too() {
    let scratch = Scratch::new();
    let (tree, image) = (tree(&scratch), scratch.path("x.esker"));
    let asked = scratch.path("asked");
    let program = format!("echo >'{}'; cat >/dev/null; sleep 0.5", text(&asked));
    let words = "trap '' HUP; exec \"$0\" \"$@\"";
    let mut packing = Command::new("sh");
    packing.args(["-c", words, ESKER, "pack", text(&tree), "-o", text(&image)]);
    let packing = packing.args(["--filter-by", &program]).stderr(Stdio::piped()).spawn().unwrap();
    assert!(within_seconds(|| asked.exists()), "it was not asked");
    let pid = packing.id().to_string();
    assert!(Command::new("kill").args(["-s", "HUP", &pid]).status().unwrap().success());
    done(&packing.wait_with_output().unwrap());
    assert!(image.exists());
}
