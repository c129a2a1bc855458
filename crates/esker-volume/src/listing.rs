//! Listings: a directory's names in the order in which they came, found by looking at all of them, since tables have
//! them in the order of their bytes and no others. What was found is kept, for whoever lists a directory asks often.
//!
//! Above: `view`. Below: `stack`. Invariant: what is kept is told by the tables that it was found in, which are never
//! written over; what came since them is asked each time.

use std::collections::{VecDeque, btree_map};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use esker::Ino;
use esker_stone::key::{self, kind};
use esker_stone::rows::names::Named;
use esker_stone::rows::tables::TableRow;
use esker_stone::tree::Found;

use crate::device::Device;
use crate::error::{Damage, Result};
use crate::leaf::Leaf;
use crate::limits::{
    AGAIN_MAX, LEAVES_AT_ONCE, LEAVES_LEAST, LISTED, LISTED_LEAST, LISTED_LONG, LISTINGS,
    LISTINGS_MAX,
};
use crate::recent::Recent;
use crate::snapshots::place;
use crate::stack::Stack;
use crate::superblock::NAMES;
use crate::volume::Volume;

/// Where a name stands: in its directory's listing, and in the tables.
#[derive(Clone, Copy, Debug)]
struct Stood {
    seq: u64,
    leaf: u32,
    row: u32,
}

/// Names of a directory in the order of their places, of some places in a row.
#[derive(Debug)]
pub(crate) struct Listing {
    dir: Ino,
    /// The tables in which its names are.
    tables: Vec<(u64, u64)>,
    /// All places behind this one are here,
    after: u64,
    /// to this one.
    until: u64,
    leaves: Vec<Found>,
    names: Vec<Stood>,
}

impl Listing {
    /// A name that stands behind the first place. Of `most`, and as many again while they are looked for, those that
    /// come first are kept.
    fn add(&mut self, most: usize, (seq, row): (u64, usize)) {
        if seq <= self.after || seq > self.until {
            return;
        }
        let leaf = self.leaves.len() as u32 - 1;
        self.names.push(Stood { seq, leaf, row: row as u32 });
        if self.names.len() >= 2 * most {
            self.cut(most);
        }
    }

    /// Whether it is of this directory, as these tables have it.
    fn is_of(&self, dir: Ino, tables: &[(u64, u64)]) -> bool {
        self.dir == dir && self.tables == tables
    }

    /// Bytes that it takes, about.
    const fn bytes(&self) -> usize {
        self.names.len() * size_of::<Stood>() + self.leaves.len() * size_of::<Found>()
    }

    fn cut(&mut self, most: usize) {
        if self.names.len() > most {
            let (_, last, _) = self.names.select_nth_unstable_by_key(most - 1, |name| name.seq);
            self.until = last.seq;
            self.names.truncate(most);
        }
    }
}

/// A listing that is looked for, some leaves at a time: others may commit between.
#[derive(Debug, Default)]
pub(crate) struct Looking {
    found: Option<Half>,
    /// How often it was begun anew, since tables were laid elsewhere meanwhile.
    again: usize,
}

/// What was found so far.
#[derive(Debug)]
struct Half {
    listing: Listing,
    /// Where to go on: in which of its tables, behind how many entries. At first that is to be found by the key.
    at: Option<(usize, u64)>,
    /// The name that was looked at last.
    last: Vec<u8>,
}

impl Looking {
    /// What was found of this so far.
    fn of(&mut self, dir: Ino, tables: Vec<(u64, u64)>, after: u64) -> Half {
        if let Some(half) = self.found.take() {
            if half.listing.is_of(dir, &tables) && half.listing.after == after {
                return half;
            }
            self.again += 1;
        }
        let (leaves, names) = (Vec::new(), Vec::new());
        let listing = Listing { dir, tables, after, until: u64::MAX, leaves, names };
        Half { listing, at: None, last: Vec::new() }
    }

    /// How many leaves to look at before others may commit: all, if that is what always comes between.
    const fn leaves(&self) -> usize {
        if self.again < AGAIN_MAX { LEAVES_AT_ONCE } else { usize::MAX }
    }
}

impl Half {
    /// Adds the names of a leaf; whether others may follow.
    ///
    /// # Errors
    /// `Table` where leaves are not in the order of keys: so no page comes twice.
    fn add(&mut self, most: usize, (found, leaf): (&Found, &Leaf)) -> Result<bool> {
        let (own, first) = (&mut self.listing, self.at.is_none());
        let Leaf::Names(rows) = leaf else {
            let behind = leaf.kind() > kind::NAME;
            return if behind || first { Ok(!behind) } else { Err(Damage::Table.into()) };
        };
        let begin = rows.lower_bound(own.dir, &[]);
        let rises = || rows.dir(0) != Some(own.dir) || rows.name(0) > &self.last[..];
        if !first && (begin > 0 || !rises()) {
            return Err(Damage::Table.into());
        }
        own.leaves.push(found.clone());
        for row in begin..rows.len() {
            if rows.dir(row) != Some(own.dir) {
                return Ok(false);
            }
            own.add(most, (rows.seq(row), row));
            if row + 1 == rows.len() {
                self.last = rows.name(row).to_vec();
            }
        }
        Ok(true)
    }
}

/// What was found last, the newest first.
#[derive(Debug)]
pub(crate) struct Listings {
    kept: Mutex<VecDeque<Arc<Listing>>>,
    /// Names that are kept of one directory at most.
    pub most: usize,
}

impl Default for Listings {
    fn default() -> Self {
        Self { kept: Mutex::default(), most: LISTED }
    }
}

impl Listings {
    /// One that begins behind this place or before it.
    fn find(&self, dir: Ino, tables: &[(u64, u64)], after: u64) -> Option<Arc<Listing>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |own: &Arc<Listing>| (own.after..own.until).contains(&after);
        let is_it = |own: &Arc<Listing>| own.is_of(dir, tables) && has(own);
        let found = kept.iter().position(is_it).and_then(|at| kept.remove(at))?;
        kept.push_front(Arc::clone(&found));
        Some(found)
    }

    /// Keeps one, unless it is found again as quickly.
    fn keep(&self, listing: &Arc<Listing>) {
        if listing.names.len() <= LISTED_LEAST && listing.leaves.len() <= LEAVES_LEAST {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |own: &Listing| own.is_of(listing.dir, &listing.tables) && own.after == listing.after;
        kept.retain(|own| !is_same(own));
        kept.push_front(Arc::clone(listing));
        let mut bytes = 0;
        let fits = |own: &&Arc<Listing>| {
            bytes += own.bytes();
            bytes <= LISTINGS_MAX * self.most * size_of::<Stood>()
        };
        let count = kept.iter().take_while(fits).count();
        kept.truncate(count.clamp(1, LISTINGS));
    }
}

impl<D> Volume<D> {
    /// Whether places have rows of their own, as those who wrote it first look for them.
    pub(crate) const fn has_places(&self) -> bool {
        self.shape.incompatible & NAMES == 0
    }
}

type Came<'a> = Peekable<btree_map::Range<'a, (Ino, u64), Vec<u8>>>;

fn came(own: &Recent, dir: Ino, after: u64) -> Came<'_> {
    let behind = (Bound::Excluded((dir, after)), Bound::Included((dir, u64::MAX)));
    own.listed.range(behind).peekable()
}

/// Names of a directory behind a place, one after the other: those in tables, and what came since.
pub(crate) struct Behind<'a, D> {
    stack: &'a Stack<'a, D>,
    dir: Ino,
    /// The newest first.
    came: [Came<'a>; 2],
    below: Arc<Listing>,
    at: usize,
    /// The leaf that was looked into last.
    leaf: Option<(u32, Arc<Leaf>)>,
}

impl<'a, D: Device> Behind<'a, D> {
    /// `None`: ask again, with what was found, when others had their turn.
    pub fn new(
        stack: &'a Stack<'a, D>,
        (dir, after): (Ino, u64),
        looking: &mut Looking,
    ) -> Result<Option<Self>> {
        let Some(below) = stack.listing((dir, after), looking)? else { return Ok(None) };
        let came = stack.state.news().map(|own| came(own, dir, after));
        let at = below.names.partition_point(|name| name.seq <= after);
        Ok(Some(Self { stack, dir, came, below, at, leaf: None }))
    }

    /// The place behind which there is more to ask for when there is no next one; `None`: that was all.
    pub fn until(&self) -> Option<u64> {
        (self.below.until < u64::MAX).then_some(self.below.until)
    }

    /// The next one.
    pub fn next(&mut self) -> Result<Option<Named>> {
        loop {
            let below = self.below.names.get(self.at).copied();
            let [new, old] = self.came.each_mut().map(|own| own.peek().map(|((_, seq), _)| *seq));
            let all = [new, old, below.map(|own| own.seq)].into_iter().flatten();
            let Some(first) = all.min().filter(|&first| first <= self.below.until) else {
                return Ok(None);
            };
            let found = if new == Some(first) {
                self.news(0)
            } else if old == Some(first) {
                self.news(1)
            } else {
                self.at += 1;
                below.map(|own| self.settled(own)).transpose()?.flatten()
            };
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Whether one of so many that came says something else of a name.
    fn is_told(&self, news: usize, name: &[u8]) -> bool {
        let mut news = self.stack.state.news().into_iter().take(news);
        news.any(|own| !own.names.is_empty() && own.names.contains_key(&(self.dir, name.to_vec())))
    }

    /// What came next, unless something newer says otherwise.
    fn news(&mut self, which: usize) -> Option<Named> {
        let (_, name) = self.came.get_mut(which)?.next()?;
        if self.is_told(which, name) {
            return None;
        }
        self.stack.state.news().get(which)?.names.get(&(self.dir, name.clone())).cloned().flatten()
    }

    /// The same of what stands in tables.
    fn settled(&mut self, stood: Stood) -> Result<Option<Named>> {
        let leaf = match &self.leaf {
            Some((at, leaf)) if *at == stood.leaf => Arc::clone(leaf),
            _ => {
                self.stack.leaf(self.below.leaves.get(stood.leaf as usize).ok_or(Damage::Table)?)?
            }
        };
        self.leaf = Some((stood.leaf, Arc::clone(&leaf)));
        let Leaf::Names(rows) = &*leaf else { return Err(Damage::Table.into()) };
        let row = rows.row(stood.row as usize)?;
        Ok((!self.is_told(2, &row.name)).then_some(row))
    }
}

impl<D: Device> Stack<'_, D> {
    /// The tables in which names of a directory may be.
    fn tables_of(&self, dir: Ino) -> &[TableRow] {
        let behind = key::name(Ino(dir.0.saturating_add(1)), &[]);
        let (from, tables) = (key::name(dir, &[]), &self.state.tables);
        let first = tables.partition_point(|table| table.key <= from).saturating_sub(1);
        let end = tables.partition_point(|table| table.key < behind);
        tables.get(first..end).unwrap_or_default()
    }

    /// Names of a directory in tables, from the place behind `after` on, or from somewhere before it.
    fn listing(
        &self,
        (dir, after): (Ino, u64),
        looking: &mut Looking,
    ) -> Result<Option<Arc<Listing>>> {
        let (kept, tables) = (&self.volume.listings, self.tables_of(dir));
        let places: Vec<_> = tables.iter().map(place).collect();
        if let Some(found) = kept.find(dir, &places, after) {
            return Ok(Some(found));
        }
        let mut half = looking.of(dir, places, after);
        if !self.look_on(&mut half, tables, looking.leaves())? {
            looking.found = Some(half);
            return Ok(None);
        }
        let mut own = half.listing;
        own.cut(kept.most);
        own.names.sort_unstable_by_key(|name| name.seq);
        own.names.shrink_to_fit();
        let own = Arc::new(own);
        kept.keep(&own);
        Ok(Some(own))
    }

    /// Looks at so many leaves more; whether there are no others.
    fn look_on(&self, half: &mut Half, tables: &[TableRow], most: usize) -> Result<bool> {
        let from = key::name(half.listing.dir, &[]);
        for _ in 0..most {
            let (table, rank) = half.at.unwrap_or_default();
            let Some(own) = tables.get(table) else { return Ok(true) };
            let found = match half.at {
                None => Some(own.top.leaf_with_key(&from, self.volume)?),
                Some(_) => own.top.leaf_with_rank(rank, self.volume)?,
            };
            let Some(found) = found else {
                half.at = Some((table + 1, 0));
                continue;
            };
            if !half.add(self.volume.listings.most, (&found, &*self.leaf(&found)?))? {
                return Ok(true);
            }
            half.at = Some((table, found.before.saturating_add(found.entries.max(1))));
        }
        Ok(false)
    }

    /// Whether a directory has so many names in tables that looking at them takes long.
    fn is_long(&self, dir: Ino) -> Result<bool> {
        let tables = self.tables_of(dir);
        let behind = key::name(Ino(dir.0.saturating_add(1)), &[]);
        match tables {
            [] => Ok(false),
            [own] => {
                let [first, last] = [key::name(dir, &[]), behind]
                    .map(|key| own.top.leaf_with_key(&key, self.volume));
                Ok(last?.before.saturating_sub(first?.before) > LISTED_LONG)
            }
            _ => Ok(true),
        }
    }
}

impl<D: Device> Volume<D> {
    /// Finds the order of a long directory's names, so that it is there when it is asked for: here others commit
    /// between.
    pub(crate) fn look_at(&self, dir: Ino, after: u64) -> Result<()> {
        let look = |looking: &mut Looking| -> Result<bool> {
            let state = self.state();
            let stack = self.stack(&state);
            Ok(!stack.is_long(dir)? || stack.listing((dir, after), looking)?.is_some())
        };
        let mut looking = Looking::default();
        while !look(&mut looking)? {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use esker::store::Flow;
    use esker::{Cursor, Kind};
    use esker_stone::rows::inodes::Inode;

    use super::*;
    use crate::commit::{Sink, Source};
    use crate::merge::Row;
    use crate::planted::{Ram, attr, empty};
    use crate::rows::Numbers;
    use crate::view::list;

    const DIRS: [Ino; 3] = [Ino::ROOT, Ino(2), Ino(3)];
    const FILE: Ino = Ino(4);

    /// Numbers below others that look random.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % end
        }
    }

    /// Names of directories by their places, and what a commit does to them.
    #[derive(Default)]
    struct Model {
        names: BTreeMap<(Ino, u64), Vec<u8>>,
        next: u64,
        told: Vec<(Ino, Vec<u8>, Option<u64>)>,
    }

    impl Model {
        fn change(&mut self, dice: &mut Dice) {
            self.told.clear();
            for _ in 0..1 + dice.below(40) {
                let dir = DIRS[dice.below(3) as usize];
                let name = format!("name {}", dice.below(200)).into_bytes();
                if self.told.iter().any(|(own, told, _)| (*own, told) == (dir, &name)) {
                    continue;
                }
                let old = self.names.iter().find(|(at, own)| (at.0, *own) == (dir, &name));
                let old = old.map(|(&at, _)| at);
                old.map(|old| self.names.remove(&old));
                let place = (old.is_none() || dice.below(3) == 0).then_some(self.next);
                if let Some(place) = place {
                    self.names.insert((dir, place), name.clone());
                    self.next += 1;
                }
                self.told.push((dir, name, place));
            }
        }

        fn behind(&self, dir: Ino, after: u64) -> Vec<(u64, Vec<u8>)> {
            let all = self.names.iter().filter(|((own, place), _)| *own == dir && *place > after);
            all.map(|((_, place), name)| (*place, name.clone())).collect()
        }
    }

    impl Source for Model {
        fn tell(&self, to: &mut dyn Sink) -> Result<()> {
            let inode = |ino, attr| Inode { ino, attr, inline: Vec::new() };
            let files = self.names.len() as u32;
            to.inode(inode(FILE, attr(Kind::File, files, 0)));
            for dir in DIRS {
                let own = self.behind(dir, 0).len() as u64;
                to.inode(inode(dir, attr(Kind::Directory, 2, own)));
            }
            for (dir, name, place) in &self.told {
                match *place {
                    None => to.unname(*dir, name)?,
                    Some(seq) => to.name(Named {
                        dir: *dir,
                        name: name.clone(),
                        ino: FILE,
                        kind: Kind::File,
                        seq,
                    })?,
                }
            }
            to.numbers(Numbers { next_ino: 5, inodes: 4, next_place: self.next });
            Ok(())
        }
    }

    fn listed(volume: &Volume<Ram>, dir: Ino, after: u64) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        list(volume, dir, (Cursor(after), true), &mut |own| {
            assert_eq!(own.entry.ino, FILE);
            found.push((own.entry.seq.0, own.name.bytes().to_vec()));
            Flow::Continue(())
        })
        .expect("a listing");
        found
    }

    /// What tables have by places: of rows of names, and of rows of places.
    fn stored(volume: &Volume<Ram>) -> [BTreeMap<(Ino, u64), Vec<u8>>; 2] {
        let (mut all, state) = (Vec::new(), volume.state());
        for table in 0..state.tables.len() {
            let add = &mut |leaf: &Leaf| crate::merge::rows(leaf, &mut all);
            volume.stack(&state).leaves(table, add).expect("tables");
        }
        let [mut names, mut places] = [BTreeMap::new(), BTreeMap::new()];
        for row in all {
            match row {
                Row::Name(row) => drop(names.insert((row.dir, row.seq), row.name)),
                Row::Place(row) => drop(places.insert((row.dir, row.seq), row.name)),
                _ => {}
            }
        }
        [names, places]
    }

    fn settle(volume: &Volume<Ram>) {
        volume.settle_all(&mut volume.log()).expect("settled");
    }

    /// Whatever came when, and lies where, a directory is listed in the order in which its names came.
    fn goes_on(volume: &Volume<Ram>, model: &mut Model, dice: &mut Dice) {
        for _ in 0..80 {
            model.change(dice);
            volume.commit(model).expect("a commit");
            match dice.below(8) {
                0 => settle(volume),
                1 | 2 => volume.settle(&mut volume.log()).expect("a step"),
                _ => {}
            }
            for dir in DIRS {
                let after = dice.below(model.next + 3) * dice.below(2);
                assert_eq!(listed(volume, dir, after), model.behind(dir, after));
            }
        }
        settle(volume);
        assert_eq!(stored(volume)[0], model.names);
    }

    #[test]
    fn names_are_listed_in_the_order_in_which_they_came() {
        for most in [1, 3, 70, LISTED] {
            let (mut model, mut dice) = (Model { next: 1, ..Model::default() }, Dice(most as u64));
            let mut volume = empty(|made| made);
            volume.listings.most = most;
            goes_on(&volume, &mut model, &mut dice);
            assert!(most < LISTED || model.names.len() > 2 * LISTED_LEAST, "none is kept");
            assert_eq!(stored(&volume)[1], BTreeMap::new());
        }
    }

    /// A volume of an earlier version has the rows of places that this looks for, until it is upgraded.
    #[test]
    fn names_are_stored_twice_for_earlier_versions() {
        let (mut model, mut dice) = (Model { next: 1, ..Model::default() }, Dice(7));
        let mut volume = empty(|made| made & !NAMES);
        goes_on(&volume, &mut model, &mut dice);
        assert_eq!(stored(&volume)[1], model.names);
        let wanted = volume.lacks(None).expect("it may");
        assert!(wanted.names);
        volume.upgrade(wanted).expect("upgraded");
        assert!(!volume.lacks(None).expect("it may").names);
        goes_on(&volume, &mut model, &mut dice);
        assert_eq!(stored(&volume)[1], BTreeMap::new());
    }

    /// A directory of many names is looked at a little at a time; where what it lies in changes each time, at once.
    #[test]
    fn others_commit_while_names_are_looked_for() {
        let mut volume = empty(|made| made);
        volume.listings.most = 1000;
        let (mut model, mut dice) = (Model { next: 1, ..Model::default() }, Dice(1));
        for number in 0..12_000 {
            let (dir, name) = (Ino(2), format!("{:x}", dice.below(u64::MAX)).into_bytes());
            model.told.push((dir, [&name[..], &[b'-'; 60]].concat(), Some(number + 1)));
            model.names.insert((dir, number + 1), model.told[number as usize].1.clone());
            model.next = number + 2;
        }
        volume.commit(&model).expect("a commit");
        settle(&volume);
        let (mut looking, mut turns) = (Looking::default(), 0);
        let ask = |looking: &mut Looking| {
            let state = volume.state();
            let stack = volume.stack(&state);
            Behind::new(&stack, (Ino(2), 0), looking).expect("a listing").is_some()
        };
        while !ask(&mut looking) {
            turns += 1;
        }
        assert!(turns > 0, "{turns} turns");
        assert_eq!(listed(&volume, Ino(2), 7), model.behind(Ino(2), 7));
        // Each time tables lie elsewhere.
        (looking, turns) = (Looking::default(), 0);
        loop {
            model.told = vec![(Ino(2), format!("{turns}").into_bytes(), Some(model.next))];
            model.names.insert((Ino(2), model.next), model.told[0].1.clone());
            model.next += 1;
            volume.commit(&model).expect("a commit");
            settle(&volume);
            let state = volume.state();
            let stack = volume.stack(&state);
            if Behind::new(&stack, (Ino(2), 0), &mut looking).expect("a listing").is_some() {
                break;
            }
            turns += 1;
        }
        assert_eq!(turns, AGAIN_MAX);
        assert_eq!(listed(&volume, Ino(2), 0), model.behind(Ino(2), 0));
    }

    /// Pages come in the order of keys, or not at all: so no table is looked at for ever.
    #[test]
    fn pages_that_come_again_are_damage() {
        let volume = empty(|made| made);
        let (mut model, mut dice) = (Model { next: 1, ..Model::default() }, Dice(3));
        for _ in 0..20 {
            model.change(&mut dice);
            volume.commit(&model).expect("a commit");
        }
        settle(&volume);
        let state = volume.state();
        let (stack, dir) = (volume.stack(&state), DIRS[1]);
        let table = &state.tables[0];
        let names = table.top.leaf_with_key(&key::name(dir, &[]), &volume).expect("a table");
        let half = || Looking::default().of(dir, Vec::new(), 0);
        assert_eq!(stack.look_on(&mut half(), &state.tables[..1], 99), Ok(true));
        for before in [0, names.before] {
            let (mut again, twice) = (half(), [table.clone(), table.clone()]);
            again.add(LISTED, (&names, &stack.leaf(&names).expect("a leaf"))).expect("in order");
            again.at = Some((1, before));
            let found = stack.look_on(&mut again, &twice, 99);
            assert_eq!(found, Err(Damage::Table.into()), "behind {before} entries");
        }
    }

    /// What is kept is bounded by names, and by directories.
    #[test]
    fn listings_are_kept_within_bounds() {
        let listings = Listings { most: 100, ..Listings::default() };
        let listing = |dir, names| {
            let name = |row| Stood { seq: 1, leaf: 0, row };
            let names = (0..names).map(name).collect();
            let (leaves, tables, until) = (Vec::new(), vec![(1, 2)], u64::MAX);
            Arc::new(Listing { dir: Ino(dir), tables, after: 3, until, leaves, names })
        };
        let kept = |dir, after| listings.find(Ino(dir), &[(1, 2)], after).is_some();
        for dir in 1..=6 {
            listings.keep(&listing(dir, 90));
            listings.keep(&listing(dir, 90));
        }
        assert_eq!(
            [1, 2, 3, 4, 5, 6].map(|dir| kept(dir, 3)),
            [false, false, true, true, true, true]
        );
        assert!(!kept(4, 2) && listings.find(Ino(4), &[(1, 3)], 3).is_none());
        listings.keep(&listing(7, 64));
        assert!(!kept(7, 3), "few names are found again as quickly");
        listings.keep(&listing(8, 900));
        assert!(kept(8, 3) && !kept(6, 3), "the newest is kept, whatever its length");
    }
}
