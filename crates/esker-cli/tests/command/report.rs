//! The page about an image: whole, without anything from elsewhere, and as a browser shows it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Scratch, done, errors, esker, text};

const NAME: &str = "<script>alert('x')&\"";

fn report(scratch: &Scratch) -> (PathBuf, String) {
    let tree = scratch.dir("tree");
    fs::create_dir_all(tree.join("docs/deep")).unwrap();
    for number in 0..50u32 {
        let words = (0..3000).map(|at| format!("{} ", at * (number + 3) % 977)).collect::<String>();
        fs::write(tree.join(format!("docs/{number}.txt")), words).unwrap();
    }
    fs::copy(tree.join("docs/7.txt"), tree.join("docs/deep/twin.txt")).unwrap();
    fs::write(tree.join(NAME), b"a hostile name has a content of its own ".repeat(500)).unwrap();
    fs::write(tree.join("small"), b"x").unwrap();
    let (image, page) = (scratch.path("x.esker"), scratch.path("x.html"));
    done(&esker(["pack", text(&tree), "-o", text(&image), "-l", "5"]));
    done(&esker(["report", text(&image), "-o", text(&page)]));
    let html = fs::read_to_string(&page).unwrap();
    (page, html)
}

/// A page takes the place of a page, and of nothing else unless that is asked for; never of what it is about.
#[test]
fn a_page_takes_the_place_of_a_page_only() {
    let scratch = Scratch::new();
    let (page, html) = report(&scratch);
    let (image, other) = (scratch.path("x.esker"), scratch.path("other.esker"));
    fs::copy(&image, &other).unwrap();
    let write = |output: &Path, more: &[&str]| {
        esker([&["report", text(&image), "-o", text(output)], more].concat())
    };
    for held in [other, scratch.file("notes.html", b"<!doctype html>\n<p>mine"), image.clone()] {
        let was = fs::read(&held).unwrap();
        let refused = write(&held, &[]);
        assert_eq!(refused.status.code(), Some(2));
        let why = if held == image { "that is what is read" } else { "the output exists already" };
        assert!(errors(&refused).contains(why), "{}", errors(&refused));
        assert!(fs::read(&held).unwrap() == was);
    }
    assert_eq!(write(&image, &["--force"]).status.code(), Some(2));
    for replaced in [page, scratch.file("empty", b"")] {
        done(&write(&replaced, &[]));
        assert_eq!(fs::read_to_string(&replaced).unwrap(), html);
    }
    let notes = scratch.path("notes.html");
    done(&write(&notes, &["--force"]));
    assert_eq!(fs::read_to_string(&notes).unwrap(), html);
}

#[test]
fn the_page_tells_of_everything_and_asks_nobody() {
    let scratch = Scratch::new();
    let (page, html) = report(&scratch);
    for part in ["summary", "before", "after", "categories", "blocks", "costliest", "duplicates"] {
        assert!(html.contains(&format!("id=\"{part}\"")), "{part}");
    }
    assert!(html.contains("/docs/deep/twin.txt"));
    assert!(html.contains("1 contents have several names"));
    // What the image names is text, and there is no address, script or style from elsewhere.
    assert!(
        !html.contains("<script") && html.contains("&lt;script&gt;alert(&#39;x&#39;)&amp;&quot;")
    );
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import"] {
        assert!(!html.contains(outside), "{outside}");
    }
    let again = scratch.path("again.html");
    done(&esker(["report", text(&scratch.path("x.esker")), "-o", text(&again)]));
    assert!(fs::read(&again).unwrap() == fs::read(&page).unwrap(), "it is always the same");
    let printed = esker(["report", text(&scratch.path("x.esker")), "-o", "-"]);
    assert!(printed.status.success() && printed.stdout == fs::read(&page).unwrap());
    let failed = esker(["report", text(&scratch.path("x.esker")), "-o", "/no/such/dir/x.html"]);
    assert_eq!(failed.status.code(), Some(1), "{}", errors(&failed));
}

/// What could not be read while the page was made is told on it and beside it.
#[test]
fn damage_that_is_met_is_told() {
    let scratch = Scratch::new();
    let (page, html) = report(&scratch);
    assert!(!html.contains("What could not be read"));
    let image = scratch.path("x.esker");
    let mut bytes = fs::read(&image).unwrap();
    let data = u64::from_le_bytes(bytes[64..72].try_into().unwrap()) as usize;
    bytes[512 + data / 2] ^= 1;
    fs::write(&image, bytes).unwrap();
    let told = esker(["report", text(&image), "-o", text(&page)]);
    assert_eq!(told.status.code(), Some(6), "{}", errors(&told));
    assert!(errors(&told).starts_with("esker: block "), "{}", errors(&told));
    let html = fs::read_to_string(&page).unwrap();
    let (_, lost) = html.split_once("What could not be read").unwrap();
    assert!(lost.contains(errors(&told).strip_prefix("esker: ").unwrap().trim_end()), "{lost}");
}

/// What a page says between two marks.
fn between<'a>(html: &'a str, before: &str, behind: &str) -> &'a str {
    let (_, rest) = html.split_once(before).unwrap();
    rest.split_once(behind).unwrap().0
}

/// Zeros beside other data are free, twins share what they have, and nothing is charged twice.
#[test]
fn each_stored_byte_is_charged_once() {
    let scratch = Scratch::new();
    let tree = scratch.dir("tree");
    let mut chance = 7u64;
    let mut noise = |len: usize| -> Vec<u8> {
        let mut next = || {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Not so even that it counts as compressed already.
            (chance >> 60) as u8
        };
        (0..len).map(|_| next()).collect()
    };
    let shared = noise(200_000);
    for (name, content) in [
        ("alone", noise(200_000)),
        ("twin1", shared.clone()),
        ("twin2", shared.clone()),
        ("much", [shared, noise(20_000)].concat()),
        ("zeros", vec![0; 700_000]),
    ] {
        fs::write(tree.join(name), content).unwrap();
    }
    fs::hard_link(tree.join("zeros"), tree.join("zeros2")).unwrap();
    for level in ["2", "3", "6", "9"] {
        let (image, page) = (scratch.path("x.esker"), scratch.path("x.html"));
        done(&esker(["pack", text(&tree), "-o", text(&image), "-l", level, "--force"]));
        done(&esker(["report", text(&image), "-o", text(&page)]));
        let html = fs::read_to_string(&page).unwrap();
        let after = html.split_once("id=\"after\"").unwrap().1;
        let blocks = between(&html, "<dt>of that blocks</dt><dd>", "</dd>");
        assert_eq!(between(after, "<title>/: ", "</title>"), blocks, "level {level}");
        let kib = |name: &str| -> f64 {
            // What costs nothing is not drawn.
            let Some((_, told)) = after.split_once(&format!("<title>/{name}: ")) else {
                return 0.0;
            };
            let told = told.split_once("</title>").unwrap().0;
            let (count, unit) = told.split_once(' ').unwrap();
            count.parse::<f64>().unwrap() / if unit == "B" { 1024.0 } else { 1.0 }
        };
        assert!(kib("alone") > 90.0 && kib("zeros") < 1.0, "level {level}: {after}");
        let third = kib("alone") / 3.0;
        for twin in ["twin1", "twin2"] {
            assert!((kib(twin) / third - 1.0).abs() < 0.1, "level {level}: {}", kib(twin));
        }
    }
}

/// Whether there is a browser. `scripts/setup.sh` installs one; with `ESKER_CI=1` there must be.
fn browser() -> Option<PathBuf> {
    let found = ["chromium", "chromium-browser", "google-chrome"].iter().find_map(|name| {
        let paths = std::env::var_os("PATH")?;
        std::env::split_paths(&paths).map(|dir| dir.join(name)).find(|path| path.exists())
    });
    if found.is_none() {
        assert!(std::env::var_os("ESKER_CI").is_none(), "there is no chromium");
        eprintln!("LEFT OUT: there is no chromium");
    }
    found
}

fn run(browser: &Path, home: &Path, page: &Path, more: &str) -> std::process::Output {
    let data = format!("--user-data-dir={}", text(home));
    let usual = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,4000", &data];
    let url = format!("file://{}", text(page));
    Command::new(browser).args(usual).arg(more).arg(url).output().unwrap()
}

#[test]
fn a_browser_shows_it() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new();
    let (page, _) = report(&scratch);
    let home = scratch.dir("home");
    let shown = run(&browser, &home, &page, "--dump-dom");
    let dom = String::from_utf8_lossy(&shown.stdout);
    // The browser has taken the page apart as it was meant: every rectangle, every row, and nothing that runs.
    for (element, least) in [("<rect", 60), ("<tr", 50), ("<title>", 50)] {
        assert!(dom.matches(element).count() >= least, "{element}: {}", errors(&shown));
    }
    assert!(!dom.contains("<script"));
    let picture = scratch.path("x.png");
    let into = format!("--screenshot={}", text(&picture));
    let shown = run(&browser, &home, &page, &into);
    assert!(fs::metadata(&picture).is_ok_and(|png| png.len() > 20_000), "{}", errors(&shown));
}

/// The page about a volume that holds something, and how many stretches it has.
fn volume_report(scratch: &Scratch) -> (PathBuf, usize) {
    let tree = scratch.dir("tree");
    let noise = (0..3u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8);
    fs::write(tree.join("noise"), noise.collect::<Vec<_>>()).unwrap();
    let (volume, page) = (scratch.path("x.vol"), scratch.path("x.html"));
    let words = ["mkfs", text(&volume), "--size", "16M", "--segment", "256K", "--label", "<b>"];
    done(&esker(words.into_iter().chain(["--from", text(&tree)])));
    done(&esker(["report", text(&volume), "-o", text(&page)]));
    (page, 64)
}

#[test]
fn the_page_of_a_volume_shows_every_stretch() {
    let scratch = Scratch::new();
    let (page, stretches) = volume_report(&scratch);
    let html = fs::read_to_string(&page).unwrap();
    for part in ["summary", "legend", "map", "fullness", "wear"] {
        assert!(html.contains(&format!("id=\"{part}\"")), "{part}");
    }
    assert_eq!(html.matches("<title>stretch ").count(), stretches);
    assert!(html.matches(": superblocks").count() >= 2 && html.contains(": log, segment 1, "));
    assert!(html.contains("&lt;b&gt;") && !html.contains("<b>"));
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
        assert!(!html.contains(outside), "{outside}");
    }
    let Some(browser) = browser() else { return };
    let home = scratch.dir("home");
    let shown = run(&browser, &home, &page, "--dump-dom");
    let dom = String::from_utf8_lossy(&shown.stdout);
    assert_eq!(dom.matches("<title>stretch ").count(), stretches, "{dom}");
}
