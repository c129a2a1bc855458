//! Bytes as people write and read them.

/// Bytes from `512`, `64K`, `2G` (powers of 1024, either case) or `25%` of `ram`. None when it is
/// none of these or does not fit 64 bits.
pub fn parse_size(text: &str, ram: u64) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (_, last) if last.is_ascii_digit() => (text, None),
        (at, last) => (&text[..at], Some(last.to_ascii_uppercase())),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    let shift = match unit {
        None => 0,
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        Some('%') => {
            let share = u128::from(ram) * u128::from(count) / 100;
            return u64::try_from(share).ok();
        }
        Some(_) => return None,
    };
    count.checked_mul(1 << shift)
}

/// A count of things from `512`, `10K`, `1M` (powers of 1000, either case).
pub fn parse_count(text: &str) -> Option<u64> {
    let thousands = match text.bytes().last()?.to_ascii_uppercase() {
        b'K' => 1_000,
        b'M' => 1_000_000,
        _ => 1,
    };
    let digits = if thousands == 1 { text } else { &text[..text.len() - 1] };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(thousands)
}

/// Memory of the machine, in bytes.
pub fn ram() -> u64 {
    let info = rustix::system::sysinfo();
    #[expect(clippy::useless_conversion, reason = "the field is 32 bits wide on small machines")]
    let (total, unit) = (u64::from(info.totalram), u64::from(info.mem_unit));
    total.saturating_mul(unit.max(1))
}

/// A size for a person: `512 B`, `1.5 MiB`.
pub fn size_shown(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10) as usize;
    #[expect(clippy::cast_precision_loss, reason = "one digit behind the point is shown")]
    let value = bytes as f64 / (1u64 << (10 * power)) as f64;
    format!("{value:.1} {}", units[power - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("0", 0), Some(0));
        assert_eq!(parse_size("3k", 0), Some(3072));
        assert_eq!(parse_size("1T", 0), Some(1 << 40));
        assert_eq!(parse_size("50%", 1000), Some(500));
        assert_eq!(parse_size("200%", u64::MAX), None);
        for bad in ["", "K", "%", "+1", "1KK", "1 K", "é", "18446744073709551616", "16777216T"] {
            assert_eq!(parse_size(bad, 100), None, "{bad}");
        }
    }

    #[test]
    fn counts_are_read() {
        assert_eq!(parse_count("1000"), Some(1000));
        assert_eq!(parse_count("10k"), Some(10_000));
        assert_eq!(parse_count("1M"), Some(1_000_000));
        for bad in ["", "K", "+1", "1G", "1 K", "é", "18446744073709551615K"] {
            assert_eq!(parse_count(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown() {
        assert_eq!(size_shown(1023), "1023 B");
        assert_eq!(size_shown(1536), "1.5 KiB");
        assert_eq!(size_shown(u64::MAX), "16.0 EiB");
        assert!(ram() > 1 << 20);
    }
}
