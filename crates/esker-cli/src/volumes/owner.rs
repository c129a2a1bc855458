//! Who has a volume open: from the locks that the kernel knows of.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use esker_fuse::mount::MountEntry;

use crate::failure::{Exit, Failure, path_shown, shown as printable};

/// The processes that have a lock on this file.
fn holders(locks: &str, device: (u32, u32), ino: u64) -> Vec<u32> {
    let wanted = format!("{:02x}:{:02x}:{ino}", device.0, device.1);
    let owner = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let here = words.iter().any(|&word| word == wanted);
        // number, kind, way, access, process, file
        words.get(4).filter(|_| here && words.get(1) == Some(&"FLOCK"))?.parse().ok()
    };
    locks.lines().filter_map(owner).collect()
}

/// Who has it: the process, and what it is.
fn shown_process(process: u32) -> String {
    let name = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    let name = name.trim_ascii_end();
    if name.is_empty() {
        return format!("process {process}");
    }
    format!("{} (pid {process})", printable(name))
}

/// Who has this file or device.
pub fn shown(path: &Path) -> String {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let meta = fs::metadata(path);
    let owners = meta.map_or_else(
        |_| Vec::new(),
        |meta| {
            let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
            holders(&locks, device, meta.ino())
        },
    );
    match owners.first() {
        Some(&process) => shown_process(process),
        None => "somebody".to_owned(),
    }
}

/// Where this volume is mounted, if it is.
pub fn mounted_at(path: &Path) -> Option<PathBuf> {
    let own = fs::canonicalize(path).ok()?;
    let is_own = |mount: &MountEntry| fs::canonicalize(&mount.source).is_ok_and(|at| at == own);
    esker_fuse::mount::ours().into_iter().find(is_own).map(|mount| mount.dir)
}

/// What is wrong where a mount, or a snapshot of one, is named and only the volume itself will do.
pub fn is_a_mount(path: &Path) -> Option<Failure> {
    let before = path.to_str().and_then(|text| text.rsplit_once('@'));
    let dir = match before {
        Some((before, _)) if !path.exists() => Path::new(before),
        _ => path,
    };
    let volume = PathBuf::from(esker_fuse::mount::mounted_on(dir).ok()?.source);
    let remedy = format!("unmount it, and name {} in its place", path_shown(&volume));
    let what = "a mount, where the volume itself is wanted";
    super::is_volume(&volume).then(|| Failure::at(Exit::Usage, what, path, &remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_found_among_the_locks() {
        let locks = "1: POSIX  ADVISORY  READ 11 00:21:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4242 fe:10:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 7 00:21:770 0 EOF\n";
        assert_eq!(holders(locks, (0xfe, 0x10), 77), [4242]);
        assert_eq!(holders(locks, (0, 0x21), 77), [0u32; 0]);
    }
}
