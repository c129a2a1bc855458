//! Reading what was packed: by names, at random, and all of it, from caches that are empty and from full ones.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::super::files::{Files as _, Kernel};
use super::super::stop;
use super::super::target::Target;
use super::tree::{PIECE, Tree, each};
use super::{CACHE, CACHE_SMALL, Subject};
use crate::failure::{Exit, Failure, Outcome, said};

/// What something cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds.
    pub wall: f64,
    /// CPU seconds of who asked.
    pub client: f64,
    /// CPU seconds of the server; 0 where the kernel answers, which does so in the client's name.
    pub server: f64,
}

/// Random reads: milliseconds of each, rising, and their cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reads {
    pub took: Vec<f64>,
    pub cost: Cost,
}

/// One round.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// All names and attributes, caches empty.
    pub find: Cost,
    /// Random pieces, caches empty.
    pub cold: Reads,
    /// The same again.
    pub warm: Reads,
    /// Caches empty, and a server's own too small for the tree.
    pub small: Option<Reads>,
    /// Everything once, caches empty.
    pub all: Cost,
    /// The same again.
    pub again: Cost,
    /// Bytes of memory of the server, at most.
    pub memory: Option<u64>,
}

impl Cost {
    fn json(&self) -> Value {
        json!({ "wall": self.wall, "client": self.client, "server": self.server })
    }
}

impl Reads {
    /// The one below which so much of all lies, in milliseconds.
    pub fn at(&self, share: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a few thousand"
        )]
        let at = (self.took.len() as f64 * share) as usize;
        self.took.get(at.min(self.took.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    fn json(&self) -> Value {
        let (median, p99, most) = (self.at(0.5), self.at(0.99), self.at(1.0));
        json!({ "median": median, "p99": p99, "most": most, "cost": self.cost.json() })
    }
}

impl Reading {
    /// For machines.
    pub fn json(&self) -> Value {
        json!({
            "find": self.find.json(), "cold": self.cold.json(), "warm": self.warm.json(),
            "small_cache": self.small.as_ref().map(Reads::json), "all": self.all.json(),
            "again": self.again.json(), "server_memory": self.memory,
        })
    }
}

/// Mounts and reads; `None` where nobody can mount it.
pub fn read(
    subject: &Subject,
    file: &Path,
    tree: &Tree,
    reads: usize,
    place: &Path,
) -> Outcome<Option<Reading>> {
    let at = place.join("mount");
    let mounted = |cache| -> Outcome<Option<Target>> {
        let Some(spec) = subject.mounted(file, cache) else { return Ok(None) };
        let unable = || Failure::new(Exit::Failed, "only root can empty caches", "");
        if !Kernel::new(place).drop_caches() {
            return Err(unable());
        }
        Target::start(&spec, &subject.to_string(), &at).map(Some)
    };
    let in_vain = |error: io::Error| {
        Failure::new(Exit::Failed, format!("cannot read it: {}", said(&error)), "")
    };
    let small = match mounted(CACHE_SMALL)?.filter(|_| subject.has_cache()) {
        Some(target) => {
            let small = pieces(&target, tree, reads).map_err(in_vain)?;
            let _ = target.stop()?;
            Some(small)
        }
        None => None,
    };
    let Some(target) = mounted(CACHE)? else { return Ok(None) };
    let find = cost(&target, || each(target.path(), &mut |_, _| stop::check())).map_err(in_vain)?;
    let cold = pieces(&target, tree, reads).map_err(in_vain)?;
    let warm = pieces(&target, tree, reads).map_err(in_vain)?;
    target.stop()?;
    let Some(target) = mounted(CACHE)? else { return Ok(None) };
    let all = cost(&target, || everything(target.path(), tree)).map_err(in_vain)?;
    let again = cost(&target, || everything(target.path(), tree)).map_err(in_vain)?;
    let memory = target.most_resident();
    target.stop()?;
    Ok(Some(Reading { find, cold, warm, small, all, again, memory }))
}

/// What it costs.
fn cost(target: &Target, work: impl FnOnce() -> io::Result<()>) -> io::Result<Cost> {
    let own = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let (server, client, begin) = (target.cpu(), own(), Instant::now());
    work()?;
    Ok(Cost {
        wall: begin.elapsed().as_secs_f64(),
        client: (own() - client).as_secs_f64(),
        server: target.cpu() - server,
    })
}

/// Random pieces of files, each opened for it.
fn pieces(target: &Target, tree: &Tree, reads: usize) -> io::Result<Reads> {
    let mut took = Vec::with_capacity(reads);
    let cost = cost(target, || {
        let mut piece = vec![0; PIECE as usize];
        for (path, at) in tree.places(reads) {
            stop::check()?;
            let begin = Instant::now();
            File::open(target.path().join(path))?.read_at(&mut piece, at)?;
            took.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        Ok(())
    })?;
    took.sort_unstable_by(f64::total_cmp);
    Ok(Reads { took, cost })
}

/// All bytes of all files, which must be as many as were packed.
fn everything(place: &Path, tree: &Tree) -> io::Result<()> {
    let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
    for (path, _) in &tree.files {
        stop::check()?;
        let mut file = fs::File::open(place.join(path))?;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                len => bytes += len as u64,
            }
        }
    }
    if bytes == tree.bytes {
        return Ok(());
    }
    Err(io::Error::other(format!("{bytes} bytes came out of {}", tree.bytes)))
}
