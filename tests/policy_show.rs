//! `ferrum policy show`: what it says is what a session is sealed with.

use ferrum_tests::scene::Scene;
use ferrum_tests::schema::Schema;
use ferrum_tests::who::{everyone, ordinary};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;

fn show(scene: &Scene, options: &[&str]) -> Value {
    let output = scene.ferrum(["policy", "show", "--json"]).args(options).output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    Schema::named("policy-show.json").expect(&shown);
    shown
}

fn setting<'a>(shown: &'a Value, key: &str) -> &'a Value {
    let rows = shown["settings"].as_array().expect("a list");
    rows.iter()
        .find(|row| row["key"] == key)
        .unwrap_or_else(|| panic!("no {key} in {shown:#}"))
}

/// `kind`, or `file:line` below the scene.
fn origins(scene: &Scene, shown: &Value, key: &str) -> Vec<String> {
    let base = format!("{}/", scene.home().display());
    let all = setting(shown, key)["origins"].as_array().expect("a list");
    let words = all.iter().map(|origin| match origin["file"].as_str() {
        Some(file) => format!("{}:{}", file.replace(&base, ""), origin["line"]),
        None => origin["kind"].as_str().unwrap_or_default().to_owned(),
    });
    words.collect()
}

#[test]
fn each_value_has_the_file_and_line_that_set_it() {
    let scene = Scene::new(&ordinary());
    let user = "# mine\n[safety]\nceiling = \"medium\"\n[tools]\nenv = [\"EXTRA\"]\nshell = \"auto\"\n[limits]\npids = 99\n";
    scene.write(&scene.config_dir().join("config.toml"), user);
    scene.write(
        &scene.home().join("work/.ferrum/config.toml"),
        "\n[tools]\nnetwork = \"none\"\ndeny = [\"grep\"]\n",
    );
    scene.write(
        &scene.root().join(".ferrum/config.toml"),
        "max_tool_rounds = 7\n[tools]\ndeny = [\"bash\"]\nnetwork = \"none\"\nshell = \"static\"\nwritable_roots = [\"src\"]\n",
    );
    let shown = show(&scene, &["--safety", "medium"]);
    let inner = |line: u32| format!("work/repo/.ferrum/config.toml:{line}");
    let outer = |line: u32| format!("work/.ferrum/config.toml:{line}");
    let mine = |line: u32| format!(".config/ferrum/config.toml:{line}");
    let of = |key: &str| origins(&scene, &shown, key);
    assert_eq!(of("safety"), ["command_line"]);
    assert_eq!(of("safety.ceiling"), [mine(3)]);
    assert_eq!(of("safety.floor"), [mine(3)]);
    assert_eq!(of("tools.network"), [inner(4), outer(3)]);
    assert_eq!(of("tools.shell"), [inner(5)]);
    assert_eq!(of("tools.writable_roots"), [inner(6)]);
    assert_eq!(of("tools"), [inner(3), outer(4)]);
    assert_eq!(of("max_tool_rounds"), [inner(1)]);
    assert_eq!(of("tools.env"), [mine(5)]);
    assert_eq!(of("limits.pids"), [mine(8)]);
    assert_eq!(of("limits.file"), ["default"]);
    let root = scene.root().join("src").display().to_string();
    assert_eq!(setting(&shown, "tools.writable_roots")["value"], json!([root]));
    let removed = shown["tools"]["removed"].as_array().expect("a list");
    let names: Vec<&str> = removed.iter().filter_map(|tool| tool["tool"].as_str()).collect();
    assert_eq!(names, ["bash", "grep", "wait"]);
    assert_eq!(removed[0]["origin"]["line"], 3);
    assert_eq!(shown["project_files"].as_array().map(Vec::len), Some(2));

    let mut run = scene.ferrum(["policy", "show", "--json"]);
    run = run.env("FERRUM_MAX_TOOL_ROUNDS", "3");
    let rounds: Value = serde_json::from_slice(&run.output().stdout).expect("JSON");
    assert_eq!(origins(&scene, &rounds, "max_tool_rounds"), ["environment"]);
    assert_eq!(setting(&rounds, "max_tool_rounds")["value"], 3);
}

/// Where a program of a session may write is where the view says so, and nowhere else.
#[test]
fn the_view_is_what_a_command_finds() {
    for who in everyone() {
        for tier in ["medium", "high"] {
            let scene = Scene::new(&who);
            let shown = show(&scene, &["--safety", tier]);
            let view = shown["walls"]["view"].as_array().expect("a view");
            let entry = |path: &Path| {
                let path = path.display().to_string();
                view.iter().find(|entry| entry["path"] == *path).cloned()
            };
            let root = entry(&scene.root()).expect("the root is in the view");
            assert_eq!(root["access"], if tier == "high" { "read_exec" } else { "write" });
            assert!(entry(&scene.home().join(".ssh")).is_none(), "{shown:#}");
            assert_eq!(
                entry(Path::new("/usr")).map(|usr| usr["access"].clone()),
                Some(json!("read_exec"))
            );
            for directory in view.iter().filter_map(|entry| entry["path"].as_str()) {
                if Path::new(directory).is_dir() {
                    let listed = scene.command(&format!("ls {directory}"), &["--safety", tier]);
                    listed.expect_success(directory);
                }
            }
            let ran = scene.command("ls /", &["--safety", tier]);
            for name in ran.stdout().lines() {
                let path = format!("/{name}");
                let known = ["/proc", "/dev", "/sys", "/home", "/var", "/run"].contains(&path.as_str())
                    || view.iter().any(|entry| {
                        let entry = entry["path"].as_str().unwrap_or_default();
                        entry == path || entry.starts_with(&format!("{path}/"))
                    });
                assert!(known, "{path} is seen at {tier} and not shown: {view:#?}");
            }
        }
    }
}

#[test]
fn every_tier_and_a_machine_without_namespaces_fit_the_schema() {
    for who in everyone() {
        let scene = Scene::new(&who);
        for tier in ["low", "medium", "high"] {
            let shown = show(&scene, &["--safety", tier]);
            assert_eq!(setting(&shown, "safety")["value"], tier);
            // At low nothing but a cgroup ends what a command leaves, and not every user has one.
            let containment = shown["walls"]["containment"].as_str().unwrap_or_default();
            if tier == "low" && !containment.contains("cgroup") {
                assert_eq!(shown["walls"]["isolation"], "kernel");
                continue;
            }
            assert_eq!(shown["walls"]["isolation"], "full");
            let held = shown["walls"]["promises"].as_array().expect("promises").iter();
            held.for_each(|promise| assert_ne!(promise["held_by"], json!([]), "{promise}"));
        }
        let mut run = scene.ferrum(["policy", "show", "--json"]);
        run.without_namespaces = true;
        let output = run.output();
        let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        Schema::named("policy-show.json").expect(&shown);
        let walls = &shown["walls"];
        assert_eq!(
            (&walls["isolation"], &walls["network"]),
            (&json!("kernel"), &json!("none"))
        );
        let open = walls["promises"].as_array().expect("promises").iter();
        assert!(
            open.filter(|promise| promise["held_by"] == json!([])).count() > 0,
            "{walls:#}"
        );
        assert!(
            walls["view"]
                .as_array()
                .expect("a view")
                .iter()
                .all(|entry| { entry["held_by"] == json!(["landlock"]) })
        );
    }
}

/// The policy is known although no session can be had under it.
#[test]
fn walls_that_do_not_come_up_are_told_beside_the_policy() {
    let scene = Scene::new(&ordinary());
    scene.write(
        &scene.root().join(".ferrum/config.toml"),
        "[isolation]\nrequire = \"full\"\n",
    );
    let mut run = scene.ferrum(["policy", "show", "--json"]);
    run.without_namespaces = true;
    let output = run.output();
    assert_eq!(output.status, Some(4), "{}", output.all());
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    Schema::named("policy-show.json").expect(&shown);
    assert_eq!(
        (&shown["walls"], &shown["failure"]["exit"]),
        (&Value::Null, &json!(4))
    );
    assert_eq!(
        origins(&scene, &shown, "isolation.require"),
        ["work/repo/.ferrum/config.toml:2"]
    );
    let words = scene.ferrum(["policy", "show"]).output();
    assert_eq!(words.status, Some(0));
}

#[test]
fn a_person_gets_one_screen_and_colours_when_asked() {
    let scene = Scene::new(&ordinary());
    scene.write(
        &scene.root().join(".ferrum/config.toml"),
        "safety = \"high\"\n[tools]\ndeny = [\"bash\"]\n",
    );
    let output = scene.ferrum(["policy", "show"]).output();
    let text = output.out();
    assert!(text.lines().count() <= 60, "{text}");
    assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
    for words in [
        "policy of",
        "work/repo/.ferrum/config.toml:1",
        "removed",
        "isolation",
        "mount view",
        "protected",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
    scene.write(&scene.config_dir().join("config.toml"), "color = \"on\"\n");
    assert!(
        scene
            .ferrum(["policy", "show"])
            .output()
            .out()
            .contains("\u{1b}[32mfull\u{1b}[0m")
    );
}

#[test]
fn another_directory_can_be_asked_about() {
    let scene = Scene::new(&ordinary());
    let library = scene.home().join("work/library");
    let shown = show(&scene, &["--dir", "../library"]);
    assert_eq!(shown["directory"], library.display().to_string());
    let output = scene.ferrum(["policy", "show", "--dir", "nowhere"]).output();
    assert_eq!(output.status, Some(2), "{}", output.all());
    assert!(output.all().contains("nowhere"), "{}", output.all());
}

#[test]
fn servers_are_listed_with_what_keeps_them_out() {
    let scene = Scene::new(&ordinary());
    let server =
        |name: &str, more: &str| format!("[[mcp.servers]]\nname = \"{name}\"\ncommand = \"x\"\n{more}\n");
    let user = [
        server("a", ""),
        server("b", "isolation = \"workspace\""),
        server("c", "enabled = false"),
    ]
    .concat();
    scene.write(&scene.config_dir().join("config.toml"), user);
    scene.write(
        &scene.root().join(".ferrum/config.toml"),
        "[mcp]\ndeny = [\"a\"]\n",
    );
    let shown = show(&scene, &[]);
    let servers = shown["mcp"]["servers"].as_array().expect("servers");
    let selected: Vec<&Value> = servers.iter().map(|server| &server["selected"]).collect();
    assert_eq!(selected, [&json!(false), &json!(true), &json!(false)]);
    assert_eq!(servers[1]["isolation"], "workspace");
    assert_eq!(shown["mcp"]["started"], false);
}

/// A policy file that cannot be used is never taken for an absent one.
#[test]
fn a_policy_file_that_is_no_plain_file_is_an_error() {
    let who = ordinary();
    type Make = fn(&Scene, &Path);
    let rows: &[(&str, Make, &str)] = &[
        (
            "pipe",
            |_, file| nix::unistd::mkfifo(file, nix::sys::stat::Mode::S_IRWXU).expect("a pipe"),
            "not a regular file",
        ),
        (
            "directory",
            |_, file| std::fs::create_dir(file).expect("a directory"),
            "not a regular file",
        ),
        (
            "link",
            |scene, file| symlink(scene.outside().join("precious.txt"), file).expect("a link"),
            "not a regular file",
        ),
        (
            "dangling link",
            |_, file| symlink("nowhere", file).expect("a link"),
            "not a regular file",
        ),
        (
            "large",
            |scene, file| scene.write(file, "#".repeat((1 << 20) + 1)),
            "larger than 1 MiB",
        ),
        (
            "not UTF-8",
            |scene, file| scene.write(file, b"# fine\na = \"\xff\"\n"),
            ":2:6: is not UTF-8",
        ),
        ("no TOML", |scene, file| scene.write(file, "safety = \n"), ":1:"),
        (
            "unreadable",
            |scene, file| {
                scene.write(file, "safety = \"high\"\n");
                std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o000)).expect("its mode");
            },
            "cannot be opened",
        ),
        (
            "foreign",
            |scene, file| {
                scene.write(file, "safety = \"high\"\n");
                chown(file, Some(4242), None).expect("another owner");
            },
            "belongs to uid 4242",
        ),
    ];
    let is_root = nix::unistd::geteuid().is_root();
    for (name, make, word) in rows {
        if *name == "foreign" && !is_root {
            ferrum_tests::not_tried("a policy file of another user: only root can make one");
            continue;
        }
        let scene = Scene::new(&who);
        let file = scene.root().join(".ferrum/config.toml");
        std::fs::create_dir(scene.root().join(".ferrum")).expect("a directory");
        make(&scene, &file);
        if *name != "foreign" && is_root {
            lchown(&file, Some(who.uid), Some(who.gid)).expect("its owner");
        }
        for command in [
            &["policy", "show"][..],
            &["policy", "explain", "bash", "ls"],
            &["tool", "ls", "{\"path\":\".\"}"],
        ] {
            let output = scene.ferrum(command).output();
            assert_eq!(output.status, Some(2), "{name}, {command:?}: {}", output.all());
            let all = output.all();
            assert!(
                all.contains(".ferrum/config.toml") && all.contains(word),
                "{name}: {all}"
            );
        }
    }
    for link in [true, false] {
        let scene = Scene::new(&who);
        let folder = scene.root().join(".ferrum");
        if link {
            symlink("src", &folder).expect("a link");
        } else {
            scene.write(&folder, "");
        }
        let output = scene.ferrum(["policy", "show"]).output();
        assert_eq!(output.status, Some(2), "{}", output.all());
        assert!(output.all().contains("not a directory"), "{}", output.all());
    }
}

/// Not the rule by which skills are chosen alone, but those that a model is told of.
#[test]
fn skills_are_listed_by_name() {
    let scene = Scene::new(&ordinary());
    let skill = |place: &str, name: &str| {
        let text = format!("---\nname: {name}\ndescription: does {name}\n---\nDo it.\n");
        scene.write(&scene.root().join(place).join(name).join("SKILL.md"), text);
    };
    skill(".agents/skills", "deploy");
    skill(".agents/skills", "release");
    let own = scene.home().join(".agents/skills");
    skill(&own.display().to_string(), "mine");
    scene.write(
        &scene.root().join(".ferrum/config.toml"),
        "[skills]\ndeny = [\"release\"]\n",
    );
    let output = scene.ferrum(["policy", "show", "--json"]).output();
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", output.all()));
    Schema::named("policy-show.json").expect(&shown);
    let offered = shown["skills"]["offered"].as_array().expect("a list").iter();
    let offered: Vec<(&str, &str, bool)> = offered
        .map(|skill| {
            let text = |key: &str| skill[key].as_str().unwrap_or_default();
            (text("name"), text("of"), skill["trusted"] == true)
        })
        .collect();
    assert_eq!(offered, [("deploy", "project", true), ("mine", "user", true)]);
    let output = scene.ferrum(["policy", "show"]).output();
    assert!(
        output.out().contains("deploy") && !output.out().contains("release/"),
        "{}",
        output.out()
    );
}
