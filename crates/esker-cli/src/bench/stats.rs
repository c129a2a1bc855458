//! Samples, medians, and ratios with their spread.

use std::collections::BTreeMap;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Operations a second: more is better.
    PerSecond,
    /// MiB a second: more is better.
    MibPerSecond,
    /// Seconds: less is better.
    Seconds,
    /// Bytes: less is better.
    Bytes,
    /// A quotient of two amounts: less is better.
    Times,
}

impl Unit {
    /// More is better.
    pub const fn rises(self) -> bool {
        matches!(self, Self::PerSecond | Self::MibPerSecond)
    }

    /// As a table has it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::PerSecond => "/s",
            Self::MibPerSecond => "MiB/s",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::Times => "x",
        }
    }
}

/// One figure of one run.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What was measured.
    pub row: String,
    /// Among how many files, where that is varied.
    pub files: Option<u64>,
    /// In what.
    pub unit: Unit,
    /// How much.
    pub value: f64,
}

/// A row of a workload: the samples of each target, round by round.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which workload.
    pub workload: String,
    /// What was measured.
    pub name: String,
    /// Among how many files, where that is varied.
    pub files: Option<u64>,
    /// In what.
    pub unit: Unit,
    /// By target.
    pub samples: BTreeMap<String, Vec<f64>>,
}

/// All rows in the order in which they came up.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The rows.
    pub rows: Vec<Row>,
}

/// The size that costs of larger directories are compared with, if it was measured.
const FILES_BASE: u64 = 10_000;

impl Table {
    /// Takes a sample in.
    pub fn add(&mut self, workload: &str, target: &str, sample: Sample) {
        let same = |row: &Row| {
            row.workload == workload && row.name == sample.row && row.files == sample.files
        };
        let index = self.rows.iter().position(same).unwrap_or_else(|| {
            self.rows.push(Row {
                workload: workload.to_owned(),
                name: sample.row.clone(),
                files: sample.files,
                unit: sample.unit,
                samples: BTreeMap::new(),
            });
            self.rows.len() - 1
        });
        self.rows[index].samples.entry(target.to_owned()).or_default().push(sample.value);
    }

    /// Takes out what a target did in a workload that it could not finish.
    pub fn forget(&mut self, workload: &str, target: &str) {
        for row in self.rows.iter_mut().filter(|row| row.workload == workload) {
            row.samples.remove(target);
        }
        self.rows.retain(|row| !row.samples.is_empty());
    }

    /// Workloads with their rows, in order.
    pub fn workloads(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|one, next| one.workload == next.workload)
    }

    /// How much more each operation costs among the most files than among [`FILES_BASE`] (or the
    /// fewest): 1 is the same.
    pub fn growth(&self) -> Self {
        let mut rows = Vec::new();
        for large in &self.rows {
            let kin = |row: &&Row| row.workload == large.workload && row.name == large.name;
            let sizes: Vec<u64> =
                self.rows.iter().filter(kin).filter_map(|row| row.files).collect();
            let Some(&most) = sizes.iter().max().filter(|&&most| large.files == Some(most)) else {
                continue;
            };
            let base = sizes.iter().copied().find(|&files| files == FILES_BASE && files < most);
            let base = base.or(sizes.into_iter().min()).filter(|&files| files < most);
            let small = self.rows.iter().filter(kin).find(|row| row.files == base);
            if let (Some(base), Some(small)) = (base, small) {
                rows.push(large.cost_against(small, most, base));
            }
        }
        Self { rows }
    }
}

/// The middle of some figures, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Smallest.
    pub low: f64,
    /// Half of them lie below.
    pub median: f64,
    /// Largest.
    pub high: f64,
}

impl Summary {
    /// Of at least one figure.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { low, median, high })
    }
}

impl Row {
    /// As a table has it.
    pub fn title(&self) -> String {
        match self.files {
            Some(files) => format!("{}, {} files", self.name, grouped(files)),
            None => self.name.clone(),
        }
    }

    /// The figures of a target.
    pub fn summary(&self, target: &str) -> Option<Summary> {
        Summary::of(self.samples.get(target)?.iter().copied())
    }

    /// How many times as good as `base` a target was, round by round: above 1 is better.
    pub fn ratio(&self, target: &str, base: &str) -> Option<Summary> {
        let (ours, theirs) = (self.samples.get(target)?, self.samples.get(base)?);
        Summary::of(self.gains(ours, theirs).filter(|ratio| ratio.is_finite()))
    }

    fn gains(&self, ours: &[f64], theirs: &[f64]) -> impl Iterator<Item = f64> {
        let rises = self.unit.rises();
        ours.iter().zip(theirs).map(
            move |(ours, theirs)| {
                if rises { ours / theirs } else { theirs / ours }
            },
        )
    }

    /// What each operation costs here, where it costs 1 in `small`.
    fn cost_against(&self, small: &Self, most: u64, base: u64) -> Self {
        let costs = self.samples.iter().filter_map(|(target, ours)| {
            let costs = self.gains(small.samples.get(target)?, ours).collect();
            Some((target.clone(), costs))
        });
        let (most, base) = (grouped(most), grouped(base));
        Self {
            workload: format!("{}: cost of each among {most} files, 1 among {base}", self.workload),
            name: self.name.clone(),
            files: None,
            unit: Unit::Times,
            samples: costs.collect(),
        }
    }
}

/// Thousands apart.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(row: &str, files: Option<u64>, unit: Unit, value: f64) -> Sample {
        Sample { row: row.to_owned(), files, unit, value }
    }

    #[test]
    fn a_ratio_above_one_is_better_whatever_the_unit() {
        let mut table = Table::default();
        for (unit, row, ours) in [(Unit::PerSecond, "rate", 30.0), (Unit::Seconds, "time", 5.0)] {
            for (target, value) in [("bound", 15.0), ("ours", ours)] {
                table.add("dir", target, sample(row, None, unit, value));
            }
        }
        assert_eq!(table.rows[0].ratio("ours", "bound").map(|ratio| ratio.median), Some(2.0));
        assert_eq!(table.rows[1].ratio("ours", "bound").map(|ratio| ratio.median), Some(3.0));
        assert_eq!(table.rows[0].ratio("ours", "nobody"), None);
        table.forget("dir", "ours");
        assert_eq!(table.rows[0].summary("ours"), None);
        table.forget("dir", "bound");
        assert!(table.rows.is_empty());
    }

    #[test]
    fn growth_is_against_ten_thousand_or_the_fewest() {
        let mut table = Table::default();
        for (files, rate) in [(1_000, 900.0), (10_000, 800.0), (1_000_000, 400.0)] {
            table.add("dir", "ours", sample("create", Some(files), Unit::PerSecond, rate));
        }
        table.add("dir", "ours", sample("list", Some(1_000), Unit::PerSecond, 1.0));
        let growth = table.growth();
        assert_eq!(growth.rows.len(), 1, "one size alone has nothing to be compared with");
        assert_eq!(growth.rows[0].samples["ours"], [2.0]);
        assert!(growth.rows[0].workload.contains("1,000,000 files, 1 among 10,000"));
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        let summary = Summary::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(summary, Some(Summary { low: 1.0, median: 2.5, high: 4.0 }));
        assert_eq!(Summary::of([]), None);
    }
}
