//! What a person is told when something did not work: what was wrong, where, and what to do.
//!
//! Above: every verb returns a [`Failure`], `main` prints it and exits with its status. Below:
//! nothing. Invariant: bytes from outside (names in an archive, paths) pass through [`shown`]
//! before they reach a terminal.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Why the program ends, as its exit status. `esker --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The system or the file system refused.
    Failed = 1,
    /// Wrong arguments or options.
    Usage = 2,
    /// The mount point is missing, in use, stale, not empty or not a directory.
    MountPoint = 3,
    /// The tree or archive to start from cannot be read, or was refused.
    Source = 4,
    /// Done, but for what was named: something could not be read, or was left out.
    Partly = 5,
    /// An image is damaged, or is none.
    Damaged = 6,
    /// Two things differ.
    Different = 7,
}

/// A failure with its exit status.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The status to exit with.
    pub exit: Exit,
    /// One line: what, where, what to do; several when several things were wrong.
    pub text: String,
}

/// The result of every verb.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// What was wrong and what to do about it.
    pub fn new(exit: Exit, what: impl Into<String>, remedy: &str) -> Self {
        let mut text = what.into();
        if !remedy.is_empty() {
            text.push_str(": ");
            text.push_str(remedy);
        }
        Self { exit, text }
    }

    /// As [`Failure::new`], with the place between the two.
    pub fn at(exit: Exit, what: &str, place: &Path, remedy: &str) -> Self {
        Self::new(exit, format!("{what}: {}", path_shown(place)), remedy)
    }

    /// The system gave no thread.
    pub fn no_thread(error: &io::Error) -> Self {
        Self::new(Exit::Failed, format!("cannot start a thread: {}", said(error)), "")
    }
}

/// The longest name that is shown whole, in bytes: no path of this machine is longer.
const SHOWN_LEN_MAX: usize = 4096;
/// What is shown of a longer one, at its beginning and at its end.
const SHOWN_ENDS_LEN: usize = 100;

/// Bytes of a name for a terminal: what is printable UTF-8 as it is, everything else as `\xNN`. Of
/// an absurdly long one the beginning and the end.
pub fn shown(bytes: &[u8]) -> String {
    if bytes.len() <= SHOWN_LEN_MAX {
        let whole = escaped(bytes);
        if whole.len() <= SHOWN_LEN_MAX || bytes.len() <= 2 * SHOWN_ENDS_LEN {
            return whole;
        }
    }
    let (head, tail) = (&bytes[..SHOWN_ENDS_LEN], &bytes[bytes.len() - SHOWN_ENDS_LEN..]);
    format!("{} ... {} ({} bytes)", escaped(head), escaped(tail), bytes.len())
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                letter if letter.is_control() || invisible(letter) => {
                    let mut buffer = [0; 4];
                    escape(&mut text, letter.encode_utf8(&mut buffer).as_bytes());
                }
                letter => text.push(letter),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// Letters that turn the direction of the text around or take no room: a hostile name hides behind
/// them.
const fn invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    )
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// What the system said, without the number that nobody reads.
pub fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" (os error ").map_or(text.clone(), |(words, _)| words.to_owned())
}

/// [`shown`] for a path.
pub fn path_shown(path: &Path) -> String {
    shown(path.as_os_str().as_bytes())
}

/// [`shown`] for a string of the operating system.
pub fn os_shown(string: &OsStr) -> String {
    shown(string.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_cannot_reach_the_terminal() {
        assert_eq!(shown(b"plain \xc3\xa9"), "plain é");
        assert_eq!(shown(b"a\x1b[2Jb"), "a\\x1b[2Jb");
        assert_eq!(shown(b"\xff\xfe\n\\"), "\\xff\\xfe\\x0a\\\\");
        assert_eq!(shown("x\u{202e}y".as_bytes()), "x\\xe2\\x80\\xaey");
        assert_eq!(shown(&[b'n'; 4096]).len(), 4096);
        let long = shown(&[b"\xff".as_slice(), &[b'd'; 600_000], b"/end"].concat());
        assert!(long.starts_with("\\xffddd") && long.ends_with("d/end (600005 bytes)"));
        assert!(long.len() < 300, "{long}");
    }

    #[test]
    fn errors_of_the_system_come_in_words() {
        assert_eq!(said(&io::Error::from_raw_os_error(13)), "Permission denied");
        assert_eq!(said(&io::Error::other("broken")), "broken");
    }

    #[test]
    fn a_failure_says_what_where_and_what_to_do() {
        let failure =
            Failure::at(Exit::MountPoint, "mount point is missing", Path::new("/x"), "make it");
        assert_eq!(failure.text, "mount point is missing: /x: make it");
    }
}
