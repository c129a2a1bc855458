//! Volumes whose numbers are nonsense under checksums that are right: whoever opens, reads, checks or writes one gets
//! an answer. `ESKER_CASES` says how many are made of each shape.

use esker_proof::chance::Chance;
use esker_proof::cut::{History, SHAPES, Shape, goes_on};
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::ram::Ram;
use esker_proof::script::generate::Profile;
use esker_proof::told::print;
use esker_stone::Unsupported;
use esker_stone::cache::Cache;
use esker_stone::check::{Covered, checksum};
use esker_volume::device::Device as _;
use esker_volume::part::{PARITY, PartHead};
use esker_volume::recover::{Recovering, recover};
use esker_volume::{Damage, Error, Options, Superblock, make};

const PROFILE: Profile = Profile { steps_max: 30, users: true, cursors: false };

/// Where the numbers of a superblock end, and what is reserved begins.
const SUPERBLOCK_END: usize = 304;

/// Changes that are made to each volume, one at a time.
const OF_EACH: u64 = 50;

/// What can be changed: where it begins, where its numbers do and end.
type Target = (usize, std::ops::Range<usize>);

/// A volume that a script has left.
fn made(shape: &Shape, seed: u64) -> Vec<u8> {
    let history = History::run(shape, &sample(PROFILE, seed), seed, 3);
    let medium = history.medium(shape);
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(0, &mut bytes);
    bytes
}

/// The newest superblock and its copies, and all heads of parts.
fn targets(bytes: &[u8]) -> (Vec<Target>, Vec<Target>) {
    let (mut superblocks, mut heads) = (Vec::new(), Vec::new());
    let mut newest = 0;
    for at in (0..bytes.len()).step_by(512) {
        let here = &bytes[at..];
        if let Ok(found) = Superblock::parse(here)
            && found.generation >= newest
        {
            if found.generation > newest {
                superblocks.clear();
            }
            newest = found.generation;
            // Behind magic and version, up to what is reserved.
            superblocks.push((at, 12..SUPERBLOCK_END));
        } else if let Some(head) = PartHead::parse(here, &[7; 16])
            // There is much parity, and whoever opens a volume does not look at it.
            && (head.kind != PARITY || at.is_multiple_of(32 << 10))
        {
            heads.push((at, 32..160));
        }
    }
    (superblocks, heads)
}

/// A number that nobody expects.
fn absurd(chance: &mut Chance, old: u64) -> u64 {
    match chance.below(9) {
        0 => 0,
        1 => 1,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => old ^ (1 << chance.below(64)),
        5 => u64::MAX,
        6 => u64::MAX >> chance.below(64),
        7 => 1 << chance.below(64),
        _ => chance.number(),
    }
}

/// Changes a number there, and makes the checksum right again.
fn change(bytes: &mut [u8], (at, numbers): &Target, chance: &mut Chance) -> usize {
    let width = *chance.pick(&[4, 8]);
    let fields = (numbers.end - numbers.start) / width;
    let field = numbers.start + chance.below(fields as u64) as usize * width;
    let place = at + field..at + field + width;
    let mut old = [0; 8];
    old[..width].copy_from_slice(&bytes[place.clone()]);
    let new = absurd(chance, u64::from_le_bytes(old)).to_le_bytes();
    bytes[place].copy_from_slice(&new[..width]);
    let own = &mut bytes[*at..at + 512];
    if numbers.end == SUPERBLOCK_END {
        let sum = checksum(&own[..496]);
        own[496..504].copy_from_slice(&sum.to_le_bytes());
    } else {
        let number = |at: usize| own[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let covered = Covered { segment: number(32), number: number(40) };
        let sum = covered.checksum(0, &own[16..192]);
        own[8..16].copy_from_slice(&sum.to_le_bytes());
    }
    field
}

/// Asks everything of a volume; whether it opened.
fn ask(shape: &Shape, bytes: &[u8]) -> bool {
    let device = Ram::new(bytes.len());
    device.write(0, bytes).expect("it is as large");
    // Whatever is left of it.
    let options = Options::new(Cache::new(1 << 20));
    if let Ok((left, _)) = recover(&device, options, Recovering::default()) {
        let _ = print(&left);
    }
    let Ok(volume) = shape.open(&device, false) else { return false };
    let _ = print(&volume);
    let _ = volume.check();
    drop(volume);
    // That it says that something is wrong is as good as going on.
    let _ = goes_on(shape, &device);
    true
}

#[test]
fn numbers_that_make_no_sense_are_answered() {
    let cases = from_env("ESKER_CASES", 100);
    for shape in SHAPES.iter().filter(|shape| shape.zones.is_none()) {
        let (mut chance, mut whole) = (Chance::new(seed()), Vec::new());
        let (mut opened, mut refused) = (0, 0);
        for case in 0..cases {
            if case % OF_EACH == 0 {
                whole = made(shape, seed().wrapping_add(case / OF_EACH));
            }
            let mut bytes = whole.clone();
            let (superblocks, heads) = targets(&bytes);
            let some = if case % 2 == 0 || heads.is_empty() { &superblocks } else { &heads };
            let target = chance.pick(some).clone();
            if target.1.end == SUPERBLOCK_END {
                // A copy that is as it was would count instead.
                let copies = superblocks.iter().filter(|(at, _)| *at != target.0);
                copies.for_each(|&(copy, _)| bytes[copy..copy + 8].fill(0));
            }
            let field = change(&mut bytes, &target, &mut chance);
            println!("{}, case {case}: field {field} at {}", shape.name, target.0);
            if ask(shape, &bytes) { opened += 1 } else { refused += 1 }
        }
        println!("{}: {opened} opened, {refused} were refused", shape.name);
        assert!(opened > 0 && refused > 0);
    }
}

/// A snapshot that is newer than all that the superblock says is in its tables is none.
#[test]
fn a_snapshot_of_a_commit_to_come_is_refused() {
    let shape = &SHAPES[0];
    let device = Ram::new(shape.size as usize);
    make(&device, &shape.making()).expect("a volume");
    let volume = shape.open(&device, true).expect("it opens");
    volume.create_snapshot("one").expect("a snapshot");
    volume.create_snapshot("two").expect("a snapshot");
    drop(volume);
    let mut bytes = vec![0; shape.size as usize];
    device.read(0, &mut bytes).expect("bytes");
    let (newest, _) = targets(&bytes);
    let at = newest[0].0;
    let mut superblock = Superblock::parse(&bytes[at..]).expect("it is one");
    superblock.sequence -= 1;
    device.write(at as u64, &superblock.sealed()).expect("written");
    let opened = shape.open(&device, false).map(drop);
    assert_eq!(opened, Err(Error::Damaged(Damage::Snapshots)));
}

/// What a writer must know, and this one does not, keeps it from writing and nobody from reading.
#[test]
fn what_only_writers_must_know_can_be_read() {
    let shape = &SHAPES[0];
    let device = Ram::new(shape.size as usize);
    make(&device, &shape.making()).expect("a volume");
    let mut bytes = vec![0; shape.size as usize];
    device.read(0, &mut bytes).expect("bytes");
    let at = targets(&bytes).0[0].0;
    let mut superblock = Superblock::parse(&bytes[at..]).expect("it is one");
    superblock.read_compatible |= 1 << 40;
    device.write(at as u64, &superblock.sealed()).expect("written");
    shape.open(&device, false).expect("it can be read");
    let unsupported = esker_stone::Error::from(Unsupported::Writing(1 << 40));
    assert_eq!(shape.open(&device, true).map(drop), Err(Error::Stone(unsupported)));
}

/// A volume that was closed is opened without a look at what may lie behind its end, and what is written behind that
/// later is looked for as ever.
#[test]
fn what_was_closed_is_opened_with_a_glance() {
    let shape = SHAPES.iter().find(|shape| shape.name == "never settled").expect("a shape");
    let device = Ram::new(shape.size as usize);
    make(&device, &shape.making()).expect("a volume");
    let looked_at = || {
        let before = device.looked_at();
        drop(shape.open(&device, false).expect("it opens"));
        device.looked_at() - before
    };
    let (new, volume) = (looked_at(), shape.open(&device, true).expect("it opens"));
    volume.create_snapshot("one").expect("a snapshot");
    let open = looked_at();
    volume.close().expect("it closes");
    let closed = looked_at();
    assert!(open > 100_000 + closed && new > 100_000 + closed, "{new}, {open}, {closed}");
    volume.create_snapshot("two").expect("a snapshot");
    let again = looked_at();
    assert!(again > 100_000 + closed, "{again}");
    let shown = shape.open(&device, false).expect("it opens").snapshots().len();
    assert_eq!(shown, 2);
}
