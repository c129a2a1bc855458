//! A block device, and what the kernel has counted of it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use esker_volume::device::Traffic;

use super::super::spec::Spec;
use super::super::target::{Target, run};
use crate::failure::{Exit, Failure, Outcome, said};

/// Sectors are counted in this many bytes, whatever the device's own are.
const SECTOR: u64 = 512;
/// The largest request of a loop device, as of a common NVMe drive, in KiB.
const REQUEST_KIB: &str = "512";

/// From the kernel's line of figures. Of what is empty it counts flushes as writes too.
fn parsed(line: &str) -> Option<Traffic> {
    let all: Vec<u64> = line.split_ascii_whitespace().map_while(|it| it.parse().ok()).collect();
    let bytes = |sectors: usize| all.get(sectors)?.checked_mul(SECTOR);
    Some(Traffic {
        reads: *all.first()?,
        read: bytes(2)?,
        writes: *all.get(4)?,
        written: bytes(6)?,
        // Kernels before 4.18 and 5.5 have neither.
        discarded: bytes(13).unwrap_or(0),
        flushes: all.get(15).copied().unwrap_or(0),
    })
}

/// A device that is ours to write over.
pub struct Disk {
    path: PathBuf,
    /// Where the kernel tells of it.
    told: PathBuf,
    /// A loop device, which goes with its file.
    image: Option<PathBuf>,
    /// What that file lies in, and how many microseconds that waits at each flush.
    slow: Option<(Target, u64)>,
}

impl Disk {
    /// One that is there.
    pub fn of(path: &Path) -> Outcome<Self> {
        let failure =
            |what: &str| Failure::at(Exit::Usage, what, path, "name a whole block device");
        let real = fs::canonicalize(path).map_err(|error| failure(&said(&error)))?;
        if !fs::metadata(&real).is_ok_and(|metadata| metadata.file_type().is_block_device()) {
            return Err(failure("it is no block device"));
        }
        let name = real.file_name().unwrap_or_default();
        let told = Path::new("/sys/class/block").join(name);
        Ok(Self { path: real, told, image: None, slow: None })
    }

    /// A loop device over a new sparse file in `dir`.
    pub fn over_a_file(dir: &Path, size: u64) -> Outcome<Self> {
        let image = dir.join(format!("esker-bench-{}.disk", std::process::id()));
        let unable = |error: io::Error| {
            let what = format!("cannot make the file behind a device ({})", said(&error));
            Failure::at(Exit::Failed, &what, &image, "name another place with --images")
        };
        File::create_new(&image).and_then(|file| file.set_len(size)).map_err(unable)?;
        let remove = |_: &Failure| drop(fs::remove_file(&image));
        let words = ["-f", "--show"].map(Path::new).into_iter().chain([&*image]);
        let device = run("losetup", words).inspect_err(remove)?;
        let mut disk = Self::of(Path::new(device.trim())).inspect_err(remove)?;
        disk.image = Some(image);
        // A kernel that will not have it has its own, which is told.
        let _ = fs::write(disk.told.join("queue/max_sectors_kb"), REQUEST_KIB);
        Ok(disk)
    }

    /// The same over a file in memory, of which nothing is safe before so many microseconds.
    pub fn slow(place: &Path, size: u64, wait: u64) -> Outcome<Self> {
        let target = Target::start(&Spec::Slow(wait), "the slow disk", &place.join("slow"))?;
        let mut disk = Self::over_a_file(target.path(), size)?;
        disk.slow = Some((target, wait));
        Ok(disk)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it has seen so far, once all that was given to it is there.
    pub fn settled(&self) -> Outcome<Traffic> {
        let told = || {
            File::open(&self.path)?.sync_all()?;
            // What file systems have cached of it would spare the next its reads.
            run("blockdev", ["--flushbufs".as_ref(), self.path()])
                .map_err(|failure| io::Error::other(failure.text))?;
            fs::write("/proc/sys/vm/drop_caches", "3")?;
            let line = fs::read_to_string(self.told.join("stat"))?;
            parsed(&line).ok_or_else(|| io::Error::other("its counters make no sense"))
        };
        told().map_err(|error| {
            let what = format!("cannot be counted ({})", said(&error));
            Failure::at(Exit::Failed, &what, &self.path, "run it as root")
        })
    }

    /// What figures depend on.
    pub fn conditions(&self) -> Vec<(String, String)> {
        let told = |name: &str| {
            let text = fs::read_to_string(self.told.join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        let size = told("size").parse::<u64>().unwrap_or(0) * SECTOR;
        let kind = match (&self.slow, &self.image) {
            (Some((_, wait)), _) => {
                format!("a loop device over a file in memory that waits {wait} us at each flush")
            }
            (None, Some(_)) => "a loop device over a file".to_owned(),
            (None, None) => "a device".to_owned(),
        };
        let facts = [
            ("device", format!("{kind}, {} MiB", size >> 20)),
            ("blocks of the device", format!("{} bytes", told("queue/logical_block_size"))),
            ("largest request", format!("{} KiB", told("queue/max_sectors_kb"))),
        ];
        facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(image) = &self.image {
            // What is left in use is told by the target that could not be taken down.
            let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
            let _ = fs::remove_file(image);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figures_are_read() {
        let line = "  10 1 80 3  20 2 160 4 0 5 6  7 0 8 9  11 12\n";
        let traffic = parsed(line).unwrap();
        let known = Traffic {
            reads: 10,
            read: 80 * 512,
            writes: 20,
            written: 160 * 512,
            discarded: 8 * 512,
            flushes: 11,
        };
        assert_eq!(traffic, known);
        assert_eq!(traffic.since(&known), Traffic::default());
        let old = parsed("1 0 8 0 2 0 8 0 0 0 0").unwrap();
        assert_eq!((old.reads, old.discarded, old.flushes), (1, 0, 0));
        assert_eq!(parsed(""), None);
        assert_eq!(parsed("1 2 x"), None);
    }

    #[test]
    fn what_is_no_device_is_refused() {
        for path in ["/", "/dev/null", "/no/such/device"] {
            assert_eq!(
                Disk::of(Path::new(path)).map(|_| ()).unwrap_err().exit,
                Exit::Usage,
                "{path}"
            );
        }
    }
}
