//! Scripts on directories by system calls, the kernel's tmpfs being right: first the model with our POSIX in this
//! process, then a mount of Esker. Needs root; see `rig::may_mount`.

use esker_proof::allowed;
use esker_proof::differ::Closely;
use esker_proof::harness::{Hunt, Pair, hunt, run_regressions};
use esker_proof::model::Model;
use esker_proof::rig::{Mount, may_mount};
use esker_proof::script::User;
use esker_proof::script::generate::Profile;
use esker_proof::world::inside::{Inside, root_attr};
use esker_proof::world::outside::{Lacks, Outside};

const PROFILE: Profile = Profile { steps_max: 40, users: true, cursors: false };
const CLOSELY: Closely = Closely {
    order: false,
    steps: false,
    atime: false,
    lock_bit: false,
    allowed: allowed::beside_tmpfs,
};
const MOUNT: Closely = Closely { allowed: allowed::mount_beside_tmpfs, ..CLOSELY };
const TMPFS: Lacks = Lacks { zero_range: true };

fn tmpfs(mount: &Mount) -> Result<Box<Outside>, String> {
    Ok(Box::new(Outside::new("tmpfs", &mount.case()?, &User::ALL, TMPFS)?))
}

fn posix_beside_tmpfs(mount: &Mount) -> Result<Pair, String> {
    let mut root = root_attr();
    root.mtime.secs = 1_000;
    root.atime.secs = 1_000;
    Ok((Box::new(Inside::new("posix", Model::new(root))), tmpfs(mount)?))
}

#[test]
fn posix_answers_as_the_kernel_does() {
    if !may_mount() {
        return;
    }
    let mount = Mount::tmpfs("tmpfs").expect("tmpfs");
    let name = "posix beside tmpfs";
    let what = Hunt { name, profile: PROFILE, cases: 1000, shrinks: 2000, closely: CLOSELY };
    run_regressions(CLOSELY, || posix_beside_tmpfs(&mount));
    hunt(what, || posix_beside_tmpfs(&mount));
}

fn esker_beside_tmpfs(esker: &Mount, mount: &Mount, apart: bool) -> Result<Pair, String> {
    let esker = Outside::new("esker", &esker.case()?, &User::ALL, Lacks::default())?;
    let tmpfs = *tmpfs(mount)?;
    if apart {
        return Ok((Box::new(esker.with_steps_apart()), Box::new(tmpfs.with_steps_apart())));
    }
    Ok((Box::new(esker), Box::new(tmpfs)))
}

#[test]
fn a_mount_answers_as_the_kernel_does() {
    if !may_mount() {
        return;
    }
    let mount = Mount::tmpfs("tmpfs").expect("tmpfs");
    let esker = Mount::esker("esker", "size=512m").expect("esker");
    let name = "mount beside tmpfs";
    let what = Hunt { name, profile: PROFILE, cases: 300, shrinks: 1000, closely: MOUNT };
    run_regressions(MOUNT, || esker_beside_tmpfs(&esker, &mount, false));
    hunt(what, || esker_beside_tmpfs(&esker, &mount, false));
}

/// On a volume too, which is mounted again in between.
#[test]
fn a_volume_answers_as_the_kernel_does() {
    if !may_mount() {
        return;
    }
    let tmpfs = Mount::tmpfs("tmpfs").expect("tmpfs");
    let mut volume = Mount::volume("volume", "512M", "commit=1,relatime").expect("a volume");
    for cases in [50, 50] {
        let what = Hunt {
            name: "volume beside tmpfs",
            profile: PROFILE,
            cases,
            shrinks: 500,
            closely: MOUNT,
        };
        run_regressions(MOUNT, || esker_beside_tmpfs(&volume, &tmpfs, false));
        hunt(what, || esker_beside_tmpfs(&volume, &tmpfs, false));
        volume.leave().expect("unmounted");
        volume.check().expect("whole");
        volume.mount_again().expect("mounted again");
    }
}

/// With a pause between the steps every time tells which step set it.
#[test]
fn times_move_when_the_kernel_moves_them() {
    if !may_mount() {
        return;
    }
    let mount = Mount::tmpfs("tmpfs").expect("tmpfs");
    let esker = Mount::esker("esker", "size=512m").expect("esker");
    let closely = Closely { steps: true, allowed: allowed::mount_times_beside_tmpfs, ..CLOSELY };
    let profile = Profile { steps_max: 15, ..PROFILE };
    let what = Hunt { name: "times beside tmpfs", profile, cases: 30, shrinks: 200, closely };
    run_regressions(closely, || esker_beside_tmpfs(&esker, &mount, true));
    hunt(what, || esker_beside_tmpfs(&esker, &mount, true));
}
