//! Units in blocks with those that are like them, and what these blocks share.
//!
//! Above: the end of all bytes, in `data`. Below: `order`, `groups`, `trial`. Invariant: every unit of what is drawn
//! gets one place.

use std::io::Write;
use std::sync::Arc;

use esker_stone::Shared;

use super::{Data, Result};
use crate::pack::Sharing;
use crate::pack::ahead::Ahead;
use crate::pack::alike::Like;
use crate::pack::category::Category;
use crate::pack::explain::{Choice, GroupUse, Tried};
use crate::pack::groups::{Group, covered, groups};
use crate::pack::order::grown;
use crate::pack::telling;
use crate::pack::trial::Trial;
use crate::pack::units::UnitId;

/// A group that is placed next.
struct Looked<'a> {
    group: &'a Group<'a>,
    /// Bytes of its rest that are in its base too.
    covered: u64,
    /// Whether it has a base is being tried.
    trial: Option<Ahead<Trial>>,
}

impl<W: Write> Data<W> {
    /// Gives all units their places, like beside like; what is of another category comes last, in its order.
    pub(super) fn place_alike(&mut self) -> Result<()> {
        let (likes, all) = (self.units.likes(), 0..self.units.count() as UnitId);
        self.choices.alike = Some(likes.len() as u64);
        let mut places = vec![(0, 0); self.units.count()];
        let is_there = |drawn: &Category| {
            self.owns.is_drawn(*drawn)
                && all.clone().any(|unit| self.units.category(unit) == *drawn)
        };
        for category in Category::DRAWN.into_iter().filter(is_there).collect::<Vec<_>>() {
            self.place_drawn(category, &likes, &mut places)?;
        }
        drop(likes);
        // Sound of one shape comes together: blocks hold no other.
        let shape = |unit: &UnitId| match self.units.category(*unit) {
            Category::Sound(shape) => 1 + u32::from(shape.number()),
            _ => 0,
        };
        let mut others: Vec<_> =
            all.filter(|&unit| !self.owns.is_drawn(self.units.category(unit))).collect();
        others.sort_by_key(shape);
        for unit in others {
            places[unit as usize] = self.place(unit)?;
        }
        self.places = places;
        Ok(())
    }

    /// Gives all units of a category their places, like beside like.
    fn place_drawn(
        &mut self,
        category: Category,
        likes: &[Like],
        places: &mut [(u32, u32)],
    ) -> Result<()> {
        let len = |unit| {
            let (start, end) = self.units.range(unit);
            if self.units.category(unit) == category { (end - start) as u32 } else { 0 }
        };
        let lens: Vec<u32> = (0..self.units.count() as UnitId).map(len).collect();
        let block_len = self.owns.of(category).block_len.unwrap_or(self.block_len);
        let takes_base = self.owns.setting(category, self.setting).codec.takes_base();
        let sharing = self.sharing.filter(|_| takes_base);
        let near = sharing.map_or(0, Sharing::near).max(block_len);
        let order = grown(&lens, likes, near);
        let Some(sharing) = sharing else {
            return self.place_units(category, &[], &order, places);
        };
        let found = groups(&order, &lens, sharing, block_len);
        let mut coming = found.iter().zip(covered(&found, likes, &lens));
        let mut look = |own: &mut Self| {
            let next = coming.next();
            next.map(|(group, covered)| own.look_at(category, group, covered)).transpose()
        };
        let mut next = look(self)?;
        while let Some(looked) = next {
            let (group, based) = (looked.group, self.choose(category, looked)?);
            // Threads try the next one while this one is placed.
            next = look(self)?;
            match based {
                true => self.place_units(category, &group.base, &group.rest, places)?,
                false => self.place_units(category, &[], group.units, places)?,
            }
        }
        Ok(())
    }

    /// A group, which may have to be tried before it is placed.
    fn look_at<'a>(
        &self,
        category: Category,
        group: &'a Group<'a>,
        covered: u64,
    ) -> Result<Looked<'a>> {
        let is_common = Trial::is_clear(covered, self.len_of(&group.rest));
        if !group.could_share() || !Trial::is_of(category) || is_common {
            return Ok(Looked { group, covered, trial: None });
        }
        let lens = [false, true].map(|based| self.block_len_of(category, based));
        let mut trial = Trial::new(category, self.owns.setting(category, self.setting), lens);
        group.base.iter().try_for_each(|&unit| self.append(unit, &mut trial.base))?;
        for place in trial.places(group.rest.len()) {
            let mut sample = Vec::new();
            for &unit in &group.rest[place..] {
                if sample.len() + self.len_of(&[unit]) as usize > trial.sample_len() {
                    break;
                }
                self.append(unit, &mut sample)?;
            }
            trial.samples.push(sample);
        }
        let (trial, act) = trial.begin();
        self.pool.ahead(act)?;
        Ok(Looked { group, covered, trial: Some(trial) })
    }

    /// Whether a group has its base.
    fn choose(&mut self, category: Category, looked: Looked<'_>) -> Result<bool> {
        let Looked { group, covered, trial } = looked;
        if !group.could_share() {
            return Ok(false);
        }
        let (tried, choice) = match trial {
            Some(trial) => {
                let (tried, based) = trial.wait()?.end()?;
                (tried, Choice::Tried(based))
            }
            None if Trial::is_of(category) => (Tried::default(), Choice::Common),
            None => (Tried::default(), Choice::Short),
        };
        let own = GroupUse {
            category: Category::NAMES[category.number() as usize],
            choice,
            count: 1,
            bytes: self.len_of(group.units),
            base: self.len_of(&group.base),
            covered,
            tried,
        };
        let mut known = self.choices.groups.iter_mut();
        match known.find(|known| (known.category, known.choice) == (own.category, choice)) {
            Some(known) => known.join(&own),
            None => self.choices.groups.push(own),
        }
        Ok(choice != Choice::Tried(false))
    }

    /// Places what blocks share, if anything, and what these hold.
    fn place_units(
        &mut self,
        category: Category,
        base: &[UnitId],
        rest: &[UnitId],
        places: &mut [(u32, u32)],
    ) -> Result<()> {
        for &unit in base {
            places[unit as usize] = self.put(unit)?;
        }
        self.share(category)?;
        for &unit in rest {
            places[unit as usize] = self.place(unit)?;
        }
        self.close(category)?;
        self.shared = None;
        Ok(())
    }

    /// Bytes of units.
    fn len_of(&self, units: &[UnitId]) -> u64 {
        let len = |&unit: &UnitId| {
            let (start, end) = self.units.range(unit);
            end - start
        };
        units.iter().map(len).sum()
    }

    /// Puts the bytes of a unit behind others.
    fn append(&self, unit: UnitId, target: &mut Vec<u8>) -> Result<()> {
        let (start, end) = self.units.range(unit);
        Ok(self.spool.read_behind(start, (end - start) as usize, target)?)
    }

    /// Gives the block at hand to the pool as what those behind it may refer to.
    fn share(&mut self, category: Category) -> Result<()> {
        self.shared = None;
        let number = category.number() as usize;
        if self.open[number].plain.is_empty() {
            return Ok(());
        }
        let slot = self.pool.next_slot();
        let (base, own, telling) = telling::base(&self.open[number].plain, category);
        self.close_told(number, Some(own))?;
        self.telling = telling;
        let setting = self.owns.setting(category, self.setting);
        let shared = Shared::new(base, setting, category.search());
        self.shared = Some((slot, Arc::new(shared)));
        Ok(())
    }
}
