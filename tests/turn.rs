//! One whole turn without a key: the scripted tour through the real tools and walls.

use ferrum_tests::scene::Scene;
use ferrum_tests::who::everyone;

#[test]
fn the_tour_runs_through_the_real_tools_and_walls() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let before = scene.protected();
        let output = scene.ferrum(["-p", "show me"]).output();
        assert_eq!(output.status, Some(0), "{}", output.all());
        let said = output.all();
        for word in ["isolation", "full", "refused", "denied"] {
            assert!(
                said.to_lowercase().contains(word),
                "{word:?} is missing in: {said}"
            );
        }
        let sessions = std::fs::read_dir(scene.data_dir().join("sessions")).expect("sessions");
        let text: String = sessions
            .flatten()
            .filter(|entry| entry.file_name() != "old.jsonl")
            .map(|entry| std::fs::read_to_string(entry.path()).expect("a session"))
            .collect();
        for tool in ["ls", "read", "grep", "write", "edit", "bash"] {
            assert!(
                text.contains(&format!("\"name\":\"{tool}\"")),
                "{tool} is not in the session"
            );
        }
        assert!(!said.contains(&scene.secret) && !text.contains(&scene.secret));
        let mut changes = before.changes(&scene.protected());
        // Ferrum's own: made at its first start, before anything is run.
        changes.retain(|change| !change.ends_with("/audit.key"));
        assert_eq!(changes, Vec::<String>::new());
    }
}

/// The tour works in a directory that is no repository, and in an empty one.
#[test]
fn the_tour_needs_no_repository() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let dir = scene.home().join("work/empty");
        scene.write(&dir.join("x"), "x\n");
        std::fs::remove_file(dir.join("x")).expect("an empty directory");
        let mut run = scene.ferrum(["-p", "show me"]);
        run.cwd = dir;
        let output = run.output();
        assert_eq!(output.status, Some(0), "{}", output.all());
    }
}
