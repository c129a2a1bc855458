//! An open file of SQLite's: a database, a journal, or one for the time being.
//!
//! Neighbours: `vfs` opens them. Invariant: SQLite gives the memory that a [`File`] lies in, and calls nothing of it
//! after it was closed.

use core::ffi::{c_int, c_void};

use esker::Ino;
use esker_embedded::Fd;
use libsqlite3_sys as ffi;
use libsqlite3_sys::{sqlite3_file, sqlite3_int64, sqlite3_io_methods};

use crate::Level;
use crate::state::with;

/// What a write to a file promises: it is whole or absent, whatever its size; a file does not grow before it has the
/// bytes; what was written first is there first; and a write changes no other bytes.
const PROMISES: c_int = ffi::SQLITE_IOCAP_ATOMIC
    | ffi::SQLITE_IOCAP_SAFE_APPEND
    | ffi::SQLITE_IOCAP_SEQUENTIAL
    | ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
/// Bytes that are best written together.
const SECTOR: c_int = 4096;

/// What SQLite keeps of an open file.
#[repr(C)]
pub struct File {
    /// What SQLite knows of it: the functions here.
    base: sqlite3_file,
    fd: Fd,
    ino: Ino,
    level: Level,
}

impl File {
    pub const fn new(fd: Fd, ino: Ino) -> Self {
        Self { base: sqlite3_file { pMethods: &raw const METHODS }, fd, ino, level: Level::None }
    }
}

/// Without shared memory: a log is used by one connection alone.
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(is_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector),
    xDeviceCharacteristics: Some(promises),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The file that SQLite speaks of.
///
/// # Safety
/// `file` is one that was opened here and not closed yet, and nobody else uses it meanwhile.
unsafe fn known<'a>(file: *mut sqlite3_file) -> &'a mut File {
    // SAFETY: whoever calls says so; `base` is the first field.
    unsafe { &mut *file.cast() }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes what it opened.
    let file = unsafe { known(file) };
    with(ffi::SQLITE_IOERR_CLOSE, |state| {
        state.locks.lower(file.ino, file.level, Level::None);
        state.files.close(file.fd)?;
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    target: *mut c_void,
    len: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite reads what it opened, into as many bytes as it says.
    let (file, target) = unsafe {
        (known(file), core::slice::from_raw_parts_mut(target.cast::<u8>(), len as usize))
    };
    with(ffi::SQLITE_IOERR_READ, |state| {
        let count = state.files.read_at(file.fd, at.cast_unsigned(), target)?;
        target[count..].fill(0);
        Ok(if count < target.len() { ffi::SQLITE_IOERR_SHORT_READ } else { ffi::SQLITE_OK })
    })
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    source: *const c_void,
    len: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite writes what it opened, from as many bytes as it says.
    let (file, source) =
        unsafe { (known(file), core::slice::from_raw_parts(source.cast::<u8>(), len as usize)) };
    with(ffi::SQLITE_IOERR_WRITE, |state| {
        state.files.write_at(file.fd, at.cast_unsigned(), source)?;
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: sqlite3_int64) -> c_int {
    // SAFETY: SQLite cuts what it opened.
    let file = unsafe { known(file) };
    with(ffi::SQLITE_IOERR_TRUNCATE, |state| {
        state.files.set_len(file.fd, len.cast_unsigned())?;
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn sync(_: *mut sqlite3_file, _: c_int) -> c_int {
    with(ffi::SQLITE_IOERR_FSYNC, |state| {
        state.files.sync()?;
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn size(file: *mut sqlite3_file, size: *mut sqlite3_int64) -> c_int {
    // SAFETY: SQLite asks about what it opened, and gives a place for the answer.
    let (file, size) = unsafe { (known(file), &mut *size) };
    with(ffi::SQLITE_IOERR_FSTAT, |state| {
        *size = state.files.stat(file.fd)?.size.cast_signed();
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: SQLite locks what it opened.
    let file = unsafe { known(file) };
    let Some(wanted) = Level::of(wanted) else { return ffi::SQLITE_MISUSE };
    with(ffi::SQLITE_IOERR_LOCK, |state| {
        file.level = state.locks.raise(file.ino, file.level, wanted);
        Ok(if file.level >= wanted { ffi::SQLITE_OK } else { ffi::SQLITE_BUSY })
    })
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: SQLite unlocks what it opened.
    let file = unsafe { known(file) };
    let Some(wanted) = Level::of(wanted) else { return ffi::SQLITE_MISUSE };
    with(ffi::SQLITE_IOERR_UNLOCK, |state| {
        file.level = state.locks.lower(file.ino, file.level, wanted);
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn is_reserved(file: *mut sqlite3_file, answer: *mut c_int) -> c_int {
    // SAFETY: SQLite asks about what it opened, and gives a place for the answer.
    let (file, answer) = unsafe { (known(file), &mut *answer) };
    with(ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, |state| {
        *answer = state.locks.is_reserved(file.ino).into();
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn control(_: *mut sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector(_: *mut sqlite3_file) -> c_int {
    SECTOR
}

unsafe extern "C" fn promises(_: *mut sqlite3_file) -> c_int {
    PROMISES
}
