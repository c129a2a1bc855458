//! POSIX ACLs: the bytes of `system.posix_acl_access` and `_default`, and what they mean.

use alloc::vec::Vec;

use super::access::Access;
use super::{Caller, Fs};
use crate::attr::Attr;
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::name::XattrName;
use crate::store::View;

/// The ACL that decides about an inode.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The ACL that a directory hands to what is made in it.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";
/// Kept in an inode's flags: it has an access ACL, so that those without need no look-up.
pub(super) const HAS_ACCESS: u32 = 1 << 30;
/// Kept in an inode's flags: it has a default ACL.
pub(super) const HAS_DEFAULT: u32 = 1 << 29;

const VERSION: u32 = 2;
const HEAD_LEN: usize = 4;
const ENTRY_LEN: usize = 8;
/// What an entry without a user or group has for one.
const NO_ID: u32 = u32::MAX;

/// Whom an entry is about, in the order in which a valid list has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    Owner = 0x01,
    User = 0x02,
    OwningGroup = 0x04,
    Group = 0x08,
    Mask = 0x10,
    Other = 0x20,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    tag: Tag,
    perm: u16,
    id: u32,
}

/// A valid list: sorted, with an owner, an owning group, others, and a mask where it names anybody.
#[derive(Clone, Debug)]
pub(super) struct Acl {
    rules: Vec<Rule>,
}

impl Acl {
    /// From the bytes of an extended attribute; nothing where the list is empty.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let (head, entries) = bytes.split_at_checked(HEAD_LEN).ok_or(Error::Invalid)?;
        if head != VERSION.to_le_bytes() {
            return Err(Error::NotSupported);
        }
        if entries.is_empty() {
            return Ok(None);
        }
        if entries.len() % ENTRY_LEN != 0 {
            return Err(Error::Invalid);
        }
        let rules = entries.chunks_exact(ENTRY_LEN).map(Rule::parse).collect::<Result<Vec<_>>>()?;
        let acl = Self { rules };
        if acl.is_valid() { Ok(Some(acl)) } else { Err(Error::Invalid) }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for rule in &self.rules {
            bytes.extend((rule.tag as u16).to_le_bytes());
            bytes.extend(rule.perm.to_le_bytes());
            bytes.extend(rule.id.to_le_bytes());
        }
        bytes
    }

    fn is_valid(&self) -> bool {
        let count = |tag| self.rules.iter().filter(|rule| rule.tag == tag).count();
        let sorted = self.rules.windows(2).all(|pair| {
            let named = matches!(pair[0].tag, Tag::User | Tag::Group);
            pair[0].tag < pair[1].tag || (named && pair[0].tag == pair[1].tag)
        });
        let names = count(Tag::User) + count(Tag::Group);
        let base = [Tag::Owner, Tag::OwningGroup, Tag::Other].map(count) == [1, 1, 1];
        sorted && base && (names == 0 || count(Tag::Mask) == 1)
    }

    /// Says no more than nine permission bits can.
    pub(super) fn is_plain(&self) -> bool {
        self.rules.len() == 3
    }

    /// The nine permission bits that stand for this list.
    pub(super) fn perm(&self) -> u16 {
        let mask = self.rule(Tag::Mask).or_else(|| self.rule(Tag::OwningGroup));
        let bits = [self.rule(Tag::Owner), mask, self.rule(Tag::Other)];
        bits.iter().fold(0, |perm, rule| perm << 3 | rule.map_or(0, |rule| rule.perm))
    }

    /// Narrows the list to a file made with `perm`, and answers the permission bits that remain.
    pub(super) fn inherit(&mut self, perm: u16) -> u16 {
        let kept = perm & self.perm();
        self.set_perm(kept);
        (perm & !0o777) | kept
    }

    /// chmod(2): the bits of owner, mask (or owning group) and others.
    pub(super) fn set_perm(&mut self, perm: u16) {
        let masked = self.rule(Tag::Mask).is_some();
        for rule in &mut self.rules {
            match rule.tag {
                Tag::Owner => rule.perm = perm >> 6 & 7,
                Tag::Mask => rule.perm = perm >> 3 & 7,
                Tag::OwningGroup if !masked => rule.perm = perm >> 3 & 7,
                Tag::Other => rule.perm = perm & 7,
                _ => {}
            }
        }
    }

    /// Whether somebody who is not the owner may.
    pub(super) fn allows(&self, caller: &Caller<'_>, attr: &Attr, access: Access) -> bool {
        let mask = self.rule(Tag::Mask).map_or(7, |rule| rule.perm);
        let grants = |perm: u16| u16::from(access.0) & !perm == 0;
        let user = self.rules.iter().find(|rule| rule.tag == Tag::User && rule.id == caller.uid);
        if let Some(rule) = user {
            return grants(rule.perm & mask);
        }
        let mut member = false;
        for rule in &self.rules {
            let concerned = match rule.tag {
                Tag::OwningGroup => caller.in_group(attr.gid),
                Tag::Group => caller.in_group(rule.id),
                _ => false,
            };
            if concerned && grants(rule.perm & mask) {
                return true;
            }
            member |= concerned;
        }
        !member && self.rule(Tag::Other).is_some_and(|rule| grants(rule.perm))
    }

    fn rule(&self, tag: Tag) -> Option<Rule> {
        self.rules.iter().find(|rule| rule.tag == tag).copied()
    }
}

impl Rule {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let tag = match half(0) {
            0x01 => Tag::Owner,
            0x02 => Tag::User,
            0x04 => Tag::OwningGroup,
            0x08 => Tag::Group,
            0x10 => Tag::Mask,
            0x20 => Tag::Other,
            _ => return Err(Error::Invalid),
        };
        let perm = half(2);
        let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let named = matches!(tag, Tag::User | Tag::Group);
        if perm > 7 || (named && id == NO_ID) {
            return Err(Error::Invalid);
        }
        Ok(Self { tag, perm, id: if named { id } else { NO_ID } })
    }
}

impl<S: View> Fs<S> {
    /// One of the two lists of an inode.
    pub(super) fn acl(&self, ino: Ino, name: &'static [u8]) -> Result<Option<Acl>> {
        let mut bytes = Vec::new();
        match self.store.xattr(ino, XattrName::parse(name)?, &mut bytes) {
            Ok(()) => Acl::parse(&bytes),
            Err(Error::NoData) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
