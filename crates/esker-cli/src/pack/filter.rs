//! What to leave out: rules as rsync(1) has them, the first that matches decides.

/// Whether a pattern of the shell matches: `*` and `?` stop at a `/`, `**` does not, `[a-z]` and `[!a-z]` are
/// sets.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    // Positions to go back to: of the last `*`, and of the last `**`.
    let (mut p, mut t) = (0, 0);
    let (mut star, mut double) = (None, None);
    loop {
        if p == pattern.len() && t == text.len() {
            return true;
        }
        if pattern[p..].starts_with(b"**") {
            double = Some((p + 2, t));
            star = None;
            p += 2;
            continue;
        }
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if let (Some(&byte), Some(len)) = (text.get(t), atom(&pattern[p..], text.get(t))) {
            let _ = byte;
            (p, t) = (p + len, t + 1);
            continue;
        }
        match (star, double) {
            (Some((behind, from)), _) if text.get(from).is_some_and(|&byte| byte != b'/') => {
                star = Some((behind, from + 1));
                (p, t) = (behind, from + 1);
            }
            (_, Some((behind, from))) if from < text.len() => {
                (star, double) = (None, Some((behind, from + 1)));
                (p, t) = (behind, from + 1);
            }
            _ => return false,
        }
    }
}

/// How long the first part of the pattern is, if it matches this byte.
fn atom(pattern: &[u8], byte: Option<&u8>) -> Option<usize> {
    let &byte = byte?;
    match pattern {
        [b'?', ..] => (byte != b'/').then_some(1),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((matches, len)) => (matches && byte != b'/').then_some(len + 1),
            None => (byte == b'[').then_some(1),
        },
        [b'\\', letter, ..] => (byte == *letter).then_some(2),
        [letter, ..] => (byte == *letter).then_some(1),
        [] => None,
    }
}

/// Whether a byte is in a set that begins behind its `[`, and how long that is; `None`: it has no end.
fn set(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let not = matches!(pattern.first(), Some(b'!' | b'^'));
    let mut at = usize::from(not);
    let (begin, mut found) = (at, false);
    loop {
        let &first = pattern.get(at)?;
        if first == b']' && at > begin {
            return Some((found != not, at + 1));
        }
        let range = pattern.get(at + 1) == Some(&b'-') && pattern.get(at + 2)? != &b']';
        let last = if range { *pattern.get(at + 2)? } else { first };
        found |= (first..=last).contains(&byte);
        at += if range { 3 } else { 1 };
    }
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    include: bool,
    pattern: Vec<u8>,
    /// It begins with a `/`: it is of the whole path.
    anchored: bool,
    /// It ends with a `/`: it is of directories.
    directories: bool,
}

/// Rules in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// One more: `- PATTERN` leaves out, `+ PATTERN` takes in.
    pub fn push(&mut self, rule: &str) -> Result<(), String> {
        let (sign, pattern) = rule.trim_start().split_at_checked(2).unwrap_or((rule, ""));
        let include = match sign {
            "+ " => true,
            "- " => false,
            _ => return Err(format!("write `- PATTERN` or `+ PATTERN`, not `{rule}`")),
        };
        self.add(include, pattern)
    }

    /// A pattern to take in or leave out.
    pub fn add(&mut self, include: bool, pattern: &str) -> Result<(), String> {
        let whole = pattern.trim();
        let pattern = whole.strip_prefix('/').unwrap_or(whole);
        let directories = pattern.ends_with('/');
        let pattern = pattern.trim_end_matches('/');
        if pattern.is_empty() {
            return Err(format!("`{whole}` is no pattern"));
        }
        let anchored = whole.starts_with('/');
        let rule = |pattern: &str| {
            let pattern = pattern.as_bytes().to_vec();
            Rule { include, pattern, anchored, directories }
        };
        // `x/***` is x and everything in it.
        if let Some(dir) = pattern.strip_suffix("/***").filter(|dir| !dir.is_empty()) {
            self.0.extend([rule(dir), rule(&format!("{dir}/**"))]);
        } else {
            self.0.push(rule(pattern));
        }
        Ok(())
    }

    /// Before all other rules: leaves out this name in the root.
    pub fn leave_out(&mut self, name: &[u8]) {
        let (pattern, anchored) = (name.to_vec(), true);
        self.0.insert(0, Rule { include: false, pattern, anchored, directories: false });
    }

    /// Whether something is taken in. `path` has no `/` in front.
    pub fn take(&self, path: &[u8], directory: bool) -> bool {
        let decides = self.0.iter().find(|rule| rule.matches(path, directory));
        decides.is_none_or(|rule| rule.include)
    }
}

impl Rule {
    fn matches(&self, path: &[u8], directory: bool) -> bool {
        if self.directories && !directory {
            return false;
        }
        if self.anchored {
            return glob(&self.pattern, path);
        }
        // It may begin at any part of the path.
        let starts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let starts = std::iter::once(0).chain(starts.map(|(at, _)| at + 1));
        starts.map(|at| &path[at..]).any(|tail| glob(&self.pattern, tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_rsync() {
        for (pattern, text) in [
            ("*", "abc"),
            ("a*c", "abc"),
            ("a?c", "abc"),
            ("**", "a/b/c"),
            ("a/**/d", "a/b/c/d"),
            ("*.[ch]", "x.h"),
            ("[!a-c]x", "dx"),
            ("[]]", "]"),
            ("[", "["),
            ("\\*", "*"),
            ("*a*b*", "xaxaxbx"),
            ("**.o", "a/b.o"),
            ("", ""),
        ] {
            assert!(glob(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("*", "a/b"),
            ("a?c", "a/c"),
            ("*.c", "x.h"),
            ("[!a-c]x", "ax"),
            ("a", "ab"),
            ("a*", "b"),
            ("[!x]", "/"),
            ("a", ""),
            ("", "a"),
            ("**x", "aby"),
        ] {
            assert!(!glob(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_cannot_take_for_ever() {
        let pattern = "*a".repeat(200);
        assert!(!glob(pattern.as_bytes(), &[b'a'; 150]));
        let pattern = "**a".repeat(100) + "b";
        assert!(!glob(pattern.as_bytes(), &[b'a'; 2000]));
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let mut rules = Rules::default();
        for rule in ["+ keep.o", "- *.o", "- /top", "- cache/", "- a/b"] {
            rules.push(rule).unwrap();
        }
        assert!(rules.take(b"x/keep.o", false) && !rules.take(b"x/y.o", false));
        assert!(!rules.take(b"top", true) && rules.take(b"x/top", true));
        assert!(!rules.take(b"x/cache", true) && rules.take(b"x/cache", false));
        assert!(!rules.take(b"z/a/b", false) && rules.take(b"za/b", false));
        let mut only = Rules::default();
        for rule in ["+ /usr/", "+ /usr/share/***", "- *"] {
            only.push(rule).unwrap();
        }
        assert!(only.take(b"usr/share", true) && only.take(b"usr/share/a/b", false));
        assert!(!only.take(b"usr/bin", true) && !only.take(b"etc", true));
        assert!(
            rules.push("x").is_err() && rules.push("- ").is_err() && rules.push("- /").is_err()
        );
    }
}
