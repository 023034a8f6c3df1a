//! Which wall refused, and what the operator could set to allow it. Native tools know: their
//! denials are certain.

use crate::fs::name::shown;
use crate::fs::{FsError, Wall};
use crate::remedy;
use ferrum_proto::reply::Denial;
use nix::errno::Errno;
use policy::Ground;
use std::path::{Path, PathBuf};

/// The denial behind an error, if a wall is behind it.
pub(crate) fn of(error: &FsError, ground: &Ground) -> Option<Denial> {
    let path = ground.cwd.join(error.path());
    let inside = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
    let Some(wall) = error.wall() else {
        return behind_home(error, &path, ground);
    };
    let (wall, key) = match wall {
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

/// The session's home is its own: what is absent there may be in the operator's. Nobody in here
/// can know, so it is inferred.
fn behind_home(error: &FsError, path: &Path, ground: &Ground) -> Option<Denial> {
    let FsError::System {
        errno: Errno::ENOENT, ..
    } = error
    else {
        return None;
    };
    let masked = ground.private.contains(&ground.home) && path.starts_with(&ground.home);
    let held = ground
        .writable
        .iter()
        .chain(&ground.readable)
        .any(|root| path.starts_with(root));
    (masked && !held).then(|| Denial {
        what: shown(path).into_owned(),
        wall: "mount view".to_owned(),
        remedy: remedy::of(path, "[tools] readable_roots", ground).to_owned(),
        certain: false,
    })
}

/// What the model is told beside the system's error.
pub(crate) fn sentence(denial: &Denial) -> String {
    let wall = &denial.wall;
    let hides = match denial.certain {
        true => format!("; refused by the session's walls ({wall})"),
        false => format!("; if it is there outside, the session's walls hide it ({wall})"),
    };
    match denial.remedy.as_str() {
        "" => hides,
        remedy => format!("{hides}, the operator can allow it with {remedy}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Isolation;

    fn denied(path: &str, wall: Wall) -> Denial {
        let ground = Ground {
            cwd: "/tree".into(),
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
    fn what_is_absent_in_the_private_home_may_be_hidden() {
        let ground = Ground {
            cwd: "/home/u/repo".into(),
            home: "/home/me".into(),
            writable: vec!["/home/u/repo".into()],
            readable: vec![],
            private: vec!["/home/me".into()],
            protected: vec![],
            isolation: Isolation::Full,
        };
        let absent = |path: &str| of(&FsError::system("open", Path::new(path), Errno::ENOENT), &ground);
        let hidden = absent("/home/me/notes").unwrap();
        assert!(!hidden.certain && hidden.remedy == "[tools] readable_roots");
        assert_eq!(absent("/home/me/.ssh/id").unwrap().remedy, "");
        assert_eq!(absent("/home/u/repo/x"), None);
        assert_eq!(absent("x"), None);
        assert_eq!(absent("/usr/x"), None);
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
        assert_eq!(denied("beside/a", Wall::Write).what, "/tree/beside/a");
        assert_eq!(denied("../beside", Wall::Write).remedy, "");
    }
}
