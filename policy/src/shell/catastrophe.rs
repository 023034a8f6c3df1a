//! Commands that destroy the machine, or stop it.

use super::deny::{Check, Deny};
use super::privilege;
use super::script::Word;
use std::path::Path;

#[rustfmt::skip]
const DESTROYS_DISKS: &[&str] = &[
    "wipefs", "blkdiscard", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "partprobe", "mkswap",
    "cryptsetup", "pvcreate", "pvremove", "vgremove", "lvremove", "mdadm", "zpool", "hdparm", "nvme",
    "badblocks", "shutdown", "reboot", "poweroff", "halt", "telinit", "init", "killall5",
];

/// Where no other spelling passes.
pub(super) const NO_FORM: &str = "no tier runs this: ask the operator";

/// Refuses commands that destroy disks, stop the machine or end every process.
pub(super) fn check(name: &str, words: &[Word]) -> Check {
    let span = &words[0].span;
    let rest = &words[1..];
    let refuse = |what: String| Err(Deny::new("catastrophic", span, what).hint(NO_FORM));
    if DESTROYS_DISKS.contains(&name) || name.starts_with("mkfs") || name == "mke2fs" {
        return refuse(format!("{name} destroys disks or stops the machine"));
    }
    let literal: Vec<String> = rest.iter().filter_map(Word::literal).collect();
    let stops = [
        "poweroff",
        "reboot",
        "halt",
        "suspend",
        "hibernate",
        "kexec",
        "rescue",
        "emergency",
        "isolate",
    ];
    if name == "systemctl" && literal.iter().any(|word| stops.contains(&word.as_str())) {
        return refuse("stops the machine".to_owned());
    }
    if name == "kill" && kills_all(&literal) {
        let deny = Deny::new("catastrophic", span, "kill of -1 ends every process");
        return Err(deny.hint("name the processes, or kill the jobs of this call: kill %1"));
    }
    if name == "sysctl" && literal.iter().any(|word| word == "-w" || word.contains('=')) {
        return Err(privilege::denied(name, span));
    }
    Ok(())
}

/// `-1` as a process, not as a signal: it is one after a signal or after `--`.
fn kills_all(words: &[String]) -> bool {
    let mut signal_seen = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => return words.any(|word| word == "-1"),
            "-s" | "-n" => {
                words.next();
                signal_seen = true;
            }
            "-1" if signal_seen => return true,
            _ => signal_seen = true,
        }
    }
    false
}

pub(super) fn is_disk(path: &Path) -> bool {
    let Ok(rest) = path.strip_prefix("/dev") else {
        return false;
    };
    let name = rest.to_string_lossy();
    [
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "loop", "dm-", "md", "sr", "mapper/", "disk/", "mem",
        "kmem", "port",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}
