//! Clones of what snapshots hold, made by chance in a volume and in the model beside it.
//!
//! Above: [`crate::cut`]. Below: `esker_volume`, the model. Invariant: both have the same bytes then, or nothing has
//! changed in either.

use std::sync::Arc;

use esker::store::{Batch, Change, Flow, Store as _, View};
use esker::{Cursor, Ino, Kind, Name, Result};
use esker_volume::device::Device;
use esker_volume::{SNAPSHOTS, Shown};

use crate::chance::Chance;
use crate::model::Model;
use crate::world::on_volume::Above;

/// Bytes that are cloned at once, at most.
const LEN_MAX: u64 = 64 << 10;

type Path = Vec<Vec<u8>>;

/// All files, by their names.
fn files(view: &dyn View) -> Result<Vec<(Path, Ino)>> {
    let (mut files, mut todo) = (Vec::new(), vec![(Path::new(), Ino::ROOT)]);
    while let Some((path, dir)) = todo.pop() {
        view.entries(dir, Cursor::DOT_DOT, false, &mut |listed| {
            let path = [&path[..], &[listed.name.bytes().to_vec()]].concat();
            match listed.entry.kind {
                Kind::Directory => todo.push((path, listed.entry.ino)),
                Kind::File => files.push((path, listed.entry.ino)),
                _ => {}
            }
            Flow::Continue(())
        })?;
    }
    Ok(files)
}

fn walk(view: &dyn View, from: Ino, path: &Path) -> Result<Ino> {
    path.iter().try_fold(from, |dir, name| Ok(view.entry(dir, Name::parse(name)?)?.ino))
}

/// Some bytes of a file of a snapshot, which shows what `then` does, become those of a file of the home, and of the
/// model; whether there was something to take, and something to put it into.
///
/// # Errors
/// What the home says when it is told to.
pub fn clone_some<D: Device>(
    home: &Above<D>,
    (name, then): (&str, &Model),
    (model, chance): (&Model, &mut Chance),
) -> Result<bool> {
    let with_data = |(_, ino): &(Path, Ino)| then.next_data(*ino, 0).is_ok_and(|d| d.is_some());
    let sources: Vec<_> = files(then)?.into_iter().filter(with_data).collect();
    let targets = files(model)?;
    if sources.is_empty() || targets.is_empty() {
        return Ok(false);
    }
    let ((path, own), (to, own_to)) =
        (chance.pick(&sources).clone(), chance.pick(&targets).clone());
    let data = then.next_data(own, 0)?.map_or(0, |data| data.start());
    let from = data + if chance.below(2) == 0 { chance.below(5000) } else { 0 };
    let mut bytes = vec![0; (1 + chance.below(LEN_MAX)) as usize];
    let len = then.read(own, from, &mut bytes)?;
    bytes.truncate(len);
    if bytes.is_empty() {
        return Ok(false);
    }
    let at = if chance.below(2) == 0 { from } else { chance.below(30_000) };
    let shown = Shown::new(Arc::clone(home.shared()), Arc::clone(home.shared()))?;
    let shelf = shown.entry(Ino::ROOT, Name::parse(SNAPSHOTS.as_bytes())?)?.ino;
    let root = shown.entry(shelf, Name::parse(name.as_bytes())?)?.ino;
    let (source, ino) = (walk(&shown, root, &path)?, walk(home, Ino::ROOT, &to)?);
    let mut batch = Batch::new();
    batch.push(Change::Share { source, from, ino, at, len: len as u64 });
    home.commit(&batch)?;
    let mut batch = Batch::new();
    batch.push(Change::Write { ino: own_to, at, source: &bytes });
    model.commit(&batch)?;
    Ok(true)
}
