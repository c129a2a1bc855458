//! Rules for snapshots: which are made by themselves, how many of them are kept, and for how long.
//!
//! Above: verbs, `keeper`. Below: rows of the root. Invariant: rules that were taken do not contradict each other;
//! of each occasion there is one at most.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use esker_stone::key::kind;
use esker_stone::rows::numbers::NumberRow;

use crate::limits::SNAPSHOTS_MAX;

/// When a snapshot is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occasion {
    /// After a sync that somebody asked for.
    Sync,
    /// Each hour.
    Hour,
    /// Each day.
    Day,
    /// Each week, from Monday on.
    Week,
    /// Each month.
    Month,
}

/// Seconds of a day.
const DAY: i64 = 86_400;

impl Occasion {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sync, Self::Hour, Self::Day, Self::Week, Self::Month];

    /// As in rows, from 1 on.
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64 + 1
    }

    fn numbered(number: u64) -> esker_stone::Result<Self> {
        let found = Self::ALL.into_iter().find(|own| own.number() == number);
        found.ok_or_else(|| esker_stone::Damage::Range.into())
    }

    /// Seconds between two, at least, in about.
    #[must_use]
    pub const fn period(self) -> u64 {
        match self {
            Self::Sync => 20,
            Self::Hour => 3600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
            Self::Month => 28 * 86_400,
        }
    }

    /// What names of its snapshots begin with.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Hour => "hourly",
            Self::Day => "daily",
            Self::Week => "weekly",
            Self::Month => "monthly",
        }
    }

    /// Which of its hours, days and so on this second lies in.
    #[must_use]
    pub fn slot(self, secs: i64) -> i64 {
        match self {
            Self::Sync => secs,
            Self::Hour => secs.div_euclid(3600),
            Self::Day => secs.div_euclid(DAY),
            // The first day of 1970 was a Thursday.
            Self::Week => secs.div_euclid(DAY).saturating_add(3).div_euclid(7),
            Self::Month => {
                let (year, month, _) = date(secs);
                year * 12 + month
            }
        }
    }
}

impl fmt::Display for Occasion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync => "on sync",
            Self::Hour => "every hour",
            Self::Day => "every day",
            Self::Week => "every week",
            Self::Month => "every month",
        })
    }
}

impl FromStr for Occasion {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let words: Vec<_> = text.split_whitespace().collect();
        let found = Self::ALL
            .into_iter()
            .find(|own| words == own.to_string().split(' ').collect::<Vec<_>>());
        found.ok_or(RuleError::Words)
    }
}

/// The year, month and day of a second, UTC; days and months from 1 on.
#[must_use]
pub fn date(secs: i64) -> (i64, i64, i64) {
    // Years that begin in March, in eras of 400: the leap day is the last of its year.
    let days = secs.div_euclid(DAY) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// When.
    pub occasion: Occasion,
    /// How many of its snapshots there are at most: then the oldest goes.
    pub keep: u32,
    /// Seconds after which each goes; 0: never for its age.
    pub expiry: u64,
}

/// What is wrong with rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// It is not said as rules are.
    Words,
    /// It keeps none, or more than there can be.
    Keep(Rule),
    /// Its snapshots would go before the next one is made.
    Expiry(Rule),
    /// There is one for the same occasion.
    Exists(Rule),
    /// There is none for that.
    Missing(Occasion),
    /// Together they keep more than there may be: so many, and the largest number.
    Largest(u64, u64),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words => f.write_str(
                "a rule is `every hour keep COUNT` or `every hour keep COUNT for TIME`, \
                 with hour, day, week or month, or `on sync`",
            ),
            Self::Keep(rule) => write!(f, "`{rule}`: it can keep 1 to {SNAPSHOTS_MAX}"),
            Self::Expiry(rule) => {
                write!(f, "`{rule}`: each would go before there is another one")
            }
            Self::Exists(rule) => write!(f, "there is a rule `{rule}`: remove it first"),
            Self::Missing(occasion) => write!(f, "there is no rule `{occasion}`"),
            Self::Largest(sum, largest) => {
                write!(f, "the rules keep {sum} snapshots together, and there may be {largest}")
            }
        }
    }
}

impl std::error::Error for RuleError {}

/// Units of times, and their seconds.
const UNITS: [(&str, u64); 5] =
    [("y", 365 * 86_400), ("w", 7 * 86_400), ("d", 86_400), ("h", 3600), ("m", 60)];

/// A number with one of the units.
fn time(word: &str) -> Option<u64> {
    let (_, secs) = UNITS.into_iter().find(|(unit, _)| word.ends_with(unit))?;
    let number = word.get(..word.len() - 1)?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = if digits { number.parse().ok()? } else { return None };
    number.checked_mul(secs).filter(|&secs| (1..1 << 40).contains(&secs))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keep {}", self.occasion, self.keep)?;
        let unit = UNITS.into_iter().find(|(_, secs)| self.expiry.is_multiple_of(*secs));
        match unit {
            _ if self.expiry == 0 => Ok(()),
            Some((unit, secs)) => write!(f, " for {}{unit}", self.expiry / secs),
            None => write!(f, " for {}s", self.expiry),
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let words: Vec<_> = text.split_whitespace().collect();
        let (occasion, keep, expiry) = match words[..] {
            [one, two, "keep", count] => (format!("{one} {two}"), count, 0),
            [one, two, "keep", count, "for", long] => {
                (format!("{one} {two}"), count, time(long).ok_or(RuleError::Words)?)
            }
            _ => return Err(RuleError::Words),
        };
        let keep = keep.parse().map_err(|_| RuleError::Words)?;
        Ok(Self { occasion: occasion.parse()?, keep, expiry })
    }
}

impl Rule {
    fn check(&self) -> Result<(), RuleError> {
        if self.keep == 0 || self.keep as usize > SNAPSHOTS_MAX {
            return Err(RuleError::Keep(*self));
        }
        let short = self.expiry > 0 && self.expiry <= self.occasion.period();
        if short { Err(RuleError::Expiry(*self)) } else { Ok(()) }
    }
}

/// The rules of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    all: BTreeMap<Occasion, Rule>,
    /// Snapshots that rules have made, at most; 0: as many as they keep.
    largest: u64,
}

impl Rules {
    /// Rules, in the order of their occasions.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.all.values()
    }

    /// Snapshots that rules have made, at most; 0: as many as they keep.
    #[must_use]
    pub const fn largest(&self) -> u64 {
        self.largest
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.largest == 0
    }

    /// One more.
    ///
    /// # Errors
    /// `Keep`, `Expiry`, `Exists`.
    pub fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        rule.check()?;
        if let Some(known) = self.all.get(&rule.occasion) {
            return Err(RuleError::Exists(*known));
        }
        self.all.insert(rule.occasion, rule);
        Ok(())
    }

    /// One less.
    ///
    /// # Errors
    /// `Missing`.
    pub fn remove(&mut self, occasion: Occasion) -> Result<(), RuleError> {
        self.all.remove(&occasion).map(drop).ok_or(RuleError::Missing(occasion))
    }

    /// With so many snapshots together at most; 0: as many as they keep.
    pub const fn set_largest(&mut self, largest: u64) {
        self.largest = largest;
    }

    /// Whether they can be together.
    ///
    /// # Errors
    /// `Largest`.
    pub fn check(&self) -> Result<(), RuleError> {
        let sum = self.all.values().map(|rule| u64::from(rule.keep)).sum();
        // One more than they keep is there before one goes.
        let most = if self.largest == 0 { SNAPSHOTS_MAX as u64 - 1 } else { self.largest };
        if sum > most { Err(RuleError::Largest(sum, most)) } else { Ok(()) }
    }
}

impl NumberRow<3> for Rule {
    const KIND: u8 = kind::RULE;
    const KEYS: usize = 1;

    fn numbers(&self) -> [u64; 3] {
        [self.occasion.number(), self.keep.into(), self.expiry]
    }

    fn from_numbers([occasion, keep, expiry]: [u64; 3]) -> esker_stone::Result<Self> {
        let range = esker_stone::Damage::Range;
        let keep = u32::try_from(keep).map_err(|_| range)?;
        let rule = Self { occasion: Occasion::numbered(occasion)?, keep, expiry };
        rule.check().map_err(|_| range)?;
        Ok(rule)
    }
}

/// A snapshot that a rule has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its last commit.
    pub sequence: u64,
    /// Of the rule.
    pub occasion: Occasion,
}

impl NumberRow<2> for Made {
    const KIND: u8 = kind::MADE;
    const KEYS: usize = 1;

    fn numbers(&self) -> [u64; 2] {
        [self.sequence, self.occasion.number()]
    }

    fn from_numbers([sequence, occasion]: [u64; 2]) -> esker_stone::Result<Self> {
        Ok(Self { sequence, occasion: Occasion::numbered(occasion)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_told() {
        for text in ["every hour keep 24", "on sync keep 10", "every month keep 12 for 2y"] {
            let rule: Rule = text.parse().expect("a rule");
            assert_eq!(rule.to_string(), text);
            assert_eq!(Rule::from_numbers(rule.numbers()), Ok(rule));
        }
        let long: Rule = "  every week  keep 4 for 14d".parse().expect("a rule");
        assert_eq!(long.to_string(), "every week keep 4 for 2w");
        for wrong in [
            "",
            "every hour",
            "every second keep 2",
            "every hour keep",
            "on hour keep 3",
            "every day keep 3 for",
            "every day keep 3 for d",
            "every day keep 3 for 9999999999999y",
            "every day keep 3 for 3x",
            "every day keep -3",
            "every day keep 3 for 0d",
        ] {
            assert_eq!(wrong.parse::<Rule>(), Err(RuleError::Words), "{wrong}");
        }
        assert!(Rule::from_numbers([6, 1, 0]).is_err() && Rule::from_numbers([1, 0, 0]).is_err());
    }

    #[test]
    fn rules_that_contradict_each_other_are_refused() {
        let rule = |text: &str| text.parse::<Rule>().expect("a rule");
        let mut rules = Rules::default();
        rules.add(rule("every hour keep 24")).expect("a rule");
        let known = rule("every hour keep 24");
        assert_eq!(rules.add(rule("every hour keep 3")), Err(RuleError::Exists(known)));
        let never = rule("every day keep 0");
        assert_eq!(rules.add(never), Err(RuleError::Keep(never)));
        let short = rule("every week keep 2 for 7d");
        assert_eq!(rules.add(short), Err(RuleError::Expiry(short)));
        rules.add(rule("every day keep 7 for 30d")).expect("a rule");
        rules.set_largest(30);
        assert_eq!(rules.check(), Err(RuleError::Largest(31, 30)));
        rules.set_largest(31);
        assert_eq!(rules.check(), Ok(()));
        assert_eq!(rules.remove(Occasion::Week), Err(RuleError::Missing(Occasion::Week)));
        rules.remove(Occasion::Hour).expect("it is there");
        assert_eq!(rules.iter().count(), 1);
    }

    #[test]
    fn slots_are_those_of_the_calendar() {
        // Monday, 2026-11-23 00:00:00Z.
        let monday = 1_795_392_000;
        assert_eq!(date(monday), (2026, 11, 23));
        let differ = |own: Occasion, one, other| own.slot(one) != own.slot(other);
        assert!(differ(Occasion::Week, monday - 1, monday));
        assert!(!differ(Occasion::Week, monday, monday + 7 * DAY - 1));
        assert!(differ(Occasion::Hour, monday - 1, monday));
        assert!(!differ(Occasion::Month, monday, monday + 7 * DAY));
        assert!(differ(Occasion::Month, monday, monday + 8 * DAY));
        assert!(differ(Occasion::Day, -1, 0));
    }
}
