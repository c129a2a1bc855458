//! `esker stat`: all that is known of files in an image.

use std::io::Write as _;

use clap::Args;
use esker::attr::device_parts;
use esker::store::Flow;
use esker::{Kind, XattrName};
use serde_json::json;

use super::look::{Look, Troubles, described, path_of};
use crate::failure::{Outcome, shown};
use crate::images::{kind_shown, mode_shown, time_shown};
use crate::printed::printer;
use crate::units::size_shown;

/// Tell all that is known of files in an image.
#[derive(Args)]
pub struct Stat {
    #[command(flatten)]
    pub look: Look,
}

impl Stat {
    /// Tells.
    pub fn run(&self) -> Outcome {
        let mut out = printer();
        self.look.each_itself(|image, node| {
            let attr = &node.attr;
            let mut names = Vec::new();
            let listed = image.xattrs(node.ino, &mut |name| {
                names.push(name.bytes().to_vec());
                Flow::Continue(())
            });
            let mut troubles = Troubles::default();
            if let Err(error) = listed {
                troubles.tell(&node.path, error);
            }
            if self.look.json {
                let mut value = described(image, &node);
                value["atime"] = json!(attr.atime.secs);
                value["ctime"] = json!(attr.ctime.secs);
                value["btime"] = json!(attr.btime.secs);
                value["xattrs"] = names.iter().map(|name| json!(shown(name))).collect();
                let _ = writeln!(out, "{value}");
                return troubles.outcome();
            }
            let mut text = format!(
                "{}: {}, {} ({} bytes)\n  {} owner {}:{} links {} inode {}\n  changed {}.{:09}\n",
                shown(path_of(&node)),
                kind_shown(attr.kind),
                size_shown(attr.size),
                attr.size,
                mode_shown(attr),
                attr.uid,
                attr.gid,
                attr.nlink,
                node.ino.0,
                time_shown(attr.mtime),
                attr.mtime.nanos,
            );
            if matches!(attr.kind, Kind::CharDevice | Kind::BlockDevice) {
                let (major, minor) = device_parts(attr.rdev);
                text += &format!("  device {major}:{minor}\n");
            }
            for name in &names {
                let mut value = Vec::new();
                let read =
                    XattrName::parse(name).and_then(|name| image.xattr(node.ino, name, &mut value));
                if let Err(error) = read {
                    troubles.tell(&node.path, error);
                }
                text += &format!("  {} = {}\n", shown(name), shown(&value));
            }
            let _ = out.write_all(text.as_bytes());
            troubles.outcome()
        })
    }
}
