//! Where the programs under test and the scratch directories lie.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The directory that holds `ferrum` and `ferrum-toolhost`, readable for every user.
///
/// Cargo builds them beside this test because both packages have tests of their own
/// (`tests/smoke.rs`). Where the target directory is closed to other users, both are copied once.
///
/// # Panics
/// When the programs are not built: `cargo test --workspace` builds them.
#[must_use]
pub fn programs() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let built = target_dir();
        for program in ["ferrum", "ferrum-toolhost"] {
            assert!(
                built.join(program).is_file(),
                "{} is not built: run `cargo test --workspace`",
                built.join(program).display()
            );
        }
        if open_to_all(&built) {
            return built;
        }
        let copy = Path::new("/var/tmp").join(format!("ferrum-tests-programs-{}", std::process::id()));
        std::fs::create_dir_all(&copy).expect("a directory for the programs");
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        for program in ["ferrum", "ferrum-toolhost"] {
            copy_program(&built.join(program), &copy.join(program));
        }
        copy
    })
}

/// Copies a program. By another process: a descriptor that this one had open for writing might be in
/// a child of another test at that moment, and then the copy could not be started.
///
/// # Panics
/// When it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg(from).arg(to).status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "{} could not be copied",
        from.display()
    );
}

/// `target/debug` or `target/release`: this test lies in its `deps`.
fn target_dir() -> PathBuf {
    let me = std::env::current_exe().expect("the path of this test");
    let deps = me.parent().expect("a directory of this test");
    if deps.ends_with("deps") {
        deps.parent().expect("a target directory").to_path_buf()
    } else {
        deps.to_path_buf()
    }
}

/// The `ferrum` program.
#[must_use]
pub fn ferrum() -> PathBuf {
    programs().join("ferrum")
}

/// The `ferrum-toolhost` program.
#[must_use]
pub fn toolhost() -> PathBuf {
    programs().join("ferrum-toolhost")
}

/// The root of the source tree.
#[must_use]
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the source tree")
}

/// A new directory for one scene. Not below `/tmp` if it can be had: sessions have a `/tmp` of
/// their own, and a scene that is absent anyway would prove less.
///
/// # Panics
/// When no directory can be made.
#[must_use]
pub fn scratch() -> tempfile::TempDir {
    let beside = target_dir().join("..").join("scenes");
    let base = match std::fs::create_dir_all(&beside).and_then(|()| beside.canonicalize()) {
        // A unix socket's path has 108 bytes.
        Ok(path) if open_to_all(&path) && path.as_os_str().len() < 50 => path,
        _ => PathBuf::from("/var/tmp"),
    };
    let dir = tempfile::Builder::new()
        .prefix("s")
        .rand_bytes(5)
        .tempdir_in(base)
        .expect("a scratch directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    dir
}

fn open_to_all(path: &Path) -> bool {
    path.ancestors()
        .all(|dir| std::fs::metadata(dir).is_ok_and(|meta| meta.permissions().mode() & 0o005 == 0o005))
}
