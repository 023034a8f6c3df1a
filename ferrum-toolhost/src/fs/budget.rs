//! Time and patience of one call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest time of one `read`, `find` or `grep`.
pub const WALK_TIME_MAX: Duration = Duration::from_secs(10);

/// When one call has to end.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    deadline: Instant,
    cancel: &'a AtomicBool,
}

/// Why a walk ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Deadline,
    Cancelled,
}

impl<'a> Budget<'a> {
    #[must_use]
    pub fn new(time: Duration, cancel: &'a AtomicBool) -> Self {
        Self {
            deadline: Instant::now() + time,
            cancel,
        }
    }

    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        if self.cancel.load(Ordering::Relaxed) {
            Some(Stop::Cancelled)
        } else {
            (Instant::now() >= self.deadline).then_some(Stop::Deadline)
        }
    }
}
