//! `ferrum policy verify`: its probes get through where there is no wall, and are held where there is.

use ferrum_tests::listen::Listeners;
use ferrum_tests::outside::Tree;
use ferrum_tests::place;
use ferrum_tests::processes::left_after;
use ferrum_tests::run::Run;
use ferrum_tests::scene::Scene;
use ferrum_tests::schema::Schema;
use ferrum_tests::who::{Who, everyone, ordinary};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Child;
use std::time::Duration;

/// Probes that a kernel may refuse to everybody, by its configuration.
const IF_IT_CAN: &[&str] = &[
    "connect over IPv6",
    "open a virtual machine socket",
    "open a socket of the kernel's ciphers",
    "set an attribute outside",
    "count the processor's events",
    "watch page faults",
    "set up a ring",
    "load a module",
    "ask for ports",
    "become another user",
    "load another kernel",
    "compare with another",
    "read the kernel's log",
    "write to the machine's keys",
    "open the kernel's memory",
];

fn verified(run: &Run, status: i32) -> Value {
    let output = run.output();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", output.all()));
    let broken: Vec<_> = report["tiers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|tier| (&tier["tier"], with_result(tier, "broken")))
        .collect();
    assert_eq!(output.status, Some(status), "{broken:?}");
    Schema::named("policy-verify.json").expect(&report);
    assert_eq!(report["ok"], status == 0, "{report:#}");
    assert_eq!(report["left_behind"], serde_json::json!([]));
    report
}

fn verify(scene: &Scene) -> Run {
    scene.ferrum(["policy", "verify", "--json"])
}

fn tier<'a>(report: &'a Value, name: &str) -> &'a Value {
    let tiers = report["tiers"].as_array().expect("tiers");
    tiers
        .iter()
        .find(|tier| tier["tier"] == name)
        .unwrap_or_else(|| panic!("no {name}: {report:#}"))
}

fn with_result<'a>(tier: &'a Value, result: &str) -> Vec<&'a str> {
    let probes = tier["probes"].as_array().expect("probes").iter();
    probes
        .filter(|probe| probe["result"] == result)
        .filter_map(|probe| probe["name"].as_str())
        .collect()
}

/// A process of that user, of the front's name.
struct Aim(Child);

impl Drop for Aim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The same prober as in a host, run by hand: no wall at all.
fn unconfined(who: &Who) -> Vec<(String, String, String)> {
    let scene = Scene::new(who);
    let listeners = Listeners::start(&scene);
    let dir = scene.outside();
    for name in ["canary", "victim"] {
        scene.write(&dir.join(name), "x\n");
    }
    scene.write_program(&dir.join("tool"), "#!/bin/sh\nexit 0\n");
    let ferrum = dir.join("ferrum");
    ferrum_tests::place::copy_program("/bin/sleep".as_ref(), &ferrum);
    let aim = Aim(scene
        .run(&ferrum)
        .args(["60"])
        .command()
        .spawn()
        .expect("it starts"));
    let token = format!("ferrum-probe-{}", ferrum_tests::scene::unique());
    let targets = format!(
        "dir={}\nroot={}\npid={}\ntcp={}\ntcp6={}\nudp={}\nabstract={}\ntoken={token}\n",
        dir.display(),
        scene.root().display(),
        aim.0.id(),
        listeners.tcp,
        listeners.tcp6,
        listeners.udp,
        listeners.abstract_name,
    );
    let socket = scene.bash(&format!(
        "ln -s {} {}",
        listeners.unix_in_run.display(),
        dir.join("socket").display()
    ));
    assert_eq!(socket.status, Some(0), "{}", socket.all());
    // One descriptor is left open.
    let program = place::toolhost().display().to_string();
    let script = "exec 7</etc/passwd; exec \"$0\" probe \"$1\"";
    let output = scene
        .run("/bin/bash")
        .args(["-c", script, &program, &targets])
        .output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    let _ = scene.bash(&format!("pkill -f '^{token}'"));
    let lines = output.out();
    let lines = lines.lines().filter_map(|line| line.strip_prefix("probe\t"));
    lines
        .map(|line| {
            let parts: Vec<&str> = line.split('\t').collect();
            (parts[0].to_owned(), parts[2].to_owned(), parts[3].to_owned())
        })
        .collect()
}

#[test]
fn every_probe_gets_through_where_there_is_no_wall() {
    let _alone = alone();
    let mut got_through = BTreeSet::new();
    let mut names = BTreeSet::new();
    let mut failures: Vec<String> = Vec::new();
    for who in everyone() {
        for (name, word, detail) in unconfined(&who) {
            // A root without all capabilities proves less.
            let is_limited = who.is_root() && !has_all_capabilities();
            let may_fail = word == "absent" || is_limited || IF_IT_CAN.contains(&name.as_str());
            if word != "through" && !may_fail {
                failures.push(format!("{name} as {}: {word} {detail}", who.name));
            }
            if word == "through" {
                got_through.insert(name.clone());
            } else if word == "refused" {
                ferrum_tests::not_tried(&format!("{name} as {}: {detail}", who.name));
            }
            names.insert(name);
        }
    }
    assert!(
        got_through.len() >= 60,
        "only {} probes prove anything",
        got_through.len()
    );
    if everyone().iter().any(Who::is_root) && has_all_capabilities() {
        let never: Vec<&String> = names.difference(&got_through).collect();
        assert!(
            never.iter().all(|name| IF_IT_CAN.contains(&name.as_str())),
            "{never:?}"
        );
    }
}

/// Probes look alike from outside: whoever looks for what they left must be the only one.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// 41 of them, since Linux 5.9.
fn has_all_capabilities() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line == "CapEff:\t000001ffffffffff")
}

#[test]
fn every_wall_holds_at_every_tier_and_nothing_is_left() {
    let _alone = alone();
    for who in everyone() {
        let scene = Scene::new(&who);
        let before = (scene.protected(), Tree::of(&scene.root()));
        let report = verified(&verify(&scene), 0);
        for name in ["low", "medium", "high"] {
            let tier = tier(&report, name);
            // Without a control group low does not hold a call's lifetime.
            if name != "low" {
                assert_eq!(tier["isolation"], "full", "{tier:#}");
            }
            assert_eq!(with_result(tier, "broken"), [""; 0]);
            assert_eq!(with_result(tier, "open"), [""; 0]);
        }
        let tried = with_result(tier(&report, "medium"), "held").len();
        assert!(
            tried >= 60,
            "only {tried} as {}: {:?}",
            who.name,
            with_result(tier(&report, "medium"), "not_applicable")
        );
        assert_eq!(before.0.changes(&scene.protected()), Vec::<String>::new());
        assert_eq!(before.1.changes(&Tree::of(&scene.root())), Vec::<String>::new());
        assert_eq!(
            left_after("ferrum-probe-", Duration::from_secs(1)),
            Vec::<u32>::new()
        );
        let data = std::fs::read_dir(scene.data_dir()).expect("the data directory");
        let names = data
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        let left: Vec<String> = names.filter(|name| name.contains("probe")).collect();
        assert_eq!(left, Vec::<String>::new());
    }
}

/// What a project takes away does not keep its walls from being tried.
#[test]
fn a_narrowed_project_is_verified_too() {
    let _alone = alone();
    let scene = Scene::new(&ordinary());
    scene.write(
        &scene.root().join(".ferrum/config.toml"),
        "safety = \"medium\"\n[tools]\ndeny = [\"bash\"]\n",
    );
    let report = verified(&verify(&scene), 0);
    let low = tier(&report, "low");
    assert!(
        low["failure"].as_str().is_some_and(|why| why.contains("floor")),
        "{low:#}"
    );
    assert!(with_result(tier(&report, "medium"), "held").len() > 40);
    scene.write(
        &scene.config_dir().join("config.toml"),
        "safety.ceiling = \"high\"\n",
    );
    assert_eq!(
        verified(&verify(&scene), 0)["tiers"].as_array().map(Vec::len),
        Some(1)
    );
}

fn in_force(tier: &Value, wall: &str) -> bool {
    let walls = tier["walls"].as_array().expect("walls");
    walls
        .iter()
        .any(|row| row["name"] == wall && row["in_force"] == true)
}

#[test]
fn walls_that_the_kernel_does_not_give_are_noticed() {
    let _alone = alone();
    for who in everyone() {
        let scene = Scene::new(&who);
        let denied = Run {
            without_namespaces: true,
            ..verify(&scene)
        };
        let used_up = verify(&scene).under(
            ["unshare", "--user", "--keep-caps"]
                .map(str::to_owned)
                .into_iter()
                .chain([
                    format!("--map-user={}", who.uid),
                    format!("--map-group={}", who.gid),
                    "bash".to_owned(),
                    "-c".to_owned(),
                    "echo 0 > /proc/sys/user/max_user_namespaces || exit 99; \
                 exec setpriv --inh-caps=-all --ambient-caps=-all -- \"$@\""
                        .to_owned(),
                    "world".to_owned(),
                ]),
        );
        for run in [denied, used_up] {
            let report = verified(&run, 0);
            let medium = tier(&report, "medium");
            assert_eq!(medium["isolation"], "kernel");
            assert!(
                !in_force(medium, "mount view") && in_force(medium, "landlock"),
                "{medium:#}"
            );
            // They get through, and no promise says otherwise.
            let open = with_result(medium, "open");
            for name in ["change a mode outside", "learn that a file outside exists"] {
                assert!(open.contains(&name), "{name} as {}: {open:?}", who.name);
            }
            assert_eq!(with_result(medium, "broken"), [""; 0]);
        }
        let without = Run {
            without_landlock: true,
            ..verify(&scene)
        };
        let report = verified(&without, 0);
        assert!(!in_force(tier(&report, "medium"), "landlock"), "{report:#}");
        assert!(in_force(tier(&report, "medium"), "mount view"));

        let neither = Run {
            without_landlock: true,
            without_namespaces: true,
            ..verify(&scene)
        };
        let report = verified(&neither, 4);
        let why = tier(&report, "medium")["failure"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(why.contains("isolation") && why.contains("landlock"), "{why}");
    }
}

#[test]
fn a_person_gets_a_table() {
    let _alone = alone();
    let scene = Scene::new(&ordinary());
    let output = scene.ferrum(["policy", "verify"]).output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    for words in ["read a file outside", "held", "0 broken"] {
        assert!(output.out().contains(words), "{words}: {}", output.out());
    }
}
