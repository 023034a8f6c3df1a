//! Other processes of the user, the front first of all.

use super::{Outcome, Probe, Targets, outcome, probe};
use crate::sys::attempt::{Argument, attempt};
use crate::sys::process::adopt;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const FRONT: &str = "front";

#[rustfmt::skip]
pub(super) const TABLE: &[Probe] = &[
    probe("signal a process outside", FRONT, |t| on(t, |pid| kill(Pid::from_raw(pid), None).map_err(io::Error::from))),
    probe("signal it by a descriptor", FRONT, |t| on(t, |pid| call_on_handle(pid, libc::SYS_pidfd_send_signal, &mut [Argument::Number(0), Argument::Null, Argument::Number(0)]))),
    probe("take one of its descriptors", FRONT, |t| on(t, |pid| call_on_handle(pid, libc::SYS_pidfd_getfd, &mut [Argument::Number(0), Argument::Number(0)]))),
    probe("trace it", FRONT, |t| on(t, |pid| call(libc::SYS_ptrace, &mut [Argument::Number(0x4206), Argument::Number(pid.into()), Argument::Null, Argument::Null]))),
    probe("read its memory", FRONT, |t| on(t, memory)),
    probe("open its memory", FRONT, |t| on(t, |pid| fs::File::open(format!("/proc/{pid}/mem")))),
    probe("read its environment", FRONT, |t| on(t, |pid| fs::read(format!("/proc/{pid}/environ")))),
    probe("follow one of its descriptors", FRONT, |t| on(t, |pid| fs::read_link(format!("/proc/{pid}/fd/0")))),
    probe("enter its directory", FRONT, |t| on(t, |pid| fs::read_dir(format!("/proc/{pid}/cwd/")))),
    probe("read the first process's environment", FRONT, |_| outcome(fs::read("/proc/1/environ"))).by_root(),
    probe("see it", "names of processes", |t| on(t, |pid| fs::read(format!("/proc/{pid}/cmdline")))),
    probe("read its limits", "processes", |t| on(t, |pid| call(libc::SYS_prlimit64, &mut [Argument::Number(pid.into()), Argument::Number(7), Argument::Null, Argument::Bytes(&mut [0; 16])]))),
    probe("leave a process behind", "lifetime", left_behind),
    probe("use a descriptor that was left open", "system", descriptors),
];

/// In a pid namespace the number may belong to a process of the session's own.
fn on<T>(targets: &Targets, act: impl FnOnce(i32) -> io::Result<T>) -> Outcome {
    let pid = targets.pid;
    if pid == 0 {
        return Outcome::Absent("no process to aim at");
    }
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match act(pid) {
        Ok(_) if name.trim() == "ferrum-toolhost" => {
            Outcome::Refused("that number is the session's own".to_owned())
        }
        done => outcome(done),
    }
}

fn call(number: libc::c_long, arguments: &mut [Argument<'_>]) -> io::Result<libc::c_long> {
    attempt(number, arguments)
}

fn call_on_handle(pid: i32, number: libc::c_long, rest: &mut [Argument<'_>]) -> io::Result<libc::c_long> {
    let opening = &mut [Argument::Number(pid.into()), Argument::Number(0)];
    let handle = i32::try_from(attempt(libc::SYS_pidfd_open, opening)?).map_err(io::Error::other)?;
    let handle = adopt(handle);
    let mut arguments = vec![Argument::Number(handle.as_raw_fd().into())];
    arguments.extend(rest.iter_mut().map(|argument| match argument {
        Argument::Number(number) => Argument::Number(*number),
        Argument::Null | Argument::Text(_) | Argument::Bytes(_) => Argument::Null,
    }));
    attempt(number, &mut arguments)
}

/// Eight bytes of its stack.
fn memory(pid: i32) -> io::Result<usize> {
    use std::os::unix::fs::FileExt;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let stack = maps.lines().find(|line| line.ends_with("[stack]"));
    let start = stack.and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok());
    let start = start.ok_or(io::ErrorKind::NotFound)?;
    fs::File::open(format!("/proc/{pid}/mem"))?.read_at(&mut [0; 8], start)
}

/// In a session of its own, with a name by which it is found from outside.
fn left_behind(targets: &Targets) -> Outcome {
    let mut command = Command::new("/bin/sleep");
    command.arg0(&targets.token).arg("30");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.process_group(0);
    outcome(command.spawn())
}

/// Three streams, and the directory that is being read.
fn descriptors(_: &Targets) -> Outcome {
    let open = match fs::read_dir("/proc/self/fd") {
        Ok(entries) => entries.flatten().map(|entry| entry.file_name()),
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let links = open.map(|name| fs::read_link(format!("/proc/self/fd/{}", name.display())));
    let known = |place: &std::path::Path| {
        place.starts_with("/proc")
            || place.starts_with("/dev/null")
            || place.to_string_lossy().starts_with("pipe:")
    };
    // The directory itself, which is closed by now, leads nowhere.
    if links.flatten().any(|place| !known(&place)) {
        Outcome::Through
    } else {
        Outcome::Refused("only the three streams".to_owned())
    }
}
