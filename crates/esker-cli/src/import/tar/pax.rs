//! pax records: `LENGTH KEY=VALUE\n`, which say what the header has no room for.
//!
//! Above: `archive`. Invariant: what a record claims about its own length is checked before it is
//! believed.

use std::collections::HashSet;

use esker::Time;

use super::Refusal;

/// Most that records which hold together take, in bytes, each of them with [`RECORD_COST`].
const RECORDS_LEN_MAX: usize = 16 << 20;
/// What a record takes beside its bytes.
const RECORD_COST: usize = 32;

/// The records of one header, or of several that hold together, in order; a later one of the same
/// key wins.
#[derive(Clone, Debug, Default)]
pub struct Records {
    list: Vec<(Vec<u8>, Vec<u8>)>,
    len: usize,
}

fn broken() -> Refusal {
    Refusal::new("its extended header (pax) is broken")
}

fn broken_value(key: &[u8]) -> Refusal {
    let key = crate::failure::shown(key);
    Refusal::new(format!("its extended header (pax) has a broken value of {key}"))
}

impl Records {
    /// Adds what `bytes` hold.
    pub fn extend(&mut self, mut bytes: &[u8]) -> Result<(), Refusal> {
        while !bytes.is_empty() {
            let space = bytes.iter().take(20).position(|&byte| byte == b' ').ok_or_else(broken)?;
            let len = decimal(&bytes[..space]).ok_or_else(broken)?;
            let len = usize::try_from(len).map_err(|_| broken())?;
            if len <= space + 1 || len > bytes.len() || bytes[len - 1] != b'\n' {
                return Err(broken());
            }
            let record = &bytes[space + 1..len - 1];
            let equals = record.iter().position(|&byte| byte == b'=').ok_or_else(broken)?;
            self.len += record.len() + RECORD_COST;
            if self.len > RECORDS_LEN_MAX {
                return Err(Refusal::new("its extended headers (pax) are absurdly long"));
            }
            self.list.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// No records at all.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The value of `key`; an empty value takes an earlier one back.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.list.iter().rev().find(|(name, _)| name == key.as_bytes())?;
        Some(found.1.as_slice()).filter(|value| !value.is_empty())
    }

    /// All records in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.list.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    /// The value of `key` as a number.
    pub fn number(&self, key: &str) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.get(key) else { return Ok(None) };
        decimal(value).map(Some).ok_or_else(|| broken_value(key.as_bytes()))
    }

    /// The value of `key` as a point in time: `-1.25` lies 1.25 seconds before 1970.
    pub fn time(&self, key: &str) -> Result<Option<Time>, Refusal> {
        let Some(value) = self.get(key) else { return Ok(None) };
        time(value).map(Some).ok_or_else(|| broken_value(key.as_bytes()))
    }

    /// Extended attributes, name and value, each name once.
    pub fn xattrs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut known = HashSet::new();
        for (key, value) in self.list.iter().rev() {
            if let Some(name) = key.strip_prefix(b"SCHILY.xattr.")
                && known.insert(name)
            {
                found.push((unescape(name), value.clone()));
            }
        }
        found.reverse();
        found
    }
}

/// GNU tar writes `=` and `%` in the name of an attribute as `%3D` and `%25`.
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, len) = match rest {
            [b'%', b'3', b'D', ..] => (b'=', 3),
            [b'%', b'2', b'5', ..] => (b'%', 3),
            _ => (first, 1),
        };
        bytes.push(byte);
        rest = if len == 1 { behind } else { &rest[len..] };
    }
    bytes
}

/// Decimal digits only.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

fn time(value: &[u8]) -> Option<Time> {
    let (negative, value) = match value.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let mut parts = value.splitn(2, |&byte| byte == b'.');
    let whole = i64::try_from(decimal(parts.next()?)?).ok()?;
    let fraction = parts.next().unwrap_or(b"");
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().chain(std::iter::repeat(&b'0')).take(9);
    let nanos = digits.fold(0u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    Some(match (negative, nanos) {
        (false, nanos) => Time { secs: whole, nanos },
        (true, 0) => Time { secs: -whole, nanos: 0 },
        (true, nanos) => Time { secs: -whole - 1, nanos: 1_000_000_000 - nanos },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Records, Refusal> {
        let mut records = Records::default();
        records.extend(bytes)?;
        Ok(records)
    }

    #[test]
    fn records_are_read_with_any_bytes() {
        let records = parse(b"12 path=a\nb\n13 a=b=c\xff\0de\n").unwrap();
        assert_eq!(records.get("path"), Some(&b"a\nb"[..]));
        assert_eq!(records.get("a"), Some(&b"b=c\xff\0de"[..]));
        assert_eq!(records.get("b"), None);
    }

    #[test]
    fn broken_records_are_refused() {
        for bad in [
            &b"x"[..],
            b"5",
            b"0 a=\n",
            b"3 a\n",
            b"99 a=b\n",
            b"6 a=bc",
            b"5 abc\n",
            b"-6 a=b\n",
            b"99999999999999999999999 a=b\n",
            b"18446744073709551615 a=b\n",
            b"6 a=b\n\n",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_before_and_after_1970() {
        assert_eq!(time(b"12.5"), Some(Time { secs: 12, nanos: 500_000_000 }));
        assert_eq!(time(b"12"), Some(Time { secs: 12, nanos: 0 }));
        assert_eq!(time(b"-1.25"), Some(Time { secs: -2, nanos: 750_000_000 }));
        assert_eq!(time(b"-3"), Some(Time { secs: -3, nanos: 0 }));
        assert_eq!(time(b"1.1234567899"), Some(Time { secs: 1, nanos: 123_456_789 }));
        for bad in [&b""[..], b".5", b"x", b"1.x", b"--1", b"99999999999999999999"] {
            assert_eq!(time(bad), None);
        }
    }

    #[test]
    fn the_last_attribute_of_a_name_wins() {
        let records = parse(
            b"25 SCHILY.xattr.user.a=1\n25 SCHILY.xattr.user.b=2\n25 SCHILY.xattr.user.a=3\n",
        );
        let xattrs = records.unwrap().xattrs();
        assert_eq!(
            xattrs,
            [(b"user.b".to_vec(), b"2".to_vec()), (b"user.a".to_vec(), b"3".to_vec())]
        );
        assert_eq!(unescape(b"user.a%3Db%25%41%3"), b"user.a=b%%41%3");
    }
}
