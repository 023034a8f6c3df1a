//! References, names, and which session is the latest.
#![expect(clippy::disallowed_methods, reason = "tests put files in place")]

use super::*;
use crate::agent::message::{Message, Role};
use crate::session::record;
use serde_json::{Map, json};
use std::fs::{self, File};
use std::time::Duration;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["sessions", "a", "b"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self(dir)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A session of `cwd`, written `age` seconds ago.
    fn session(&self, name: &str, cwd: &str, mode: &str, messages: usize, age: u64) -> PathBuf {
        let fields = json!({"mode": mode, "cwd": self.at(cwd)});
        let fields: Map<_, _> = fields.as_object().unwrap().clone();
        let mut bytes = record::header(fields);
        for _ in 0..messages {
            bytes.extend(record::message(&Message::text(Role::User, "hi")));
        }
        let path = self.at(&format!("sessions/{name}.jsonl"));
        fs::write(&path, bytes).unwrap();
        let then = SystemTime::now() - Duration::from_secs(age);
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(then)
            .unwrap();
        path
    }

    fn choose(&self, which: Which) -> Result<PathBuf, SelectError> {
        choose(&self.at("sessions"), &which, &self.at("a")).map(|chosen| chosen.path)
    }
}

const ONE: &str = "1770000000000-11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa";
const TWO: &str = "1770000000001-22222222-aaaa-4aaa-8aaa-aaaaaaaaaaaa";

#[test]
fn names_stay_in_the_directory() {
    let dir = Path::new("/d");
    assert_eq!(named(dir, "a.b-c_1").unwrap(), Path::new("/d/a.b-c_1.jsonl"));
    assert!(named(dir, &"x".repeat(80)).is_ok());
    for bad in [
        "",
        ".hidden",
        "../escape",
        "a/b",
        "a b",
        "ü",
        "a\0",
        &"x".repeat(81),
    ] {
        assert!(named(dir, bad).is_err(), "{bad:?}");
    }
    assert_ne!(fresh(dir), fresh(dir));
}

#[test]
fn a_reference_is_a_name_a_path_or_the_beginning_of_an_id() {
    let place = Place::new();
    let (one, two) = (
        place.session(ONE, "a", "print", 1, 5),
        place.session(TWO, "a", "print", 1, 5),
    );
    let named = place.session("build", "a", "print", 1, 5);
    for reference in [ONE, "11111111", "1770000000000-1", one.to_str().unwrap()] {
        assert_eq!(
            place.choose(Which::Resume(reference.into())).unwrap(),
            one,
            "{reference}"
        );
        assert_eq!(
            place.choose(Which::Session(reference.into())).unwrap(),
            one,
            "{reference}"
        );
    }
    let header = peek::peek(&two).unwrap().id;
    assert_eq!(place.choose(Which::Resume(header[..8].into())).unwrap(), two);
    for reference in ["build", "bui"] {
        assert_eq!(place.choose(Which::Resume(reference.into())).unwrap(), named);
    }
    // A short word is a new name for --session, and nothing for --resume.
    let new = place.choose(Which::Session("bui".into())).unwrap();
    assert_eq!(new, place.at("sessions/bui.jsonl"));
    assert!(matches!(
        place.choose(Which::Resume("absent".into())),
        Err(SelectError::None(_))
    ));
    let shared = place.choose(Which::Resume("177".into()));
    assert!(matches!(shared, Err(SelectError::Ambiguous { matches, .. }) if matches.len() == 2));
    for path in ["../escape", "/nowhere/x.jsonl"] {
        assert!(matches!(
            place.choose(Which::Session(path.into())),
            Err(SelectError::None(_))
        ));
    }
}

#[test]
fn the_latest_was_written_last_in_this_directory_and_holds_a_message() {
    let place = Place::new();
    let fresh = place.choose(Which::Latest).unwrap();
    assert!(!fresh.exists());
    let old = place.session(ONE, "a", "interactive", 2, 60);
    place.session("elsewhere", "b", "print", 1, 10);
    place.session("empty", "a", "print", 0, 9);
    place.session("editor", "a", "acp", 1, 8);
    fs::write(place.at("sessions/zero.jsonl"), "").unwrap();
    fs::create_dir(place.at("sessions/dir.jsonl")).unwrap();
    assert_eq!(place.choose(Which::Latest).unwrap(), old);
    let newer = place.session("newer", "a", "print", 1, 30);
    assert_eq!(place.choose(Which::Latest).unwrap(), newer);
    std::os::unix::fs::symlink(place.at("a"), place.at("link")).unwrap();
    let through = choose(&place.at("sessions"), &Which::Latest, &place.at("link")).unwrap();
    assert_eq!(through.path, newer);
}
