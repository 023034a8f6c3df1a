//! Files outside the view and outside the roots.

use super::{Outcome, Probe, Targets, outcome, probe};
use crate::sys::attempt::{Argument, attempt};
use nix::fcntl::{AT_FDCWD, OFlag, open};
use nix::sys::stat::{Mode, UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const READING: &str = "reading";
const WRITING: &str = "writing";

#[rustfmt::skip]
pub(super) const TABLE: &[Probe] = &[
    probe("read a file outside", READING, |t| outcome(fs::read(t.canary()))),
    probe("list a directory outside", READING, |t| outcome(fs::read_dir(&t.dir))),
    probe("read through a link", READING, |t| through_own(t, |own| { symlink(t.canary(), own)?; fs::read(own) })),
    probe("read through a hard link", READING, |t| through_own(t, |own| { fs::hard_link(t.canary(), own)?; fs::read(own) })),
    probe("read below one's own root link", READING, |t| outcome(fs::read(below("/proc/self/root", &t.canary())))),
    probe("read below another's root link", READING, |t| outcome(fs::read(below(&format!("/proc/{}/root", t.pid), &t.canary())))),
    probe("read below the first process's root link", READING, |t| outcome(fs::read(below("/proc/1/root", &t.canary())))).by_root(),
    probe("open a path handle again", READING, |t| outcome(by_handle(&t.canary(), OFlag::O_RDONLY))),
    probe("learn that a file outside exists", "names", |t| outcome(fs::symlink_metadata(t.canary()))),
    probe("watch a directory outside", "names", watch),
    probe("overwrite a file outside", WRITING, |t| outcome(OpenOptions::new().write(true).open(t.canary()))),
    probe("append to a file outside", WRITING, |t| outcome(OpenOptions::new().append(true).open(t.canary()))),
    probe("truncate a file outside", WRITING, |t| outcome(nix::unistd::truncate(&t.dir.join("victim"), 0))),
    probe("write by a path handle", WRITING, |t| outcome(by_handle(&t.canary(), OFlag::O_WRONLY))),
    probe("write below one's own root link", WRITING, |t| outcome(OpenOptions::new().write(true).open(below("/proc/self/root", &t.canary())))),
    probe("write through a link", WRITING, |t| through_own(t, |own| { symlink(t.canary(), own)?; OpenOptions::new().write(true).open(own) })),
    probe("make a file outside", WRITING, |t| outcome(made(t, |path| File::create_new(path)))),
    probe("make a directory outside", WRITING, |t| outcome(made(t, |path| fs::create_dir(path)))),
    probe("make a link outside", WRITING, |t| outcome(made(t, |path| symlink("x", path)))),
    probe("make a pipe outside", WRITING, |t| outcome(made(t, |path| nix::unistd::mkfifo(path, Mode::S_IRWXU).map_err(io::Error::from)))),
    probe("make a socket outside", WRITING, |t| outcome(made(t, |path| std::os::unix::net::UnixListener::bind(path)))),
    probe("link a file out", WRITING, |t| through_own(t, |own| { File::create(own)?; made(t, |path| fs::hard_link(own, path)) })),
    probe("move a file out", WRITING, |t| through_own(t, |own| { File::create(own)?; made(t, |path| fs::rename(own, path)) })),
    probe("move a file in", WRITING, |t| through_own(t, |own| { fs::rename(t.dir.join("victim"), own)?; fs::rename(own, t.dir.join("victim")) })),
    probe("rename a file outside", WRITING, |t| outcome(renamed(&t.dir.join("victim"), &t.dir.join(&t.token)))),
    probe("rename a directory outside", WRITING, |t| outcome(renamed(&t.dir, &t.dir.with_extension(&t.token)))),
    probe("change a mode outside", "attributes", |t| outcome(fs::set_permissions(t.dir.join("victim"), fs::Permissions::from_mode(0o640)))),
    probe("change a time outside", "attributes", |t| outcome(utimensat(AT_FDCWD, &t.dir.join("victim"), &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW, UtimensatFlags::NoFollowSymlink))),
    probe("set an attribute outside", "attributes", attribute),
    probe("change an owner outside", "attributes", |t| outcome(chown(t.dir.join("victim"), Some(1), None))).by_root(),
    probe("remove a file outside", WRITING, |t| outcome(fs::remove_file(t.dir.join("victim")))),
    probe("write to the system's programs", "writing above low", |t| outcome(made_in(Path::new("/usr/lib"), t))).by_root(),
    probe("write to the system's configuration", "writing above low", |t| outcome(made_in(Path::new("/etc"), t))).by_root(),
    probe("run a program outside", "exec", |t| outcome(Command::new(t.dir.join("tool")).spawn().and_then(|mut child| child.wait()))),
    probe("run a program of one's own", "exec at high", own_program),
    probe("write to the root", "writing at high", |t| in_root(t, |path| outcome(File::create_new(path)))),
    probe("plant a hook", "protected", |t| planted(t, ".git/hooks")),
    probe("plant a policy", "protected", |t| planted(t, ".ferrum")),
    probe("move the git directory away", "protected", git_away),
];

impl Targets {
    fn canary(&self) -> PathBuf {
        self.dir.join("canary")
    }

    /// A place of the probe's own.
    fn own(&self) -> PathBuf {
        std::env::temp_dir().join(&self.token)
    }
}

fn below(root: &str, path: &Path) -> PathBuf {
    let mut text = std::ffi::OsString::from(root);
    text.push(path);
    text.into()
}

/// Something that begins with a name of the probe's own, which is gone afterwards.
fn through_own<T>(targets: &Targets, act: impl FnOnce(&Path) -> io::Result<T>) -> Outcome {
    let own = targets.own();
    let done = act(&own);
    let _ = fs::remove_file(&own);
    outcome(done)
}

fn by_handle(path: &Path, flags: OFlag) -> nix::Result<()> {
    let handle = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let again = format!("/proc/self/fd/{}", handle.as_raw_fd());
    open(again.as_str(), flags | OFlag::O_CLOEXEC, Mode::empty()).map(drop)
}

/// A new name beside the canary, which is gone afterwards.
fn made<T>(targets: &Targets, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<()> {
    let path = targets.dir.join(&targets.token);
    make(&path)?;
    fs::remove_file(&path).or_else(|_| fs::remove_dir(&path))
}

fn made_in(directory: &Path, targets: &Targets) -> io::Result<()> {
    let path = directory.join(&targets.token);
    File::create_new(&path)?;
    fs::remove_file(path)
}

fn renamed(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    fs::rename(to, from)
}

fn watch(targets: &Targets) -> Outcome {
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
    let watched = Inotify::init(InitFlags::IN_CLOEXEC)
        .and_then(|inotify| inotify.add_watch(&targets.dir, AddWatchFlags::IN_CREATE));
    outcome(watched)
}

fn attribute(targets: &Targets) -> Outcome {
    let Ok(path) = CString::new(targets.dir.join("victim").as_os_str().as_bytes()) else {
        return Outcome::Absent("no path");
    };
    let set = attempt(
        libc::SYS_setxattr,
        &mut [
            Argument::Text(&path),
            Argument::Text(c"user.ferrum"),
            Argument::Text(c"x"),
            Argument::Number(1),
            Argument::Number(0),
        ],
    );
    match set {
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Outcome::Absent("no attributes here"),
        set => outcome(set),
    }
}

/// A script in the private temporary directory: not a program of the system.
fn own_program(targets: &Targets) -> Outcome {
    through_own(targets, |own| {
        fs::write(own, "#!/bin/sh\nexit 0\n")?;
        fs::set_permissions(own, fs::Permissions::from_mode(0o755))?;
        let mut command = Command::new(own);
        command
            .arg0(&targets.token)
            .spawn()
            .and_then(|mut child| child.wait())
    })
}

fn in_root(targets: &Targets, act: impl FnOnce(&Path) -> Outcome) -> Outcome {
    if targets.root.as_os_str().is_empty() {
        return Outcome::Absent("there is no writable root");
    }
    let path = targets.root.join(&targets.token);
    let done = act(&path);
    let _ = fs::remove_file(path);
    done
}

/// Stays where it can be made: whether it is there after the call is seen from outside.
fn planted(targets: &Targets, folder: &str) -> Outcome {
    if targets.root.as_os_str().is_empty() {
        return Outcome::Absent("there is no writable root");
    }
    let folder = targets.root.join(folder);
    if folder.ends_with(".ferrum") {
        let _ = fs::create_dir(&folder);
    } else if !folder.is_dir() {
        return Outcome::Absent("there is no repository");
    }
    outcome(File::create_new(folder.join(&targets.token)))
}

fn git_away(targets: &Targets) -> Outcome {
    let git = targets.root.join(".git");
    if targets.root.as_os_str().is_empty() || !git.is_dir() {
        return Outcome::Absent("there is no repository");
    }
    outcome(renamed(&git, &targets.root.join(&targets.token)))
}
