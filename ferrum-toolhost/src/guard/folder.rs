//! A path that stays as it is: a root's `.ferrum`, or at low a start-up file of the home.

use super::parts::{Part, outcome};
use crate::fs::name::shown;
use std::path::{Path, PathBuf};

/// A root's `.ferrum`, or a start-up file of the home at low.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) part: Part,
    /// In the home: what appears is put aside rather than removed, since it may be the user's own.
    pub(super) in_home: bool,
}

impl Folder {
    pub(super) fn put_back(&self) -> String {
        if !self.in_home || self.part != Part::Absent {
            return outcome(&self.path, self.part.restore(&self.path));
        }
        let here = nix::fcntl::AT_FDCWD;
        let flags = nix::fcntl::RenameFlags::RENAME_NOREPLACE;
        for number in 1..100 {
            let mut aside = self.path.clone().into_os_string();
            aside.push(format!(".put-aside-{number}"));
            match nix::fcntl::renameat2(here, &self.path, here, aside.as_os_str(), flags) {
                Ok(()) => {
                    return format!("put {} aside as {}", shown(&self.path), shown(Path::new(&aside)));
                }
                Err(nix::errno::Errno::EEXIST) => {}
                Err(errno) => return format!("could not put {} aside: {errno}", shown(&self.path)),
            }
        }
        format!("could not put {} aside: too many like it", shown(&self.path))
    }
}
