//! `esker du`: how much is in the directories of an image.

use std::collections::HashSet;
use std::io::{BufWriter, Write as _};

use clap::Args;
use esker::Kind;
use esker::store::Flow;
use serde_json::json;

use super::look::{Look, Troubles, path_of};
use crate::failure::{Outcome, shown};
use crate::images::{Node, walk};
use crate::printed::printer;
use crate::units::size_shown;

/// Tell how much is in the directories of an image.
#[derive(Args)]
pub struct Du {
    #[command(flatten)]
    pub look: Look,
    /// How many levels of directories to show
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// In bytes
    #[arg(short, long)]
    bytes: bool,
}

impl Du {
    /// Tells: bytes of files, holes not counted, each inode once.
    pub fn run(&self) -> Outcome {
        let mut out = BufWriter::new(printer());
        self.look.each(|image, start| {
            let mut troubles = Troubles::default();
            // Directories on the way down: path and sum. One is done when something beside it comes.
            let mut open: Vec<(Node, u64)> = Vec::new();
            let mut done: Vec<(Node, u64)> = Vec::new();
            let mut seen = HashSet::new();
            let mut close = |open: &mut Vec<(Node, u64)>, depth: usize| {
                while open.last().is_some_and(|(node, _)| node.depth >= depth) {
                    let Some((node, sum)) = open.pop() else { return };
                    if let Some((_, above)) = open.last_mut() {
                        *above += sum;
                    }
                    done.push((node, sum));
                }
            };
            let mut each = |node: &Node| {
                close(&mut open, node.depth);
                let again = node.attr.nlink > 1
                    && node.attr.kind != Kind::Directory
                    && !seen.insert(node.ino);
                let own = if again { 0 } else { node.attr.blocks.saturating_mul(512) };
                match (node.attr.kind, open.last_mut()) {
                    (Kind::Directory, _) | (_, None) => open.push((node.clone(), own)),
                    (_, Some((_, sum))) => *sum += own,
                }
                Flow::Continue(())
            };
            walk(image, start, &mut each, &mut |node, error| troubles.tell(&node.path, error));
            close(&mut open, 0);
            for (node, sum) in done.iter().filter(|(node, _)| node.depth <= self.depth) {
                let _ = match (self.look.json, self.bytes) {
                    (true, _) => {
                        let line = json!({ "path": shown(path_of(node)), "bytes": sum });
                        writeln!(out, "{line}")
                    }
                    (_, true) => writeln!(out, "{sum}\t{}", shown(path_of(node))),
                    _ => writeln!(out, "{:>10}  {}", size_shown(*sum), shown(path_of(node))),
                };
            }
            let _ = out.flush();
            troubles.outcome()
        })
    }
}
