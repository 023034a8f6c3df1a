//! What ordinary work does lasts beyond its call, and what it cannot do it does not seem to do.
//!
//! Each call has a host of its own, as two sessions have.

use ferrum_tests::scene::Scene;
use ferrum_tests::who::everyone;
use std::fs;

#[test]
fn a_sparse_checkout_lasts_and_ends() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let calls = [
            "git sparse-checkout set src",
            "git sparse-checkout list | grep src && test -d src && test ! -e vendor/n.txt && test -z \"$(git status --porcelain)\"",
            "git sparse-checkout disable",
            "test -z \"$(git status --porcelain)\"",
        ];
        for call in calls {
            scene.command(call, &[]).expect_success(call);
        }
        assert!(!scene.root().join(".git/config.worktree").exists());
    }
}

#[test]
fn a_worktree_outside_the_view_stays_registered() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let before = scene.bash("git worktree list").all();
        let run = scene.command("git worktree prune && git gc -q && git worktree list", &[]);
        run.expect_success("prune");
        assert!(run.stdout().contains("/tree"), "{}", run.text());
        assert!(!run.stdout().contains("prunable"), "{}", run.text());
        assert_eq!(scene.bash("git worktree list").all(), before);
        let status = scene.bash("git -C ../tree status --short");
        assert_eq!(status.status, Some(0), "{}", status.all());
    }
}

#[test]
fn a_write_beside_the_root_fails_instead_of_vanishing() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let run = scene.command("echo x > ../beside.txt", &[]);
        assert_ne!(run.status(), Some(0), "{}", run.text());
        assert!(!scene.root().join("../beside.txt").exists());
        // The private home itself is there to be written.
        scene
            .command("echo x > ~/own && mkdir -p ~/.config/x", &[])
            .expect_success("home");
    }
}

#[test]
fn a_moved_repository_keeps_its_settings() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let call =
            "mv vendor/nested moved && git -C moved config user.name Moved && git -C moved log --oneline";
        let run = scene.command(call, &[]);
        run.expect_success(call);
        assert!(!run.text().contains("protected:"), "{}", run.text());
        let config = fs::read_to_string(scene.root().join("moved/.git/config")).expect("the moved config");
        assert!(config.contains("name = Moved"), "{config}");
    }
}

/// What was there when the host started can go as a whole: nothing is left that git would obey.
#[test]
fn nested_checkouts_can_be_removed_and_moved_in_a_later_call() {
    let calls = [
        "git worktree add -q wt -b wt && git -C wt commit -q --allow-empty -m x",
        "git worktree move wt wt2 && git -C wt2 status --short",
        "git -C wt2 log --oneline -1 && git worktree remove wt2 && ! git worktree list | grep wt2",
        "git submodule deinit -q -f sub && test ! -e sub/.git",
        "git -c protocol.file.allow=always submodule update -q --init sub && git -C sub log --oneline -1",
        "git rm -q -f sub && test ! -e sub",
        "mv vendor/nested moved && git -C moved log --oneline -1",
        "rm -rf moved && test ! -e moved",
    ];
    for who in everyone() {
        let scene = Scene::new(&who);
        for call in calls {
            let run = scene.command(call, &[]);
            run.expect_success(call);
            for told in ["put back", "could not"] {
                assert!(!run.text().contains(told), "{call}: {}", run.text());
            }
        }
    }
}

#[test]
fn a_diff_shows_what_changed() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let run = scene.command("echo changed >> README.md && git diff", &[]);
        run.expect_success("git diff");
        assert!(run.stdout().contains("+changed"), "{}", run.text());
    }
}

/// A directory that the user had closed is as closed after a call, and a command can close its own.
#[test]
fn the_modes_of_directories_are_left_as_they_are() {
    for who in everyone() {
        let scene = Scene::new(&who);
        assert_eq!(scene.bash("chmod 311 .").status, Some(0));
        scene.command("true", &[]).expect_success("true");
        let mode = scene.bash("stat -c %a .");
        assert_eq!(mode.out().trim(), "311", "as {}", who.name);
    }
}
