//! What pictures of measurements have in common: their look, their frame, their axes, words that are safe in them.
//!
//! Above: [`super::packing::curve`], [`super::storing::dots`], [`super::page`]. Invariant: a picture asks nobody.

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#222}\
    .t{font-size:15px;font-weight:600}.g{stroke:#d8d8d4}\
    .l{fill:none;stroke:#2f6fab;stroke-width:2}.o{fill:#2f6fab}.p{fill:#c2703d}.b{fill:#fcfcfa}\
    @media(prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#3a3b3e}.b{fill:#17181a}}";

/// All pictures are as wide.
pub const WIDTH: f64 = 860.0;

/// A whole picture of this height, around what is in it.
pub fn framed(title: &str, height: f64, inner: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\
         <title>{title}</title><style>{STYLE}</style>\
         <rect class=\"b\" width=\"{WIDTH}\" height=\"{height}\"/>\n{inner}</svg>\n"
    )
}

/// Whether a text is such a picture, of now or of an earlier version.
pub fn is_one(text: &str) -> bool {
    text.starts_with("<svg ") && text.contains("<style>text{font:12px system-ui,")
}

/// From the power of ten below the least to the one above the most, of what is more than nothing.
pub fn decades(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::MAX, f64::min);
    let most = values.fold(0.0, f64::max);
    let (first, last) = (least.log10().floor(), most.max(least).log10().ceil());
    (first, last.max(first + 1.0))
}

/// The class of a point: ours, or a peer's.
pub const fn class(ours: bool) -> &'static str {
    if ours { "o" } else { "p" }
}

/// Text as it may stand in a page or a picture.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
