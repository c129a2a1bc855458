//! Which mount options fit what is mounted: one that would do nothing is refused by name, with the way out.
//!
//! Above: `serve`, before anything is opened. Invariant: what passed is obeyed.

use crate::failure::{Exit, Failure, Outcome};
use crate::images::Begin;
use crate::options::Options;

/// A word, and what to do instead.
type Foreign = (&'static str, &'static str);

/// Refuses what does nothing: `volumes` says whether any is among what is mounted.
pub fn check(options: &Options, volumes: bool) -> Outcome {
    let (foreign, why) = if volumes {
        (not_for_volumes(options), "is not for volumes")
    } else {
        (only_for_volumes(options), "is only for volumes")
    };
    match foreign {
        None => Ok(()),
        Some((word, remedy)) => {
            Err(Failure::new(Exit::Usage, format!("mount option {word} {why}"), remedy))
        }
    }
}

fn first(words: &[(bool, &'static str, &'static str)]) -> Option<Foreign> {
    words.iter().find(|(given, ..)| *given).map(|&(_, word, remedy)| (word, remedy))
}

fn not_for_volumes(options: &Options) -> Option<Foreign> {
    let owner = "a volume keeps its root directory: use chown(1) once it is mounted";
    let mode = "a volume keeps its root directory: use chmod(1) once it is mounted";
    first(&[
        (options.uid.is_some(), "uid=", owner),
        (options.gid.is_some(), "gid=", owner),
        (options.mode.is_some(), "mode=", mode),
        (options.umask.is_some(), "umask=", mode),
        (
            options.size.is_some(),
            "size=",
            "a volume is as large as `esker mkfs` made it; dirty= bounds what waits in memory",
        ),
        (
            options.file_size != Options::default().file_size,
            "file_size=",
            "files of a volume may be as large as it has room for",
        ),
        (options.offset != Begin(None), "offset=", "a volume begins where its file does"),
        (
            options.overlay,
            "overlay",
            "a volume is changed itself; pack it to put changes above an image of it",
        ),
        (options.no_sandbox, "no_sandbox", "what serves volumes keeps its rights anyway"),
    ])
}

fn only_for_volumes(options: &Options) -> Option<Foreign> {
    let remedy = "leave it out: nothing is written";
    first(&[
        (options.commit.is_some(), "commit=", remedy),
        (options.dirty.is_some(), "dirty=", remedy),
        (options.compress.is_some(), "compress=", remedy),
        (options.discard == Some(true), "discard", remedy),
        (options.discard == Some(false), "nodiscard", remedy),
        (options.dedup == Some(true), "dedup", remedy),
        (options.dedup == Some(false), "nodedup", remedy),
        (options.deltas == Some(true), "deltas", remedy),
        (options.deltas == Some(false), "nodeltas", remedy),
        (options.placement.is_some(), "placement=", remedy),
        (options.snapshots, "snapshots", "leave it out: there are none"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &str, volumes: bool) -> Option<String> {
        let options = Options::parse(&[words.into()], 1 << 30).expect("known words");
        check(&options, volumes).err().map(|failure| failure.text)
    }

    /// Every word that only some take is refused elsewhere, by its name and with a way out.
    #[test]
    fn what_would_do_nothing_is_refused() {
        let not = ["uid=1", "gid=1", "mode=755", "umask=22", "size=1G", "file_size=1G", "offset=1"];
        for word in not.into_iter().chain(["overlay", "no_sandbox"]) {
            let name = word.split_inclusive('=').next().expect("a word");
            let text = told(word, true).unwrap_or_else(|| panic!("{word} passed"));
            assert!(text.contains(&format!("option {name} is not for volumes: ")), "{text}");
            assert_eq!(told(word, false), None);
        }
        let words = ["commit=1", "dirty=64M", "compress=lz4", "discard", "nodedup", "snapshots"];
        for word in words.into_iter().chain(["placement=auto"]) {
            let text = told(word, false).unwrap_or_else(|| panic!("{word} passed"));
            assert!(text.contains("is only for volumes: "), "{text}");
            assert_eq!(told(word, true), None);
        }
        assert_eq!((told("ro,cache=64M", true), told("ro", false)), (None, None));
    }
}
