//! Scripts by chance: few names so that they collide, offsets where things break.
//!
//! Invariant: no path leads out of the root it starts from (`..` stands only behind a name, no target has one),
//! so a script can do no harm on a real directory.

use esker::{Kind, Time};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use super::words::{Octal, Path, Value, When};
use super::{How, Op, RenameHow, Script, Space, Step, User, XattrHow};

/// What a script may contain.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Steps, at most.
    pub steps_max: usize,
    /// Other users too, not only root.
    pub users: bool,
    /// Operations whose result only a home of ours has the same way (listing cursors).
    pub cursors: bool,
}

/// Slots for handles.
pub const SLOTS: u8 = 4;

/// Any script of this profile.
pub fn script(profile: Profile) -> impl Strategy<Value = Script> {
    let steps = vec(step(profile), 1..=profile.steps_max);
    (furniture(), steps).prop_map(|(mut furniture, steps)| {
        furniture.extend(steps);
        Script(furniture)
    })
}

/// What a script may find: most steps on an empty tree would only say that nothing is there.
fn furniture() -> impl Strategy<Value = Vec<Step>> {
    const STEPS: &str = "
        mkdir a 0777
        @ann mkdir b 0755
        mkdir a/b 01777
        mkdir a/b/c 0755
        @ann open 0 c read+write+create 0666
        open 1 a/c read+write+create 0644
        write 0 0 9000 1
        write 1 5000 300 2
        @ann open 2 b/a read+write+create 0640
        write 2 0 100 3
        link c b/c follow
        symlink a d
        symlink c a/d
        setxattr c user.a fill:20:1 any follow
        setxattr . user.a fill:520:1 any follow
        @ann setxattr b user.b fill:600:2 any follow
        @bob open 3 a/b/d read+write+create 0664
    ";
    let steps = STEPS.lines().filter(|line| !line.trim().is_empty());
    let steps: Vec<Step> = steps.filter_map(|line| line.parse().ok()).collect();
    let count = steps.len();
    // The tests see to it that all of them can be read.
    proptest::sample::subsequence(steps, 0..=count)
}

fn step(profile: Profile) -> impl Strategy<Value = Step> {
    let others = if profile.users { 1 } else { 0 };
    let user = prop_oneof![
        3 => Just(User::Root),
        2 * others => Just(User::Ann),
        others => Just(User::Bob),
        others => Just(User::Nobody),
    ];
    (user, op(profile)).prop_map(|(user, op)| Step { user, op })
}

fn op(profile: Profile) -> BoxedStrategy<Op> {
    let cursors = u32::from(profile.cursors);
    prop_oneof![
        16 => names(),
        8 => opening(),
        14 => bytes(),
        10 => attributes(profile.users),
        6 => xattrs(profile.users),
        6 => looking(),
        2 * cursors => (slot(), 0..4_u64).prop_map(|(slot, count)| Op::Next { slot, count }),
    ]
    .boxed()
}

fn slot() -> impl Strategy<Value = u8> {
    0..SLOTS
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => Just(b"a".to_vec()),
        20 => Just(b"b".to_vec()),
        12 => Just(b"c".to_vec()),
        6 => Just(b"d".to_vec()),
        1 => Just(b"\xff \n".to_vec()),
        1 => Just(vec![b'n'; 255]),
        1 => Just(vec![b'n'; 256]),
    ]
}

/// A few names deep; now and then with a dot, or up and down again.
fn path() -> impl Strategy<Value = Path> {
    let tail = prop_oneof![
        40 => Just(""),
        1 => Just("/."),
        1 => Just("/.."),
    ];
    let ups = prop_oneof![20 => Just(false), 1 => Just(true)];
    let depth = prop_oneof![6 => Just(1_usize), 4 => Just(2), 2 => Just(3)];
    let names = depth.prop_flat_map(|depth| vec(name(), depth));
    (names, ups, tail).prop_map(|(names, up, tail)| {
        let mut path = names.join(&b'/');
        if up {
            path = [b"a/..".to_vec(), path].join(&b'/');
        }
        path.extend(tail.as_bytes());
        Path(path)
    })
}

fn root_or_path() -> impl Strategy<Value = Path> {
    prop_oneof![1 => Just(Path(b".".to_vec())), 4 => path()]
}

fn target() -> impl Strategy<Value = Path> {
    prop_oneof![
        12 => vec(name(), 1..=2).prop_map(|names| Path(names.join(&b'/'))),
        1 => Just(Path(vec![b't'; 4095])),
        1 => Just(Path(Vec::new())),
    ]
}

fn mode() -> impl Strategy<Value = Octal> {
    prop_oneof![
        6 => select(vec![0o755, 0o644, 0o777, 0o666, 0o700, 0o1777, 0o2775, 0o4755, 0o2755, 0]),
        1 => 0..0o10000_u32,
    ]
    .prop_map(Octal)
}

fn follow() -> impl Strategy<Value = bool> {
    any::<bool>()
}

fn names() -> BoxedStrategy<Op> {
    let kinds = vec![Kind::File, Kind::Fifo, Kind::Socket, Kind::CharDevice, Kind::BlockDevice];
    let how = prop_oneof![
        4 => Just(RenameHow::default()),
        1 => Just(RenameHow { noreplace: true, ..Default::default() }),
        2 => Just(RenameHow { exchange: true, ..Default::default() }),
        1 => Just(RenameHow { whiteout: true, ..Default::default() }),
        1 => Just(RenameHow { noreplace: true, exchange: true, whiteout: false }),
    ];
    prop_oneof![
        5 => (path(), mode()).prop_map(|(path, mode)| Op::Mkdir { path, mode }),
        2 => (path(), select(kinds), mode(), select(vec![0, 0x103, 0xfff_fffff]))
            .prop_map(|(path, kind, mode, rdev)| Op::Mknod { path, kind, mode, rdev }),
        3 => (target(), path()).prop_map(|(target, path)| Op::Symlink { target, path }),
        3 => (path(), path(), follow())
            .prop_map(|(from, to, follow)| Op::Link { from, to, follow }),
        3 => path().prop_map(|path| Op::Unlink { path }),
        2 => path().prop_map(|path| Op::Rmdir { path }),
        7 => (path(), path(), how).prop_map(|(from, to, how)| Op::Rename { from, to, how }),
        1 => (slot(), path()).prop_map(|(slot, to)| Op::LinkSlot { slot, to }),
    ]
    .boxed()
}

fn how() -> impl Strategy<Value = How> {
    let rarely = || proptest::bool::weighted(0.1);
    let mode = select(vec![(true, true), (true, true), (true, false), (false, true)]);
    let create = proptest::bool::weighted(0.6);
    (mode, create, rarely(), rarely(), rarely(), rarely(), rarely()).prop_map(
        |((read, write), create, append, excl, trunc, directory, nofollow)| How {
            read,
            write,
            append,
            create: create && !directory,
            excl: excl && create && !directory,
            trunc,
            directory,
            nofollow,
        },
    )
}

fn opening() -> BoxedStrategy<Op> {
    let directory = How { read: true, directory: true, ..Default::default() };
    let tmpfile = How { read: true, write: true, ..Default::default() };
    prop_oneof![
        8 => (slot(), path(), how(), mode())
            .prop_map(|(slot, path, how, mode)| Op::Open { slot, path, how, mode }),
        1 => (slot(), root_or_path()).prop_map(move |(slot, path)| {
            Op::Open { slot, path, how: directory, mode: Octal(0) }
        }),
        1 => (slot(), root_or_path(), mode(), follow()).prop_map(move |(slot, dir, mode, excl)| {
            Op::Tmpfile { slot, dir, how: How { excl, ..tmpfile }, mode }
        }),
        1 => slot().prop_map(|slot| Op::Close { slot }),
    ]
    .boxed()
}

/// Offsets near the beginning, near the edges of pages and extents, and as far out as they go.
fn at() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..600_u64,
        4 => (0..40_u64, 0..7_u64).prop_map(|(page, by)| (page * 4096 + by).saturating_sub(3)),
        4 => 0..200_000_u64,
        1 => select(vec![(1 << 32) - 1, 1 << 40, 1 << 62, i64::MAX as u64 - 1, i64::MAX as u64]),
    ]
}

fn len() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        6 => 1..600_u64,
        4 => 1..20_000_u64,
        2 => (1..30_u64).prop_map(|pages| pages * 4096),
    ]
}

fn bytes() -> BoxedStrategy<Op> {
    let space =
        select(vec![Space::Reserve, Space::Keep, Space::Punch, Space::Zero, Space::ZeroKeep]);
    prop_oneof![
        8 => (slot(), at(), len(), 0..1000_u64)
            .prop_map(|(slot, at, len, seed)| Op::Write { slot, at, len, seed }),
        4 => (slot(), at(), len()).prop_map(|(slot, at, len)| Op::Read { slot, at, len }),
        3 => (slot(), at()).prop_map(|(slot, len)| Op::Ftruncate { slot, len }),
        4 => (slot(), space, at(), len())
            .prop_map(|(slot, how, at, len)| Op::Fallocate { slot, how, at, len }),
        4 => (slot(), at(), slot(), at(), len())
            .prop_map(|(source, from, slot, at, len)| Op::Copy { source, from, slot, at, len }),
        2 => (slot(), at()).prop_map(|(slot, at)| Op::Seek { slot, at }),
        1 => (path(), at()).prop_map(|(path, len)| Op::Truncate { path, len }),
        1 => slot().prop_map(|slot| Op::Fsync { slot }),
    ]
    .boxed()
}

/// All set times lie before 2001 or behind 2040, so that nobody takes them for the time of the test.
fn when() -> impl Strategy<Value = When> {
    let secs = select(vec![-2_000_000_000, -1, 0, 1, 1_000_000_000, 2_300_000_000, 5_000_000_000]);
    prop_oneof![
        1 => Just(When::Omit),
        1 => Just(When::Now),
        4 => (secs, select(vec![0, 1, 500_000_000, 999_999_999]))
            .prop_map(|(secs, nanos)| When::At(Time { secs, nanos })),
    ]
}

/// Owner and group, at least one of them (see docs/DIFFERENCES.md for neither).
fn ids() -> impl Strategy<Value = (u32, u32)> {
    let id = || select(vec![u32::MAX, 0, 1001, 1001, 1002, 2001, 65534]);
    (id(), id()).prop_map(|(uid, gid)| if uid == gid { (uid & 0xffff, gid) } else { (uid, gid) })
}

fn attributes(users: bool) -> BoxedStrategy<Op> {
    let owners = if users { 3 } else { 1 };
    prop_oneof![
        4 => (root_or_path(), mode()).prop_map(|(path, mode)| Op::Chmod { path, mode }),
        owners => (root_or_path(), ids(), follow())
            .prop_map(|(path, (uid, gid), follow)| Op::Chown { path, uid, gid, follow }),
        4 => (root_or_path(), when(), when(), follow())
            .prop_map(|(path, atime, mtime, follow)| Op::Utimes { path, atime, mtime, follow }),
        1 => (slot(), mode()).prop_map(|(slot, mode)| Op::Fchmod { slot, mode }),
        1 => (slot(), ids()).prop_map(|(slot, (uid, gid))| Op::Fchown { slot, uid, gid }),
        2 => (slot(), when(), when())
            .prop_map(|(slot, atime, mtime)| Op::Futimes { slot, atime, mtime }),
        1 => (path(), select(vec![0, 0x10, 0x20, 0x40, 0x80]))
            .prop_map(|(path, flags)| Op::Chattr { path, flags }),
        1 => select(vec![0, 0o22, 0o77, 0o777]).prop_map(|mask| Op::Umask { mask: Octal(mask) }),
    ]
    .boxed()
}

/// Mostly well-formed ACLs: owner, named users and groups, mask, others.
fn acl() -> impl Strategy<Value = Value> {
    const NO_ID: u32 = u32::MAX;
    let perm = || 0..8_u16;
    let user = weighted(0.6, (perm(), select(vec![1001_u32, 1002, 65534])));
    let group = weighted(0.4, (perm(), select(vec![1001_u32, 2001])));
    (perm(), user, perm(), group, weighted(0.9, perm()), perm()).prop_map(
        |(owner, user, own_group, group, mask, other)| {
            let mut entries = vec![(0x01, owner, NO_ID)];
            entries.extend(user.map(|(perm, id)| (0x02, perm, id)));
            entries.push((0x04, own_group, NO_ID));
            entries.extend(group.map(|(perm, id)| (0x08, perm, id)));
            entries.extend(mask.map(|perm| (0x10, perm, NO_ID)));
            entries.push((0x20, other, NO_ID));
            Value::Acl(entries)
        },
    )
}

fn xattr_name() -> impl Strategy<Value = Path> {
    let long = format!("user.{}", "n".repeat(250));
    select(vec![
        "user.a".to_owned(),
        "user.a".to_owned(),
        "user.b".to_owned(),
        "trusted.a".to_owned(),
        "trusted.overlay.opaque".to_owned(),
        "security.a".to_owned(),
        "system.a".to_owned(),
        "nothing".to_owned(),
        long,
    ])
    .prop_map(|name| Path(name.into_bytes()))
}

fn xattrs(users: bool) -> BoxedStrategy<Op> {
    let value = prop_oneof![
        4 => (0..40_u64, 0..9_u64).prop_map(|(len, seed)| Value::Fill(len, seed)),
        1 => (select(vec![511, 512, 513, 4096, 65535, 65536]), 0..9_u64)
            .prop_map(|(len, seed)| Value::Fill(len, seed)),
    ];
    let how = select(vec![XattrHow::Any, XattrHow::Any, XattrHow::Create, XattrHow::Replace]);
    let acl_name = || {
        select(vec!["system.posix_acl_access", "system.posix_acl_default"])
            .prop_map(|name| Path(name.as_bytes().to_vec()))
    };
    let acls = if users { 3 } else { 1 };
    prop_oneof![
        4 => (root_or_path(), xattr_name(), value, how, follow()).prop_map(
            |(path, name, value, how, follow)| Op::Setxattr { path, name, value, how, follow }
        ),
        acls => (root_or_path(), acl_name(), acl()).prop_map(|(path, name, value)| {
            Op::Setxattr { path, name, value, how: XattrHow::Any, follow: true }
        }),
        1 => (root_or_path(), acl_name())
            .prop_map(|(path, name)| Op::Getxattr { path, name, follow: true }),
        1 => (root_or_path(), acl_name())
            .prop_map(|(path, name)| Op::Removexattr { path, name, follow: true }),
        4 => (root_or_path(), xattr_name(), follow())
            .prop_map(|(path, name, follow)| Op::Getxattr { path, name, follow }),
        2 => (root_or_path(), xattr_name(), follow())
            .prop_map(|(path, name, follow)| Op::Removexattr { path, name, follow }),
        2 => (root_or_path(), follow()).prop_map(|(path, follow)| Op::Listxattr { path, follow }),
    ]
    .boxed()
}

fn looking() -> BoxedStrategy<Op> {
    prop_oneof![
        2 => root_or_path().prop_map(|path| Op::List { path }),
        3 => (root_or_path(), follow()).prop_map(|(path, follow)| Op::Stat { path, follow }),
        1 => path().prop_map(|path| Op::Readlink { path }),
        2 => (root_or_path(), 0..8_u32).prop_map(|(path, mask)| Op::Access { path, mask }),
        1 => slot().prop_map(|slot| Op::Fstat { slot }),
    ]
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn a_script_survives_its_text(
            script in script(Profile { steps_max: 30, users: true, cursors: true })
        ) {
            let text = script.to_string();
            prop_assert_eq!(text.parse::<Script>().unwrap(), script);
        }
    }
}
