//! Who asks.

/// The identity on whose behalf a call is made.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// User.
    pub uid: u32,
    /// Group, which new files get.
    pub gid: u32,
    /// Supplementary groups, as far as they are known.
    pub groups: &'a [u32],
    /// May do what root may.
    pub privileged: bool,
    /// The kernel has checked the permissions already (mount option `default_permissions`); what remains are
    /// the rules that it leaves to a file system.
    pub checked: bool,
}

impl Caller<'static> {
    /// Root, for programs that use the library on their own behalf.
    pub const ROOT: Self = Self { uid: 0, gid: 0, groups: &[], privileged: true, checked: false };
}

impl Caller<'_> {
    /// A member of the group.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// The owner, or somebody who may act as one.
    pub(super) const fn owns(&self, uid: u32) -> bool {
        self.checked || self.privileged || self.uid == uid
    }

    /// May keep a set-group-id bit for this group.
    pub(super) fn keeps_sgid(&self, gid: u32) -> bool {
        self.checked || self.privileged || self.in_group(gid)
    }
}
