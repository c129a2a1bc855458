//! What pages have in common: their look, and text made safe for them.
//!
//! Above: `page`, `volume`. Invariant: a page needs nothing from elsewhere.

use crate::failure::shown;

const STYLE: &str = "\
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1180px;padding:0 1em;\
color:#222;background:#fff}\
h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em}table{border-collapse:collapse;width:100%}\
th,td{text-align:right;padding:.15em .6em;border-bottom:1px solid #ddd;white-space:nowrap}\
th:last-child,td:last-child{text-align:left;white-space:normal;overflow-wrap:anywhere;width:60%}\
svg{width:100%;height:auto;display:block;border:1px solid #999}\
svg text{font:10px sans-serif;pointer-events:none}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1em 1em}dt{color:#666}dd{margin:0}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1b}\
th,td{border-color:#444}svg text{fill:#111}}";

/// Text for HTML, with what would turn it around or hide in it made visible.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for letter in shown(bytes).chars() {
        match letter {
            '&' => text += "&amp;",
            '<' => text += "&lt;",
            '>' => text += "&gt;",
            '"' => text += "&quot;",
            '\'' => text += "&#39;",
            letter => text.push(letter),
        }
    }
    text
}

/// What is before the name of every page: by that one is known.
pub const BEGINNING: &str =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>";

/// How a page begins; its name is its title and heading.
pub fn head(name: &str) -> String {
    let name = escaped(name.as_bytes());
    format!(
        "{BEGINNING}{name}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head>\n\
         <body><h1>{name}</h1>\n",
    )
}

/// Terms and what they are.
pub fn terms(id: &str, lines: &[(&str, String)]) -> String {
    let line = |(term, value): &(&str, String)| format!("<dt>{term}</dt><dd>{value}</dd>");
    format!("<dl id=\"{id}\">{}</dl>\n", lines.iter().map(line).collect::<String>())
}
