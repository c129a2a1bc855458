//! The curve: how small for how much CPU, a picture for each tree, one below the other.
//!
//! Invariant: every point lies in its picture; the line goes through our levels in their order and nothing else.

use std::fmt::Write as _;

use super::super::picture::{WIDTH, class, decades, escaped, framed};
use super::table::megabytes;
use super::{Packed, Report};

const HEIGHT: f64 = 380.0;
/// Around the field of points: room for words.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;
/// CPU seconds of what takes next to none.
const CPU_MIN: f64 = 0.1;
/// A point: what, CPU seconds, megabytes; its level if it is one of ours.
struct Point {
    name: String,
    cpu: f64,
    stored: f64,
    level: Option<u32>,
    ours: bool,
}

/// The whole picture.
pub fn svg(report: &Report) -> String {
    let (mut text, mut top) = (String::new(), 0.0);
    for tree in &report.trees {
        let _ = writeln!(text, "<g transform=\"translate(0 {top})\">");
        picture(tree, &mut text);
        text.push_str("</g>\n");
        top += HEIGHT;
    }
    framed("Stored bytes against CPU seconds", top, &text)
}

fn points(tree: &Packed) -> Vec<Point> {
    let own = tree.rows.iter().map(|row| Point {
        name: row
            .subject
            .level()
            .map_or_else(|| row.subject.to_string(), |level| level.to_string()),
        cpu: row.making.cpu.max(CPU_MIN),
        stored: megabytes(row.making.stored),
        level: row.subject.level(),
        ours: row.subject.program().is_none(),
    });
    let given = tree.given.iter().map(|given| Point {
        name: given.name.clone(),
        cpu: given.cpu.max(CPU_MIN),
        stored: megabytes(given.stored),
        level: None,
        ours: false,
    });
    own.chain(given).collect()
}

fn picture(tree: &Packed, text: &mut String) {
    let points = points(tree);
    if points.is_empty() {
        return;
    }
    let (first, last) = decades(points.iter().map(|point| point.cpu));
    let most = points.iter().map(|point| point.stored).fold(0.0, f64::max) * 1.05;
    // So that no two lines say the same.
    let digits = [40.0, 4.0, 0.4, 0.04, 0.004].into_iter().filter(|&few| most < few).count();
    let x = |cpu: f64| LEFT + (cpu.log10() - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let y = |stored: f64| TOP + (1.0 - stored / most) * (HEIGHT - TOP - BOTTOM);
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let (name, bytes) = (escaped(&tree.name), megabytes(tree.bytes));
    let title = format!("{name}, {bytes:.1} MB: stored MB against CPU seconds");
    let _ = writeln!(text, "<text class=\"t\" x=\"{LEFT}\" y=\"22\">{title}</text>");
    let mut decade = first;
    while decade <= last {
        let (at, cpu) = (x(10f64.powf(decade)), 10f64.powf(decade));
        let _ = writeln!(
            text,
            "<path class=\"g\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{cpu}</text>",
            bottom + 18.0
        );
        decade += 1.0;
    }
    for quarter in 0..=4 {
        let stored = most * f64::from(quarter) / 4.0;
        let at = y(stored);
        let _ = writeln!(
            text,
            "<path class=\"g\" d=\"M{LEFT} {at:.1}H{right}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{stored:.digits$}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    let mut levels: Vec<_> = points.iter().filter(|point| point.level.is_some()).collect();
    levels.sort_by_key(|point| point.level);
    let line: Vec<_> =
        levels.iter().map(|it| format!("{:.1},{:.1}", x(it.cpu), y(it.stored))).collect();
    let _ = writeln!(text, "<polyline class=\"l\" points=\"{}\"/>", line.join(" "));
    for point in &points {
        let (class, at, up) = (class(point.ours), x(point.cpu), y(point.stored));
        let _ = writeln!(
            text,
            "<circle class=\"{class}\" cx=\"{at:.1}\" cy=\"{up:.1}\" r=\"4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            at + 7.0,
            up - 5.0,
            escaped(&point.name)
        );
    }
}
