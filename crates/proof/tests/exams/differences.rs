//! How moments of a volume differ, against two walks through everything: names, content and attributes, whatever
//! scripts did between.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use esker::store::View;
use esker::{Attr, Cursor, Ino, Kind};
use esker_proof::chance::Chance;
use esker_proof::cut::SHAPES;
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::ram::Ram;
use esker_proof::script::generate::Profile;
use esker_proof::world::World as _;
use esker_proof::world::inside::Inside;
use esker_proof::world::on_volume::mount;
use esker_stone::check::checksum;
use esker_volume::{Changed, How, Moment, Row, Snapped, SnapshotError, make};

const PROFILE: Profile = Profile { steps_max: 60, users: true, cursors: false };

/// Something in a tree: what it is, its bytes, its extended attributes.
#[derive(Clone, PartialEq)]
struct Thing {
    attr: Attr,
    bytes: u64,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A name in a directory.
type Key = (Ino, Vec<u8>);

/// All names with their paths, and all that they lead to.
#[derive(Default)]
struct Walked {
    names: BTreeMap<Key, (Ino, Vec<u8>)>,
    things: BTreeMap<Ino, Thing>,
}

fn thing(view: &dyn View, ino: Ino) -> Thing {
    let attr = view.attr(ino).expect("attributes");
    let mut sum = 0;
    if matches!(attr.kind, Kind::File | Kind::Symlink) {
        let mut at = 0;
        while let Some(run) = view.next_data(ino, at).expect("data") {
            let mut place = run.start();
            while place < run.end() {
                let mut bytes = [0; 512];
                let wanted = (512 - place % 512).min(run.end() - place) as usize;
                let len = view.read(ino, place, &mut bytes[..wanted]).expect("bytes");
                if bytes[..len].iter().any(|&byte| byte != 0) {
                    let end = bytes[..len].iter().rposition(|&byte| byte != 0).unwrap_or(0) + 1;
                    let begin = bytes.iter().position(|&byte| byte != 0).unwrap_or(0);
                    let told = [&(place + begin as u64).to_le_bytes()[..], &bytes[begin..end]];
                    sum ^= checksum(&told.concat());
                }
                place += wanted as u64;
            }
            at = run.end();
        }
    }
    let mut xattrs = Vec::new();
    let mut each = |name: esker::XattrName<'_>| {
        xattrs.push((name.bytes().to_vec(), Vec::new()));
        ControlFlow::Continue(())
    };
    view.xattrs(ino, &mut each).expect("names");
    for (name, value) in &mut xattrs {
        let name = esker::XattrName::parse(name).expect("a name");
        view.xattr(ino, name, value).expect("a value");
    }
    Thing { attr, bytes: sum, xattrs }
}

fn walk(view: &dyn View) -> Walked {
    let mut walked = Walked::default();
    let mut todo = vec![(Ino::ROOT, Vec::new())];
    walked.things.insert(Ino::ROOT, thing(view, Ino::ROOT));
    while let Some((dir, path)) = todo.pop() {
        let mut found = Vec::new();
        let mut each = |listed: esker::store::Listed<'_>| {
            found.push((listed.name.bytes().to_vec(), listed.entry));
            ControlFlow::Continue(())
        };
        view.entries(dir, Cursor::START, false, &mut each).expect("a listing");
        for (name, entry) in found {
            let path = [&path[..], b"/", &name].concat();
            walked.things.entry(entry.ino).or_insert_with(|| thing(view, entry.ino));
            if entry.kind == Kind::Directory {
                todo.push((entry.ino, path.clone()));
            }
            walked.names.insert((dir, name), (entry.ino, path));
        }
    }
    walked
}

fn how(old: &Thing, new: &Thing) -> Option<How> {
    let (one, other) = (&old.attr, &new.attr);
    let content = |thing: &Thing| {
        let size = if thing.attr.kind == Kind::Directory { 0 } else { thing.attr.size };
        (size, thing.bytes, thing.attr.rdev)
    };
    let rights = |attr: &Attr| (attr.perm, attr.uid, attr.gid, attr.flags);
    if one.kind != other.kind {
        Some(How::Type)
    } else if content(old) != content(new) {
        Some(How::Content)
    } else if rights(one) != rights(other)
        || (one.kind != Kind::Directory && one.mtime != other.mtime)
        || old.xattrs != new.xattrs
    {
        Some(How::Attributes)
    } else {
        None
    }
}

/// What two walks say that changed.
fn wanted(old: &Walked, new: &Walked) -> Vec<Changed> {
    let mut all = Vec::new();
    let mut by_ino: BTreeMap<Ino, [Vec<Key>; 2]> = BTreeMap::new();
    for (at, (one, other)) in [(old, new), (new, old)].into_iter().enumerate() {
        for (key, (ino, _)) in &one.names {
            if other.names.get(key).map(|(ino, _)| ino) != Some(ino) {
                by_ino.entry(*ino).or_default()[at].push(key.clone());
            }
        }
    }
    let (mut gone, mut came) = (BTreeSet::new(), BTreeSet::new());
    for [before, after] in by_ino.into_values() {
        let both = before.len().min(after.len());
        for (one, other) in before.iter().zip(&after) {
            let how = How::Renamed(old.names[one].1.clone());
            all.push(Changed { path: new.names[other].1.clone(), how });
        }
        gone.extend(before.into_iter().skip(both));
        came.extend(after.into_iter().skip(both));
    }
    for key in &gone {
        let (ino, path) = old.names[key].clone();
        let change = match came.contains(key) {
            true => how(&old.things[&ino], &new.things[&new.names[key].0]),
            false => Some(How::Removed),
        };
        all.extend(change.map(|how| Changed { path, how }));
    }
    for key in came.difference(&gone) {
        all.push(Changed { path: new.names[key].1.clone(), how: How::Added });
    }
    let roots = [(Ino::ROOT, b"/".to_vec())];
    for (ino, path) in new.names.values().chain(&roots) {
        let was = old.things.get(ino);
        if let Some(how) = was.and_then(|was| how(was, &new.things[ino])) {
            all.push(Changed { path: path.clone(), how });
        }
    }
    all.sort();
    all
}

/// Any two snapshots, and each and the volume as it is, differ as walks through both do.
#[test]
fn moments_differ_as_walks_through_them() {
    let (mut told, mut ways) = (0, HashSet::new());
    for number in 0..from_env("ESKER_CASES", 60) {
        let seed = seed().wrapping_add(number);
        let shape = &SHAPES[number as usize % 4];
        let device = Arc::new(Ram::new(shape.size as usize));
        make(&device, &shape.making()).expect("a volume");
        let home = mount(shape, Arc::clone(&device)).expect("it opens");
        let mut inside = Inside::new("volume", home);
        let (script, mut chance, mut names) = (sample(PROFILE, seed), Chance::new(seed), vec![]);
        for step in &script.0 {
            inside.now();
            let _ = inside.run(step);
            if chance.below(12) == 0 {
                let name = format!("s{}", names.len());
                match inside.fs().store().create_snapshot(&name) {
                    Ok(()) => names.push(name),
                    Err(SnapshotError::NoRoom) => {}
                    Err(error) => panic!("{error}"),
                }
            } else if chance.below(4) == 0 {
                inside.fs().sync().expect("a sync");
            }
        }
        inside.fs().sync().expect("a sync");
        let volume = inside.fs().store().shared();
        let snapped = |name: &str| Snapped::new(Arc::clone(volume), name).expect("it is there");
        let mut moments: Vec<_> =
            names.iter().map(|name| (Moment::Snapshot(name), walk(&snapped(name)))).collect();
        moments.push((Moment::Now, walk(volume.as_ref())));
        for (at, (from, old)) in moments.iter().enumerate() {
            for (to, new) in moments.iter().skip(at) {
                let found = volume.changes((*from, *to)).expect("they are compared").all;
                assert_eq!(found, wanted(old, new), "{from:?}, {to:?}, seed {seed:#x}\n{script}");
                told += found.len();
                ways.extend(found.into_iter().map(|own| std::mem::discriminant(&own.how)));
            }
        }
    }
    println!("{told} differences");
    assert!(ways.len() >= 5, "not everything happened");
}

/// Rows that differ are told once, in the order of keys.
#[test]
fn rows_that_differ_are_all_that_do() {
    let shape = &SHAPES[0];
    let device = Arc::new(Ram::new(shape.size as usize));
    make(&device, &shape.making()).expect("a volume");
    let mut inside = Inside::new("volume", mount(shape, device).expect("it opens"));
    let scripts = (0..20).map(|number| sample(PROFILE, seed().wrapping_add(number)));
    let script = scripts.max_by_key(|script| script.0.len()).expect("there are some");
    for (number, step) in script.0.iter().enumerate() {
        inside.now();
        let _ = inside.run(step);
        if number == script.0.len() / 2 {
            inside.fs().store().create_snapshot("then").expect("a snapshot");
        }
    }
    inside.fs().sync().expect("a sync");
    let volume = inside.fs().store().volume();
    let (mut keys, mut kinds) = (Vec::new(), BTreeSet::new());
    let moments = (Moment::Snapshot("then"), Moment::Now);
    let mut each = |told: esker_volume::Difference| {
        assert_ne!(told.before, told.after);
        let key = [&told.before, &told.after].into_iter().flatten().map(Row::key).next();
        keys.extend(key);
        kinds.extend([&told.before, &told.after].into_iter().flatten().map(Row::kind));
        Ok(())
    };
    volume.differences(moments, &mut each).expect("they are compared");
    assert!(keys.is_sorted() && keys.len() > 3 && kinds.len() > 2, "{kinds:?}");
    let missing = (Moment::Snapshot("never"), Moment::Now);
    assert_eq!(volume.changes(missing), Err(SnapshotError::Missing));
    let same = volume.changes((Moment::Now, Moment::Now)).expect("they are compared");
    assert_eq!(same, esker_volume::Changes::default());
}
