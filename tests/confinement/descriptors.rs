//! Descriptors that the front inherited by somebody's mistake.

use ferrum_tests::run::Run;
use ferrum_tests::scene::{Scene, ToolRun};
use ferrum_tests::who::everyone;

/// Opens a secret for reading, a file for writing, a directory and a socket of the outside as
/// descriptors 5 to 9, then starts the program.
const LEAK: &str = "exec 5< \"$0/outside/secret.txt\" 6>> \"$0/outside/precious.txt\" 7< \"$0/home\" \
                    8<> \"$0/outside/secret.txt\"; exec \"$@\"";

const PROBE: &str = "for fd in 5 6 7 8 9 10 11 12 13 14 15; do cat <&$fd; echo x >&$fd; \
                     cat /proc/self/fd/$fd/.netrc; done 2>/dev/null; ls /proc/self/fd";

fn leaking(scene: &Scene, run: Run) -> Run {
    run.under(["/bin/bash", "-c", LEAK, &scene.base().display().to_string()])
}

#[test]
fn inherited_descriptors_do_not_reach_a_command() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let free = leaking(&scene, scene.run("/bin/bash").args(["-c", PROBE])).output();
        assert!(
            free.out().contains(&scene.secret),
            "the probe proves nothing: {}",
            free.all()
        );

        let scene = Scene::new(&who);
        let before = scene.protected();
        let ran = ToolRun::of(&leaking(&scene, scene.command_run(PROBE, &[])));
        assert_eq!(ran.outcome(), "done", "{}", ran.output.all());
        assert!(!ran.output.all().contains(&scene.secret), "{}", ran.text());
        assert_eq!(before.changes(&scene.protected()), Vec::<String>::new());
        // 0, 1, 2 and the one that `ls` reads the directory with.
        assert_eq!(
            ran.stdout().split_whitespace().collect::<Vec<_>>(),
            ["0", "1", "2", "3"],
            "{}",
            ran.text()
        );
    }
}
