//! `esker send`: a snapshot, or how two differ, as a stream.

use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use esker_stone::Setting;
use esker_stone::cache::Cache;
use esker_volume::device::FileDevice;
use esker_volume::stream::{Error, Frame, Mark, Moment, Tree, send};
use esker_volume::{Options, Snapped, Volume};

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::images::CACHE_LEN;
use crate::pack::Output;
use crate::streams::{Paths, token};
use crate::volumes::base::Given;
use crate::volumes::{self, setting, snapshots};

/// Send a snapshot of a volume, or how it differs from another one, as a stream.
///
/// The stream goes to a file or to standard output. `esker receive` makes the same of it: in a volume, a directory or
/// an image. What has only another name is not sent again. The same snapshots give the same stream, so one that was cut
/// short goes on with --from.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker send disk.vol@monday -o monday.stream
  esker send disk.vol@tuesday --since monday -o tuesday.stream
  esker send disk.vol@monday | ssh host esker receive other.vol
  esker send disk.vol@monday --from TOKEN | ssh host esker receive other.vol
                                       go on with TOKEN from `esker receive other.vol --have`")]
pub struct Send {
    /// A snapshot of a volume that is not mounted to be written
    #[arg(value_name = "VOLUME@NAME")]
    source: PathBuf,
    /// Only what is different from this snapshot of the same volume
    #[arg(long, value_name = "NAME")]
    since: Option<String>,
    /// Where to write it [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Go on behind what `esker receive --have` told
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    from: Option<Mark>,
    #[command(flatten)]
    given: Given,
    /// none, lz4, zstd or zstd:LEVEL
    #[arg(long, value_name = "CODEC", default_value = "zstd", value_parser = setting)]
    compress: Setting,
    /// Replace what is there under the name of the output
    #[arg(short = 'F', long, requires = "output")]
    force: bool,
    /// Print one line of JSON about the result
    #[arg(long, requires = "output")]
    pub json: bool,
}

/// Writes frames, from the one that is wanted on.
struct Sink<'a> {
    out: &'a mut dyn Write,
    setting: Setting,
    from: Mark,
    /// As far as it was written, or would have been.
    at: Mark,
}

impl Sink<'_> {
    fn give(&mut self, frame: &Frame) -> Result<(), Error> {
        self.at = frame.mark();
        if self.at.frames == self.from.frames && self.at.chain != self.from.chain {
            return Err(Error::OtherStream);
        }
        if frame.number == 0 || frame.number >= self.from.frames {
            frame.write(self.setting, self.out)?;
        }
        Ok(())
    }
}

impl Send {
    /// Sends it.
    pub fn run(&self) -> Outcome {
        let (path, name) = snapshots::named(&self.source).ok_or_else(|| {
            let (what, remedy) = ("no snapshot of a volume", "name one as VOLUME@NAME");
            let other = || Failure::at(Exit::Usage, what, &self.source, remedy);
            volumes::owner::is_a_mount(&self.source).unwrap_or_else(other)
        })?;
        let options = Options::new(Cache::new(CACHE_LEN));
        let volume = Arc::new(volumes::open_over(&path, &self.given.bases, options)?);
        let Some(output) = &self.output else {
            let out = std::io::stdout();
            if out.is_terminal() {
                let what = "a stream is nothing for a terminal";
                return Err(Failure::new(Exit::Usage, what, "give -o, or a pipe"));
            }
            return self.stream(&path, &name, &volume, &mut out.lock()).map(drop);
        };
        let file = Output::of("stream", output, self.force)?;
        let mark = self.stream(&path, &name, &volume, &mut file.file()?)?;
        file.keep()?;
        if self.json {
            let line = serde_json::json!({
                "snapshot": name,
                "since": self.since,
                "frames": mark.frames,
                "token": mark.to_string(),
            });
            say(&line.to_string());
        } else {
            say(&format!("sent {name} in {} frames: {}", mark.frames, path_shown(output)));
        }
        Ok(())
    }

    fn stream(
        &self,
        path: &Path,
        name: &str,
        volume: &Arc<Volume<FileDevice>>,
        out: &mut dyn Write,
    ) -> Outcome<Mark> {
        let open = |name: &str| -> Outcome<(Snapped<FileDevice>, Moment)> {
            let row = volume.snapshot(name);
            let row = row.map_err(|error| snapshots::refused(path, name, error))?;
            let snapped = Snapped::new(Arc::clone(volume), name);
            let snapped = snapped.map_err(|error| snapshots::refused(path, name, error))?;
            Ok((snapped, Moment::of(volume.shape().uuid, &row)))
        };
        let now = open(name)?;
        let since = self.since.as_deref().map(open).transpose()?;
        let now = Tree { view: &now.0, moment: now.1 };
        let since = since.as_ref().map(|(view, moment)| Tree { view, moment: *moment });
        let paths = Paths { stream: &self.source, target: &self.source };
        let failed = |error| paths.failure(error);
        let mut out = BufWriter::with_capacity(1 << 20, out);
        let from = self.from.unwrap_or_default();
        let mut sink = Sink { out: &mut out, setting: self.compress, from, at: Mark::default() };
        send(&now, since.as_ref(), &mut |frame| sink.give(&frame)).map_err(failed)?;
        let at = sink.at;
        if at.frames < from.frames {
            return Err(failed(Error::OtherStream));
        }
        out.flush().map_err(|error| failed(Error::Write(error)))?;
        Ok(at)
    }
}
