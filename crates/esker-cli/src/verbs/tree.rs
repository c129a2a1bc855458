//! `esker tree`: the tree of an image, drawn.

use std::io::{BufWriter, Write as _};

use clap::Args;
use esker::Kind;
use esker::store::Flow;

use super::look::{Look, Troubles, described, path_of, written};
use crate::failure::{Outcome, shown};
use crate::images::{Node, walk};
use crate::printed::printer;

/// Draw the tree of an image.
#[derive(Args)]
pub struct Tree {
    #[command(flatten)]
    pub look: Look,
    /// How many levels to show
    #[arg(short, long, value_name = "N")]
    depth: Option<usize>,
}

impl Tree {
    /// Draws.
    pub fn run(&self) -> Outcome {
        let mut out = BufWriter::new(printer());
        self.look.each(|image, start| {
            let mut troubles = Troubles::default();
            let mut each = |node: &Node| {
                let name = if node.depth == 0 { path_of(node) } else { node.name() };
                let directory = node.attr.kind == Kind::Directory && node.depth > 0;
                let done = match self.look.json {
                    true => writeln!(out, "{}", described(image, node)),
                    false => {
                        let indent = "    ".repeat(node.depth);
                        let tail = if directory { "/" } else { "" };
                        writeln!(out, "{indent}{}{tail}", shown(name))
                    }
                };
                written(done)?;
                let enter = self.depth.is_none_or(|depth| node.depth < depth);
                if enter { Flow::Continue(()) } else { Flow::Break(()) }
            };
            walk(image, start, &mut each, &mut |node, error| troubles.tell(&node.path, error));
            let _ = out.flush();
            troubles.outcome()
        })
    }
}
