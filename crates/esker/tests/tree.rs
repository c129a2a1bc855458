//! The tree against `BTreeMap`, against pages that lie, and against pages that run out.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use esker::error::{Error, Result};
use esker::ground::{Budget, Lender};
use esker::limits::{KEY_LEN_MAX, PAGE_SIZE, VALUE_LEN_MAX};
use esker::tree::{
    Finger, HeapPages, NodeHeader, NodeSlot, Page, PageId, PageMut, Pages, Spot, Tree,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn heap() -> HeapPages {
    HeapPages::new(Arc::new(Budget::new(u64::MAX)))
}

/// Numbers that look random: xorshift64*.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// What the keys of a run look like.
#[derive(Clone, Copy, Debug)]
enum Taste {
    /// Inode, kind, and a short rest.
    Usual,
    /// A few letters, often prefixes of one another, some empty.
    Nested,
    /// Zeros and few ones: heads that are filled up must not be taken for longer keys.
    Zeros,
    /// As long as can be, different at the end.
    Long,
    /// Long shared prefixes, and now and then a key that has nothing of them.
    Outsiders,
}

const TASTES: [Taste; 5] =
    [Taste::Usual, Taste::Nested, Taste::Zeros, Taste::Long, Taste::Outsiders];

fn key(rng: &mut Rng, taste: Taste) -> Vec<u8> {
    match taste {
        Taste::Usual => {
            let mut key = (rng.below(20) as u64 * 300).to_be_bytes().to_vec();
            key.push(rng.below(4) as u8);
            let len = rng.below(12);
            key.extend(rng.bytes(len));
            key
        }
        Taste::Nested => vec![b'a'; rng.below(KEY_LEN_MAX + 1)],
        Taste::Zeros => (0..rng.below(12)).map(|_| u8::from(rng.below(4) == 0)).collect(),
        Taste::Long => {
            let mut key = vec![7; KEY_LEN_MAX];
            let at = rng.below(4) * 64;
            key[at] = rng.below(3) as u8;
            key[KEY_LEN_MAX - 2..].copy_from_slice(&(rng.below(3000) as u16).to_be_bytes());
            key
        }
        Taste::Outsiders => {
            let stem = [100, 101, 200][rng.below(3)];
            let mut key = vec![stem; if rng.below(8) == 0 { rng.below(255) } else { 250 }];
            let len = rng.below(4);
            key.extend(rng.bytes(len));
            if rng.below(50) == 0 {
                let at = rng.below(key.len() + 1);
                key.insert(at, rng.next() as u8);
            }
            key
        }
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(10) {
        0 => 0,
        1 => rng.below(VALUE_LEN_MAX + 1),
        2 => VALUE_LEN_MAX,
        _ => rng.below(40),
    };
    rng.bytes(len)
}

fn entries<P: Pages>(tree: &Tree<P>) -> Model {
    let mut found = Model::new();
    tree.scan(&[], |key, value| {
        assert!(found.last_key_value().is_none_or(|(last, _)| **last < *key), "order");
        found.insert(key.to_vec(), value.to_vec());
        Continue(())
    })
    .unwrap();
    found
}

/// One operation on both, with what they say compared.
fn step<P: Pages>(
    rng: &mut Rng,
    taste: Taste,
    growing: bool,
    tree: &mut Tree<P>,
    model: &mut Model,
) {
    let key = key(rng, taste);
    match rng.below(20) {
        0..=8 if growing => put(tree, model, key, value(rng)),
        0..=8 => assert_eq!(tree.remove(&key).unwrap(), model.remove(&key).is_some()),
        9 | 10 => put(tree, model, key, value(rng)),
        11 | 12 => assert_eq!(tree.remove(&key).unwrap(), model.remove(&key).is_some()),
        13 => {
            let edited = tree.edit(&key, |value| value.fill(5)).unwrap();
            assert_eq!(edited, model.get_mut(&key).map(|value| value.fill(5)));
        }
        14 | 15 => {
            let found = tree.floor(&key, |key, value| (key.to_vec(), value.to_vec())).unwrap();
            let expected = model.range(..=key).next_back();
            assert_eq!(found, expected.map(|(key, value)| (key.clone(), value.clone())));
        }
        16 => {
            let mut left = rng.below(300);
            let mut expected = model.range(key.clone()..);
            tree.scan(&key, |key, value| {
                let (expected_key, expected_value) = expected.next().unwrap();
                assert_eq!((key, value), (&**expected_key, &**expected_value));
                left = left.saturating_sub(1);
                if left == 0 { Break(()) } else { Continue(()) }
            })
            .unwrap();
            assert!(left == 0 || expected.next().is_none());
        }
        17 if rng.below(8) == 0 => remove_range(tree, model, &key, &self::key(rng, taste)),
        17 => {
            let to = [&*key, &[1]].concat();
            remove_range(tree, model, &key, &to);
        }
        _ => {
            let found = tree.get(&key, <[u8]>::to_vec).unwrap();
            assert_eq!(found.as_ref(), model.get(&key));
        }
    }
}

fn put<P: Pages>(tree: &mut Tree<P>, model: &mut Model, key: Vec<u8>, value: Vec<u8>) {
    tree.put(&key, &value).unwrap();
    model.insert(key, value);
}

fn remove_range<P: Pages>(tree: &mut Tree<P>, model: &mut Model, from: &[u8], to: &[u8]) {
    let mut told = Vec::new();
    let removed =
        tree.remove_range(from, to, |key, value| told.push((key.to_vec(), value.to_vec())));
    let expected: Vec<_> = if from < to {
        model
            .range::<[u8], _>((Included(from), Excluded(to)))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    } else {
        Vec::new()
    };
    assert_eq!(removed, Ok(expected.len()));
    assert!(told == expected);
    model.retain(|key, _| &**key < from || &**key >= to);
}

/// Names the seed of a run that panics.
struct Seed(u64, Taste);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, {:?}", self.0, self.1);
        }
    }
}

fn seeds(count: u64) -> impl Iterator<Item = Seed> {
    (0..count).flat_map(|seed| TASTES.map(|taste| Seed(seed, taste)))
}

#[test]
fn does_what_a_btreemap_does() {
    for seed in seeds(12) {
        let mut rng = Rng::new(seed.0);
        let (mut tree, mut model) = (Tree::new(heap()).unwrap(), Model::new());
        for round in 0..12 {
            let growing = rng.below(3) > 0;
            for _ in 0..rng.below(2000) {
                step(&mut rng, seed.1, growing, &mut tree, &mut model);
            }
            let census = tree.check().unwrap();
            assert_eq!(census.entries, model.len());
            assert_eq!(census.pages, tree.pages().used(), "round {round}");
            assert!(entries(&tree) == model);
        }
        remove_range(&mut tree, &mut model, &[], &[255; KEY_LEN_MAX]);
        assert_eq!(tree.pages().used(), 1);
    }
}

#[test]
fn refuses_what_is_too_long() {
    let mut tree = Tree::new(heap()).unwrap();
    assert_eq!(tree.put(&[0; KEY_LEN_MAX + 1], &[]), Err(Error::TooBig));
    assert_eq!(tree.put(&[], &[0; VALUE_LEN_MAX + 1]), Err(Error::TooBig));
    assert_eq!(tree.get(&[0; KEY_LEN_MAX + 1], |_| ()), Ok(None));
    assert_eq!(tree.remove(&[0; 5000]), Ok(false));
    assert_eq!(tree.check().unwrap().entries, 0);
}

#[test]
fn gives_back_every_page() {
    let budget = Arc::new(Budget::new(u64::MAX));
    for by_range in [false, true] {
        let mut tree = Tree::new(HeapPages::new(budget.clone())).unwrap();
        let mut rng = Rng::new(3);
        let mut keys: Vec<_> =
            (0..50_000u64).map(|number| (number * 7919 % 50_000).to_be_bytes()).collect();
        for key in &keys {
            tree.put(key, &[1; 20]).unwrap();
        }
        assert_eq!(budget.used(), tree.pages().bytes() as u64);
        if by_range {
            let removed = tree.remove_range(&1000u64.to_be_bytes(), &[255], |_, _| ()).unwrap();
            assert_eq!(removed, 49_000);
            assert!(tree.check().unwrap().pages < 16);
            keys.retain(|key| u64::from_be_bytes(*key) < 1000);
        }
        while !keys.is_empty() {
            let key = keys.swap_remove(rng.below(keys.len()));
            assert_eq!(tree.remove(&key), Ok(true));
            if keys.len() % 10_000 == 0 {
                let census = tree.check().unwrap();
                assert_eq!(census.pages, tree.pages().used());
                assert!(census.bytes * 5 >= (census.pages - 1) * PAGE_SIZE, "{census:?}");
            }
        }
        assert_eq!((tree.pages().used(), tree.pages().bytes()), (1, budget.used() as usize));
        tree.pages_mut().keep(0);
        assert_eq!((tree.pages().bytes(), budget.used()), (PAGE_SIZE, PAGE_SIZE as u64));
        drop(tree);
        assert_eq!(budget.used(), 0);
    }
}

/// Bytes of the tree that say something, in percent.
fn fill<P: Pages>(tree: &Tree<P>) -> usize {
    let census = tree.check().unwrap();
    census.bytes * 100 / (census.pages * PAGE_SIZE)
}

#[test]
fn ascending_keys_leave_full_pages() {
    let key = |ino: u64, number: u64| [ino.to_be_bytes(), number.to_be_bytes()].concat();
    let mut tree = Tree::new(heap()).unwrap();
    for number in 0..100_000 {
        tree.put(&key(number >> 5, number), &[3; 12]).unwrap();
    }
    assert!(fill(&tree) >= 95, "{} %", fill(&tree));
    // In the middle of the tree.
    for number in 0..100_000 {
        tree.put(&key(1000, 32_768 + number), &[3; 12]).unwrap();
    }
    assert!(fill(&tree) >= 95, "{} %", fill(&tree));
    for number in 0..100_000 {
        tree.put(&key(number % 1000, number + (1 << 30)), &[3; 12]).unwrap();
    }
    assert!(fill(&tree) >= 60, "{} %", fill(&tree));
}

/// Pages of which there are no more than were reserved.
struct Scarce {
    heap: HeapPages,
    left: usize,
}

impl Pages for Scarce {
    type Ref<'a> = &'a Page;

    fn get(&self, id: PageId) -> Result<&Page> {
        self.heap.get(id)
    }

    fn edit(&mut self, id: PageId) -> Result<PageMut<'_>> {
        self.heap.edit(id)
    }

    fn allocate(&mut self) -> Result<PageId> {
        self.left = self.left.checked_sub(1).ok_or(Error::NoSpace)?;
        self.heap.allocate()
    }

    fn free(&mut self, id: PageId) {
        self.left += 1;
        self.heap.free(id);
    }

    fn reserve(&mut self, count: usize) -> Result<()> {
        self.left = count;
        Ok(())
    }
}

#[test]
fn reserved_puts_do_not_fail() {
    for seed in seeds(6) {
        let mut rng = Rng::new(seed.0);
        let mut tree = Tree::new(Scarce { heap: heap(), left: 1 }).unwrap();
        let mut model = Model::new();
        for _ in 0..1500 {
            let puts = rng.below(9);
            tree.reserve_puts(puts).unwrap();
            for _ in 0..puts {
                put(&mut tree, &mut model, key(&mut rng, seed.1), value(&mut rng));
                if rng.below(3) == 0 {
                    let key = key(&mut rng, seed.1);
                    assert_eq!(tree.remove(&key).unwrap(), model.remove(&key).is_some());
                }
            }
        }
        assert!(entries(&tree) == model);
        tree.check().unwrap();
        let puts = 3000;
        tree.reserve_puts(puts).unwrap();
        for _ in 0..puts {
            put(&mut tree, &mut model, key(&mut rng, seed.1), value(&mut rng));
        }
        tree.check().unwrap();
    }
}

#[test]
fn a_put_without_space_changes_nothing() {
    for seed in seeds(4) {
        let mut rng = Rng::new(seed.0);
        let mut tree = Tree::new(Scarce { heap: heap(), left: 1 }).unwrap();
        let (mut model, mut refused) = (Model::new(), 0);
        for round in 0..4000 {
            tree.pages_mut().left = rng.below(3);
            let (key, value) = (key(&mut rng, seed.1), value(&mut rng));
            let used = tree.pages().heap.used();
            match tree.put(&key, &value) {
                Ok(()) => drop(model.insert(key, value)),
                Err(error) => {
                    assert_eq!(error, Error::NoSpace);
                    assert_eq!(tree.pages().heap.used(), used);
                    refused += 1;
                }
            }
            if round % 100 == 0 {
                tree.check().unwrap();
                assert!(entries(&tree) == model);
            }
        }
        assert!(refused > 0);
    }
}

/// Every operation, whatever comes of it.
fn try_everything(rng: &mut Rng, taste: Taste, tree: &mut Tree<HeapPages>) {
    let mut steps = 0;
    let _ = tree.check();
    let _ = tree.scan(&[], |_, _| {
        steps += 1;
        assert!(steps < 1_000_000, "an endless scan");
        Continue(())
    });
    for _ in 0..60 {
        let (key, to) = (key(rng, taste), key(rng, taste));
        let _ = tree.get(&key, |value| value.len());
        let _ = tree.floor(&key, |key, value| key.len() + value.len());
        let _ = tree.edit(&key, |value| value.fill(1));
        let _ = tree.scan(&key, |_, _| if rng.below(50) == 0 { Break(()) } else { Continue(()) });
        let _ = tree.put(&key, &value(rng));
        let _ = tree.remove(&to);
        if rng.below(10) == 0 {
            let _ = tree.remove_range(&key, &to, |_, _| ());
        }
    }
    let _ = tree.remove_range(&[], &[255; 9], |_, _| ());
}

#[test]
fn hostile_pages_neither_panic_nor_loop() {
    for seed in seeds(60) {
        let mut rng = Rng::new(seed.0 + 1000);
        let mut tree = Tree::new(heap()).unwrap();
        for _ in 0..rng.below(2000) {
            tree.put(&key(&mut rng, seed.1), &value(&mut rng)).unwrap();
        }
        let ids: Vec<_> = (0..tree.pages().used() as u32).map(PageId).collect();
        for _ in 0..=rng.below(6) {
            let id = ids[rng.below(ids.len())];
            let other = *tree.pages().get(ids[rng.below(ids.len())]).unwrap();
            let noise = rng.bytes(PAGE_SIZE);
            let mut page = tree.pages_mut().edit(id).unwrap();
            let page = page.part(0..PAGE_SIZE).unwrap();
            match rng.below(10) {
                // A page in another's place: the same page twice, a leaf as its own parent.
                0 => page.copy_from_slice(&other),
                1 => page.copy_from_slice(&noise),
                2 => page.fill(if rng.below(2) == 0 { 0 } else { 255 }),
                // A sound header over noise.
                3 => page[NodeHeader::SIZE..].copy_from_slice(&noise[NodeHeader::SIZE..]),
                // Where it hurts: the header and the first slots.
                4..=7 => {
                    for _ in 0..=rng.below(4) {
                        let end = NodeHeader::SIZE + 20 * NodeSlot::SIZE;
                        page[rng.below(end)] ^= 1 << rng.below(8);
                    }
                }
                _ => page[rng.below(PAGE_SIZE)] = rng.next() as u8,
            }
        }
        try_everything(&mut rng, seed.1, &mut tree);
    }
}

#[test]
fn check_sees_damage() {
    let mut rng = Rng::new(5);
    let (mut seen, rounds) = (0, 400);
    for _ in 0..rounds {
        let mut tree = Tree::new(heap()).unwrap();
        for _ in 0..200 {
            tree.put(&key(&mut rng, Taste::Usual), &[]).unwrap();
        }
        let id = PageId(rng.below(tree.pages().used()) as u32);
        let at = rng.below(NodeHeader::SIZE + 10 * NodeSlot::SIZE);
        tree.pages_mut().edit(id).unwrap().part(at..at + 1).unwrap()[0] ^= 1 << rng.below(8);
        seen += usize::from(tree.check() == Err(Error::Corrupt));
    }
    // A flipped bit may make another sound key.
    assert!(seen >= rounds * 3 / 4, "{seen}");
}

#[test]
fn pages_come_and_go() {
    const PAGE: u64 = PAGE_SIZE as u64;
    let budget = Arc::new(Budget::new(3 * PAGE + 1));
    let mut pages = HeapPages::new(budget.clone());
    let ids: Vec<_> = (0..3).map(|_| pages.allocate().unwrap()).collect();
    assert_eq!(pages.allocate(), Err(Error::NoSpace));
    assert_eq!(pages.reserve(1), Err(Error::NoSpace));
    pages.overdraft(true);
    pages.reserve(2).unwrap();
    assert_eq!(budget.used(), 5 * PAGE);
    pages.overdraft(false);
    pages.keep(0);
    assert_eq!(budget.used(), 3 * PAGE);
    // What is freed and freed again counts once.
    pages.free(ids[1]);
    assert_eq!((pages.bytes(), pages.used(), pages.spare()), (3 * PAGE_SIZE, 2, 1));
    pages.keep(0);
    assert_eq!((pages.bytes(), pages.used()), (2 * PAGE_SIZE, 2));
    assert_eq!(pages.get(ids[1]), Err(Error::Corrupt));
    assert_eq!(pages.edit(PageId(u32::MAX)).err(), Some(Error::Corrupt));
    // A vacant number comes before a new one.
    assert_eq!(pages.allocate(), Ok(ids[1]));
    // What is freed stays at hand until it is given back: those of the lowest numbers longest.
    pages.free(ids[0]);
    pages.reserve(1).unwrap();
    assert_eq!((budget.used(), pages.spare()), (3 * PAGE, 1));
    assert_eq!(pages.allocate(), Ok(ids[0]));
    pages.free(ids[2]);
    pages.free(ids[1]);
    pages.keep(1);
    assert_eq!((budget.used(), pages.spare()), (2 * PAGE, 1));
    assert_eq!(pages.allocate(), Ok(ids[1]));
    drop(pages);
    assert_eq!(budget.used(), 0);
}

/// Spoils what it takes back, and counts its bytes.
#[derive(Debug)]
struct Spoiler(AtomicUsize);

impl Lender for Spoiler {
    fn huge(&self, _: *const u8, _: usize, _: bool) {}

    fn release(&self, pieces: &mut dyn Iterator<Item = &mut [u8]>) {
        for bytes in pieces {
            bytes.fill(0xa5);
            self.0.fetch_add(bytes.len(), Relaxed);
        }
    }
}

/// A tree that lies in slabs, which shrinks and grows again.
#[test]
fn slabs_are_as_good_as_single_pages() {
    static LENDER: Spoiler = Spoiler(AtomicUsize::new(0));
    const ENTRIES: u32 = 40_000;
    let budget = Arc::new(Budget::new(u64::MAX));
    let pages = HeapPages::with_lender(budget.clone(), Some(&LENDER));
    let mut tree = Tree::new(pages).unwrap();
    let key = |number: u32| (number.wrapping_mul(7919) % ENTRIES).to_be_bytes();
    for round in 0..2 {
        (0..ENTRIES).for_each(|number| tree.put(&key(number), &[round; 400]).unwrap());
        let full = tree.pages().bytes();
        assert_eq!((budget.used(), tree.check().unwrap().entries), (full as u64, ENTRIES as usize));
        assert!(tree.pages().used() > 4000, "most of it does not lie in slabs");
        let gone = (0..ENTRIES).filter(|number| number % 50 > 0);
        gone.for_each(|number| assert_eq!(tree.remove(&key(number)), Ok(true)));
        tree.pages_mut().keep(0);
        let (few, census) = (tree.pages().bytes(), tree.check().unwrap());
        assert_eq!((budget.used(), census.entries), (few as u64, ENTRIES as usize / 50));
        assert!(few < full / 10, "{few} {full}");
        assert!(LENDER.0.load(Relaxed) >= full / 4, "slabs give nothing back");
    }
    (0..ENTRIES).step_by(50).for_each(|number| assert_eq!(tree.remove(&key(number)), Ok(true)));
    assert_eq!(tree.pages().used(), 1);
    drop(tree);
    assert_eq!(budget.used(), 0);
}

/// Removes a key, from where it was seen or from a spot that may be wrong, and some of those behind it.
fn remove_in_order(
    tree: &mut Tree<HeapPages>,
    model: &mut Model,
    (finger, spot): (&mut Finger, Option<Spot>),
    key: Vec<u8>,
    rng: &mut Rng,
) {
    let found = tree.get_from(None, Spot::NONE, &key, |_| ()).unwrap();
    let spot = found.map(|(_, spot)| spot).filter(|_| rng.below(2) == 0).or(spot);
    let removed = tree.remove_from(spot, finger, &key).unwrap();
    assert_eq!(removed.is_some(), model.remove(&key).is_some());
    let behind: Vec<_> = model.range(key..).map(|(key, _)| key.clone()).take(3).collect();
    for key in behind.iter().take(rng.below(4)) {
        assert!(tree.remove_from(None, finger, key).unwrap().is_some());
        model.remove(key);
    }
}

/// Whatever leaf is asked first, the answer is the map's.
#[test]
fn fingers_only_save_steps() {
    for seed in seeds(8) {
        let mut rng = Rng::new(seed.0);
        let mut tree = Tree::new(heap()).unwrap();
        let mut model = Model::new();
        let mut fingers = [(); 3].map(|()| Finger::new());
        let mut spot = None;
        for round in 0..6000 {
            let finger = &mut fingers[rng.below(3)];
            let (mut key, value) = (key(&mut rng, seed.1), value(&mut rng));
            if rng.below(2) == 0 {
                // Close behind one that is there.
                let near = model.range(key.clone()..).next();
                key = near.map_or(key, |(near, _)| near.clone());
                if rng.below(2) == 0 && key.len() < KEY_LEN_MAX {
                    key.push(rng.next() as u8);
                }
            }
            match rng.below(if round < 4000 { 7 } else { 12 }) {
                0..=3 => {
                    let fresh = rng.below(2) == 0;
                    match tree.put_at(finger, &key, &value, fresh) {
                        Err(error) => assert!(fresh && model.contains_key(&key), "{error}"),
                        Ok(_) => {
                            let known = model.insert(key.clone(), value);
                            assert!(!fresh || known.is_none());
                            let (spot, gap) = (finger.spot(), finger.gap());
                            let put = tree.get_from(Some(spot), gap, &key, <[u8]>::to_vec);
                            assert_eq!(put.unwrap().map(|found| found.0).as_ref(), model.get(&key));
                        }
                    }
                }
                4 => {
                    let found = tree.get_at(finger, &key, <[u8]>::to_vec).unwrap().0;
                    assert_eq!(found.as_ref(), model.get(&key));
                }
                5 => {
                    let found = tree.get_from(spot, finger.gap(), &key, <[u8]>::to_vec).unwrap();
                    spot = found.as_ref().map(|(_, spot)| *spot).or(spot);
                    assert_eq!(found.map(|(value, _)| value).as_ref(), model.get(&key));
                }
                6 => {
                    let edited = tree.edit_from(spot, &key, |value| value.fill(7)).unwrap();
                    let known = model.get_mut(&key).map(|value| value.fill(7));
                    assert_eq!(edited, known);
                }
                7 => {
                    let mut to = key.clone();
                    to.push(u8::MAX);
                    let mut gone = Vec::new();
                    let each = &mut |key: &[u8], _: &[u8]| gone.push(key.to_vec());
                    tree.remove_range_at(spot, finger, &key, &to, Some(each)).unwrap();
                    let known: Vec<_> = model.range(key..to).map(|(key, _)| key.clone()).collect();
                    known.iter().for_each(|key| drop(model.remove(key)));
                    assert_eq!(gone, known);
                }
                _ => {
                    let spot = spot.filter(|_| rng.below(2) == 0);
                    remove_in_order(&mut tree, &mut model, (finger, spot), key, &mut rng);
                }
            }
        }
        assert!(entries(&tree) == model);
        tree.check().unwrap();
    }
}
