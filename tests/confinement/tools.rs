//! The native tools live behind the same walls as commands.

use ferrum_tests::scene::Scene;
use ferrum_tests::who::everyone;
use serde_json::{Value, json};

fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({ "path": path })),
        ("grep", json!({ "pattern": ".", "path": path })),
        ("ls", json!({ "path": path })),
        ("find", json!({ "path": path })),
        ("write", json!({ "path": path, "content": "x" })),
        (
            "edit",
            json!({ "path": path, "edits": [{ "old_text": "l", "new_text": "x" }] }),
        ),
    ]
}

#[test]
fn native_tools_neither_read_nor_change_anything_outside() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let root = scene.root();
        let link = |name: &str, to: std::path::PathBuf| {
            std::os::unix::fs::symlink(to, root.join(name)).expect("a link");
        };
        link("probe-file", scene.home().join(".netrc"));
        link("probe-dir", scene.home());
        link("probe-new", scene.outside().join("new"));
        link("probe-proc", "/proc/self/root".into());
        let before = scene.protected();
        let home = scene.home().display().to_string();
        for path in [
            format!("{home}/.netrc"),
            format!("{home}/.ssh/id_ed25519"),
            format!("{home}/.config/ferrum/auth.json"),
            format!("{home}/Documents"),
            format!("{home}/.bashrc"),
            "../../.netrc".to_owned(),
            "probe-file".to_owned(),
            "probe-dir/.netrc".to_owned(),
            "probe-dir/Documents/diary.txt".to_owned(),
            "probe-new".to_owned(),
            format!("probe-proc{home}/.netrc"),
            format!("/proc/self/root{home}/.netrc"),
            "/proc/1/environ".to_owned(),
            "/proc/self/environ".to_owned(),
            "/etc/shadow".to_owned(),
            scene.outside().join("precious.txt").display().to_string(),
            scene.outside().join("new").display().to_string(),
        ] {
            for (tool, arguments) in calls(&path) {
                let ran = scene.tool(tool, &arguments, &["--safety", "medium"]);
                let answer = ran.output.all();
                assert!(
                    !answer.contains(&scene.secret),
                    "{tool} {path} (as {}): {answer}",
                    who.name
                );
                assert!(!answer.contains("root:"), "{tool} {path}: {answer}");
                assert_eq!(
                    before.changes(&scene.protected()),
                    Vec::<String>::new(),
                    "{tool} {path}: {answer}"
                );
                // A file of that name in the private home may be made.
                let private = path.contains("/home/") || path.starts_with("..") || path.starts_with("probe-");
                if matches!(tool, "write" | "edit") && !private {
                    assert_ne!(ran.outcome(), "done", "{tool} {path} (as {}): {answer}", who.name);
                }
            }
        }
    }
}

#[test]
fn native_tools_do_not_change_what_runs_on_its_own() {
    for who in everyone() {
        let scene = Scene::new(&who);
        std::os::unix::fs::symlink(".git", scene.root().join("probe-git")).expect("a link");
        let before = scene.protected();
        for path in [
            ".git/hooks/post-commit",
            ".git/config",
            ".git/commondir",
            ".git/config.worktree",
            "probe-git/config",
            "probe-git/hooks/pre-commit",
            "vendor/nested/.git/hooks/post-commit",
            "vendor/nested/.git/config",
            ".git/modules/sub/config",
            ".git/modules/sub/hooks/post-commit",
            ".git/worktrees/tree/commondir",
            ".git/worktrees/tree/gitdir",
            "sub/.git",
            "src/.git",
            ".ferrum/config.toml",
            "src/.ferrum/config.toml",
            "src/../.git/hooks/post-commit",
        ] {
            let arguments = json!({"path": path, "content": "x"});
            let ran = scene.tool("write", &arguments, &["--safety", "medium"]);
            assert_ne!(
                ran.outcome(),
                "done",
                "write {path} (as {}): {}",
                who.name,
                ran.output.all()
            );
            assert_eq!(
                before.changes(&scene.protected()),
                Vec::<String>::new(),
                "write {path}"
            );
        }
    }
}

/// Odd files do not hang a tool.
#[test]
fn special_files_are_refused_at_once() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let made = scene.bash("mkfifo probe-fifo && ln -s /dev/zero probe-zero");
        assert_eq!(made.status, Some(0));
        for path in ["probe-fifo", "probe-zero", "/dev/zero", "/dev/tty"] {
            for (tool, arguments) in [
                ("read", json!({ "path": path })),
                ("grep", json!({ "pattern": "x", "path": path })),
                ("write", json!({ "path": path, "content": "x" })),
            ] {
                let mut run = scene.tool_run(tool, &arguments, &[]);
                run.deadline = std::time::Duration::from_secs(20);
                let output = run.output();
                assert!(!output.timed_out, "{tool} {path} hangs");
            }
        }
    }
}
