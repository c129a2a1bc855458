//! The structures have the sizes of the kernel's header, written down here a second time, by hand.

use esker_fuse::wire::{self, Opcode};

#[test]
fn structures_are_as_long_as_in_the_kernels_header() {
    let sizes = [
        ("fuse_in_header", wire::InHeader::SIZE, 40),
        ("fuse_out_header", wire::OutHeader::SIZE, 16),
        ("fuse_init_in", wire::InitIn::SIZE, 64),
        ("fuse_init_out", wire::InitOut::SIZE, 64),
        ("fuse_attr", wire::Attr::SIZE, 88),
        ("fuse_sx_time", wire::SxTime::SIZE, 16),
        ("fuse_statx", wire::Statx::SIZE, 256),
        ("fuse_entry_out", wire::EntryOut::SIZE, 128),
        ("fuse_forget_in", wire::ForgetIn::SIZE, 8),
        ("fuse_forget_one", wire::ForgetOne::SIZE, 16),
        ("fuse_batch_forget_in", wire::BatchForgetIn::SIZE, 8),
        ("fuse_getattr_in", wire::GetattrIn::SIZE, 16),
        ("fuse_attr_out", wire::AttrOut::SIZE, 104),
        ("fuse_statx_in", wire::StatxIn::SIZE, 24),
        ("fuse_statx_out", wire::StatxOut::SIZE, 288),
        ("fuse_mknod_in", wire::MknodIn::SIZE, 16),
        ("fuse_mkdir_in", wire::MkdirIn::SIZE, 8),
        ("fuse_rename_in", wire::RenameIn::SIZE, 8),
        ("fuse_rename2_in", wire::Rename2In::SIZE, 16),
        ("fuse_link_in", wire::LinkIn::SIZE, 8),
        ("fuse_setattr_in", wire::SetattrIn::SIZE, 88),
        ("fuse_open_in", wire::OpenIn::SIZE, 8),
        ("fuse_create_in", wire::CreateIn::SIZE, 16),
        ("fuse_open_out", wire::OpenOut::SIZE, 16),
        ("fuse_release_in", wire::ReleaseIn::SIZE, 24),
        ("fuse_flush_in", wire::FlushIn::SIZE, 24),
        ("fuse_read_in", wire::ReadIn::SIZE, 40),
        ("fuse_write_in", wire::WriteIn::SIZE, 40),
        ("fuse_write_out", wire::WriteOut::SIZE, 8),
        ("fuse_statfs_out", wire::StatfsOut::SIZE, 80),
        ("fuse_fsync_in", wire::FsyncIn::SIZE, 16),
        ("fuse_setxattr_in", wire::SetxattrIn::SIZE, 16),
        ("fuse_getxattr_in", wire::GetxattrIn::SIZE, 8),
        ("fuse_getxattr_out", wire::GetxattrOut::SIZE, 8),
        ("fuse_access_in", wire::AccessIn::SIZE, 8),
        ("fuse_interrupt_in", wire::InterruptIn::SIZE, 8),
        ("fuse_ioctl_in", wire::IoctlIn::SIZE, 32),
        ("fuse_ioctl_out", wire::IoctlOut::SIZE, 16),
        ("fsxattr", wire::Fsxattr::SIZE, 28),
        ("fuse_fallocate_in", wire::FallocateIn::SIZE, 32),
        ("fuse_lseek_in", wire::LseekIn::SIZE, 24),
        ("fuse_lseek_out", wire::LseekOut::SIZE, 8),
        ("fuse_copy_file_range_in", wire::CopyFileRangeIn::SIZE, 56),
        ("fuse_copy_file_range_out", wire::CopyFileRangeOut::SIZE, 8),
        ("fuse_dirent", wire::Dirent::SIZE, 24),
        ("fuse_notify_inval_inode_out", wire::NotifyInvalInodeOut::SIZE, 24),
        ("fuse_ext_header", wire::ExtHeader::SIZE, 8),
    ];
    for (name, ours, kernel) in sizes {
        assert_eq!(ours, kernel, "{name}");
    }
}

/// Where this machine has the kernel's header, whatever its age, the opcodes in it are ours.
#[test]
fn opcodes_are_those_of_the_installed_header() {
    let Ok(header) = std::fs::read_to_string("/usr/include/linux/fuse.h") else {
        eprintln!("skipped: no /usr/include/linux/fuse.h (package linux-libc-dev)");
        return;
    };
    let body = header.split("enum fuse_opcode {").nth(1).unwrap().split('}').next().unwrap();
    let mut seen = 0;
    for line in body.lines().filter_map(|line| line.trim().strip_prefix("FUSE_")) {
        let Some((name, rest)) = line.split_once('=') else { continue };
        let number = rest.trim().split([',', ' ']).next().unwrap().parse().unwrap();
        if name.contains("RESERVED") {
            continue;
        }
        let opcode = Opcode::from_number(number).expect(name);
        let ours = format!("{opcode:?}").to_uppercase();
        assert_eq!(ours, name.trim().replace('_', ""), "{number}");
        seen += 1;
    }
    assert!(seen >= 40, "only {seen} opcodes found");
}
