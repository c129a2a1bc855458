//! One program that makes and removes files, and two: both on one CPU, and each on a CPU of its own. Over
//! io_uring each CPU has a queue, so these are two clients on one queue and on two.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::super::files::Files;
use super::super::stop;
use super::{Run, by_all, file_name};

/// A program on its CPU, in a directory of its own.
struct Client<F> {
    cpu: usize,
    dir: F,
}

/// Each placement in turn; those with two CPUs where we may use two.
pub fn run<F: Files + Send>(run: &mut Run<'_>, place: &F) -> io::Result<()> {
    let all = sched_getaffinity(None)?;
    let mut usable = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu));
    let first = usable.next().ok_or_else(|| io::Error::other("no CPU to run on"))?;
    let both: [usize; 2] = [first, first];
    let mut placements = vec![("1 client", &both[..1]), ("2 clients on one CPU", &both[..])];
    let apart = usable.next().map(|second| [first, second]);
    placements.extend(apart.as_ref().map(|apart| ("2 clients on two CPUs", &apart[..])));
    let count = run.settings.most_files();
    for (row, cpus) in placements {
        let clients = cpus.iter().enumerate().map(|(number, &cpu)| {
            Ok(Client { cpu, dir: place.make_dir(&format!("client-{number}"))? })
        });
        let mut clients = clients.collect::<io::Result<Vec<_>>>()?;
        let operations = 2 * count * clients.len() as u64;
        run.rate(format!("create and remove, {row}"), operations, || {
            by_all(&mut clients, |client| client.work(count))
        })?;
        (0..clients.len()).try_for_each(|number| place.remove_dir(&format!("client-{number}")))?;
    }
    Ok(())
}

impl<F: Files> Client<F> {
    fn work(&self, count: u64) -> io::Result<()> {
        let mut cpus = CpuSet::new();
        cpus.set(self.cpu);
        // Of this thread, which ends with its work.
        sched_setaffinity(None, &cpus)?;
        for number in 0..count {
            stop::check()?;
            let name = file_name(number);
            self.dir.create(&name, false)?;
            self.dir.remove(name.as_bytes())?;
        }
        Ok(())
    }
}
