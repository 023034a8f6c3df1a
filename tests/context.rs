//! What the model is told at the start, and what is told of what it left at the end.

use ferrum_tests::provider::{Answer, Provider, calls, says};
use ferrum_tests::run::Output;
use ferrum_tests::scene::Scene;
use ferrum_tests::schema::Schema;
use ferrum_tests::who::everyone;
use serde_json::{Value, json};

/// Runs a turn in which the model makes these calls, one a message, and answers.
fn turn(scene: &Scene, steps: &[(&str, Value)], args: &[&str]) -> (Output, Provider) {
    let mut script: Vec<Answer> = steps
        .iter()
        .map(|(tool, input)| calls(&[(*tool, input.clone())]))
        .collect();
    script.push(says("done"));
    let provider = Provider::start(script);
    scene.write(&scene.config_dir().join("config.toml"), provider.config());
    let output = scene.ferrum([&["-p", "go"], args].concat()).output();
    (output, provider)
}

/// The end of a turn that was answered names these, and not those.
fn named(output: &Output, these: &[&str], not: &[&str]) {
    assert_eq!(output.status, Some(0), "{}", output.all());
    let said = output.err();
    for line in these {
        assert!(said.contains(line), "{line:?} is missing in {said}");
    }
    for name in not {
        assert!(!said.contains(name), "{name} in {said}");
    }
}

fn sessions(scene: &Scene) -> String {
    let sessions = std::fs::read_dir(scene.data_dir().join("sessions")).expect("sessions");
    let texts = sessions
        .flatten()
        .filter(|entry| entry.file_name() != "old.jsonl")
        .map(|entry| std::fs::read_to_string(entry.path()).expect("a session"));
    texts.collect()
}

/// Tokens are the user's money: 9 KB is what a request may have that says nothing yet.
#[test]
fn the_first_request_is_small() {
    let scene = Scene::new(&ferrum_tests::who::ordinary());
    std::fs::remove_dir_all(scene.root().join(".ferrum")).ok();
    let (output, provider) = turn(&scene, &[], &[]);
    assert_eq!(output.status, Some(0), "{}", output.all());
    let request = provider.requests().into_iter().next().expect("a request");
    let tools = request.body["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 10);
    let bytes = request.body.to_string().len();
    assert!(bytes <= 9 * 1024, "{bytes} bytes");
}

#[test]
fn a_turn_names_what_it_left_that_others_obey() {
    for who in everyone() {
        let scene = Scene::new(&who);
        scene.write(&scene.root().join("AGENTS.md"), "rules\n");
        scene.write(&scene.root().join("Makefile"), "all:\n");
        scene.write(
            &scene.root().join("settings.sh"),
            "git config core.pager ./evil\n",
        );
        scene.write(&scene.root().join("untouched/package.json"), "{}\n");
        let script = "mkdir -p .github/workflows pkg node_modules/m && echo x > .github/workflows/ci.yml && \
                      echo x > node_modules/m/package.json && echo x > pkg/ordinary.txt && ln Makefile link && \
                      echo x >> link && bash settings.sh";
        let steps = [
            ("bash", json!({ "command": script })),
            ("write", json!({ "path": "pkg/.envrc", "content": "x" })),
            (
                "edit",
                json!({ "path": "AGENTS.md", "edits": [{ "old_text": "rules", "new_text": "others" }] }),
            ),
        ];
        let (output, _) = turn(&scene, &steps, &[]);
        named(
            &output,
            &[
                "  AGENTS.md (agent, changed)\n",
                "  Makefile (build, changed)\n",
                "  .github/workflows/ci.yml (ci, new)\n",
                "  pkg/.envrc (shell, new)\n",
                "ferrum: found after a call: ",
            ],
            &["(package", "ordinary.txt ("],
        );
        let stored = sessions(&scene);
        assert!(
            stored.contains("\"steering\":{") && stored.contains("pkg/.envrc"),
            "{stored}"
        );
    }
}

#[test]
fn a_turn_names_what_gits_settings_lead_to() {
    for who in everyone() {
        let scene = Scene::new(&who);
        for (name, text) in [
            ("ci/checks/pre-push", "exit 0\n"),
            ("team.gitconfig", "[user]\n\tname = T\n"),
            ("tools/clean.sh", "cat\n"),
        ] {
            scene.write(&scene.root().join(name), text);
        }
        let settings = "git config core.hooksPath ci/checks && git config include.path ../team.gitconfig && \
                        git config filter.c.clean 'sh tools/clean.sh %f'";
        assert_eq!(scene.bash(settings).status, Some(0));
        let script = "echo exit 1 > ci/checks/pre-push; echo x > ci/checks/post-merge; echo x > ci/other; \
                      printf '[core]\\n\\tfsmonitor = ./evil\\n' >> team.gitconfig; echo x >> tools/clean.sh; echo x > tools/b.sh";
        let (output, _) = turn(&scene, &[("bash", json!({ "command": script }))], &[]);
        named(
            &output,
            &[
                "  ci/checks/pre-push (git, changed)\n",
                "  ci/checks/post-merge (git, new)\n",
                "  team.gitconfig (git, changed)\n",
                "  tools/clean.sh (git, changed)\n",
            ],
            &["ci/other (", "tools/b.sh ("],
        );
    }
}

#[test]
fn a_turn_that_was_cut_names_it_too_and_an_idle_one_nothing() {
    let scene = Scene::new(&ferrum_tests::who::ordinary());
    let steps = [("bash", json!({ "command": "echo x > justfile; sleep 60" }))];
    let (output, _) = turn(&scene, &steps, &["--timeout", "1", "--output", "json"]);
    assert_eq!(output.status, Some(3), "{}", output.all());
    let result: Value = serde_json::from_str(&output.out()).expect("one object");
    assert_eq!(result["steering"][0]["files"][0]["kind"], "task", "{result}");
    assert_eq!(result["steering"][0]["files"][0]["created"], true);
    let (output, _) = turn(
        &scene,
        &[("bash", json!({ "command": "ls > other.txt" }))],
        &["--output", "json"],
    );
    let result: Value = serde_json::from_str(&output.out()).expect("one object");
    assert_eq!(result["steering"], json!([]));
}

#[test]
fn an_untrusted_checkout_is_looked_through_and_believed_in_nothing() {
    for who in everyone() {
        for without_namespaces in [false, true] {
            let scene = Scene::new(&who);
            scene.write(&scene.root().join("AGENTS.md"), "RULE-OF-THE-PROJECT\n");
            scene.write(&scene.root().join(".envrc"), "evil\n");
            scene.write(&scene.config_dir().join("AGENTS.md"), "RULE-OF-THE-USER\n");
            let provider = Provider::start(vec![
                calls(&[("write", json!({ "path": "new.txt", "content": "x" }))]),
                says("done"),
            ]);
            scene.write(&scene.config_dir().join("config.toml"), provider.config());
            let mut run = scene.ferrum(["-p", "go", "--untrusted", "--output", "json"]);
            run.without_namespaces = without_namespaces;
            let output = run.output();
            assert_eq!(output.status, Some(0), "{}", output.all());
            let result: Value = serde_json::from_str(&output.out()).expect("one object");
            assert_eq!(result["session"]["safety"], "high");
            let isolation = &result["session"]["isolation"];
            assert_eq!(
                (&isolation["requested"], &isolation["effective"]),
                (&json!("full"), &json!("full"))
            );
            let told = result["notices"].to_string();
            for part in ["preflight: ", "/.envrc: obeyed by", "/AGENTS.md: obeyed by"] {
                assert!(told.contains(part), "{part} is missing in {told}");
            }
            let request = provider.requests().into_iter().next().expect("a request");
            let messages = request.body["messages"].as_array().expect("messages").clone();
            let text = |at: usize| messages[at]["content"].as_str().unwrap_or_default().to_owned();
            assert!(text(0).contains("RULE-OF-THE-USER") && !text(0).contains("RULE-OF-THE-PROJECT"));
            assert!(text(1).contains("RULE-OF-THE-PROJECT") && messages[1]["role"] == "user");
            assert_eq!(text(messages.len() - 1), "go");
            assert!(!scene.root().join("new.txt").exists());
            assert!(sessions(&scene).contains("\"untrusted\":true"));
        }
    }
}

#[test]
fn inspecting_names_what_would_run_and_runs_nothing() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let root = scene.root();
        let planted = "git config core.fsmonitor 'touch ran' && printf '#!/bin/sh\\ntouch ran\\n' > .git/hooks/post-checkout && \
                       ln -s ../../.ssh/id_ed25519 AGENTS.md && mkfifo pipe";
        let output = scene.run("/bin/bash").args(["-c", planted]).output();
        assert_eq!(output.status, Some(0), "{}", output.all());
        let output = scene.ferrum(["inspect", "--json"]).output();
        assert_eq!(output.status, Some(0), "{}", output.all());
        let found: Value = serde_json::from_str(&output.out()).expect("one object");
        Schema::named("inspect.json").expect(&found);
        assert_eq!(found["top"], json!(root.display().to_string()));
        let text = found["remarks"].to_string();
        for part in [
            "git would obey hooks/post-checkout",
            "git would obey config core.fsmonitor",
            "a link out of the checkout",
            "neither a file nor a directory",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let mut run = scene.ferrum(["inspect", "--dir", &root.display().to_string()]);
        run.cwd = scene.home();
        let output = run.output();
        assert!(
            output.out().contains("AGENTS.md: a link out of the checkout"),
            "{}",
            output.all()
        );
        assert!(!root.join("ran").exists() && !output.all().contains(&scene.secret));
    }
}

/// Text of the first request's messages, the system prompt first.
fn told(provider: &Provider) -> Vec<String> {
    let request = provider.requests().into_iter().next().expect("a request");
    let messages = request.body["messages"].as_array().expect("messages").clone();
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    messages.iter().map(text).collect()
}

#[test]
fn instructions_that_a_tool_changed_are_information_until_they_are_accepted() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let root = scene.root();
        scene.write(&root.join("AGENTS.md"), "RULE-ONE\n");
        scene.write(&root.join("guide.md"), "RULE-TWO\n");
        std::os::unix::fs::symlink("guide.md", root.join("agents.md")).expect("a link");
        std::os::unix::fs::lchown(root.join("agents.md"), Some(who.uid), Some(who.gid)).expect("its owner");
        let skill = "---\nname: new\ndescription: SKILL-NEW\n---\n";
        let steps = [
            (
                "edit",
                json!({ "path": "AGENTS.md", "edits": [{ "old_text": "ONE", "new_text": "EVIL" }] }),
            ),
            ("bash", json!({ "command": "echo RULE-EVIL >> guide.md" })),
            (
                "write",
                json!({ "path": ".agents/skills/new/SKILL.md", "content": skill }),
            ),
        ];
        let (output, provider) = turn(&scene, &steps, &[]);
        assert_eq!(output.status, Some(0), "{}", output.all());
        assert!(told(&provider)[0].contains("RULE-ONE") && told(&provider)[0].contains("RULE-TWO"));
        let (output, provider) = turn(&scene, &[], &[]);
        let texts = told(&provider);
        for part in ["RULE-EVIL", "SKILL-NEW", "RULE-TWO"] {
            assert!(
                !texts[0].contains(part) && texts[1].contains(part),
                "{part}: {texts:?}"
            );
        }
        assert!(output.err().contains("was changed by a tool"), "{}", output.all());
        let listed = scene.ferrum(["trust"]).output();
        assert!(
            listed.out().contains("AGENTS.md: changed by a tool"),
            "{}",
            listed.all()
        );
        let accepted = scene.ferrum(["trust", "AGENTS.md", "agents.md"]).output();
        assert_eq!(accepted.status, Some(0), "{}", accepted.all());
        let (_, provider) = turn(&scene, &[], &[]);
        let texts = told(&provider);
        assert!(
            texts[0].contains("RULE-EVIL")
                && texts[0].contains("RULE-TWO")
                && !texts[0].contains("SKILL-NEW")
        );
        let nothing = scene.ferrum(["trust", "README.md"]).output();
        assert_eq!(nothing.status, Some(2), "{}", nothing.all());
    }
}

#[test]
fn a_policy_that_was_in_force_does_not_go_away_unseen() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let file = scene.root().join(".ferrum/config.toml");
        let start = |expected: i32, part: &str| {
            let (output, _) = turn(&scene, &[], &[]);
            assert_eq!(output.status, Some(expected), "{}", output.all());
            assert!(
                output.err().contains(part),
                "{part:?} is missing in {}",
                output.all()
            );
        };
        scene.write(&file, "[tools]\ndeny = [\"wait\"]\n");
        start(0, "");
        scene.write(&file, "[tools]\ndeny = [\"wait\", \"bash\"]\n");
        start(0, "");
        scene.write(&file, "[tools]\ndeny = [\"wait\"]\n");
        start(2, "is looser than the policy that was in force (`tools`)");
        let output = scene.ferrum(["tool", "ls", "{\"path\": \".\"}"]).output();
        assert_eq!(output.status, Some(2), "{}", output.all());
        std::fs::remove_file(&file).expect("removed");
        start(2, "is gone");
        let listed = scene.ferrum(["trust"]).output();
        assert!(
            listed.out().contains("is gone; ferrum trust --policy"),
            "{}",
            listed.all()
        );
        let accepted = scene.ferrum(["trust", "--policy"]).output();
        assert_eq!(accepted.status, Some(0), "{}", accepted.all());
        assert!(accepted.out().contains("is gone"), "{}", accepted.all());
        start(0, "");
    }
}

#[test]
fn the_users_skills_can_be_read_and_nothing_else_beside_them() {
    for who in everyone() {
        for without_namespaces in [false, true] {
            let scene = Scene::new(&who);
            let skills = scene.config_dir().join("skills");
            scene.write(
                &skills.join("a/SKILL.md"),
                "---\nname: a\ndescription: A\n---\nBODY-A\n",
            );
            scene.write(
                &scene.home().join(".agents/skills/b/SKILL.md"),
                "---\nname: b\ndescription: B\n---\nBODY-B\n",
            );
            scene.write(&scene.config_dir().join("auth.json"), "SECRET-OF-AUTH");
            let file = |path: std::path::PathBuf| path.display().to_string();
            // Without mounts a tier below high has not all walls, which its configuration allows.
            for tier in ["medium", "high"] {
                let run = |tool: &str, arguments: &Value| {
                    let mut run = scene.tool_run(tool, arguments, &["--safety", tier]);
                    run.without_namespaces = without_namespaces;
                    run.output().all()
                };
                for (path, body) in [
                    (skills.join("a/SKILL.md"), "BODY-A"),
                    (scene.home().join(".agents/skills/b/SKILL.md"), "BODY-B"),
                ] {
                    let read = run("read", &json!({ "path": file(path.clone()) }));
                    assert!(read.contains(body), "{tier}: {read}");
                    let shown = run(
                        "bash",
                        &json!({ "command": format!("cat {}", file(path.clone())) }),
                    );
                    assert!(shown.contains(body), "{tier}: {shown}");
                    run("write", &json!({ "path": file(path.clone()), "content": "x" }));
                    run(
                        "bash",
                        &json!({ "command": format!("bash -c 'echo x >> {}'", file(path.clone())) }),
                    );
                    assert!(std::fs::read_to_string(&path).expect("there").contains(body));
                }
                let auth = run(
                    "bash",
                    &json!({ "command": format!("ls -a {0}; head {0}/*", file(scene.config_dir())) }),
                );
                assert!(!auth.contains("SECRET-OF-AUTH"), "{tier}: {auth}");
            }
        }
    }
}
