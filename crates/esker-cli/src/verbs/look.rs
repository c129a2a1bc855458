//! What the verbs that look into images share: `ls, cat, stat, find, du, tree`.
//!
//! Above: those verbs. Below: `images`. Invariant: what cannot be read is named on standard error, and the rest is
//! still shown.

use std::io;
use std::ops::ControlFlow;

use clap::Args;
use esker::Kind;
use esker::store::{Flow, View};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Outcome, shown};
use crate::images::{self, Node, Open, Opening, Place, PlaceParser, kind_shown};
use crate::printed::warn;

/// Bytes that are moved at a time.
pub const CHUNK: usize = 1 << 20;

/// The image and the place in it that a verb is about.
#[derive(Args)]
pub struct Look {
    /// An image or a volume, or a place in one as in x.esker:/usr/bin
    #[arg(value_name = "IMAGE[:/PATH]", required = true, value_parser = PlaceParser)]
    places: Vec<Place>,
    #[command(flatten)]
    opening: Opening,
    /// Print lines of JSON
    #[arg(long)]
    pub json: bool,
}

/// What could not be read on the way.
#[derive(Default)]
pub struct Troubles(u64);

impl Troubles {
    /// Tells.
    pub fn tell(&mut self, path: &[u8], error: esker::Error) {
        self.0 += 1;
        warn(&format!("{}: {error}", images::inner_shown(path)));
    }

    /// Whether there were any.
    pub fn outcome(&self) -> Outcome {
        if self.0 == 0 {
            return Ok(());
        }
        Err(Failure { exit: Exit::Damaged, text: String::new() })
    }
}

/// Writes; whoever closed the pipe has seen enough.
pub fn written(done: io::Result<()>) -> Flow {
    if done.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

impl Look {
    /// Calls `look` for what each place leads to; of several, a failure does not stop the others.
    pub fn each(&self, look: impl FnMut(&dyn View, Node) -> Outcome) -> Outcome {
        self.each_by(images::open_any, images::find, look)
    }

    /// The same for who reads files.
    pub fn each_read(&self, look: impl FnMut(&dyn View, Node) -> Outcome) -> Outcome {
        self.each_by(images::open_to_read, images::find, look)
    }

    /// The same for what has the names, also where these are symbolic links.
    pub fn each_itself(&self, look: impl FnMut(&dyn View, Node) -> Outcome) -> Outcome {
        self.each_by(images::open_any, images::find_itself, look)
    }

    fn each_by(
        &self,
        open: Open,
        find: fn(&dyn View, &Place) -> Outcome<Node>,
        mut look: impl FnMut(&dyn View, Node) -> Outcome,
    ) -> Outcome {
        let cache = images::cache();
        let mut first = Ok(());
        for place in &self.places {
            let looked = open(&place.image, &self.opening, &cache)
                .and_then(|image| find(&*image, place).and_then(|node| look(&*image, node)));
            match looked {
                Err(failure) if self.places.len() > 1 => {
                    warn(&failure.text);
                    first = first.and(Err(Failure { text: String::new(), ..failure }));
                }
                looked => first = first.and(looked),
            }
        }
        first
    }
}

/// Its path, also of the root.
pub fn path_of(node: &Node) -> &[u8] {
    if node.path.is_empty() { b"/" } else { &node.path }
}

/// What there is to say of something, for a machine.
pub fn described(image: &dyn View, node: &Node) -> Value {
    let attr = &node.attr;
    let mut value = json!({
        "path": shown(path_of(node)),
        "type": kind_shown(attr.kind),
        "ino": node.ino.0,
        "mode": format!("{:04o}", attr.perm),
        "links": attr.nlink,
        "uid": attr.uid,
        "gid": attr.gid,
        "size": attr.size,
        "blocks": attr.blocks,
        "mtime": attr.mtime.secs,
        "mtime_ns": attr.mtime.nanos,
    });
    if attr.kind == Kind::Symlink
        && let Ok(target) = images::target(image, node)
    {
        value["target"] = json!(crate::failure::os_shown(&target));
    }
    value
}
