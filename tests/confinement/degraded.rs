//! Machines that refuse namespaces: Landlock and seccomp alone hold reading, writing, the network
//! and the front; what git and Ferrum run on their own is put back after the call.

use super::{World, network, persistence, processes, reads, refuse_all, writes};
use ferrum_tests::scene::{Scene, ToolRun};
use ferrum_tests::who::everyone;

const WORLDS: [World; 2] = [World::NamespacesDenied, World::NamespacesUsedUp];

#[test]
fn secrets_cannot_be_read_without_namespaces() {
    WORLDS.iter().for_each(|world| refuse_all(*world, reads::TABLE));
}

#[test]
fn nothing_outside_can_be_changed_without_namespaces() {
    WORLDS.iter().for_each(|world| refuse_all(*world, writes::TABLE));
}

#[test]
fn no_network_can_be_reached_without_namespaces() {
    WORLDS.iter().for_each(|world| refuse_all(*world, network::TABLE));
}

#[test]
fn what_was_planted_is_gone_after_the_call_without_namespaces() {
    refuse_all(World::NamespacesDenied, persistence::TABLE);
}

/// The processes outside are then to be seen, and no more than that.
#[test]
fn a_covered_proc_costs_the_pid_namespace_and_no_other_wall() {
    for table in [reads::TABLE, network::TABLE] {
        refuse_all(World::ProcCovered, table);
    }
    let unseen = |e: &super::Escape| !e.is_about_seeing();
    let touched: Vec<_> = processes::TABLE.iter().filter(|e| unseen(e)).copied().collect();
    for world in [World::ProcCovered, World::NamespacesDenied] {
        refuse_all(world, &touched);
    }
}

/// The step down is named, and whoever requires more gets an error instead.
#[test]
fn missing_namespaces_are_reported_and_full_isolation_can_be_required() {
    for who in everyone() {
        for world in WORLDS {
            let scene = Scene::new(&who);
            let ran = ToolRun::of(&world.wrap(scene.command_run("true", &[])));
            assert_eq!(
                ran.outcome(),
                "done",
                "{world:?} as {}: {}",
                who.name,
                ran.output.all()
            );
            assert_eq!(ran.effective(), "kernel", "{}", ran.json);
            let missing = ran.json["isolation"]["walls"].as_array().is_some_and(|walls| {
                walls.iter().any(|wall| {
                    wall["in_force"] == false && !wall["detail"].as_str().unwrap_or_default().is_empty()
                })
            });
            assert!(missing, "no wall is named as missing: {}", ran.json);

            scene.write(
                &scene.config_dir().join("config.toml"),
                "[isolation]\nrequire = \"full\"\n",
            );
            let refused = ToolRun::of(&world.wrap(scene.command_run("touch ran", &[])));
            assert_eq!(refused.output.status, Some(4), "{}", refused.output.all());
            assert!(!scene.root().join("ran").exists());
            assert!(
                refused.output.all().to_lowercase().contains("namespace"),
                "{}",
                refused.output.all()
            );
        }
    }
}

/// Low lacks the mount view here, and runs with that named; who requires more gets no session.
#[test]
fn what_is_required_at_low_is_required() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let low = |scene: &Scene| {
            let run = scene.command_run("echo ran", &["--safety", "low"]);
            ToolRun::of(&World::NamespacesDenied.wrap(run))
        };
        let ran = low(&scene);
        assert_eq!(ran.outcome(), "done", "{}", ran.output.all());
        assert_eq!(ran.effective(), "partial", "{}", ran.json);
        assert_eq!(ran.json["isolation"]["requested"], "any", "{}", ran.json);
        let user = scene.config_dir().join("config.toml");
        let project = scene.root().join(".ferrum/config.toml");
        for file in [&user, &project] {
            scene.write(file, "[isolation]\nrequire = \"kernel\"\n");
            let refused = low(&scene);
            assert_eq!(refused.output.status, Some(4), "{}", refused.output.all());
            scene.write(file, "[isolation]\nrequire = \"any\"\n");
            assert_eq!(low(&scene).outcome(), "done");
        }
    }
}

/// Without namespaces there is no private network, so it falls to none and says so.
#[test]
fn a_private_network_falls_to_none_without_namespaces() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let ran =
            ToolRun::of(&World::NamespacesDenied.wrap(scene.command_run("true", &["--network", "private"])));
        assert_eq!(ran.json["isolation"]["network"], "none", "{}", ran.output.all());
    }
}

/// The filter denies sockets by family at creation and leaves connected pairs alone.
#[test]
fn socket_pairs_still_work_without_namespaces() {
    for who in everyone() {
        let scene = Scene::new(&who);
        // A file: without full isolation inline code is refused by the text policy.
        scene.write(
            &scene.root().join("pair.py"),
            "import socket\na, b = socket.socketpair()\na.send(b'x')\nassert b.recv(1) == b'x'\n",
        );
        let script = "python3 pair.py";
        ToolRun::of(&World::NamespacesDenied.wrap(scene.command_run(script, &[])))
            .expect_success("a socket pair");
    }
}
