//! What SQLite asks of a system besides open files: paths, chance, and the time.
//!
//! Neighbours: `file` is what is opened. Invariant: paths are looked up from the root.

use core::ffi::{CStr, c_char, c_int, c_void};

use esker::Error;
use esker_embedded::{Fd, Open};
use esker_wasi::Seeded;
use libsqlite3_sys as ffi;
use libsqlite3_sys::{sqlite3_file, sqlite3_int64, sqlite3_vfs};

use crate::Locks;
use crate::file::File;
use crate::state::{Files, InstallError, State, keep, with};

/// What SQLite calls it: in a URI, `vfs=esker`.
pub const NAME: &CStr = c"esker";

/// Longest path, in bytes.
const PATH_MAX: c_int = 1024;
/// Milliseconds from noon of 24 November 4714 BC, where SQLite begins to count, to 1970.
const EPOCH_MS: i64 = 210_866_760_000_000;
const DAY_MS: f64 = 86_400_000.0;

/// From now on SQLite keeps its databases in these files, unless it is told otherwise for one. Chance begins with the
/// seed, so that all replicas of a canister agree.
///
/// # Errors
/// `Twice` when there are files already; what SQLite says.
pub fn install(files: Files, seed: [u8; 32]) -> Result<(), InstallError> {
    keep(State { files, locks: Locks::default(), chance: Seeded::new(seed) })?;
    let vfs = Box::leak(Box::new(sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<File>() as c_int,
        mxPathname: PATH_MAX,
        pNext: core::ptr::null_mut(),
        zName: NAME.as_ptr(),
        pAppData: core::ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_path),
        xDlOpen: Some(load),
        xDlError: Some(why_not_loaded),
        xDlSym: Some(symbol),
        xDlClose: Some(unload),
        xRandomness: Some(chance),
        xSleep: Some(sleep),
        xCurrentTime: Some(days),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(milliseconds),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }));
    // SAFETY: it stays where it is for ever.
    match unsafe { ffi::sqlite3_vfs_register(vfs, 1) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(InstallError::Sqlite(code)),
    }
}

/// A path of SQLite's.
///
/// # Safety
/// `path` points to a string that ends with a NUL, and stays for this call.
unsafe fn bytes<'a>(path: *const c_char) -> &'a [u8] {
    // SAFETY: whoever calls says so.
    unsafe { CStr::from_ptr(path) }.to_bytes()
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    path: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    told: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a path, or none for a file without a name.
    let path = if path.is_null() { None } else { Some(unsafe { bytes(path) }) };
    let has = |flag| flags & flag != 0;
    let how = Open {
        write: has(ffi::SQLITE_OPEN_READWRITE),
        create: has(ffi::SQLITE_OPEN_CREATE),
        exclusive: has(ffi::SQLITE_OPEN_EXCLUSIVE),
        ..Open::READ
    };
    with(ffi::SQLITE_CANTOPEN, |state| {
        let fd = match path {
            Some(path) => state.files.open(Fd::ROOT, path, how)?,
            None => open_nameless(state)?,
        };
        if let Some(path) = path.filter(|_| has(ffi::SQLITE_OPEN_DELETEONCLOSE)) {
            // What is open lives on until it is closed.
            state.files.unlink(Fd::ROOT, path)?;
        }
        let ino = state.files.ino(fd)?;
        // SAFETY: SQLite gives memory of `szOsFile` bytes, and a place for the flags if it wants them.
        unsafe {
            file.cast::<File>().write(File::new(fd, ino));
            if !told.is_null() {
                *told = flags;
            }
        }
        Ok(ffi::SQLITE_OK)
    })
}

/// A file for the time being: it goes when it is closed.
fn open_nameless(state: &mut State) -> Result<Fd, Error> {
    let mut number = [0; 8];
    state.chance.fill(&mut number);
    let path = format!("/.sqlite-{:016x}", u64::from_le_bytes(number));
    let how = Open { exclusive: true, ..Open::CREATE };
    let fd = state.files.open(Fd::ROOT, path.as_bytes(), how)?;
    state.files.unlink(Fd::ROOT, path.as_bytes())?;
    Ok(fd)
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, path: *const c_char, _: c_int) -> c_int {
    // SAFETY: SQLite gives a path.
    let path = unsafe { bytes(path) };
    with(ffi::SQLITE_IOERR_DELETE, |state| match state.files.unlink(Fd::ROOT, path) {
        Err(Error::NotFound) => Ok(ffi::SQLITE_IOERR_DELETE_NOENT),
        done => done.map(|()| ffi::SQLITE_OK),
    })
}

unsafe extern "C" fn access(
    _: *mut sqlite3_vfs,
    path: *const c_char,
    asked: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a path, and a place for the answer.
    let (path, answer) = unsafe { (bytes(path), &mut *answer) };
    with(ffi::SQLITE_IOERR_ACCESS, |state| {
        let found = match state.files.stat_path(Fd::ROOT, path, true) {
            Ok(attr) => Some(attr),
            Err(Error::NotFound | Error::NotDirectory) => None,
            Err(error) => return Err(error),
        };
        // An empty file is as good as none: a journal that was emptied is no journal.
        let counts = |attr: esker::Attr| asked != ffi::SQLITE_ACCESS_EXISTS || attr.size > 0;
        *answer = found.is_some_and(counts).into();
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn full_path(
    _: *mut sqlite3_vfs,
    path: *const c_char,
    room: c_int,
    full: *mut c_char,
) -> c_int {
    // SAFETY: SQLite gives a path, and so much room for the full one.
    let (path, full) =
        unsafe { (bytes(path), core::slice::from_raw_parts_mut(full.cast::<u8>(), room as usize)) };
    let root: &[u8] = if path.first() == Some(&b'/') { b"" } else { b"/" };
    let whole = [root, path, b"\0"].concat();
    match full.get_mut(..whole.len()) {
        Some(full) => {
            full.copy_from_slice(&whole);
            ffi::SQLITE_OK
        }
        None => ffi::SQLITE_CANTOPEN,
    }
}

unsafe extern "C" fn load(_: *mut sqlite3_vfs, _: *const c_char) -> *mut c_void {
    core::ptr::null_mut()
}

unsafe extern "C" fn why_not_loaded(_: *mut sqlite3_vfs, room: c_int, words: *mut c_char) {
    const WORDS: &[u8] = b"nothing can be loaded here\0";
    if room as usize >= WORDS.len() {
        // SAFETY: there is room for them.
        unsafe { words.cast::<u8>().copy_from_nonoverlapping(WORDS.as_ptr(), WORDS.len()) };
    }
}

unsafe extern "C" fn symbol(
    _: *mut sqlite3_vfs,
    _: *mut c_void,
    _: *const c_char,
) -> Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char)> {
    None
}

unsafe extern "C" fn unload(_: *mut sqlite3_vfs, _: *mut c_void) {}

unsafe extern "C" fn chance(_: *mut sqlite3_vfs, len: c_int, target: *mut c_char) -> c_int {
    // SAFETY: SQLite gives a place for so many bytes.
    let target = unsafe { core::slice::from_raw_parts_mut(target.cast::<u8>(), len as usize) };
    // Of no bytes it says how many there are.
    let filled = with(ffi::SQLITE_ERROR, |state| {
        state.chance.fill(target);
        Ok(ffi::SQLITE_OK)
    });
    if filled == ffi::SQLITE_OK { len } else { 0 }
}

/// Nobody else would go on meanwhile.
unsafe extern "C" fn sleep(_: *mut sqlite3_vfs, _: c_int) -> c_int {
    0
}

unsafe extern "C" fn milliseconds(_: *mut sqlite3_vfs, answer: *mut sqlite3_int64) -> c_int {
    with(ffi::SQLITE_ERROR, |state| {
        let now = state.files.fs().now();
        let since = now.secs.saturating_mul(1000).saturating_add(i64::from(now.nanos / 1_000_000));
        // SAFETY: SQLite gives a place for the answer.
        unsafe { *answer = since.saturating_add(EPOCH_MS) };
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn days(vfs: *mut sqlite3_vfs, answer: *mut f64) -> c_int {
    let mut since = 0;
    // SAFETY: the place for the answer is above.
    let asked = unsafe { milliseconds(vfs, &raw mut since) };
    // SAFETY: SQLite gives a place for the answer.
    unsafe { *answer = since as f64 / DAY_MS };
    asked
}

unsafe extern "C" fn last_error(_: *mut sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}
