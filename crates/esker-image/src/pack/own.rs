//! What is said of one kind of data in place of what is done with all.
//!
//! Above: `Options`. Below: `category`. Invariant: it decides how bytes are stored, and never what they are.

use esker_stone::Setting;

use super::Options;
use super::category::Category;

/// What is said of a category. Of what is not said, the level decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// How its blocks are compressed.
    pub setting: Option<Setting>,
    /// Plain bytes of a block of it, at most, but for one that holds a single unit.
    pub block_len: Option<usize>,
    /// Its bytes stay in the order in which they come, and its blocks stand alone.
    pub in_order: bool,
}

/// What is said of all categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owns([Own; Category::NAMES.len()]);

impl Owns {
    /// The names of what something can be said of, and the numbers of its categories.
    pub const NAMES: [(&str, &[usize]); 7] = [
        ("usual", &[0]),
        ("packed", &[1]),
        ("sound", &[2, 3, 7]),
        ("hot", &[5]),
        ("text", &[12]),
        ("streams", &[6, 13]),
        ("code", &[8, 9, 10, 11]),
    ];

    /// The name of what something can be said of that a category of this name is one of.
    #[must_use]
    pub fn name_of(category: &str) -> Option<&'static str> {
        let number = Category::NAMES.iter().position(|name| *name == category)?;
        let known = Self::NAMES.iter().find(|(_, numbers)| numbers.contains(&number));
        known.map(|(name, _)| *name)
    }

    /// Says something of all that has this name; `false`: nothing has.
    pub fn say(&mut self, name: &str, mut said: impl FnMut(&mut Own)) -> bool {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        let numbers = known.map_or(&[][..], |(_, numbers)| numbers);
        for &number in numbers {
            said(&mut self.0[number]);
        }
        known.is_some()
    }

    /// Whether something is said of what has this name.
    #[must_use]
    pub fn says(&self, name: &str) -> bool {
        let known = Self::NAMES.iter().filter(|(known, _)| *known == name);
        let mut numbers = known.flat_map(|(_, numbers)| *numbers);
        numbers.any(|&number| self.0[number] != Own::default())
    }

    /// The first of the names of which something is said that has no effect, and why.
    ///
    /// Options decide what kinds of data are told apart.
    #[must_use]
    pub fn in_vain(&self, options: &Options) -> Option<(&'static str, &'static str)> {
        let mut all = Self::NAMES.iter();
        all.find_map(|&(name, numbers)| Some((name, self.vain(options, name, numbers)?)))
    }

    fn vain(&self, options: &Options, name: &str, numbers: &[usize]) -> Option<&'static str> {
        let mut of = numbers.iter().map(|&number| &self.0[number]);
        if of.clone().all(|own| *own == Own::default()) {
            return None;
        }
        if !options.tells_apart(name) {
            return Some("with these options no data is taken for it");
        }
        let drawn = Category::DRAWN.map(|drawn| drawn.number() as usize);
        let is_drawn = options.alike && numbers.iter().any(|number| drawn.contains(number));
        let in_order = of.any(|own| own.in_order);
        (in_order && !is_drawn).then_some("it comes in that order anyway")
    }

    /// What is said of a category.
    pub(super) const fn of(&self, category: Category) -> &Own {
        &self.0[category.number() as usize]
    }

    /// How its blocks are compressed, where those of all are with `usual`.
    pub(super) fn setting(&self, category: Category, usual: Setting) -> Setting {
        self.of(category).setting.unwrap_or_else(|| category.setting(usual))
    }

    /// Whether like is drawn to like in it.
    pub(super) const fn is_drawn(&self, category: Category) -> bool {
        category.is_drawn() && !self.of(category).in_order
    }

    /// The longest block of any category where others have `usual`.
    pub(super) fn block_len_max(&self, usual: usize) -> usize {
        self.0.iter().filter_map(|own| own.block_len).fold(usual, usize::max)
    }

    /// The most memory that compressing so many bytes takes, where others are compressed with `usual`.
    pub(super) fn encoding_memory(&self, usual: Setting, len: usize) -> u64 {
        let settings = self.0.iter().filter_map(|own| own.setting);
        settings.map(|own| own.encoding_memory(len)).fold(usual.encoding_memory(len), u64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_effect_is_known() {
        let vain = |level: usize, name: &str, in_order: bool| {
            let mut options = Options::level(level, 1, 1 << 30);
            assert!(options.owns.say(name, |own| {
                own.in_order = in_order;
                own.block_len = Some(1 << 20).filter(|_| !in_order);
            }));
            options.owns.in_vain(&options).map(|(name, _)| name)
        };
        for (level, name, in_order) in [
            (6, "code", false),
            (3, "code", false),
            (3, "text", false),
            (4, "streams", false),
            (1, "sound", false),
            (6, "packed", true),
            (3, "usual", true),
        ] {
            assert_eq!(vain(level, name, in_order), Some(name), "{level}");
        }
        for (level, name, in_order) in [
            (4, "code", true),
            (7, "code", false),
            (6, "text", true),
            (6, "streams", false),
            (2, "sound", false),
            (0, "packed", false),
            (0, "usual", false),
            (6, "hot", false),
        ] {
            assert_eq!(vain(level, name, in_order), None, "{level} {name}");
        }
    }
}
