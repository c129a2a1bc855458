//! What reached a device, as a picture: for each act of each work dots for bytes, and dots for requests beside.
//!
//! Invariant: every dot lies in its field, further right for more, ten times as much for each line; what is nothing
//! lies on the first one.

use std::fmt::Write as _;

use super::super::packing::table::megabytes;
use super::super::picture::{class, decades, escaped, framed};
use super::{Act, Cost, Report, Subject, Work};

/// From one file system to the next.
const STEP: f64 = 17.0;
/// Above the dots of an act, and below: its name, units and lines.
const HEAD: f64 = 60.0;
const FOOT: f64 = 14.0;
/// A byte, in megabytes: nothing is drawn as less.
const LEAST: f64 = 1e-6;
/// Where the two fields are, where names are short: those stand before the first, figures behind both.
const FIELDS: [(f64, f64); 2] = [(96.0, 400.0), (500.0, 790.0)];
/// A letter of a name, in about, and the most room that all of one get.
const LETTER: f64 = 6.5;
const NAME_MAX: f64 = 280.0;

/// An act of a work, on each file system.
struct Panel<'a> {
    work: &'a Work,
    act: Act,
    dots: Vec<(&'a Subject, [f64; 2])>,
}

/// The whole picture.
pub fn svg(report: &Report) -> String {
    let (mut text, mut top) = (String::new(), 0.0);
    for panel in panels(report) {
        let _ = writeln!(text, "<g transform=\"translate(0 {top})\">");
        top += panel.draw(&mut text);
        text.push_str("</g>\n");
    }
    framed("Bytes and requests that reached a device", top, &text)
}

fn panels(report: &Report) -> Vec<Panel<'_>> {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for row in &report.rows {
        for (act, cost) in &row.acts {
            let Some(amounts) = amounts(*act, cost) else { continue };
            let dot = (&row.subject, amounts);
            match panels.iter_mut().find(|it| it.work == &row.work && it.act == *act) {
                Some(panel) => panel.dots.push(dot),
                None => panels.push(Panel { work: &row.work, act: *act, dots: vec![dot] }),
            }
        }
    }
    panels
}

/// Megabytes and requests that an act is about; `None`: it is about time.
#[expect(clippy::cast_precision_loss, reason = "a dot is not that exact")]
fn amounts(act: Act, cost: &Cost) -> Option<[f64; 2]> {
    let it = &cost.traffic;
    let (bytes, requests) = match act {
        Act::Fresh | Act::Aged => return None,
        _ if act.reads() => (it.read, it.reads),
        _ => (it.written, it.writes),
    };
    Some([megabytes(bytes), requests as f64])
}

impl Panel<'_> {
    /// Draws itself; how high it is.
    #[expect(clippy::cast_precision_loss, reason = "a few file systems")]
    fn draw(&self, text: &mut String) -> f64 {
        let Self { work, act, dots } = self;
        let bottom = HEAD + dots.len() as f64 * STEP;
        let title = escaped(&format!("{work}: {act}"));
        let _ = writeln!(text, "<text class=\"t\" x=\"8\" y=\"20\">{title}</text>");
        let mut names = 0f64;
        for (at, (subject, _)) in dots.iter().enumerate() {
            let (y, name) = (HEAD + (at as f64 + 0.7) * STEP, subject.to_string());
            names = names.max(name.len() as f64 * LETTER + 20.0).min(NAME_MAX);
            let name = escaped(&name);
            let _ = writeln!(text, "<text x=\"8\" y=\"{y:.1}\">{name}</text>");
        }
        let way = if act.reads() { "read" } else { "written" };
        for (which, unit, digits) in [(0, "MB", 2), (1, "requests", 0)] {
            let values = dots.iter().map(|(subject, all)| (is_ours(subject), all[which]));
            let values: Vec<(bool, f64)> = values.collect();
            let (left, right) = FIELDS[which];
            field(
                (left.max(names), right),
                &format!("{unit} {way}"),
                &values,
                digits,
                bottom,
                text,
            );
        }
        bottom + FOOT
    }
}

const fn is_ours(subject: &Subject) -> bool {
    matches!(subject, Subject::Esker { .. })
}

#[expect(clippy::cast_precision_loss, reason = "a few file systems")]
fn field(
    (left, right): (f64, f64),
    unit: &str,
    values: &[(bool, f64)],
    digits: usize,
    bottom: f64,
    text: &mut String,
) {
    let some = values.iter().map(|(_, value)| *value).filter(|value| *value >= LEAST);
    let (first, last) = if some.clone().next().is_some() { decades(some) } else { (0.0, 1.0) };
    let x = |value: f64| {
        let decade = value.max(LEAST).log10().max(first);
        left + (decade - first) / (last - first) * (right - left)
    };
    let _ = writeln!(text, "<text x=\"{left:.1}\" y=\"38\">{unit}</text>");
    let mut decade = first;
    while decade <= last {
        let value = 10f64.powf(decade);
        let _ = writeln!(
            text,
            "<path class=\"g\" d=\"M{at:.1} {HEAD}V{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value}</text>",
            HEAD - 6.0,
            at = x(value),
        );
        decade += 1.0;
    }
    for (at, (ours, value)) in values.iter().enumerate() {
        let (x, y) = (x(*value), HEAD + (at as f64 + 0.45) * STEP);
        let class = class(*ours);
        let _ = writeln!(
            text,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{value:.digits$}</text>",
            x + 8.0,
            y + 4.0,
        );
    }
}
