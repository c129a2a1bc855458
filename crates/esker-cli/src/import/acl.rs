//! ACLs in words, as tar archives hold them, turned into the value of the extended attribute.
//!
//! Above: `unpack`. Invariant: the value has its entries in the order that Linux demands, each id
//! once.

use std::fs;

/// The attributes of the access ACL and the default ACL.
pub const NAMES: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

const VERSION: u32 = 2;
const NOBODY: u32 = u32::MAX;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// `user::rwx,user:joe:r-x:1001,group::r-x,mask::rwx,other::---` as the attribute's value. Entries
/// are parted by commas or line ends; the number in the fourth field, where there is one, counts
/// more than the name. `None` when it makes no sense or names somebody whom this machine does not
/// know.
pub fn encode(text: &[u8]) -> Option<Vec<u8>> {
    let mut entries = Vec::new();
    for line in text.split(|&byte| byte == b',' || byte == b'\n') {
        let line = line.split(|&byte| byte == b'#').next()?.trim_ascii();
        if !line.is_empty() {
            entries.push(entry(line)?);
        }
    }
    entries.sort_unstable_by_key(|&(tag, _, id)| (tag, id));
    let twice = entries.windows(2).any(|two| (two[0].0, two[0].2) == (two[1].0, two[1].2));
    if entries.is_empty() || twice {
        return None;
    }
    let mut value = VERSION.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    Some(value)
}

fn entry(line: &[u8]) -> Option<(u16, u16, u32)> {
    let fields: Vec<&str> = str::from_utf8(line).ok()?.split(':').map(str::trim).collect();
    let (kind, who, perm, id) = match *fields.as_slice() {
        // "mask:rwx" and "other:r--" come without the empty name too.
        [kind @ ("mask" | "m" | "other" | "o"), perm] => (kind, "", perm, None),
        [kind, who, perm] => (kind, who, perm, None),
        [kind, who, perm, id] => (kind, who, perm, Some(id)),
        _ => return None,
    };
    let named = |file: &str| match id.unwrap_or(who).parse() {
        Ok(id) => Some(id),
        Err(_) => lookup(file, who),
    };
    let (tag, id) = match (kind, who) {
        ("user" | "u", "") => (USER_OBJ, NOBODY),
        ("user" | "u", _) => (USER, named("/etc/passwd")?),
        ("group" | "g", "") => (GROUP_OBJ, NOBODY),
        ("group" | "g", _) => (GROUP, named("/etc/group")?),
        ("mask" | "m", "") => (MASK, NOBODY),
        ("other" | "o", "") => (OTHER, NOBODY),
        _ => return None,
    };
    let mut bits = 0;
    for letter in perm.chars() {
        bits |= match letter {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            '-' => 0,
            _ => return None,
        };
    }
    Some((tag, bits, id))
}

/// The number of a user or group.
fn lookup(file: &str, name: &str) -> Option<u32> {
    let table = fs::read_to_string(file).ok()?;
    let line = table.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_the_value() {
        let value = encode(b"user::rw-,group::r--,other::---,user:root:rwx,user:x:r--:7,mask::rwx")
            .unwrap();
        let tags: Vec<_> = value[4..].chunks(8).map(|e| (e[0], e[2], e[4])).collect();
        assert_eq!(
            tags,
            [(1, 6, 255), (2, 7, 0), (2, 4, 7), (4, 4, 255), (16, 7, 255), (32, 0, 255)]
        );
        assert_eq!(value[..4], [2, 0, 0, 0]);
        assert_eq!(encode(b"user::rwx\ngroup::r-x # x\nother:r-x\n").unwrap().len(), 4 + 3 * 8);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            &b""[..],
            b"user",
            b"user::rwz",
            b"user:no-such-user-here:r--",
            b"mask:1:r--",
            b"\xff::r--",
            b"user::r--,user::rw-",
            b"user:a:r--:1:2",
        ] {
            assert!(encode(bad).is_none());
        }
    }
}
