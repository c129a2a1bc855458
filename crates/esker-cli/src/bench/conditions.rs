//! What a run happened under: figures without it mean nothing.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::units::{ram, size_shown};

/// The machine, its state and this program, as they are now: name and value.
pub fn of_machine() -> Vec<(String, String)> {
    let system = rustix::system::uname();
    let facts = [
        ("date", today()),
        ("version", format!("esker {}", env!("CARGO_PKG_VERSION"))),
        ("command", command()),
        (
            "kernel",
            format!(
                "Linux {}, {}",
                system.release().to_string_lossy(),
                system.machine().to_string_lossy()
            ),
        ),
        ("CPU", cpus()),
        ("memory", size_shown(ram())),
        ("load average at start", load()),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// As it was typed, but for where the program lies.
fn command() -> String {
    let words = std::env::args().skip(1).map(|word| {
        let plain = |letter: char| letter.is_alphanumeric() || "-_./:,=%+@".contains(letter);
        let quoted = word.is_empty() || !word.chars().all(plain);
        if quoted { format!("'{}'", word.replace('`', "'")) } else { word }
    });
    let words: Vec<String> = words.collect();
    format!("`esker {}`", words.join(" "))
}

/// The machine's, however few of them we may use.
fn cpus() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let values = |key: &'static str| {
        let lines = info.lines().filter_map(move |line| line.strip_prefix(key)?.split_once(':'));
        lines.map(|(_, value)| value.trim())
    };
    let model = values("model name").next().unwrap_or("unknown model");
    format!("{model}, {} of them", values("processor").count())
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// Year, month and day so many days after 1970-01-01, counted from a first of March, so that a leap day comes
/// last.
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let january = month >= 10;
    (era * 400 + year + january as u64, if january { month - 9 } else { month + 3 }, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(19_782), (2024, 2, 29));
        assert_eq!(date(19_783), (2024, 3, 1));
        assert_eq!(date(20_453), (2025, 12, 31));
    }

    #[test]
    fn every_condition_says_something() {
        for (name, value) in of_machine() {
            assert!(!name.is_empty() && !value.trim().is_empty(), "{name}: {value}");
        }
    }
}
