//! A section of a Markdown file that a run writes and a later run writes again. What stands outside its
//! two marks is somebody's prose and stays.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure, Outcome, said};
use crate::pack::output::replace;

/// A file and the title of a section in it.
#[derive(Debug)]
pub struct Section {
    path: PathBuf,
    title: String,
}

impl Section {
    /// Makes sure, before anything is measured, that it can be written.
    pub fn new(path: &Path, title: &str) -> Outcome<Self> {
        if title.is_empty() || title.contains("--") || title.contains(char::is_control) {
            let what = format!("not a title for a section: {title:?}");
            return Err(Failure::new(Exit::Usage, what, "give one line without --"));
        }
        let section = Self { path: path.to_owned(), title: title.to_owned() };
        section.with("").map(drop)?;
        Ok(section)
    }

    /// Puts `body` in, at the end if the section is new.
    pub fn write(&self, body: &str) -> Outcome {
        let text = self.with(body)?;
        // Whole or not at all: there is prose in it that nobody can measure again.
        replace("tables", &self.path, text.as_bytes())
    }

    fn with(&self, body: &str) -> Outcome<String> {
        let old = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => "# Benchmarks\n".to_owned(),
            Err(error) => {
                let what = format!("cannot read what the tables go into ({})", said(&error));
                return Err(self.failure(&what, ""));
            }
        };
        replaced(&old, &self.title, body).ok_or_else(|| {
            let what = format!("the marks of the section {:?} do not pair up", self.title);
            self.failure(&what, "each must be there once, or neither")
        })
    }

    fn failure(&self, what: &str, remedy: &str) -> Failure {
        Failure::at(Exit::Failed, what, &self.path, remedy)
    }
}

/// `old` with `body` between the marks; nothing where they do not pair up.
fn replaced(old: &str, title: &str, body: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- esker bench: {title} -->"), "<!-- esker bench ends -->");
    let Some((before, rest)) = old.split_once(&begin) else {
        return Some(format!("{}\n\n## {title}\n\n{begin}\n{body}{end}\n", old.trim_end()));
    };
    let (middle, after) = rest.split_once(end)?;
    let pair_up = !middle.contains("<!-- esker bench: ") && !after.contains(&begin);
    pair_up.then(|| format!("{before}{begin}\n{body}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_outside_the_marks_stays() {
        let first = replaced("# Title\n\nWords.\n", "one", "| 1 |\n").unwrap();
        let second = replaced(&first, "two", "| 2 |\n").unwrap() + "\nWhat it means.\n";
        let third = replaced(&second, "one", "| 3 |\n").unwrap();
        assert_eq!(third, second.replace("| 1 |", "| 3 |"));
        assert!(third.starts_with("# Title\n\nWords.\n\n## one\n\n<!-- esker bench: one -->\n"));
        assert!(third.ends_with("| 2 |\n<!-- esker bench ends -->\n\nWhat it means.\n"));
    }

    #[test]
    fn marks_that_do_not_pair_up_are_left_alone() {
        let mark = "<!-- esker bench: one -->\n";
        assert_eq!(replaced(mark, "one", ""), None);
        assert_eq!(replaced(&format!("{mark}{mark}<!-- esker bench ends -->"), "one", ""), None);
        assert!(Section::new(Path::new("/x"), "a --> b").is_err());
    }
}
