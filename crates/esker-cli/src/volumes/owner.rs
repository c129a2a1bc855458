//! Who has a volume open: from the locks that the kernel knows of.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use esker_fuse::mount::MountEntry;
use esker_volume::device::below;

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

/// The process that has a lock on this file.
fn holder(locks: &str, path: &Path) -> Option<u32> {
    let meta = fs::metadata(path).ok()?;
    let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    holders(locks, device, meta.ino()).first().copied()
}

/// Who has this file or device.
pub fn shown(path: &Path) -> String {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let own = || holder(&locks, path);
    let owner = own().or_else(|| holder(&locks, &below(path)?));
    owner.map_or_else(|| "somebody".to_owned(), shown_process)
}

/// Where the bytes of a file or device are in the end.
fn ground(path: &Path) -> Option<PathBuf> {
    let own = fs::canonicalize(path).ok()?;
    Some(below(&own).and_then(|file| fs::canonicalize(file).ok()).unwrap_or(own))
}

/// Where this volume is mounted, if it is: by its own name, or as the loop device over it.
pub fn mounted_at(path: &Path) -> Option<PathBuf> {
    let own = ground(path)?;
    let is_own = |mount: &MountEntry| ground(Path::new(&mount.source)).is_some_and(|at| at == own);
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
