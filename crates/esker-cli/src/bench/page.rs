//! One self-contained page to look at: bars for every row, no script, no outside file.

use std::fmt::Write as _;

use super::picture::escaped;
use super::report::{Report, figure};
use super::stats::Row;

const COLOURS: [&str; 8] =
    ["#8a8f98", "#2f6fab", "#c2703d", "#4f8a4b", "#8b5aa8", "#b0a03c", "#3b9a9a", "#a84c5f"];
const BAR_WIDTH: f64 = 420.0;
const LINE_HEIGHT: usize = 20;
const LABEL_WIDTH: usize = 260;

/// The whole page.
pub fn html(report: &Report) -> String {
    let mut text = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>esker bench</title><style>\
         body{font:15px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;\
         color:#222;background:#fcfcfa}h1{font-size:1.5rem}\
         h2{margin:2.2rem 0 .4rem;font-size:1.15rem}\
         h3{font-size:.95rem;font-weight:600;margin:1rem 0 .1rem}svg{width:100%;height:auto}\
         text{font:12px system-ui,sans-serif;fill:#222}li{color:#555}\
         @media(prefers-color-scheme:dark){body{background:#17181a;color:#ddd}\
         text{fill:#ddd}li{color:#aaa}}\
         </style><h1>esker bench</h1><ul>",
    );
    for (name, value) in &report.conditions {
        let _ = write!(text, "<li>{}: {}</li>", escaped(name), escaped(value));
    }
    for note in &report.notes {
        let _ = write!(text, "<li><b>note</b>: {}</li>", escaped(note));
    }
    text.push_str(
        "<li>Bars are medians; the thin line spans lowest to highest; the figure in brackets is \
         how many times as good as the first bar, above 1 is better.</li></ul>",
    );
    for rows in report.table.workloads() {
        let targets = report.targets_of(rows);
        let _ = write!(text, "<h2>{}</h2>", escaped(&rows[0].workload));
        for row in rows {
            let better = if row.unit.rises() { "longer is better" } else { "shorter is better" };
            let _ = write!(text, "<h3>{} <small>({better})</small></h3>", escaped(&row.title()));
            text.push_str(&bars(row, &targets));
        }
    }
    text.push_str("</html>\n");
    text
}

fn bars(row: &Row, targets: &[&str]) -> String {
    let shown: Vec<_> = targets
        .iter()
        .zip(COLOURS.iter().cycle())
        .filter_map(|(target, colour)| Some((target, colour, row.summary(target)?)))
        .collect();
    let most = shown.iter().map(|(_, _, summary)| summary.high).fold(f64::MIN_POSITIVE, f64::max);
    let height = shown.len() * LINE_HEIGHT + 4;
    let mut text = format!("<svg viewBox=\"0 0 860 {height}\" role=\"img\">");
    for (line, (target, colour, summary)) in shown.into_iter().enumerate() {
        let top = line * LINE_HEIGHT;
        let width = |value: f64| value / most * BAR_WIDTH;
        let ratio = row
            .ratio(target, targets[0])
            .map_or(String::new(), |ratio| format!(" ({:.2})", ratio.median));
        let (middle, from) = (top + 10, LABEL_WIDTH as f64);
        let _ = write!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LABEL_WIDTH}\" y=\"{}\" width=\"{:.1}\" height=\"14\" rx=\"2\" \
             fill=\"{colour}\"/>\
             <path d=\"M{:.1} {middle}H{:.1}\" stroke=\"currentColor\"/>\
             <text x=\"{:.1}\" y=\"{}\">{} {}{ratio}</text>",
            LABEL_WIDTH - 8,
            top + 14,
            escaped(target),
            top + 3,
            width(summary.median),
            from + width(summary.low),
            from + width(summary.high),
            from + width(summary.high) + 8.0,
            top + 14,
            figure(summary.median, row.unit),
            row.unit.text(),
        );
    }
    text.push_str("</svg>");
    text
}
