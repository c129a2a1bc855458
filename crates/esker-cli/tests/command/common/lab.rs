//! A volume under test, and the command with words that are text.

use std::fs;
use std::process::{Command, Output};

use super::{ESKER, Scratch};

pub struct Lab(pub Scratch);

impl Lab {
    /// With these directories in it.
    pub fn new(dirs: &[&str]) -> Self {
        let scratch = Scratch::new();
        dirs.iter().for_each(|name| drop(scratch.dir(name)));
        Self(scratch)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path(name).to_string_lossy().into_owned()
    }
}

/// A directory on a file system that has everything, and so much room.
pub fn tmpfs(lab: &Lab, name: &str, size: &str) -> String {
    let dir = lab.path(name);
    fs::create_dir_all(&dir).expect("made");
    let words = ["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", &dir];
    assert!(Command::new("mount").args(words).status().expect("it runs").success());
    dir
}

pub fn run(words: &[&str]) -> Output {
    Command::new(ESKER).args(words).output().expect("esker runs")
}

pub fn told(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

pub fn succeeds(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {}", told(&output));
    told(&output)
}

/// It fails with this status, and says all of this.
pub fn fails(words: &[&str], status: i32, parts: &[&str]) {
    let output = run(words);
    let text = told(&output);
    assert_eq!(output.status.code(), Some(status), "{words:?}: {text}");
    parts.iter().for_each(|part| assert!(text.contains(part), "{words:?}: {text} lacks {part}"));
}
