//! `esker info`: what an image or a volume is.

use std::path::PathBuf;

use clap::Args;
use esker_image::Image;
use esker_stone::hex;
use esker_stone::root::{Base, Root};
use serde_json::{Map, Value, json};

use super::say;
use crate::failure::{Outcome, path_shown, shown};
use crate::images::{self, Opening};
use crate::units::size_shown;
use crate::volumes::{is_volume, report};

/// Tell what an image is: its name, what is in it, how it was packed. Or a volume: its sizes, and how full it is.
#[derive(Args)]
pub struct Info {
    /// An image, or a volume
    #[arg(value_name = "IMAGE|VOLUME")]
    image: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

impl Info {
    /// Tells. Reads the superblocks and the root page, and nothing else.
    pub fn run(&self) -> Outcome {
        if is_volume(&self.image) {
            return report::info(&self.image, &self.opening.bases, self.json)
                .map(|line| say(&line));
        }
        let image = images::open(&self.image, &self.opening, &images::cache())?;
        match self.json {
            true => say(&self.described(&image).to_string()),
            false => say(self.words(&image).trim_end()),
        }
        Ok(())
    }

    fn described(&self, image: &Image) -> Value {
        let (root, own) = (image.root(), image.rest().superblock());
        let counted = &root.statistics;
        let mut notes = Map::new();
        for (name, value) in &root.notes {
            notes.insert(shown(name), Value::String(shown(value)));
        }
        let base = |base: &Base| json!({ "name": hex(&base.name), "file": shown(&base.file) });
        json!({
            "image": self.image.to_string_lossy(),
            "name": hex(&image.name()),
            "version": own.version,
            "generation": own.generation,
            "begins": image.rest().start(),
            "size": own.size,
            "data": own.data_len,
            "metadata": own.size - own.data_len,
            "inodes": counted.inodes,
            "files": counted.files,
            "directories": counted.directories,
            "symlinks": counted.symlinks,
            "specials": counted.specials,
            "names": counted.names,
            "xattrs": counted.xattrs,
            "bytes": counted.file_bytes,
            "blocks": blocks(root),
            "block_bytes": counted.block_bytes,
            "largest_block": counted.block_len,
            "bases": root.bases.iter().map(base).collect::<Vec<_>>(),
            "notes": notes,
        })
    }

    fn words(&self, image: &Image) -> String {
        let (root, own) = (image.root(), image.rest().superblock());
        let counted = &root.statistics;
        let ratio = counted.file_bytes as f64 / own.size.max(1) as f64;
        let mut text = format!(
            "{}: an Esker image, version {}\n  name       {}\n  size       {} (1 : {ratio:.1})\n",
            path_shown(&self.image),
            own.version,
            hex(&image.name()),
            size_shown(own.size),
        );
        text += &format!(
            "  holds      {} in {} files; {} directories, {} symlinks, {} others\n",
            size_shown(counted.file_bytes),
            counted.files,
            counted.directories,
            counted.symlinks,
            counted.specials
        );
        text += &format!(
            "  blocks     {}, up to {}, {} in all, stored in {}\n",
            blocks(root),
            size_shown(counted.block_len),
            size_shown(counted.block_bytes),
            size_shown(own.data_len)
        );
        text += &format!("  metadata   {}\n", size_shown(own.size - own.data_len));
        for (name, value) in &root.notes {
            text += &format!("  {:<10} {}\n", shown(name), shown(value));
        }
        for base in &root.bases {
            text += &format!("  base       {} {}\n", shown(&base.file), hex(&base.name));
        }
        text
    }
}

fn blocks(root: &Root) -> u64 {
    root.indexes.iter().map(|(_, top)| top.entries).sum()
}
