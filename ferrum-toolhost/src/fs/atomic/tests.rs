//! Every step of a replacement, broken off or met by somebody else.

use super::*;
use crate::from_wire::PathText;
use crate::fs::place::place;
use crate::fs::resolve::Base;
use crate::tool::tests::Bed;
use std::fs;
use std::path::PathBuf;

fn parent(bed: &Bed, name: &str) -> (Parent, Target) {
    let cwd = bed.cwd();
    let base = Base {
        cwd: cwd.as_fd(),
        ground: &bed.judge.ground,
    };
    let place = place(&base, &PathText::checked(name)).unwrap();
    let target = place.target();
    (place.into_parent().unwrap(), target)
}

fn names(bed: &Bed) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = fs::read_dir(bed.at(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into())
        .collect();
    names.sort();
    names
}

fn changed_by(change: impl Fn(&Bed)) {
    let bed = Bed::new();
    bed.file("race", "a\n");
    let (parent, judged) = parent(&bed, "race");
    let old = Old::open(&parent, judged).unwrap();
    change(&bed);
    let before = fs::read(bed.at("race")).ok();
    let error = commit(&parent, old.as_ref(), &[b"mine"]).unwrap_err();
    assert_eq!(error, FsError::Changed { path: "race".into() });
    assert!(error.to_string().contains("changed"));
    assert_eq!(fs::read(bed.at("race")).ok(), before);
    assert!(
        names(&bed).iter().all(|name| name == Path::new("race")),
        "{:?}",
        names(&bed)
    );
}

#[test]
fn a_newcomer_is_kept_and_nothing_is_left_over() {
    changed_by(|bed| {
        fs::write(bed.at("tmp2"), "newcomer\n").unwrap();
        fs::rename(bed.at("tmp2"), bed.at("race")).unwrap();
    });
    changed_by(|bed| fs::write(bed.at("race"), "b\n").unwrap());
    changed_by(|bed| fs::remove_file(bed.at("race")).unwrap());
}

#[test]
fn a_newcomer_in_the_last_instant_is_put_back() {
    let bed = Bed::new();
    bed.file("race", "a\n");
    let (parent, judged) = parent(&bed, "race");
    let old = Old::open(&parent, judged).unwrap().unwrap();
    let staged = Staged::new(&parent, true).unwrap();
    fs::write(bed.at("race"), "newcomer\n").unwrap();
    // As if the look at the target had come before the change.
    let seen = identity_at(parent.directory(), parent.name()).unwrap();
    let expected = Identity {
        modified: (0, 0),
        ..seen
    };
    assert_ne!(expected, Identity::of(&old.stat));
    let error = staged.replace(&parent, &expected).unwrap_err();
    staged.discard(&parent);
    assert_eq!(error, FsError::Changed { path: "race".into() });
    assert_eq!(fs::read(bed.at("race")).unwrap(), b"newcomer\n");
    assert_eq!(names(&bed), [PathBuf::from("race")]);
}

#[test]
fn a_file_that_appears_meanwhile_is_kept() {
    let bed = Bed::new();
    let (parent, judged) = parent(&bed, "new");
    assert!(Old::open(&parent, judged).unwrap().is_none());
    bed.file("new", "theirs");
    let error = commit(&parent, None, &[b"mine"]).unwrap_err();
    assert_eq!(error, FsError::Changed { path: "new".into() });
    assert_eq!(fs::read(bed.at("new")).unwrap(), b"theirs");
}

#[test]
fn before_the_last_steps_there_is_nothing_to_leave_over() {
    let bed = Bed::new();
    bed.file("a", "old");
    let (parent, _) = parent(&bed, "a");
    let staged = Staged::new(&parent, true).unwrap();
    fill(staged.file.file(), None, &[b"new"], Path::new("a")).unwrap();
    assert_eq!(names(&bed), [PathBuf::from("a")]);
    assert_eq!(fs::read(bed.at("a")).unwrap(), b"old");
}

#[test]
fn a_leftover_of_a_dead_writer_goes_and_one_in_use_stays() {
    let bed = Bed::new();
    bed.file("a", "old");
    let (parent, judged) = parent(&bed, "a");
    bed.file(SIBLING, "dead");
    let old = Old::open(&parent, judged).unwrap();
    commit(&parent, old.as_ref(), &[b"n", b"ew"]).unwrap();
    assert_eq!(fs::read(bed.at("a")).unwrap(), b"new");
    assert_eq!(names(&bed), [PathBuf::from("a")]);

    bed.file(SIBLING, "dead");
    assert_eq!(sweep_at(&bed.judge.ground.cwd), Ok(true));
    assert_eq!(names(&bed), [PathBuf::from("a")]);

    let live = fs::File::open(bed.file(SIBLING, "live")).unwrap();
    let _lock = Flock::lock(live, FlockArg::LockExclusive).unwrap();
    let old = Old::open(&parent, judged).unwrap();
    let error = commit(&parent, old.as_ref(), &[b"mine"]).unwrap_err();
    assert!(error.to_string().contains("another session"), "{error}");
    assert_eq!(sweep(parent.directory()), Ok(false));
    assert_eq!(fs::read(bed.at(SIBLING)).unwrap(), b"live");
    assert_eq!(fs::read(bed.at("a")).unwrap(), b"new");
}

#[test]
fn file_systems_without_nameless_files_are_served_too() {
    let bed = Bed::new();
    let (at, judged) = parent(&bed, "a");
    let staged = Staged::with_name(&at, Mode::from_bits_truncate(0o600)).unwrap();
    fill(staged.file.file(), None, &[b"first"], Path::new("a")).unwrap();
    assert_eq!(names(&bed), [PathBuf::from(SIBLING)]);
    staged.create(&at).unwrap();
    assert_eq!(judged, Target::Absent);

    let (at, judged) = parent(&bed, "a");
    let old = Old::open(&at, judged).unwrap().unwrap();
    let staged = Staged::with_name(&at, Mode::from_bits_truncate(0o600)).unwrap();
    fill(staged.file.file(), Some(&old), &[b"second"], Path::new("a")).unwrap();
    staged.replace(&at, &Identity::of(&old.stat)).unwrap();
    assert_eq!(fs::read(bed.at("a")).unwrap(), b"second");
    assert_eq!(names(&bed), [PathBuf::from("a")]);

    let staged = Staged::with_name(&at, Mode::from_bits_truncate(0o600)).unwrap();
    assert!(staged.create(&at).is_err());
    staged.discard(&at);
    assert_eq!(names(&bed), [PathBuf::from("a")]);
}

#[test]
fn the_sibling_name_itself_cannot_be_written() {
    let bed = Bed::new();
    let (parent, judged) = parent(&bed, SIBLING);
    assert!(
        Old::open(&parent, judged)
            .unwrap_err()
            .to_string()
            .contains("reserved")
    );
}

#[test]
fn attributes_of_the_old_file_stay() {
    let bed = Bed::new();
    let path = bed.file("a", "old");
    let file = fs::File::open(&path).unwrap();
    if xattr::set(file.as_fd(), c"user.kept", b"yes").is_err() {
        // The file system of the temporary directory has none.
        return;
    }
    let (parent, judged) = parent(&bed, "a");
    let old = Old::open(&parent, judged).unwrap();
    commit(&parent, old.as_ref(), &[b"new"]).unwrap();
    let file = fs::File::open(&path).unwrap();
    assert_eq!(xattr::get(file.as_fd(), c"user.kept").unwrap(), b"yes");
}
