//! Names and kinds of the entries of one directory.

use crate::fs::FsError;
use crate::fs::resolve::kind_of;
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, SFlag, fstatat};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Entries of one directory, which are held in memory to be sorted.
const ENTRIES_MAX: usize = 1_000_000;

/// What an entry is, by its own name and not by what a link leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Symlink,
    Special,
}

/// One name in a directory.
#[derive(Debug)]
pub struct Listed {
    pub name: Vec<u8>,
    pub kind: EntryKind,
}

/// Names and kinds of one directory, unsorted. Entries get a stat only where the file system
/// does not tell the kind.
///
/// # Errors
/// The directory cannot be opened or read.
pub fn list(directory: BorrowedFd<'_>, asked: &Path) -> Result<Vec<Listed>, FsError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut dir = Dir::openat(directory, ".", flags, Mode::empty())
        .map_err(|errno| FsError::system("list", asked, errno))?;
    let mut listed = Vec::new();
    for entry in dir.iter() {
        if listed.len() >= ENTRIES_MAX {
            return Err(FsError::other(
                asked,
                format!("more than {ENTRIES_MAX} entries; use bash"),
            ));
        }
        let entry = entry.map_err(|errno| FsError::system("list", asked, errno))?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            Some(Type::File) => EntryKind::File,
            Some(Type::Directory) => EntryKind::Directory,
            Some(Type::Symlink) => EntryKind::Symlink,
            Some(Type::Fifo | Type::Socket | Type::CharacterDevice | Type::BlockDevice) => EntryKind::Special,
            None => kind_by_stat(directory, name),
        };
        listed.push(Listed {
            name: name.to_bytes().to_vec(),
            kind,
        });
    }
    Ok(listed)
}

fn kind_by_stat(directory: BorrowedFd<'_>, name: &std::ffi::CStr) -> EntryKind {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW).map(|stat| kind_of(&stat)) {
        Ok(SFlag::S_IFREG) => EntryKind::File,
        Ok(SFlag::S_IFDIR) => EntryKind::Directory,
        Ok(SFlag::S_IFLNK) => EntryKind::Symlink,
        Ok(_) | Err(_) => EntryKind::Special,
    }
}
