//! Whether the blocks of a group have a base: what its units have in common says so, or a trial.
//!
//! Above: `data`. Below: `telling`, the codecs. Who reads a block decodes its base first, so a base that saves next to
//! nothing is none. Invariant: it depends on what is packed and on the options alone, and decides how bytes are stored,
//! never what they are.

use esker_stone::Setting;

use super::Result;
use super::ahead::{Act, Ahead};
use super::category::Category;
use super::explain::Tried;
use super::telling::{self, Telling};

/// Of so many bytes of a group one must be in its base too for it to have that untried.
const COVERED: u64 = 10;
/// How hard is tried: a level above shows the same differences, half as large, for many times the CPU; one below it
/// shows others.
const LEVEL: i32 = 12;
/// What is tried is one block, or as much of it as this.
const LEN_MAX: usize = 4 << 20;
/// Blocks that are shorter than this are tried from several places.
const LEN_MIN: usize = 1 << 20;
const PLACES: usize = 4;
/// What a base must save, one part in so many, where blocks on it are as long as those without: the slowest reads
/// decode twice as much for it.
const GAIN: u64 = 16;
/// The same of text: there is half as much to decode in words, and blocks of it are shorter on a base.
const GAIN_OF_TEXT: u64 = 80;

/// Blocks of a group, to be compressed with a base and without.
pub(super) struct Trial {
    category: Category,
    setting: Setting,
    /// The longest block that stands alone, and on a base.
    lens: [usize; 2],
    pub base: Vec<u8>,
    /// Bytes beside it, in blocks that stand alone.
    pub samples: Vec<Vec<u8>>,
    /// What came of it.
    tried: Result<Tried>,
}

impl Trial {
    /// That of blocks that are as long as this at most, alone and on a base.
    pub fn new(category: Category, setting: Setting, lens: [usize; 2]) -> Self {
        let tried = Ok(Tried::default());
        Self { category, setting, lens, base: Vec::new(), samples: Vec::new(), tried }
    }

    /// How long a sample is at most.
    pub fn sample_len(&self) -> usize {
        self.lens[0].min(LEN_MAX)
    }

    /// Where in so many units samples begin.
    pub fn places(&self, units: usize) -> impl Iterator<Item = usize> + use<> {
        let count = if self.lens[0] < LEN_MIN { PLACES } else { 1 };
        (0..count).map(move |place| units * (2 * place + 1) / (2 * count))
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
        let own = self.tried?;
        let gain = if self.category.is_told() { GAIN_OF_TEXT } else { GAIN };
        Ok((own, own.alone > 0 && own.based + own.alone / gain <= own.alone))
    }

    fn run(&self) -> Result<Tried> {
        let setting = within(self.setting);
        let (base, _, telling) = telling::base(&self.base, self.category);
        let own = if self.category.is_told() { Telling::Own } else { Telling::Plain };
        let stored = |bytes: &[u8], telling: &Telling, base: &[u8]| -> Result<u64> {
            let form = telling.form(bytes);
            let bytes = form.as_ref().map_or(bytes, |form| &form.bytes);
            Ok(setting.encode(bytes, base)?.1.len() as u64)
        };
        let mut tried = Tried::default();
        for sample in &self.samples {
            tried.plain += sample.len() as u64;
            tried.alone += stored(sample, &own, &[])?;
            for block in sample.chunks(self.lens[1].max(1)) {
                tried.based += stored(block, &telling, &base)?;
            }
        }
        Ok(tried)
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
        let lens = [3 << 20, category.block_len(3 << 20, true)];
        let mut trial = Trial::new(category, Setting::new(Codec::Zstd, 18), lens);
        (trial.base, trial.samples) = (base.into(), vec![sample.into()]);
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
        assert!(!tried(Category::Usual, &base, &[]).1);
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
    fn short_blocks_are_tried_in_several_places() {
        let setting = Setting::new(Codec::Zstd, 18);
        let of = |len, units| {
            let trial = Trial::new(Category::Usual, setting, [len; 2]);
            (trial.sample_len(), trial.places(units).collect::<Vec<_>>())
        };
        assert_eq!(of(3 << 20, 100), (3 << 20, vec![50]));
        assert_eq!(of(64 << 10, 100), (64 << 10, vec![12, 37, 62, 87]));
        assert_eq!(of(64 << 20, 1), (LEN_MAX, vec![0]));
    }

    #[test]
    fn what_has_much_in_common_is_not_tried() {
        assert!(Trial::is_clear(10, 100) && !Trial::is_clear(9, 100) && Trial::is_clear(0, 0));
        assert!(Trial::is_of(Category::Words) && !Trial::is_of(Category::TextWords));
    }
}
