//! Rust, read just well enough: which bytes are code, where functions and modules begin and end.
//!
//! Above: the checks. Invariant: blanking keeps every line where it was.

/// The text with comments, strings and character literals blanked out; lines stay where they are.
#[must_use]
pub fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => comment_end(bytes, at),
            b'"' => string_end(bytes, at + 1),
            b'r' if !is_word(bytes, at.wrapping_sub(1)) => raw_end(bytes, at).unwrap_or(at),
            b'b' if bytes[at..].starts_with(b"br") && !is_word(bytes, at.wrapping_sub(1)) => {
                raw_end(bytes, at + 1).unwrap_or(at)
            }
            b'\'' => char_end(bytes, at).unwrap_or(at),
            _ => at,
        };
        let end = end.min(bytes.len());
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_word(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |len| at + len)
}

fn comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut at) = (0, at);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if bytes[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let found = bytes[open + 1..].windows(close.len()).position(|window| window == close);
    found.map(|len| open + 1 + len + close.len())
}

/// A lifetime is no literal.
fn char_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at + 1) == Some(&b'\\') {
        let close = bytes[at + 3..].iter().position(|&byte| byte == b'\'')?;
        return Some(at + 3 + close + 1);
    }
    let text = std::str::from_utf8(bytes.get(at + 1..(at + 6).min(bytes.len()))?).ok();
    let len = text.and_then(|text| text.chars().next()).map_or(1, char::len_utf8);
    (bytes.get(at + 1 + len) == Some(&b'\'')).then_some(at + 2 + len)
}

/// The line, from 1, that a byte stands in.
#[must_use]
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Where `word` stands as a word of its own in blanked code.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !is_word(code.as_bytes(), at.wrapping_sub(1)) && !is_word(code.as_bytes(), at + word.len())
    })
}

/// The end of the block that opens at the first `{` from `at` on, or nothing if a `;` comes first.
#[must_use]
pub fn block(code: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = code.as_bytes();
    let (mut depth, mut open) = (0_i32, None);
    let mut within = 0_i32;
    for (index, byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'(' | b'[' if open.is_none() => within += 1,
            b')' | b']' if open.is_none() => within -= 1,
            b';' if open.is_none() && within == 0 => return None,
            b'{' if within == 0 || open.is_some() => {
                open = open.or(Some(index));
                depth += 1;
            }
            b'}' if open.is_some() => {
                depth -= 1;
                if depth == 0 {
                    return open.map(|open| (open, index));
                }
            }
            _ => {}
        }
    }
    None
}

/// A function's name and its first and last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Of the word `fn`, from 1.
    pub first: usize,
    /// Of its closing brace.
    pub last: usize,
}

/// All functions with a body, nested ones too.
#[must_use]
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let rest = code[at + 2..].trim_start();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if name.is_empty() {
            continue;
        }
        if let Some((_, close)) = block(code, at) {
            let (first, last) = (line_of(code, at), line_of(code, close));
            found.push(Function { name, first, last });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_code_is_blanked() {
        let text =
            "let a = \"fn x() {\"; // fn y\n/* { /* } */ */ let b = '{'; let c: &'a u8; r#\"\"{\"#";
        let code = code(text);
        assert_eq!(code.len(), text.len());
        assert!(!code.contains('{') && !code.contains("fn"));
        assert!(code.contains("let b =") && code.contains("&'a u8"));
    }

    #[test]
    fn functions_have_ends() {
        let text = "fn a(x: [u8; 3]) -> u8 {\n  if x {\n }\n}\ntrait T { fn b(); }\nfn c() {}\n";
        let found = functions(&code(text));
        let told: Vec<_> = found.iter().map(|f| (&*f.name, f.first, f.last)).collect();
        assert_eq!(told, [("a", 1, 4), ("c", 6, 6)]);
    }
}
