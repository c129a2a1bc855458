//! The tables of FORMAT.md against the `layout!` declarations: two descriptions of one byte, compared.
//!
//! Above: `tests/exams/tidy.rs`. Invariant: every layout of a crate that has a FORMAT.md has a table there, under a
//! heading that names it, and every table with the columns offset, size, field has a layout.

use std::collections::BTreeMap;
use std::path::Path;

use super::source::{block, code, words};
use super::{files, root, short, text};

/// Offset, size in bytes, name.
type Row = (usize, usize, String);
type Tables = BTreeMap<String, Vec<Row>>;

/// Where prose and code say different things.
#[must_use]
pub fn drift() -> Vec<String> {
    let mut findings = Vec::new();
    for path in files(&root().join("crates"), "rs") {
        let Some(folder) = crate_of(&path) else { continue };
        let format = folder.join("FORMAT.md");
        if !format.exists() {
            continue;
        }
        let told = tables(&text(&format));
        for (name, rows) in layouts(&text(&path), &constants(&folder.join("src"))) {
            match (rows, told.get(&name)) {
                (Err(why), _) => findings.push(format!("{}: {name}: {why}", short(&path))),
                (Ok(_), None) => {
                    findings.push(format!("{}: {name} has no table in FORMAT.md", short(&path)));
                }
                (Ok(rows), Some(told)) if rows != *told => findings.push(format!(
                    "{}: {name}: the code says {rows:?}, FORMAT.md {told:?}",
                    short(&path)
                )),
                _ => {}
            }
        }
    }
    findings.extend(tables_without_layout());
    findings
}

fn tables_without_layout() -> Vec<String> {
    let mut findings = Vec::new();
    for format in files(&root().join("crates"), "md") {
        let folder = format.parent().unwrap_or(&format);
        if format.file_name().is_none_or(|name| name != "FORMAT.md") {
            continue;
        }
        let mut declared = Vec::new();
        for path in files(&folder.join("src"), "rs") {
            declared.extend(layouts(&text(&path), &BTreeMap::new()).into_iter().map(|(n, _)| n));
        }
        for name in tables(&text(&format)).keys().filter(|name| !declared.contains(name)) {
            findings.push(format!("{}: the table of {name} has no layout!", short(&format)));
        }
    }
    findings
}

fn crate_of(path: &Path) -> Option<&Path> {
    let source = path.ancestors().find(|folder| folder.ends_with("src"))?;
    source.parent().filter(|folder| folder.join("Cargo.toml").exists())
}

/// Tables with the columns offset, size and field, by the struct that the heading above names.
fn tables(markdown: &str) -> Tables {
    let mut found = Tables::new();
    let mut heading = String::new();
    let mut columns = None;
    for line in markdown.lines() {
        if line.starts_with('#') {
            heading = named(line).unwrap_or_default();
        }
        if !line.trim_start().starts_with('|') {
            columns = None;
            continue;
        }
        let cells: Vec<_> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let place = |name: &str| cells.iter().position(|cell| *cell == name);
        if let (Some(offset), Some(size), Some(field)) =
            (place("offset"), place("size"), place("field"))
        {
            columns = Some([offset, size, field]);
            found.entry(heading.clone()).or_default();
        } else if let Some([offset, size, field]) = columns
            && let (Some(offset), Some(size)) = (number(&cells, offset), number(&cells, size))
            && let (Some(field), Some(rows)) = (cells.get(field), found.get_mut(&heading))
        {
            rows.push((offset, size, field.trim_matches('`').to_owned()));
        }
    }
    found
}

fn number(cells: &[&str], column: usize) -> Option<usize> {
    cells.get(column)?.parse().ok()
}

/// The struct that a heading names: in backticks, or else its last word that begins with a capital.
fn named(heading: &str) -> Option<String> {
    let words = |text: &str| -> Vec<String> {
        let parts = text.split(|c: char| !c.is_alphanumeric());
        parts.filter(|word| word.starts_with(char::is_uppercase)).map(str::to_owned).collect()
    };
    let quoted = heading.split('`').nth(1).and_then(|quoted| words(quoted).pop());
    quoted.or_else(|| words(heading).pop())
}

/// `const NAME: usize = 123;` of a crate, for sizes that are not written out.
fn constants(source: &Path) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for path in files(source, "rs") {
        let code = code(&text(&path));
        for at in words(&code, "const") {
            let line = code[at + 5..].split(';').next().unwrap_or_default();
            if let Some((left, right)) = line.split_once('=')
                && let Some((name, _)) = left.split_once(':')
                && let Ok(number) = right.trim().replace('_', "").parse()
            {
                found.insert(name.trim().to_owned(), number);
            }
        }
    }
    found
}

/// Every `layout!` of a source, with its rows or what could not be read.
fn layouts(
    text: &str,
    constants: &BTreeMap<String, usize>,
) -> Vec<(String, Result<Vec<Row>, String>)> {
    let code = code(text);
    let mut found = Vec::new();
    for at in words(&code, "layout") {
        if !code[at + 6..].starts_with('!') {
            continue;
        }
        let Some((open, close)) = block(&code, at) else { continue };
        let body = &code[open..close];
        let Some(start) = body.find("struct ") else { continue };
        let head = &body[start + 7..];
        let name: String = head.chars().take_while(|c| c.is_alphanumeric()).collect();
        if let Some((open, close)) = block(body, start) {
            let fields = body[open + 1..close].split(',').filter(|field| field.contains("=>"));
            found.push((name, fields.map(|field| row(field, constants)).collect()));
        }
    }
    found
}

fn row(field: &str, constants: &BTreeMap<String, usize>) -> Result<Row, String> {
    let unread = || format!("{} cannot be read", field.trim());
    let (offset, rest) = field.split_once("=>").ok_or_else(unread)?;
    let (name, kind) = rest.split_once(':').ok_or_else(unread)?;
    let offset = offset.trim().rsplit([' ', '\n', ']']).next().unwrap_or_default();
    let offset = offset.parse().map_err(|_| unread())?;
    let size = match kind.trim() {
        "u8" => 1,
        "u16" => 2,
        "u32" => 4,
        "u64" | "i64" => 8,
        bytes => {
            let bytes = bytes.strip_prefix('[').and_then(|bytes| bytes.strip_suffix(']'));
            let (_, count) = bytes.and_then(|bytes| bytes.split_once(';')).ok_or_else(unread)?;
            let count = count.trim();
            let known = count.rsplit("::").next().and_then(|name| constants.get(name).copied());
            count.parse().ok().or(known).ok_or_else(unread)?
        }
    };
    Ok((offset, size, name.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_and_a_layout_that_agree() {
        let prose = "## The end: `Tail`\n\n| offset | size | field | what |\n|---|---|---|---|\n\
                     | 0 | 4 | `crc` | of all |\n| 4 | 8 | pad | zero |\n";
        let code = "layout! {\n /// Doc, with 9 => x: u8,\n pub struct Tail: 12 {\n\
                    /// Of all.\n 0 => crc: u32,\n 4 => pad: [u8; PAD],\n }\n}";
        let constants = BTreeMap::from([("PAD".to_owned(), 8)]);
        let (name, rows) = layouts(code, &constants).remove(0);
        assert_eq!(tables(prose).get(&name), Some(&rows.unwrap()));
    }
}
