//! Every crate that is built in comes from the registry, under a licence that `deny.toml` allows,
//! and is none that it bans. `cargo metadata` tells, without the network once everything is fetched.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The words of a list in `deny.toml`: quoted strings from `key = [` to `]`.
fn list(text: &str, key: &str) -> Vec<String> {
    let start =
        text.find(&format!("\n{key} = [")).unwrap_or_else(|| panic!("no {key} in deny.toml"));
    let body = text[start..].split('[').nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    body.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether the words `A OR B`, `A AND B`, `(A OR B) AND C`, and the old `A/B`, allow the use.
fn allowed(expression: &str, allow: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let answer = either(&mut rest, allow);
    answer && rest.is_empty()
}

fn either(rest: &mut &[&str], allow: &[String]) -> bool {
    let mut answer = both(rest, allow);
    while let ["OR", more @ ..] = *rest {
        *rest = more;
        answer |= both(rest, allow);
    }
    answer
}

fn both(rest: &mut &[&str], allow: &[String]) -> bool {
    let mut answer = one(rest, allow);
    while let ["AND", more @ ..] = *rest {
        *rest = more;
        answer &= one(rest, allow);
    }
    answer
}

fn one(rest: &mut &[&str], allow: &[String]) -> bool {
    match *rest {
        ["(", more @ ..] => {
            *rest = more;
            let answer = either(rest, allow);
            let closed = rest.first() == Some(&")");
            *rest = rest.get(1..).unwrap_or_default();
            answer && closed
        }
        // An exception only takes conditions away, but it is not the licence that was looked at: it is allowed by name.
        [word, "WITH", exception, more @ ..] => {
            *rest = more;
            allow.contains(&format!("{word} WITH {exception}"))
        }
        [word, more @ ..] => {
            *rest = more;
            allow.iter().any(|licence| licence == word)
        }
        [] => false,
    }
}

#[test]
fn expressions_are_understood() {
    let allow = ["MIT".to_owned(), "Unicode-3.0".to_owned(), "C WITH D".to_owned()];
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-2.0",
        "(MIT OR X) AND Unicode-3.0",
        "A WITH B OR MIT",
        "C WITH D AND MIT",
    ] {
        assert!(allowed(good, &allow), "{good}");
    }
    for bad in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "MIT WITH X",
        "C",
        "C WITH X",
        "(MIT",
        "MIT MIT",
        "MIT AND (X OR Y)",
    ] {
        assert!(!allowed(bad, &allow), "{bad}");
    }
}

#[test]
fn everything_built_in_may_be() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let rules = std::fs::read_to_string(root.join("deny.toml")).unwrap();
    let (allow, deny) = (list(&rules, "allow"), list(&rules, "deny"));
    let host = Command::new("rustc").arg("-vV").output().unwrap().stdout;
    let host = String::from_utf8(host).unwrap();
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let metadata = |more: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["metadata", "--format-version", "1", "--locked", "--all-features"]);
        cargo.args(["--filter-platform", host]).args(more).current_dir(root).output().unwrap()
    };
    // What only a feature needs (the schedule explorer) may not have been fetched yet.
    let known = Some(metadata(&["--offline"])).filter(|output| output.status.success());
    let output = known.unwrap_or_else(|| metadata(&[]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let data: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut wrong = Vec::new();
    let packages = data["packages"].as_array().unwrap();
    for package in packages {
        let (name, licence) = (package["name"].as_str().unwrap(), package["license"].as_str());
        if !licence.is_some_and(|licence| allowed(licence, &allow)) {
            wrong.push(format!("{name}: licence {licence:?}"));
        }
        let registry =
            package["source"].as_str().is_none_or(|place| place.starts_with("registry+"));
        if !registry {
            wrong.push(format!("{name}: from {}", package["source"]));
        }
        if deny.iter().any(|banned| banned == name) {
            wrong.push(format!("{name}: banned"));
        }
    }
    assert!(packages.len() > 4 && wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn both_licence_texts_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let text = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    assert!(text("LICENSE-MIT").contains("Permission is hereby granted, free of charge"));
    assert!(text("LICENSE-APACHE").contains("END OF TERMS AND CONDITIONS"));
}
