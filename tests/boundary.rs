//! Each side of each socket against a hostile peer: the host and the launcher against a front,
//! the front against a launcher. Whoever is lied to ends the connection; nobody hangs.

use ferrum_proto::charter::Wish;
use ferrum_proto::control::{FromLauncher, ToLauncher};
use ferrum_proto::frame::{FRAME_VERSION, encode};
use ferrum_proto::limits::{CONTROL_FRAME_BYTES_MAX, PENDING_CALLS_MAX, TO_HOST_FRAME_BYTES_MAX};
use ferrum_proto::reply::{FromHost, Outcome};
use ferrum_proto::request::ToHost;
use ferrum_proto::terms::{PathBytes, Tier};
use ferrum_tests::place;
use ferrum_tests::processes::{children, cpu_ticks, left_after};
use ferrum_tests::scene::{Scene, unique};
use ferrum_tests::who::{everyone, ordinary};
use ferrum_tests::wire::{
    Launcher, PATIENCE, call, charter, control, hello_host, hello_launcher, ready_host, tool,
};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

/// A frame around any body.
fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 1).expect("a small body");
    [&length.to_le_bytes()[..], &[FRAME_VERSION], body].concat()
}

/// Bytes that are no frame of either direction, whatever the phase.
fn junk() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("no frame at all", b"GET / HTTP/1.0\r\n\r\n".to_vec()),
        ("the longest length", vec![0xff; 64]),
        ("an empty frame", vec![0, 0, 0, 0]),
        ("a frame without a value", vec![1, 0, 0, 0, FRAME_VERSION]),
        ("an unknown variant", framed(&[200])),
        ("another frame version", vec![3, 0, 0, 0, 9, 0, 0]),
        (
            "a text that claims more than there is",
            framed(&[0, 1, 253, 255, 255, 255, 255, 255, 255, 255, 255]),
        ),
    ]
}

fn with_trailing(mut frame: Vec<u8>) -> Vec<u8> {
    let length = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]) + 1;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame.push(0);
    frame
}

/// The positive control: the same start, spoken politely, works.
#[test]
fn a_polite_front_gets_its_answer() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let mut launcher = Launcher::start(&scene);
        launcher.introduce(&charter(&scene));
        let mut line = ready_host(&mut launcher, &scene);
        assert!(line.send_bytes(&tool(&call(7, "echo polite"))));
        let mut text = Vec::new();
        let reply = loop {
            match line.receive::<FromHost>().expect("an answer") {
                FromHost::Chunk { id: 7, bytes } => text.extend(bytes),
                FromHost::Reply { id: 7, reply } => break reply,
                FromHost::Progress { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(reply.outcome, Outcome::Done);
        assert_eq!(reply.text_bytes, text.len() as u64);
        assert!(String::from_utf8_lossy(&text).contains("polite"));
    }
}

#[test]
fn a_launcher_ends_on_any_false_message() {
    let scene = Scene::new(&ordinary());
    let hello = control(&hello_launcher());
    let sealed = control(&ToLauncher::Charter(Box::new(charter(&scene))));
    let close = control(&ToLauncher::CloseHost { host: 1 });
    let open = control(&ToLauncher::OpenHost {
        host: 1,
        cwd: PathBytes::from(scene.root().as_path()),
        wish: Wish::default(),
    });
    let wrong_protocol = control(&ToLauncher::Hello {
        protocol: ferrum_proto::PROTOCOL + 1,
        build: String::new(),
    });
    let too_long = u32::try_from(CONTROL_FRAME_BYTES_MAX + 1)
        .expect("small")
        .to_le_bytes()
        .to_vec();
    let mut cases: Vec<(&str, Vec<u8>)> = vec![
        ("a charter before the greeting", sealed.clone()),
        ("a request before the greeting", close.clone()),
        ("a second greeting", [hello.clone(), hello.clone()].concat()),
        (
            "a request before the charter",
            [hello.clone(), close.clone()].concat(),
        ),
        (
            "a second charter",
            [hello.clone(), sealed.clone(), sealed.clone()].concat(),
        ),
        (
            "the end of a host that never was",
            [hello.clone(), sealed.clone(), close].concat(),
        ),
        (
            "a host without its socket",
            [hello.clone(), sealed.clone(), open].concat(),
        ),
        ("another protocol", wrong_protocol),
        ("one byte above the cap", too_long),
        ("trailing bytes", with_trailing(hello.clone())),
    ];
    cases.extend(junk());
    for (what, bytes) in cases {
        let mut launcher = Launcher::start(&scene);
        launcher.line.send_bytes(&bytes);
        assert!(launcher.ends(), "the launcher lives on after {what}");
    }
}

#[test]
fn a_launcher_takes_a_descriptor_only_with_a_host() {
    let scene = Scene::new(&ordinary());
    let null = std::fs::File::open("/dev/null").expect("/dev/null");
    let mut launcher = Launcher::start(&scene);
    launcher
        .line
        .send_with(&control(&hello_launcher()), &[null.as_raw_fd()]);
    assert!(launcher.ends(), "a descriptor beside the greeting is taken");

    let mut launcher = Launcher::start(&scene);
    launcher.introduce(&charter(&scene));
    let open = control(&ToLauncher::OpenHost {
        host: 1,
        cwd: PathBytes::from(scene.root().as_path()),
        wish: Wish::default(),
    });
    launcher
        .line
        .send_with(&open, &[null.as_raw_fd(), null.as_raw_fd()]);
    assert!(launcher.ends(), "two descriptors are taken");
}

#[test]
fn a_cut_frame_and_a_closed_socket_end_the_launcher() {
    let scene = Scene::new(&ordinary());
    for keep in [0, 3, 6] {
        let mut launcher = Launcher::start(&scene);
        launcher.line.send_bytes(&control(&hello_launcher())[..keep]);
        launcher.line.close();
        assert!(
            launcher.ends(),
            "the launcher lives on after {keep} bytes and the end"
        );
    }
}

#[test]
fn a_host_below_the_ceiling_is_refused() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let mut launcher = Launcher::start(&scene);
        let mut strict = charter(&scene);
        strict.ceiling = Tier::Medium;
        launcher.introduce(&strict);
        let low = Wish {
            tier: Some(Tier::Low),
            ..Wish::default()
        };
        let answer = launcher.open_host(1, &scene, low).err().expect("a refusal");
        assert!(
            answer.contains("HostRefused") && answer.to_lowercase().contains("ceiling"),
            "{answer}"
        );
        let high = Wish {
            tier: Some(Tier::High),
            ..Wish::default()
        };
        assert!(
            launcher.open_host(2, &scene, high).is_ok(),
            "a host above the ceiling is refused too"
        );
    }
}

#[test]
fn a_host_ends_on_any_false_message() {
    let scene = Scene::new(&ordinary());
    let too_long = u32::try_from(TO_HOST_FRAME_BYTES_MAX + 1)
        .expect("small")
        .to_le_bytes()
        .to_vec();
    let flood: Vec<u8> = (1..=PENDING_CALLS_MAX as u64 + 1)
        .flat_map(|id| tool(&call(id, "sleep 60")))
        .collect();
    let mut cases: Vec<(&str, Vec<u8>)> = vec![
        ("a second greeting", tool(&hello_host())),
        (
            "a repeated id",
            [tool(&call(2, "sleep 60")), tool(&call(2, "true"))].concat(),
        ),
        (
            "a smaller id",
            [tool(&call(2, "sleep 60")), tool(&call(1, "true"))].concat(),
        ),
        (
            "a cancel of what was never called",
            tool(&ToHost::Cancel { id: 9 }),
        ),
        ("one call above the bound of open calls", flood),
        ("one byte above the cap", too_long),
        ("trailing bytes", with_trailing(tool(&call(1, "true")))),
    ];
    cases.extend(junk());
    for (what, bytes) in cases {
        let mut launcher = Launcher::start(&scene);
        launcher.introduce(&charter(&scene));
        let mut line = ready_host(&mut launcher, &scene);
        line.send_bytes(&bytes);
        assert!(line.is_closed(), "the host lives on after {what}");
        let said = launcher.line.receive::<FromLauncher>();
        assert!(
            matches!(said, Some(FromLauncher::HostExited { host: 1, .. })),
            "{what}: {said:?}"
        );
    }
}

#[test]
fn a_host_ends_when_the_greeting_is_missing() {
    let scene = Scene::new(&ordinary());
    let mut launcher = Launcher::start(&scene);
    launcher.introduce(&charter(&scene));
    let mut line = launcher.open_host(1, &scene, Wish::default()).expect("a host");
    line.send_bytes(&tool(&call(1, "touch called")));
    assert!(line.is_closed());
    assert!(
        !scene.root().join("called").exists(),
        "a call ran before the greeting"
    );
}

/// The host reads its socket without taking descriptors: the kernel drops them.
#[test]
fn a_descriptor_that_is_sent_to_a_host_reaches_nobody() {
    let scene = Scene::new(&ordinary());
    let mut launcher = Launcher::start(&scene);
    launcher.introduce(&charter(&scene));
    let mut line = ready_host(&mut launcher, &scene);
    let secret = std::fs::File::open(scene.outside().join("secret.txt")).expect("a file");
    line.send_with(
        &tool(&call(1, "ls /proc/self/fd; cat <&3 <&4 <&5 <&6 <&7; true")),
        &[secret.as_raw_fd()],
    );
    let mut text = Vec::new();
    while let Some(message) = line.receive::<FromHost>() {
        match message {
            FromHost::Chunk { bytes, .. } => text.extend(bytes),
            FromHost::Reply { .. } => break,
            _ => {}
        }
    }
    assert!(!String::from_utf8_lossy(&text).contains(&scene.secret));
}

/// A hundred thousand calls at once neither hang the host nor fill its memory.
#[test]
fn a_flood_of_calls_ends_the_host() {
    let scene = Scene::new(&ordinary());
    let mut launcher = Launcher::start(&scene);
    launcher.introduce(&charter(&scene));
    let mut line = ready_host(&mut launcher, &scene);
    for id in 1..=100_000 {
        if !line.send_bytes(&tool(&call(id, "sleep 60"))) {
            break;
        }
    }
    assert!(line.is_closed());
}

/// A front that falls silent for ever costs nothing; one that goes takes everything along.
#[test]
fn everything_ends_with_the_control_socket() {
    let scene = Scene::new(&ordinary());
    let marker = unique();
    let mut launcher = Launcher::start(&scene);
    launcher.introduce(&charter(&scene));
    let mut line = ready_host(&mut launcher, &scene);
    assert!(line.send_bytes(&tool(&call(
        1,
        &format!("setsid sleep 300 & sleep 300; : {marker}")
    ))));
    assert!(
        ferrum_tests::processes::appeared(&marker, 1, PATIENCE),
        "the command did not start"
    );
    launcher.line.close();
    assert!(launcher.ends(), "the launcher outlives its socket");
    assert_eq!(
        left_after(&marker, std::time::Duration::from_secs(3)),
        Vec::<u32>::new()
    );
}

/// While a command sleeps, nobody of the session does anything.
#[test]
fn waiting_costs_no_processor() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let run = scene.command_run("sleep 2", &[]);
        let mut command = run.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut front = command.spawn().expect("ferrum starts");
        std::thread::sleep(Duration::from_millis(1800));
        let launchers = children(front.id());
        assert_eq!(launchers.len(), 1, "the front has one child");
        let ticks: u64 = [front.id(), launchers[0]].into_iter().map(cpu_ticks).sum();
        assert!(front.wait().expect("it ends").success());
        // A hundred a second; a start takes two or three.
        assert!(ticks < 30, "{ticks} ticks");
    }
}

/// clone3 hides the namespaces that it makes from every filter.
#[test]
fn clone3_does_not_exist_for_commands() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let run = scene.command(
            "python3 -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True); \
             print(c.syscall(435, None, 0), ctypes.get_errno())'",
            &[],
        );
        assert_eq!(run.stdout().trim(), "-1 38", "{}", run.text());
    }
}

/// A directory with the real front and a false host program.
fn front_with(scene: &Scene, toolhost: Option<&str>) -> std::path::PathBuf {
    let dir = scene.base().join("programs");
    std::fs::create_dir_all(&dir).expect("a directory");
    let ferrum = dir.join("ferrum");
    place::copy_program(&place::ferrum(), &ferrum);
    if let Some(script) = toolhost {
        let path = dir.join("ferrum-toolhost");
        scene.write_program(&path, script);
    }
    ferrum
}

/// A program that sends `bytes` over descriptor 3 and stays until the front is gone.
fn sends(scene: &Scene, bytes: &[u8]) -> String {
    let file = scene.base().join("answer");
    std::fs::write(&file, bytes).expect("the false answer");
    format!(
        "#!/bin/bash\ncat '{}' >&3\nexec cat <&3 > /dev/null\n",
        file.display()
    )
}

#[test]
fn the_front_gives_up_on_a_false_launcher() {
    let hello = |protocol, build: &str| {
        let message = FromLauncher::Hello {
            protocol,
            build: build.to_owned(),
        };
        encode(&message, CONTROL_FRAME_BYTES_MAX).expect("a frame")
    };
    let right = hello(ferrum_proto::PROTOCOL, ferrum_proto::BUILD);
    let started = encode(&FromLauncher::HostStarted { host: 99 }, CONTROL_FRAME_BYTES_MAX).expect("a frame");
    let mut cases: Vec<(&str, Vec<u8>)> = vec![
        (
            "another protocol",
            hello(ferrum_proto::PROTOCOL + 1, ferrum_proto::BUILD),
        ),
        ("a host that nobody asked for", [right.clone(), started].concat()),
        ("two greetings", [right.clone(), right.clone()].concat()),
        ("trailing bytes", with_trailing(right)),
    ];
    cases.extend(junk());
    for (what, bytes) in cases {
        let scene = Scene::new(&ordinary());
        let mut run = scene.command_run("touch ran", &[]);
        run.program = front_with(&scene, Some(&sends(&scene, &bytes)));
        run.deadline = PATIENCE * 2;
        let output = run.output();
        assert!(!output.timed_out, "the front hangs on {what}");
        assert!(
            matches!(output.status, Some(1 | 2 | 4)),
            "{what}: {}",
            output.all()
        );
        assert!(!output.stderr.is_empty(), "{what}: no message");
        assert!(
            !scene.root().join("ran").exists(),
            "{what}: something ran all the same"
        );
    }
}

#[test]
fn a_silent_launcher_is_a_fault_after_its_time() {
    let scene = Scene::new(&ordinary());
    let mut run = scene.command_run("true", &[]);
    run.program = front_with(&scene, Some("#!/bin/bash\nexec sleep 60\n"));
    run.deadline = PATIENCE * 2;
    let output = run.output();
    assert!(!output.timed_out, "the front waits for ever");
    assert_ne!(output.status, Some(0));
}

#[test]
fn a_missing_host_program_is_named_with_the_remedy() {
    let scene = Scene::new(&ordinary());
    let mut run = scene.command_run("true", &[]);
    run.program = front_with(&scene, None);
    let output = run.output();
    assert_ne!(output.status, Some(0));
    assert!(output.err().contains("ferrum-toolhost"), "{}", output.all());
    assert!(output.err().contains("cargo build"), "{}", output.all());
}

/// A program of that name in `PATH` is never taken, above all none inside a root.
#[test]
fn a_planted_host_program_in_the_path_is_not_taken() {
    let scene = Scene::new(&ordinary());
    let evil = scene.root().join("ferrum-toolhost");
    scene.write_program(
        &evil,
        &format!("#!/bin/bash\ntouch {}/pwned\n", scene.outside().display()),
    );
    for name in ["bash", "git", "sh"] {
        std::fs::copy(&evil, scene.root().join(name)).expect("a planted program");
    }
    let path = format!("{}:.:{}", scene.root().display(), ferrum_tests::run::PATH);
    let run = scene.command_run("echo ok", &[]).env("PATH", path);
    let ran = ferrum_tests::scene::ToolRun::of(&run);
    ran.expect_success("a command beside planted programs");
    assert!(
        !scene.outside().join("pwned").exists(),
        "a planted program ran outside"
    );
    assert!(ran.stdout().contains("ok"), "{}", ran.text());
}

/// The launcher starts hosts from its own image: what lies at its path later does not matter.
#[test]
fn replacing_the_host_program_later_changes_nothing() {
    let scene = Scene::new(&ordinary());
    let dir = scene.base().join("programs");
    std::fs::create_dir_all(&dir).expect("a directory");
    let copy = dir.join("ferrum-toolhost");
    place::copy_program(&place::toolhost(), &copy);
    let mut launcher = Launcher::start_program(&scene, &copy);
    launcher.introduce(&charter(&scene));
    std::fs::remove_file(&copy).expect("the copy goes");
    std::fs::write(
        &copy,
        format!("#!/bin/bash\ntouch {}/pwned\n", scene.outside().display()),
    )
    .expect("a planted program");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    drop(ready_host(&mut launcher, &scene));
    assert!(!scene.outside().join("pwned").exists());
}
