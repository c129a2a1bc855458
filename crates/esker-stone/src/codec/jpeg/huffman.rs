//! Codes of a scan, as its tables say.
//!
//! Above: `bits`, `head`, `scan`, `strip`. Invariant: a table whose codes do not fit into 16 bits is none.

/// Most bits of a code.
pub(super) const LEN_MAX: usize = 16;
/// Codes of so many bits are found at once.
const QUICK_BITS: usize = 9;

/// The tables that the standard suggests (its annex K): of first numbers of blocks for lightness and colour, and of the
/// others for both. Of those the last symbols, all that do not come before, rise.
const SUGGESTED: [([u8; LEN_MAX], &[u8]); 4] = [
    ([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &[]),
    ([0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], &[]),
    ([0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125], &LIGHT),
    ([0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 119], &COLOUR),
];
const LIGHT: [u8; 37] = [
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07,
    0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0,
    0x24, 0x33, 0x62, 0x72, 0x82,
];
const COLOUR: [u8; 43] = [
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71,
    0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0,
    0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1,
];

/// A table as files tell it: how many codes there are of each length, and what they stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub counts: [u8; LEN_MAX],
    pub symbols: Vec<u8>,
}

impl Table {
    /// Those that the standard suggests, by their numbers.
    pub fn suggested(number: usize) -> Option<Self> {
        let &(counts, first) = SUGGESTED.get(number)?;
        if first.is_empty() {
            return Some(Self { counts, symbols: (0..12).collect() });
        }
        // Zeros before a number, and its bits; and the end, and sixteen zeros.
        let all = (0..=u8::MAX).filter(|symbol| matches!(symbol & 15, 1..=10) || symbol % 240 == 0);
        let rest = all.filter(|symbol| !first.contains(symbol));
        Some(Self { counts, symbols: first.iter().copied().chain(rest).collect() })
    }

    /// How many there are that the standard suggests.
    pub const SUGGESTED: usize = SUGGESTED.len();

    /// How many codes there are.
    pub fn count(counts: &[u8; LEN_MAX]) -> usize {
        counts.iter().map(|&count| usize::from(count)).sum()
    }
}

/// A table, both ways.
#[derive(Clone, Debug)]
pub(super) struct Codes {
    /// Of each symbol the code and its length; 0: it has none.
    codes: Box<[(u16, u8); 256]>,
    /// Of what the next bits are the symbol and the length of its code.
    quick: Box<[(u8, u8); 1 << QUICK_BITS]>,
    /// Of each length the first code that is too large for it, moved up to 16 bits, and what must be added to a code
    /// to find its symbol.
    ends: [(u32, i32); LEN_MAX],
    symbols: Vec<u8>,
}

impl Codes {
    /// `None`: there are too many codes, or a symbol has two.
    pub fn new(table: &Table) -> Option<Self> {
        let Table { counts, symbols } = table;
        if symbols.len() != Table::count(counts) {
            return None;
        }
        let mut own = Self {
            codes: Box::new([(0, 0); 256]),
            quick: Box::new([(0, 0); 1 << QUICK_BITS]),
            ends: [(0, 0); LEN_MAX],
            symbols: symbols.clone(),
        };
        let (mut code, mut next) = (0u32, 0usize);
        for (len, &count) in (1..).zip(counts) {
            own.ends[len - 1].1 = next as i32 - code.cast_signed();
            for _ in 0..count {
                let known = &mut own.codes[usize::from(symbols[next])];
                if code >> len != 0 || known.1 != 0 {
                    return None;
                }
                *known = (code as u16, len as u8);
                if let Some(more) = QUICK_BITS.checked_sub(len) {
                    let from = (code as usize) << more;
                    own.quick[from..from + (1 << more)].fill((symbols[next], len as u8));
                }
                (code, next) = (code + 1, next + 1);
            }
            own.ends[len - 1].0 = code << (LEN_MAX - len);
            code <<= 1;
        }
        Some(own)
    }

    /// The symbol whose code these 16 bits begin with, and how long that is.
    pub fn find(&self, bits: u32) -> Option<(u8, u32)> {
        let (symbol, len) = self.quick[(bits >> (LEN_MAX - QUICK_BITS)) as usize];
        if len > 0 {
            return Some((symbol, len.into()));
        }
        let long = self.ends.iter().enumerate().skip(QUICK_BITS);
        let (len, (_, add)) = long.clone().find(|(_, (end, _))| bits < *end)?;
        let place = (bits >> (LEN_MAX - 1 - len)).cast_signed() + add;
        let symbol = self.symbols.get(usize::try_from(place).ok()?)?;
        Some((*symbol, len as u32 + 1))
    }

    /// The code of a symbol, and its length.
    pub fn code(&self, symbol: u8) -> Option<(u16, u8)> {
        let (code, len) = self.codes[usize::from(symbol)];
        (len > 0).then_some((code, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_both_ways() {
        let mut table = Table { counts: [0; LEN_MAX], symbols: (0..30).rev().collect() };
        // Short ones, long ones, and room that is left.
        for (len, count) in [(2, 2), (3, 2), (8, 5), (9, 3), (10, 8), (16, 10)] {
            table.counts[len - 1] = count;
        }
        let codes = Codes::new(&table).unwrap();
        for symbol in 0..30 {
            let (code, len) = codes.code(symbol).unwrap();
            let more = LEN_MAX as u32 - u32::from(len);
            for rest in [0, (1 << more) - 1] {
                let bits = u32::from(code) << more | rest;
                assert_eq!(codes.find(bits), Some((symbol, len.into())), "{symbol}");
            }
        }
        assert_eq!((codes.code(30), codes.find(0xffff)), (None, None));
    }

    #[test]
    fn tables_that_are_none_are_refused() {
        let mut table = Table::suggested(1).unwrap();
        assert!(Codes::new(&table).is_some());
        table.symbols[3] = table.symbols[4];
        assert!(Codes::new(&table).is_none(), "two codes for one symbol");
        let mut table = Table::suggested(0).unwrap();
        table.counts[0] = 3;
        table.symbols.extend([20, 21, 22]);
        assert!(Codes::new(&table).is_none(), "more than there can be");
        table.symbols.pop();
        assert!(Codes::new(&table).is_none(), "counts and symbols differ");
        assert!(Table::suggested(Table::SUGGESTED).is_none());
        for number in 0..Table::SUGGESTED {
            assert!(Codes::new(&Table::suggested(number).unwrap()).is_some(), "{number}");
        }
    }
}
