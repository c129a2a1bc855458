//! What a block is likely to hold, by the edges of those beside it: pictures mostly go on.
//!
//! Above: `block`, `model`. Invariant: whatever the numbers are, nothing overflows: sums stay below 2^31 by the limits
//! below. Where that is said by `wrapping`, it is for what the compiler makes of it.

/// Rows and columns of a block.
pub(super) const SIDE: usize = 8;
/// Values of a block, undone of their table, are within this.
const VALUE_MAX: i32 = 8191;
/// Of a wave of each frequency, how high it is where blocks meet, against that of frequency 0, of 2^13.
const MEETING: [i32; SIDE] = [8192, 11363, 10703, 9633, 8192, 6437, 4433, 2260];
const MEETING_BITS: u32 = 13;
/// Waves of each frequency at eight places, of 2^11: half of a cosine, that of frequency 0 / √2.
const WAVES: [[i32; SIDE]; SIDE] = [
    [724, 724, 724, 724, 724, 724, 724, 724],
    [1004, 851, 569, 200, -200, -569, -851, -1004],
    [946, 392, -392, -946, -946, -392, 392, 946],
    [851, -200, -1004, -569, 569, 1004, 200, -851],
    [724, -724, -724, 724, 724, -724, -724, 724],
    [569, -1004, 200, 851, -851, -200, 1004, -569],
    [392, -946, 946, -392, -392, 946, -946, 392],
    [200, -569, 851, -1004, 1004, -851, 569, -200],
];
/// Half a picture's values are within this, in eighths.
const PICTURE_MAX: i32 = (1 << 17) - 1;

/// A value of a block, undone of its table.
fn value(number: i16, quant: u16) -> i32 {
    (i32::from(number) * i32::from(quant)).clamp(-VALUE_MAX, VALUE_MAX)
}

/// What a block's waves come to where blocks meet, of each frequency along: of its rows and of its columns.
#[derive(Clone, Copy, Default)]
pub(super) struct Meeting {
    pub rows: [i32; SIDE],
    pub columns: [i32; SIDE],
}

impl Meeting {
    /// Adds a number of the block: at the sides where it begins, or where it ends.
    #[inline]
    pub fn add(&mut self, at: usize, number: i16, quants: &[u16; 64], ends: bool) {
        let value = value(number, quants[at]);
        let (row, column) = (at / SIDE % SIDE, at % SIDE);
        // What is odd points the other way there.
        let turned = |height: i32, odd: usize| if ends && odd % 2 == 1 { -height } else { height };
        let down = value.wrapping_mul(turned(MEETING[row], row));
        let across = value.wrapping_mul(turned(MEETING[column], column));
        self.rows[column] = self.rows[column].wrapping_add(down);
        self.columns[row] = self.columns[row].wrapping_add(across);
    }
}

/// The numbers of a block's first row or column, twice as large, that go on best with the block above or to the left:
/// what that comes to where they meet, and what the rest of this block does. `across` is how far the next number is.
pub(super) fn edge(
    there: &[i32; SIDE],
    here: &[i32; SIDE],
    quants: &[u16; 64],
    across: usize,
) -> [i32; SIDE] {
    let mut found = [0; SIDE];
    for at in 1..SIDE {
        let sum = there[at].wrapping_sub(here[at]);
        found[at] = sum / (i32::from(quants[at * across]) << (MEETING_BITS - 1));
    }
    found
}

/// A row of a picture of waves of the first frequencies, `HALF` places at each side of it.
#[inline]
fn waves<const HALF: usize>(sums: &[i32]) -> [i32; SIDE] {
    let (mut even, mut odd) = ([0i32; HALF], [0i32; HALF]);
    for (step, (sum, waves)) in sums.iter().zip(&WAVES).enumerate() {
        let all = if step % 2 == 0 { &mut even } else { &mut odd };
        for (place, wave) in all.iter_mut().zip(waves) {
            *place = place.wrapping_add(sum.wrapping_mul(*wave));
        }
    }
    let mut found = [0; SIDE];
    for at in 0..HALF {
        // Even ones are alike on both sides, odd ones are not.
        found[at] = even[at].wrapping_add(odd[at]) >> 11;
        found[SIDE - 1 - at] = even[at].wrapping_sub(odd[at]) >> 11;
    }
    found
}

/// A block's picture without its first number, in eighths: the two rows and columns at each side.
pub(super) fn picture(block: &[i16; 64], quants: &[u16; 64]) -> [[i32; SIDE]; SIDE] {
    // Columns first: of each frequency across the values down.
    let (mut columns, mut count) = ([[0i32; SIDE]; SIDE], 0);
    for (at, (&number, &quant)) in block.iter().zip(quants).enumerate().skip(1) {
        if number != 0 {
            let value = value(number, quant);
            count = count.max(at % SIDE + 1);
            for (row, wave) in columns.iter_mut().zip(WAVES[at / SIDE]) {
                row[at % SIDE] = row[at % SIDE].wrapping_add(value.wrapping_mul(wave));
            }
        }
    }
    let mut found = [[0; SIDE]; SIDE];
    for (at, (row, found)) in columns.iter_mut().zip(&mut found).enumerate() {
        let row = &mut row[..count];
        row.iter_mut().for_each(|sum| *sum = (*sum >> 8).clamp(-PICTURE_MAX, PICTURE_MAX));
        *found = if (2..6).contains(&at) { waves::<2>(row) } else { waves::<4>(row) };
    }
    found
}

/// What a block's first number is by what is above it or to the left, eight times over, undone of its table: the mean,
/// and how far they are from each other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opinion {
    pub mean: i32,
    pub spread: i32,
}

/// By one side: how the picture goes on there, and the two rows or columns of this one that are the nearest.
pub(super) fn opinion(goes_on: &[i32; SIDE], first: [i32; SIDE], second: [i32; SIDE]) -> Opinion {
    let (mut sum, mut least, mut most) = (0, i32::MAX, i32::MIN);
    for ((there, one), two) in goes_on.iter().zip(first).zip(second) {
        let all = there + (two - one) / 2 - one;
        sum += all;
        least = least.min(all);
        most = most.max(all);
    }
    Opinion { mean: sum / 8, spread: most - least }
}
