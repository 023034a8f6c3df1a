//! The program starts and says its version. This file also makes cargo build the program for the
//! whole-program tests in `tests/`.

#[test]
fn the_version_is_printed() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_ferrum-toolhost"))
        .arg("--version")
        .output()
        .expect("the program starts");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
}
