//! Starting, reaping and ending hosts.

use super::cgroup::Cgroup;
use super::directories::Directories;
use crate::sys::process::{Pid, RolePlan, Waited, is_child, kill, spawn_role, wait_any};
use ferrum_proto::charter::{Charter, Wish};
use ferrum_proto::frame;
use ferrum_proto::limits::SEAL_BYTES_MAX;
use ferrum_proto::seal::{Lint, Seal};
use ferrum_proto::terms::PathBytes;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::pipe2;
use std::ffi::CStr;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long hosts get to end by themselves when the front goes, in milliseconds.
const END_MS_MAX: u64 = 1_000;

/// How long hosts get to put back what commands left when the front has died, in milliseconds: a
/// little more than they take at most. Nothing is to run 300 ms after the front's end.
const LEAVE_MS_MAX: u64 = 220;

/// One started host.
struct Host {
    number: u32,
    /// The process that was started, and the one that it made in its namespaces.
    pids: Vec<Pid>,
    /// Read end of the pipe through which the host says its pids. A host that needs to see the
    /// launcher's end keeps the other end for life; once all have closed it there is none.
    life: Option<OwnedFd>,
    /// How many it has said.
    said: usize,
}

/// A host tries at most two modes in namespaces, and says the pid of each.
const PIDS_MAX: usize = 2;

/// What one role of a host gets besides its seal and socket.
struct Role<'a> {
    name: &'static CStr,
    /// The session's directory, and the leaf that a host begins in.
    cgroup: Option<(BorrowedFd<'a>, BorrowedFd<'a>)>,
    become_user: Option<(u32, u32)>,
}

/// Everything that the launcher has started.
pub struct Hosts {
    image: OwnedFd,
    start: OwnedFd,
    charter: Option<Charter>,
    session: Option<(Directories, Result<Cgroup, String>)>,
    running: Vec<Host>,
}

impl Hosts {
    #[must_use]
    pub fn new(image: OwnedFd, start: OwnedFd) -> Self {
        Self {
            image,
            start,
            charter: None,
            session: None,
            running: Vec::new(),
        }
    }

    pub fn charter(&mut self, charter: Charter) {
        self.charter = Some(charter);
    }

    /// Starts a host.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn open(&mut self, number: u32, cwd: &PathBytes, wish: Wish, socket: OwnedFd) -> Result<(), String> {
        let charter = self.charter_for(&wish)?;
        let directory = self.directory(cwd)?;
        let canonical = std::fs::read_link(format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&directory)
        ))
        .map_err(|e| format!("{}: {e}", cwd.as_path().display()))?;
        let become_user = other_owner(&directory);
        if self.session.is_none() {
            let directories = Directories::make(&charter, become_user.is_some())?;
            let cgroup = Cgroup::make(&directories.name);
            self.session = Some((directories, cgroup));
        }
        let Some((directories, cgroup)) = &self.session else {
            return Err("no session".into());
        };
        if become_user.is_some() && !directories.passable {
            return Err("this session began as root's own and cannot serve another user's directory".into());
        }
        let places = directories.for_cwd(&canonical, charter.home);
        let seal = Seal {
            charter,
            wish,
            cwd: cwd.clone(),
            session_dir: PathBytes::from(places.session.as_path()),
            home_dir: PathBytes::from(places.home.as_path()),
            lint: None,
        };
        // The directory is root's: another uid can make nothing in it.
        let cgroup = cgroup.as_ref().ok().filter(|_| become_user.is_none());
        let role = Role {
            name: c"host",
            cgroup: cgroup.map(|c| (c.directory().as_fd(), c.leaf().as_fd())),
            become_user,
        };
        let (gate, open_gate) = pipe2(OFlag::O_CLOEXEC).map_err(|e| format!("pipe: {e}"))?;
        let (pid, life) = self.start(&role, &seal, &directory, &socket, Some(gate))?;
        // While the host loads. It waits at the gate before it uses them, and ends where nobody
        // opens.
        places.make(become_user)?;
        nix::unistd::write(&open_gate, b".").map_err(|e| format!("pipe: {e}"))?;
        self.running.push(Host {
            number,
            pids: vec![pid],
            life: Some(life),
            said: 0,
        });
        Ok(())
    }

    /// Starts a host in role check: no directories, no cgroup, nothing that stays.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn open_check(
        &mut self,
        number: u32,
        cwd: &PathBytes,
        wish: Wish,
        socket: OwnedFd,
    ) -> Result<(), String> {
        self.check(number, cwd, wish, None, socket)
    }

    /// Starts a host in role check that only looks at project files.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn open_lint(
        &mut self,
        number: u32,
        cwd: &PathBytes,
        file: Option<PathBytes>,
        socket: OwnedFd,
    ) -> Result<(), String> {
        self.check(number, cwd, Wish::default(), Some(Lint { file }), socket)
    }

    fn check(
        &mut self,
        number: u32,
        cwd: &PathBytes,
        wish: Wish,
        lint: Option<Lint>,
        socket: OwnedFd,
    ) -> Result<(), String> {
        let charter = self.charter_for(&wish)?;
        let directory = self.directory(cwd)?;
        let seal = Seal {
            charter,
            wish,
            cwd: cwd.clone(),
            session_dir: PathBytes::default(),
            home_dir: PathBytes::default(),
            lint,
        };
        let role = Role {
            name: c"check",
            cgroup: None,
            become_user: other_owner(&directory),
        };
        let (pid, life) = self.start(&role, &seal, &directory, &socket, None)?;
        self.running.push(Host {
            number,
            pids: vec![pid],
            life: Some(life),
            said: 0,
        });
        Ok(())
    }

    /// The ceiling is checked again by policy in the host; here it needs no trust in either side.
    fn charter_for(&self, wish: &Wish) -> Result<Charter, String> {
        let charter = self.charter.clone().ok_or("no charter")?;
        let tier = wish.tier.unwrap_or(charter.tier);
        if tier < charter.ceiling {
            return Err(format!(
                "tier {} is below the ceiling {} of the user's configuration",
                tier.name(),
                charter.ceiling.name()
            ));
        }
        Ok(charter)
    }

    /// Starts the process, and returns the pipe through which it says its pids.
    fn start(
        &self,
        role: &Role<'_>,
        seal: &Seal,
        directory: &OwnedFd,
        socket: &OwnedFd,
        gate: Option<OwnedFd>,
    ) -> Result<(Pid, OwnedFd), String> {
        let memory = sealed_memory(seal).map_err(|e| format!("cannot pass the seal: {e}"))?;
        let (life, life_end) = pipe2(OFlag::O_CLOEXEC).map_err(|e| format!("pipe: {e}"))?;
        let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(|e| format!("/dev/null: {e}"))?;
        let pid = spawn_role(&RolePlan {
            image: self.image.as_fd(),
            argv: &[c"ferrum-toolhost", role.name],
            descriptors: &[
                Some(null.as_fd()),
                Some(null.as_fd()),
                Some(null.as_fd()),
                Some(socket.as_fd()),
                Some(memory.as_fd()),
                role.cgroup.map(|(directory, _)| directory),
                Some(life_end.as_fd()),
                gate.as_ref().map(OwnedFd::as_fd),
            ],
            cwd: directory.as_fd(),
            cgroup: role.cgroup.map(|(_, leaf)| leaf),
            cgroup_slot: 5,
            become_user: role.become_user,
        })
        .map_err(|e| format!("cannot start a host: {e}"))?;
        fcntl(&life, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|e| format!("pipe: {e}"))?;
        Ok((pid, life))
    }

    /// The start directory is the one that was current when the front started, whatever its name
    /// leads to by now; any other is opened by name.
    fn directory(&self, cwd: &PathBytes) -> Result<OwnedFd, String> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = open(cwd.as_path(), flags, Mode::empty());
        let identity = |fd: &OwnedFd| fstat(fd).map(|s| (s.st_dev, s.st_ino));
        match opened {
            Ok(fd) if identity(&fd) != identity(&self.start) => Ok(fd),
            Ok(_) => self.start.try_clone().map_err(|e| e.to_string()),
            Err(e) => Err(format!("working directory {}: {e}", cwd.as_path().display())),
        }
    }

    pub fn life_pipes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running
            .iter()
            .filter_map(|h| h.life.as_ref())
            .map(OwnedFd::as_fd)
    }

    /// Takes the pids that hosts have said since.
    pub fn read_pids(&mut self) {
        for host in &mut self.running {
            while let Some(life) = &host.life {
                let mut word = [0u8; 4];
                match nix::unistd::read(life, &mut word) {
                    Err(Errno::EAGAIN | Errno::EINTR) => break,
                    // Pids are written whole: four bytes into a pipe are never split. What is no
                    // child is gone already, or was never the host's to name.
                    Ok(4) if host.said < PIDS_MAX => {
                        host.said += 1;
                        let pid = Pid::from_ne_bytes(word);
                        host.pids.extend(is_child(pid).then_some(pid));
                    }
                    // Closed, or a host that breaks the rules.
                    _ => host.life = None,
                }
            }
        }
    }

    /// Reaps whatever has ended and returns the hosts that are gone as a whole.
    pub fn reap(&mut self) -> Vec<(u32, String)> {
        let mut gone = Vec::new();
        loop {
            let ended = match wait_any() {
                Waited::Ended(ended) => ended,
                Waited::Running | Waited::Childless => return gone,
            };
            self.read_pids();
            let Some(at) = self.running.iter().position(|h| h.pids.contains(&ended.pid)) else {
                // An orphan of a session without a pid namespace, adopted by this subreaper: its own
                // children are adopted with its end.
                if self.running.is_empty() {
                    self.kill_adopted();
                }
                continue;
            };
            let host = &mut self.running[at];
            host.pids.retain(|pid| *pid != ended.pid);
            if host.pids.is_empty() {
                let how = if ended.status < 128 {
                    format!("exit status {}", ended.status)
                } else {
                    format!("signal {}", ended.status - 128)
                };
                gone.push((host.number, how));
                self.running.remove(at);
                // While another host is starting, its second process is not known yet.
                if self.running.is_empty() {
                    self.kill_adopted();
                }
            }
        }
    }

    /// Ends one host at once.
    pub fn close(&mut self, number: u32) {
        for host in self.running.iter().filter(|h| h.number == number) {
            for pid in &host.pids {
                let _ = kill(*pid, libc::SIGKILL);
            }
        }
    }

    /// Kills children that are no hosts: orphans of a session without a pid namespace, which this
    /// subreaper adopted when their host went.
    fn kill_adopted(&self) {
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        for pid in children.split_whitespace().filter_map(|p| p.parse::<Pid>().ok()) {
            if !self.running.iter().any(|h| h.pids.contains(&pid)) {
                let _ = kill(pid, libc::SIGKILL);
            }
        }
    }

    /// Waits until the hosts have ended by themselves, for a short while. They see the front's end
    /// as this process does; only they know what a command left where it is obeyed.
    pub fn let_end(&mut self) {
        let deadline = Instant::now() + Duration::from_millis(LEAVE_MS_MAX);
        loop {
            self.read_pids();
            self.reap();
            if self.running.is_empty() || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills every host, and with it what runs in its namespace.
    pub fn kill_all(&mut self) {
        self.read_pids();
        for pid in self.running.iter().flat_map(|h| &h.pids) {
            let _ = kill(*pid, libc::SIGKILL);
        }
        if let Some((_, Ok(cgroup))) = &self.session {
            cgroup.kill();
        }
    }

    /// Waits until everything is gone and removes what was made on disk.
    pub fn end_all(&mut self) {
        let deadline = Instant::now() + Duration::from_millis(END_MS_MAX);
        while Instant::now() < deadline {
            self.kill_adopted();
            match wait_any() {
                Waited::Ended(_) => {}
                Waited::Running => std::thread::sleep(Duration::from_millis(1)),
                Waited::Childless => break,
            }
        }
        if let Some((directories, cgroup)) = &self.session {
            if let Ok(cgroup) = cgroup {
                cgroup.end();
            }
            directories.remove();
        }
    }
}

/// As root over a directory of somebody else: that user's ids, so that ownership means what it says.
fn other_owner(directory: &OwnedFd) -> Option<(u32, u32)> {
    let stat = fstat(directory).ok()?;
    let is_root = nix::unistd::geteuid().is_root();
    (is_root && stat.st_uid != 0).then_some((stat.st_uid, stat.st_gid))
}

/// The seal in memory that nobody can change any more.
fn sealed_memory(seal: &Seal) -> std::io::Result<OwnedFd> {
    let bytes = frame::encode_value(seal, SEAL_BYTES_MAX).map_err(std::io::Error::other)?;
    let memory = memfd_create("ferrum-seal", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    let mut file = File::from(memory);
    file.write_all(&bytes)?;
    file.rewind()?;
    let seals =
        SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}
