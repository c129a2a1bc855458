//! The functions as a program reaches them: here, or linked into a module, as they are in a canister.
//!
//! Which of the two, the environment says: a test that was passed here starts itself again for the other.

use std::process::Command;

use esker::store::Store;
use esker_proof::canister::{Canister, example, has_wasi};
use esker_wasi::{Context, Errno, Result, World};
use wasmi::Val;

/// Where the module lies that the functions are linked into.
const THROUGH: &str = "ESKER_THROUGH";

/// Its stable memory is copied for each call.
const STABLE_MAX: u64 = 4 << 20;

const ERRNOS: &[Errno] = &[
    Errno::TooBig,
    Errno::Access,
    Errno::Again,
    Errno::BadDescriptor,
    Errno::Busy,
    Errno::Exists,
    Errno::Fault,
    Errno::FileTooBig,
    Errno::IllegalBytes,
    Errno::Invalid,
    Errno::Io,
    Errno::IsDirectory,
    Errno::Loop,
    Errno::TooManyFiles,
    Errno::TooManyLinks,
    Errno::NameTooLong,
    Errno::NotFound,
    Errno::NoMemory,
    Errno::NoSpace,
    Errno::NotDirectory,
    Errno::NotEmpty,
    Errno::NotSocket,
    Errno::NotSupported,
    Errno::Overflow,
    Errno::NotPermitted,
    Errno::ReadOnly,
    Errno::NoSeek,
    Errno::NotCapable,
];

/// A number as WebAssembly has it.
trait Passed {
    fn passed(self) -> Val;
}

impl Passed for u32 {
    fn passed(self) -> Val {
        Val::I32(self.cast_signed())
    }
}

impl Passed for u64 {
    fn passed(self) -> Val {
        Val::I64(self.cast_signed())
    }
}

impl Passed for i64 {
    fn passed(self) -> Val {
        Val::I64(self)
    }
}

fn answer(number: i64) -> Result {
    if number == 0 {
        return Ok(());
    }
    let known = ERRNOS.iter().find(|errno| i64::from(errno.number()) == number);
    Err(*known.unwrap_or_else(|| panic!("errno {number}")))
}

/// What a program calls.
pub enum Door<S: Store, W: World> {
    Here(Context<S, W>),
    /// What the module's stack never reaches, at its lowest addresses, is the program's memory.
    Linked(Box<Canister>),
}

impl<S: Store, W: World> Door<S, W> {
    /// The one that the environment asks for.
    pub fn asked(here: Context<S, W>) -> Self {
        let Some(path) = std::env::var_os(THROUGH) else { return Self::Here(here) };
        let mut canister = Canister::new(&std::fs::read(path).unwrap());
        canister.system.now += 1;
        canister.system.stable_max = STABLE_MAX;
        canister.call("canister_init", &[]).unwrap();
        Self::Linked(Box::new(canister))
    }

    fn here(&mut self) -> &mut Context<S, W> {
        match self {
            Self::Here(context) => context,
            Self::Linked(_) => panic!("only here"),
        }
    }

    pub fn give(&mut self, path: &[u8], name: &[u8]) -> Result {
        self.here().give(path, name)
    }

    pub fn arg(&mut self, word: &[u8]) -> Result {
        self.here().arg(word)
    }

    pub fn env(&mut self, name: &[u8], value: &[u8]) -> Result {
        self.here().env(name, value)
    }

    pub fn world(&mut self) -> &mut W {
        self.here().world()
    }
}

macro_rules! either {
    (
        guest { $($guest:ident($($g:ident: $gt:ty),*);)* }
        alone { $($alone:ident($($a:ident: $at:ty),*);)* }
    ) => {
        #[allow(clippy::too_many_arguments, reason = "WASI has them")]
        impl<S: Store, W: World> Door<S, W> {
            $(pub fn $guest(&mut self, memory: &mut [u8], $($g: $gt),*) -> Result {
                match self {
                    Self::Here(context) => context.$guest(memory, $($g),*),
                    Self::Linked(canister) => {
                        canister.memory()[..memory.len()].copy_from_slice(memory);
                        let name = concat!("__ic_custom_", stringify!($guest));
                        let number = canister.call(name, &[$($g.passed()),*]).unwrap();
                        memory.copy_from_slice(&canister.memory()[..memory.len()]);
                        answer(number)
                    }
                }
            })*
            $(pub fn $alone(&mut self, $($a: $at),*) -> Result {
                match self {
                    Self::Here(context) => context.$alone($($a),*),
                    Self::Linked(canister) => {
                        let name = concat!("__ic_custom_", stringify!($alone));
                        answer(canister.call(name, &[$($a.passed()),*]).unwrap())
                    }
                }
            })*
        }
    };
}

esker_wasi::preview1!(either);

/// Runs every test of this file but these again, with the functions linked into a module.
pub fn again_linked(but: &[&str]) {
    if std::env::var_os(THROUGH).is_some() || !has_wasi() {
        return;
    }
    let module = std::env::temp_dir().join(format!("esker-linked-{}.wasm", std::process::id()));
    std::fs::write(&module, example("esker-polyfill", "canister")).unwrap();
    let mut tests = Command::new(std::env::current_exe().unwrap());
    but.iter().for_each(|test| _ = tests.args(["--skip", test]));
    let output = tests.env(THROUGH, &module).output().unwrap();
    std::fs::remove_file(&module).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("test result: ok") && !said.contains(" 0 passed"), "{said}");
}
