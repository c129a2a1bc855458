//! Programs as they were compiled, kept between runs.
//!
//! Above: `wasm::Program`. Below: wasmtime's own cache. Invariant: what lies there is run as it is, so it is used only
//! where nobody but this user, and root, can put anything.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use wasmtime::{Cache, CacheConfig};

/// Others may write there.
const SHARED: u32 = 0o022;
/// In such a directory nobody moves what somebody else has.
const STICKY: u32 = 0o1000;
const MINE: u32 = 0o700;

/// The cache of this user, if there can be one.
pub fn open() -> Option<Cache> {
    let directory = directory(|name| std::env::var_os(name).map(PathBuf::from))?;
    DirBuilder::new().recursive(true).mode(MINE).create(&directory).ok()?;
    let directory = directory.canonicalize().ok()?;
    if !is_private(&directory, rustix::process::geteuid().as_raw()) {
        return None;
    }
    let mut config = CacheConfig::new();
    let level = config.baseline_compression_level();
    // A program is too short for its machine code to be compressed better meanwhile.
    config.with_optimized_compression_level(level).with_directory(directory);
    Cache::new(config).ok()
}

/// Where it lies, by the rules of XDG.
fn directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("esker"))
}

/// Nobody but this user, and root, can put anything there, nor put another directory into its place.
fn is_private(directory: &Path, user: u32) -> bool {
    let is_safe = |(height, path): (usize, &Path)| {
        let Ok(meta) = path.symlink_metadata() else { return false };
        let owned = meta.uid() == user || (height > 0 && meta.uid() == 0);
        let alone = meta.mode() & SHARED == 0 || (height > 0 && meta.mode() & STICKY != 0);
        meta.is_dir() && owned && alone
    };
    directory.ancestors().enumerate().all(is_safe)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_lies_where_xdg_says() {
        let given = |pairs: &'static [(&str, &str)]| {
            let find = move |name: &str| {
                let pair = pairs.iter().find(|(known, _)| *known == name);
                pair.map(|(_, path)| PathBuf::from(path))
            };
            directory(find).map(|path| path.to_string_lossy().into_owned())
        };
        assert_eq!(given(&[("HOME", "/h")]).as_deref(), Some("/h/.cache/esker"));
        let both = given(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]);
        assert_eq!(both.as_deref(), Some("/x/esker"));
        let relative = given(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]);
        assert_eq!(relative.as_deref(), Some("/h/.cache/esker"));
        assert_eq!(given(&[("HOME", "h")]), None);
        assert_eq!(given(&[]), None);
    }

    #[test]
    fn it_is_used_only_where_nobody_else_can_write() {
        let me = rustix::process::geteuid().as_raw();
        let temp = std::env::temp_dir().canonicalize().unwrap();
        let above = temp.join(format!("esker-cache-{}", std::process::id()));
        let cache = above.join("esker");
        DirBuilder::new().recursive(true).mode(MINE).create(&cache).unwrap();
        let modes = |above_mode, mode| {
            fs::set_permissions(&above, Permissions::from_mode(above_mode)).unwrap();
            fs::set_permissions(&cache, Permissions::from_mode(mode)).unwrap();
            is_private(&cache, me)
        };
        let found = [
            modes(0o755, 0o700),
            modes(0o1777, 0o755),
            modes(0o777, 0o700),
            modes(0o775, 0o700),
            modes(0o755, 0o720),
            modes(0o755, 0o1777),
        ];
        let strange = is_private(&cache, me + 1);
        fs::remove_dir_all(&above).unwrap();
        assert_eq!(found, [true, true, false, false, false, false]);
        assert!(!strange && !is_private(&cache, me), "it belongs to somebody else, or is gone");
    }
}
