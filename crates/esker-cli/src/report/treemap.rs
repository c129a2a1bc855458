//! A treemap: rectangles within rectangles, each as large as what it stands for, and as square as can be.
//!
//! Above: `page`. Invariant: no rectangle reaches out of the one that it lies in, and the small ones that nobody could
//! see are drawn as one.

/// A rectangle: left, top, width, height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}

/// A directory or file.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    /// Its name.
    pub name: Vec<u8>,
    /// How much it stands for, with all that is in it.
    pub size: f64,
    /// What is in it.
    pub inside: Vec<Branch>,
}

/// A rectangle to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    pub rect: Rect,
    /// How deep it lies.
    pub depth: usize,
    /// Its path.
    pub path: Vec<u8>,
    pub size: f64,
    /// Whether there is something in it.
    pub directory: bool,
}

/// The smallest side and area that are drawn.
const SIDE_MIN: f64 = 3.0;
const AREA_MIN: f64 = 30.0;
/// Room for the name of a directory, and around what is in it.
const HEAD: f64 = 13.0;
const EDGE: f64 = 1.5;
/// Levels that are drawn.
const DEPTH_MAX: usize = 12;

impl Branch {
    /// Adds something under its path, whose parts are separated by `/`.
    pub fn add(&mut self, path: &[u8], size: f64) {
        self.size += size;
        let path = path.strip_prefix(b"/").unwrap_or(path);
        if path.is_empty() {
            return;
        }
        let end = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
        let (name, rest) = path.split_at(end);
        // Paths come in their order: it can only be the last one.
        if self.inside.last().is_none_or(|last| last.name != name) {
            self.inside.push(Self { name: name.to_vec(), ..Self::default() });
        }
        if let Some(last) = self.inside.last_mut() {
            last.add(rest, size);
        }
    }

    /// What is to be drawn of it in a rectangle, the outer ones first.
    pub fn drawn(&self, rect: Rect) -> Vec<Drawn> {
        let mut all = Vec::new();
        self.draw(rect, 0, &mut Vec::new(), &mut all);
        all
    }

    fn draw(&self, rect: Rect, depth: usize, path: &mut Vec<u8>, all: &mut Vec<Drawn>) {
        let directory = !self.inside.is_empty();
        all.push(Drawn { rect, depth, path: path.clone(), size: self.size, directory });
        let room = Rect {
            x: rect.x + EDGE,
            y: rect.y + HEAD,
            w: rect.w - 2.0 * EDGE,
            h: rect.h - HEAD - EDGE,
        };
        if room.w < SIDE_MIN || room.h < SIDE_MIN || depth >= DEPTH_MAX {
            return;
        }
        let mut inside: Vec<&Self> = self.inside.iter().filter(|own| own.size > 0.0).collect();
        inside.sort_by(|one, other| other.size.total_cmp(&one.size));
        let scale = room.w * room.h / self.size.max(f64::MIN_POSITIVE);
        let seen = inside.iter().take_while(|own| own.size * scale >= AREA_MIN).count();
        let areas: Vec<f64> = inside[..seen].iter().map(|own| own.size * scale).collect();
        for (own, rect) in inside.iter().zip(squares(&areas, room)) {
            let before = path.len();
            path.push(b'/');
            path.extend(&own.name);
            own.draw(rect, depth + 1, path, all);
            path.truncate(before);
        }
    }
}

/// The worst of the sides' ratios in a row of these areas along a side.
fn worst(row: &[f64], side: f64) -> f64 {
    let sum: f64 = row.iter().sum();
    let thick = sum / side;
    row.iter().map(|area| (area / thick / thick).max(thick * thick / area)).fold(0.0, f64::max)
}

/// Rectangles of these areas, the largest first, in one that has room for all: row by row along its shorter side, each
/// as long as that makes them more square.
fn squares(areas: &[f64], mut room: Rect) -> Vec<Rect> {
    let (mut found, mut from) = (Vec::with_capacity(areas.len()), 0);
    while from < areas.len() {
        let side = room.w.min(room.h).max(f64::MIN_POSITIVE);
        let mut to = from + 1;
        while to < areas.len() && worst(&areas[from..=to], side) <= worst(&areas[from..to], side) {
            to += 1;
        }
        let row = &areas[from..to];
        let thick = row.iter().sum::<f64>() / side;
        let mut at = 0.0;
        for area in row {
            let long = area / thick.max(f64::MIN_POSITIVE);
            found.push(if room.w >= room.h {
                Rect { x: room.x, y: room.y + at, w: thick, h: long }
            } else {
                Rect { x: room.x + at, y: room.y, w: long, h: thick }
            });
            at += long;
        }
        if room.w >= room.h {
            (room.x, room.w) = (room.x + thick, room.w - thick);
        } else {
            (room.y, room.h) = (room.y + thick, room.h - thick);
        }
        from = to;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_have_their_areas_and_lie_beside_each_other() {
        let room = Rect { x: 5.0, y: 7.0, w: 600.0, h: 400.0 };
        let areas: Vec<f64> = (1..=60).rev().map(|size| f64::from(size * size)).collect();
        let scale = 240_000.0 / areas.iter().sum::<f64>();
        let areas: Vec<f64> = areas.iter().map(|area| area * scale).collect();
        let found = squares(&areas, room);
        for (rect, area) in found.iter().zip(&areas) {
            assert!((rect.w * rect.h - area).abs() < 1e-6 * area + 1e-6);
            assert!(rect.x >= 4.999 && rect.x + rect.w <= 605.001, "{rect:?}");
            assert!(rect.y >= 6.999 && rect.y + rect.h <= 407.001, "{rect:?}");
        }
        for (at, one) in found.iter().enumerate() {
            for other in &found[..at] {
                let wide = (one.x + one.w).min(other.x + other.w) - one.x.max(other.x);
                let high = (one.y + one.h).min(other.y + other.h) - one.y.max(other.y);
                assert!(wide < 1e-6 || high < 1e-6, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_tree_is_gathered_by_its_paths() {
        let mut root = Branch::default();
        for (path, size) in [("/a/x", 100.0), ("/a/y", 300.0), ("/b", 600.0), ("/c/d/e", 0.0)] {
            root.add(path.as_bytes(), size);
        }
        assert_eq!((root.size, root.inside.len(), root.inside[0].size), (1000.0, 3, 400.0));
        let drawn = root.drawn(Rect { x: 0.0, y: 0.0, w: 300.0, h: 200.0 });
        let paths: Vec<_> = drawn.iter().map(|own| String::from_utf8_lossy(&own.path)).collect();
        assert_eq!(paths, ["", "/b", "/a", "/a/y", "/a/x"]);
        assert!(drawn[2].directory && !drawn[1].directory);
    }
}
