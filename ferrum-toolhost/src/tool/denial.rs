//! Which wall refused, and what the operator could set to allow it. Native tools know: their
//! denials are certain.

use crate::fs::name::shown;
use crate::fs::{FsError, Wall};
use crate::remedy;
use ferrum_proto::reply::Denial;
use policy::Ground;
use std::path::PathBuf;

/// The denial behind an error, if a wall is behind it.
pub(crate) fn of(error: &FsError, ground: &Ground) -> Option<Denial> {
    let path = ground.cwd.join(error.path());
    let inside = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
    let (wall, key) = match error.wall()? {
        Wall::Hidden => ("mount view", "[tools] readable_roots"),
        Wall::Read => ("landlock", "[tools] readable_roots"),
        Wall::Write => ("landlock", "[tools] writable_roots"),
        // The disk itself is read-only: the view would let us.
        Wall::ReadOnly if inside(&ground.writable) && !inside(&ground.protected) => return None,
        Wall::ReadOnly => ("mount view", "[tools] writable_roots"),
    };
    let remedy = remedy::of(&path, key, ground);
    let what = shown(&path).into_owned();
    Some(Denial {
        what,
        wall: wall.to_owned(),
        remedy: remedy.to_owned(),
        certain: true,
    })
}

/// What the model is told beside the system's error.
pub(crate) fn sentence(denial: &Denial) -> String {
    match denial.remedy.as_str() {
        "" => format!("; refused by the session's walls ({})", denial.wall),
        remedy => format!(
            "; refused by the session's walls ({}), the operator can allow it with {remedy}",
            denial.wall
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use policy::Isolation;

    fn denied(path: &str, wall: Wall) -> Denial {
        let ground = Ground {
            cwd: "/work".into(),
            home: "/home/me".into(),
            writable: vec![],
            readable: vec![],
            private: vec![],
            protected: vec!["/data/ferrum".into()],
            isolation: Isolation::Full,
        };
        let errno = Errno::EACCES;
        of(
            &FsError::System {
                operation: "open",
                path: path.into(),
                errno,
                wall: Some(wall),
            },
            &ground,
        )
        .unwrap()
    }

    #[test]
    fn a_remedy_is_named_only_for_what_may_be_granted() {
        assert_eq!(
            denied("/srv/books", Wall::Hidden).remedy,
            "[tools] readable_roots"
        );
        assert_eq!(
            denied("/srv/books/a", Wall::ReadOnly).remedy,
            "[tools] writable_roots"
        );
        for path in [
            "/",
            "/home",
            "/home/me",
            "/home/you",
            "/root",
            "/home/me/.ssh/id",
            "/etc/shadow",
        ] {
            assert_eq!(denied(path, Wall::Read).remedy, "", "{path}");
        }
        assert_eq!(denied("/data", Wall::Write).remedy, "");
        assert_eq!(denied("/data/ferrum/x", Wall::Write).remedy, "");
        assert_eq!(denied("beside/a", Wall::Write).what, "/work/beside/a");
        assert_eq!(denied("../beside", Wall::Write).remedy, "");
    }
}
