//! A step of a host's set-up that failed, and how a failure becomes one.

use std::io;

/// A step of the set-up that failed.
#[derive(Debug)]
pub struct Step {
    pub what: String,
    pub source: io::Error,
}

impl Step {
    pub(super) fn new(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self {
            what: what.into(),
            source: source.into(),
        }
    }

    /// True where the kernel or an administrator denies namespaces as such: a smaller mode is
    /// then right. Anything else is a fault.
    #[must_use]
    pub fn is_denial(&self) -> bool {
        matches!(
            self.source.raw_os_error(),
            Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::ENOSYS | libc::EINVAL | libc::EUSERS)
        )
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

pub(super) trait At<T> {
    fn at(self, what: impl Into<String>) -> Result<T, Step>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, what: impl Into<String>) -> Result<T, Step> {
        self.map_err(|e| Step::new(what, e))
    }
}
