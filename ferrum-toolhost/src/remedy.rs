//! Which config key the operator may be told, and for what: never one for a place that may not be
//! granted.

use policy::Ground;
use std::path::{Component, Path};

/// `key` where it may open `path`, else nothing.
#[must_use]
pub fn of<'a>(path: &Path, key: &'a str, ground: &Ground) -> &'a str {
    if may_be_granted(path, ground) { key } else { "" }
}

/// Absolute, none of the places that policy drops as roots, no dot name (there lie keys and what
/// shells run), nobody else's home, no place of other services' sockets, and not already inside a root.
fn may_be_granted(path: &Path, ground: &Ground) -> bool {
    // Also `..`, behind which anything may be.
    let plain = path.components().all(|part| match part {
        Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
        Component::RootDir => true,
        Component::Prefix(_) | Component::CurDir | Component::ParentDir => false,
    });
    let foreign = path.starts_with("/home") && !path.starts_with(&ground.home);
    path.is_absolute()
        && plain
        && !foreign
        && !path.starts_with("/run")
        && !ground.writable.iter().any(|root| path.starts_with(root))
        && policy::protect::root_problem(path, &ground.home, &ground.protected).is_none()
}
