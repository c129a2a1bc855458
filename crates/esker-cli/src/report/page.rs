//! The page.
//!
//! Above: `verbs::report`. Below: `costs`, `treemap`. Invariant: every name passes through `escaped`.

use esker_image::Image;
use esker_image::pack::uses;
use esker_stone::hex;

use super::costs::{Costs, File};
use super::html::{escaped, head, terms};
use super::treemap::{Branch, Rect};
use crate::failure::shown;
use crate::units::size_shown;

/// Rows of a table.
const ROWS_MAX: usize = 100;
/// Bars of blocks.
const BARS_MAX: usize = 600;
/// How large treemaps are.
const MAP: Rect = Rect { x: 0.0, y: 0.0, w: 1160.0, h: 560.0 };
/// Colours of directories below the root.
const HUES: usize = 12;

/// The whole page about an image.
pub fn page(name: &str, image: &Image, costs: &Costs) -> String {
    let mut text = head(name);
    text += &summary(image, costs);
    let size = |file: &File| file.size as f64;
    text +=
        &map("before", "Before: lengths of files under all their names, by directory", costs, size);
    text += &map("after", "After: stored bytes, by directory", costs, |file| file.stored);
    text += &categories(costs);
    text += &blocks(costs);
    text += &costliest(costs);
    text += &duplicates(costs);
    if !costs.troubles.is_empty() {
        text += "<h2 id=\"troubles\">What could not be read</h2><ul>";
        for trouble in costs.troubles.iter().take(ROWS_MAX) {
            text += &format!("<li>{}</li>", escaped(trouble.as_bytes()));
        }
        text += "</ul>\n";
    }
    text + "</body></html>\n"
}

fn ratio(plain: f64, stored: f64) -> String {
    if stored > 0.0 { format!("{:.1}", plain / stored) } else { "-".to_owned() }
}

fn bytes(count: f64) -> String {
    size_shown(count.max(0.0) as u64)
}

fn summary(image: &Image, costs: &Costs) -> String {
    let (own, block) = (image.root().statistics, image.rest().superblock());
    let stored: u64 = costs.rows.iter().map(|row| u64::from(row.stored)).sum();
    let rest = block.size.saturating_sub(stored);
    let lines = [
        ("name", hex(&image.name())),
        ("files", format!("{} in {} directories", own.files, own.directories)),
        ("bytes of files", format!("{}, without holes", size_shown(own.file_bytes))),
        ("bytes of blocks", size_shown(own.block_bytes)),
        ("image", size_shown(block.size)),
        ("of that blocks", size_shown(stored)),
        ("of that names, attributes, index", size_shown(rest)),
        ("ratio", format!("1 : {}", ratio(own.file_bytes as f64, block.size as f64))),
    ];
    terms("summary", &lines)
}

/// A treemap of all files.
fn map(id: &str, title: &str, costs: &Costs, size: impl Fn(&File) -> f64) -> String {
    let mut root = Branch::default();
    costs.files.iter().for_each(|file| root.add(&file.path, size(file)));
    let mut text = format!(
        "<h2>{title}</h2>\n<svg id=\"{id}\" viewBox=\"0 0 {} {}\" role=\"img\" \
         aria-label=\"{title}\">",
        MAP.w, MAP.h,
    );
    let mut hue = 0;
    for own in root.drawn(MAP) {
        hue += usize::from(own.depth == 1);
        let colour = match own.depth {
            0 => "hsl(0,0%,88%)".to_owned(),
            depth => format!(
                "hsl({},{}%,{}%)",
                hue * 360 / HUES % 360,
                if own.directory { 35 } else { 55 },
                (62 + 4 * depth).min(86),
            ),
        };
        let Rect { x, y, w, h } = own.rect;
        let path = if own.path.is_empty() { "/".to_owned() } else { escaped(&own.path) };
        text += &format!(
            "<g><title>{path}: {}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" \
             height=\"{h:.1}\" fill=\"{colour}\" stroke=\"#777\" stroke-width=\".4\"/>",
            bytes(own.size),
        );
        let name = own.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let letters = (w / 6.0) as usize;
        if letters >= 3 && h >= 12.0 {
            let name: String = shown(name).chars().take(letters).collect();
            let (x, y) = (x + 2.0, y + 10.0);
            text += &format!("<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(name.as_bytes()));
        }
        text += "</g>";
    }
    text + "</svg>\n"
}

fn categories(costs: &Costs) -> String {
    let mut text = String::from(
        "<h2>Kinds of data</h2>\n<table id=\"categories\"><tr><th>blocks</th><th>bytes</th>\
         <th>stored</th><th>1 :</th><th>what</th></tr>",
    );
    for own in uses(&costs.rows, &[]) {
        text += &format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            own.blocks,
            size_shown(own.plain),
            size_shown(own.stored),
            ratio(own.plain as f64, own.stored as f64),
            own.name,
        );
    }
    text + "</table>\n"
}

/// Blocks in their order, each as wide as it is stored and as high as it was not shrunk; where there are too many,
/// several as one.
fn blocks(costs: &Costs) -> String {
    let all: f64 = costs.rows.iter().map(|row| f64::from(row.stored)).sum();
    let mut text = format!(
        "<h2>Blocks</h2>\n<p>{} blocks in their order: as wide as they are stored, as high as \
         the part of them that is left.</p>\n\
         <svg id=\"blocks\" viewBox=\"0 0 {} 100\" role=\"img\" aria-label=\"Blocks\">",
        costs.rows.len(),
        MAP.w,
    );
    let mut x = 0.0;
    for run in costs.rows.chunks(costs.rows.len().div_ceil(BARS_MAX).max(1)) {
        let sum = |of: &dyn Fn(&esker_stone::rows::blocks::BlockRow) -> u32| -> f64 {
            run.iter().map(|row| f64::from(of(row))).sum()
        };
        let (plain, stored) = (sum(&|row| row.plain), sum(&|row| row.stored));
        let (w, h) = (stored / all.max(1.0) * MAP.w, (stored / plain.max(1.0)).min(1.0) * 100.0);
        let hue = run[0].category as usize * 67 % 360;
        text += &format!(
            "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{w:.2}\" height=\"{h:.1}\" \
             fill=\"hsl({hue},50%,55%)\"><title>{} became {}</title></rect>",
            100.0 - h,
            bytes(plain),
            bytes(stored),
        );
        x += w;
    }
    text + "</svg>\n"
}

fn costliest(costs: &Costs) -> String {
    let mut files: Vec<&File> = costs.files.iter().collect();
    files.sort_by(|one, other| {
        other.stored.total_cmp(&one.stored).then_with(|| one.path.cmp(&other.path))
    });
    let mut text = String::from(
        "<h2>The costliest files</h2>\n<p>Each stored byte is charged once. What a block takes is \
         shared out evenly among the bytes of it that files name, but for zeros in a row, and what \
         several names share evenly among these; holes, and what lies in inodes, cost nothing. \
         What is made of text costs what that does.</p>\n\
         <table id=\"costliest\"><tr><th>stored</th><th>bytes</th><th>1 :</th><th>path</th></tr>",
    );
    for file in files.iter().take(ROWS_MAX) {
        text += &format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            bytes(file.stored),
            size_shown(file.size),
            ratio(file.size as f64, file.stored),
            escaped(&file.path),
        );
    }
    text + "</table>\n"
}

fn duplicates(costs: &Costs) -> String {
    let all = costs.duplicates();
    let again = |same: &Vec<usize>| (same.len() as u64 - 1) * costs.files[same[0]].size;
    let mut text = format!(
        "<h2>Files with the same content</h2>\n<p>{} contents have several names, which would be \
         {} more.</p>\n<table id=\"duplicates\"><tr><th>names</th><th>bytes each</th><th>saved</th>\
         <th>the first</th></tr>",
        all.len(),
        size_shown(all.iter().map(again).sum()),
    );
    for same in all.iter().take(ROWS_MAX) {
        text += &format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            same.len(),
            size_shown(costs.files[same[0]].size),
            size_shown(again(same)),
            escaped(&costs.files[same[0]].path),
        );
    }
    text + "</table>\n"
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_are_text() {
        assert_eq!(
            escaped(b"<script>alert(\"&'\")"),
            "&lt;script&gt;alert(&quot;&amp;&#39;&quot;)"
        );
        assert_eq!(escaped(b"a\xff\n"), "a\\xff\\x0a");
    }
}
