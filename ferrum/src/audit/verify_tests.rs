//! Ten ways to harm a log, each found and named.
#![expect(clippy::disallowed_methods, reason = "tests put files in place")]

use super::super::log::tests::{fields, keyed, open};
use super::*;
use crate::session::record;
use serde_json::{Map, json};
use std::fs;
use std::path::PathBuf;

struct Place(tempfile::TempDir);

impl Place {
    /// Three sessions, one after the other; the second and third repeat the one before.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.data().join("sessions")).unwrap();
        for session in ["a", "b", "c"] {
            place.session(session, 6);
        }
        place
    }

    fn data(&self) -> &Path {
        self.0.path()
    }

    fn log(&self, name: &str) -> PathBuf {
        place::file(&place::directory(self.data()), name)
    }

    /// A turn of that many records, and its anchor in the session's file.
    fn session(&self, session: &str, records: usize) {
        let mut log = open(&place::directory(self.data()), session);
        (1..records - 1).for_each(|n| log.append(&fields(n)).unwrap());
        log.append(&super::super::record::turn(1, "answered", 0)).unwrap();
        let anchor = Map::from_iter([("audit".to_owned(), log.anchor().to_json())]);
        let path = self.data().join(format!("sessions/{session}.jsonl"));
        let mut text = fs::read(&path).unwrap_or_default();
        text.extend(record::metadata(&anchor));
        fs::write(path, text).unwrap();
    }

    fn change(&self, log: &str, change: impl Fn(&mut Vec<String>)) {
        let text = fs::read_to_string(self.log(log)).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        fs::write(self.log(log), lines.join("\n") + "\n").unwrap();
    }

    fn damaged(&self) -> Vec<(String, u64, String)> {
        let proof = all(self.data(), &keyed(), None).unwrap();
        assert_eq!(proof.sessions, []);
        let damaged = proof
            .logs
            .into_iter()
            .filter_map(|row| Some((row.log, row.damage?)));
        damaged
            .map(|(log, damage)| (log, damage.record.unwrap_or(0), damage.what))
            .collect()
    }

    #[track_caller]
    fn expect(&self, log: &str, record: u64, word: &str) {
        let damaged = self.damaged();
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        let (at, number, what) = &damaged[0];
        assert_eq!((at.as_str(), *number), (log, record), "{what}");
        assert!(what.contains(word), "{what}");
    }
}

#[test]
fn whole_logs_are_whole() {
    let place = Place::new();
    assert_eq!(place.damaged(), []);
    // Going on with a session, and with two at once.
    place.session("a", 3);
    place.session("c", 3);
    assert_eq!(place.damaged(), []);
    let rows = all(place.data(), &keyed(), Some("a")).unwrap().logs;
    assert_eq!((rows.len(), rows[0].records), (1, 9));
}

#[test]
fn edits_insertions_and_moves_are_found() {
    let of = |change: &dyn Fn(&mut Vec<String>)| {
        let place = Place::new();
        place.change("b", change);
        place
    };
    of(&|lines| lines[3] = lines[3].replace("read", "bash")).expect("b", 3, "changed");
    of(&|lines| lines[3] = lines[3].replace("\"t\":1", "\"t\":2")).expect("b", 3, "changed");
    of(&|lines| lines.swap(2, 4)).expect("b", 2, "missing");
    of(&|lines| lines.insert(3, lines[1].clone())).expect("b", 3, "inserted or moved");
    of(&|lines| lines.insert(3, "{\"n\":3}".to_owned())).expect("b", 3, "no audit record");
    of(&|lines| lines.insert(3, String::new())).expect("b", 3, "no audit record");
    of(&|lines| drop(lines.remove(0))).expect("b", 0, "missing");
    of(&|lines| drop(lines.remove(3))).expect("b", 3, "missing");
}

#[test]
fn cut_ends_are_found_by_what_repeats_them() {
    let place = Place::new();
    place.change("b", |lines| lines.truncate(4));
    place.expect("b", 4, "and those after it are gone");
    // The session's word is enough, and so is the next log's.
    let place = Place::new();
    place.change("c", |lines| lines.truncate(4));
    place.expect("c", 4, "the session c");
    let place = Place::new();
    place.change("b", |lines| lines.truncate(4));
    fs::remove_file(place.data().join("sessions/b.jsonl")).unwrap();
    place.expect("b", 4, "the audit log c");
    // A log that was cut and went on.
    let place = Place::new();
    place.change("b", |lines| lines.truncate(4));
    place.session("b", 8);
    place.expect("b", 5, "is not the one that");
}

#[test]
fn missing_and_exchanged_files_are_found() {
    let place = Place::new();
    fs::remove_file(place.log("b")).unwrap();
    place.expect("b", 0, "is gone");
    let place = Place::new();
    fs::copy(place.log("a"), place.log("b")).unwrap();
    place.expect("b", 0, "changed");
    let place = Place::new();
    fs::remove_file(place.log("b")).unwrap();
    fs::create_dir(place.log("b")).unwrap();
    place.expect("b", 0, "not a regular file");
    let place = Place::new();
    fs::write(place.log("b"), vec![0; 1 << 20]).unwrap();
    place.expect("b", 0, "64 KiB");
    let place = Place::new();
    let other = Keyed::new(&[1; 32]);
    assert!(all(place.data(), &other, None).unwrap().logs.iter().all(|row| {
        row.damage
            .as_ref()
            .is_some_and(|damage| damage.what.contains("another key"))
    }));
}

#[test]
fn a_torn_end_is_no_damage_where_nothing_was_promised_behind_it() {
    let place = Place::new();
    // A crash after the last turn's end: the next record was being written.
    let mut bytes = fs::read(place.log("c")).unwrap();
    bytes.extend_from_slice(b"{\"n\":6,\"t\":17");
    fs::write(place.log("c"), &bytes).unwrap();
    assert_eq!(place.damaged(), []);
    let rows = all(place.data(), &keyed(), Some("c")).unwrap().logs;
    assert_eq!((rows[0].records, rows[0].torn), (6, 13));
    // A record that a session repeats was on disk before: its loss is no crash's work.
    bytes.truncate(bytes.len() - 20);
    fs::write(place.log("c"), &bytes).unwrap();
    place.expect("c", 5, "gone");
}

#[test]
fn a_session_is_not_blamed_for_another() {
    let place = Place::new();
    place.change("b", |lines| lines[3] = json!({"n": 3}).to_string());
    assert!(
        all(place.data(), &keyed(), Some("a"))
            .unwrap()
            .logs
            .iter()
            .all(|row| row.damage.is_none())
    );
    assert!(
        all(place.data(), &keyed(), Some("b"))
            .unwrap()
            .logs
            .iter()
            .any(|row| row.damage.is_some())
    );
}

/// What sessions repeat is no record of a chain, so it may be changed: that shows too.
#[test]
fn anchors_that_were_changed_or_cannot_be_read_are_named() {
    let of = |change: &dyn Fn(&str) -> String| {
        let place = Place::new();
        // A second turn of the same process: the first one's end must be repeated.
        let path = place.data().join("sessions/d.jsonl");
        let mut log = open(&place::directory(place.data()), "d");
        let mut text = Vec::new();
        for turn in 1..3 {
            log.append(&fields(1)).unwrap();
            log.append(&super::super::record::turn(turn, "answered", 0))
                .unwrap();
            let anchor = Map::from_iter([("audit".to_owned(), log.anchor().to_json())]);
            text.extend(record::metadata(&anchor));
        }
        drop(log);
        fs::write(&path, change(&String::from_utf8(text).unwrap())).unwrap();
        all(place.data(), &keyed(), None).unwrap()
    };
    let whole = of(&str::to_owned);
    assert_eq!(whole.damaged(), 0, "{whole:?}");
    let said = |proof: &Proof| format!("{:?}", proof);
    for (what, change) in [
        (
            "line 1 repeats",
            &(|text: &str| text.replacen("\"count\":3", "\"count\":\"3\"", 1)) as &dyn Fn(&str) -> String,
        ),
        ("line 2 repeats", &|text| {
            text.replacen("\"log\":\"d\"", "\"log\":7", 2)
                .replacen("\"log\":7", "\"log\":\"d\"", 1)
        }),
        ("ends no turn", &|text| {
            let proof = text.replacen("\"count\":3", "\"count\":2", 1);
            proof.replacen(&head_of(text, 0), "HEAD", 1)
        }),
        ("does not repeat", &|text| {
            text.lines().nth(1).map(|line| format!("{line}\n")).unwrap()
        }),
        ("does not repeat", &|text| {
            text.replacen("\"audit\"", "\"aduit\"", 1)
        }),
        ("does not repeat", &|text| text.replacen('{', "", 1)),
        ("is gone", &|text| {
            text.replacen("\"log\":\"d\"", "\"log\":\"e\"", 1)
        }),
        ("is not the one", &|text| {
            text.replacen(&head_of(text, 0), &"0".repeat(64), 1)
        }),
        ("are gone", &|text| {
            text.replacen("\"count\":5", "\"count\":50", 1)
        }),
    ] {
        let proof = of(change);
        assert!(proof.damaged() > 0, "{what}: {proof:?}");
        if what != "ends no turn" {
            assert!(said(&proof).contains(what), "{what}: {proof:?}");
        }
    }
}

fn head_of(text: &str, line: usize) -> String {
    let line: Value = serde_json::from_str(text.lines().nth(line).unwrap()).unwrap();
    line["audit"]["head"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_that_cannot_be_read_is_named() {
    for kind in ["directory", "pipe", "link"] {
        let place = Place::new();
        let path = place.data().join("sessions/b.jsonl");
        fs::remove_file(&path).unwrap();
        match kind {
            "directory" => fs::create_dir(&path).unwrap(),
            "pipe" => nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            _ => std::os::unix::fs::symlink("/dev/null", &path).unwrap(),
        }
        let proof = all(place.data(), &keyed(), None).unwrap();
        assert_eq!(proof.damaged(), 1, "{kind}: {proof:?}");
        assert_eq!(proof.sessions[0].session, "b", "{kind}");
        assert!(
            proof.sessions[0].what.contains("cannot be read"),
            "{kind}: {proof:?}"
        );
        // Nobody else is blamed.
        assert_eq!(all(place.data(), &keyed(), Some("a")).unwrap().damaged(), 0);
        assert_eq!(all(place.data(), &keyed(), Some("b")).unwrap().damaged(), 1);
    }
}

#[test]
fn the_last_turn_of_a_process_that_died_may_be_unrepeated() {
    let place = Place::new();
    let mut log = open(&place::directory(place.data()), "a");
    log.append(&super::super::record::turn(1, "answered", 0)).unwrap();
    drop(log);
    place.session("a", 3);
    assert_eq!(place.damaged(), []);
}
