//! Whatever a call started ends with it, whoever ends first.

use super::World;
use ferrum_tests::processes::{appeared, children, left_after, with_marker};
use ferrum_tests::scene::{Scene, ToolRun, unique};
use ferrum_tests::who::{Who, everyone};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Child;
use std::time::Duration;

/// On an idle machine nothing is left after 0.3 s; a machine that is busy building takes longer.
const GONE: Duration = Duration::from_secs(3);

/// Ways to stay alive. Every process has the marker among its arguments.
const STAYERS: [(&str, &str); 7] = [
    ("a background job", "sleep 300 && : MARK & : "),
    (
        "a new session",
        "setsid bash -c 'sleep 300; : MARK' > /dev/null 2>&1 &",
    ),
    (
        "a double fork",
        "(setsid bash -c '(bash -c \"sleep 300; : MARK\" &) ; exit' > /dev/null 2>&1 &)",
    ),
    (
        "a process that ignores signals",
        "nohup setsid bash -c 'trap \"\" TERM INT HUP; while :; do sleep 300; done; : MARK' > /dev/null 2>&1 &",
    ),
    (
        "a stopped process",
        "setsid bash -c 'kill -STOP $$; : MARK' > /dev/null 2>&1 &",
    ),
    (
        "a loop that forks again and again",
        "setsid bash -c 'f() { sleep 0.02; exec setsid bash -c \"$1\" x \"$1\"; }; f \"$1\"' x 'sleep 0.02; setsid bash -c \"$1\" x \"$1\" & : MARK' > /dev/null 2>&1 &",
    ),
    (
        "a python daemon",
        "python3 -c 'import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(300)  # MARK' > /dev/null 2>&1",
    ),
];

fn all_stayers(marker: &str) -> String {
    STAYERS
        .iter()
        .map(|(_, script)| script.replace("MARK", marker))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn nothing_survives_the_end_of_a_command() {
    for who in everyone() {
        let scene = Scene::new(&who);
        for (what, script) in STAYERS {
            let marker = unique();
            let ran = scene.command(
                &format!("{}\nsleep 0.2; exit 3", script.replace("MARK", &marker)),
                &[],
            );
            assert_eq!(ran.outcome(), "done", "{what}: {}", ran.output.all());
            assert_eq!(
                left_after(&marker, GONE),
                Vec::<u32>::new(),
                "{what} survived (as {})",
                who.name
            );
            assert_eq!(ran.status(), Some(3), "{what}: {}", ran.text());
            assert_eq!(
                ran.json["command"]["residual_descendants"], "false",
                "{what}: {}",
                ran.json
            );
        }
    }
}

/// The collection outlives a plain `bash -c`, so its end above is the walls' doing.
#[test]
fn the_stayers_survive_unconfined() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let marker = unique();
        let _ = scene.bash(&format!("{}\nsleep 0.2", all_stayers(&marker)));
        let alive = with_marker(&marker);
        for pid in &alive {
            end(*pid, Signal::SIGKILL);
        }
        while !with_marker(&marker).is_empty() {
            with_marker(&marker)
                .into_iter()
                .for_each(|pid| end(pid, Signal::SIGKILL));
        }
        assert!(alive.len() >= 5, "only {} survive", alive.len());
    }
}

#[test]
fn nothing_survives_a_timeout() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let marker = unique();
        let arguments = serde_json::json!({
            "command": format!("{}\nsleep 100", all_stayers(&marker)),
            "timeout_seconds": 1,
        });
        let ran = scene.tool("bash", &arguments, &["--shell", "auto"]);
        assert_eq!(ran.json["command"]["end"], "timed_out", "{}", ran.output.all());
        assert_eq!(left_after(&marker, GONE), Vec::<u32>::new(), "as {}", who.name);
    }
}

/// Starts everything that stays, then returns the front with the marker, once all of it runs.
fn started(who: &Who) -> (Scene, Child, String) {
    let scene = Scene::new(who);
    let marker = unique();
    let run = scene.command_run(&format!("{}\nsleep 100; : {marker}", all_stayers(&marker)), &[]);
    let child = run.command().spawn().expect("ferrum starts");
    let up = appeared(&marker, 6, Duration::from_secs(20));
    assert!(up, "the command did not start");
    (scene, child, marker)
}

#[test]
fn nothing_survives_the_fronts_sudden_death() {
    for who in everyone() {
        let (_scene, mut front, marker) = started(&who);
        end(front.id(), Signal::SIGKILL);
        let _ = front.wait();
        assert_eq!(left_after(&marker, GONE), Vec::<u32>::new(), "as {}", who.name);
    }
}

#[test]
fn nothing_survives_the_launchers_sudden_death() {
    for who in everyone() {
        let (_scene, mut front, marker) = started(&who);
        for launcher in children(front.id()) {
            end(launcher, Signal::SIGKILL);
        }
        let left: Vec<u32> = left_after(&marker, GONE)
            .into_iter()
            .filter(|pid| *pid != front.id())
            .collect();
        let _ = front.kill();
        let _ = front.wait();
        assert_eq!(left, Vec::<u32>::new(), "as {}", who.name);
    }
}

#[test]
fn a_hosts_sudden_death_is_a_fault_and_ends_everything() {
    for who in everyone() {
        let (_scene, front, marker) = started(&who);
        for launcher in children(front.id()) {
            for host in children(launcher) {
                end(host, Signal::SIGKILL);
            }
        }
        let output = front.wait_with_output().expect("the front ends");
        assert_eq!(
            output.status.code(),
            Some(1),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(left_after(&marker, GONE), Vec::<u32>::new(), "as {}", who.name);
    }
}

#[test]
fn nothing_survives_a_cancel() {
    for who in everyone() {
        let (_scene, mut front, marker) = started(&who);
        end(front.id(), Signal::SIGINT);
        let status = front.wait().expect("the front ends");
        assert_eq!(status.code(), Some(130), "as {}", who.name);
        assert_eq!(left_after(&marker, GONE), Vec::<u32>::new(), "as {}", who.name);
    }
}

/// After any of the above no process of Ferrum's own is left either.
#[test]
fn launcher_and_host_end_with_the_front() {
    for who in everyone() {
        let (_scene, mut front, marker) = started(&who);
        let mut family = children(front.id());
        family.extend(family.clone().into_iter().flat_map(children));
        end(front.id(), Signal::SIGKILL);
        let _ = front.wait();
        assert_eq!(left_after(&marker, GONE), Vec::<u32>::new());
        let started = std::time::Instant::now();
        while family.iter().any(|pid| ferrum_tests::processes::is_running(*pid)) && started.elapsed() < GONE {
            std::thread::sleep(Duration::from_millis(10));
        }
        family.retain(|pid| ferrum_tests::processes::is_running(*pid));
        assert_eq!(family, Vec::<u32>::new(), "as {}", who.name);
    }
}

/// Without a pid namespace nothing survives either, whoever is killed.
#[test]
fn nothing_survives_a_sudden_death_without_namespaces() {
    for who in everyone() {
        for victims in [Victims::Front, Victims::Launcher, Victims::Hosts] {
            let scene = Scene::new(&who);
            let marker = unique();
            // A file: without full isolation inline code is refused by the text policy.
            let script = format!("{}\nsleep 100; : {marker}", all_stayers(&marker));
            scene.write(&scene.root().join("stay.sh"), script);
            let run = World::NamespacesDenied.wrap(scene.command_run("bash stay.sh", &[]));
            let mut front = run.command().spawn().expect("ferrum starts");
            assert!(
                appeared(&marker, 4, Duration::from_secs(20)),
                "the command did not start"
            );
            for victim in victims.of(front.id()) {
                end(victim, Signal::SIGKILL);
            }
            let mine = |pid: &u32| *pid != front.id();
            let left: Vec<u32> = left_after(&marker, GONE).into_iter().filter(mine).collect();
            let _ = front.kill();
            let _ = front.wait();
            assert_eq!(left, Vec::<u32>::new(), "{victims:?} as {}", who.name);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Victims {
    Front,
    Launcher,
    Hosts,
}

impl Victims {
    fn of(self, front: u32) -> Vec<u32> {
        let launchers = children(front);
        match self {
            Self::Front => vec![front],
            Self::Launcher => launchers,
            Self::Hosts => launchers.into_iter().flat_map(children).collect(),
        }
    }
}

fn end(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        // It may be gone already.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// The result says how it is known that nothing is left.
#[test]
fn the_result_names_its_containment() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let ran: ToolRun = scene.command("sleep 100 & sleep 100 & sleep 0.3", &[]);
        ran.expect_success("two background jobs");
        let containment = ran.json["command"]["containment"].as_str().unwrap_or_default();
        assert!(containment.contains("pidns"), "{containment}");
        assert_eq!(ran.json["command"]["ended_with_call"], 2, "{}", ran.json);
        assert!(ran.text().contains("ended_with_call: 2 (sleep"), "{}", ran.text());
    }
}
