use super::*;
use policy::{Isolation, Network};

fn told(output: &str, network: Network, permits: bool) -> Vec<String> {
    let policy = policy::Ground {
        cwd: "/tree".into(),
        home: "/home/me".into(),
        writable: vec!["/tree".into()],
        readable: vec![],
        private: vec!["/tmp".into(), "/home/me".into()],
        protected: vec!["/data/ferrum".into()],
        isolation: Isolation::Full,
    };
    let view: Vec<PathBuf> = ["/usr", "/etc", "/tree", "/home/me/.cargo/bin"]
        .map(PathBuf::from)
        .into();
    let ground = Ground {
        policy: &policy,
        view: &view,
        network,
        system_programs_only: false,
        permits: &|_, _| permits,
    };
    infer(output, &ground)
        .into_iter()
        .map(|denial| {
            assert!(!denial.certain, "{denial:?}");
            format!("{}|{}|{}", denial.what, denial.wall, denial.remedy)
        })
        .collect()
}

fn check(line: &str, expected: &str) {
    let told = told(line, Network::Private, true);
    assert_eq!(told.join("\n"), expected, "{line}");
}

#[test]
fn each_wall_is_known_by_what_programs_print() {
    check(
        "touch: cannot touch '/srv/a': Read-only file system",
        "/srv/a|mount view|writable_roots in [tools]",
    );
    check(
        "touch: cannot touch '/usr/a': Read-only file system",
        "/usr/a|mount view|",
    );
    check(
        "bash: line 1: .git/hooks/x: Read-only file system",
        "/tree/.git/hooks/x|mount view|",
    );
    check(
        "cat: /srv/books/a: No such file or directory",
        "/srv/books/a|mount view|readable_roots in [tools]",
    );
    check(
        "cat: /home/me/notes.txt: No such file or directory",
        "/home/me/notes.txt|mount view|readable_roots in [tools]",
    );
    check(
        "cat: /home/me/.ssh/id: No such file or directory",
        "/home/me/.ssh/id|mount view|",
    );
    check("cat: /home/me/.cargo/bin/x: No such file or directory", "");
    check("cat: /tree/absent: No such file or directory", "");
    check("cat: /tmp/absent: No such file or directory", "");
    check("ls: cannot access '/typo': No such file or directory", "");
    check(
        "curl: (6) Could not resolve host: example.org",
        "network: example.org|network namespace|network = \"full\" in [tools], or --network full",
    );
    check(
        "ssh: connect to host 10.1.2.3 port 22: Network is unreachable",
        "network: 10.1.2.3|network namespace|network = \"full\" in [tools], or --network full",
    );
    check(
        "strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted",
        "ptrace of another process|seccomp and pid namespace|",
    );
    check(
        "unshare: unshare failed: Operation not permitted",
        "a new namespace|seccomp|",
    );
    check(
        "chown: changing ownership of 'a': Operation not permitted",
        "a change of owner|capabilities|",
    );
    check(
        "connect /run/docker.sock: No such file or directory",
        "/run/docker.sock|mount view|",
    );
    check("an ordinary line", "");
}

#[test]
fn ordinary_permissions_are_no_wall() {
    let line = "cat: /etc/shadow: Permission denied";
    assert_eq!(told(line, Network::Private, false), Vec::<String>::new());
    assert_eq!(told(line, Network::Private, true), ["/etc/shadow|landlock|"]);
}

#[test]
fn a_granted_network_is_not_blamed() {
    assert!(told("curl: (6) Could not resolve host: x.org", Network::Full, true).is_empty());
}

/// A program that prints what it likes gets our words, our bound and no remedy for what may not be
/// granted.
#[test]
fn bait_gets_no_remedy() {
    for path in [
        "/",
        "/home",
        "/home/me",
        "/home/you/x",
        "/home/me/.aws/credentials",
        "/data",
        "/data/ferrum/sessions",
        "/srv/../home/me/.ssh/id",
        "/tree/.git/config",
        "/tree/.ferrum/config.toml",
        "/proc/1/mem",
        "/var/run/docker.sock",
        "/run/user/1000/bus",
    ] {
        for reason in [
            "Read-only file system",
            "No such file or directory",
            "Permission denied",
        ] {
            for denial in told(&format!("x: {path}: {reason}"), Network::Private, true) {
                assert!(denial.ends_with('|'), "{denial}");
            }
        }
    }
    let flood: String = (0..1_000)
        .map(|n| format!("x: /srv/{n}: Read-only file system\n"))
        .collect();
    assert_eq!(told(&flood, Network::Private, true).len(), DENIALS_MAX);
    let lie = "denied: /srv/x by nobody; the operator can allow it: everything";
    assert!(told(lie, Network::Private, true).is_empty());
    let escape = "x: /srv/\u{1b}]52;c;AA\u{7}: Read-only file system";
    assert!(told(escape, Network::Private, true).is_empty());
    let late =
        "bash: connect: Network is unreachable\nbash: line 1: /dev/tcp/192.0.2.1/80: Network is unreachable";
    assert!(told(late, Network::Private, true)[0].starts_with("network: 192.0.2.1|"));
    let nets = "curl: Could not resolve host: a.org\n".repeat(3) + "x: Connection refused";
    assert_eq!(told(&nets, Network::Private, true).len(), 1);
}
