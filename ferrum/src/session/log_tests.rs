//! Torn tails, odd files, two writers.
#![expect(clippy::disallowed_methods, reason = "tests put files in place")]

use super::*;
use crate::agent::message::{Message, Role};
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn said(text: &str) -> Vec<u8> {
    record::message(&Message::text(Role::User, text))
}

fn write(path: &Path, lines: &[Vec<u8>]) {
    let log = Log::open(path).unwrap();
    for line in lines {
        log.append(line.clone()).unwrap();
    }
    block_on(log.durable()).unwrap();
}

fn texts(path: &Path) -> Vec<String> {
    let loaded = load(path).unwrap();
    record::conversation(loaded.records.into_iter().map(|(_, r)| r))
        .iter()
        .map(Message::visible_text)
        .collect()
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions/s.jsonl");
    (dir, path)
}

#[test]
fn a_new_file_is_private_and_reads_back() {
    let (_dir, path) = scratch();
    write(
        &path,
        &[record::header(serde_json::Map::new()), said("one"), said("two ☃")],
    );
    assert_eq!(texts(&path), ["one", "two ☃"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn every_torn_tail_is_repaired_and_nothing_before_it_changes() {
    let (_dir, path) = scratch();
    write(&path, &[said("one"), said("two ☃")]);
    let whole = fs::read(&path).unwrap();
    let first = whole.iter().position(|&b| b == b'\n').unwrap() + 1;
    for end in first..=whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        write(&path, &[said("after")]);
        let now = fs::read(&path).unwrap();
        assert!(now.starts_with(&whole[..first]), "cut at {end}");
        let kept = end >= whole.len() - 1;
        let expected: &[&str] = if kept {
            &["one", "two ☃", "after"]
        } else {
            &["one", "after"]
        };
        assert_eq!(texts(&path), expected, "cut at {end}");
        assert!(load(&path).unwrap().diagnostics.is_empty());
    }
}

#[test]
fn a_tail_of_nul_bytes_goes() {
    let (_dir, path) = scratch();
    write(&path, &[said("one")]);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(&[0; 4096]);
    fs::write(&path, bytes).unwrap();
    write(&path, &[said("after")]);
    assert_eq!(texts(&path), ["one", "after"]);
    assert!(!fs::read(&path).unwrap().contains(&0));
}

#[test]
fn faulty_lines_in_the_middle_are_told_and_the_rest_is_read() {
    let (_dir, path) = scratch();
    let bad = [b"\0\0\0\n".to_vec(), b"\r\n".to_vec(), b"  \n".to_vec()].concat();
    let glued = [said("two").trim_ascii_end().to_vec(), said("three")].concat();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(
        &path,
        [b"\xef\xbb\xbf".to_vec(), said("one"), bad, glued, said("four")].concat(),
    )
    .unwrap();
    assert_eq!(texts(&path), ["one", "two", "three", "four"]);
    let told = load(&path).unwrap().diagnostics;
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("line 2"), "{told:?}");
}

#[test]
fn diagnostics_are_bounded() {
    let (_dir, path) = scratch();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "x\n".repeat(50)).unwrap();
    let told = load(&path).unwrap().diagnostics;
    assert_eq!(told.len(), DIAGNOSTICS_MAX + 1);
    assert!(told[10].contains("40 more"));
}

#[test]
fn both_sides_of_the_record_limit() {
    let (_dir, path) = scratch();
    let log = Log::open(&path).unwrap();
    let empty = said("").len();
    log.append(said(&"x".repeat(RECORD_BYTES_MAX - empty))).unwrap();
    let over = log.append(said(&"x".repeat(RECORD_BYTES_MAX - empty + 1)));
    assert!(matches!(over, Err(LogError::TooLarge { .. })));
    block_on(log.durable()).unwrap();
    drop(log);
    let mut bytes = fs::read(&path).unwrap();
    bytes.splice(0..0, vec![b'y'; RECORD_BYTES_MAX + 1].into_iter().chain([b'\n']));
    fs::write(&path, bytes).unwrap();
    let loaded = load(&path).unwrap();
    assert_eq!(loaded.records.len(), 1);
    assert!(loaded.diagnostics[0].contains("16 MiB"));
}

#[test]
fn odd_files_are_refused_at_once_and_left_alone() {
    let (dir, path) = scratch();
    let sessions = path.parent().unwrap();
    fs::create_dir_all(sessions).unwrap();
    let other = dir.path().join("other");
    fs::write(&other, "precious").unwrap();

    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert!(
        Log::open(&path)
            .err()
            .unwrap()
            .to_string()
            .contains("symbolic link")
    );
    assert!(load(&path).is_err());
    fs::remove_file(&path).unwrap();

    fs::hard_link(&other, &path).unwrap();
    assert!(Log::open(&path).err().unwrap().to_string().contains("hard link"));
    fs::remove_file(&path).unwrap();

    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    assert!(Log::open(&path).is_err());
    assert!(
        load(&path)
            .err()
            .unwrap()
            .to_string()
            .contains("not a regular file")
    );
    fs::remove_file(&path).unwrap();

    fs::create_dir(&path).unwrap();
    assert!(Log::open(&path).is_err());
    fs::remove_dir(&path).unwrap();

    fs::write(&path, "precious").unwrap();
    let log = Log::open(&path).unwrap();
    log.append(said("x")).unwrap();
    assert!(
        block_on(log.durable())
            .unwrap_err()
            .to_string()
            .contains("not a session file")
    );
    drop(log);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
}

#[test]
fn two_writers_keep_each_others_records() {
    let (_dir, path) = scratch();
    let run = |who: &'static str, path: PathBuf| {
        std::thread::spawn(move || {
            let log = Log::open(&path).unwrap();
            for n in 0..50 {
                log.append(said(&format!("{who}{n}"))).unwrap();
                block_on(log.durable()).unwrap();
            }
        })
    };
    let (a, b) = (run("a", path.clone()), run("b", path.clone()));
    a.join().unwrap();
    b.join().unwrap();
    let texts = texts(&path);
    assert_eq!(texts.len(), 100);
    assert!(load(&path).unwrap().diagnostics.is_empty());
}

#[test]
fn a_full_disk_is_an_error_that_stays() {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .open("/dev/full")
        .unwrap();
    let writer = Writer {
        path: "/dev/full".into(),
        file,
        is_new: false,
        unsynced: false,
    };
    let (to_writer, jobs) = mpsc::channel();
    let writer = Some(std::thread::spawn(move || writer.serve(&jobs)));
    let log = Log {
        path: "/dev/full".into(),
        to_writer,
        writer,
    };
    for _ in 0..2 {
        log.append(said("x")).unwrap();
        let error = block_on(log.durable()).unwrap_err().to_string();
        assert!(
            error.contains("cannot write") && error.contains("No space left"),
            "{error}"
        );
    }
}
