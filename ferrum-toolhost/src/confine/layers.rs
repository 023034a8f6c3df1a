//! Copy-on-write layers over toolchains: reads come from the machine, writes go to the session.
//!
//! Each takes a dozen operations on the session's disk, so they are made detached, in a thread
//! beside the other mounts, and attached when all are there.

use super::cover::c_path;
use super::mounts::relative;
use super::step::{At, Step};
use super::view::Entry;
use crate::sys::mount as sys;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::fstat;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// One layer to be made.
pub(super) struct Layer {
    entry: Entry,
    /// The session's directories for it: what is written, and what the filesystem works in.
    upper: PathBuf,
    work: PathBuf,
    attributes: u64,
}

/// A layer, or why there is none.
type Made = (Entry, Result<OwnedFd, Step>);

/// Layers under way. Paths are taken relative to the working directory, which must stay the old
/// root until [`Layers::all`] returns.
pub struct Layers {
    rest: Arc<Mutex<Vec<Layer>>>,
    beside: Option<JoinHandle<Vec<Made>>>,
}

impl Layers {
    pub(super) fn begin(layers: Vec<Layer>) -> Self {
        let is_empty = layers.is_empty();
        let rest = Arc::new(Mutex::new(layers));
        let shared = Arc::clone(&rest);
        // Without a thread all are made at the end.
        let beside = (!is_empty).then(|| std::thread::Builder::new().spawn(move || make(&shared)));
        Self {
            rest,
            beside: beside.and_then(Result::ok),
        }
    }

    /// Helps with what is left, and returns all of them.
    pub(super) fn all(self) -> Vec<Made> {
        let mut made = make(&self.rest);
        let others = self.beside.map(JoinHandle::join);
        made.extend(others.into_iter().flatten().flatten());
        made
    }
}

fn make(rest: &Mutex<Vec<Layer>>) -> Vec<Made> {
    let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).pop();
    std::iter::from_fn(next)
        .map(|layer| {
            let made = layer.make();
            (layer.entry, made)
        })
        .collect()
}

impl Layer {
    /// Named after what it lies over, so that every host of the session finds the same.
    pub(super) fn new(entry: &Entry, directory: &Path, attributes: u64) -> Self {
        let name = entry.path.as_os_str().as_bytes();
        let name: Vec<u8> = name.iter().map(|b| if *b == b'/' { b'|' } else { *b }).collect();
        let place = |what: &[u8]| directory.join(OsStr::from_bytes(&[what, &name].concat()));
        Self {
            entry: entry.clone(),
            upper: place(b"upper"),
            work: place(b"work"),
            attributes,
        }
    }

    /// The layer, detached.
    pub(super) fn make(&self) -> Result<OwnedFd, Step> {
        let name = || format!("layer over {}", self.entry.path.display());
        let opened = self.entry.open(AT_FDCWD).at(name())?;
        if fstat(&opened).at(name())?.st_mode & libc::S_IFMT != libc::S_IFDIR {
            return Err(Step::new(name(), io::Error::from_raw_os_error(libc::ENOTDIR)));
        }
        // By its descriptor: the name may lead elsewhere by now. Where the old root has no /proc
        // there is no layer.
        let lower = PathBuf::from(format!("proc/self/fd/{}", opened.as_raw_fd()));
        let lower = lower.as_path();
        let (upper, work) = (relative(&self.upper), relative(&self.work));
        for directory in [upper, work] {
            private(directory).at(name())?;
        }
        // An earlier host of the session left its mark that the layer may not be mounted again,
        // which is about a crash of the machine: the layer's content is the session's own.
        let _ = fs::remove_dir_all(work.join("work/incompat"));
        let overlay = sys::new_filesystem(c"overlay").at(name())?;
        for (key, path) in [(c"lowerdir", lower), (c"upperdir", upper), (c"workdir", work)] {
            if path.to_str().is_none_or(|text| text.contains([',', ':', '\\'])) {
                return Err(Step::new(name(), io::Error::from_raw_os_error(libc::EINVAL)));
            }
            sys::set_option(overlay.as_fd(), key, Some(&c_path(path)?)).at(name())?;
        }
        for flag in [c"userxattr", c"volatile"] {
            sys::set_option(overlay.as_fd(), flag, None).at(name())?;
        }
        sys::detached(overlay.as_fd(), self.attributes).at(name())
    }
}

/// The session's second host finds them there.
fn private(directory: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}
