//! Names that a session led elsewhere before the next one starts: what stands behind them is not
//! part of the view, and what a session made in a root does not keep others from starting.

use super::World;
use ferrum_tests::run::Run;
use ferrum_tests::scene::{Scene, ToolRun};
use ferrum_tests::who::everyone;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const WORLDS: [World; 2] = [World::Whole, World::NamespacesDenied];

/// A scene in which unconfined `script` says the secret after `prepare`.
#[track_caller]
fn prepared(scene: Scene, prepare: &str, script: &str) -> Scene {
    let made = scene.bash(prepare);
    assert_eq!(made.status, Some(0), "{}", made.all());
    let plain = scene.bash(script).all();
    assert!(plain.contains(&scene.secret), "it proves nothing: {plain}");
    scene
}

fn program(scene: &Scene, script: &str) -> Run {
    scene.write_program(&scene.root().join("probe"), &format!("#!/bin/bash\n{script}\n"));
    scene.command_run("./probe; true", &["--safety", "medium"])
}

/// Runs `script` with the variable set to `value` below the root, and sees no secret.
#[track_caller]
fn refuse(variable: &str, value: &str, prepare: &str, script: &str) {
    for who in everyone() {
        for world in WORLDS {
            let scene = Scene::new(&who);
            let prepare = prepare.replace("@SECRET@", &scene.secret);
            let scene = prepared(scene, &prepare, script);
            let value = scene.root().join(value).display().to_string();
            let ran = ToolRun::of(&world.wrap(program(&scene, script).env(variable, value)));
            let answer = ran.output.all();
            assert_eq!(ran.outcome(), "done", "{world:?} as {}: {answer}", who.name);
            assert!(
                !answer.contains(&scene.secret),
                "{world:?} as {}: {answer}",
                who.name
            );
        }
    }
}

#[test]
fn a_cargo_home_in_the_root_cannot_be_led_to_credentials() {
    refuse(
        "CARGO_HOME",
        ".cg",
        "mkdir -p ~/.kube; echo @SECRET@ > ~/.kube/config; ln -s ../../.kube .cg",
        "cat .cg/config ~/.kube/config",
    );
}

#[test]
fn a_virtual_environment_in_the_root_cannot_be_led_to_credentials() {
    let prepare = "mkdir -p ~/.ssh; echo @SECRET@ > ~/.ssh/probe; ln -s ../../.ssh .venv";
    refuse("VIRTUAL_ENV", ".venv", prepare, "cat .venv/probe ~/.ssh/probe");
    let inner = "mkdir -p ~/.ssh/v; echo @SECRET@ > ~/.ssh/v/probe; ln -s ../../.ssh led";
    refuse("VIRTUAL_ENV", "led/v", inner, "cat led/v/probe ~/.ssh/v/probe");
}

/// Another session may write there: what the environment names is opened without links.
#[test]
fn a_toolchain_beside_the_root_is_seen_unless_a_link_leads_to_it() {
    for who in everyone() {
        for world in WORLDS {
            let scene = Scene::new(&who);
            let made = scene.bash("mkdir -p ~/beside/real ~/private; echo seen-42 > ~/beside/real/probe; ln -s ../private ~/beside/led; echo hidden-42 > ~/private/probe");
            assert_eq!(made.status, Some(0), "{}", made.all());
            for (name, expected) in [("real", true), ("led", false)] {
                let place = scene.home().join("beside").join(name).display().to_string();
                let run = program(&scene, "cat \"$VIRTUAL_ENV/probe\"").env("VIRTUAL_ENV", place);
                let ran = ToolRun::of(&world.wrap(run));
                let answer = ran.output.all();
                assert_eq!(answer.contains("seen-42"), expected, "{world:?} {name}: {answer}");
                assert!(!answer.contains("hidden-42"), "{world:?} {name}: {answer}");
            }
        }
    }
}

/// Nobody but the user writes in the home itself, so links of its own are followed.
#[test]
fn the_users_own_links_on_the_way_to_a_toolchain_are_followed() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let made = scene.bash(
            "rm -rf ~/.cargo; mkdir -p ~/store/cargo/bin; echo seen-42 > ~/store/cargo/bin/probe; ln -s store/cargo ~/.cargo",
        );
        assert_eq!(made.status, Some(0), "{}", made.all());
        let place = scene.home().join(".cargo/bin/probe");
        for world in WORLDS {
            let run = program(&scene, &format!("cat {}", place.display()));
            let answer = ToolRun::of(&world.wrap(run)).output.all();
            assert!(answer.contains("seen-42"), "{world:?} as {}: {answer}", who.name);
        }
    }
}

fn below_opt() -> tempfile::TempDir {
    let place = tempfile::tempdir_in("/opt").expect("a directory in /opt");
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    place
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).expect("a file in /opt");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
}

#[test]
fn files_of_opt_that_only_root_may_read_are_closed_to_root() {
    for who in everyone().into_iter().filter(ferrum_tests::who::Who::is_root) {
        for world in WORLDS {
            let scene = Scene::new(&who);
            let place = below_opt();
            let (closed, open) = (place.path().join("closed"), place.path().join("open"));
            write(&closed, &scene.secret, 0o600);
            write(&open, "seen-42", 0o644);
            let script = format!("cat {} {}", open.display(), closed.display());
            assert!(scene.bash(&script).all().contains(&scene.secret));
            let answer = ToolRun::of(&world.wrap(program(&scene, &script))).output.all();
            assert!(answer.contains("seen-42"), "{world:?}: {answer}");
            assert!(!answer.contains(&scene.secret), "{world:?}: {answer}");
        }
    }
}

#[test]
fn what_commands_made_in_a_root_below_opt_keeps_nobody_from_starting() {
    let deep = "import os\nfor _ in range(30):\n    os.mkdir('d' * 203); os.chdir('d' * 203)\nos.close(os.open('f', os.O_CREAT, 0o600))\n";
    for who in everyone().into_iter().filter(ferrum_tests::who::Who::is_root) {
        let scene = Scene::new(&who);
        let place = below_opt();
        write(&place.path().join("deep.py"), deep, 0o644);
        write(&place.path().join("own"), "seen-42", 0o600);
        let here = |script: &str| {
            let mut run = scene.command_run(script, &["--safety", "medium"]);
            run.cwd = place.path().to_path_buf();
            ToolRun::of(&run)
        };
        here("python3 deep.py").expect_success("directories that go deep");
        let own = here("cat own");
        own.expect_success("a session in the same root");
        assert!(
            own.text().contains("seen-42"),
            "the user's own file is covered: {}",
            own.text()
        );
        // Any other session of root's looks through /opt as well.
        scene
            .command("true", &["--safety", "medium"])
            .expect_success("a session elsewhere");
    }
}

/// A read-only mount keeps nobody from connecting.
#[test]
fn a_socket_among_installed_programs_cannot_be_reached() {
    use std::os::unix::net::UnixListener;
    for who in everyone() {
        for top in ["/opt", "/usr/local", "/etc"] {
            let scene = Scene::new(&who);
            let Ok(place) = tempfile::tempdir_in(top) else {
                ferrum_tests::not_tried(&format!("sockets in {top}, where only root can make one"));
                continue;
            };
            std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
            let socket = place.path().join("s");
            let listener = UnixListener::bind(&socket).expect("a listener");
            listener.set_nonblocking(true).expect("it does not wait");
            std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777)).expect("its mode");
            let script = format!(
                "exec python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'",
                socket.display()
            );
            let _ = scene.bash(&script);
            assert!(listener.accept().is_ok(), "unconfined it is reached");
            let ran = ToolRun::of(&program(&scene, &script));
            let answer = ran.output.all();
            assert_eq!(ran.outcome(), "done", "{top} as {}: {answer}", who.name);
            assert!(listener.accept().is_err(), "{top} as {}: {answer}", who.name);
        }
    }
}
