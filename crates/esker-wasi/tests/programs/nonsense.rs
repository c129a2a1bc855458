//! A program that calls every function of WASI with nonsense: as many times as its first argument says, with chance
//! from its second. It may spoil itself by that, and nobody else.

#[cfg(target_os = "wasi")]
mod program {
    mod calls {
        macro_rules! imported {
            (
                guest { $($guest:ident($($g:ident: $gt:ty),*);)* }
                alone { $($alone:ident($($a:ident: $at:ty),*);)* }
            ) => {
                #[link(wasm_import_module = "wasi_snapshot_preview1")]
                unsafe extern "C" {
                    $(fn $guest($($g: $gt),*) -> i32;)*
                    $(fn $alone($($a: $at),*) -> i32;)*
                }

                pub const NAMES: &[&str] = &[$(stringify!($guest),)* $(stringify!($alone),)*];

                /// Calls one of them.
                pub fn call(which: usize, chance: &mut super::Chance) -> i32 {
                    let mut left = which;
                    // It may wait for ever; and what has ended, or has no rights any more, is good for nothing.
                    let ends = ["fd_close", "fd_renumber", "fd_fdstat_set_rights"];
                    let seldom = ends.contains(&NAMES[which]) && chance.next() % 64 != 0;
                    if NAMES[which] == "poll_oneoff" || seldom {
                        return 0;
                    }
                    $(
                        if left == 0 {
                            // SAFETY: it takes any numbers; what it does to this program nobody relies on.
                            return unsafe { $guest($(chance.number() as $gt),*) };
                        }
                        left -= 1;
                    )*
                    $(
                        if left == 0 {
                            // SAFETY: as above.
                            return unsafe { $alone($(chance.number() as $at),*) };
                        }
                        left -= 1;
                    )*
                    -1
                }
            };
        }
        esker_wasi::preview1!(imported);
    }

    /// Bytes of a page of memory.
    const PAGE: usize = 64 * 1024;
    /// The program is built with a stack of 32 MiB, which begins at its far end and gets nowhere near this one: the
    /// lowest addresses are for nonsense. No place and length of these together reach what the program needs.
    const PLACES: u64 = 1 << 20;
    const OWN: std::ops::Range<u64> = 1 << 24..1 << 26;

    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        /// Descriptors, places, lengths, and what is none of these.
        fn number(&mut self) -> u64 {
            let any = self.next();
            let number = match any % 12 {
                0..=2 => any >> 8 & 7,
                3..=6 => (any >> 8) % PLACES,
                7 => u64::MAX - (any >> 8 & 63),
                8 => u64::from(u32::MAX) - (any >> 8 & 63),
                9 => (core::arch::wasm32::memory_size::<0>() * PAGE) as u64 + (any >> 8 & 63),
                10 => 1 << (any >> 8 & 63),
                _ => any,
            };
            let place = number & u64::from(u32::MAX);
            if OWN.contains(&place) { place % PLACES } else { number }
        }
    }

    pub fn main() {
        let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>().unwrap());
        let (times, seed) = (numbers.next().unwrap(), numbers.next().unwrap());
        std::fs::create_dir_all("a/b").unwrap();
        std::fs::write("file", "bytes").unwrap();
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for done in 0..times {
            let at = 4096 + chance.next() % PLACES;
            for place in (at..at + 256).step_by(4) {
                let word = match chance.next() % 4 {
                    0 => *b"a/..",
                    1 => ((at + chance.next() % 256) as u32).to_le_bytes(),
                    2 => (chance.next() as u32 % 16).to_le_bytes(),
                    _ => (chance.number() as u32).to_le_bytes(),
                };
                // SAFETY: nobody else has these bytes: the stack gets nowhere near them.
                unsafe { (place as *mut [u8; 4]).write_unaligned(word) };
            }
            let which = chance.next() as usize % calls::NAMES.len();
            let answer = calls::call(which, &mut chance);
            assert!((0..=76).contains(&answer), "call {done}: {answer}");
        }
    }
}

#[cfg(target_os = "wasi")]
fn main() {
    program::main();
}

#[cfg(not(target_os = "wasi"))]
fn main() {}
