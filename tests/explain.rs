//! `ferrum policy explain`: the verdicts of a real session, without one.

use ferrum_proto::charter::Wish;
use ferrum_proto::control::ToLauncher;
use ferrum_proto::reply::{Explanation, FromHost};
use ferrum_proto::request::{Act, Query, ToHost};
use ferrum_proto::terms::{PathBytes, Tier};
use ferrum_tests::run::Output;
use ferrum_tests::scene::Scene;
use ferrum_tests::who::{everyone, ordinary};
use ferrum_tests::wire::{Launcher, call, charter, hello_host, tool};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

fn explain(scene: &Scene, words: &[&str]) -> Output {
    scene.ferrum(["policy", "explain"]).args(words).output()
}

fn batch(scene: &Scene, options: &[&str], questions: &str) -> Vec<Value> {
    let run = scene.ferrum(["policy", "explain", "--stdin"]).args(options);
    let output = run.stdin(questions).output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    let lines = output.out();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON line"))
        .collect()
}

#[test]
fn exit_codes_and_words_for_a_person() {
    let scene = Scene::new(&ordinary());
    let allowed = explain(&scene, &["bash", "ls | wc -l"]);
    assert_eq!(allowed.status, Some(0), "{}", allowed.all());
    assert!(allowed.out().starts_with("allow\n"), "{}", allowed.out());
    let refused = explain(&scene, &["bash", "true\n  sudo id"]);
    assert_eq!(refused.status, Some(5), "{}", refused.all());
    assert!(
        refused.out().starts_with("deny (privilege) at 2:3: "),
        "{}",
        refused.out()
    );
    let high = explain(&scene, &["--safety", "high", "bash", "cargo build"]);
    assert!(high.out().contains("(not-inspection)"), "{}", high.out());
    assert_eq!(explain(&scene, &["write", "new.txt"]).status, Some(0));
    assert_eq!(explain(&scene, &["edit", ".git/config"]).status, Some(5));
    assert_eq!(explain(&scene, &["read", "README.md"]).status, Some(0));
    assert_eq!(explain(&scene, &["bash"]).status, Some(2));
}

/// What is explained is what happens: the same codes as from the real path, `bash -n` included.
#[test]
fn verdicts_are_those_of_a_session() {
    for who in everyone() {
        let scene = Scene::new(&who);
        for (tier, command) in [
            ("medium", "echo x > inside.txt"),
            ("medium", "echo x > ../outside.txt"),
            ("medium", "echo x > /tmp/private.txt"),
            ("medium", "python3 -c 'print(1)'"),
            ("medium", "true ;; false"),
            ("medium", "cat <<EOF\nopen"),
            ("high", "touch x"),
            ("high", "ls"),
            ("medium", "sudo true"),
        ] {
            let explained = explain(&scene, &["--json", "--safety", tier, "bash", command]);
            let explained: Value = serde_json::from_str(&explained.out()).expect("JSON");
            let arguments = json!({ "command": command });
            let ran = scene.tool("bash", &arguments, &["--safety", tier]);
            let refused = ran.outcome() == "refused";
            assert_eq!(explained["verdict"] == "deny", refused, "{command}: {explained}");
            if let Some(code) = explained["code"].as_str() {
                assert!(
                    ran.text().contains(code),
                    "{command}: {explained} but {}",
                    ran.text()
                );
            }
        }
        assert!(!scene.root().join("x").exists());
    }
}

#[test]
fn a_batch_is_answered_in_order_and_bad_lines_are_errors() {
    let scene = Scene::new(&ordinary());
    let questions = concat!(
        "{\"id\":1,\"safety\":\"medium\",\"shell\":\"static\",\"tool\":\"bash\",\"command\":\"ls\"}\n",
        "nonsense\n",
        "{\"id\":{\"a\":[2]},\"safety\":\"medium\",\"command\":\"source x\"}\n",
        "\n",
        "{\"id\":3,\"command\":7}\n",
        "{\"id\":4,\"safety\":\"extreme\",\"command\":\"ls\"}\n",
        "{\"id\":5,\"command\":\"ls\",\"comand\":\"x\"}\n",
        "[1]\n",
        "{\"id\":6,\"tool\":\"write\",\"path\":\"/srv/x\"}\n",
        "{\"id\":7,\"tool\":\"read\",\"command\":\"x\"}\n",
        "{\"id\":8,\"shell\":\"auto\",\"isolation\":\"full\",\"command\":\"source x\"}\n",
        "{\"id\":9,\"shell\":\"auto\",\"isolation\":\"kernel\",\"command\":\"source x\"}",
    );
    let answers = batch(&scene, &[], questions);
    let seen: Vec<(Value, &str, &str)> = answers
        .iter()
        .map(|answer| {
            let text = |key: &str| answer[key].as_str().unwrap_or("");
            (answer["id"].clone(), text("verdict"), text("code"))
        })
        .collect();
    let expected = vec![
        (json!(1), "allow", ""),
        (json!(null), "error", ""),
        (json!({"a": [2]}), "deny", "eval"),
        (json!(3), "error", ""),
        (json!(4), "error", ""),
        (json!(5), "error", ""),
        (json!(null), "error", ""),
        (json!(6), "deny", "outside-root"),
        (json!(7), "error", ""),
        (json!(8), "allow", ""),
        (json!(9), "deny", "eval"),
    ];
    assert_eq!(seen, expected);
    assert!(
        answers[4]["message"]
            .as_str()
            .is_some_and(|text| text.contains("extreme"))
    );
}

#[test]
fn a_question_below_the_projects_floor_is_an_error() {
    let scene = Scene::new(&ordinary());
    scene.write(&scene.root().join(".ferrum/config.toml"), "safety = \"high\"\n");
    let questions =
        "{\"id\":1,\"safety\":\"medium\",\"command\":\"ls\"}\n{\"id\":2,\"command\":\"touch x\"}\n";
    let answers = batch(&scene, &[], questions);
    assert_eq!(answers[0]["verdict"], "error");
    assert!(
        answers[0]["message"]
            .as_str()
            .is_some_and(|text| text.contains("floor")),
        "{}",
        answers[0]
    );
    assert_eq!(answers[1]["code"], "not-inspection");
}

/// No session could start here at medium, but policy can be asked.
#[test]
fn no_namespace_is_needed() {
    let scene = Scene::new(&ordinary());
    let mut run = scene.ferrum(["policy", "explain", "bash", "ls ;; pwd"]);
    run.without_namespaces = true;
    let output = run.output();
    assert_eq!(output.status, Some(5), "{}", output.all());
    assert!(output.out().contains("(malformed)"), "{}", output.out());
}

#[test]
fn each_line_is_answered_at_once() {
    let scene = Scene::new(&ordinary());
    let mut command = scene.ferrum(["policy", "explain", "--stdin"]).command();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ferrum starts");
    let mut input = child.stdin.take().expect("piped");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    for id in 0..3 {
        writeln!(input, "{}", json!({ "id": id, "command": "ls" })).expect("it listens");
        // Blocks for ever if the answer waits for more questions.
        let mut line = String::new();
        output.read_line(&mut line).expect("an answer");
        assert!(line.contains(&format!("\"id\":{id}")), "{line}");
    }
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_host_in_role_check_runs_nothing_and_says_nothing_of_walls() {
    let scene = Scene::new(&ordinary());
    let mut launcher = Launcher::start(&scene);
    launcher.introduce(&charter(&scene));
    let question = |id| ToHost::Explain {
        id,
        query: Query {
            tier: Some(Tier::High),
            shell: None,
            isolation: None,
            tool: "bash".to_owned(),
            act: Act::Run("touch x".to_owned()),
            detail: false,
        },
    };
    let open = |launcher: &mut Launcher, host| {
        let (cwd, wish) = (PathBytes::from(scene.root().as_path()), Wish::default());
        let request = ToLauncher::OpenCheck { host, cwd, wish };
        let mut line = launcher.open_with(&request).expect("a host");
        line.send_bytes(&tool(&hello_host()));
        assert!(matches!(line.receive(), Some(FromHost::Hello { .. })));
        assert!(matches!(line.receive(), Some(FromHost::Granted(_))));
        line
    };
    let mut line = open(&mut launcher, 1);
    line.send_bytes(&tool(&question(5)));
    let Some(FromHost::Explained {
        id: 5,
        answer: Explanation::Refused(refusal),
        basis: None,
    }) = line.receive()
    else {
        panic!("no answer");
    };
    assert_eq!(refusal.code, "not-inspection");
    line.send_bytes(&tool(&call(6, "touch called")));
    assert!(line.is_closed(), "a call was taken");
    let mut line = open(&mut launcher, 2);
    line.send_bytes(&[tool(&question(2)), tool(&question(2))].concat());
    assert!(matches!(line.receive(), Some(FromHost::Explained { .. })));
    assert!(line.is_closed(), "a repeated id was taken");
    assert!(!scene.root().join("called").exists());
}

fn asked(scene: &Scene, words: &[&str]) -> Value {
    let output = explain(scene, &[&["--json"], words].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {}", output.all()))
}

/// One line for each act: verdict, code, and what would change it.
#[test]
fn every_subject_has_a_verdict_a_rule_and_the_smallest_change() {
    let scene = Scene::new(&ordinary());
    let outside = scene.outside().display().to_string();
    let home = scene.home().display().to_string();
    let add = |key: &str, place: &str| format!("add \"{place}\" to [tools] {key} in config.toml");
    let fill = |text: &str| text.replace("@OUT@", &outside).replace("@HOME@", &home);
    let auto = "set [tools] shell = \"auto\" in config.toml";
    let medium = "set [safety] tier = \"medium\" in config.toml";
    let rows: &[(&[&str], &str, &str)] = &[
        (&["bash", "ls"], "", ""),
        (&["bash", "source x"], "eval", auto),
        (
            &["bash", "echo x > @OUT@/new"],
            "outside-root",
            &add("writable_roots", &outside),
        ),
        (&["bash", "sudo true"], "privilege", ""),
        (&["bash", "rm -rf /"], "catastrophic", ""),
        (&["bash", "echo x >> ~/.ssh/config"], "protected", ""),
        (&["bash", "echo (x"], "malformed", ""),
        (
            &["--safety", "high", "bash", "cargo build"],
            "not-inspection",
            medium,
        ),
        (&["read", "README.md"], "", ""),
        (&["read", "/etc/passwd"], "", ""),
        (&["read", "/tmp/of-the-session"], "", ""),
        (&["read", "@HOME@/.ssh/id_ed25519"], "secret", ""),
        (
            &["read", "@OUT@/precious.txt"],
            "outside-view",
            &add("readable_roots", &outside),
        ),
        (
            &["read", "@HOME@/Documents/diary.txt"],
            "outside-view",
            &add("readable_roots", &format!("{home}/Documents")),
        ),
        (&["write", "src/new.rs"], "", ""),
        (
            &["write", "@OUT@/new"],
            "outside-root",
            &add("writable_roots", &outside),
        ),
        (&["write", ".git/hooks/pre-commit"], "protected", ""),
        (&["write", "@HOME@/.bashrc"], "protected", ""),
        (&["--safety", "high", "edit", "README.md"], "tier", medium),
        (&["exec", "/bin/ls"], "", ""),
        (&["exec", "./src/main.rs"], "", ""),
        (
            &["exec", "@OUT@/tool.sh"],
            "outside-view",
            &add("readable_roots", &outside),
        ),
        (
            &["--safety", "high", "exec", "./src/main.rs"],
            "exec-path",
            medium,
        ),
        (&["connect", "127.0.0.1:80"], "", ""),
        (&["connect", "[::1]:80"], "", ""),
        (&["connect", "[::ffff:127.0.0.1]:80"], "", ""),
        (
            &["connect", "example.org:443"],
            "network",
            "set [tools] network = \"full\" in config.toml",
        ),
        (
            &["--safety", "high", "connect", "localhost:80"],
            "network",
            "ask for --network private",
        ),
    ];
    for (words, code, change) in rows {
        let words: Vec<String> = words.iter().map(|word| fill(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = asked(&scene, &words);
        let verdict = if code.is_empty() { "allow" } else { "deny" };
        assert_eq!(answer["verdict"], verdict, "{words:?}: {answer}");
        assert_eq!(
            answer["code"].as_str().unwrap_or_default(),
            *code,
            "{words:?}: {answer}"
        );
        // What lies below /home and not in the user's own is never proposed as a root.
        let foreign = scene.base().starts_with("/home") && change.starts_with("add ");
        if !foreign {
            assert_eq!(
                answer["change"].as_str().unwrap_or_default(),
                *change,
                "{words:?}: {answer}"
            );
        }
        assert!(answer["rule"]["name"].is_string(), "{words:?}: {answer}");
        let walls = answer["walls"].as_array().expect("walls");
        assert!(!walls.is_empty(), "{words:?}: {answer}");
        for wall in walls {
            assert_ne!(wall["held_by"], json!([]), "{words:?}: {answer}");
        }
    }
    for bad in ["example.org", "example.org:x", "a/b:80", ":80", "::1:80"] {
        let output = explain(&scene, &["connect", bad]);
        assert_eq!(output.status, Some(2), "{bad}: {}", output.all());
    }
}

/// A proposed change is one that works: made as it says, the act is allowed.
#[test]
fn a_change_that_is_named_makes_the_act_pass() {
    let scene = Scene::new(&ordinary());
    let project = scene.root().join(".ferrum/config.toml");
    scene.write(
        &project,
        "safety = \"high\"\n[tools]\nnetwork = \"none\"\ndeny = [\"write\"]\n",
    );
    let file = project.display().to_string();
    let answer = asked(&scene, &["bash", "make"]);
    assert_eq!(
        answer["change"],
        format!("remove safety from {file}:1"),
        "{answer}"
    );
    let origins = answer["rule"]["decided_by"].as_array().expect("origins");
    let safety = origins
        .iter()
        .find(|decided| decided["key"] == "safety")
        .expect("the tier");
    assert_eq!(
        safety["origins"],
        json!([{ "kind": "project", "file": file, "line": 1 }])
    );
    let answer = asked(&scene, &["connect", "example.org:443"]);
    // High takes its network from a wish alone.
    let change = format!("ask for --network full, and remove tools.network from {file}:3");
    assert_eq!(answer["change"], change, "{answer}");

    scene.write(
        &project,
        "[tools]\nnetwork = \"none\"\ndeny = [\"write\", \"edit\"]\n",
    );
    let answer = asked(&scene, &["write", "new.txt"]);
    assert_eq!(
        (&answer["code"], &answer["change"]),
        (&json!("tool"), &json!(format!("remove tools.deny from {file}:3")))
    );
    scene.write(&project, "[tools]\nnetwork = \"none\"\n");
    assert_eq!(asked(&scene, &["write", "new.txt"])["verdict"], "allow");

    let outside = scene.outside();
    let text = format!("[tools]\nwritable_roots = [\".\", {outside:?}]\n");
    scene.write(&scene.config_dir().join("config.toml"), text);
    let target = outside.join("new").display().to_string();
    assert_eq!(asked(&scene, &["write", &target])["verdict"], "allow");
    assert_eq!(
        asked(&scene, &["bash", &format!("echo x > {target}")])["verdict"],
        "allow"
    );
}

/// Each tool stands for itself: what is said is what its call comes to, and the change names it.
#[test]
fn a_tool_that_is_taken_away_does_nothing_whatever_another_may_do() {
    let scene = Scene::new(&ordinary());
    let project = scene.root().join(".ferrum/config.toml");
    for (tool, input) in [
        ("write", "new.txt"),
        ("edit", "README.md"),
        ("read", "README.md"),
        ("ls", "."),
        ("find", "."),
        ("grep", "."),
        ("bash", "ls"),
        ("wait", "true"),
    ] {
        let text = format!(
            "[tools]\ndeny = [{tool:?}]\n[[expect]]\ntool = {tool:?}\ninput = {input:?}\nverdict = \"deny\"\n"
        );
        scene.write(&project, text);
        let answer = asked(&scene, &[tool, input]);
        assert_eq!(
            (&answer["verdict"], &answer["code"]),
            (&json!("deny"), &json!("tool")),
            "{tool}: {answer}"
        );
        assert_eq!(
            answer["change"],
            format!("remove tools.deny from {}:2", project.display()),
            "{answer}"
        );
        let origins = &answer["rule"]["decided_by"][0]["origins"];
        assert_eq!(origins.as_array().map(Vec::len), Some(1), "{answer}");
        assert_eq!(origins[0]["line"], 2, "{answer}");
        let checked = scene.ferrum(["policy", "check"]).output();
        assert_eq!(checked.status, Some(0), "{tool}: {}", checked.all());
        // Its neighbours are as they were.
        let others = [
            ("write", "new.txt"),
            ("edit", "README.md"),
            ("read", "README.md"),
            ("ls", "."),
        ];
        for (other, input) in others.into_iter().filter(|(other, _)| *other != tool) {
            assert_eq!(
                asked(&scene, &[other, input])["verdict"],
                "allow",
                "{tool}: {other}"
            );
        }
    }
    scene.write(&project, "[tools]\ndeny = [\"edit\"]\n");
    let arguments = json!({ "path": "README.md", "edits": [{ "old_text": "a", "new_text": "b" }] });
    assert_eq!(scene.tool("edit", &arguments, &[]).outcome(), "refused");
}

/// Of the built-in tools bash alone starts programs, and programs alone connect.
#[test]
fn without_bash_nothing_is_executed_and_nothing_connects() {
    let scene = Scene::new(&ordinary());
    let project = scene.root().join(".ferrum/config.toml");
    scene.write(&project, "[tools]\ndeny = [\"bash\"]\n");
    let remove = format!("remove tools.deny from {}:2", project.display());
    for (words, change) in [
        (["exec", "/bin/ls"], remove.clone()),
        (["connect", "127.0.0.1:80"], remove.clone()),
        (["wait", "true"], remove.clone()),
        (
            ["connect", "example.org:443"],
            format!("{remove}, and set [tools] network = \"full\" in config.toml"),
        ),
    ] {
        let answer = asked(&scene, &words);
        assert_eq!(
            (&answer["verdict"], &answer["code"]),
            (&json!("deny"), &json!("tool")),
            "{words:?}: {answer}"
        );
        assert_eq!(answer["change"], change, "{words:?}: {answer}");
    }
    scene.write(&project, "[tools]\ndeny = [\"wait\"]\n");
    assert_eq!(asked(&scene, &["exec", "/bin/ls"])["verdict"], "allow");
    let answer = asked(&scene, &["--safety", "high", "edit", "README.md"]);
    assert_eq!(answer["code"], "tier", "{answer}");
}

/// What is said of reading is what the tool finds.
#[test]
fn reading_is_explained_as_it_happens() {
    for who in everyone() {
        let scene = Scene::new(&who);
        for path in [
            "README.md",
            "link.md",
            "../../Documents/diary.txt",
            "../library/lib.txt",
            "../../../outside/precious.txt",
            "/etc/hostname",
            "../../.bashrc",
        ] {
            let explained = asked(&scene, &["read", path]);
            let ran = scene.tool("read", &json!({ "path": path }), &[]);
            assert_eq!(
                explained["verdict"] == "allow",
                ran.outcome() == "done",
                "{path}: {explained} but {}",
                ran.output.all()
            );
        }
    }
}

#[test]
fn servers_are_explained_by_both_files() {
    let scene = Scene::new(&ordinary());
    let user = "[[mcp.servers]]\nname = \"a\"\ncommand = \"x\"\n[[mcp.servers]]\nname = \"b\"\ncommand = \"x\"\nenabled = false\n";
    scene.write(&scene.config_dir().join("config.toml"), user);
    let answer = asked(&scene, &["mcp", "a"]);
    assert_eq!(answer["verdict"], "allow", "{answer}");
    // It has the user's own authority: nothing holds it.
    assert_eq!(
        answer["walls"],
        json!([{ "promise": "isolation user", "held_by": [] }])
    );
    assert_eq!(
        asked(&scene, &["mcp", "b"])["change"],
        "set its enabled = true in config.toml"
    );
    assert_eq!(explain(&scene, &["mcp", "c"]).status, Some(2));
    let project = scene.root().join(".ferrum/config.toml");
    scene.write(&project, "[mcp]\nallow = [\"b\"]\n");
    let answer = asked(&scene, &["mcp", "a"]);
    assert_eq!(
        answer["change"],
        format!("remove mcp.allow from {}:2", project.display()),
        "{answer}"
    );
}

#[test]
fn a_batch_takes_every_subject_and_gives_details_when_asked() {
    let scene = Scene::new(&ordinary());
    let questions = concat!(
        "{\"id\":1,\"tool\":\"connect\",\"address\":\"example.org:443\",\"detail\":true}\n",
        "{\"id\":2,\"tool\":\"exec\",\"path\":\"/bin/ls\"}\n",
        "{\"id\":3,\"tool\":\"mcp\",\"server\":\"x\"}\n",
        "{\"id\":4,\"tool\":\"connect\",\"path\":\"x\"}\n",
        "{\"id\":5,\"command\":\"source x\",\"detail\":true}\n",
    );
    let answers = batch(&scene, &[], questions);
    let verdicts: Vec<&Value> = answers.iter().map(|answer| &answer["verdict"]).collect();
    assert_eq!(verdicts, ["deny", "allow", "error", "error", "deny"]);
    assert!(answers[0]["change"].is_string() && answers[4]["change"].is_string());
    assert!(answers[1].get("change").is_none(), "{}", answers[1]);
}
