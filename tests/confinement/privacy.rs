//! Shared places of the machine: what a command puts or finds there is its session's own.

use ferrum_tests::scene::{Scene, unique};
use ferrum_tests::who::everyone;
use serde_json::json;
use std::path::Path;

/// Files that a command makes in shared directories are not on the machine, and the machine's
/// are not in its view.
#[test]
fn temporary_directories_and_shared_memory_are_private() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let name = format!("ferrum-test-{}", unique());
        for dir in ["/tmp", "/var/tmp", "/dev/shm"] {
            let mine = Path::new(dir).join(format!("{name}-outside"));
            scene.write(&mine, &scene.secret);
            let script = format!(
                "echo x > {dir}/{name}; cat {dir}/{name} && ! cat {}",
                mine.display()
            );
            let ran = scene.command(&script, &[]);
            let leaked = Path::new(dir).join(&name).exists();
            std::fs::remove_file(&mine).expect("the file outside");
            ran.expect_success(&format!("use of {dir} as {}", who.name));
            assert!(!leaked, "{dir} is the machine's own");
            assert!(!ran.output.all().contains(&scene.secret));
        }
    }
}

/// System V segments and message queues of the machine are not the session's.
#[test]
fn system_v_memory_is_private() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let made = scene.bash("ipcmk -M 64 -p 600");
        let Some(id) = made
            .out()
            .split_whitespace()
            .last()
            .and_then(|id| id.parse::<u32>().ok())
        else {
            ferrum_tests::not_tried("System V memory: ipcmk is missing");
            continue;
        };
        let ran = scene.command(
            &format!("ipcs -m -i {id} | grep -q bytes && echo seen; ipcrm -m {id} && echo removed; true"),
            &[],
        );
        let still = scene.bash(&format!("ipcs -m -i {id}"));
        let _ = scene.bash(&format!("ipcrm -m {id}"));
        assert_eq!(ran.outcome(), "done", "{}", ran.output.all());
        assert!(
            !ran.stdout().contains("seen") && !ran.stdout().contains("removed"),
            "{}",
            ran.text()
        );
        assert!(
            still.out().contains("bytes"),
            "the segment outside is gone: {}",
            still.all()
        );
    }
}

/// Shared memory, semaphores and queues would outlive the processes that made them. Both commands
/// run in one session.
#[test]
fn system_v_objects_end_with_their_command() {
    let command = "if [ -e $TMPDIR/second ]; then rm $TMPDIR/second; tail -q -n +2 /proc/sysvipc/*; echo won-$((6*7)); \
                   else touch $TMPDIR/second; ipcmk -M 4096 -S 1 -Q -p 0; fi";
    for who in everyone() {
        let scene = Scene::new(&who);
        let free = scene.bash(&format!("export TMPDIR=$PWD; {command}; {command}; ipcrm -a"));
        assert!(
            free.out().lines().count() > 4,
            "it proves nothing: {}",
            free.all()
        );
        let arguments = json!({
            "command": command,
            "seconds": 1,
            "until": { "output_matches": "won-42" },
            "max_wait_seconds": 60,
        });
        let ran = scene.tool("wait", &arguments, &["--shell", "auto"]);
        ran.expect_success("both commands");
        assert_eq!(ran.stdout().trim(), "won-42", "as {}: {}", who.name, ran.text());
    }
}

/// Neither the bytes nor the names of shared memory are without end.
#[test]
fn empty_files_do_not_fill_the_kernels_memory() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let ran = scene.command("df --output=itotal,size -B 4096 /dev/shm | tail -1", &[]);
        let numbers: Vec<u64> = ran
            .stdout()
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        assert!(
            matches!(numbers.as_slice(), [names, pages] if *names <= pages + 1),
            "{}",
            ran.text()
        );
    }
}

/// The view has no runtime directory: no bus, no container daemon, no agents.
#[test]
fn runtime_sockets_are_absent() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let ran = scene.command(
            "ls -A /run /var/run 2>/dev/null; find / -xdev -type s 2>/dev/null | grep -v \"^$PWD\"; env | grep -E 'SSH_AUTH_SOCK|DBUS|DOCKER|FERRUM|OPENAI|DATABASE'; true",
            &[],
        );
        ran.expect_success("look for sockets");
        assert_eq!(ran.stdout().trim(), "", "as {}", who.name);
    }
}

/// A command has no terminal, so it can neither type for the user nor read what is typed.
#[test]
fn the_operators_terminal_is_out_of_reach() {
    let probe = r#"python3 -c '
import fcntl, os
tty = os.open("/dev/tty", os.O_RDWR)
fcntl.ioctl(tty, 0x5412, b"x"); print(f"won-{6*7}")'; true"#;
    for who in everyone() {
        let scene = Scene::new(&who);
        let in_terminal = |run: ferrum_tests::run::Run| {
            let words: Vec<String> = std::iter::once(run.program.display().to_string())
                .chain(run.args.clone())
                .map(|word| quote(&word))
                .collect();
            let mut run = run;
            run.program = "/usr/bin/script".into();
            run.args = vec!["-qec".into(), words.join(" "), "/dev/null".into()];
            run.output()
        };
        let free = in_terminal(scene.run("/bin/bash").args(["-c", probe]));
        if !free.out().contains("won-42") {
            ferrum_tests::not_tried(&format!(
                "typing into the terminal: this kernel refuses it anyway: {}",
                free.out()
            ));
        }
        let held = in_terminal(scene.command_run(probe, &[]));
        assert!(held.out().contains("\"outcome\""), "{}", held.all());
        assert!(!held.out().contains("won-42\\n"), "{}", held.out());
    }
}

/// A word for a POSIX shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
