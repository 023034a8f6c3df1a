//! Extended attributes of an open file. nix has no calls for them.

use nix::errno::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Names or value of one file, in bytes: the kernel's own `XATTR_LIST_MAX` and `XATTR_SIZE_MAX`.
const BUFFER_BYTES: usize = 64 << 10;

/// Names of the attributes that the caller may see.
///
/// # Errors
/// The system's error; `ENOTSUP` where the file system has no attributes.
#[expect(unsafe_code, reason = "no safe wrapper in nix")]
pub fn list(file: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    // SAFETY: the pointer and the length describe `buffer`, which outlives the call.
    let result = unsafe { libc::flistxattr(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    let length = length_of(result)?;
    let names = buffer[..length].split(|byte| *byte == 0);
    Ok(names
        .filter(|name| !name.is_empty())
        .filter_map(|name| CString::new(name).ok())
        .collect())
}

/// Value of one attribute.
///
/// # Errors
/// The system's error; `ENODATA` where there is no such attribute.
#[expect(unsafe_code, reason = "no safe wrapper in nix")]
pub fn get(file: BorrowedFd<'_>, name: &CStr) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    // SAFETY: `name` ends in NUL; the pointer and the length describe `buffer`.
    let result = unsafe {
        libc::fgetxattr(
            file.as_raw_fd(),
            name.as_ptr(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
        )
    };
    let length = length_of(result)?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Sets one attribute, new or not.
///
/// # Errors
/// The system's error.
#[expect(unsafe_code, reason = "no safe wrapper in nix")]
pub fn set(file: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    // SAFETY: `name` ends in NUL; the pointer and the length describe `value`.
    let result = unsafe {
        libc::fsetxattr(
            file.as_raw_fd(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    Errno::result(result).map(drop)
}

/// Removes one attribute.
///
/// # Errors
/// The system's error; `ENODATA` where there is no such attribute.
#[expect(unsafe_code, reason = "no safe wrapper in nix")]
pub fn remove(file: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    // SAFETY: `name` ends in NUL.
    let result = unsafe { libc::fremovexattr(file.as_raw_fd(), name.as_ptr()) };
    Errno::result(result).map(drop)
}

fn length_of(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn an_attribute_is_set_listed_read_and_removed() {
        let file = tempfile::tempfile().unwrap();
        let name = c"user.ferrum";
        match set(file.as_fd(), name, b"value") {
            Ok(()) => {}
            // The file system of the temporary directory decides whether there is anything to test.
            Err(Errno::ENOTSUP) => return,
            Err(error) => panic!("{error}"),
        }
        assert!(list(file.as_fd()).unwrap().contains(&name.to_owned()));
        assert_eq!(get(file.as_fd(), name).unwrap(), b"value");
        remove(file.as_fd(), name).unwrap();
        assert_eq!(get(file.as_fd(), name), Err(Errno::ENODATA));
    }
}
