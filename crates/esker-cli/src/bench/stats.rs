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

impl Table {
    /// Takes a sample in.
    pub fn add(&mut self, workload: &str, target: &str, sample: Sample) {
        let found =
            self.rows.iter_mut().find(|row| row.workload == workload && row.name == sample.row);
        let row = match found {
            Some(row) => row,
            None => {
                self.rows.push(Row {
                    workload: workload.to_owned(),
                    name: sample.row,
                    unit: sample.unit,
                    samples: BTreeMap::new(),
                });
                let last = self.rows.len() - 1;
                &mut self.rows[last]
            }
        };
        row.samples.entry(target.to_owned()).or_default().push(sample.value);
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
    /// The figures of a target.
    pub fn summary(&self, target: &str) -> Option<Summary> {
        Summary::of(self.samples.get(target)?.iter().copied())
    }

    /// How many times as good as `base` a target was, round by round: above 1 is better.
    pub fn ratio(&self, target: &str, base: &str) -> Option<Summary> {
        let (ours, theirs) = (self.samples.get(target)?, self.samples.get(base)?);
        let better = |(ours, theirs): (&f64, &f64)| {
            if self.unit.rises() { ours / theirs } else { theirs / ours }
        };
        Summary::of(ours.iter().zip(theirs).map(better).filter(|ratio| ratio.is_finite()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_better_whatever_the_unit() {
        let mut table = Table::default();
        for (unit, row, ours) in [(Unit::PerSecond, "rate", 30.0), (Unit::Seconds, "time", 5.0)] {
            for (target, value) in [("bound", 15.0), ("ours", ours)] {
                table.add("dir", target, Sample { row: row.to_owned(), unit, value });
            }
        }
        assert_eq!(table.rows[0].ratio("ours", "bound").map(|ratio| ratio.median), Some(2.0));
        assert_eq!(table.rows[1].ratio("ours", "bound").map(|ratio| ratio.median), Some(3.0));
        assert_eq!(table.rows[0].ratio("ours", "nobody"), None);
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        let summary = Summary::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(summary, Some(Summary { low: 1.0, median: 2.5, high: 4.0 }));
        assert_eq!(Summary::of([]), None);
    }
}
