//! A call that is cut off leaves nothing behind that runs on its own, however it was cut.

use super::World;
use ferrum_tests::processes::left_after;
use ferrum_tests::scene::{Scene, unique};
use ferrum_tests::who::everyone;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A machine that is busy building takes long for everything.
const LONG: Duration = Duration::from_secs(60);

const SIGNALS: [(Signal, i32); 3] = [
    (Signal::SIGINT, 130),
    (Signal::SIGTERM, 143),
    (Signal::SIGHUP, 143),
];

/// What git and Ferrum obey, and what says that all of it is there.
const PLANTED: [&str; 3] = [
    ".git/commondir",
    ".git/config.worktree",
    ".ferrum/skills/evil/SKILL.md",
];
const PLANT: &str = "cp -r .git probe-g; echo @ROOT@/probe-g > .git/commondir; echo x > .git/config.worktree; \
                     mkdir -p .ferrum/skills/evil; echo x > .ferrum/skills/evil/SKILL.md; echo x > planted; ";

/// Starts a command that makes `first`, plants and stays; returns once everything is planted.
fn planted(scene: &Scene, world: World, first: &str, marker: &str) -> Child {
    let plant = PLANT.replace("@ROOT@", &scene.root().display().to_string());
    let script = format!("{first}{plant}bash -c 'sleep 300; : {marker}'\n");
    // A file: without full isolation inline code is refused by the text policy.
    scene.write(&scene.root().join("plant.sh"), script);
    let run = world.wrap(scene.command_run("bash plant.sh", &[]));
    let mut command = run.command();
    let child = command.stdout(Stdio::null()).spawn().expect("ferrum starts");
    let begun = Instant::now();
    while !scene.root().join("planted").exists() {
        assert!(begun.elapsed() < LONG, "nothing was planted");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).expect("a pid");
    kill(Pid::from_raw(pid), signal).expect("the front runs");
}

fn left(scene: &Scene) -> Vec<PathBuf> {
    let places = PLANTED.iter().map(|name| scene.root().join(name));
    places.filter(|path| path.symlink_metadata().is_ok()).collect()
}

#[test]
fn what_a_cut_call_planted_is_put_back() {
    for who in everyone() {
        for world in [World::Whole, World::NamespacesDenied] {
            for (signal, code) in SIGNALS {
                let scene = Scene::new(&who);
                let marker = unique();
                let mut front = planted(&scene, world, "", &marker);
                send(&front, signal);
                let status = front.wait().expect("the front ends");
                assert_eq!(left(&scene), Vec::<PathBuf>::new(), "{signal} as {}", who.name);
                assert!(!scene.root().join(".ferrum").exists(), "{signal} as {}", who.name);
                assert_eq!(status.code(), Some(code), "{signal} as {}", who.name);
                assert_eq!(left_after(&marker, Duration::from_secs(3)), Vec::<u32>::new());
            }
        }
    }
}

/// Directories whose walk takes longer than a host that lost its front has.
const SLOW: &str = "mkdir many; cd many; for n in $(seq 30); do mkdir -p $(seq -f $n-%g 1000); done; cd ..; ";

#[test]
fn what_a_call_planted_is_put_back_after_the_fronts_sudden_death() {
    for who in everyone() {
        for world in [World::Whole, World::NamespacesDenied] {
            for first in ["", SLOW] {
                let scene = Scene::new(&who);
                let marker = unique();
                let mut front = planted(&scene, world, first, &marker);
                send(&front, Signal::SIGKILL);
                let _ = front.wait();
                let begun = Instant::now();
                while !left(&scene).is_empty() && begun.elapsed() < Duration::from_secs(3) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                assert_eq!(left(&scene), Vec::<PathBuf>::new(), "{world:?} as {}", who.name);
                assert!(
                    !scene.root().join(".ferrum").exists(),
                    "{world:?} as {}",
                    who.name
                );
                assert_eq!(left_after(&marker, Duration::from_secs(3)), Vec::<u32>::new());
            }
        }
    }
}
