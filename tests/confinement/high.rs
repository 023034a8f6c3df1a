//! Tier high: the root is read-only and only the system's programs run.

use ferrum_tests::outside::Tree;
use ferrum_tests::scene::Scene;
use ferrum_tests::who::everyone;
use serde_json::json;

/// Each writes to the root when unconfined.
const WRITES: [&str; 16] = [
    "echo x > README.md",
    "echo x >> new",
    "touch new",
    "rm -f README.md",
    "mv README.md other",
    "cp README.md other",
    "mkdir new",
    "ln -s /etc new",
    "chmod 700 README.md",
    "sed -i s/first/second/ README.md",
    "git add -A . && git commit -qm x --allow-empty",
    "git config user.name x",
    "truncate -s 0 README.md",
    "python3 -c 'open(\"new\", \"w\")'",
    "find . -name README.md -delete",
    "sort README.md -o README.md.sorted",
];

#[test]
fn high_cannot_write_to_the_root() {
    for who in everyone() {
        let control = Scene::new(&who);
        for script in WRITES {
            let before = Tree::of(&control.root());
            let _ = control.bash(script);
            assert!(
                !before.changes(&Tree::of(&control.root())).is_empty(),
                "{script} proves nothing"
            );
            let _ = control.bash("git checkout -q -f HEAD; rm -rf new other");
        }
        let scene = Scene::new(&who);
        let before = Tree::of(&scene.root());
        for script in WRITES {
            let ran = scene.command(script, &["--safety", "high"]);
            assert!(
                ["refused", "done"].contains(&ran.outcome()),
                "{script}: {}",
                ran.output.all()
            );
            let changes = before.changes(&Tree::of(&scene.root()));
            assert_eq!(changes, Vec::<String>::new(), "{script} (as {})", who.name);
        }
        for (tool, arguments) in [
            ("write", json!({"path": "new", "content": "x"})),
            (
                "edit",
                json!({"path": "README.md", "edits": [{"old_text": "first", "new_text": "x"}]}),
            ),
        ] {
            let ran = scene.tool(tool, &arguments, &["--safety", "high"]);
            assert_eq!(ran.outcome(), "refused", "{tool}: {}", ran.output.all());
            assert_eq!(ran.output.status, Some(5), "{tool}");
        }
        assert_eq!(before.changes(&Tree::of(&scene.root())), Vec::<String>::new());
    }
}

/// A program of the root does not run, under whatever name it is called.
#[test]
fn high_runs_only_the_systems_programs() {
    for who in everyone() {
        let scene = Scene::new(&who);
        scene.write_program(&scene.root().join("probe-x"), "#!/bin/bash\necho won-$((6*7))\n");
        std::fs::copy("/bin/echo", scene.root().join("probe-e")).expect("a copy of a program");
        for script in [
            "./probe-x",
            "cat ./probe-x; ./probe-e won-42",
            "t=$(mktemp -d); cp probe-e $t/e && $t/e won-42; rm -r $t",
            "find . -name probe-x -exec {} ';'",
            "ls | xargs -I% ./probe-x",
            "/proc/self/cwd/probe-x",
            "git -c alias.x='!./probe-x' x",
            "/lib64/ld-linux-x86-64.so.2 ./probe-e won-42",
        ] {
            let free = scene.bash(script);
            assert!(
                free.out().contains("won-42"),
                "{script} proves nothing: {}",
                free.all()
            );
            let ran = scene.command(script, &["--safety", "high"]);
            assert!(
                ["refused", "done"].contains(&ran.outcome()),
                "{script}: {}",
                ran.output.all()
            );
            let said = ran.stdout().lines().any(|line| line.trim() == "won-42");
            assert!(
                !said,
                "{script} ran a program of the root (as {}): {}",
                who.name,
                ran.text()
            );
        }
    }
}

/// Inspection goes on.
#[test]
fn high_still_inspects() {
    for who in everyone() {
        let scene = Scene::new(&who);
        for script in [
            "ls -la",
            "cat README.md | wc -l",
            "git status --short",
            "git log --oneline -1",
            "grep -rn main src",
            "find . -name '*.rs'",
        ] {
            scene
                .command(script, &["--safety", "high"])
                .expect_success(&format!("{script} as {}", who.name));
        }
        let ran = scene.tool("read", &json!({"path": "README.md"}), &["--safety", "high"]);
        assert_eq!(ran.outcome(), "done", "{}", ran.output.all());
    }
}
