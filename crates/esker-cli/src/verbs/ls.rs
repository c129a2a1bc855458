//! `esker ls`: what is in a directory of an image.

use std::io::{self, BufWriter, Write};

use clap::Args;
use esker::Kind;
use esker::store::{Flow, View};

use super::look::{Look, Troubles, described, written};
use crate::failure::{Outcome, shown};
use crate::images::{self, Node, mode_shown, time_shown, walk};
use crate::printed::printer;

/// List what is in a directory of an image.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker ls x.esker
  esker ls -l x.esker:/usr/bin
  esker ls -R --json x.esker")]
pub struct Ls {
    #[command(flatten)]
    pub look: Look,
    /// Kind, permissions, links, owner, group, size and time too
    #[arg(short, long)]
    long: bool,
    /// Everything below too
    #[arg(short = 'R', long)]
    recursive: bool,
}

impl Ls {
    /// Lists.
    pub fn run(&self) -> Outcome {
        let mut out = BufWriter::new(printer());
        self.look.each(|image, start| {
            let mut troubles = Troubles::default();
            let base = start.path.len();
            let directory = start.attr.kind == Kind::Directory;
            let mut each = |node: &Node| {
                if node.depth > 0 || !directory {
                    let name = match node.path.get(base + 1..) {
                        Some(name) if directory => name,
                        _ => node.name(),
                    };
                    written(self.line(&mut out, image, node, name))?;
                }
                let enter = node.depth == 0 || self.recursive;
                if enter { Flow::Continue(()) } else { Flow::Break(()) }
            };
            walk(image, start, &mut each, &mut |node, error| troubles.tell(&node.path, error));
            let _ = out.flush();
            troubles.outcome()
        })
    }

    fn line(
        &self,
        out: &mut impl Write,
        image: &dyn View,
        node: &Node,
        name: &[u8],
    ) -> io::Result<()> {
        if self.look.json {
            return writeln!(out, "{}", described(image, node));
        }
        if !self.long {
            return writeln!(out, "{}", shown(name));
        }
        let attr = &node.attr;
        write!(
            out,
            "{} {:>3} {:>5} {:>5} {:>12} {} {}",
            mode_shown(attr),
            attr.nlink,
            attr.uid,
            attr.gid,
            attr.size,
            time_shown(attr.mtime),
            shown(name)
        )?;
        if attr.kind == Kind::Symlink
            && let Ok(target) = images::target(image, node)
        {
            write!(out, " -> {}", crate::failure::os_shown(&target))?;
        }
        writeln!(out)
    }
}
