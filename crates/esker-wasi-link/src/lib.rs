//! A module's imports of WASI, redirected to functions that are linked into it: what a canister needs, whose system
//! knows nothing of WASI.
//!
//! Above: `esker wasi-link`. The functions are those that the module exports under the names of WASI with
//! [`PREFIX`] before them, as `esker-polyfill` does, and `ic-wasi-polyfill`; or that have such a name for people, if a
//! linker for C exported none. Invariant: what goes out is valid if what
//! came in was, and does the same but for the calls that were redirected.

mod redirect;
mod survey;

use std::fmt;

use wasmparser::{Validator, WasmFeatures};

use redirect::Redirect;
use survey::Survey;

/// What the name of a function that is linked in begins with.
pub const PREFIX: &str = "__ic_custom_";
/// What WASI preview 1 is imported from.
const PREVIEW1: &str = "wasi_snapshot_preview1";

/// A module that was linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Its bytes.
    pub module: Vec<u8>,
    /// The imports that are gone, by their names.
    pub redirected: Vec<String>,
    /// The imports that are left, of WASI or not, as in `module.name`.
    pub left: Vec<Left>,
}

/// An import that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// From where, and what.
    pub name: String,
    /// Why it was not redirected; `None` for what is not of WASI.
    pub why: Option<Why>,
}

/// Why an import of WASI is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nothing of its name is linked in.
    Missing,
    /// What is linked in under its name takes or answers something else.
    OtherType,
    /// It is no function of preview 1: of another version of WASI, say.
    OtherVersion,
}

/// Why a module cannot be linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is a component, not a module.
    Component,
    /// It is no valid module.
    Invalid(String),
    /// It imports WASI, and no function of it is linked in.
    NothingLinkedIn,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "nothing of this name is linked in",
            Self::OtherType => "what is linked in has another type",
            Self::OtherVersion => "not of WASI preview 1",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Component => f.write_str("a component, not a module"),
            Self::Invalid(why) => write!(f, "no valid module ({why})"),
            Self::NothingLinkedIn => write!(f, "no function of WASI is linked in ({PREFIX}…)"),
        }
    }
}

impl std::error::Error for Error {}

impl From<wasmparser::BinaryReaderError> for Error {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Links a module: every import of WASI preview 1 whose function is linked in is redirected to it and taken away, with
/// the export. A canister is called, and does not run to an end: an export `_start` becomes `_initialize`. Nobody calls
/// that of a module which is called, either: what was exported as `_initialize` begins by itself from now on, when the
/// module is brought up, as constructors of C do.
///
/// # Errors
/// See [`Error`].
pub fn link(module: &[u8]) -> Result<Linked, Error> {
    if wasmparser::Parser::is_component(module) {
        return Err(Error::Component);
    }
    // Whatever is in it: only calls are redirected.
    Validator::new_with_features(WasmFeatures::all()).validate_all(module)?;
    let survey = Survey::of(module)?;
    let plan = survey.plan();
    if plan.redirected.is_empty() && plan.left.iter().any(|left| left.why.is_some()) {
        return Err(Error::NothingLinkedIn);
    }
    let linked = Redirect::new(&survey, &plan).module(module)?;
    Validator::new_with_features(WasmFeatures::all()).validate_all(&linked)?;
    let redirected = plan.redirected.iter().map(|found| found.name.clone()).collect();
    Ok(Linked { module: linked, redirected, left: plan.left })
}
