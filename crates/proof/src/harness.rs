//! Finding scripts on which two worlds part, shrinking them, and running those that are kept.
//!
//! Above: the tests. Invariant: the same seed gives the same scripts; a failure prints the seed and the shrunk
//! script, which belongs into `regressions/` under the name of what was wrong.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::differ::{Closely, compare};
use crate::script::Script;
use crate::script::generate::{Profile, script};
use crate::world::World;

/// Two fresh worlds.
pub type Pair = (Box<dyn World>, Box<dyn World>);

/// What to look for, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    /// How a failure names it.
    pub name: &'static str,
    /// What scripts hold.
    pub profile: Profile,
    /// How many scripts; `ESKER_CASES` overrides it.
    pub cases: u32,
    /// Tries at making a failing script shorter.
    pub shrinks: u32,
    /// How closely the worlds are compared.
    pub closely: Closely,
}

/// The seed of this run: `ESKER_SEED`, in decimal or with `0x`, or always the same.
///
/// # Panics
/// When it is no number.
#[must_use]
pub fn seed() -> u64 {
    const ALWAYS: u64 = 0xe5ce_5eed;
    let Ok(text) = std::env::var("ESKER_SEED") else { return ALWAYS };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("ESKER_SEED={text} is not a number"))
}

/// Ends what others do, whatever becomes of who waits for that.
#[derive(Debug)]
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A number from the environment, or the usual one.
#[must_use]
pub fn from_env(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn generator(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// Runs scripts in fresh pairs of worlds until they part.
///
/// # Panics
/// When they do: with seed, shrunk script and the difference.
pub fn hunt(hunt: Hunt, mut fresh: impl FnMut() -> Result<Pair, String>) {
    let seed = seed();
    let cases = from_env("ESKER_CASES", hunt.cases.into()) as u32;
    let config = Config {
        cases,
        max_shrink_iters: hunt.shrinks,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, generator(seed));
    let fresh = std::cell::RefCell::new(&mut fresh);
    let found = runner.run(&script(hunt.profile), |script| {
        let pair = (fresh.borrow_mut())().map_err(TestCaseError::fail)?;
        run(&script, pair, hunt.closely).map_err(TestCaseError::fail)
    });
    match found {
        Ok(()) => println!("{}: {cases} scripts from seed {seed:#x} agree", hunt.name),
        Err(TestError::Fail(why, script)) => panic!(
            "{}: seed {seed:#x}\nreplay: ESKER_SEED={seed:#x} ESKER_CASES={cases}\n\n\
             {script}\n{why}",
            hunt.name
        ),
        Err(TestError::Abort(why)) => panic!("{}: {why}", hunt.name),
    }
}

/// A script of this profile, always the same for a seed.
///
/// # Panics
/// Never: the strategies reject nothing.
#[must_use]
pub fn sample(profile: Profile, seed: u64) -> Script {
    let mut runner = TestRunner::new_with_rng(Config::default(), generator(seed));
    let tree = script(profile).new_tree(&mut runner);
    tree.expect("the strategies reject nothing").current()
}

/// One script in two worlds; a panic in one of them is a difference like any other.
///
/// # Errors
/// The difference.
pub fn run(script: &Script, pair: Pair, closely: Closely) -> Result<(), String> {
    let (mut a, mut b) = pair;
    let compared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        compare(script, &mut *a, &mut *b, closely)
    }));
    compared.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a word")))
    })
}

/// The scripts that are kept, with their names.
///
/// # Panics
/// When one of them cannot be read.
#[must_use]
pub fn regressions() -> Vec<(String, Script)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "script"))
        .collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let script = text.and_then(|text| text.parse());
        (name, script.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    };
    paths.iter().map(read).collect()
}

/// Runs every kept script in fresh pairs of worlds.
///
/// # Panics
/// When worlds part on any of them; with all that do.
pub fn run_regressions(closely: Closely, mut fresh: impl FnMut() -> Result<Pair, String>) {
    let mut failed = String::new();
    let scripts = regressions();
    for (name, script) in &scripts {
        let outcome = fresh().and_then(|pair| run(script, pair, closely));
        if let Err(why) = outcome {
            let _ = writeln!(failed, "{name}: {why}\n");
        }
    }
    assert!(failed.is_empty(), "{failed}");
    println!("{} kept scripts agree", scripts.len());
}
