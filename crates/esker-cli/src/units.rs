//! Bytes as people write and read them.

/// Why a text is no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSize {
    /// It is not written as one.
    Unclear,
    /// It does not fit 64 bits.
    TooLarge,
    /// It is a share of more than there is.
    MoreThanAll,
}

/// What a process maps anyway: its code, stacks, and what the allocator sets aside.
pub const OWN_MAX: u64 = 64 << 20;

/// Bytes from `512`, `64K`, `2G` (powers of 1024, either case) or `25%` of `ram`.
pub fn parse_size(text: &str, ram: u64) -> Result<u64, BadSize> {
    let (digits, unit) = match text.char_indices().last().ok_or(BadSize::Unclear)? {
        (_, last) if last.is_ascii_digit() => (text, None),
        (at, last) => (&text[..at], Some(last.to_ascii_uppercase())),
    };
    let known = matches!(unit, None | Some('K' | 'M' | 'G' | 'T' | '%'));
    if !known || digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadSize::Unclear);
    }
    let count: u64 = digits.parse().map_err(|_| BadSize::TooLarge)?;
    let shift = match unit {
        Some('%') => {
            let share = u128::from(ram) * u128::from(count.min(100)) / 100;
            let share = u64::try_from(share).map_err(|_| BadSize::TooLarge)?;
            return if count > 100 { Err(BadSize::MoreThanAll) } else { Ok(share) };
        }
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        _ => 0,
    };
    count.checked_mul(1 << shift).ok_or(BadSize::TooLarge)
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

/// How many bytes this process may map, as far as that is bounded (`ulimit -v`).
pub fn map_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::As).current.unwrap_or(u64::MAX)
}

/// The same beside its own.
pub fn mappable() -> u64 {
    match map_limit() {
        u64::MAX => u64::MAX,
        limit => limit.saturating_sub(OWN_MAX),
    }
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
        assert_eq!(parse_size("0", 0), Ok(0));
        assert_eq!(parse_size("3k", 0), Ok(3072));
        assert_eq!(parse_size("1T", 0), Ok(1 << 40));
        assert_eq!(parse_size("50%", 1000), Ok(500));
        assert_eq!(parse_size("100%", u64::MAX), Ok(u64::MAX));
        for over in ["101%", "200%", "18446744073709551615%"] {
            assert_eq!(parse_size(over, 100), Err(BadSize::MoreThanAll), "{over}");
        }
        for large in ["18446744073709551616", "16777216T", "99999999999999999999K"] {
            assert_eq!(parse_size(large, 100), Err(BadSize::TooLarge), "{large}");
        }
        for bad in ["", "K", "%", "+1", "1KK", "1 K", "é", "1Q", "99999999999999999999Q"] {
            assert_eq!(parse_size(bad, 100), Err(BadSize::Unclear), "{bad}");
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
