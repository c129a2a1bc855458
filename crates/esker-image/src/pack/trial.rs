//! Whether the blocks of a group have a base: what its units have in common says so, or a trial.
//!
//! Above: `data`. Below: `telling`, the codecs. Who reads a block decodes its base first, so a base that saves next to
//! nothing is none. Invariant: it depends on the bytes of the group and on the options alone, and decides how bytes are
//! stored, never what they are.

use esker_stone::Setting;

use super::Result;
use super::ahead::{Act, Ahead};
use super::category::Category;
use super::explain::Tried;
use super::telling::{Telling, told};

/// Of so many bytes of a group one must be in its base too for it to have that untried.
const COVERED: u64 = 10;
/// How hard is tried: a level above shows the same differences, half as large, for many times the CPU; one below others.
const LEVEL: i32 = 12;
/// What a base must save, one part in so many, where blocks on it are as long as those without: the slowest reads
/// decode twice as much for it.
const GAIN: u64 = 16;
/// The same of text, of which blocks on a base are shorter.
const GAIN_OF_TEXT: u64 = 80;

/// A block of a group, to be compressed with a base and without.
pub(super) struct Trial {
    pub category: Category,
    pub setting: Setting,
    pub base: Vec<u8>,
    /// Bytes beside it, as many as a block may have that stands alone.
    pub sample: Vec<u8>,
    /// The longest block on a base.
    pub block_len: usize,
    /// What came of it.
    tried: Result<Tried>,
}

impl Trial {
    pub fn new(category: Category, setting: Setting) -> Self {
        let (base, sample) = (Vec::new(), Vec::new());
        let tried = Ok(Tried::default());
        Self { category, setting, base, sample, block_len: 0, tried }
    }

    /// Whether blocks of this category are tried. Those of text of streams lie on a base whatever it saves: what is
    /// made of them wants short ones.
    pub const fn is_of(category: Category) -> bool {
        !matches!(category, Category::Text | Category::TextWords)
    }

    /// Whether a group has so much in common with its base that it needs no trial.
    pub const fn is_clear(covered: u64, rest: u64) -> bool {
        covered * COVERED >= rest
    }

    /// Bytes of memory that one takes, in about.
    #[cfg(test)]
    pub fn memory(setting: Setting, block_len: usize, base_len: usize) -> u64 {
        within(setting).encoding_memory(block_len + base_len) + (block_len + base_len) as u64
    }

    /// The trial, and what a thread is to do for it.
    pub fn begin(self) -> (Ahead<Self>, Act) {
        Ahead::new(self, |trial| trial.tried = trial.run())
    }

    /// What came of it, and whether the group has a base.
    pub fn end(self) -> Result<(Tried, bool)> {
        let tried = self.tried?;
        let gain = if self.category.is_told() { GAIN_OF_TEXT } else { GAIN };
        Ok((tried, tried.based + tried.alone / gain <= tried.alone))
    }

    fn run(&mut self) -> Result<Tried> {
        let (plain, setting) = (std::mem::take(&mut self.base), within(self.setting));
        let Self { sample, category, block_len, .. } = &*self;
        let own = if category.is_told() { Telling::Own.form(sample) } else { None };
        let own = own.as_ref().map_or(sample, |form| &form.bytes);
        let alone = setting.encode(own, &[])?.1.len() as u64;
        let (base, telling) = match category.is_told().then(|| told(&plain)).flatten() {
            Some((known, form)) => (form.bytes, Telling::By(known.into())),
            None => (plain, Telling::Plain),
        };
        let mut based = 0;
        for block in sample.chunks((*block_len).max(1)) {
            let form = telling.form(block);
            let bytes = form.as_ref().map_or(block, |form| &form.bytes);
            based += setting.encode(bytes, &base)?.1.len() as u64;
        }
        Ok(Tried { plain: sample.len() as u64, alone, based })
    }
}

fn within(setting: Setting) -> Setting {
    Setting::new(setting.codec, setting.level.min(LEVEL))
}

#[cfg(test)]
mod tests {
    use esker_stone::Codec;

    use super::*;

    /// Bytes that look like programs: words of few kinds in an order of chance.
    fn bytes(seed: u32, len: u32) -> Vec<u8> {
        let word = |at: u32| {
            let mixed = (at ^ seed).wrapping_mul(0x9e37_79b9);
            (mixed >> 20).wrapping_mul(0x85eb_ca6b).to_le_bytes()
        };
        (0..len / 4).flat_map(word).collect()
    }

    fn tried(category: Category, base: &[u8], sample: &[u8]) -> (Tried, bool) {
        let mut trial = Trial::new(category, Setting::new(Codec::Zstd, 18));
        (trial.base, trial.sample, trial.block_len) = (base.into(), sample.into(), 1 << 20);
        let (ahead, act) = trial.begin();
        std::thread::spawn(act).join().unwrap();
        ahead.wait().unwrap().end().unwrap()
    }

    #[test]
    fn a_base_is_had_by_what_it_makes_smaller() {
        let base = bytes(1, 200_000);
        let like = [&base[90_000..], &bytes(77, 90_000)].concat();
        let (own, based) = tried(Category::Usual, &base, &like);
        assert!(based && own.based < own.alone * 3 / 4 && own.plain == 200_000, "{own:?}");
        let other: Vec<u8> = bytes(77, 200_000).iter().map(|byte| byte ^ 0x5a).collect();
        let (own, based) = tried(Category::Usual, &base, &other);
        assert!(!based && own.based > own.alone - own.alone / GAIN, "{own:?}");
        // Nothing to try it with.
        assert!(tried(Category::Usual, &base, &[]).1);
    }

    #[test]
    fn text_has_a_base_for_less() {
        let line = |at: u32| format!("\tdevice_register(driver, {});\n", at.wrapping_mul(at) >> 3);
        let text = |from: u32| (from..from + 8000).flat_map(|at| line(at).into_bytes());
        let (base, sample): (Vec<u8>, Vec<u8>) = (text(0).collect(), text(70_000).collect());
        let (own, based) = tried(Category::Words, &base, &sample);
        assert_eq!(based, own.based + own.alone / GAIN_OF_TEXT <= own.alone, "{own:?}");
        let (_, same) = tried(Category::Words, &base, &base);
        assert!(same);
    }

    #[test]
    fn what_has_much_in_common_is_not_tried() {
        assert!(Trial::is_clear(10, 100) && !Trial::is_clear(9, 100) && Trial::is_clear(0, 0));
        assert!(Trial::is_of(Category::Words) && !Trial::is_of(Category::TextWords));
    }
}
