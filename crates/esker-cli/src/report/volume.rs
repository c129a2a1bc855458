//! The page about a volume: what it is, a map of its segments, how full they are, and how worn.
//!
//! Above: `verbs::report`. Below: `html`. Invariant: every stretch of the volume is in the map, alone or with its
//! neighbours.

use esker::store::View as _;
use esker_volume::Volume;
use esker_volume::device::Device;
use esker_volume::segments::{Condition, Segment};

use super::html::{head, terms};
use crate::units::size_shown;
use crate::volumes::report::{label, uuid_shown};

/// Cells of the map at most: more stretches than that share them.
const CELLS_MAX: usize = 8192;
/// Width of the map and of bars.
const WIDTH: usize = 1160;
/// Side of a cell, at most and at least.
const SIDES: (usize, usize) = (28, 9);
/// Bars of how full segments are.
const TENTHS: usize = 10;
/// Bars of how worn they are, at most.
const WORN_MAX: usize = 20;
const BARS_HEIGHT: usize = 140;

/// Conditions, what they are called, and a hue; grey where there is none.
const CONDITIONS: [(Condition, &str, Option<u32>); 7] = [
    (Condition::Free, "free", None),
    (Condition::Log, "log", Some(212)),
    (Condition::Tables, "tables", Some(130)),
    (Condition::Moved, "moved", Some(178)),
    (Condition::Next, "next of the log", Some(275)),
    (Condition::Home, "superblocks", Some(40)),
    (Condition::Bad, "failed", Some(0)),
];

/// The whole page.
pub fn page<D: Device>(name: &str, volume: &Volume<D>) -> String {
    let rows = volume.stretches();
    let room = volume.shape().segment_room;
    let mut text = head(name);
    text += &summary(volume, &rows);
    text += &map(&rows, room);
    text += &fullness(&rows, room);
    text += &wear(&rows);
    text + "</body></html>\n"
}

fn known(condition: Condition) -> (&'static str, Option<u32>) {
    let found = CONDITIONS.iter().find(|(own, ..)| *own == condition);
    found.map_or(("", None), |&(_, name, hue)| (name, hue))
}

/// Darker where more is needed.
fn colour(condition: Condition, live: f64) -> String {
    let light = 92.0 - 47.0 * live.clamp(0.0, 1.0);
    match known(condition).1 {
        Some(hue) => format!("hsl({hue},60%,{light:.0}%)"),
        None => "hsl(0,0%,94%)".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "of a picture")]
fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

fn summary<D: Device>(volume: &Volume<D>, rows: &[Segment]) -> String {
    let (shape, space, setting) = (volume.shape(), volume.space(), volume.shape().setting());
    let count = |wanted| rows.iter().filter(|row| row.condition == wanted).count();
    let segments: Vec<_> = CONDITIONS
        .iter()
        .map(|&(condition, name, _)| format!("{} {name}", count(condition)))
        .collect();
    let lines = [
        ("uuid", uuid_shown(&shape.uuid)),
        ("label", super::html::escaped(label(&shape.label).as_bytes())),
        ("size", size_shown(shape.size)),
        ("used", size_shown(space.used)),
        ("free", size_shown(space.total - space.used)),
        ("inodes", space.inodes.to_string()),
        ("segments", format!("{} of {}", rows.len(), size_shown(shape.segment_len))),
        ("of that", segments.join(", ")),
        (
            "blocks",
            format!("up to {}, {}", size_shown(shape.block_len.into()), setting.codec.name()),
        ),
        ("commits", volume.sequence().to_string()),
        ("superblocks written", (volume.settled() + 1).to_string()),
    ];
    terms("summary", &lines)
}

/// Squares in the order of the device.
fn map(rows: &[Segment], room: u64) -> String {
    let each = rows.len().div_ceil(CELLS_MAX).max(1);
    let cells: Vec<&[Segment]> = rows.chunks(each).collect();
    let fitting = |side: &usize| {
        let lines = cells.len().div_ceil(WIDTH / side);
        lines * side <= WIDTH / 2
    };
    let side = (SIDES.1..=SIDES.0).rev().find(fitting).unwrap_or(SIDES.1);
    let columns = WIDTH / side;
    let height = cells.len().div_ceil(columns) * side;
    let mut text = String::from("<h2>Segments, in the order of the device</h2>\n<p id=\"legend\">");
    for (condition, name, _) in CONDITIONS {
        text += &format!(
            "<span style=\"display:inline-block;width:1em;height:1em;background:{};\
             border:1px solid #999\"></span> {name} &nbsp; ",
            colour(condition, 0.7),
        );
    }
    text += "darker: more of it is needed</p>\n";
    text += &format!(
        "<svg id=\"map\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Segments\">"
    );
    for (at, cell) in cells.iter().enumerate() {
        text += &square(cell, room, (at % columns * side, at / columns * side, side));
    }
    text + "</svg>\n"
}

fn square(cell: &[Segment], room: u64, (x, y, side): (usize, usize, usize)) -> String {
    let live: u64 = cell.iter().map(|row| row.live).sum();
    let needed = share(live, room * cell.len() as u64);
    let Some(first) = cell.first() else { return String::new() };
    // What is rarer is told of where several share a square.
    let told =
        cell.iter().max_by_key(|row| CONDITIONS.iter().position(|own| own.0 == row.condition));
    let condition = told.unwrap_or(first).condition;
    let title = match cell {
        [row] => format!(
            "stretch {}: {}{}, {} of {} needed, begun {} times",
            row.physical.0,
            known(condition).0,
            if row.number > 0 { format!(", segment {}", row.number) } else { String::new() },
            size_shown(row.live),
            size_shown(room),
            row.erases,
        ),
        _ => format!(
            "stretches {} to {}: {} needed",
            first.physical.0,
            first.physical.0 as usize + cell.len() - 1,
            size_shown(live),
        ),
    };
    let (inner, fill) = (side - 1, colour(condition, needed));
    format!(
        "<rect x=\"{x}\" y=\"{y}\" width=\"{inner}\" height=\"{inner}\" fill=\"{fill}\">\
         <title>{title}</title></rect>"
    )
}

/// How many segments are how full.
fn fullness(rows: &[Segment], room: u64) -> String {
    let mut counts = [0; TENTHS];
    let is_used = |row: &&Segment| {
        matches!(row.condition, Condition::Log | Condition::Tables | Condition::Moved)
    };
    let used = rows.iter().filter(is_used);
    for row in used {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to ten")]
        let at = (share(row.live, room) * TENTHS as f64) as usize;
        counts[at.min(TENTHS - 1)] += 1;
    }
    let name = |at: usize| format!("{}-{} %", at * 100 / TENTHS, (at + 1) * 100 / TENTHS);
    let bars: Vec<_> = counts.iter().enumerate().map(|(at, &count)| (name(at), count)).collect();
    let title = "How much of segments of the log, of moved blocks and of tables is needed";
    format!("<h2>{title}</h2>\n{}", chart("fullness", title, &bars))
}

/// How many stretches were begun how often.
fn wear(rows: &[Segment]) -> String {
    let erases =
        || rows.iter().filter(|row| row.condition != Condition::Home).map(|row| row.erases);
    let (least, most) = (erases().min().unwrap_or(0), erases().max().unwrap_or(0));
    let step = (most - least + 1).div_ceil(WORN_MAX as u64);
    let mut counts = vec![0; usize::try_from((most - least) / step).unwrap_or(0) + 1];
    erases().for_each(|count| counts[((count - least) / step) as usize] += 1);
    let name = |at: usize| {
        let from = least + at as u64 * step;
        if step == 1 { from.to_string() } else { format!("{from}-{}", from + step - 1) }
    };
    let bars: Vec<_> = counts.iter().enumerate().map(|(at, &count)| (name(at), count)).collect();
    let title = "How often stretches were begun";
    format!("<h2>{title}</h2>\n{}", chart("wear", title, &bars))
}

/// Bars side by side, with names below and counts above.
fn chart(id: &str, title: &str, bars: &[(String, usize)]) -> String {
    let most = bars.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let width = WIDTH / bars.len().max(TENTHS);
    let (field, height) = (BARS_HEIGHT - 30, BARS_HEIGHT);
    let mut text = format!(
        "<svg id=\"{id}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">"
    );
    for (at, (name, count)) in bars.iter().enumerate() {
        let tall = (field * count).div_ceil(most);
        let (x, y, inner) = (at * width, 15 + field - tall, width - 4);
        text += &format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{inner}\" height=\"{tall}\" \
             fill=\"hsl(212,45%,60%)\"/>\
             <text x=\"{x}\" y=\"{}\">{count}</text>\
             <text x=\"{x}\" y=\"{}\">{name}</text>",
            y - 3,
            height - 3,
        );
    }
    text + "</svg>\n"
}
