//! `esker cat`: the content of files in an image.

use std::io::Write as _;

use clap::Args;
use esker::Kind;

use super::look::{CHUNK, Look, path_of};
use crate::failure::{Exit, Failure, Outcome, shown};
use crate::printed::printer;

/// Print the content of files in an image.
#[derive(Args)]
pub struct Cat {
    #[command(flatten)]
    pub look: Look,
}

impl Cat {
    /// Prints.
    pub fn run(&self) -> Outcome {
        let mut out = printer();
        self.look.each_read(|image, node| {
            let failed = |error: esker::Error| {
                let exit = if error == esker::Error::Io { Exit::Damaged } else { Exit::Failed };
                Failure::new(exit, format!("{}: {error}", shown(path_of(&node))), "")
            };
            if node.attr.kind != Kind::File {
                return Err(failed(match node.attr.kind {
                    Kind::Directory => esker::Error::IsDirectory,
                    _ => esker::Error::Invalid,
                }));
            }
            let mut buffer = vec![0; CHUNK];
            let mut at = 0;
            while at < node.attr.size {
                let count = image.read(node.ino, at, &mut buffer).map_err(failed)?;
                if out.write_all(&buffer[..count]).is_err() {
                    return Ok(());
                }
                at += count as u64;
            }
            Ok(())
        })
    }
}
