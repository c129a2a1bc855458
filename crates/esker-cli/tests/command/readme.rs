//! What the README shows is what runs.

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../../../../README.md");
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let code = include_str!("../../examples/library.rs");
    let (_, code) = code.split_once("\n\n").unwrap();
    assert_eq!(shown, code, "the README shows another program than examples/library.rs");
}

/// Whoever follows the README types no command that is not there, and comes by `esker`.
#[test]
fn the_readme_says_how_to_get_what_it_uses() {
    let readme = include_str!("../../../../README.md");
    let makefile = include_str!("../../../../Makefile");
    let said: Vec<&str> =
        readme.lines().filter_map(|line| line.strip_prefix("make ")?.split(' ').next()).collect();
    assert!(said.contains(&"install"), "{said:?}");
    for goal in &said {
        assert!(makefile.contains(&format!("\n{goal}:\n")), "make {goal} is not in the Makefile");
    }
    let installs = readme.find("make install").unwrap();
    let uses = readme.find("\nesker mount").unwrap();
    assert!(installs < uses, "esker is used before it is installed");
}

#[test]
fn the_example_runs() {
    let example =
        std::path::Path::new(env!("CARGO_BIN_EXE_esker")).with_file_name("examples/library");
    // `cargo test` builds examples too, unless a single test was asked for.
    if example.exists() {
        assert!(std::process::Command::new(example).status().unwrap().success());
    }
}
