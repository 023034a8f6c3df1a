//! The kernel's own doors. The arguments come to nothing, so that a call which is let in fails for
//! another reason than a closed door.

use super::{Outcome, Probe, outcome, probe};
use crate::sys::attempt::Argument::{Bytes, Null, Number, Text};
use crate::sys::attempt::{Argument, attempt};
use std::fs::{self, OpenOptions};
use std::io;

const SYSTEM: &str = "system";
const NOWHERE: &std::ffi::CStr = c"/nonexistent-ferrum-probe";

#[rustfmt::skip]
pub(super) const TABLE: &[Probe] = &[
    probe("make a user namespace", SYSTEM, |_| call(libc::SYS_unshare, &mut [Number(libc::CLONE_NEWUSER.into())])),
    probe("make a mount namespace", SYSTEM, |_| call(libc::SYS_unshare, &mut [Number(libc::CLONE_NEWNS.into())])).by_root(),
    probe("join a namespace", SYSTEM, |_| call(libc::SYS_setns, &mut [Number(-1), Number(0)])),
    probe("hide flags in clone3", SYSTEM, |_| call(libc::SYS_clone3, &mut [Null, Number(0)])),
    probe("mount", SYSTEM, |_| call(libc::SYS_mount, &mut [Text(c"x"), Text(NOWHERE), Text(c"tmpfs"), Number(0), Null])),
    probe("unmount", SYSTEM, |_| call(libc::SYS_umount2, &mut [Text(NOWHERE), Number(0)])),
    probe("change the root", SYSTEM, |_| call(libc::SYS_chroot, &mut [Text(NOWHERE)])),
    probe("exchange the root", SYSTEM, |_| call(libc::SYS_pivot_root, &mut [Text(NOWHERE), Text(NOWHERE)])).by_root(),
    probe("take a mount tree", SYSTEM, |_| call(libc::SYS_open_tree, &mut [Number(libc::AT_FDCWD.into()), Text(c"/"), Number(0)])),
    probe("change a mount", SYSTEM, |_| call(libc::SYS_mount_setattr, &mut [Number(-1), Null, Number(0), Null, Number(0)])),
    probe("open a kind of mount", SYSTEM, |_| call(libc::SYS_fsopen, &mut [Text(c"tmpfs"), Number(0)])).by_root(),
    probe("move a mount", SYSTEM, |_| call(libc::SYS_move_mount, &mut [Number(-1), Text(c""), Number(-1), Text(c""), Number(0)])).by_root(),
    probe("load a module", SYSTEM, |_| call(libc::SYS_init_module, &mut [Null, Number(0), Null])).by_root(),
    probe("load another kernel", SYSTEM, |_| call(libc::SYS_kexec_load, &mut [Number(0), Number(99), Null, Number(0)])).by_root(),
    probe("restart the machine", SYSTEM, |_| call(libc::SYS_reboot, &mut [Number(1), Number(1), Number(0), Null])).by_root(),
    probe("switch swap on", SYSTEM, |_| call(libc::SYS_swapon, &mut [Text(NOWHERE), Number(0)])).by_root(),
    probe("switch accounting", SYSTEM, |_| call(libc::SYS_acct, &mut [Text(NOWHERE)])).by_root(),
    probe("name the machine", SYSTEM, |_| call(libc::SYS_sethostname, &mut [Null, Number(-1)])).by_root(),
    probe("read the kernel's log", SYSTEM, |_| call(libc::SYS_syslog, &mut [Number(10), Null, Number(0)])).by_root(),
    probe("set the clock", SYSTEM, |_| call(libc::SYS_settimeofday, &mut [Null, Null])),
    probe("adjust the clock", SYSTEM, |_| call(libc::SYS_adjtimex, &mut [Bytes(&mut [0; 512])])),
    probe("give the kernel a program", SYSTEM, |_| call(libc::SYS_bpf, &mut [Number(9999), Null, Number(0)])).by_root(),
    probe("count the processor's events", SYSTEM, |_| call(libc::SYS_perf_event_open, &mut [Null, Number(0), Number(-1), Number(-1), Number(0)])),
    probe("watch page faults", SYSTEM, |_| call(libc::SYS_userfaultfd, &mut [Number(1)])),
    probe("set up a ring", SYSTEM, |_| call(libc::SYS_io_uring_setup, &mut [Number(4), Null])),
    probe("add a key", SYSTEM, |_| call(libc::SYS_add_key, &mut [Null, Null, Null, Number(0), Number(0)])),
    probe("ask for a key", SYSTEM, |_| call(libc::SYS_request_key, &mut [Null, Null, Null, Number(0)])),
    probe("find the session's keys", SYSTEM, |_| call(libc::SYS_keyctl, &mut [Number(0), Number(-3), Number(0)])),
    probe("watch a file system", SYSTEM, |_| call(libc::SYS_fanotify_init, &mut [Number(0), Number(0)])).by_root(),
    probe("name a file by number", SYSTEM, |_| call(libc::SYS_name_to_handle_at, &mut [Number(libc::AT_FDCWD.into()), Text(c"/"), Bytes(&mut [0; 8]), Bytes(&mut [0; 4]), Number(0)])),
    probe("open a file by number", SYSTEM, |_| call(libc::SYS_open_by_handle_at, &mut [Number(-1), Bytes(&mut [0; 8]), Number(0)])).by_root(),
    probe("advise another's memory", SYSTEM, |_| call(libc::SYS_process_madvise, &mut [Number(-1), Null, Number(0), Number(0), Number(0)])),
    probe("reap another's memory", SYSTEM, |_| call(libc::SYS_process_mrelease, &mut [Number(-1), Number(0)])),
    probe("move pages", SYSTEM, |_| call(libc::SYS_move_pages, &mut [Number(0), Number(0), Null, Null, Null, Number(0)])),
    probe("compare with another", SYSTEM, |_| call(libc::SYS_kcmp, &mut [Number(0), Number(0), Number(99), Number(0), Number(0)])),
    #[cfg(target_arch = "x86_64")]
    probe("ask for ports", SYSTEM, |_| call(libc::SYS_ioperm, &mut [Number(0), Number(1), Number(0)])),
    #[cfg(target_arch = "x86_64")]
    probe("read the segment table", SYSTEM, |_| call(libc::SYS_modify_ldt, &mut [Number(0), Bytes(&mut [0; 16]), Number(16)])),
    probe("type into a terminal", SYSTEM, |_| call(libc::SYS_ioctl, &mut [Number(0), Number(libc::TIOCSTI.cast_signed()), Bytes(&mut [0; 1])])),
    probe("command the console", SYSTEM, |_| call(libc::SYS_ioctl, &mut [Number(0), Number(libc::TIOCLINUX.cast_signed()), Bytes(&mut [0; 1])])),
    probe("become another user", SYSTEM, |_| outcome(attempt(libc::SYS_setresuid, &mut [Number(-1), Number(1), Number(-1)]))).by_root(),
    probe("keep a capability", SYSTEM, |_| status(|line, value| matches!(line, "CapInh" | "CapPrm" | "CapEff" | "CapAmb") && !value.trim_start_matches('0').is_empty())).by_root(),
    probe("gain privileges by a program", SYSTEM, |_| status(|line, value| line == "NoNewPrivs" && value == "0")),
    probe("write a kernel setting", SYSTEM, |_| outcome(OpenOptions::new().write(true).open("/proc/sys/kernel/core_pattern"))).by_root(),
    probe("write to the machine's keys", SYSTEM, |_| outcome(OpenOptions::new().write(true).open("/proc/sysrq-trigger"))).by_root(),
    probe("open the kernel's memory", SYSTEM, |_| outcome(fs::File::open("/proc/kcore").and_then(|file| read_one(&file)))).by_root(),
];

fn call(number: libc::c_long, arguments: &mut [Argument<'_>]) -> Outcome {
    match attempt(number, arguments) {
        Ok(_) => Outcome::Through,
        Err(error) => match error.raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => Outcome::Refused(error.to_string()),
            // The door was open; the arguments came to nothing.
            _ => Outcome::Through,
        },
    }
}

fn status(found: impl Fn(&str, &str) -> bool) -> Outcome {
    let status = match fs::read_to_string("/proc/self/status") {
        Ok(status) => status,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let lines = status.lines().filter_map(|line| line.split_once(":\t"));
    match lines.into_iter().any(|(line, value)| found(line, value)) {
        true => Outcome::Through,
        false => Outcome::Refused("none".to_owned()),
    }
}

fn read_one(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    match file.read_at(&mut [0; 1], 0)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
