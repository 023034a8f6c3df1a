//! The users as whom the tests run.
//!
//! A run as root tries everything twice: as root and as an ordinary user. `FERRUM_TEST_UID` names
//! that user; without it the first ordinary account is taken, and 12345 where there is none. With
//! `FERRUM_TEST_SELF` root tries everything once: the other half of that run is in the user's own hands.

use nix::unistd::{Gid, Uid, User, getegid, geteuid};
use std::os::unix::process::CommandExt;
use std::process::Command;

const UID_WITHOUT_ACCOUNT: u32 = 12_345;

/// One user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    pub uid: u32,
    pub gid: u32,
    /// The account's name, or `u<uid>` where it has none.
    pub name: String,
    pub has_account: bool,
}

impl Who {
    fn from_uid(uid: u32) -> Self {
        match User::from_uid(Uid::from_raw(uid)) {
            Ok(Some(user)) => Self {
                uid,
                gid: user.gid.as_raw(),
                name: user.name,
                has_account: true,
            },
            _ => Self {
                uid,
                gid: uid,
                name: format!("u{uid}"),
                has_account: false,
            },
        }
    }

    #[must_use]
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Makes `command` run as this user. Root drops its groups with it.
    pub fn apply(&self, command: &mut Command) {
        if geteuid().is_root() && !self.is_root() {
            command.uid(self.uid).gid(self.gid);
        }
    }
}

/// Every user that this run covers: root and an ordinary one as root, else oneself.
#[must_use]
pub fn everyone() -> Vec<Who> {
    if !geteuid().is_root() {
        let mut me = Who::from_uid(geteuid().as_raw());
        me.gid = Gid::as_raw(getegid());
        return vec![me];
    }
    if std::env::var_os("FERRUM_TEST_SELF").is_some() {
        return vec![Who::from_uid(0)];
    }
    vec![Who::from_uid(0), ordinary()]
}

/// The ordinary user among [`everyone`].
#[must_use]
pub fn ordinary() -> Who {
    if !geteuid().is_root() {
        return Who::from_uid(geteuid().as_raw());
    }
    let named = std::env::var("FERRUM_TEST_UID")
        .ok()
        .and_then(|uid| uid.parse().ok());
    Who::from_uid(
        named
            .or_else(first_ordinary_account)
            .unwrap_or(UID_WITHOUT_ACCOUNT),
    )
}

fn first_ordinary_account() -> Option<u32> {
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    accounts
        .lines()
        .filter_map(|line| line.split(':').nth(2)?.parse().ok())
        .find(|uid| (1000..60_000).contains(uid))
}
