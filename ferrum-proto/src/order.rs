//! The tables of what may follow what, one per direction. A message that its table does not
//! admit ends the connection.

use crate::control::{FromLauncher, ToLauncher};
use crate::limits::{HOSTS_MAX, PENDING_CALLS_MAX, RESULT_BYTES_MAX};
use crate::reply::FromHost;
use crate::request::ToHost;
use std::collections::{BTreeMap, BTreeSet};

/// A message that may not come now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfOrder {
    /// `Hello` is missing or came twice.
    Hello,
    /// The peer speaks another version of the wire.
    Protocol(u16),
    /// A once-only message came twice or in the wrong phase.
    Phase(&'static str),
    /// A call id that is not above all earlier ones, or a reply to no open call.
    Id(u64),
    /// Too many unanswered calls or open hosts.
    Pending,
    /// A result's text is above the limit or not as long as stated.
    Length,
}

impl std::fmt::Display for OutOfOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hello => write!(f, "greeting missing or repeated"),
            Self::Protocol(v) => write!(f, "protocol {v}, expected {}", crate::PROTOCOL),
            Self::Phase(what) => write!(f, "{what} is not allowed now"),
            Self::Id(id) => write!(f, "id {id} is not allowed now"),
            Self::Pending => write!(f, "too many open requests"),
            Self::Length => write!(f, "result text is too long or not as long as stated"),
        }
    }
}

impl std::error::Error for OutOfOrder {}

fn hello(seen: &mut bool, protocol: u16) -> Result<(), OutOfOrder> {
    if std::mem::replace(seen, true) {
        return Err(OutOfOrder::Hello);
    }
    if protocol == crate::PROTOCOL {
        Ok(())
    } else {
        Err(OutOfOrder::Protocol(protocol))
    }
}

/// What a host accepts from the front.
#[derive(Debug, Default)]
pub struct ToHostOrder {
    /// Role check: questions instead of calls.
    checks: bool,
    greeted: bool,
    last_id: u64,
    pending: BTreeSet<u64>,
}

impl ToHostOrder {
    /// For a host in role check.
    #[must_use]
    pub fn check() -> Self {
        Self {
            checks: true,
            ..Self::default()
        }
    }

    /// # Errors
    /// [`OutOfOrder`] when the message may not come now.
    pub fn admit(&mut self, message: &ToHost) -> Result<(), OutOfOrder> {
        match message {
            ToHost::Hello { protocol, .. } => hello(&mut self.greeted, *protocol),
            _ if !self.greeted => Err(OutOfOrder::Hello),
            ToHost::Call { .. } | ToHost::Cancel { .. } | ToHost::Survey { .. } if self.checks => {
                Err(OutOfOrder::Phase("a call to a host in role check"))
            }
            ToHost::Explain { .. } if !self.checks => {
                Err(OutOfOrder::Phase("a question to a host in role session"))
            }
            ToHost::Call { id, .. } | ToHost::Explain { id, .. } | ToHost::Survey { id } => {
                if *id <= self.last_id {
                    return Err(OutOfOrder::Id(*id));
                }
                if self.pending.len() >= PENDING_CALLS_MAX {
                    return Err(OutOfOrder::Pending);
                }
                self.last_id = *id;
                self.pending.insert(*id);
                Ok(())
            }
            // A cancel may cross the reply on the wire, so any id that was ever called is right.
            ToHost::Cancel { id } if *id <= self.last_id => Ok(()),
            ToHost::Cancel { id } => Err(OutOfOrder::Id(*id)),
        }
    }

    /// The host has answered `id`.
    pub fn answered(&mut self, id: u64) {
        self.pending.remove(&id);
    }
}

/// What the front accepts from a host.
#[derive(Debug, Default)]
pub struct FromHostOrder {
    /// Role check: answers instead of walls and results.
    checks: bool,
    greeted: bool,
    granted: bool,
    ready: bool,
    failed: bool,
    /// Open calls, each with the bytes of text so far.
    open: BTreeMap<u64, usize>,
}

impl FromHostOrder {
    /// From a host in role check.
    #[must_use]
    pub fn check() -> Self {
        Self {
            checks: true,
            ..Self::default()
        }
    }

    /// The front has sent the call or the question `id`.
    pub fn called(&mut self, id: u64) {
        self.open.insert(id, 0);
    }

    /// # Errors
    /// [`OutOfOrder`] when the message may not come now.
    pub fn admit(&mut self, message: &FromHost) -> Result<(), OutOfOrder> {
        if self.failed {
            return Err(OutOfOrder::Phase("a message after the last one"));
        }
        match message {
            FromHost::Hello { protocol, .. } => hello(&mut self.greeted, *protocol),
            _ if !self.greeted => Err(OutOfOrder::Hello),
            FromHost::Granted(_) if !self.granted => {
                self.granted = true;
                Ok(())
            }
            FromHost::Granted(_) => Err(OutOfOrder::Phase("a second grant")),
            FromHost::Ready(_) if self.granted && !self.ready && !self.checks => {
                self.ready = true;
                Ok(())
            }
            FromHost::Ready(_) => Err(OutOfOrder::Phase("ready")),
            FromHost::Linted(_) if self.checks && !self.granted => {
                self.failed = true;
                Ok(())
            }
            FromHost::Linted(_) => Err(OutOfOrder::Phase("a report of files from a host that answers")),
            FromHost::SealFailed(_) if !self.ready => {
                self.failed = true;
                Ok(())
            }
            FromHost::SealFailed(_) => Err(OutOfOrder::Phase("a failed seal after ready")),
            FromHost::Progress { id, .. } => self.text(*id).map(|_| ()),
            FromHost::Chunk { id, bytes } => {
                let so_far = self.text(*id)?;
                *so_far += bytes.len();
                if *so_far > RESULT_BYTES_MAX || bytes.len() > crate::limits::CHUNK_BYTES_MAX {
                    return Err(OutOfOrder::Length);
                }
                Ok(())
            }
            FromHost::Reply { id, reply } => {
                let so_far = *self.text(*id)?;
                self.open.remove(id);
                if so_far as u64 == reply.text_bytes {
                    Ok(())
                } else {
                    Err(OutOfOrder::Length)
                }
            }
            FromHost::Surveyed { id, .. } => {
                let so_far = *self.text(*id)?;
                self.open.remove(id);
                if so_far == 0 {
                    Ok(())
                } else {
                    Err(OutOfOrder::Length)
                }
            }
            FromHost::Explained { id, .. } if self.checks && self.granted => {
                // In the order of the questions, which are numbered upwards.
                match self.open.first_key_value() {
                    Some((first, _)) if first == id => {
                        self.open.remove(id);
                        Ok(())
                    }
                    _ => Err(OutOfOrder::Id(*id)),
                }
            }
            FromHost::Explained { .. } => Err(OutOfOrder::Phase("an answer to no question")),
        }
    }

    fn text(&mut self, id: u64) -> Result<&mut usize, OutOfOrder> {
        if !self.ready {
            return Err(OutOfOrder::Phase("a reply before ready"));
        }
        self.open.get_mut(&id).ok_or(OutOfOrder::Id(id))
    }
}

/// What the launcher accepts from the front.
#[derive(Debug, Default)]
pub struct ToLauncherOrder {
    greeted: bool,
    chartered: bool,
    last_host: u32,
    open: BTreeSet<u32>,
}

impl ToLauncherOrder {
    /// `descriptors` is the number that came with the message.
    ///
    /// # Errors
    /// [`OutOfOrder`] when the message may not come now, or not with these descriptors.
    pub fn admit(&mut self, message: &ToLauncher, descriptors: usize) -> Result<(), OutOfOrder> {
        let wanted = usize::from(matches!(
            message,
            ToLauncher::OpenHost { .. } | ToLauncher::OpenCheck { .. } | ToLauncher::OpenLint { .. }
        ));
        if descriptors != wanted {
            return Err(OutOfOrder::Phase("a descriptor beside this message"));
        }
        match message {
            ToLauncher::Hello { protocol, .. } => hello(&mut self.greeted, *protocol),
            _ if !self.greeted => Err(OutOfOrder::Hello),
            ToLauncher::Charter(_) if !self.chartered => {
                self.chartered = true;
                Ok(())
            }
            ToLauncher::Charter(_) => Err(OutOfOrder::Phase("a second charter")),
            _ if !self.chartered => Err(OutOfOrder::Phase("a request before the charter")),
            ToLauncher::OpenHost { host, .. }
            | ToLauncher::OpenCheck { host, .. }
            | ToLauncher::OpenLint { host, .. } => {
                if *host <= self.last_host {
                    return Err(OutOfOrder::Id(u64::from(*host)));
                }
                if self.open.len() >= HOSTS_MAX {
                    return Err(OutOfOrder::Pending);
                }
                self.last_host = *host;
                self.open.insert(*host);
                Ok(())
            }
            ToLauncher::CloseHost { host } if *host <= self.last_host => Ok(()),
            ToLauncher::CloseHost { host } => Err(OutOfOrder::Id(u64::from(*host))),
        }
    }

    /// The host is gone.
    pub fn closed(&mut self, host: u32) {
        self.open.remove(&host);
    }
}

/// What the front accepts from the launcher.
#[derive(Debug, Default)]
pub struct FromLauncherOrder {
    greeted: bool,
    asked: BTreeSet<u32>,
    started: BTreeSet<u32>,
}

impl FromLauncherOrder {
    /// The front has asked for `host`.
    pub fn asked(&mut self, host: u32) {
        self.asked.insert(host);
    }

    /// # Errors
    /// [`OutOfOrder`] when the message may not come now.
    pub fn admit(&mut self, message: &FromLauncher) -> Result<(), OutOfOrder> {
        match message {
            FromLauncher::Hello { protocol, .. } => hello(&mut self.greeted, *protocol),
            _ if !self.greeted => Err(OutOfOrder::Hello),
            FromLauncher::HostStarted { host } if self.asked.remove(host) => {
                self.started.insert(*host);
                Ok(())
            }
            FromLauncher::HostRefused { host, .. } if self.asked.remove(host) => Ok(()),
            FromLauncher::HostExited { host, .. } if self.started.remove(host) => Ok(()),
            FromLauncher::HostStarted { host }
            | FromLauncher::HostRefused { host, .. }
            | FromLauncher::HostExited { host, .. } => Err(OutOfOrder::Id(u64::from(*host))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Explanation;
    use crate::request::{Act, Query};

    fn hello() -> ToHost {
        ToHost::Hello {
            protocol: crate::PROTOCOL,
            build: String::new(),
        }
    }

    fn explain(id: u64) -> ToHost {
        let act = Act::Run("ls".to_owned());
        let query = Query {
            tier: None,
            shell: None,
            isolation: None,
            tool: "bash".to_owned(),
            act,
            detail: false,
        };
        ToHost::Explain { id, query }
    }

    fn explained(id: u64) -> FromHost {
        FromHost::Explained {
            id,
            answer: Explanation::Allowed,
            basis: None,
        }
    }

    #[test]
    fn a_survey_is_numbered_as_a_call_and_answered_once() {
        let mut to = ToHostOrder::default();
        assert_eq!(to.admit(&ToHost::Survey { id: 1 }), Err(OutOfOrder::Hello));
        assert_eq!(to.admit(&hello()), Ok(()));
        assert_eq!(to.admit(&ToHost::Survey { id: 1 }), Ok(()));
        assert_eq!(to.admit(&ToHost::Survey { id: 1 }), Err(OutOfOrder::Id(1)));
        let mut check = ToHostOrder::check();
        assert_eq!(check.admit(&hello()), Ok(()));
        assert!(matches!(
            check.admit(&ToHost::Survey { id: 1 }),
            Err(OutOfOrder::Phase(_))
        ));
        let surveyed = FromHost::Surveyed {
            id: 1,
            survey: crate::reply::Survey::default(),
        };
        let mut from = FromHostOrder {
            greeted: true,
            granted: true,
            ..FromHostOrder::default()
        };
        from.called(1);
        assert!(matches!(from.admit(&surveyed), Err(OutOfOrder::Phase(_))));
        from.ready = true;
        assert_eq!(from.admit(&surveyed), Ok(()));
        assert_eq!(from.admit(&surveyed), Err(OutOfOrder::Id(1)));
        let chunk = FromHost::Chunk {
            id: 2,
            bytes: vec![0],
        };
        from.called(2);
        assert_eq!(from.admit(&chunk), Ok(()));
        let two = FromHost::Surveyed {
            id: 2,
            survey: crate::reply::Survey::default(),
        };
        assert_eq!(from.admit(&two), Err(OutOfOrder::Length));
    }

    #[test]
    fn the_roles_of_a_host_do_not_mix() {
        let mut session = ToHostOrder::default();
        assert_eq!(session.admit(&hello()), Ok(()));
        assert!(matches!(session.admit(&explain(1)), Err(OutOfOrder::Phase(_))));
        let mut check = ToHostOrder::check();
        assert_eq!(check.admit(&explain(1)), Err(OutOfOrder::Hello));
        assert_eq!(check.admit(&hello()), Ok(()));
        assert_eq!(check.admit(&explain(1)), Ok(()));
        assert!(matches!(
            check.admit(&ToHost::Cancel { id: 1 }),
            Err(OutOfOrder::Phase(_))
        ));
        assert_eq!(check.admit(&explain(1)), Err(OutOfOrder::Id(1)));
    }

    #[test]
    fn questions_are_bounded_like_calls() {
        let mut check = ToHostOrder::check();
        assert_eq!(check.admit(&hello()), Ok(()));
        let open = PENDING_CALLS_MAX as u64;
        for id in 1..=open {
            assert_eq!(check.admit(&explain(id)), Ok(()));
        }
        assert_eq!(check.admit(&explain(open + 1)), Err(OutOfOrder::Pending));
        check.answered(1);
        assert_eq!(check.admit(&explain(open + 1)), Ok(()));
    }

    #[test]
    fn answers_come_after_the_grant_and_in_order() {
        let mut front = FromHostOrder::check();
        let greeting = FromHost::Hello {
            protocol: crate::PROTOCOL,
            build: String::new(),
        };
        assert_eq!(front.admit(&greeting), Ok(()));
        front.called(1);
        front.called(2);
        assert!(matches!(front.admit(&explained(1)), Err(OutOfOrder::Phase(_))));
        front.granted = true;
        assert_eq!(front.admit(&explained(2)), Err(OutOfOrder::Id(2)));
        assert_eq!(front.admit(&explained(1)), Ok(()));
        assert_eq!(front.admit(&explained(2)), Ok(()));
        assert_eq!(front.admit(&explained(2)), Err(OutOfOrder::Id(2)));
        let mut session = FromHostOrder::default();
        assert_eq!(session.admit(&greeting), Ok(()));
        session.called(1);
        session.granted = true;
        assert!(matches!(session.admit(&explained(1)), Err(OutOfOrder::Phase(_))));
    }
}
