//! fsx, in a version that takes seconds: on the kernel's tmpfs, to see that the exerciser is right, and on a mount.
//! The long one is the binary `esker-fsx`. `ESKER_FSX_COUNT` and `ESKER_SEED` override the usual.

use esker_proof::fsx::{Plan, run};
use esker_proof::harness::{from_env, seed};
use esker_proof::rig::{Mount, may_mount};

fn every_byte_is_right(mount: &Mount, seeds: u64) {
    let count = from_env("ESKER_FSX_COUNT", 15_000);
    for seed in (0..seeds).map(|index| seed().wrapping_add(index)) {
        let told = run(&Plan::new(mount.path(), seed, count)).unwrap_or_else(|why| panic!("{why}"));
        println!("seed {seed:#x}: {count} operations: {told}");
    }
}

#[test]
fn tmpfs_passes() {
    if may_mount() {
        every_byte_is_right(&Mount::tmpfs("fsx").expect("tmpfs"), 1);
    }
}

#[test]
fn a_mount_passes() {
    if may_mount() {
        every_byte_is_right(&Mount::esker("fsx", "size=256m").expect("esker"), 3);
    }
}

#[test]
fn a_mount_without_writeback_passes() {
    if may_mount() {
        let options = "size=256m,no_writeback";
        every_byte_is_right(&Mount::esker("fsx", options).expect("esker"), 1);
    }
}

/// Mounted again between the seeds; what was written must be what a check finds whole.
#[test]
fn a_volume_passes() {
    if may_mount() {
        let mut mount = Mount::volume("fsx", "512M", "commit=1,dirty=16M").expect("a volume");
        for _ in 0..2 {
            every_byte_is_right(&mount, 1);
            mount.leave().expect("unmounted");
            mount.check().expect("whole");
            mount.mount_again().expect("mounted again");
        }
    }
}
