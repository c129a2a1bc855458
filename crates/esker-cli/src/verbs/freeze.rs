//! `esker freeze`: a volume, and what it lies on, into an image.

use clap::Args;

use super::pack::Pack;
use crate::failure::{Exit, Failure, Outcome};
use crate::volumes::{self, is_volume};

/// Pack what a volume shows, its base included, into an image.
///
/// What is read is as `esker pack` takes it, with all of its options: a volume that is not mounted for writing, or a
/// snapshot of it. With --on-top the image holds only what is not in the base of the volume, and lies on that too.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker freeze disk.vol -o disk.esker           all of it, base and changes
  esker freeze disk.vol@before -o before.esker  as it was
  esker freeze disk.vol -o new.esker --on-top   only what is not in its base

Levels and the other options are those of `esker pack`.
Exit status: 5 if something could not be read, or changed meanwhile; it is named.")]
pub struct Freeze {
    /// Store only what is not in the base of the volume; the image cannot be read without that, and must lie beside it
    #[arg(long, conflicts_with = "base")]
    on_top: bool,
    #[command(flatten)]
    pub pack: Pack,
}

impl Freeze {
    /// Packs.
    pub fn run(mut self) -> Outcome {
        let [input] = &self.pack.inputs[..] else {
            let what = "one volume is frozen at a time";
            return Err(Failure::new(Exit::Usage, what, "`esker pack` takes several trees"));
        };
        let snapshot = volumes::snapshots::named(input).map(|(volume, _)| volume);
        let volume = snapshot.unwrap_or_else(|| input.clone());
        if !is_volume(&volume) {
            let (what, remedy) = ("not a volume", "`esker pack` packs other things");
            let other = || Failure::at(Exit::Source, what, input, remedy);
            return Err(volumes::owner::is_a_mount(input).unwrap_or_else(other));
        }
        if self.on_top {
            let base =
                volumes::look_over(&volume, &self.pack.volume_base)?.base().ok_or_else(|| {
                    let what = "the volume lies on nothing: --on-top is for one with a base";
                    Failure::at(Exit::Usage, what, &volume, "leave it out")
                })?;
            self.pack.base.push(volumes::base::path(&base));
        }
        self.pack.run()
    }
}
