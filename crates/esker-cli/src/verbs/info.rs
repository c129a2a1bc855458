//! `esker info`: what an image or a volume is.

use std::path::PathBuf;

use clap::Args;
use esker_image::pack::{CategoryUse, uses};
use esker_image::{Image, Weights, weigh};
use esker_stone::hex;
use esker_stone::root::{Base, Root};
use serde_json::{Map, Value, json};

use super::{say, stats};
use crate::failure::{Outcome, path_shown, shown};
use crate::images::{self, Opening};
use crate::pack::{category, category_words};
use crate::units::size_shown;
use crate::volumes::{ask, is_volume, report};

/// Nobody answers there.
const NO_MOUNT: (&str, &str) = (
    "a directory, and no mount of esker's",
    "name the file of an image or a volume, or something in a mount",
);

/// Tell what an image is: its name, what is in it, how it was packed and each kind of data stored. Or
/// a volume: its sizes, and how full it is. Or a mount: of what, and what it does for the device.
#[derive(Args)]
pub struct Info {
    /// An image, a volume that is not mounted, or a mount
    #[arg(value_name = "IMAGE|VOLUME|MOUNT")]
    image: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

impl Info {
    /// Tells. Of an image it reads all pages and no blocks; of a volume the superblocks and the root.
    pub fn run(&self) -> Outcome {
        if self.image.is_dir() {
            let all = ask::ask_of(&self.image, &crate::stats::message(), NO_MOUNT)?;
            let mount = of_mount(&all);
            match self.json {
                true => say(&Value::Object(mount).to_string()),
                false => say(&words_of_mount(&path_shown(&self.image), &all, &mount)),
            }
            return Ok(());
        }
        if is_volume(&self.image) {
            return report::info(&self.image, &self.opening.bases, self.json)
                .map(|line| say(&line));
        }
        let image = images::open(&self.image, &self.opening, &images::cache())?;
        // Of one that is damaged, all else is told; `check` says what is wrong.
        let weights = weigh(&image).ok();
        let kinds = image.block_rows().map_or_else(|_| Vec::new(), |rows| uses(&rows, &[]));
        match self.json {
            true => say(&self.described(&image, weights.as_ref(), &kinds).to_string()),
            false => say(self.words(&image, weights.as_ref(), &kinds).trim_end()),
        }
        Ok(())
    }

    fn described(&self, image: &Image, weights: Option<&Weights>, kinds: &[CategoryUse]) -> Value {
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
            "metadata_of": weights.map(|own| json!({
                "inodes": own.inodes,
                "names": own.names,
                "xattrs": own.xattrs,
                "extents": own.extents,
                "index": own.index,
                "others": own.others,
            })),
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
            "categories": kinds.iter().map(category).collect::<Vec<_>>(),
            "bases": root.bases.iter().map(base).collect::<Vec<_>>(),
            "notes": notes,
        })
    }

    fn words(&self, image: &Image, weights: Option<&Weights>, kinds: &[CategoryUse]) -> String {
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
        for kind in kinds {
            text += &format!("    {}\n", category_words(kind));
        }
        text += &format!("  metadata   {}", size_shown(own.size - own.data_len));
        text += &weights.map_or("\n".to_owned(), |own| metadata(own, counted.inodes));
        for (name, value) in &root.notes {
            text += &format!("  {:<10} {}\n", shown(name), shown(value));
        }
        for base in &root.bases {
            text += &format!("  base       {} {}\n", shown(&base.file), hex(&base.name));
        }
        text
    }
}

/// What it is made of, and what it comes to for each thing in the tree. The block index grows with data and not with
/// these.
fn metadata(own: &Weights, inodes: u64) -> String {
    let kinds = [
        ("inodes", own.inodes),
        ("names", own.names),
        ("extended attributes", own.xattrs),
        ("extents", own.extents),
        ("block index", own.index),
        ("others", own.others),
    ];
    let parts = kinds.iter().filter(|(_, bytes)| *bytes > 0);
    let parts: Vec<_> =
        parts.map(|(name, bytes)| format!("{name} {}", size_shown(*bytes))).collect();
    let sum: u64 = kinds.iter().map(|(_, bytes)| bytes).sum::<u64>() - own.index;
    let each = sum as f64 / inodes.max(1) as f64;
    format!(
        ": {}\n             {each:.1} bytes an inode, without the block index\n",
        parts.join(", ")
    )
}

/// Of all that a server says, what does not change from one moment to the next, and how full it is.
fn of_mount(all: &Value) -> Map<String, Value> {
    let keys =
        ["source", "label", "size", "used", "free", "inodes", "snapshots", "placement", "discard"];
    let told = keys.into_iter().filter(|key| !all[*key].is_null());
    told.map(|key| (key.to_owned(), all[key].clone())).collect()
}

fn words_of_mount(name: &str, all: &Value, mount: &Map<String, Value>) -> String {
    let bytes = |key: &str| size_shown(all[key].as_u64().unwrap_or(0));
    let source = all["source"].as_str().unwrap_or_default();
    let (size, used, free) = (bytes("size"), bytes("used"), bytes("free"));
    let mut text = format!("{name}: a mount of {source}");
    if let Some(label) = all["label"].as_str().filter(|label| !label.is_empty()) {
        text += &format!("\n  label      {label}");
    }
    text += &format!("\n  room       {size}, {used} used, {free} free, {} inodes", all["inodes"]);
    if let Some(snapshots) = mount.get("snapshots") {
        text += &format!("\n  snapshots  {snapshots}");
    }
    if let Some(how) = stats::placement(all) {
        text += &format!("\n  placement  {how}");
    }
    if let Some(given) = stats::discard(all) {
        text += &format!("\n  discard    {given}");
    }
    text
}

fn blocks(root: &Root) -> u64 {
    root.indexes.iter().map(|(_, top)| top.entries).sum()
}
