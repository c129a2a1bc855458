//! Programs and libraries: what the heads of ELF, PE and Mach-O files say of where their code lies, and for which
//! machine.
//!
//! Above: `data`. Invariant: whatever a head says, it decides only what is tried; however much it says, a bounded part
//! of it is looked at.

use core::ops::Range;

use esker_stone::Transform;

/// A machine that code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86, of 32 and of 64 bits.
    X86,
    /// ARM of 32 bits.
    Arm,
    /// ARM of 64 bits.
    Arm64,
    /// RISC-V.
    Riscv,
}

/// A stretch of a file that is code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    /// For which machine.
    pub machine: Machine,
    /// Where in the file, as far as anybody says.
    pub bytes: Range<u64>,
}

/// Stretches of a file that are looked at.
const PARTS_MAX: usize = 4096;
/// Programs in one file.
const SLICES_MAX: usize = 16;
/// Stretches of code in one file.
const FOUND_MAX: usize = 64;
/// What is shorter is not worth a unit of its own.
const LEN_MIN: u64 = 4096;
/// Stretches that are so near to each other are one.
const NEAR: u64 = 64;

impl Machine {
    /// What may be done to its code so that it compresses better.
    pub(super) const fn transforms(self) -> &'static [Transform] {
        match self {
            Self::X86 => &[Transform::X86],
            Self::Arm => &[Transform::Arm, Transform::Thumb],
            Self::Arm64 => &[Transform::Arm64],
            Self::Riscv => &[Transform::Riscv],
        }
    }

    /// Where code of it begins: at multiples of so many bytes.
    pub(super) const fn word(self) -> usize {
        match self {
            Self::X86 => 1,
            Self::Riscv => 2,
            Self::Arm | Self::Arm64 => 4,
        }
    }

    const fn of_elf(number: u64) -> Option<Self> {
        match number {
            3 | 62 => Some(Self::X86),
            40 => Some(Self::Arm),
            183 => Some(Self::Arm64),
            243 => Some(Self::Riscv),
            _ => None,
        }
    }

    const fn of_pe(number: u64) -> Option<Self> {
        match number {
            0x14c | 0x8664 => Some(Self::X86),
            0x1c0 | 0x1c2 | 0x1c4 => Some(Self::Arm),
            0xaa64 => Some(Self::Arm64),
            0x5032 | 0x5064 => Some(Self::Riscv),
            _ => None,
        }
    }

    const fn of_mach(number: u64) -> Option<Self> {
        match number {
            7 | 0x0100_0007 => Some(Self::X86),
            12 => Some(Self::Arm),
            0x0100_000c | 0x0200_000c => Some(Self::Arm64),
            _ => None,
        }
    }
}

/// A number of so many bytes, the lower ones first.
fn number(bytes: &[u8], at: u64, len: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes = bytes.get(at..at.checked_add(len)?)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// A number of 4 bytes, the upper one first.
fn upper_first(bytes: &[u8], at: u64) -> Option<u64> {
    number(bytes, at, 4).map(|number| u64::from((number as u32).swap_bytes()))
}

/// A stretch of so many bytes.
const fn stretch(at: u64, len: u64) -> Range<u64> {
    at..at.saturating_add(len)
}

/// The places of so many rows of a table, as many as are looked at.
fn rows(at: u64, len: u64, count: u64) -> impl Iterator<Item = u64> {
    let count = count.min(PARTS_MAX as u64);
    (0..count).map_while(move |row| at.checked_add(row.checked_mul(len)?))
}

/// The machine, and where its code lies.
type Found = Option<(Machine, Vec<Range<u64>>)>;

/// By the segments that are loaded to be run; of what is to be linked still, by its sections.
fn elf(bytes: &[u8]) -> Found {
    let (wide, lower_first) = (*bytes.get(4)? == 2, *bytes.get(5)? == 1);
    if !bytes.starts_with(b"\x7fELF") || !lower_first {
        return None;
    }
    let machine = Machine::of_elf(number(bytes, 18, 2)?)?;
    let long = if wide { 8 } else { 4 };
    // Where a field is, in files of 64 and of 32 bits.
    let at = |in_wide, in_narrow| if wide { in_wide } else { in_narrow };
    let is_linked = number(bytes, 16, 2)? != 1;
    let (table, sizes) =
        if is_linked { (at(32, 28), at(54, 42)) } else { (at(40, 32), at(58, 46)) };
    let (from, len) = (number(bytes, table, long)?, number(bytes, sizes, 2)?);
    let part = |row: u64| {
        let (is_code, place, len) = if is_linked {
            let flags = number(bytes, row + at(4, 24), 4)?;
            (number(bytes, row, 4)? == 1 && flags & 1 != 0, row + at(8, 4), row + at(32, 16))
        } else {
            let flags = number(bytes, row + 8, long)?;
            (number(bytes, row + 4, 4)? == 1 && flags & 4 != 0, row + at(24, 16), row + at(32, 20))
        };
        is_code.then_some(stretch(number(bytes, place, long)?, number(bytes, len, long)?))
    };
    let inside = |row: &u64| *row < bytes.len() as u64;
    let all = rows(from, len, number(bytes, sizes + 2, 2)?).take_while(inside);
    Some((machine, all.filter_map(part).collect()))
}

/// By the sections.
fn pe(bytes: &[u8]) -> Found {
    let head = number(bytes, 0x3c, 4)?;
    if !bytes.starts_with(b"MZ") || number(bytes, head, 4)? != 0x4550 {
        return None;
    }
    let machine = Machine::of_pe(number(bytes, head + 4, 2)?)?;
    let table = head + 24 + number(bytes, head + 20, 2)?;
    let part = |row: u64| {
        let is_code = number(bytes, row + 36, 4)? & 0x2000_0020 != 0;
        is_code.then_some(stretch(number(bytes, row + 20, 4)?, number(bytes, row + 16, 4)?))
    };
    let all = rows(table, 40, number(bytes, head + 6, 2)?);
    Some((machine, all.filter_map(part).collect()))
}

/// By the sections of all segments.
fn mach(bytes: &[u8]) -> Found {
    let wide = match number(bytes, 0, 4)? {
        0xfeed_facf => true,
        0xfeed_face => false,
        _ => return None,
    };
    let machine = Machine::of_mach(number(bytes, 4, 4)?)?;
    let (mut command, mut found) = (if wide { 32 } else { 28 }, Vec::new());
    // Where the number of sections is, and their length, place and flags, and how long a row is.
    let (segment, count, len, place, flags, row_len) =
        if wide { (0x19, 64, 40, 48, 64, 80) } else { (1, 48, 36, 40, 56, 68) };
    let mut left = PARTS_MAX as u64;
    for _ in 0..number(bytes, 16, 4)?.min(PARTS_MAX as u64) {
        let (Some(kind), Some(own)) = (number(bytes, command, 4), number(bytes, command + 4, 4))
        else {
            break;
        };
        if kind == segment {
            let sections = number(bytes, command + count, 4).unwrap_or(0).min(left);
            left -= sections;
            let long = if wide { 8 } else { 4 };
            let part = |row: u64| {
                let is_code = number(bytes, row + flags, 4)? & 0x8000_0400 != 0;
                let len = number(bytes, row + len, long)?;
                is_code.then_some(stretch(number(bytes, row + place, 4)?, len))
            };
            found.extend(rows(command + count + 8, row_len, sections).filter_map(part));
        }
        command += own.max(8);
    }
    Some((machine, found))
}

fn one(bytes: &[u8]) -> Found {
    elf(bytes).or_else(|| pe(bytes)).or_else(|| mach(bytes))
}

/// Programs for several machines in one file of Mach-O: where each lies.
fn slices(bytes: &[u8]) -> Vec<Range<u64>> {
    // Java's classes begin so too, with a number that is larger behind it.
    let count = upper_first(bytes, 4).filter(|&count| count <= SLICES_MAX as u64);
    let Some(count) = count.filter(|_| bytes.starts_with(b"\xca\xfe\xba\xbe")) else {
        return Vec::new();
    };
    let slice = |row| Some(stretch(upper_first(bytes, row + 8)?, upper_first(bytes, row + 12)?));
    rows(8, 20, count).filter_map(slice).collect()
}

/// The stretches of code of a file that begins with these bytes: they rise, and none lies in another.
pub(super) fn found(bytes: &[u8]) -> Vec<Code> {
    let mut all = Vec::new();
    let whole = 0..u64::MAX;
    for slice in core::iter::once(whole).chain(slices(bytes)) {
        let from = usize::try_from(slice.start).ok();
        let Some((machine, parts)) = from.and_then(|from| one(bytes.get(from..)?)) else {
            continue;
        };
        for part in parts {
            let start = slice.start.saturating_add(part.start);
            let end = slice.start.saturating_add(part.end).min(slice.end);
            all.push(Code { machine, bytes: start..end });
        }
    }
    all.sort_by_key(|code| (code.bytes.start, code.bytes.end));
    let mut found: Vec<Code> = Vec::new();
    for code in all {
        let Range { start, end } = code.bytes;
        match found.last_mut() {
            Some(last) if start < last.bytes.end.saturating_add(NEAR) => {
                // What somebody else says of the same bytes does not count.
                if last.machine == code.machine {
                    last.bytes.end = last.bytes.end.max(end);
                }
            }
            _ => found.push(code),
        }
    }
    found.retain(|code| code.bytes.end.saturating_sub(code.bytes.start) >= LEN_MIN);
    found.truncate(FOUND_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes with numbers at places.
    fn head(begin: &[u8], numbers: &[(usize, u64, usize)]) -> Vec<u8> {
        let mut bytes = vec![0; 600];
        bytes[..begin.len()].copy_from_slice(begin);
        for &(at, number, len) in numbers {
            bytes[at..at + len].copy_from_slice(&number.to_le_bytes()[..len]);
        }
        bytes
    }

    /// Of each kind one whose code lies at 8192, 5000 bytes long, with other parts beside it.
    fn all() -> Vec<(Machine, Vec<u8>)> {
        let [wide, narrow] = linked();
        let [pe, mach] = others();
        vec![
            (Machine::X86, wide),
            (Machine::Arm, narrow),
            (Machine::Riscv, object()),
            (Machine::Arm64, pe),
            (Machine::Arm64, mach),
            (Machine::X86, old()),
        ]
    }

    fn linked() -> [Vec<u8>; 2] {
        let wide = head(
            b"\x7fELF\x02\x01\x01",
            &[
                (16, 3, 2),
                (18, 62, 2),
                (32, 64, 8),
                (54, 56, 2),
                (56, 3, 2),
                (64, 1, 4),
                (64 + 4, 4, 4),
                (64 + 32, 8192, 8),
                (120, 1, 4),
                (120 + 4, 5, 4),
                (120 + 8, 8192, 8),
                (120 + 32, 5000, 8),
                (176, 0x6474_e551, 4),
                (176 + 4, 7, 4),
                (176 + 32, 99_999, 8),
            ],
        );
        let narrow = head(
            b"\x7fELF\x01\x01\x01",
            &[
                (16, 2, 2),
                (18, 40, 2),
                (28, 52, 4),
                (42, 32, 2),
                (44, 1, 2),
                (52, 1, 4),
                (52 + 4, 8192, 4),
                (52 + 16, 5000, 4),
                (52 + 24, 5, 4),
            ],
        );
        [wide, narrow]
    }

    fn object() -> Vec<u8> {
        head(
            b"\x7fELF\x02\x01\x01",
            &[
                (16, 1, 2),
                (18, 243, 2),
                (40, 64, 8),
                (58, 64, 2),
                (60, 2, 2),
                (64 + 4, 1, 4),
                (64 + 8, 3, 8),
                (64 + 32, 9000, 8),
                (128 + 4, 1, 4),
                (128 + 8, 6, 8),
                (128 + 24, 8192, 8),
                (128 + 32, 5000, 8),
            ],
        )
    }

    fn others() -> [Vec<u8>; 2] {
        let pe = head(
            b"MZ",
            &[
                (0x3c, 128, 4),
                (128, 0x4550, 4),
                (132, 0xaa64, 2),
                (134, 2, 2),
                (148, 16, 2),
                (168 + 16, 700, 4),
                (168 + 36, 0x4000_0040, 4),
                (208 + 16, 5000, 4),
                (208 + 20, 8192, 4),
                (208 + 36, 0x6000_0020, 4),
            ],
        );
        let mach = head(
            &0xfeed_facfu32.to_le_bytes(),
            &[
                (4, 0x0100_000c, 4),
                (16, 2, 4),
                (32, 2, 4),
                (36, 16, 4),
                (48, 0x19, 4),
                (52, 232, 4),
                (48 + 64, 2, 4),
                (120 + 40, 5000, 8),
                (120 + 48, 8192, 4),
                (120 + 64, 0x8000_0400, 4),
                (200 + 40, 9000, 8),
                (200 + 48, 20_000, 4),
            ],
        );
        [pe, mach]
    }

    fn old() -> Vec<u8> {
        head(
            &0xfeed_faceu32.to_le_bytes(),
            &[
                (4, 7, 4),
                (16, 1, 4),
                (28, 1, 4),
                (32, 124, 4),
                (28 + 48, 1, 4),
                (84 + 36, 5000, 4),
                (84 + 40, 8192, 4),
                (84 + 56, 0x8000_0400, 4),
            ],
        )
    }

    /// Two programs in one file, one for each machine.
    fn fat() -> Vec<u8> {
        let mut bytes = b"\xca\xfe\xba\xbe\0\0\0\x02".to_vec();
        for (at, len) in [(1000u32, 20_000u32), (30_000, 10_000)] {
            bytes.extend([0; 8]);
            bytes.extend([at, len, 0].map(u32::to_be_bytes).concat());
        }
        for (at, number) in [(1000, 4), (30_000, 5)] {
            bytes.resize(at, 0);
            bytes.extend(&all()[number].1);
        }
        bytes
    }

    #[test]
    fn heads_say_where_code_lies_and_for_which_machine() {
        for (machine, bytes) in all() {
            assert_eq!(found(&bytes), [Code { machine, bytes: 8192..13_192 }]);
        }
        let right = [
            Code { machine: Machine::Arm64, bytes: 9192..14_192 },
            // It is longer than its slice has room for.
            Code { machine: Machine::X86, bytes: 38_192..40_000 },
        ];
        assert_eq!(found(&fat()), right[..1], "the other one is short");
        for other in [&b"\xca\xfe\xba\xbe\0\0\0\x34 a class"[..], b"MZ", b"\x7fELF", b""] {
            assert_eq!(found(other), []);
        }
    }

    #[test]
    fn what_is_short_is_nothing_and_what_is_near_is_one() {
        let (_, mut bytes) = all().swap_remove(2);
        bytes[128 + 32..136 + 32].copy_from_slice(&4000u64.to_le_bytes());
        assert_eq!(found(&bytes), []);
        // Another section right behind it.
        bytes.copy_within(128..192, 64);
        bytes[64 + 24..72 + 24].copy_from_slice(&12_200u64.to_le_bytes());
        assert_eq!(found(&bytes), [Code { machine: Machine::Riscv, bytes: 8192..16_200 }]);
    }

    #[test]
    fn a_hostile_head_says_little() {
        let files = all().into_iter().map(|(_, bytes)| bytes).chain([fat()]);
        for right in files {
            for at in (0..right.len()).filter(|at| at % 1000 < 300) {
                found(&right[..at]);
                for len in [1, 2, 4, 8] {
                    for byte in [0, 1, 0x7f, 0xff] {
                        let mut wrong = right.clone();
                        let end = (at + len).min(wrong.len());
                        wrong[at..end].fill(byte);
                        let all = found(&wrong);
                        let rises = |two: &[Code]| two[0].bytes.end <= two[1].bytes.start;
                        assert!(all.windows(2).all(rises));
                        let long = |code: &Code| code.bytes.end - code.bytes.start >= LEN_MIN;
                        assert!(all.iter().all(long));
                    }
                }
            }
        }
    }
}
