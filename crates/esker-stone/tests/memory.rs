//! What a page takes in memory is bounded by the limits of the format, whatever it says. Every byte of the heap is
//! counted, so this is the only test of this program.

use std::alloc::System;

use cap::Cap;
use esker_stone::rows::blocks::Blocks;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// A group of blocks: columns of which all rows have the same number.
fn blocks(rows: u16, columns: &[(u8, u32)]) -> Vec<u8> {
    let mut page = vec![16, columns.len() as u8];
    page.extend(rows.to_le_bytes());
    for &(column, number) in columns {
        let mut own = Vec::new();
        let mut left = number;
        while left >= 0x80 {
            own.push(left as u8 | 0x80);
            left >>= 7;
        }
        own.push(left as u8);
        page.extend([column, 1, 0, 0]);
        page.extend((own.len() as u32).to_le_bytes());
        page.extend(own);
    }
    page
}

#[test]
fn a_short_page_takes_little_memory() {
    let (plain, words, sections) = (5, 17, 130);
    for len in [u32::MAX, 65 << 20, 64 << 20] {
        let page = blocks(4096, &[(plain, len), (words, 1), (sections, 1)]);
        assert!(page.len() < 64);
        assert!(Blocks::decode(&page).is_err(), "{len}");
    }
    // One that is as it should be, to see that it is the numbers that are refused.
    let good = Blocks::decode(&blocks(4096, &[(plain, 2 << 16), (words, 2), (sections, 1)]));
    assert_eq!(good.unwrap().find(7).unwrap().sections, [1, 1]);
    let most = ALLOCATOR.max_allocated();
    assert!(most < 64 << 20, "{most} bytes");
}
