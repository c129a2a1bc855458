//! `esker run`: a WebAssembly program over a home.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use esker::posix::Fs;
use esker::store::{ReadOnly, Store};
use esker_host::SystemClock;
use esker_wasi::{Context, Errno};

use crate::failure::{Exit, Failure, Outcome, os_shown, path_shown, shown};
use crate::homes::{self, Images};
use crate::options::Options;
use crate::printed::{told, warn};
use crate::units::ram;
use crate::volumes::{self, is_volume};
use crate::wasm::{Calls, End, Outside, Program};
use crate::{fitting, housekeeping, import};

/// Run a WebAssembly program over a file system.
///
/// The program is a module of WASI preview 1 (the target wasm32-wasip1 of Rust, wasi-sdk for C). It sees the
/// directories of the home that it is given, and nothing of this machine but standard input, output and error, clocks
/// and chance. Without --fs it has no files at all.
#[derive(Args)]
#[command(after_help = "\
HOME is one of
  mem:      an empty file system in memory, filled first with --from; gone when the program ends
  IMAGE     an image, with memory above it: what the program changes is gone when it ends
  VOLUME    a volume: what the program wrote is there afterwards

Options of -o, with commas between them: ro, size=SIZE, file_size=SIZE, cache=SIZE, offset=BYTES,
commit=SECONDS, dirty=SIZE, compress=CODEC, discard, as of `esker mount`.

What was compiled is kept in $XDG_CACHE_HOME/esker (~/.cache/esker), if nobody else can write there.

The exit status is the program's, at most 255; 134 when it did what no program may (a trap).

Examples:
  esker run app.wasm --fs mem: -- one two       the program app with two arguments
  esker run app.wasm --fs tree.esker            over an image, which stays as it is
  esker run app.wasm --fs disk.vol --dir data::/
                                                the directory data of a volume as its root
  esker run app.wasm --fs mem: --from ./tree    over a copy of a tree, in memory
  esker run app.wasm --env LANG=C --env HOME    with variables, HOME as it is here")]
pub struct Run {
    /// The program: a file of WebAssembly
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// Where its files are: mem:, an image, or a volume
    #[arg(long, value_name = "HOME")]
    fs: Option<PathBuf>,
    /// A directory of the home that it sees, under a name of its own; may be repeated [default: /::/]
    #[arg(long, value_name = "DIR[::NAME]", requires = "fs")]
    dir: Vec<OsString>,
    /// A variable of its environment, or one of ours as it is; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Fill mem: first: a directory, a tar archive (plain or gzip), or - for one on standard input
    #[arg(long, value_name = "TREE|TAR", requires = "fs")]
    from: Option<PathBuf>,
    /// An image that another has as its base, where it is not beside that; may be repeated
    #[arg(long, value_name = "IMAGE")]
    base: Vec<PathBuf>,
    /// Options of the home, see below; may be repeated
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<OsString>,
    /// Compile it, whatever is kept of earlier runs, and keep nothing
    #[arg(long)]
    no_cache: bool,
    /// Say how often it called each function of WASI, on standard error when it has ended
    #[arg(long)]
    count: bool,
    /// Its arguments, behind --
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// What a trap ends with, as an abort does in a shell.
const TRAPPED: i32 = 134;

impl Run {
    /// Runs; returns only if it did not come to that.
    pub fn run(&self) -> Outcome {
        let options = Options::parse(&self.options, ram())?;
        let program = Program::load(&self.program, !self.no_cache)?;
        let (end, calls) = self.over(&program, &options)?;
        self.tell(&calls);
        let status = match end {
            // No larger one can be told.
            End::Exit(status) => status.min(255).cast_signed(),
            End::Trap(what) => {
                let program = path_shown(&self.program);
                warn(&format!("{program}: the program was stopped: {}", shown(what.as_bytes())));
                TRAPPED
            }
        };
        std::process::exit(status)
    }

    /// Opens the home, and runs the program over it.
    fn over(&self, program: &Program, options: &Options) -> Outcome<(End, Calls)> {
        let memory = OsStr::new("mem:");
        let home = self.fs.as_deref().unwrap_or(Path::new(memory));
        fitting::check(options, home != memory && is_volume(home))?;
        if home != memory && self.from.is_some() {
            return Err(Failure::new(Exit::Usage, "--from is only for mem:", "give --fs mem:"));
        }
        if home == memory {
            let fs = Arc::new(Fs::new(homes::memory(options)?.0, SystemClock));
            if let Some(from) = &self.from {
                let request = import::Request { from, skip_unreadable: false };
                homes::fill(&fs, &request, options)?;
            }
            housekeeping::start(&fs);
            return program.run(self.context(fs)?, self.count);
        }
        if home.is_dir() {
            let remedy = "--fs mem: --from DIR runs over a copy of it";
            return Err(Failure::at(Exit::Source, "the home is a directory", home, remedy));
        }
        if is_volume(home) {
            return self.over_volume(program, home, options);
        }
        let images = Images::new(options, &self.base);
        if options.mount.read_only {
            let fs = Arc::new(Fs::new(ReadOnly(images.open(home)?), SystemClock));
            return program.run(self.context(fs)?, self.count);
        }
        let (fs, _) = images.overlay(home)?;
        let fs = Arc::new(fs);
        housekeeping::start(&fs);
        let mut context = self.context(fs)?;
        // What is only read stays below.
        context.leave_atime();
        program.run(context, self.count)
    }

    fn over_volume(
        &self,
        program: &Program,
        path: &Path,
        options: &Options,
    ) -> Outcome<(End, Calls)> {
        if options.mount.read_only {
            let opening = volumes::opening(path, false, options);
            let volume = volumes::open_over(path, &options.bases, opening)?;
            volumes::tell_damage(path, &volume);
            let fs = Arc::new(Fs::new(ReadOnly(volume), SystemClock));
            return program.run(self.context(fs)?, self.count);
        }
        let fs = volumes::writable(path, options)?;
        let name = path_shown(path);
        volumes::writer::start(&fs, options.commit_age(), name.clone())?;
        let mut context = self.context(Arc::clone(&fs))?;
        context.leave_atime();
        let ended = program.run(context, self.count);
        if !volumes::writer::finish(&fs, &name) {
            let what = "not everything that the program changed could be written";
            return Err(Failure::at(Exit::Failed, what, path, "`esker check` tells more"));
        }
        ended
    }

    /// What the program called, what it called most first.
    fn tell(&self, calls: &Calls) {
        if !self.count {
            return;
        }
        let mut calls: Vec<_> = calls.iter().collect();
        calls.sort_by_key(|(_, called)| std::cmp::Reverse(called.calls));
        let mut text = format!("{:>12} {:>12}  function\n", "calls", "refused");
        for (name, called) in calls {
            let _ = writeln!(text, "{:>12} {:>12}  {name}", called.calls, called.refused);
        }
        told(&text);
    }

    /// What the program sees.
    fn context<S: Store>(&self, fs: Arc<Fs<S>>) -> Outcome<Context<S, Outside>> {
        let mut context = Context::new(fs, Outside::new());
        let called = self.program.file_name().unwrap_or_default();
        let words = std::iter::once(called).chain(self.arguments.iter().map(OsString::as_os_str));
        for word in words {
            context.arg(word.as_bytes()).map_err(|_| wrong("an argument", word))?;
        }
        for variable in &self.env {
            let bytes = variable.as_bytes();
            let (name, value) = match bytes.iter().position(|&byte| byte == b'=') {
                Some(at) => (&bytes[..at], bytes[at + 1..].to_vec()),
                None => match std::env::var_os(variable) {
                    Some(value) => (bytes, value.into_vec()),
                    None => continue,
                },
            };
            context.env(name, &value).map_err(|_| wrong("a variable", variable))?;
        }
        let root = [OsString::from("/")];
        let given = match &self.dir[..] {
            [] if self.fs.is_some() => &root[..],
            given => given,
        };
        for given in given {
            let bytes = given.as_bytes();
            let apart = bytes.windows(2).position(|pair| pair == b"::");
            let (path, name) = apart.map_or((bytes, bytes), |at| (&bytes[..at], &bytes[at + 2..]));
            context.give(path, name).map_err(|errno| {
                let what = match errno {
                    Errno::NotFound => "there is no such directory in the home",
                    Errno::NotDirectory => "this is no directory of the home",
                    _ => "the program cannot be given this directory",
                };
                Failure::new(
                    Exit::Usage,
                    format!("{what}: {}", shown(path)),
                    "choose another --dir",
                )
            })?;
        }
        Ok(context)
    }
}

fn wrong(what: &str, word: &OsStr) -> Failure {
    Failure::new(Exit::Usage, format!("{what} that no program can have: {}", os_shown(word)), "")
}
