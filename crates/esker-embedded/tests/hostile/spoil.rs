//! Bytes that hurt, where they hurt.

use esker::memory::Superblock;

use crate::chance::Chance;

const PAGE: usize = 4096;
/// What stands in a page of a tree before the prefix of its keys.
const PREFIX: usize = 16 + 48;
/// The undo log's heads, and one of its entries.
const HEADS: usize = 64;
const ENTRY: usize = 24 + PAGE;

/// A number that hurts in the place of `was`.
pub fn number(chance: &mut Chance, was: u64) -> u64 {
    match chance.below(10) {
        0 => 0,
        1 => was.wrapping_add(1),
        2 => was.wrapping_sub(1),
        3 => u64::MAX >> chance.below(64),
        4 => 1 << chance.below(64),
        5 => was.wrapping_mul(2),
        6 => was ^ (1 << chance.below(64)),
        7 => chance.next(),
        _ => was,
    }
}

fn two(page: &[u8], at: usize) -> usize {
    page.get(at..at + 2).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
}

/// Where the values of a page's slots lie.
fn values(page: &[u8]) -> Vec<std::ops::Range<usize>> {
    let slots = PREFIX + two(page, 10) + two(page, 2);
    let value = |index: usize| {
        let slot = slots + index * 10;
        let start = two(page, slot + 8) + two(page, slot + 4).saturating_sub(4);
        start..start + two(page, slot + 6)
    };
    (0..two(page, 8).min(400)).map(value).filter(|range| range.end <= PAGE).collect()
}

/// Puts numbers that hurt into one page.
fn spoil_page(chance: &mut Chance, bytes: &mut [u8], at: usize) {
    let other = chance.below((bytes.len() / PAGE) as u64) as usize * PAGE;
    match chance.below(9) {
        0 => bytes[at..at + PAGE].fill([0, 255][chance.below(2) as usize]),
        1 => bytes.copy_within(other..other + PAGE, at),
        2 => bytes[at + chance.below(PAGE as u64) as usize] ^= 1 << chance.below(8),
        3 => bytes[at + chance.below(16) as usize] = chance.next() as u8,
        4 => bytes[at + chance.below(PAGE as u64) as usize] = chance.next() as u8,
        5 => {
            let place = at + chance.below(PAGE as u64 / 8 - 1) as usize * 8;
            let was = u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap());
            let number = number(chance, was).to_le_bytes();
            bytes[place..place + 8].copy_from_slice(&number);
        }
        kind => {
            let page = &mut bytes[at..at + PAGE];
            let values = values(page);
            let Some(some) = chance.pick(&(0..values.len()).collect::<Vec<_>>()) else { return };
            let source = page[values[some].clone()].to_vec();
            match kind {
                // All lead to the same, to what is below or to the page itself.
                6 | 7 if page[0] > 0 => {
                    let own = ((at / PAGE) as u32).to_le_bytes();
                    let child = if kind == 6 { &source[..] } else { &own[..] };
                    for value in values.iter().filter(|value| value.len() == child.len()) {
                        page[value.clone()].copy_from_slice(child);
                    }
                }
                // A number in a value: of a record, an entry, an extent.
                _ if !source.is_empty() => {
                    let place = values[some].start + chance.below(source.len() as u64) as usize;
                    let len = (values[some].end - place).min(8);
                    let number = number(chance, 1).to_le_bytes();
                    page[place..place + len].copy_from_slice(&number[..len]);
                }
                _ => {}
            }
        }
    }
}

/// Puts numbers that hurt into a memory, and gives its superblock the check that it should have, mostly.
pub fn spoil(chance: &mut Chance, bytes: &mut Vec<u8>) {
    for _ in 0..=chance.below(6) {
        let pages = (bytes.len() / PAGE) as u64;
        let page = chance.below(pages);
        // Where trees have their pages: near the beginning.
        let page = if chance.one_in(3) { page } else { page % 64 };
        spoil_page(chance, bytes, page as usize * PAGE);
    }
    if chance.one_in(3) {
        // Behind the version, mostly, and among the numbers of free pages.
        let at = [8 + chance.below(112), 512 + chance.below(200)][usize::from(chance.one_in(3))];
        bytes[at as usize] = chance.next() as u8;
    }
    if chance.one_in(8) {
        let at = 16 + chance.below(9) as usize * 8;
        let was = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        bytes[at..at + 8].copy_from_slice(&number(chance, was).to_le_bytes());
    }
    if chance.one_in(12) {
        bytes.truncate(chance.below(bytes.len() as u64) as usize);
    }
    if !chance.one_in(12)
        && let Some(block) = bytes.get(..128).and_then(Superblock::decode)
    {
        bytes[..128].copy_from_slice(&block.sealed());
    }
}

/// The check of the undo log, as its format has it.
fn check_of(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks::<8>().0.iter();
    words.fold(bytes.len() as u64, |sum, word| {
        (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
    })
}

/// Puts numbers that hurt into an undo log, whose checks are right again, mostly.
pub fn spoil_log(chance: &mut Chance, log: &mut Vec<u8>) {
    for _ in 0..=chance.below(4) {
        let entries = (log.len() - HEADS) / ENTRY;
        let at = match chance.below(4) {
            0 => chance.below(HEADS as u64 / 8) as usize * 8,
            _ => {
                HEADS + chance.below(entries as u64) as usize * ENTRY + chance.below(3) as usize * 8
            }
        };
        let was = u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
        // Mostly a page that there is.
        let number = if chance.one_in(2) { chance.below(200) } else { number(chance, was) };
        log[at..at + 8].copy_from_slice(&number.to_le_bytes());
        if chance.one_in(2) {
            let from = HEADS + chance.below(entries as u64) as usize * ENTRY + 24;
            let from = from.min(log.len() - PAGE);
            spoil_page(chance, log, from);
        }
    }
    if chance.one_in(10) {
        log.truncate(chance.below(log.len() as u64) as usize);
    }
    if chance.one_in(6) {
        return;
    }
    for head in log.chunks_mut(32).take(2).filter(|head| head.len() == 32) {
        let check = check_of(&head[..24]);
        head[24..].copy_from_slice(&check.to_le_bytes());
    }
    for entry in log.get_mut(HEADS..).unwrap_or_default().chunks_exact_mut(ENTRY) {
        let check = check_of(&entry[..16]) ^ check_of(&entry[24..]);
        entry[16..24].copy_from_slice(&check.to_le_bytes());
    }
}
