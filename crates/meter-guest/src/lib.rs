//! What the instruction meter measures: the same rows over several file systems in stable memory.
//!
//! Above: `esker-meter`, which runs this module and counts. Invariant: static dispatch only, so that a figure
//! holds nothing of the harness but a few instructions a call.

mod bare;
mod esker;
mod host;
#[cfg(feature = "peer")]
mod peer;
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "wasi", feature = "wasi-peer"))]
mod std_files;

/// What a file system must offer to be measured.
trait Subject {
    /// An open file.
    type Handle: Copy;
    /// There are names and directories, not files alone.
    const NAMES: bool = true;

    fn open(&mut self, path: &str, create: bool) -> Self::Handle;
    fn close(&mut self, file: Self::Handle);
    fn write(&mut self, file: Self::Handle, source: &[u8]) -> usize;
    fn read(&mut self, file: Self::Handle, target: &mut [u8]) -> usize;
    fn seek(&mut self, file: Self::Handle, at: u64);
    fn size(&mut self, file: Self::Handle) -> u64;
    fn truncate(&mut self, file: Self::Handle, len: u64);
    fn stat(&mut self, path: &str) -> u64;
    fn mkdir(&mut self, path: &str);
    fn list(&mut self, path: &str) -> u64;
    fn unlink(&mut self, path: &str);
    fn rename(&mut self, old: &str, new: &str);
}

/// The largest files: where files are backed by memories of their own, these are.
const BACKED: [&str; 12] = [
    "file", "other", "file0", "file1", "file2", "file3", "file4", "file5", "file6", "file7",
    "file8", "file9",
];

#[cfg(feature = "wasi")]
const WASI: u32 = 201;
#[cfg(feature = "wasi")]
const WASI_TOLD: u32 = 202;
#[cfg(feature = "wasi-peer")]
const WASI_PEER: u32 = 216;
/// How SQLite calls WASI, which has no locks.
#[cfg(feature = "sqlite")]
const UNLOCKED: &str = "unix-none";
#[cfg(all(feature = "sqlite", feature = "wasi"))]
const SQLITE: u32 = 301;
#[cfg(all(feature = "sqlite", feature = "wasi"))]
const SQLITE_STRAIGHT: u32 = 302;
#[cfg(all(feature = "sqlite", feature = "wasi"))]
const SQLITE_TOLD: u32 = 303;
#[cfg(all(feature = "sqlite", feature = "wasi"))]
const SQLITE_STRAIGHT_TOLD: u32 = 304;
#[cfg(all(feature = "sqlite", feature = "wasi-peer"))]
const SQLITE_PEER: u32 = 316;

/// Runs one row's bench on one subject. The numbers are those of `esker-meter`.
#[unsafe(no_mangle)]
pub extern "C" fn run(subject: u32, bench: u32) {
    match subject {
        0 => rows::run(bare::Bare::new(), bench),
        1 => rows::run(esker::Esker::new(1024), bench),
        2 => rows::run(esker::Esker::new(16), bench),
        3 => rows::run(esker::Esker::mounted(), bench),
        7 => rows::run(esker::Esker::managed(), bench),
        #[cfg(feature = "peer")]
        4 | 16 | 64 | 99 => rows::run(peer::Peer::new(subject), bench),
        #[cfg(feature = "wasi")]
        WASI | WASI_TOLD => {
            esker_polyfill::init(&[1; 32], &[]);
            esker_polyfill::stand_still((subject == WASI_TOLD).then(host::now));
            rows::run(std_files::StdFiles::default(), bench);
        }
        #[cfg(feature = "wasi-peer")]
        WASI_PEER => {
            ic_wasi_polyfill::init(&[1; 32], &[]);
            rows::run(std_files::StdFiles::default(), bench);
        }
        #[cfg(all(feature = "sqlite", feature = "wasi"))]
        SQLITE | SQLITE_TOLD => {
            esker_polyfill::init(&[1; 32], &[]);
            let message: fn() = if subject == SQLITE_TOLD { sqlite::told } else { || {} };
            sqlite::run(sqlite::Below { vfs: UNLOCKED, message }, bench);
        }
        #[cfg(all(feature = "sqlite", feature = "wasi"))]
        SQLITE_STRAIGHT | SQLITE_STRAIGHT_TOLD => {
            sqlite::install();
            let told = subject == SQLITE_STRAIGHT_TOLD;
            let message: fn() = if told { sqlite::told_straight } else { || {} };
            sqlite::run(sqlite::Below { vfs: "esker", message }, bench);
        }
        #[cfg(all(feature = "sqlite", feature = "wasi-peer"))]
        SQLITE_PEER => {
            ic_wasi_polyfill::init(&[1; 32], &[]);
            sqlite::run(sqlite::Below { vfs: UNLOCKED, message: || {} }, bench);
        }
        _ => panic!("no such subject"),
    }
}
