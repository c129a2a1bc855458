//! A memory file system in forty lines: `memfs DIR [OPTIONS]` serves one on DIR until it is
//! unmounted. With the word `null` among the options it serves nothing instead, as fast as nothing
//! can be served.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use esker::ground::Clock;
use esker::memory::{Home, Options};
use esker::posix::Fs;
use esker::{Attr, Ino, Kind};
use esker_fuse::{Door, MountOptions, Null, Session, mount};
use esker_host::{Arena, SystemClock};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("usage: memfs DIR [OPTIONS]")?;
    let mut options = MountOptions::default();
    let words = options.parse(&args.next().unwrap_or_default())?;
    if let Some(word) = words.iter().find(|word| *word != "null") {
        return Err(format!("option {word:?}: unknown").into());
    }
    let (device, mounted) = mount(Path::new(&dir), &options)?;
    eprintln!("{} is mounted; unmount it to stop this", mounted.dir().display());
    if words.is_empty() {
        let size = 4 << 30; // bytes
        let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, SystemClock.now());
        let limits = Options { size_max: size, file_size_max: i64::MAX as u64, root };
        let home = Home::new(Arena::new(size)?, &limits)?;
        let fs = Arc::new(Fs::new(home, SystemClock));
        Session::start(device, Arc::new(Door::new(fs, options.door())), &options.session())?
            .run()?;
    } else {
        let null = Arc::new(Null::new(options.timeouts, !options.no_xattr));
        Session::start(device, null, &options.session())?.run()?;
    }
    Ok(())
}
