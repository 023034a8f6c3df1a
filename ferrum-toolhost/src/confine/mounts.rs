//! Building the view as a mount tree, from nothing.
//!
//! After the pivot absolute paths mean the new root and relative paths the old one, so both are
//! usable at once and no path text of the old root is needed once it is detached. Each entry is
//! cloned, narrowed while it is still detached, and only then attached: there is no instant in
//! which it is wider than planned.

use super::cover::{bind_here, c_path};
use super::layers::{Layer, Layers};
use super::step::{At, Step};
use super::view::{Entry, SYSTEM, Source, View};
use super::worktrees;
use crate::fs::beneath;
use crate::fs::path::{lexical, names_backwards};
use crate::sys::mount as sys;
use ferrum_proto::seal::Access;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, fstat, fstatat};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Where the host keeps what commands may read but not write: config copies, spools.
pub const SESSION: &str = "/.ferrum-session";

pub(super) fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

fn mounting(path: &Path) -> String {
    format!("mount {}", path.display())
}

/// The new root under construction.
pub struct Tree {
    old_root: OwnedFd,
    /// See [`View::system_programs_only`]. Landlock denies exec; the mount flag also denies what a
    /// program loader of the system would map.
    system_programs_only: bool,
    /// Mounted directories that commands write and that outlive a host.
    private: Vec<PathBuf>,
    /// Directories of the view itself on the way to entries.
    ways: Vec<PathBuf>,
    /// Entries that came out narrower than planned, and why.
    pub notices: Vec<String>,
}

impl Tree {
    /// Makes mounts private, mounts an empty root and pivots into it. The working directory is
    /// the old root afterwards.
    ///
    /// # Errors
    /// [`Step`]; a denial here means that namespaces are not to be had.
    pub fn pivot() -> Result<Self, Step> {
        let old_root = open(
            "/",
            OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .at("open /")?;
        mount(
            None::<&str>,
            "/",
            None::<&str>,
            MsFlags::MS_REC | MsFlags::MS_PRIVATE,
            None::<&str>,
        )
        .at("make mounts private")?;
        // Over /proc: it exists everywhere, and nothing below it is ever a source.
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(
            Some("ferrum"),
            "/proc",
            Some("tmpfs"),
            flags,
            Some("mode=755,size=16m"),
        )
        .at("mount an empty root")?;
        nix::unistd::chdir("/proc").at("enter the empty root")?;
        nix::unistd::pivot_root(".", ".").at("pivot_root")?;
        nix::unistd::fchdir(&old_root).at("enter the old root")?;
        Ok(Self {
            old_root,
            system_programs_only: false,
            private: Vec::new(),
            ways: Vec::new(),
            notices: Vec::new(),
        })
    }

    /// Mounts the view, and begins with the layers in which nothing else is mounted.
    ///
    /// # Errors
    /// [`Step`].
    pub fn begin(&mut self, view: &View, layers: &Path) -> Result<Layers, Step> {
        self.system_programs_only = view.system_programs_only;
        let mut attributes = sys::ATTR_NOSUID | sys::ATTR_NODEV;
        if self.system_programs_only {
            attributes |= sys::ATTR_NOEXEC;
        }
        let begin = |entry: &Entry| Layer::new(entry, layers, attributes);
        let (free, holding): (Vec<&Entry>, Vec<&Entry>) =
            view.layered().partition(|entry| !view.mounts_below(&entry.path));
        let free = Layers::begin(free.into_iter().map(begin).collect());
        for entry in &view.entries {
            match &entry.source {
                Source::Same => self.same(entry)?,
                Source::Other(from) => {
                    self.bind(from, &entry.path, entry.access)?;
                    self.private.push(entry.path.clone());
                }
                Source::Layered if holding.contains(&entry) => {
                    let layer = begin(entry).make();
                    self.layer(entry, layer)?;
                }
                Source::Layered => {}
                Source::Empty => self.way(&entry.path)?,
            }
        }
        for socket in &view.sockets {
            self.socket(socket)?;
        }
        self.links_out()?;
        Ok(free)
    }

    /// Attaches the layers.
    ///
    /// # Errors
    /// [`Step`].
    pub fn complete(&mut self, layers: Layers) -> Result<(), Step> {
        let mut all = layers.all().into_iter();
        all.try_for_each(|(entry, layer)| self.layer(&entry, layer))
    }

    /// Where no layer is to be had, the entry is read-only.
    fn layer(&mut self, entry: &Entry, layer: Result<OwnedFd, Step>) -> Result<(), Step> {
        let Ok(layer) = layer else {
            return self.same(entry);
        };
        self.mount_point(&entry.path, true)?;
        sys::attach(layer.as_fd(), &c_path(&entry.path)?).at(mounting(&entry.path))
    }

    /// An empty directory that is made read-only when all is mounted in it.
    fn way(&mut self, path: &Path) -> Result<(), Step> {
        self.mount_point(path, true)?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(
            Some("ferrum"),
            path,
            Some("tmpfs"),
            flags,
            Some("mode=755,size=4m"),
        )
        .at(mounting(path))?;
        self.ways.push(path.to_path_buf());
        Ok(())
    }

    /// Lets git see that worktrees outside the view are there.
    pub fn keep_worktrees(&self, git_dirs: &[PathBuf]) {
        let own = [self.private.as_slice(), &self.ways, &[PathBuf::from("/")]].concat();
        for git_dir in git_dirs {
            worktrees::keep(git_dir, &own);
        }
    }

    fn same(&mut self, entry: &Entry) -> Result<(), Step> {
        let meta = fs::symlink_metadata(relative(&entry.real));
        if meta.is_err() && entry.object.is_none() {
            return Ok(());
        }
        if meta.is_ok_and(|meta| meta.is_symlink()) && entry.object.is_none() {
            let target = fs::read_link(relative(&entry.real)).at(entry.path.display().to_string())?;
            make_directories(entry.path.parent().unwrap_or(Path::new("/")))?;
            let _ = symlink(target, &entry.path);
            return Ok(());
        }
        match entry.open(self.old_root.as_fd()) {
            // A directory that this uid cannot reach is not part of its authority.
            Err(error) if entry.may_be_left_out(&error) => Ok(()),
            judged => self.attach(
                judged.at(mounting(&entry.path))?.as_fd(),
                &entry.path,
                entry.access,
            ),
        }
    }

    /// The user named a socket, so nothing else is passed in by its name.
    fn socket(&self, path: &Path) -> Result<(), Step> {
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let opened = openat(&self.old_root, relative(path), flags, Mode::empty()).at(mounting(path))?;
        if fstat(&opened).at(mounting(path))?.st_mode & libc::S_IFMT != libc::S_IFSOCK {
            return Err(Step::new(mounting(path), io::Error::other("it is no socket")));
        }
        self.attach(opened.as_fd(), path, Access::Write)
    }

    /// Attaches a path of the old root that no session writes, links followed, at `to`.
    fn bind(&self, from: &Path, to: &Path, access: Access) -> Result<(), Step> {
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let opened = openat(&self.old_root, relative(from), flags, Mode::empty()).at(mounting(to))?;
        self.attach(opened.as_fd(), to, access)
    }

    /// Clones what was opened in the old root, narrows it, and attaches it at `to` of the new one.
    fn attach(&self, opened: BorrowedFd<'_>, to: &Path, access: Access) -> Result<(), Step> {
        let name = || mounting(to);
        let is_directory = fstat(opened).at(name())?.st_mode & libc::S_IFMT == libc::S_IFDIR;
        let tree = sys::clone_tree(opened, c"", true, true).at(name())?;
        let mut attributes = sys::ATTR_NOSUID | sys::ATTR_NODEV;
        if access != Access::Write {
            attributes |= sys::ATTR_RDONLY;
        }
        if self.system_programs_only && !SYSTEM.iter().any(|system| to.starts_with(system)) {
            attributes |= sys::ATTR_NOEXEC;
        }
        sys::set_attributes(tree.as_fd(), attributes, true).at(name())?;
        self.mount_point(to, is_directory)?;
        sys::attach(tree.as_fd(), &c_path(to)?).at(name())
    }

    fn no_exec(&self) -> MsFlags {
        if self.system_programs_only {
            MsFlags::MS_NOEXEC
        } else {
            MsFlags::empty()
        }
    }

    /// Files of `/etc` that are links out of the view.
    fn links_out(&self) -> Result<(), Step> {
        for file in ["/etc/resolv.conf", "/etc/localtime", "/etc/hosts", "/etc/mtab"] {
            let Ok(target) = fs::read_link(relative(Path::new(file))) else {
                continue;
            };
            let absolute = Path::new("/etc").join(target);
            let normal = lexical(&absolute);
            if normal.starts_with("/proc") || fs::symlink_metadata(&normal).is_ok() {
                continue;
            }
            if fs::metadata(relative(&normal)).is_ok_and(|m| m.is_file()) {
                self.bind(&normal, &normal, Access::Read)?;
            }
        }
        Ok(())
    }

    /// Re-creates the links of a path as the user wrote it, so that it leads to the same place.
    pub fn keep_links(&self, written: &Path) {
        let mut path = PathBuf::from("/");
        let mut rest = names_backwards(written);
        let mut steps = 0;
        while let Some(name) = rest.pop() {
            steps += 1;
            if steps > 64 {
                return;
            }
            if name == ".." {
                path.pop();
                continue;
            }
            path.push(name);
            let Ok(target) = fs::read_link(relative(&path)) else {
                continue;
            };
            if fs::symlink_metadata(&path).is_err() {
                let made = path.parent().is_some_and(|p| make_directories(p).is_ok())
                    && symlink(&target, &path).is_ok();
                if !made {
                    return;
                }
            }
            path.pop();
            if target.is_absolute() {
                path = PathBuf::from("/");
            }
            rest.extend(names_backwards(&target));
        }
    }

    /// The minimal `/dev`: no device that is not listed, a terminal namespace of its own.
    ///
    /// # Errors
    /// [`Step`].
    pub fn devices(&self, extra: &[PathBuf], shm_bytes: u64) -> Result<(), Step> {
        make_directories(Path::new("/dev"))?;
        for name in ["null", "zero", "full", "random", "urandom", "tty"] {
            self.device(&Path::new("/dev").join(name))?;
        }
        for path in extra {
            self.device(path)?;
        }
        for directory in ["/dev/pts", "/dev/shm", "/dev/mqueue"] {
            make_directories(Path::new(directory))?;
        }
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        mount(
            Some("devpts"),
            "/dev/pts",
            Some("devpts"),
            flags,
            Some("newinstance,ptmxmode=0666,mode=620"),
        )
        .at("mount /dev/pts")?;
        let size = if shm_bytes == 0 {
            "mode=1777".to_owned()
        } else {
            // A file without content takes kernel memory too: as many of them as pages.
            format!("mode=1777,size={shm_bytes},nr_inodes={}", shm_bytes / 4096 + 1)
        };
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | self.no_exec();
        mount(Some("shm"), "/dev/shm", Some("tmpfs"), flags, Some(size.as_str())).at("mount /dev/shm")?;
        for (link, target) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            let path = Path::new("/dev").join(link);
            symlink(target, &path).at(path.display().to_string())?;
        }
        Ok(())
    }

    fn device(&self, path: &Path) -> Result<(), Step> {
        let name = || format!("device {}", path.display());
        if fs::metadata(relative(path)).is_err() {
            return Ok(());
        }
        let tree = sys::clone_tree(self.old_root.as_fd(), &c_path(relative(path))?, false, true).at(name())?;
        sys::set_attributes(tree.as_fd(), sys::ATTR_NOSUID, false).at(name())?;
        mount_point(path, false)?;
        sys::attach(tree.as_fd(), &c_path(path)?).at(name())
    }

    /// Makes `path` exist as something to mount on. In directories that commands write, what
    /// stands in the way is replaced, not followed.
    fn mount_point(&self, path: &Path, is_directory: bool) -> Result<(), Step> {
        let name = || format!("make {}", path.display());
        for base in &self.private {
            let Ok(relative) = path.strip_prefix(base) else {
                continue;
            };
            let (above, last) = match (is_directory, relative.parent()) {
                (false, Some(parent)) => (parent, relative.file_name()),
                _ => (relative, None),
            };
            let Some(parent) = beneath::directory(base, above).at(name())? else {
                // Another mount lies between: not the private directory's place any more.
                continue;
            };
            let is_file = |name| {
                fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)
                    .is_ok_and(|s| s.st_mode & libc::S_IFMT == libc::S_IFREG)
            };
            if last.is_some_and(|last| !is_file(last)) {
                beneath::file(base, relative, b"").at(name())?;
            }
            return Ok(());
        }
        mount_point(path, is_directory)
    }

    /// Detaches the old root and makes the new one read-only: a write to a place that is not in
    /// the view is then an error, never a silent success.
    ///
    /// # Errors
    /// [`Step`].
    pub fn finish(self) -> Result<Vec<String>, Step> {
        nix::unistd::fchdir(&self.old_root).at("enter the old root")?;
        umount2(".", MntFlags::MNT_DETACH).at("detach the old root")?;
        nix::unistd::chdir("/").at("enter the new root")?;
        for own in self.ways.iter().map(PathBuf::as_path).chain([Path::new("/")]) {
            let name = || format!("make {} read-only", own.display());
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let mount = open(own, flags, Mode::empty()).at(name())?;
            let attributes = sys::ATTR_RDONLY | sys::ATTR_NOSUID | sys::ATTR_NODEV;
            sys::set_attributes(mount.as_fd(), attributes, false).at(name())?;
        }
        Ok(self.notices)
    }

    /// The host's own corner: config copies and spools. Read-only to commands by Landlock.
    ///
    /// # Errors
    /// [`Step`].
    pub fn corner(&self, from: &Path) -> Result<(), Step> {
        self.bind(from, Path::new(SESSION), Access::Write)
    }

    /// Binds the machine's own `/proc`, where a fresh one cannot be mounted.
    ///
    /// # Errors
    /// [`Step`].
    pub fn outer_proc(&self) -> Result<(), Step> {
        let tree = sys::clone_tree(self.old_root.as_fd(), c"proc", true, true).at("bind /proc")?;
        sys::set_attributes(tree.as_fd(), sys::ATTR_NOSUID | sys::ATTR_NODEV, true).at("bind /proc")?;
        mount_point(Path::new("/proc"), true)?;
        sys::attach(tree.as_fd(), c"/proc").at("bind /proc")
    }
}

/// Makes `path` exist as something to mount on.
fn mount_point(path: &Path, is_directory: bool) -> Result<(), Step> {
    if is_directory {
        return make_directories(path);
    }
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directories(parent)?;
    }
    fs::write(path, "").at(format!("make {}", path.display()))
}

pub(super) fn make_directories(path: &Path) -> Result<(), Step> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .at(format!("make {}", path.display()))
}

/// Gives the user a passwd line where the machine's file has none: programs that ask who they are
/// fail without it.
///
/// # Errors
/// [`Step`].
pub fn own_passwd_line(home: &Path, corner: &Path) -> Result<(), Step> {
    let uid = nix::unistd::geteuid().as_raw();
    let gid = nix::unistd::getegid().as_raw();
    let Ok(text) = fs::read_to_string("/etc/passwd") else {
        return Ok(());
    };
    if text
        .lines()
        .any(|line| line.split(':').nth(2) == Some(&uid.to_string()))
    {
        return Ok(());
    }
    let copy = corner.join("passwd");
    let line = format!("user{uid}:x:{uid}:{gid}::{}:/bin/bash\n", home.display());
    fs::write(&copy, text + &line).at("write the passwd copy")?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).at("write the passwd copy")?;
    bind_here(&copy, Path::new("/etc/passwd"), true)
}

/// True where the two paths are the same object.
#[must_use]
pub fn same_object(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
