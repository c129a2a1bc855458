//! What the README shows is what runs.

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../../../README.md");
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let code = include_str!("../examples/library.rs");
    let (_, code) = code.split_once("\n\n").unwrap();
    assert_eq!(shown, code, "the README shows another program than examples/library.rs");
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
