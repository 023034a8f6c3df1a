//! Commands that gain authority, or give it to a file.

use super::argv::{self, Valued};
use super::deny::{Check, Deny};
use super::script::Word;
use std::ops::Range;

/// Programs whose purpose it is.
#[rustfmt::skip]
pub(super) const PROGRAMS: &[&str] = &[
    "sudo", "sudoedit", "su", "doas", "pkexec", "run0", "runuser", "sg", "newgrp", "setpriv", "capsh",
    "chroot", "nsenter", "umount", "fusermount", "fusermount3", "losetup", "swapon", "swapoff", "insmod",
    "rmmod", "modprobe", "kexec", "setcap", "passwd", "chpasswd", "gpasswd", "chage", "chsh", "chfn",
    "useradd", "userdel", "usermod", "adduser", "deluser", "groupadd", "groupdel", "groupmod", "addgroup",
    "delgroup", "visudo", "vipw", "vigr", "pam-auth-update", "newuidmap", "newgidmap", "bpftool",
    "auditctl", "setenforce", "gosu", "su-exec", "please", "sudo-rs",
];

pub(super) fn denied(name: &str, span: &Range<usize>) -> Deny {
    Deny::new(
        "privilege",
        span,
        format!("{name} gains authority that no tier has"),
    )
    .hint("do it without, or ask the operator to run it")
}

/// Refuses programs that gain authority, and modes that give it.
pub(super) fn check(name: &str, words: &[Word]) -> Check {
    let span = &words[0].span;
    let rest = &words[1..];
    if PROGRAMS.contains(&name) || name == "mount" && mounts(rest) {
        return Err(denied(name, span));
    }
    let sets_id = match name {
        "chmod" => rest
            .iter()
            .find(|word| word.literal().is_some_and(|mode| is_set_id(&mode))),
        "install" | "mkdir" => {
            let valued = Valued {
                short: "m",
                long: &["mode"],
            };
            let args = argv::read(rest, &valued);
            let given = args.iter().any(|arg| match arg {
                argv::Arg::Short('m', Some(mode), _) => mode.literal().is_some_and(|mode| is_set_id(&mode)),
                argv::Arg::Long(name, Some(mode), _) if name == "mode" => {
                    mode.literal().is_some_and(|mode| is_set_id(&mode))
                }
                _ => false,
            });
            given.then_some(&words[0])
        }
        _ => None,
    };
    match sets_id {
        None => Ok(()),
        Some(word) => Err(
            Deny::new("privilege", &word.span, "sets a set-user-id or set-group-id bit")
                .hint("use a mode without it, such as 755"),
        ),
    }
}

/// `mount` alone and `mount -l` only list.
fn mounts(rest: &[Word]) -> bool {
    let lists = |word: &Word| {
        word.literal()
            .is_some_and(|text| matches!(text.as_str(), "-l" | "--version" | "-V"))
    };
    !rest.iter().all(lists)
}

fn is_set_id(mode: &str) -> bool {
    if mode.starts_with("--") {
        return false;
    }
    if mode.len() >= 4 && mode.chars().all(|c| c.is_digit(8)) {
        let special = mode.len() - 4;
        return mode[..=special].chars().any(|c| matches!(c, '2'..='7'));
    }
    mode.split(',').any(|clause| {
        let Some(at) = clause.find(['+', '=']) else {
            return false;
        };
        let who = &clause[..at];
        who.chars().all(|c| "ugoa".contains(c)) && clause[at..].contains('s')
    })
}
