//! What is packed: directories, archives, images, volumes; one, or several side by side.
//!
//! Above: `hooks`, `verbs::pack`, `verbs::repack`. Below: `walk`, `archive`, `again`, `survey`. Invariant: each is
//! opened when its turn comes, unless somebody chooses what of them comes first; what comes first comes once.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::Kind;
use esker::store::View;
use esker_image::pack::{Error, Meta, NodeId, Options, Times, Waiting};
use esker_image::{Cache, Image};
use esker_stone::superblock::MAGIC;
use esker_stone::{Setting, Start};

use super::archive::unpack;
use super::nonsense::{NOT_THERE, no_file};
use super::survey::{Thing, kind_word, survey, survey_view};
use super::walk::{Links, Root, gather, gather_first};
use super::work::Work;
use super::{Again, Bar, Output, Plan, Rules, Total, failure};
use crate::failure::{Exit, Failure, Outcome, said};
use crate::images::{self, Opening, exactly};
use crate::import::source;
use crate::volumes::{self, is_volume};

/// How long blocks are where an archive waits: files come from all over it.
const WAITING_BLOCK_LEN: usize = 64 << 10;

/// One of what is packed.
pub struct Input<'a> {
    path: &'a Path,
    /// Its directory in the image, where it is not alone.
    name: Option<Vec<u8>>,
    /// None: not yet opened.
    source: Option<Source>,
    /// Where its root goes, once that is there.
    top: Option<NodeId>,
    /// What was chosen to be left out, below its root; that itself has no path.
    pub out: HashSet<Vec<u8>>,
}

/// What one is, opened.
enum Source {
    Directory(Links),
    Archive(Box<dyn Read>),
    /// Whatever shows a tree; and its files, once their names are in the image without their bytes.
    View(Box<dyn View>, Option<Waiting>),
}

/// How they are packed.
pub struct Packing<'a> {
    /// What is decoded of images is kept here.
    pub cache: Arc<Cache>,
    /// Where what volumes lie on may be.
    pub volume_bases: &'a [PathBuf],
    /// What is taken, and how.
    pub plan: &'a Plan<'a>,
    /// What directories get that nobody says anything of.
    pub root: &'a Meta,
    /// Where it all goes.
    pub output: &'a Output,
}

/// These inputs, not yet opened.
pub fn inputs(paths: &[PathBuf]) -> Outcome<Vec<Input<'_>>> {
    let mut names = HashSet::new();
    let each = paths.iter().map(|path| {
        // A snapshot is no file of its own: it is what it was called.
        let place = path.canonicalize().unwrap_or_else(|_| path.clone());
        let name = place.file_name().filter(|_| path.as_os_str() != "-");
        let name = name.map_or(&b"root"[..], OsStr::as_encoded_bytes).to_vec();
        if !names.insert(name.clone()) {
            let what = "two inputs have the same name";
            return Err(Failure::at(Exit::Usage, what, path, "rename one of them"));
        }
        Ok(Input::new(path, (paths.len() > 1).then_some(name), None))
    });
    each.collect()
}

/// A file that comes first.
#[derive(Debug, PartialEq, Eq)]
pub struct First {
    /// Of which input.
    pub input: usize,
    /// Where it is below the root of that.
    pub path: Vec<u8>,
    /// It is wanted first when the image is used.
    pub hot: bool,
}

/// Packs what comes first, and then the rest of one input after the other.
pub fn take(
    mut inputs: Vec<Input<'_>>,
    first: &[First],
    packing: &Packing<'_>,
    work: &mut Work,
) -> Outcome {
    if !first.is_empty() {
        inputs.iter_mut().try_for_each(|input| input.names(packing, work))?;
    }
    for run in first.chunk_by(|one, next| one.input == next.input) {
        inputs[run[0].input].first(run, packing, work)?;
    }
    inputs.into_iter().try_for_each(|input| input.rest(packing, work))
}

/// Opens all of them, so that they can be looked at before they are packed. An archive goes by once, and what comes
/// first may be at its end: it is packed as it is into a file without a name, and that is taken in its place.
pub fn lay_open(
    inputs: &mut [Input<'_>],
    options: &Options,
    packing: &Packing<'_>,
    quiet: bool,
) -> Outcome {
    source::allow_many_files();
    for input in inputs {
        input.source = Some(match Source::open(input.path, packing)? {
            Source::Archive(archive) => {
                let bar = Bar::new(quiet, Total::default());
                let image = waiting(archive, input.path, options, packing, bar)?;
                Source::View(Box::new(image), None)
            }
            source => source,
        });
    }
    Ok(())
}

/// An archive as an image that goes with the program.
fn waiting(
    archive: Box<dyn Read>,
    path: &Path,
    options: &Options,
    packing: &Packing<'_>,
    bar: Bar,
) -> Outcome<Image> {
    let output = packing.output;
    let failed = |error: Error| failure(error, output);
    let quick = Options::level(1, options.threads, options.memory);
    let quick = Options {
        pages: Setting::new(quick.data.codec, 1),
        block_len: WAITING_BLOCK_LEN,
        repeats: None,
        times: Times::All,
        ..quick
    };
    let file = output.beside().map_err(|error| output.failure(&error))?;
    let mut work = Work::new(file, packing.root.clone(), quick, output, bar)?;
    let rules = Rules::default();
    unpack(archive, path, NodeId::ROOT, &Plan::plain(&rules), &mut work, &failed)?;
    let (_, file, _) = work.finish().map_err(failed)?;
    let cache = Arc::clone(&packing.cache);
    let image = Image::open(Box::new(file), Start::At(0), Vec::new(), cache);
    image.map_err(|error| failed(error.into()))
}

impl Packing<'_> {
    fn meets_no_output(&self, work: &Work) -> Outcome {
        if work.gathered.meets_output { Err(self.output.lies_inside()) } else { Ok(()) }
    }
}

/// It cannot be read.
pub fn unreadable(input: &Path, error: &std::io::Error) -> Failure {
    let what = format!("cannot read what is to be packed ({})", said(error));
    Failure::at(Exit::Source, &what, input, "give a directory, a tar archive, an image or a volume")
}

/// Whether an image begins here.
pub fn is_image(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == MAGIC
}

impl Source {
    /// Opens whatever it is.
    fn open(path: &Path, packing: &Packing<'_>) -> Outcome<Self> {
        let shown = |view| Self::View(view, None);
        if path.as_os_str() == "-" {
            return Ok(Self::Archive(Box::new(std::io::stdin())));
        }
        if path.is_dir() {
            return Ok(Self::Directory(Links::new()));
        }
        if is_volume(path) {
            return Ok(shown(Box::new(volumes::look_over(path, packing.volume_bases)?)));
        }
        if let Some(snapshot) = volumes::snapshots::look(path, packing.volume_bases) {
            return Ok(shown(Box::new(snapshot?)));
        }
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        if !is_image(&file) {
            return Ok(Self::Archive(Box::new(file)));
        }
        Ok(shown(Box::new(images::open(path, &Opening::default(), &packing.cache)?)))
    }
}

impl<'a> Input<'a> {
    fn new(path: &'a Path, name: Option<Vec<u8>>, source: Option<Source>) -> Self {
        Self { path, name, source, top: None, out: HashSet::new() }
    }

    /// An image that is open.
    pub fn of(path: &'a Path, image: Image) -> Self {
        Self::new(path, None, Some(Source::View(Box::new(image), None)))
    }

    /// All things in it that the plan takes, under the paths that they have in the image.
    pub fn things(&self, plan: &Plan<'_>) -> Vec<Thing> {
        let mut things = match &self.source {
            Some(Source::Directory(_)) => survey(self.path, plan),
            Some(Source::View(view, _)) => survey_view(&**view, plan.rules),
            _ => Vec::new(),
        };
        let Some(name) = &self.name else {
            // The root of the image has no name.
            things.drain(..things.len().min(1));
            return things;
        };
        for thing in &mut things {
            let below = std::mem::take(&mut thing.path);
            let slash = if below.is_empty() { &b""[..] } else { b"/" };
            thing.path = [&name[..], slash, &below].concat();
        }
        things
    }

    /// What of a path in the image is below the root of this.
    pub fn below<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let Some(name) = &self.name else { return Some(path) };
        match path.strip_prefix(&name[..])? {
            [] => Some(&[]),
            rest => rest.strip_prefix(b"/"),
        }
    }

    /// Whether a list may name a file of which nobody is told: what is damaged, or with `all` left out by rules.
    pub fn has(&self, below: &[u8], all: bool) -> Result<(), String> {
        let Some(Source::View(view, _)) = &self.source else { return Err(NOT_THERE.to_owned()) };
        match exactly(&**view, below) {
            // It is told when it is packed.
            Err(esker::Error::Io) => Ok(()),
            Ok((_, Kind::File)) if all => Ok(()),
            Ok((_, kind)) if all => Err(no_file(kind_word(kind))),
            _ => Err(NOT_THERE.to_owned()),
        }
    }

    fn is_out(&self) -> bool {
        self.out.contains(&b""[..])
    }

    /// Where its root goes.
    fn top(&mut self, packing: &Packing<'_>, work: &mut Work) -> Outcome<NodeId> {
        let top = match (self.top, &self.name) {
            (Some(top), _) => top,
            (None, None) => NodeId::ROOT,
            (None, Some(name)) => {
                let made = work.packer.make(NodeId::ROOT, name, packing.root.clone());
                made.map_err(|error| failure(error, packing.output))?
            }
        };
        self.top = Some(top);
        Ok(top)
    }

    /// Packs names and attributes, where these can come before the bytes.
    fn names(&mut self, packing: &Packing<'_>, work: &mut Work) -> Outcome {
        if self.is_out() {
            return Ok(());
        }
        let top = self.top(packing, work)?;
        if let Some(Source::View(view, waiting)) = &mut self.source {
            let again = Again { file: self.path, plan: packing.plan, out: &self.out };
            let names = again.names(&**view, top, work);
            *waiting = Some(names.map_err(|error| failure(error, packing.output))?);
        }
        Ok(())
    }

    /// Packs these files of it.
    fn first(&mut self, files: &[First], packing: &Packing<'_>, work: &mut Work) -> Outcome {
        if self.is_out() {
            return Ok(());
        }
        let (top, plan, out) = (self.top(packing, work)?, packing.plan, &self.out);
        let done = match &mut self.source {
            Some(Source::Directory(links)) => {
                gather_first(&Root { path: self.path, top, plan, out }, files, links, work)
            }
            Some(Source::View(view, Some(waiting))) => {
                let again = Again { file: self.path, plan, out };
                files.iter().try_for_each(|file| again.first(&**view, file, waiting, work))
            }
            _ => Ok(()),
        };
        done.map_err(|error| failure(error, packing.output))?;
        packing.meets_no_output(work)
    }

    /// Packs all of it that is not there.
    fn rest(mut self, packing: &Packing<'_>, work: &mut Work) -> Outcome {
        if self.is_out() {
            return Ok(());
        }
        let (top, plan, out) = (self.top(packing, work)?, packing.plan, &self.out);
        let failed = |error: Error| failure(error, packing.output);
        let again = Again { file: self.path, plan, out };
        let source = match self.source {
            None => Source::open(self.path, packing)?,
            Some(source) => source,
        };
        let done = match source {
            Source::Archive(archive) => {
                return unpack(archive, self.path, top, plan, work, &failed);
            }
            Source::Directory(mut links) => {
                gather(&Root { path: self.path, top, plan, out }, &mut links, work)
            }
            Source::View(view, None) => again.all(&*view, top, work),
            Source::View(view, Some(waiting)) => again.rest(&*view, waiting, work),
        };
        done.map_err(failed)?;
        packing.meets_no_output(work)
    }
}
