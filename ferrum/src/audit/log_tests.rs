//! Writing, going on after crashes, rotation, odd files, full disks.
#![expect(clippy::disallowed_methods, reason = "tests put files in place")]

use super::super::verify;
use super::*;
use std::fs::{self, OpenOptions};

pub(crate) fn keyed() -> Keyed {
    Keyed::new(&[7; 32])
}

pub(crate) fn fields(n: usize) -> Fields {
    let value = json!({"t": 1, "type": "call", "tool": "read", "text": format!("☃ {n}")});
    value.as_object().cloned().unwrap_or_default()
}

pub(crate) fn open(dir: &Path, session: &str) -> AuditLog {
    let mut first = fields(0);
    first.insert("type".into(), json!("open"));
    AuditLog::open(dir, session, keyed(), first).unwrap()
}

fn records(dir: &Path, log: &str) -> (u64, u64) {
    let checked = verify::read(dir, log, &keyed(), |_, _| ()).unwrap();
    assert_eq!(checked.damage, None, "{log}");
    (checked.records, checked.torn)
}

#[test]
fn a_log_goes_on_where_it_stood() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let mut log = open(dir.path(), "s");
        for n in 0..4 {
            log.append(&fields(n)).unwrap();
        }
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(log.durable())
            .unwrap();
    }
    assert_eq!(records(dir.path(), "s"), (15, 0));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_torn_record_is_taken_off_and_said() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path(), "s").append(&fields(1)).unwrap();
    let path = place::file(dir.path(), "s");
    let whole = fs::read(&path).unwrap();
    let first = whole.iter().position(|&b| b == b'\n').unwrap() + 1;
    for end in first..whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        assert_eq!(records(dir.path(), "s"), (1, (end - first) as u64));
        drop(open(dir.path(), "s"));
        assert_eq!(records(dir.path(), "s"), (2, 0), "cut at {end}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains(&format!("\"torn_bytes\":{}", end - first)),
            "{text}"
        );
    }
    fs::write(&path, [&whole[..first], &[0; 4096]].concat()).unwrap();
    drop(open(dir.path(), "s"));
    assert_eq!(records(dir.path(), "s"), (2, 0));
}

#[test]
fn a_second_process_writes_a_part_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut logs: Vec<AuditLog> = (0..3).map(|_| open(dir.path(), "s")).collect();
    for n in 0..30 {
        logs[n % 3].append(&fields(n)).unwrap();
    }
    for name in ["s", "s~1", "s~2"] {
        assert_eq!(records(dir.path(), name), (11, 0), "{name}");
    }
    drop(logs);
    // The last part is gone on with.
    drop(open(dir.path(), "s"));
    assert_eq!(records(dir.path(), "s~2"), (12, 0));
}

#[test]
fn a_full_part_is_followed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path(), "s");
    log.size = PART_BYTES_MAX;
    log.append(&fields(1)).unwrap();
    log.append(&fields(2)).unwrap();
    assert_eq!(log.anchor().log, "s~1");
    assert_eq!(
        (records(dir.path(), "s"), records(dir.path(), "s~1")),
        ((1, 0), (3, 0))
    );
    let text = fs::read_to_string(place::file(dir.path(), "s~1")).unwrap();
    assert!(
        text.contains(r#""after":[{"count":1,"#) && text.contains(r#""log":"s""#),
        "{text}"
    );
}

#[test]
fn a_new_log_repeats_where_the_last_one_stands() {
    let dir = tempfile::tempdir().unwrap();
    let mut old = open(dir.path(), "old");
    old.append(&fields(1)).unwrap();
    let stood = old.anchor();
    drop(open(dir.path(), "new"));
    let mut first = Vec::new();
    verify::read(dir.path(), "new", &keyed(), |line, _| first = line.to_vec()).unwrap();
    let value: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(Anchor::from_json(&value["after"][0]), Some(stood));
}

#[test]
fn odd_files_are_refused_at_once_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = place::file(dir.path(), "s");
    let said = || {
        AuditLog::open(dir.path(), "s", keyed(), fields(0))
            .err()
            .unwrap()
            .to_string()
    };
    fs::create_dir(&path).unwrap();
    assert!(said().contains("cannot open"), "{}", said());
    fs::remove_dir(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    assert!(said().contains("s.jsonl"), "{}", said());
    fs::remove_file(&path).unwrap();
    let other = dir.path().join("other");
    fs::write(&other, "precious").unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert!(said().contains("symbolic link"));
    fs::remove_file(&path).unwrap();
    fs::hard_link(&other, &path).unwrap();
    assert!(said().contains("hard link"));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "{\"no\":\"record\"}\n").unwrap();
    assert!(said().contains("no record"));
    let huge = OpenOptions::new().write(true).open(&path).unwrap();
    huge.set_len(4 << 30).unwrap();
    assert!(said().contains("64 KiB"));
    assert_eq!(fs::metadata(&path).unwrap().len(), 4 << 30);
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
}

#[test]
fn a_full_disk_is_an_error_that_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path(), "s");
    log.file = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let before = log.anchor();
    for _ in 0..2 {
        let error = log.append(&fields(1)).unwrap_err().to_string();
        assert!(
            error.contains("cannot write") && error.contains("No space left"),
            "{error}"
        );
    }
    assert_eq!(log.anchor(), before);
}
