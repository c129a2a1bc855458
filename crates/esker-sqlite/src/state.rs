//! What all files of SQLite's share: the file system, the locks, and chance.
//!
//! Neighbours: `vfs` and `file` borrow it for one call each. Invariant: nothing here calls SQLite.

use std::cell::RefCell;
use std::fmt;

use core::ffi::c_int;

use esker::ground::Memory;
use esker::{Error, Time};
use esker_wasi::Seeded;
use libsqlite3_sys as ffi;

use crate::Locks;

/// Files in any memory.
pub type Files = esker_embedded::Files<Box<dyn Memory>>;

/// Why SQLite does not use these files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallError {
    /// It was given others before, and may have them open.
    Twice,
    /// It says so itself, with this number.
    Sqlite(i32),
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice => f.write_str("SQLite has files already"),
            Self::Sqlite(code) => write!(f, "SQLite answers {code}"),
        }
    }
}

impl std::error::Error for InstallError {}

/// What there is.
pub struct State {
    pub files: Files,
    pub locks: Locks,
    pub chance: Seeded,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// From now on there is this.
pub fn keep(state: State) -> Result<(), InstallError> {
    STATE.with_borrow_mut(|kept| match kept {
        Some(_) => Err(InstallError::Twice),
        None => {
            *kept = Some(state);
            Ok(())
        }
    })
}

/// From now on it is this time, for files and for SQL, until this is called again; with `None` the clock is asked each
/// time. In a canister, told at the beginning of each message, it is asked for once, and not for each row that has a
/// time. Messages begin in every exported function, in timers, and behind every `await` of a call.
pub fn stand_still(at: Option<Time>) {
    STATE.with_borrow_mut(|state| {
        if let Some(state) = state {
            state.files.stand_still(at);
        }
    });
}

/// Does something with it, and answers SQLite: `failed` where there is no better word for what went wrong.
pub fn with(failed: c_int, act: impl FnOnce(&mut State) -> Result<c_int, Error>) -> c_int {
    STATE.with_borrow_mut(|state| match state.as_mut().map(act) {
        Some(Ok(code)) => code,
        Some(Err(Error::NoSpace | Error::FileTooBig)) => ffi::SQLITE_FULL,
        Some(Err(Error::NoMemory)) => ffi::SQLITE_IOERR_NOMEM,
        Some(Err(_)) | None => failed,
    })
}
