//! `esker find`: files in an image by name, type and size.

use std::io::{BufWriter, Write as _};

use clap::Args;
use esker::store::Flow;

use super::look::{Look, Troubles, described, path_of, written};
use crate::failure::{Outcome, shown};
use crate::images::{Node, mode_shown, walk};
use crate::pack::glob;
use crate::printed::printer;

/// Find files in an image.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker find x.esker --name '*.so*' --type f
  esker find x.esker:/usr --larger 10M")]
pub struct Find {
    #[command(flatten)]
    pub look: Look,
    /// Whose name matches this pattern
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// Whose path matches this pattern (`**` goes through directories)
    #[arg(long, value_name = "PATTERN")]
    path: Option<String>,
    /// Of this type: f, d, l, p, s, c or b
    #[arg(long = "type", value_name = "LETTER")]
    kind: Option<char>,
    /// Larger than this
    #[arg(long, value_name = "SIZE", value_parser = size)]
    larger: Option<u64>,
    /// Smaller than this
    #[arg(long, value_name = "SIZE", value_parser = size)]
    smaller: Option<u64>,
}

fn size(word: &str) -> Result<u64, String> {
    crate::units::parse_size(word, 0).map_err(|_| "give bytes, as in 512K".to_owned())
}

impl Find {
    fn wants(&self, node: &Node) -> bool {
        let kind = self.kind.is_none_or(|letter| {
            let own = mode_shown(&node.attr).chars().next();
            own == Some(if letter == 'f' { '-' } else { letter })
        });
        let name = self.name.as_ref().is_none_or(|name| glob(name.as_bytes(), node.name()));
        let path = self.path.as_ref().is_none_or(|path| glob(path.as_bytes(), path_of(node)));
        let larger = self.larger.is_none_or(|size| node.attr.size > size);
        let smaller = self.smaller.is_none_or(|size| node.attr.size < size);
        kind && name && path && larger && smaller
    }

    /// Finds.
    pub fn run(&self) -> Outcome {
        let mut out = BufWriter::new(printer());
        self.look.each(|image, start| {
            let mut troubles = Troubles::default();
            let mut each = |node: &Node| {
                if !self.wants(node) {
                    return Flow::Continue(());
                }
                written(match self.look.json {
                    true => writeln!(out, "{}", described(image, node)),
                    false => writeln!(out, "{}", shown(path_of(node))),
                })
            };
            walk(image, start, &mut each, &mut |node, error| troubles.tell(&node.path, error));
            let _ = out.flush();
            troubles.outcome()
        })
    }
}
